/**
 * @module The inbox over captured mail: one row per email, with what its list shows and whether it was read. Kept in
 * `capture.db` beside the captures; a trigger deletes a row with the last capture of its email. System mail, whose
 * links and codes are for its recipient alone, has no row.
 */
import type { Database } from 'bun:sqlite'
import type { Committer } from '#platform/db/commit.ts'
import { belowTimeAndId, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import type { Millis } from '#platform/units.ts'
import { decodeFields, decodeValue, readHead } from '#protocols/mime/header-fields.ts'

/** What a list shows of a captured email. */
export interface InboxEmail {
  readonly emailId: number
  readonly receivedAt: Millis
  readonly isRead: boolean
  readonly sizeBytes: number
  /** Value of the From field. */
  readonly sender: string
  readonly subject: string
}

export interface InboxFilter {
  /** Text within a recipient, the sender or the subject, in any case. */
  readonly text: string | undefined
  readonly isRead: boolean | undefined
}

interface SavedCapture extends Pick<InboxEmail, 'emailId' | 'receivedAt' | 'sizeBytes'> {
  readonly accountId: number
  readonly rcptTo: string
  readonly head: Uint8Array
}

/** Columns and texts are narrow, so that a search reads little: messages are in the other table. */
export const INBOX_SCHEMA = `
  CREATE TABLE IF NOT EXISTS inbox (
    email_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, received_at INTEGER NOT NULL, is_read INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL, sender TEXT NOT NULL, subject TEXT NOT NULL, search_text TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS inbox_account ON inbox (account_id, received_at, email_id, is_read);
  CREATE TRIGGER IF NOT EXISTS inbox_removed AFTER DELETE ON captures
    WHEN NOT EXISTS (SELECT 1 FROM captures WHERE email_id = OLD.email_id)
    BEGIN DELETE FROM inbox WHERE email_id = OLD.email_id; END;
`

/** A search examines this many of the newest emails, in some 20 ms. */
export const MAX_SEARCHED = 20_000
const MAX_TEXT_LENGTH = 500

const COLUMNS =
  'email_id AS emailId, received_at AS receivedAt, is_read AS isRead, size_bytes AS sizeBytes, sender, subject'

type InboxRow = Omit<InboxEmail, 'isRead'> & { readonly isRead: number }

const NEWEST_FIRST = 'ORDER BY received_at DESC, email_id DESC'
/** The newest emails of an account that have a text. */
const searchEmails = (columns: string) =>
  `SELECT ${columns} FROM (SELECT * FROM inbox WHERE account_id = ?1 ${NEWEST_FIRST} LIMIT ${MAX_SEARCHED})
   WHERE instr(search_text, ?2) > 0 AND is_read = coalesce(?3, is_read)`

/** The emails of an account in a state; null: any. The index has all that is compared. */
const OF_STATE = 'FROM inbox INDEXED BY inbox_account WHERE account_id = ? AND is_read = coalesce(?, is_read)'
type Window = readonly [receivedAt: number, emailId: number, limit: number, offset: number]

const sql = prepareStatements((db) => ({
  page: db.prepare<InboxRow, [number, number | null, ...Window]>(
    `SELECT ${COLUMNS} ${OF_STATE} AND (received_at, email_id) < (?, ?) ${NEWEST_FIRST} LIMIT ? OFFSET ?`,
  ),
  total: db.prepare<{ n: number }, [number, number | null]>(`SELECT count(*) AS n ${OF_STATE}`),
  search: db.prepare<InboxRow, [number, string, number | null, ...Window]>(
    `${searchEmails(COLUMNS)} AND (received_at, email_id) < (?4, ?5) ${NEWEST_FIRST} LIMIT ?6 OFFSET ?7`,
  ),
  searchTotal: db.prepare<{ n: number }, [number, string, number | null]>(searchEmails('count(*) AS n')),
  one: db.prepare<InboxRow, [number, number]>(`SELECT ${COLUMNS} FROM inbox WHERE email_id = ? AND account_id = ?`),
  // The text of a recipient is added once.
  add: db.prepare(
    `INSERT INTO inbox (email_id, account_id, received_at, size_bytes, sender, subject, search_text)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7 || ?8)
       ON CONFLICT (email_id) DO UPDATE SET search_text = search_text || ?8 WHERE instr(search_text, ?8) = 0`,
  ),
  setRead: db.prepare('UPDATE inbox SET is_read = ? WHERE email_id = ? AND account_id = ?'),
  oldest: db.prepare<{ emailId: number }, [number, number, number]>(
    `SELECT email_id AS emailId FROM inbox WHERE account_id = ? AND received_at <= ?
       ORDER BY received_at, email_id LIMIT ?`,
  ),
  newest: db.prepare<{ receivedAt: number | null }, [number]>(
    'SELECT max(received_at) AS receivedAt FROM inbox WHERE account_id = ?',
  ),
}))

/** Lists an email, or adds a recipient to it, in the transaction that saves the capture. */
export function addToInbox(db: Database, saved: SavedCapture): void {
  const { sender, subject } = readNames(saved.head)
  const text = `${normaliseText(sender)}\n${normaliseText(subject)}\n`
  const recipient = `${normaliseText(saved.rcptTo)}\n`
  const { emailId, accountId, receivedAt, sizeBytes } = saved
  sql(db).add.run(emailId, accountId, receivedAt, sizeBytes, sender, subject, text, recipient)
}

/** A page of the captured emails of an account, newest first, and their total. */
export function listInbox(
  db: Database,
  accountId: number,
  { text, isRead }: InboxFilter,
  page: RowWindow,
): { readonly emails: readonly InboxEmail[]; readonly total: number } {
  const wanted = normaliseText(text ?? '')
  const window = [...belowTimeAndId(page), page.limit, page.offset] as const
  const state = isRead === undefined ? null : Number(isRead)
  const statements = sql(db)
  const [rows, counted] =
    wanted === ''
      ? [statements.page.all(accountId, state, ...window), statements.total.get(accountId, state)]
      : [
          statements.search.all(accountId, wanted, state, ...window),
          statements.searchTotal.get(accountId, wanted, state),
        ]
  return { emails: rows.map(toInboxEmail), total: counted?.n ?? 0 }
}

/** The row of an email; undefined if the account has none. */
export function findInInbox(db: Database, accountId: number, emailId: number): InboxEmail | undefined {
  const row = sql(db).one.get(emailId, accountId)
  return row ? toInboxEmail(row) : undefined
}

/** Marks an email as read or unread; resolves once it is on disk. */
export const markRead = (committer: Committer, accountId: number, emailId: number, isRead: boolean): Promise<unknown> =>
  committer.write((tx) => sql(tx.db).setRead.run(isRead ? 1 : 0, emailId, accountId))

/** When the newest email of an account was captured; undefined: it has none. */
export const findNewestTime = (db: Database, accountId: number): Millis | undefined =>
  sql(db).newest.get(accountId)?.receivedAt ?? undefined

/** Row ids of the oldest emails of an account that were captured by a time. */
export const findCapturedBy = (db: Database, accountId: number, time: Millis, limit: number): number[] =>
  sql(db)
    .oldest.all(accountId, time, limit)
    .map(({ emailId }) => emailId)

const toInboxEmail = ({ isRead, ...row }: InboxRow): InboxEmail => ({ ...row, isRead: isRead === 1 })

/** Line breaks separate the texts, so a search never finds a match across two of them. */
const normaliseText = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[\r\n\0]/g, ' ')
    .trim()

/** The sender and the subject of a message, decoded; empty if it has none. */
export function readNames(head: Uint8Array): Pick<InboxEmail, 'sender' | 'subject'> {
  const fields = decodeFields(readHead(head)?.rawFields ?? [], null)
  const find = (wanted: string): string => {
    const value = fields.find(([name]) => name.toLowerCase() === wanted)?.[1] ?? ''
    return decodeValue(value).slice(0, MAX_TEXT_LENGTH).toWellFormed()
  }
  return { sender: find('from'), subject: find('subject') }
}
