/**
 * @module The search index over emails: FTS5 without content. Each email is one row under its row id, which grows with
 * each accepted email, so every page is read newest first without sorting. A migration contains the
 * statement `CREATE VIRTUAL TABLE email_search`, because drizzle cannot describe a virtual table. This module is the
 * only writer of the index.
 *
 * Emails are indexed after acceptance, in batches in the order of their row ids: FTS5 writes a sorted segment at each
 * savepoint, so an email costs 40 µs in a savepoint of its own, and 3 µs in a batch of 500. The cursor is the highest
 * row id in the index. Invariant, in every committed state: the index contains each email up to the cursor, as its rows
 * are now, and nothing else; emails above the cursor are pending. So an email leaves the index in the transaction that
 * deletes it, and a change of a pending email writes nothing here. If the email at the cursor is deleted, the cursor
 * falls to the indexed email below it. No email is left between the old and the new cursor, and row ids are never
 * reused, so none can be missed.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { compactFullText, quoteWord, toAllWordsQuery } from '#platform/db/full-text.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** Emails indexed per transaction; this takes some 2 ms. */
const MAX_BATCH_EMAILS = 500
/** Words indexed per transaction, unless its first email alone has more: some 5 ms. */
const MAX_BATCH_WORDS = 8000
/** An address, and its domain unless another recipient has the same. */
const WORDS_PER_RECIPIENT = 2
/** Used to estimate the number of words in a subject. */
const WORD_LENGTH = 6
/** How long to wait for more emails before indexing a batch. */
const GATHER_MS = seconds(1)
const CHECK_INTERVAL_MS = minutes(1)

/** SQL: `@` and the domain of an address. */
const atDomain = (address: string): string =>
  `'@' || replace(${address}, rtrim(${address}, replace(${address}, '@', '')), '')`

/** SQL: a text as a word of the index: in hexadecimal, after its account. */
const wordOf = (text: string): string => `'a' || account_id || 'x' || hex(${text})`

/**
 * The indexed values of an email. Besides each address, the domains of the recipients and of the sender are words too.
 * Its signing domain is a word beside the stream, because every email has one, and so is the Message-ID if its client
 * chose that; another is derived from the email's id, by which the email is found. All words but those of the subject belong
 * to one account, so a search reads no entries of others: matching the account too would read all entries of the
 * account, which took 6 ms for 1,000 matches among a million emails.
 */
const INDEX_ROW = `SELECT id, 'a' || account_id,
  (SELECT group_concat(${wordOf('lower(address)')}) || ',' || group_concat(DISTINCT ${wordOf(`lower(${atDomain('address')})`)})
    FROM recipients WHERE email_id = emails.id),
  (SELECT ${wordOf('sender')} || ' ' || ${wordOf(atDomain('sender'))} FROM (SELECT lower(iif(instr(from_address, '<') = 0, from_address,
    rtrim(replace(from_address, rtrim(from_address, replace(from_address, '<', '')), ''), '>'))) AS sender)),
  subject, (SELECT group_concat(${wordOf('value')}, ' ') FROM json_each(extra, '$.tags')), 's' || stream_id || ' d' || domain_id ||
    coalesce((SELECT ' ' || ${wordOf('value')} FROM json_each(extra, '$.message_id')), '')
  FROM emails`

const INSERT_INTO_INDEX = 'INSERT INTO email_search (rowid, account, recipient, sender, subject, tag, stream)'

const sql = prepareStatements((db) => ({
  // `email_search_docsize` is a table of FTS5 itself, with a row for each indexed email.
  cursor: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM email_search_docsize'),
  lastEmail: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM emails'),
  hasEmail: db.prepare<{ id: number }, [number, number]>('SELECT id FROM emails WHERE id > ? AND id <= ? LIMIT 1'),
  after: db.prepare<{ id: number; words: number }, [number, number]>(
    `SELECT id, recipient_count * ${WORDS_PER_RECIPIENT} + length(subject) / ${WORD_LENGTH} AS words FROM emails
     WHERE id > ? ORDER BY id LIMIT ?`,
  ),
  insertRange: db.prepare<never, [number, number]>(
    `${INSERT_INTO_INDEX} ${INDEX_ROW} WHERE id > ? AND id <= ? ORDER BY id`,
  ),
  insertOne: db.prepare<never, [number]>(`${INSERT_INTO_INDEX} ${INDEX_ROW} WHERE id = ?`),
  delete: db.prepare<never, [number]>('DELETE FROM email_search WHERE rowid = ?'),
  pendingByMessageId: db.prepare<{ id: number }, [number, number, string]>(
    "SELECT id FROM emails WHERE id > ? AND account_id = ? AND extra ->> '$.message_id' = ?",
  ),
}))

