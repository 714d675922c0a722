/**
 * @module The mails that are owed, to the owners of accounts and to contacts. The transaction of the cause schedules a
 * notice, and the transaction that accepts its mail deletes it, so that no crash loses or repeats a mail. Sends nothing:
 * `loop.ts` has each kind send what is due.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { notices } from './tables.ts'

export type Notice = Readonly<Omit<typeof notices.$inferSelect, 'createdAt'>>

/** Of each topic, one notice of a kind is owed at a time. */
export type NewNotice = Omit<Notice, 'id' | 'data' | 'attempts'> & Partial<Pick<Notice, 'data'>>

const COLUMNS = 'id, account_id AS accountId, kind, topic, data, due_at AS dueAt, attempts'

const sql = prepareStatements((db) => ({
  schedule: db.prepare(
    `INSERT INTO notices (account_id, kind, topic, data, due_at, attempts, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)
     ON CONFLICT DO UPDATE SET data = excluded.data, due_at = excluded.due_at, attempts = 0, created_at = excluded.created_at`,
  ),
  find: db.prepare<Notice, [number, string]>(`SELECT ${COLUMNS} FROM notices WHERE topic = ? AND kind = ?`),
  cancel: db.prepare('DELETE FROM notices WHERE topic = ? AND kind = ?'),
  // Changes nothing if the notice was scheduled again since it was read.
  delete: db.prepare('DELETE FROM notices WHERE id = ? AND due_at = ?'),
  postpone: db.prepare('UPDATE notices SET due_at = ?, attempts = attempts + 1 WHERE id = ? AND due_at = ?'),
  deleteOverdue: db.prepare(
    'DELETE FROM notices WHERE id IN (SELECT id FROM notices WHERE account_id = ? AND kind = ? AND due_at < ? ORDER BY due_at LIMIT ?)',
  ),
  deleteRestored: db.prepare('DELETE FROM notices WHERE id <= ? AND kind IN (SELECT value FROM json_each(?))'),
  countRestored: db.prepare<{ n: number }, [number, string]>(
    'SELECT count(*) AS n FROM notices WHERE id <= ? AND kind IN (SELECT value FROM json_each(?))',
  ),
}))

/** Schedules a notice; one of the same kind and topic that waits gets this data and due time. */
export function scheduleNotice(
  app: Pick<App, 'clock' | 'noticeDue'>,
  tx: Tx,
  { accountId, kind, topic, data = null, dueAt }: NewNotice,
): void {
  sql(tx.db).schedule.run(accountId, kind, topic, data, dueAt, app.clock.now())
  tx.afterCommit(() => app.noticeDue.emit())
}

/** The notice that waits. */
export const findNotice = (db: Database, kind: string, topic: number): Notice | undefined =>
  sql(db).find.get(topic, kind) ?? undefined

/** Deletes the notice that waits, if there is one. */
export const cancelNotice = (tx: Tx, kind: string, topic: number): void => void sql(tx.db).cancel.run(topic, kind)

/** Deletes a notice whose mail is sent or no longer wanted; false if it was scheduled again or cancelled since then. */
export const deleteNotice = (tx: Tx, { id, dueAt }: Notice): boolean => sql(tx.db).delete.run(id, dueAt).changes > 0

/** Records a failed attempt. */
export const postponeNotice = (tx: Tx, { id, dueAt }: Notice, until: Millis): void =>
  void sql(tx.db).postpone.run(until, id, dueAt)

/** Deletes notices of a queue that have been due since before a time, at most `limit`; returns how many. */
export const deleteOverdueNotices = (
  tx: Tx,
  { accountId, kind }: Pick<Notice, 'accountId' | 'kind'>,
  before: Millis,
  limit: number,
): number => sql(tx.db).deleteOverdue.run(accountId, kind, before, limit).changes

/** The last notice that waits as restored; 0 if none does. */
export const readLastRestoredId = (db: Database): number => readFence(db)?.lastIds['notices'] ?? 0

/** Deletes notices that wait as restored, because the operator dropped them. */
export const dropRestoredNotices = (tx: Tx, kinds: readonly string[]): void =>
  void sql(tx.db).deleteRestored.run(readLastRestoredId(tx.db), JSON.stringify(kinds))

/** How many notices wait as restored. */
export const countRestoredNotices = (db: Database, kinds: readonly string[]): number =>
  sql(db).countRestored.get(readLastRestoredId(db), JSON.stringify(kinds))?.n ?? 0

/** A mail to the owners of an account, for the notices of one kind that are due. */
export interface OwnerMail {
  readonly subject: string
  readonly text: string
  /** Called for each notice in the transaction that accepts the mail. */
  readonly onSent?: (tx: Tx, notice: Notice) => void
}

/** A kind of notice to the owners of an account, as the feature that schedules it composes it. */
export interface OwnerNotice {
  readonly kind: string
  /** Minimum time between two mails to an account. */
  readonly intervalMs: number
  /** Notices that are due within this time are in the same mail. */
  readonly aheadMs?: number
  /** Whether the owners of the parent account get the mail too. */
  readonly isForParent?: boolean
  /** Undefined when there is no reason for the mail any more. */
  compose(app: App, account: { readonly name: string }, notices: readonly Notice[]): OwnerMail | undefined
}
