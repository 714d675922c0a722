/** @module Message streams: separate reputations of an account. The only writer of `streams`. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { newUuid } from '#platform/ids.ts'

const sql = prepared((db) => ({
  bySlug: db.prepare<{ id: number }, [number, string]>('SELECT id FROM streams WHERE account_id = ? AND slug = ?'),
  insert: db.prepare(
    'INSERT INTO streams (uuid, account_id, slug, name, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)',
  ),
}))

export const DEFAULT_STREAM = 'transactional'

/** Row id of the stream with a slug; undefined when the account has none. */
export const findStream = (db: Database, accountId: number, slug: string): number | undefined =>
  sql(db).bySlug.get(accountId, slug)?.id

export const insertStream = (tx: Tx, accountId: number, stream: { slug: string; name: string }, now: Millis): void =>
  void sql(tx.db).insert.run(newUuid(), accountId, stream.slug, stream.name, now, now)
