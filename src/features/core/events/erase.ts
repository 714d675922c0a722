/**
 * @module Turns events into tombstones: the number, type, time and email of an event stay, so that the feed has no gap
 * and counters still agree. Of its data, only fields that cannot identify a person stay.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { EventData } from './record.ts'

/**
 * Types, categories, a time, and identifiers of streams and of our own records. Statistics are recounted from
 * `bounce_type`.
 */
const IMPERSONAL_FIELDS: ReadonlySet<string> = new Set<keyof EventData>([
  'bounce_type',
  'bounce_category',
  'rule',
  'suppression',
  'next_retry_at',
  'feedback_type',
  'stream',
  'list_id',
  'scope',
  'inbound_email_id',
  'mailbox_id',
  'mailbox_message_id',
])

const sql = prepareStatements((db) => ({
  ofEmail: db.prepare<{ seq: number; recipientId: number | null; data: string }, [number, number]>(
    'SELECT seq, recipient_id AS recipientId, data FROM events WHERE email_id = ? AND account_id = ? AND data IS NOT NULL',
  ),
  setData: db.prepare('UPDATE events SET data = ? WHERE account_id = ? AND seq = ?'),
}))

/**
 * Erases the data of an email's events: of all events that concern the given recipients or no particular recipient, and
 * of any other event whose data matches. Returns the numbers of the changed events.
 * @param which.matches whether a text, which is JSON, concerns the person
 */
export function eraseEvents(
  tx: Tx,
  which: {
    readonly accountId: number
    readonly emailId: number
    readonly recipientIds: readonly number[]
    readonly matches: (text: string) => boolean
  },
): number[] {
  const changed: number[] = []
  for (const { seq, recipientId, data } of sql(tx.db).ofEmail.all(which.emailId, which.accountId)) {
    if (recipientId !== null && !which.recipientIds.includes(recipientId) && !which.matches(data)) continue
    const impersonal = Object.entries(JSON.parse(data) as EventData).filter(
      ([name, value]) => IMPERSONAL_FIELDS.has(name) && !which.matches(String(value)),
    )
    const remaining = impersonal.length === 0 ? null : JSON.stringify(Object.fromEntries(impersonal))
    if (remaining === data) continue
    sql(tx.db).setData.run(remaining, which.accountId, seq)
    changed.push(seq)
  }
  return changed
}
