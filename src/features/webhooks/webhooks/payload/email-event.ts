/** @module Reads an email event with all that the payloads of any form say about it. Uses stored data only. */
import type { Database } from 'bun:sqlite'
import { type EventData, type EventType, toEventCode } from '#features/core/events/record.ts'
import { messageIdOf } from '#features/sending/queue/email.ts'
import { recipientKindCode } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'

/** The part of the email's rarely set fields that payloads have. */
type Extra = Partial<Pick<EmailEvent, 'tags' | 'metadata'>> & { readonly message_id?: string }

interface Row {
  readonly emailId: number
  readonly emailUuid: Uint8Array
  readonly from: string
  readonly subject: string
  readonly sandbox: number
  readonly extra: string | null
  readonly createdAt: Millis
  readonly stream: string
  readonly recipientId: number | null
  readonly recipient: string | null
}

const sql = prepareStatements((db) => ({
  email: db.prepare<Row, [number, number]>(
    `SELECT emails.id AS emailId, emails.uuid AS emailUuid, from_address AS "from", subject, sandbox, extra, emails.created_at AS createdAt,
     streams.slug AS stream, recipient_id AS recipientId, address AS recipient
     FROM events JOIN emails ON emails.id = events.email_id JOIN streams ON streams.id = stream_id LEFT JOIN recipients ON recipients.id = recipient_id
     WHERE events.account_id = ? AND seq = ?`,
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND kind = ${recipientKindCode('to')} ORDER BY id`,
  ),
  hasEarlierOpen: db.prepare<{ found: number }, [number, number, number]>(
    `SELECT EXISTS (SELECT 1 FROM events WHERE email_id = ? AND recipient_id IS ? AND seq < ? AND type = ${toEventCode('opened')}) AS found`,
  ),
}))

export interface EmailEvent {
  readonly type: EventType
  /** Position in the feed of the account. */
  readonly seq: number
  readonly at: Millis
  readonly data: EventData
  readonly emailId: string
  readonly emailCreatedAt: Millis
  /** From header, as the API returns it. */
  readonly from: string
  readonly subject: string
  readonly messageId: string
  /** Slug of its stream. */
  readonly stream: string
  readonly isSandbox: boolean
  readonly tags: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>>
  readonly recipient: string | null
  /** The To addresses in order. */
  to(): readonly string[]
  /** For `opened`: whether the recipient had not opened the email before. */
  isFirstOpen(): boolean
}

/** Undefined when the event has no email, or the email was deleted. */
export function readEmailEvent(
  db: Database,
  accountId: number,
  event: Pick<EmailEvent, 'type' | 'seq' | 'at' | 'data'>,
): EmailEvent | undefined {
  const row = sql(db).email.get(accountId, event.seq)
  if (!row) return undefined
  const extra = JSON.parse(row.extra ?? '{}') as Extra
  return {
    ...event,
    emailId: formatUuid(row.emailUuid),
    emailCreatedAt: row.createdAt,
    from: row.from,
    subject: row.subject,
    messageId: messageIdOf(row.emailUuid, row.from, extra.message_id),
    stream: row.stream,
    isSandbox: row.sandbox === 1,
    tags: extra.tags ?? [],
    metadata: extra.metadata ?? {},
    recipient: row.recipient,
    to: () =>
      sql(db)
        .toAddresses.all(row.emailId)
        .map(({ address }) => address),
    isFirstOpen: () => sql(db).hasEarlierOpen.get(row.emailId, row.recipientId ?? 0, event.seq)?.found === 0,
  }
}