const readCursor = (db: Database): number => sql(db).cursor.get()?.id ?? 0

const hasPending = (db: Database, lastId: number): boolean => sql(db).hasEmail.get(readCursor(db), lastId) !== null

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
  if (lastId > cursor) sql(db).insertRange.run(cursor, lastId)
  return rows.length === MAX_BATCH_EMAILS || lastId !== (rows.at(-1)?.id ?? cursor)
}

/** Indexes every email stored before the call, in several transactions. */
export async function indexPendingEmails(app: Pick<App, 'db' | 'commit'>): Promise<void> {
  const lastId = sql(app.db).lastEmail.get()?.id ?? 0
  while (hasPending(app.db, lastId)) await app.commit.writeFromReserve(indexBatch)
}

/** Indexes emails about a second after acceptance, and pending emails at the start. */
export function startEmailIndexing(app: Pick<App, 'clock' | 'log' | 'db' | 'commit' | 'eventsRecorded'>): DueLoop {
  let state: 'idle' | 'woken' | 'active' = 'active'
  const step = async (): Promise<Millis> => {
    if (state === 'woken') {
      state = 'active'
      return app.clock.now() + GATHER_MS
    }
    if (hasPending(app.db, Number.MAX_SAFE_INTEGER) && (await app.commit.writeFromReserve(indexBatch)))
      return app.clock.now()
    // Emails accepted while the batch was being synced did not wake the loop, because it listens only while it is idle.
    if (hasPending(app.db, Number.MAX_SAFE_INTEGER)) return app.clock.now() + GATHER_MS
    state = 'idle'
    return app.clock.now() + CHECK_INTERVAL_MS
  }
  const loop = startDueLoop({ name: 'indexing of emails', clock: app.clock, log: app.log, step })
  // Accepting an email records an event, which wakes the loop.
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

export function unindexEmail(tx: Tx, id: number): void {
  if (id <= readCursor(tx.db)) sql(tx.db).delete.run(id)
}

export function reindexEmail(tx: Tx, id: number): void {
  if (id > readCursor(tx.db)) return
  sql(tx.db).delete.run(id)
  sql(tx.db).insertOne.run(id)
}

/** Removes the words of deleted emails from the files. */
export const compactEmailSearch = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'email_search')

/** A text as one word of an account, so that only the whole text matches: as in `INDEX_ROW`. */
const toWord = (accountId: number, text: string): string =>
  quoteWord(`a${accountId}x${Buffer.from(text).toString('hex')}`)

/** Lowers ASCII letters only, as SQLite does. */
const lowerAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

export interface EmailSearch {
  /** A recipient of any kind, or `@` and a domain: any recipient there. Case is ignored. */
  readonly to?: string | undefined
  /** The sender, or `@` and a domain. */
  readonly from?: string | undefined
  /** How the address of a recipient, or of the sender, begins. */
  readonly toPrefix?: string | undefined
  readonly fromPrefix?: string | undefined
  /** Words that the subject contains. */
  readonly subject?: string | undefined
  readonly tag?: string | undefined
  readonly streamId?: number | undefined
  /** Row ids of signing domains; an email matches if it has one of them. */
  readonly domainIds?: readonly number[] | undefined
  /** A Message-ID that the email's client chose, with angle brackets. */
  readonly clientMessageId?: string | undefined
}

/** The FTS5 query of a search. Throws a 422 for an invalid address, and for a subject without words. */
export function buildMatch(accountId: number, search: EmailSearch): string {
  const { to, from, toPrefix, fromPrefix, subject, tag, streamId, domainIds, clientMessageId } = search
  const toAddressWord = (field: string, text: string) => toWord(accountId, lowerAscii(readAddress(field, text)))
  const toPrefixQuery = (field: string, text: string) => `${toWord(accountId, readPrefix(field, text))} *`
  // Each of these matches only emails of the account; a subject has the words of all accounts.
  const terms = [
    to === undefined ? '' : `recipient : ${toAddressWord('to', to)}`,
    from === undefined ? '' : `sender : ${toAddressWord('from', from)}`,
    toPrefix === undefined ? '' : `recipient : ${toPrefixQuery('to', toPrefix)}`,
    fromPrefix === undefined ? '' : `sender : ${toPrefixQuery('from', fromPrefix)}`,
    tag === undefined ? '' : `tag : ${toWord(accountId, readTag(tag))}`,
    streamId === undefined ? '' : `stream : ${quoteWord(`s${streamId}`)}`,
    domainIds === undefined ? '' : `stream : (${domainIds.map((id) => quoteWord(`d${id}`)).join(' OR ')})`,
    clientMessageId === undefined ? '' : `stream : ${toWord(accountId, clientMessageId)}`,
  ].filter((term) => term !== '')
  if (terms.length === 0) terms.push(`account : ${quoteWord(`a${accountId}`)}`)
  if (subject !== undefined) terms.push(`subject : (${toAllWordsQuery('subject', subject)})`)
  return terms.join(' AND ')
}

