/** @module The wire form of inbound mail. */
import { type Static, Type } from '@sinclair/typebox'
import { ContentState } from '#features/core/app/stored-content.ts'
import { type AttachmentJson, MAX_LISTED_ATTACHMENTS, toAttachmentWire } from '#features/receiving/received/parts.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, PAGE_FIELDS, StringEnum, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { isForgedResult } from '#protocols/authentication/results-header.ts'
import type { InboundEmail } from './inbound-emails.ts'
import { INBOUND_STATUSES, inboundStatusName } from './status.ts'

export const InboundAttachment = Type.Object({
  index: Type.Integer({ description: 'Its number, from 0: the last part of the path of its content.' }),
  filename: Nullable(Type.String(), { description: 'As the sender named it, without a folder.' }),
  content_type: Type.String({ description: 'As the sender says; not checked.' }),
  size: Type.Integer({ description: 'Octets, decoded.' }),
  content_id: Nullable(Type.String(), { description: 'What `cid:` in the HTML refers to, without angle brackets.' }),
  disposition: StringEnum(['attachment', 'inline'], { description: '`inline`: a part that the HTML shows.' }),
})

const STATUS_DESCRIPTION =
  '`received`; `delivered`: the webhook of its route took it; `failed`: it could not be parsed; `no_route`: it fell to no route.'

export const InboundQuery = Type.Object({
  ...PAGE_FIELDS,
  status: Type.Optional(StringEnum(INBOUND_STATUSES, { description: 'Only mail with this status.' })),
  route_id: Type.Optional(Type.String({ description: 'Only mail that fell to this route.' })),
  domain_id: Type.Optional(Type.String({ description: 'Only mail that came to this domain.' })),
})

export const InboundRecord = Type.Object({
  id: Uuid({ description: 'Id of the inbound email.' }),
  account_id: Uuid({ description: 'Account of the domain.' }),
  domain_id: Uuid({ description: 'Domain that it came to.' }),
  route_id: Nullable(Uuid(), { description: 'Route that it fell to; null: none, or it was deleted.' }),
  status: StringEnum(INBOUND_STATUSES, { description: STATUS_DESCRIPTION }),
  mail_from: Type.String({ description: 'Envelope sender; empty for bounces and other automatic mail.' }),
  rcpt_to: Type.Array(Type.String(), { description: 'Envelope recipients of the route.' }),
  from_address: Nullable(Type.String(), { description: 'Address of the From header.' }),
  to_addresses: Type.Array(Type.String(), { description: 'Addresses of the To header, at most 100.' }),
  from_header: Nullable(Type.String(), {
    description: 'From as it reads; it, To, Cc and the subject end after 10,000 characters, and `raw_headers` has all.',
  }),
  to_header: Nullable(Type.String(), { description: 'To as it reads.' }),
  cc_header: Nullable(Type.String(), { description: 'Cc as it reads.' }),
  subject: Type.String({ description: 'Decoded; empty when there is none.' }),
  message_id: Nullable(Type.String(), { description: 'With angle brackets.' }),
  attachments: Type.Array(InboundAttachment, {
    description: `What is attached, without the content; in a list the first ${MAX_LISTED_ATTACHMENTS} of a message with very many.`,
  }),
  size_bytes: Type.Integer({ description: 'Octets of the message as it came in.' }),
  raw_size: Type.Integer({ description: 'The same as size_bytes.' }),
  source_ip: Nullable(Type.String(), { description: 'Who handed it in.' }),
  spf_result: Nullable(Type.String(), { description: 'Verdict of SPF, as in `authentication`.' }),
  authentication: Nullable(Type.Unknown(), {
    description: 'SPF, DKIM, DMARC, ARC and reverse DNS: a verdict each, and `details`.',
  }),
  error_message: Nullable(Type.String(), {
    description: 'Why it could not be parsed, or why the webhook of its route did not take it.',
  }),
  webhook_delivered_at: Nullable(Timestamp(), { description: 'When the webhook of its route took it.' }),
  created_at: Timestamp({ description: 'When it was processed, right after it came in.' }),
  updated_at: Timestamp({ description: 'When it last changed.' }),
})
export type InboundRecord = Static<typeof InboundRecord>

export const InboundDetail = Type.Object({
  ...InboundRecord.properties,
  content: ContentState,
  text_body: Nullable(Type.String(), {
    description:
      'Plain text, as it was sent; none is made of the HTML. Of more than 2 MiB the beginning; all of it is an attachment.',
  }),
  html_body: Nullable(Type.String(), {
    description: 'Of a stranger: sanitise it before you show it. Bounded as text_body.',
  }),
  raw_headers: Nullable(Type.Record(Type.String(), Type.Unknown()), {
    description:
      'Header fields by their names in lower case: a text each, or an array of texts for those that come several times.',
  }),
})
export type InboundDetail = Static<typeof InboundDetail>

export const toInboundAttachmentWire = (
  attachment: AttachmentJson,
  index: number,
): Static<typeof InboundAttachment> => ({
  index,
  ...toAttachmentWire(attachment),
})

/** @param accountUuid public id of the account */
export const toInboundWire = (email: InboundEmail, accountUuid: string): InboundRecord => ({
  id: formatUuid(email.uuid),
  account_id: accountUuid,
  domain_id: formatUuid(email.domainUuid),
  route_id: email.routeUuid === null ? null : formatUuid(email.routeUuid),
  status: inboundStatusName(email.status),
  mail_from: email.mailFrom,
  rcpt_to: [...email.rcptTo],
  from_address: email.fromAddress,
  to_addresses: [...email.toAddresses],
  from_header: email.fromHeader,
  to_header: email.toHeader,
  cc_header: email.ccHeader,
  subject: email.subject,
  message_id: email.messageId,
  attachments: email.attachments.map(toInboundAttachmentWire),
  size_bytes: email.sizeBytes,
  raw_size: email.sizeBytes,
  source_ip: email.sourceIp,
  spf_result: email.spfResult,
  authentication: email.authentication,
  error_message: email.errorMessage,
  webhook_delivered_at: isoTimeOrNull(email.webhookDeliveredAt),
  created_at: isoTime(email.createdAt),
  updated_at: isoTime(email.updatedAt),
})

/**
 * Header fields by name: a map cannot hold a name twice, so what comes several times is a list. Without results that
 * claim to be ours (RFC 8601 §5).
 * @param hostname ours
 */
export function toHeadersWire(
  headers: readonly (readonly [name: string, value: string])[],
  hostname: string,
): Record<string, string | string[]> {
  const fields = new Map<string, string | string[]>()
  for (const [name, value] of headers) {
    if (isForgedResult(name, value, hostname)) continue
    const key = name.toLowerCase()
    const earlier = fields.get(key)
    fields.set(key, earlier === undefined ? value : [earlier, value].flat())
  }
  return Object.fromEntries(fields)
}
