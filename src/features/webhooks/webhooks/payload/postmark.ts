/**
 * @module What Postmark calls things of ours, in its interface (`drop-in`) and in the payloads of webhooks with the
 * format `postmark`, as the types of its client describe them. Pure.
 */
import type { EventData, EventType } from '#features/core/events/record.ts'
import { DEFAULT_STREAM } from '#features/setup/streams/streams.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { POSTMARK_RECORD_TYPES } from '../event-names.ts'
import type { EmailEvent } from './email-event.ts'

export { readEmailEvent } from './email-event.ts'

const OUTBOUND = 'outbound'
/** Postmark's stream for newsletters. Its mail has the List-Unsubscribe headers and stops for those who unsubscribed. */
const BROADCAST = 'broadcast'

/** The slug of a message stream: `outbound` is our stream `transactional`, others have the same name here. */
export const toSlug = (stream: string): string => (stream === OUTBOUND ? DEFAULT_STREAM : stream)

export const toStreamName = (slug: string): string => (slug === DEFAULT_STREAM ? OUTBOUND : slug)

/** Whether mail of the stream is not transactional. */
export const isMarketingStream = (stream: string | undefined): boolean => stream === BROADCAST

/** Postmark's metadata are texts. */
export const toMetadataTexts = (metadata: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )

/** The types of bounces, with their codes. */
const BOUNCES = {
  HardBounce: [1, 'Hard bounce', 'The server was unable to deliver your message: there is no such mailbox.'],
  Transient: [2, 'Message delayed', 'The server could not temporarily deliver your message; it will be tried again.'],
  DnsError: [256, 'DNS error', 'The DNS of the recipient domain cannot be used.'],
  SpamNotification: [512, 'Spam notification', 'The message was classified as spam.'],
  Unknown: [2048, 'Undelivered', 'The message could not be sent.'],
  SoftBounce: [4096, 'Soft bounce', 'The message was refused, but the address may be valid.'],
  SpamComplaint: [100001, 'Spam complaint', 'The recipient marked the message as spam.'],
  Blocked: [100006, 'ISP block', 'The receiving server blocked the message.'],
  DMARCPolicy: [100009, 'DMARC policy', 'The message was refused because it is not authenticated.'],
} as const
type BounceType = keyof typeof BOUNCES

/** The type of a bounce by our category; otherwise `HardBounce` or `SoftBounce`. */
const BOUNCES_BY_CATEGORY: ReadonlyMap<string, BounceType> = new Map([
  ['dns_failure', 'DnsError'],
  ['spam_content', 'SpamNotification'],
  ['authentication', 'DMARCPolicy'],
  ['policy', 'Blocked'],
  ['reputation', 'Blocked'],
  ['relay_denied', 'Blocked'],
] as const)

function toBounceType(event: EventType, { bounce_type, bounce_category }: EventData): BounceType {
  if (event === 'complained') return 'SpamComplaint'
  if (event === 'deferred') return 'Transient'
  if (event !== 'bounced') return 'Unknown'
  return BOUNCES_BY_CATEGORY.get(bounce_category ?? '') ?? (bounce_type === 'hard' ? 'HardBounce' : 'SoftBounce')
}

/** A bounce, a delay, a failure or a complaint. @param isInactive whether the address is suppressed */
export function toBounceFields(
  { type, seq, at, data, from, subject }: Pick<EmailEvent, 'type' | 'seq' | 'at' | 'data' | 'from' | 'subject'>,
  email: string,
  isInactive: boolean,
) {
  const name = toBounceType(type, data)
  const [code, title, description] = BOUNCES[name]
  return {
    ID: seq,
    Type: name,
    TypeCode: code as number,
    Name: title as string,
    Description: description as string,
    Details: data.smtp_response ?? data.reason ?? data.feedback_type ?? '',
    Email: email,
    From: from,
    BouncedAt: isoTime(at),
    DumpAvailable: false,
    Inactive: isInactive,
    CanActivate: isInactive && type !== 'complained',
    Subject: subject,
  }
}

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
