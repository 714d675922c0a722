/**
 * @module Makes tombstones of events: number, type, time and email stay, so that the feed has no gap and counters agree; what an event carries stays only as
 * far as it cannot tell of a person.
 */
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { EventData } from './record.ts'

/** Kinds, counts and ids of ours. `bounce_type` is what figures are recounted from. */
const IMPERSONAL_FIELDS: ReadonlySet<string> = new Set<keyof EventData>([
  'bounce_type',
  'bounce_category',
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
 * Erases what the events of an email tell of some of its recipients, or of nobody in particular; others keep theirs unless a text in it matches. Gives
 * the numbers of those that changed.
 * @param which.matches whether a text, JSON, is about the person
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
    const kept = Object.entries(JSON.parse(data) as EventData).filter(
      ([name, value]) => IMPERSONAL_FIELDS.has(name) && !which.matches(String(value)),
    )
    const left = kept.length === 0 ? null : JSON.stringify(Object.fromEntries(kept))
    if (left === data) continue
    sql(tx.db).setData.run(left, which.accountId, seq)
    changed.push(seq)
  }
  return changed
}
