/**
 * @module The search index over emails: FTS5 without content. Each email is one row under its row id, which grows with
 * each accepted email, so every page is read newest first without sorting. A migration contains the
 * statement `CREATE VIRTUAL TABLE email_search`, because drizzle cannot describe a virtual table. This module is the
 * only writer of the index.
 *
 * FTS5 reads all matches of a beginning before it returns the first: half a second for a letter that a million emails
 * have. So emails belong to shards of consecutive row ids, and words that are searched by their beginning start with
 * the number of their shard. A search reads the shards one after another, newest first, and ends when it has enough: a
 * common beginning is found in the first ones, and a rare one costs a look-up in each.
 *
 * Emails are indexed after acceptance, in batches in the order of their row ids: FTS5 writes a sorted segment at each
 * savepoint, so an email costs 40 µs in a savepoint of its own, and a tenth of that in a batch of 500. The cursor is
 * the highest row id in the index. Invariant, in every committed state: the index contains each email up to the cursor,
 * as its rows are now, and nothing else; emails above the cursor are pending. So an email leaves the index in the
 * transaction that deletes it, and a change of a pending email writes nothing here. If the email at the cursor is
 * deleted, the cursor falls to the indexed email below it. No email is left between the old and the new cursor, and row
 * ids are never reused, so none can be missed.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { compactFullText } from '#platform/db/full-text.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { type Millis, seconds } from '#platform/units.ts'
import {
  buildMatch,
  COLUMNS,
  formatMatch,
  fromOneWord,
  type IndexedEmail,
  type Match,
  SHARD_SIZE,
  shardOf,
  toIndexRow,
  toWordRange,
} from './search-match.ts'

export {
  buildMatch,
  createNameTest,
  createPersonTest,
  type EmailSearch,
  formatMatch,
  type Match,
} from './search-match.ts'

/** Emails indexed per transaction; this takes some 2 ms. */
const MAX_BATCH_EMAILS = 500
/** Words indexed per transaction, unless its first email alone has more: some 5 ms. */
const MAX_BATCH_WORDS = 8000
/** An address, its domain, and two of a name. */
const WORDS_PER_RECIPIENT = 4
/** Used to estimate the number of words in a subject. */
const WORD_LENGTH = 6
/** How often to look for pending emails: those of a second share a batch. */
const INTERVAL_MS = seconds(1)

type IndexedRow = Omit<IndexedEmail, 'recipients' | 'tags'> & {
  readonly recipients: string
  readonly tags: string | null
}

const INDEXED_ROWS = `SELECT id, account_id AS accountId, domain_id AS domainId, stream_id AS streamId, from_address AS sender, subject,
  (SELECT json_group_array(coalesce(mailbox, address)) FROM recipients WHERE email_id = emails.id) AS recipients,
  extra -> '$.tags' AS tags, extra ->> '$.message_id' AS messageId FROM emails`

