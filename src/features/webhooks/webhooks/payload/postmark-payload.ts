/** @module The payloads of a webhook with the format `postmark`, as the types of its client describe them. Pure. */
import { isoTime } from '#platform/http/envelope.ts'
import type { EmailEvent } from './email-event.ts'
import { POSTMARK_RECORD_TYPES } from './payload-format.ts'
import { toBounceFields, toMetadataTexts, toStreamName } from './postmark-terms.ts'

const NO_CLIENT = { Name: '', Company: '', Family: '' }

/** Undefined for an event that Postmark does not have. */
export function toPostmarkPayload(accountId: number, event: EmailEvent): Record<string, unknown> | undefined {
  const recordType = (POSTMARK_RECORD_TYPES as Readonly<Record<string, string>>)[event.type]
  if (recordType === undefined) return undefined
  const { emailId, stream, tags, metadata } = event
  return {
    RecordType: recordType,
    // A server of Postmark is an account here.
    ServerID: accountId,
    MessageStream: toStreamName(stream),
    MessageID: emailId,
    Tag: tags[0] ?? '',
    Metadata: toMetadataTexts(metadata),
    ...toMore(event),
  }
}

function toMore(event: EmailEvent): Record<string, unknown> {
  const { type, at, data } = event
  const recipient = event.recipient ?? event.to()[0] ?? ''
  const time = isoTime(at)
  switch (type) {
    case 'delivered':
      return { Recipient: recipient, DeliveredAt: time, Details: data.smtp_response ?? '' }
    case 'opened':
      return { ...toEngagement(event, recipient), FirstOpen: event.isFirstOpen(), ReadSeconds: 0 }
    case 'clicked':
      return { ...toEngagement(event, recipient), ClickLocation: 'HTML', OriginalLink: data.link_url ?? '' }
    case 'unsubscribed':
      return {
        Recipient: recipient,
        ChangedAt: time,
        Origin: 'Recipient',
        SuppressSending: true,
        SuppressionReason: 'ManualSuppression',
      }
    case 'complained':
      return toBounceFields(event, data.complainer ?? recipient, true)
    default:
      return toBounceFields(event, recipient, data.suppressed === true)
  }
}

/** What opens and clicks share. Programs and places of readers are not derived from what they send. */
const toEngagement = ({ at, data }: EmailEvent, recipient: string): Record<string, unknown> => ({
  Recipient: recipient,
  ReceivedAt: isoTime(at),
  UserAgent: data.user_agent ?? '',
  Platform: 'Unknown',
  Client: NO_CLIENT,
  OS: NO_CLIENT,
  Geo: data.ip_address ? { IP: data.ip_address } : {},
})
