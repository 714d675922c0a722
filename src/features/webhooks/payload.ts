/**
 * @module What a webhook is told of an event of the feed. Made of what is stored and of nothing else, so that every attempt and every replay
 * sends the same body. Never signs, never sends.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { messageIdOf } from '../emails/accept.ts'
import { type EventData, type EventType, eventType, eventUuid } from '../events/record.ts'

/** An event with its email, its recipient and its account. */
interface Row {
  readonly type: number
  readonly at: Millis
  readonly data: string | null
  readonly accountUuid: Uint8Array
  readonly emailId: number
  readonly emailUuid: Uint8Array
  readonly from: string
  readonly subject: string
  readonly recipient: string | null
}

const sql = prepared((db) => ({
  event: db.prepare<Row, [number, number]>(
    `SELECT type, at, data, accounts.uuid AS accountUuid, emails.id AS emailId, emails.uuid AS emailUuid, from_address AS "from", subject,
     address AS recipient FROM events JOIN accounts ON accounts.id = events.account_id JOIN emails ON emails.id = events.email_id
     LEFT JOIN recipients ON recipients.id = recipient_id WHERE events.account_id = ? AND seq = ?`,
  ),
  // 0 is `to` of RECIPIENT_KINDS in emails/status.ts.
  toAddresses: db.prepare<{ address: string }, [number]>(
    'SELECT address FROM recipients WHERE email_id = ? AND kind = 0 ORDER BY id',
  ),
}))

/** What the body of an event is made of. */
interface Told {
  readonly emailId: string
  /** From header, as the API returns it. */
  readonly from: string
  readonly subject: string
  readonly messageId: string
  readonly recipient: string | null
  readonly data: EventData
  /** The To addresses, as the send response has them. */
  to(): string
}

/** Fields of a payload beside those that all have. */
type Body = Readonly<Record<string, string | null>>

/** The fields of `delivered`: all strings, empty where nothing is known. */
const outcome = (told: Told): Body => ({
  email_id: told.emailId,
  from: told.from,
  to: told.to(),
  subject: told.subject,
  domain: domainOfMailbox(told.from),
  smtp_response: told.data.smtp_response ?? '',
  ip_address: told.data.ip_address ?? '',
})

/** The rejection text is the reply; where nobody replied, for example when retries ran out, it is what ended them. */
const bounce = (told: Told): Body => {
  const body = outcome(told)
  return { ...body, smtp_response: body['smtp_response'] || (told.data.reason ?? '') }
}

const outcomeWithReason = (told: Told): Body => ({ ...outcome(told), reason: told.data.reason ?? '' })

/** The event types that webhooks are told of, each with its own fields; the others are not in it. */
const BODIES: { readonly [Type in EventType]?: (told: Told) => Body } = {
  sent: (told) => ({ ...outcome(told), smtp_response: null, ip_address: null }),
  delivered: outcome,
  bounced: bounce,
  failed: outcomeWithReason,
  rejected: outcomeWithReason,
  uncertain: outcomeWithReason,
  deferred: ({ emailId, data }) => ({
    email_id: emailId,
    reason: data.reason ?? '',
    next_retry_at: typeof data.next_retry_at === 'number' ? isoTime(data.next_retry_at) : null,
  }),
  opened: ({ emailId }) => ({ email_id: emailId }),
  clicked: ({ emailId, data }) => ({ email_id: emailId, link_url: data.link_url ?? '' }),
  complained: ({ emailId, recipient, messageId, data }) => ({
    email_id: emailId,
    to_address: recipient ?? '',
    complainer: data.complainer ?? recipient ?? '',
    feedback_type: data.feedback_type ?? 'other',
    original_message_id: messageId,
  }),
  unsubscribed: ({ emailId, recipient, data }) => ({
    email_id: emailId,
    to_address: recipient ?? '',
    stream: data.stream ?? null,
    list_id: data.list_id ?? null,
    scope: data.scope ?? 'all',
  }),
}

export interface Payload {
  /** Name of the event; one of WEBHOOK_EVENTS. */
  readonly event: string
  readonly body: Record<string, unknown>
}

/**
 * The payload of an account's event; `JSON.stringify` of its body gives the same bytes at every call. Undefined when the event or its email is
 * gone, or when it is of a type that webhooks are not told of.
 */
export function payloadOf({ db, keys }: Pick<App, 'db' | 'keys'>, accountId: number, seq: number): Payload | undefined {
  const row = sql(db).event.get(accountId, seq)
  if (!row) return undefined
  const event = eventType(row.type)
  const body = BODIES[event]?.(toldOf(db, row))
  if (!body) return undefined
  return {
    event,
    body: {
      event,
      event_id: eventUuid(keys, accountId, seq),
      account_id: formatUuid(row.accountUuid),
      timestamp: isoTime(row.at),
      ...body,
      recipient: row.recipient,
    },
  }
}

const toldOf = (db: Database, row: Row): Told => ({
  emailId: formatUuid(row.emailUuid),
  from: row.from,
  subject: row.subject,
  messageId: messageIdOf(row.emailUuid, row.from),
  recipient: row.recipient,
  data: JSON.parse(row.data ?? '{}') as EventData,
  to: () =>
    sql(db)
      .toAddresses.all(row.emailId)
      .map(({ address }) => address)
      .join(', '),
})
