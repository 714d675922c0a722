/**
 * @module Whether an account may still send to an address: asked once for each recipient at acceptance, and again right before delivery. Never
 * writes.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements } from '#platform/db/open.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { suppressionListKey } from './suppression-list-key.ts'

/** What a suppression stops: all mail, or only mail with `transactional: false`. Position = the stored code: only ever append. */
export const SUPPRESSION_SCOPES = ['all', 'marketing'] as const
export type SuppressionScope = (typeof SUPPRESSION_SCOPES)[number]

export const toSuppressionScopeCode = (coverage: SuppressionScope): number => SUPPRESSION_SCOPES.indexOf(coverage)

/** Why an address is on the list, where the service itself put it there. */
export const UNSUBSCRIBE = 'unsubscribe'
export const HARD_BOUNCE = 'hard_bounce'
export const COMPLAINT = 'complaint'

/** Stored for "of every stream" and "of every list". */
export const EVERY = 0

interface Row {
  readonly covers: number
  readonly streamId: number
  readonly listId: number
  readonly reason: string
}

const COLUMNS = 'covers, stream_id AS streamId, list_id AS listId, reason'

/** Rows of an address that are read to choose among them; of whoever has more, SQL chooses. */
const MAX_ROWS_COMPARED = 8

const sql = prepareStatements((db) => ({
  // To choose in SQL costs three times as much as to find them, and nearly all addresses have none. In the order of the index: of all mail first.
  ofAddress: db.prepare<Row, [number, string, number]>(
    `SELECT ${COLUMNS} FROM suppressions WHERE account_id = ? AND address = ? ORDER BY covers, stream_id, list_id LIMIT ?`,
  ),
  chosen: db.prepare<Row, [number, string, number, number, number]>(
    `SELECT ${COLUMNS} FROM suppressions WHERE account_id = ? AND address = ? AND covers = ? AND stream_id IN (0, ?) AND list_id IN (0, ?)`,
  ),
  optedIn: db.prepare<{ id: number }, [number, string, number]>(
    'SELECT id FROM contacts WHERE account_id = ? AND address_key = ? AND list_id = ? AND opted_in_at IS NOT NULL',
  ),
}))

/**
 * The form in which an address is kept and looked up: lower case with composed Unicode, the domain in A-labels, a local part without needless
 * quotes. The key of a key is itself. Takes any text.
 */
export const toSuppressionKey = normaliseAddress

/** An email as far as it decides whether a suppression stops it. */
export interface SuppressionQuery {
  readonly accountId: number
  /** In any spelling. */
  readonly address: string
  readonly transactional: boolean
  /** Row id of its stream. */
  readonly streamId: number
  /** Row id of the contact list that it was sent to, if it was. */
  readonly listId?: number | undefined
}

/** Why the account may not send this email to the address; undefined when it may. A reason that stops all mail comes first. */
export function suppressionOf(db: Database, covered: SuppressionQuery): { reason: string } | undefined {
  const { accountId, transactional, streamId, listId } = covered
  const key = toSuppressionKey(covered.address)
  const listed = suppressionListKey(db, accountId, key)
  // An address has both forms when it was put on the list again, and then an older export with its hash was imported.
  const rows =
    listed === key ? findRows(db, key, covered) : [...findRows(db, listed, covered), ...findRows(db, key, covered)]
  if (rows.length === 0) return undefined
  const ofAll = rows.find(coversAllMail)
  if (ofAll || transactional) return ofAll
  const found = rows.filter(
    (row) => (row.streamId === EVERY || row.streamId === streamId) && (row.listId === EVERY || row.listId === listId),
  )
  const ofPart = found.find((row) => row.streamId !== EVERY || row.listId !== EVERY)
  if (ofPart || found.length === 0) return ofPart
  return listId !== undefined && isOptedIn(db, { accountId, addressKey: key, listId }) ? undefined : found[0]
}

const coversAllMail = ({ covers }: Row): boolean => covers === toSuppressionScopeCode('all')

/** The rows of one form of an address among which is each that stops the email. */
function findRows(db: Database, form: string, { accountId, streamId, listId }: SuppressionQuery): Row[] {
  const rows = sql(db).ofAddress.all(accountId, form, MAX_ROWS_COMPARED)
  // A stream each: an account can have as many as it likes.
  return rows.length < MAX_ROWS_COMPARED || rows.some(coversAllMail)
    ? rows
    : sql(db).chosen.all(accountId, form, toSuppressionScopeCode('marketing'), streamId, listId ?? EVERY)
}

/** Whether an address confirmed a list after it had left all of them, so that leaving all of them does not stop the mail of this one. */
export const isOptedIn = (
  db: Database,
  {
    accountId,
    addressKey,
    listId,
  }: { readonly accountId: number; readonly addressKey: string; readonly listId: number },
): boolean => sql(db).optedIn.get(accountId, addressKey, listId) !== null
