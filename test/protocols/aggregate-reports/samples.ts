/** @module Sample reports about a domain's mail as other hosts send them, and messages that carry them. */
import type { ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'

export interface DmarcFacts {
  readonly organisation?: string
  readonly reportId?: string
  readonly domain?: string
  readonly begin?: string
  readonly end?: string
  readonly records?: number
}

const RECORD = `<record><row><source_ip>192.0.2.1</source_ip><count>2</count><policy_evaluated><disposition>none</disposition>
<dkim>pass</dkim><spf>pass</spf></policy_evaluated></row><identifiers><header_from>example.com</header_from></identifiers>
<auth_results><spf><domain>example.com</domain><result>pass</result></spf></auth_results></record>\n`

export const dmarcXml = (facts: DmarcFacts = {}): string => `<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
<version>1.0</version>
<report_metadata>
  <org_name>${facts.organisation ?? 'receiver.example'}</org_name>
  <email>dmarc@receiver.example</email>
  <report_id>${facts.reportId ?? '13574247213587455'}</report_id>
  <date_range><begin>${facts.begin ?? '1763596800'}</begin><end>${facts.end ?? '1763683199'}</end></date_range>
</report_metadata>
<policy_published><domain>${facts.domain ?? 'example.com'}</domain><adkim>r</adkim><aspf>r</aspf><p>reject</p></policy_published>
${RECORD.repeat(facts.records ?? 1)}</feedback>
`

export const tlsJson = (facts: { readonly domain?: string; readonly reportId?: string } = {}): string =>
  JSON.stringify({
    'organization-name': 'Receiver Inc.',
    'date-range': { 'start-datetime': '2025-11-20T00:00:00Z', 'end-datetime': '2025-11-20T23:59:59Z' },
    'contact-info': 'tls@receiver.example',
    'report-id': facts.reportId ?? '2025-11-20T00:00:00Z_example.com',
    policies: [
      {
        policy: {
          'policy-type': 'sts',
          'policy-string': ['version: STSv1'],
          'policy-domain': facts.domain ?? 'example.com',
        },
        summary: { 'total-successful-session-count': 5326, 'total-failure-session-count': 3 },
      },
    ],
  })

export const NAME = 'receiver.example!example.com!1763596800!1763683199'

export const attachment = (
  filename: string | null,
  contentType: string,
  content: string | Uint8Array,
): ParsedAttachment => ({
  filename,
  contentType,
  contentId: null,
  disposition: 'attachment',
  content: typeof content === 'string' ? Buffer.from(content) : content,
})

export const messageWith = (
  attachments: readonly ParsedAttachment[],
  subject = 'Report Domain: example.com Submitter: receiver.example Report-ID: <1>',
  headers: ParsedMessage['headers'] = [],
): ParsedMessage => ({
  headers: [['Subject', subject], ...headers],
  from: 'noreply@receiver.example',
  to: 'dmarc@mail.tassis.test',
  cc: null,
  replyTo: null,
  fromAddresses: ['noreply@receiver.example'],
  toAddresses: ['dmarc@mail.tassis.test'],
  subject,
  messageId: null,
  inReplyTo: null,
  references: [],
  dateMs: null,
  text: null,
  html: null,
  attachments,
  isAutomatic: false,
})
