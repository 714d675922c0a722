/**
 * @module The search index over emails: FTS5 without content, one row per email under its row id. Row ids grow with
 * each email, so a page of any filter is read newest first without sorting. An index for each field would cost every
 * send three times as much, since each writes to pages all over its tree; FTS5 writes one sorted segment per commit.
 * The only writer of its table, `CREATE VIRTUAL TABLE email_search`, which a migration creates, because drizzle cannot
 * describe it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { allWordsOf, compactFullText, quoted } from '#platform/db/full-text.ts'
import { prepared } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** What an email is found by, as a migration and `reindexEmail` read it from the rows. `indexEmail` must write the same. */
const ROW = `SELECT id, 'a' || account_id,
  (SELECT group_concat(hex(lower(address)), ' ') FROM recipients WHERE email_id = emails.id),
  hex(lower(iif(instr(from_address, '<') = 0, from_address,
    rtrim(replace(from_address, rtrim(from_address, replace(from_address, '<', '')), ''), '>')))),
  subject, (SELECT group_concat(hex(value), ' ') FROM json_each(extra, '$.tags')), 's' || stream_id FROM emails`

const INTO = 'INSERT INTO email_search (rowid, account, recipient, sender, subject, tag, stream)'

const sql = prepared((db) => ({
  insert: db.prepare(`${INTO} VALUES (?, ?, ?, ?, ?, ?, ?)`),
  insertFromRow: db.prepare(`${INTO} ${ROW} WHERE id = ?`),
  delete: db.prepare('DELETE FROM email_search WHERE rowid = ?'),
}))

/** A text as one word of the index, which finds it as a whole: in hexadecimal digits. */
const tokenOf = (text: string): string => Buffer.from(text).toString('hex')

/** As SQLite does it: what is beyond ASCII stays. */
const lowerAscii = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())

const addressToken = (address: string): string => tokenOf(lowerAscii(address))

/** The address of a mailbox in header form. */
const addressOf = (mailbox: string): string =>
  mailbox.endsWith('>') ? mailbox.slice(mailbox.lastIndexOf('<') + 1, -1) : mailbox

/** @param id row id of the email */
export function indexEmail(
  tx: Tx,
  id: number,
  email: {
    readonly accountId: number
    readonly streamId: number
    /** Header form. */
    readonly from: string
    readonly recipients: readonly { readonly address: string }[]
    readonly subject: string
    readonly tags: readonly string[]
  },
): void {
  sql(tx.db).insert.run(
    id,
    `a${email.accountId}`,
    email.recipients.map(({ address }) => addressToken(address)).join(' '),
    addressToken(addressOf(email.from)),
    email.subject,
    email.tags.map(tokenOf).join(' '),
    `s${email.streamId}`,
  )
}

/** Takes an email out of the index. */
export const unindexEmail = (tx: Tx, id: number): void => void sql(tx.db).delete.run(id)

/** Puts an email that was changed into the index as its rows are now. */
export function reindexEmail(tx: Tx, id: number): void {
  unindexEmail(tx, id)
  sql(tx.db).insertFromRow.run(id)
}

/** Puts every email into the index, for data that was made by SQL. */
export const indexAllEmails = (db: Database): void => void db.run(`${INTO} ${ROW} ORDER BY id`)

/** Takes the words of removed emails out of the files. */
export const compactEmailSearch = (app: Pick<App, 'commit'>): Promise<void> =>
  compactFullText(app.commit, 'email_search')

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
export function matchOf(accountId: number, { to, from, subject, tag, streamId }: EmailSearch): string {
  const terms = [
    `account : ${quoted(`a${accountId}`)}`,
    to === undefined ? '' : `recipient : ${quoted(addressToken(readAddress('to', to)))}`,
    from === undefined ? '' : `sender : ${quoted(addressToken(readAddress('from', from)))}`,
    subject === undefined ? '' : `subject : (${allWordsOf('subject', subject)})`,
    tag === undefined ? '' : `tag : ${quoted(tokenOf(readTag(tag)))}`,
    streamId === undefined ? '' : `stream : ${quoted(`s${streamId}`)}`,
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
const IS_IN_TIME = '(SELECT created_at FROM emails WHERE id = email_search.rowid) BETWEEN ?4 AND ?5'

type Match = [match: string, first: number, last: number]

const find = prepared((db) => ({
  page: db.prepare<{ id: number }, [...Match, number, number]>(
    `SELECT rowid AS id FROM email_search WHERE ${MATCHES} ORDER BY rowid DESC LIMIT ?4 OFFSET ?5`,
  ),
  pageInTime: db.prepare<{ id: number }, [...Match, number, number, number, number]>(
    `SELECT rowid AS id FROM email_search WHERE ${MATCHES} AND ${IS_IN_TIME} ORDER BY rowid DESC LIMIT ?6 OFFSET ?7`,
  ),
  count: db.prepare<{ n: number }, [...Match, number]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM email_search WHERE ${MATCHES} LIMIT ?4)`,
  ),
  countInTime: db.prepare<{ n: number }, [...Match, number, number, number]>(
    `SELECT count(*) AS n FROM (SELECT 1 FROM email_search WHERE ${MATCHES} AND ${IS_IN_TIME} LIMIT ?6)`,
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
export function rangeOfTime(db: Database, accountId: number, from: Millis, to: Millis): TimeRange | undefined {
  if (from <= ANY_TIME.from && to >= ANY_TIME.to) return { first: 0, last: Number.MAX_SAFE_INTEGER, time: undefined }
  const { first, last } = find(db).ids.get(accountId, from, to) ?? {}
  return typeof first === 'number' && typeof last === 'number' ? { first, last, time: { from, to } } : undefined
}

/** Row ids of the emails of a match, newest first. */
export function findIds(
  db: Database,
  match: string,
  { first, last, time }: TimeRange,
  { limit, offset = 0 }: { readonly limit: number; readonly offset?: number },
): number[] {
  const rows = time
    ? find(db).pageInTime.all(match, first, last, time.from, time.to, limit, offset)
    : find(db).page.all(match, first, last, limit, offset)
  return rows.map(({ id }) => id)
}

/** How many emails match, at most `limit`. */
export function countMatches(db: Database, match: string, { first, last, time }: TimeRange, limit: number): number {
  const row = time
    ? find(db).countInTime.get(match, first, last, time.from, time.to, limit)
    : find(db).count.get(match, first, last, limit)
  return row?.n ?? 0
}

/** Whether one email matches. */
export const isMatch = (db: Database, match: string, id: number): boolean => find(db).one.get(match, id) !== null
