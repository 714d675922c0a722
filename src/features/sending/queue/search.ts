/**
 * @module The search index over emails: FTS5 without content, one row an email under its row id, which grows with each
 * accepted email, so that a page of any filter is read newest first without sorting. Its table,
 * `CREATE VIRTUAL TABLE email_search`, stands in the migration, because drizzle cannot describe it. The only writer of
 * it.
 *
 * Emails are indexed behind acceptance, in batches in the order of their row ids: FTS5 writes a sorted segment at each
 * savepoint, so an email in one of its own costs 40 µs, and 3 µs in a batch of 500. The cursor is the highest row id
 * in the index. Invariant, in every committed state: each email up to the cursor is in the index as its rows are, each
 * above it is pending and not in the index, and nothing else is in the index. So an email leaves the index in the
 * transaction that deletes it, and a change of a pending one writes nothing here. When the highest email of the index
 * is deleted, the cursor falls to the one below: no email is left between them. Row ids are never used again.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { compactFullText, quoteWord, toAllWordsQuery } from '#platform/db/full-text.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { minutes, seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** Emails indexed in one transaction: some 2 ms. */
const MAX_BATCH_EMAILS = 500
/** Words indexed in one transaction, beyond those of its first email: some 5 ms. */
const MAX_BATCH_WORDS = 4000
/** For an estimate of the words in a subject. */
const WORD_LENGTH = 6
/** How long more emails are waited for before a batch is indexed. */
const GATHER_MS = seconds(1)
const CHECK_INTERVAL_MS = minutes(1)

/** What an email is found by, as a migration reads it too. */
const INDEX_ROW = `SELECT id, 'a' || account_id,
  (SELECT group_concat(hex(lower(address)), ' ') FROM recipients WHERE email_id = emails.id),
  hex(lower(iif(instr(from_address, '<') = 0, from_address,
    rtrim(replace(from_address, rtrim(from_address, replace(from_address, '<', '')), ''), '>')))),
  subject, (SELECT group_concat(hex(value), ' ') FROM json_each(extra, '$.tags')), 's' || stream_id FROM emails`

const INSERT_INTO_INDEX = 'INSERT INTO email_search (rowid, account, recipient, sender, subject, tag, stream)'