/** A domain of an address as a search: `@example.com`. */
const AT_DOMAIN = /^\s*@(?=[^\s<>@]+\s*$)/

/** Returns the address, or `@` and the domain, in the form in which addresses are stored. */
function readAddress(field: string, text: string): string {
  const isDomain = AT_DOMAIN.test(text)
  const mailbox = parseMailbox(isDomain ? text.replace(AT_DOMAIN, 'x@') : text)
  if (mailbox.kind === 'ok') return isDomain ? `@${mailbox.domain}` : mailbox.address
  throw invalid(
    field,
    `${field} must be a whole email address such as bob@example.com, or @example.com for all of a domain. ${mailbox.reason}`,
  )
}

/** FTS5 reads all matches of a prefix at once: some 50 ms for 80,000. A shorter one would match a large part of all. */
const MIN_PREFIX_LENGTH = 3

function readPrefix(field: string, text: string): string {
  const prefix = lowerAscii(text.trim())
  if (prefix.length >= MIN_PREFIX_LENGTH) return prefix
  throw invalid(field, `${field} must have at least ${MIN_PREFIX_LENGTH} characters of the address.`)
}

function readTag(tag: string): string {
  if (tag === '') throw invalid('tag', 'tag must not be empty.')
  return tag
}

export const ANY_TIME = { from: 0, to: 8.64e15 } as const

/** A time range, and the row ids that enclose it; if the clock was ahead, rows of other times lie between them. */
export interface TimeRange {
  readonly first: number
  readonly last: number
  /** Inclusive limits of created_at; undefined: all times. */
  readonly time: { readonly from: Millis; readonly to: Millis } | undefined
}

export const ALL_ROWS: TimeRange = { first: 0, last: Number.MAX_SAFE_INTEGER, time: undefined }

const MATCHES = `email_search MATCH ?1 AND rowid BETWEEN ?2 AND ?3
  AND (?4 IS NULL OR (SELECT created_at FROM emails WHERE id = email_search.rowid) BETWEEN ?4 AND ?5)`

type Match = [match: string, first: number, last: number, from: Millis | null, to: Millis | null]

const searchSql = prepareStatements((db) => ({
  page: db.prepare<{ id: number }, [...Match, number, number]>(
    `SELECT rowid AS id FROM email_search WHERE ${MATCHES} ORDER BY rowid DESC LIMIT ?6 OFFSET ?7`,
  ),
  count: db.prepare<{ n: number }, [...Match, number]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM email_search WHERE ${MATCHES} LIMIT ?6)`,
  ),
  one: db.prepare<{ id: number }, [string, number]>(
    'SELECT rowid AS id FROM email_search WHERE email_search MATCH ? AND rowid = ?',
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

const toMatch = (match: string, { first, last, time }: TimeRange): Match => [
  match,
  first,
  last,
  time?.from ?? null,
  time?.to ?? null,
]

/** Row ids of matching emails, newest first. */
export const findMatchIds = (
  db: Database,
  match: string,
  range: TimeRange,
  { limit, offset = 0 }: { readonly limit: number; readonly offset?: number },
): number[] =>
  searchSql(db)
    .page.all(...toMatch(match, range), limit, offset)
    .map(({ id }) => id)

export const countMatches = (db: Database, match: string, range: TimeRange, limit: number): number =>
  searchSql(db).count.get(...toMatch(match, range), limit)?.n ?? 0

export const isMatch = (db: Database, match: string, id: number): boolean => searchSql(db).one.get(match, id) !== null

/**
 * Row ids of the emails of an account whose client chose this Message-ID, pending ones first; at most `limit` of the
 * others. Clients may use a Message-ID twice.
 */
export function findByClientMessageId(db: Database, accountId: number, messageId: string, limit: number): number[] {
  const pending = sql(db).pendingByMessageId.all(readCursor(db), accountId, messageId)
  const match = buildMatch(accountId, { clientMessageId: messageId })
  return [...pending.map(({ id }) => id), ...findMatchIds(db, match, ALL_ROWS, { limit })]
}
