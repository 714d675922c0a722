/**
 * @module Erases a person from the history of webhooks: responses and errors of events about that person, and any other
 * text that names them. Pending deliveries need nothing, because their bodies are built from rows that are already
 * erased.
 */
import type { Database } from 'bun:sqlite'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { webhookDeliveries } from '../tables.ts'

type Row = Pick<typeof webhookDeliveries.$inferSelect, 'id' | 'payload' | 'response' | 'error'> & {
  readonly isOwn: number
}

const sql = prepareStatements((db) => ({
  webhooks: db.prepare<{ id: number }, [number]>('SELECT id FROM webhooks WHERE account_id = ?'),
  eraseOfEvent: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = NULL WHERE webhook_id = ? AND seq = ?
     AND (response IS NOT NULL OR error IS NOT NULL OR payload IS NOT NULL)`,
  ),
  after: db.prepare<Row, [number, number, number]>(
    `SELECT d.id, w.id IS NOT NULL AS isOwn, payload, response, error FROM webhook_deliveries d
     LEFT JOIN webhooks w ON w.id = webhook_id AND account_id = ?2 WHERE d.id > ?1 ORDER BY d.id LIMIT ?3`,
  ),
  // An attempt takes seconds, so the person or mail that its event is about may be erased before the response arrives.
  isGone: db.prepare<{ isGone: number }, [string, number, number]>(
    `SELECT EXISTS (SELECT 1 FROM recipients WHERE email_id = events.email_id AND address = ?1) OR (json_valid(data) AND (
     (data ->> 'inbound_email_id' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbound_emails WHERE uuid = unhex(data ->> 'inbound_email_id', '-')))
     OR (data ->> 'mailbox_message_id' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM mailbox_messages WHERE uuid = unhex(data ->> 'mailbox_message_id', '-')))))
     AS isGone FROM events WHERE account_id = ?2 AND seq = ?3`,
  ),
  // A stored payload is replaced by `{}`, not by NULL: its delivery has no event from which a body could be built.
  erase: db.prepare(
    `UPDATE webhook_deliveries SET response = NULL, error = NULL, payload = iif(payload IS NULL, NULL, '{}') WHERE id = ?`,
  ),
}))

/** Erases the stored responses to some events of an account. Returns the number of deliveries. */
export function eraseEventDeliveries(tx: Tx, accountId: number, seqs: readonly number[]): number {
  if (seqs.length === 0) return 0
  let erased = 0
  for (const { id } of sql(tx.db).webhooks.all(accountId))
    for (const seq of seqs) erased += sql(tx.db).eraseOfEvent.run(id, seq).changes
  return erased
}

/** Whether an event is about an erased person or deleted mail, whose data a response may repeat. */
export const isAboutErased = (db: Database, accountId: number, seq: number): boolean =>
  sql(db).isGone.get(ERASED_ADDRESS, accountId, seq)?.isGone === 1

/** Rows examined in one transaction: some 3 ms. */
const BATCH_SIZE = 500

/** Erases matching deliveries of the account in a batch after a row; `next` is undefined at the end. */
export function eraseDeliveries(
  tx: Tx,
  scan: { readonly accountId: number; readonly after: number; readonly matches: (text: string) => boolean },
): { readonly rows: number; readonly next: number | undefined } {
  const rows = sql(tx.db).after.all(scan.after, scan.accountId, BATCH_SIZE)
  const matching = rows.filter(
    ({ isOwn, payload, response, error }) =>
      isOwn === 1 && [payload, response, error].some((text) => text !== null && scan.matches(text)),
  )
  for (const { id } of matching) sql(tx.db).erase.run(id)
  return { rows: matching.length, next: rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id }
}