const sql = prepareStatements((db) => ({
  // `email_search_docsize` is a table of FTS5 itself, with a row for each indexed email.
  cursor: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM email_search_docsize'),
  lastEmail: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM emails'),
  hasEmail: db.prepare<{ id: number }, [number, number]>('SELECT id FROM emails WHERE id > ? AND id <= ? LIMIT 1'),
  after: db.prepare<{ id: number; words: number }, [number, number]>(
    `SELECT id, recipient_count * ${WORDS_PER_RECIPIENT} + length(subject) / ${WORD_LENGTH} AS words FROM emails
     WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  between: db.prepare<IndexedRow, [number, number]>(`${INDEXED_ROWS} WHERE id > ? AND id <= ? ORDER BY id`),
  insert: db.prepare<never, (number | string)[]>(
    `INSERT INTO email_search (rowid, ${COLUMNS.join(', ')}) VALUES (?${', ?'.repeat(COLUMNS.length)})`,
  ),
  delete: db.prepare<never, [number]>('DELETE FROM email_search WHERE rowid = ?'),
  pendingByMessageId: db.prepare<{ id: number }, [number, number, string]>(
    "SELECT id FROM emails WHERE id > ? AND account_id = ? AND extra ->> '$.message_id' = ?",
  ),
}))

const readCursor = (db: Database): number => sql(db).cursor.get()?.id ?? 0

const hasPending = (db: Database, lastId: number): boolean => sql(db).hasEmail.get(readCursor(db), lastId) !== null

/** Indexes the emails above one row id, up to another. */
function insertBetween(db: Database, above: number, last: number): void {
  for (const { recipients, tags, ...email } of sql(db).between.all(above, last))
    sql(db).insert.run(
      email.id,
      ...toIndexRow({
        ...email,
        recipients: JSON.parse(recipients) as string[],
        tags: tags === null ? [] : (JSON.parse(tags) as string[]),
      }),
    )
}

/** Indexes the oldest pending emails. Returns whether more may be pending. */
function indexBatch({ db }: Tx): boolean {
  const cursor = readCursor(db)
  const rows = sql(db).after.all(cursor, MAX_BATCH_EMAILS)
  let lastId = cursor
  let wordCount = 0
  for (const { id, words } of rows) {
    if (wordCount > 0 && wordCount + words > MAX_BATCH_WORDS) break
    lastId = id
    wordCount += words
  }
  insertBetween(db, cursor, lastId)
  return rows.length === MAX_BATCH_EMAILS || lastId !== (rows.at(-1)?.id ?? cursor)
}

/** Indexes every email stored before the call, in several transactions. */
export async function indexPendingEmails(app: Pick<App, 'db' | 'commit'>): Promise<void> {
  const lastId = sql(app.db).lastEmail.get()?.id ?? 0
  while (hasPending(app.db, lastId)) await app.commit.writeFromReserve(indexBatch)
}

/** Indexes emails about a second after acceptance. */
export const startEmailIndexing = (app: Pick<App, 'clock' | 'log' | 'db' | 'commit'>): DueLoop =>
  startDueLoop({
    name: 'indexing of emails',
    clock: app.clock,
    log: app.log,
    step: async () => {
      const isPending = hasPending(app.db, Number.MAX_SAFE_INTEGER)
      const hasMore = isPending && (await app.commit.writeFromReserve(indexBatch))
      return app.clock.now() + (hasMore ? 0 : INTERVAL_MS)
    },
  })

export function unindexEmail(tx: Tx, id: number): void {
  if (id <= readCursor(tx.db)) sql(tx.db).delete.run(id)
}

export function reindexEmail(tx: Tx, id: number): void {
  if (id > readCursor(tx.db)) return
  sql(tx.db).delete.run(id)
  insertBetween(tx.db, id - 1, id)
}

/** Removes the words of deleted emails from the files. */
export const compactEmailSearch = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'email_search')

export const ANY_TIME = { from: 0, to: 8.64e15 } as const

/** A time range, and the row ids that enclose it; if the clock was ahead, rows of other times lie between them. */
export interface TimeRange {
  readonly first: number
  readonly last: number
  /** Inclusive limits of created_at; undefined: all times. */
  readonly time: { readonly from: Millis; readonly to: Millis } | undefined
}

export const ALL_ROWS: TimeRange = { first: 0, last: Number.MAX_SAFE_INTEGER, time: undefined }

/** The row ids of a shard that a range allows. */
export interface Shard {
  readonly number: number
  readonly first: number
  readonly last: number
}

/** After so many shards that have all words, these are looked up one by one only in one of as many. */
const SHARDS_PER_CHECK = 8

/**
 * The shards of a range, newest first; all as one if the words of the search are the same in all. Those without an
 * email that has the rarest word have no rows, so that a common one is not read there.
 */
export function* listShards(db: Database, match: Match, { first, last }: TimeRange): Generator<Shard> {
  if (match.sharded.length === 0) return yield { number: 0, first, last }
  const ends = searchSql(db).ends.get()
  const oldest = Math.max(first, ends?.oldest ?? 0)
  const newest = Math.min(last, ends?.newest ?? 0)
  let checks = SHARDS_PER_CHECK
  const terms = match.sharded.map((term) => ({ ...match, whole: [], sharded: [term] }))
  for (let number = shardOf(newest); number >= shardOf(oldest) && newest >= oldest; number--) {
    const start = number * SHARD_SIZE
    const shard = { number, first: Math.max(oldest, start), last: Math.min(newest, start + SHARD_SIZE - 1) }
    const isChecked = terms.length > 1 && (checks > 0 || number % SHARDS_PER_CHECK === 0)
    const missing = isChecked ? terms.findIndex((term) => findMatchIds(db, term, shard, undefined, 1).length === 0) : -1
    checks = missing >= 0 ? SHARDS_PER_CHECK : checks - 1
    if (missing >= 0) terms.unshift(...terms.splice(missing, 1))
    yield missing >= 0 ? { ...shard, last: shard.first - 1 } : shard
  }
}

const searchSql = prepareStatements((db) => ({
  page: db.prepare<
    { id: number },
    [match: string, first: number, last: number, from: Millis | null, to: Millis | null, limit: number]
  >(
    `SELECT rowid AS id FROM email_search WHERE email_search MATCH ?1 AND rowid BETWEEN ?2 AND ?3
     AND (?4 IS NULL OR (SELECT created_at FROM emails WHERE id = email_search.rowid) BETWEEN ?4 AND ?5) ORDER BY rowid DESC LIMIT ?6`,
  ),
  one: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM email_search WHERE email_search MATCH ? AND rowid = ?',
  ),
  ends: db.prepare<{ oldest: number | null; newest: number | null }, []>(
    'SELECT (SELECT min(id) FROM emails) AS oldest, (SELECT max(id) FROM emails) AS newest',
  ),
  // Reads only the index: some 45 ms for a million emails.
  ids: db.prepare<{ first: number | null; last: number | null }, [number, number, number]>(
    'SELECT min(id) AS first, max(id) AS last FROM emails WHERE account_id = ? AND created_at BETWEEN ? AND ?',
  ),
}))

/** The row ids of a time range; undefined if it has no emails. */
export function findTimeRange(db: Database, accountId: number, from: Millis, to: Millis): TimeRange | undefined {
  if (from <= ANY_TIME.from && to >= ANY_TIME.to) return ALL_ROWS
  const { first, last } = searchSql(db).ids.get(accountId, from, to) ?? {}
  return typeof first === 'number' && typeof last === 'number' ? { first, last, time: { from, to } } : undefined
}

/** Row ids of the matching emails of a shard, newest first. */
export const findMatchIds = (
  db: Database,
  match: Match,
  { number, first, last }: Shard,
  time: TimeRange['time'],
  limit: number,
): number[] =>
  first > last
    ? []
    : searchSql(db)
        .page.all(formatMatch(match, number), first, last, time?.from ?? null, time?.to ?? null, limit)
        .map(({ id }) => id)

/** Addresses of a shard that begin so, in the order of their letters: recipients, senders, also those of erased emails. */
export function listAddresses(
  db: Database,
  accountId: number,
  shard: number,
  beginning: string,
  limit: number,
): string[] {
  // Of a connection, and without content.
  db.run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.email_words USING fts5vocab('main', 'email_search', 'row')")
  const { first, last, prefixLength } = toWordRange(shard, accountId, beginning)
  return db
    .query<{ term: string }, [string, string, number]>(
      'SELECT term FROM temp.email_words WHERE term >= ? AND term < ? LIMIT ?',
    )
    .all(first, last, limit)
    .map(({ term }) => fromOneWord(term.slice(prefixLength)))
    .filter((word) => word.indexOf('@') > 0)
}

/** Whether an email of the account matches. */
export function isMatch(db: Database, match: Match, id: number): boolean {
  const query = formatMatch(match, shardOf(id))
  return query === '' || searchSql(db).one.get(query, id) !== null
}

/**
 * Row ids of the emails of an account whose client chose this Message-ID, pending ones first; at most `limit` of the
 * others. Clients may use a Message-ID twice.
 */
export function findByClientMessageId(db: Database, accountId: number, messageId: string, limit: number): number[] {
  const pending = sql(db).pendingByMessageId.all(readCursor(db), accountId, messageId)
  const match = buildMatch(accountId, { clientMessageId: messageId })
  const found = [...listShards(db, match, ALL_ROWS)].flatMap((shard) =>
    findMatchIds(db, match, shard, undefined, limit),
  )
  return [...pending.map(({ id }) => id), ...found]
}
