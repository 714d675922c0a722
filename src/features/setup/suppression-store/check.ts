/**
 * @module Decides whether suppressions allow an email to an address: at acceptance, and again right before delivery.
 * Never writes.
 */
import type { Database } from 'bun:sqlite'
import type { ContactOfList } from '#features/setup/contact-store/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { suppressionListKey } from './suppression-list-key.ts'
import type { suppressions } from './tables.ts'

/**
 * What a suppression stops: all mail, or only mail with `transactional: false`. The position is the stored code: only
 * append.
 */
export const SUPPRESSION_SCOPES = ['all', 'marketing'] as const
export type SuppressionScope = (typeof SUPPRESSION_SCOPES)[number]

export const toSuppressionScopeCode = (coverage: SuppressionScope): number => SUPPRESSION_SCOPES.indexOf(coverage)

/** Reasons that the service itself sets. */
export const UNSUBSCRIBE = 'unsubscribe'
export const HARD_BOUNCE = 'hard_bounce'
export const COMPLAINT = 'complaint'

/** Stored in place of an id for "every stream" and "every list". */
export const EVERY = 0

type Row = Readonly<
  Pick<typeof suppressions.$inferSelect, 'covers' | 'streamId' | 'listId' | 'reason' | 'sourceEmailId' | 'createdAt'>
>

const COLUMNS =
  'covers, stream_id AS streamId, list_id AS listId, reason, source_email_id AS sourceEmailId, created_at AS createdAt'

/** If an address has fewer rows than this, code compares them; otherwise SQL selects from them. */
const MAX_ROWS_COMPARED = 8

const sql = prepareStatements((db) => ({
  // Finds the rows without selecting: selecting in SQL costs three times as much, and nearly all addresses have no
  // rows. In index order, rows that stop all mail come first.
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
 * The stored form of an address: lower case with composed Unicode, domain in A-labels, local part without needless
 * quotes. Idempotent; accepts any text.
 */
export const toSuppressionKey = normaliseAddress

/** The fields of an email that decide whether a suppression stops it. */
export interface SuppressionQuery {
  readonly accountId: number
  /** In any spelling. */
  readonly address: string
  readonly transactional: boolean
  readonly streamId: number
  /** Row id of the contact list to which it is sent, if any. */
  readonly listId?: number | undefined
}

/**
 * The suppression that stops this email to the address; undefined when the email may be sent. A suppression of all mail
 * comes first.
 */
export function suppressionOf(db: Database, covered: SuppressionQuery): Row | undefined {
  const { accountId, transactional, streamId, listId } = covered
  const key = toSuppressionKey(covered.address)
  const listed = suppressionListKey(db, accountId, key)
  // An erased address is listed in both forms if it was suppressed again and then an older export with its hash was
  // imported.
  const rows =
    listed === key ? findRows(db, key, covered) : [...findRows(db, listed, covered), ...findRows(db, key, covered)]
  if (rows.length === 0) return undefined
  const forAllMail = rows.find(coversAllMail)
  if (forAllMail || transactional) return forAllMail
  const found = rows.filter(
    (row) => (row.streamId === EVERY || row.streamId === streamId) && (row.listId === EVERY || row.listId === listId),
  )
  const forPart = found.find((row) => row.streamId !== EVERY || row.listId !== EVERY)
  if (forPart || found.length === 0) return forPart
  return listId !== undefined && isOptedIn(db, { accountId, addressKey: key, listId }) ? undefined : found[0]
}

const coversAllMail = ({ covers }: Row): boolean => covers === toSuppressionScopeCode('all')

/** The rows of one form of an address. All rows that stop the email are among them. */
function findRows(db: Database, form: string, { accountId, streamId, listId }: SuppressionQuery): Row[] {
  const rows = sql(db).ofAddress.all(accountId, form, MAX_ROWS_COMPARED)
  // An address may have one row per stream, and an account may have any number of streams, so code does not compare
  // them all.
  return rows.length < MAX_ROWS_COMPARED || rows.some(coversAllMail)
    ? rows
    : sql(db).chosen.all(accountId, form, toSuppressionScopeCode('marketing'), streamId, listId ?? EVERY)
}

/** Whether an address confirmed a list after leaving all lists, so that mail of this list still reaches it. */
export const isOptedIn = (db: Database, { accountId, addressKey, listId }: ContactOfList): boolean =>
  sql(db).optedIn.get(accountId, addressKey, listId) !== null