const sql = prepareStatements((db) => ({
  // A table of FTS5 itself, with a row for each email in the index.
  cursor: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM email_search_docsize'),
  lastEmail: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM emails'),
  hasEmail: db.prepare<{ id: number }, [number, number]>('SELECT id FROM emails WHERE id > ? AND id <= ? LIMIT 1'),
  after: db.prepare<{ id: number; words: number }, [number, number]>(
    `SELECT id, recipient_count + length(subject) / ${WORD_LENGTH} AS words FROM emails
     WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  insertRange: db.prepare<never, [number, number]>(
    `${INSERT_INTO_INDEX} ${INDEX_ROW} WHERE id > ? AND id <= ? ORDER BY id`,
  ),
  insertOne: db.prepare<never, [number]>(`${INSERT_INTO_INDEX} ${INDEX_ROW} WHERE id = ?`),
  delete: db.prepare<never, [number]>('DELETE FROM email_search WHERE rowid = ?'),
}))

const readCursor = (db: Database): number => sql(db).cursor.get()?.id ?? 0

/** Whether an email up to a row id is not in the index yet. */
const hasPending = (db: Database, lastId: number): boolean => sql(db).hasEmail.get(readCursor(db), lastId) !== null

/** Indexes the oldest pending emails. Returns whether more of them may be pending. */
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
  if (lastId > cursor) sql(db).insertRange.run(cursor, lastId)
  return rows.length === MAX_BATCH_EMAILS || lastId !== (rows.at(-1)?.id ?? cursor)
}

/** Indexes every email that is stored at the call, in several transactions. */
export async function indexPendingEmails(app: Pick<App, 'db' | 'commit'>): Promise<void> {
  const lastId = sql(app.db).lastEmail.get()?.id ?? 0
  while (hasPending(app.db, lastId)) await app.commit.writeFromReserve(indexBatch)
}

/** Indexes emails about a second after they were accepted, and at the start those of before. */
export function startEmailIndexing(app: Pick<App, 'clock' | 'log' | 'db' | 'commit' | 'eventsRecorded'>): DueLoop {
  let state: 'idle' | 'woken' | 'active' = 'active'
  const step = async (): Promise<Millis> => {
    if (state === 'woken') {
      state = 'active'
      return app.clock.now() + GATHER_MS
    }
    if (hasPending(app.db, Number.MAX_SAFE_INTEGER) && (await app.commit.writeFromReserve(indexBatch)))
      return app.clock.now()
    // What was accepted during the sync may have been announced already.
    if (hasPending(app.db, Number.MAX_SAFE_INTEGER)) return app.clock.now() + GATHER_MS
    state = 'idle'
    return app.clock.now() + CHECK_INTERVAL_MS
  }
  const loop = startDueLoop({ name: 'indexing of emails', clock: app.clock, log: app.log, step })
  // Each accepted email records an event.
  const stopListening = app.eventsRecorded.listen(() => {
    if (state !== 'idle') return
    state = 'woken'
    loop.wake()
  })
  return {
    wake: loop.wake,
    async stop() {
      stopListening()
      await loop.stop()
    },
  }
}

/** Takes a deleted email out of the index. */
export function unindexEmail(tx: Tx, id: number): void {
  if (id <= readCursor(tx.db)) sql(tx.db).delete.run(id)
}

/** Puts an email that was changed into the index as its rows are now. */
export function reindexEmail(tx: Tx, id: number): void {
  if (id > readCursor(tx.db)) return
  sql(tx.db).delete.run(id)
  sql(tx.db).insertOne.run(id)
}

/** Puts every email into the index, which is empty, for data that was made by SQL. */
export const indexAllEmails = (db: Database): void => void db.run(`${INSERT_INTO_INDEX} ${INDEX_ROW} ORDER BY id`)

/** Takes the words of removed emails out of the files. */
export const compactEmailSearch = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'email_search')

/** A text as one word of the index, which finds it as a whole: in hexadecimal digits. */
const toToken = (text: string): string => Buffer.from(text).toString('hex')

/** As SQLite does it: what is beyond ASCII stays. */
const lowerAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

const toAddressToken = (address: string): string => toToken(lowerAscii(address))

/** What emails are searched by; all that is given must be so. */
export interface EmailSearch {
  /** A recipient of any kind, in any case. */
  readonly to?: string | undefined
  readonly from?: string | undefined
  /** Words that are in the subject. */
  readonly subject?: string | undefined
  readonly tag?: string | undefined
  readonly streamId?: number | undefined
}

/** The query of FTS5 for a search. Throws the 422 of what is no address, and of a subject without words. */
export function buildMatch(accountId: number, { to, from, subject, tag, streamId }: EmailSearch): string {
  const terms = [
    `account : ${quoteWord(`a${accountId}`)}`,
    to === undefined ? '' : `recipient : ${quoteWord(toAddressToken(readAddress('to', to)))}`,
    from === undefined ? '' : `sender : ${quoteWord(toAddressToken(readAddress('from', from)))}`,
    subject === undefined ? '' : `subject : (${toAllWordsQuery('subject', subject)})`,
    tag === undefined ? '' : `tag : ${quoteWord(toToken(readTag(tag)))}`,
    streamId === undefined ? '' : `stream : ${quoteWord(`s${streamId}`)}`,
  ]
  return terms.filter((term) => term !== '').join(' AND ')
}

function readAddress(field: string, text: string): string {
  const mailbox = parseMailbox(text)
  if (mailbox.kind === 'ok') return mailbox.address
  throw invalid(field, `${field} must be a whole email address such as bob@example.com. ${mailbox.reason}`)
}

function readTag(tag: string): string {
  if (tag === '') throw invalid('tag', 'tag must not be empty.')
  return tag
}

/** All times. */
export const ANY_TIME = { from: 0, to: 8.64e15 } as const

/** The emails of a time, and row ids between which they all are. A clock that was ahead leaves rows of other times between those. */
export interface TimeRange {
  readonly first: number
  readonly last: number
  /** Inclusive bounds on created_at; undefined: all times. */
  readonly time: { readonly from: Millis; readonly to: Millis } | undefined
}

const MATCHES = 'email_search MATCH ?1 AND rowid BETWEEN ?2 AND ?3'
const IS_IN_TIME_RANGE = '(SELECT created_at FROM emails WHERE id = email_search.rowid) BETWEEN ?4 AND ?5'

type Match = [match: string, first: number, last: number]

const searchSql = prepareStatements((db) => ({
  page: db.prepare<{ id: number }, [...Match, number, number]>(
    `SELECT rowid AS id FROM email_search WHERE ${MATCHES} ORDER BY rowid DESC LIMIT ?4 OFFSET ?5`,
  ),
  pageInTime: db.prepare<{ id: number }, [...Match, number, number, number, number]>(
    `SELECT rowid AS id FROM email_search WHERE ${MATCHES} AND ${IS_IN_TIME_RANGE} ORDER BY rowid DESC LIMIT ?6 OFFSET ?7`,
  ),
  count: db.prepare<{ n: number }, [...Match, number]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM email_search WHERE ${MATCHES} LIMIT ?4)`,
  ),
  countInTime: db.prepare<{ n: number }, [...Match, number, number, number]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM email_search WHERE ${MATCHES} AND ${IS_IN_TIME_RANGE} LIMIT ?6)`,
  ),
  one: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM email_search WHERE email_search MATCH ? AND rowid = ?',
  ),
  // Of the index alone: some 45 ms for a million.
  ids: db.prepare<{ first: number | null; last: number | null }, [number, number, number]>(
    'SELECT min(id) AS first, max(id) AS last FROM emails WHERE account_id = ? AND created_at BETWEEN ? AND ?',
  ),
}))

/** The emails of a time; undefined: there are none. */
export function findTimeRange(db: Database, accountId: number, from: Millis, to: Millis): TimeRange | undefined {
  if (from <= ANY_TIME.from && to >= ANY_TIME.to) return { first: 0, last: Number.MAX_SAFE_INTEGER, time: undefined }
  const { first, last } = searchSql(db).ids.get(accountId, from, to) ?? {}
  return typeof first === 'number' && typeof last === 'number' ? { first, last, time: { from, to } } : undefined
}

/** Row ids of the emails of a match, newest first. */
export function findMatchIds(
  db: Database,
  match: string,
  { first, last, time }: TimeRange,
  { limit, offset = 0 }: { readonly limit: number; readonly offset?: number },
): number[] {
  const rows = time
    ? searchSql(db).pageInTime.all(match, first, last, time.from, time.to, limit, offset)
    : searchSql(db).page.all(match, first, last, limit, offset)
  return rows.map(({ id }) => id)
}

/** How many emails match, at most `limit`. */
export function countMatches(db: Database, match: string, { first, last, time }: TimeRange, limit: number): number {
  const row = time
    ? searchSql(db).countInTime.get(match, first, last, time.from, time.to, limit)
    : searchSql(db).count.get(match, first, last, limit)
  return row?.n ?? 0
}

/** Whether one email matches. */
export const isMatch = (db: Database, match: string, id: number): boolean => searchSql(db).one.get(match, id) !== null
