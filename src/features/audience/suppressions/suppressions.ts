/** @module The suppression list as its account uses it: list, add, remove. Totals come from counters. */
import type { Database } from 'bun:sqlite'
import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { requireOpenAccount } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { NO_HOUR, readCounter } from '#features/core/events/record.ts'
import {
  EVERY,
  type SuppressionScope,
  toSuppressionKey,
  toSuppressionScopeCode,
  UNSUBSCRIBE,
} from '#features/setup/suppression-store/check.ts'
import { reinstateContacts } from '#features/setup/suppression-store/contacts.ts'
import {
  suppress,
  TOTAL_METRIC,
  toReasonMetric,
  unsuppressAddress,
} from '#features/setup/suppression-store/suppress.ts'
import { isErasedKey, suppressionListKey } from '#features/setup/suppression-store/suppression-list-key.ts'
import { belowId, newestFirst, prepareStatements, type RowWindow } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

export interface Suppression {
  readonly id: number
  readonly uuid: UuidBytes
  readonly address: string
  readonly reason: string
  /** Slug of its stream; null: of every stream. */
  readonly stream: string | null
  /** Public id of its contact list, even if that was deleted; null: of every list. */
  readonly listUuid: UuidBytes | null
  /** Public id of the email that caused it, while that is stored. */
  readonly sourceUuid: UuidBytes | null
  readonly createdAt: Millis
}

const DEFAULT_REASON = 'manual'
export const MAX_REASON_LENGTH = 200

const SELECT = `SELECT s.id, s.uuid, s.address, s.reason, streams.slug AS stream, contact_lists.uuid AS listUuid, emails.uuid AS sourceUuid,
  s.created_at AS createdAt
  FROM suppressions s LEFT JOIN streams ON streams.id = s.stream_id LEFT JOIN contact_lists ON contact_lists.id = s.list_id LEFT JOIN emails ON emails.id = s.source_email_id`

// The inner query finds the page by index alone, before the joins. It names the index; with another one, SQLite could
// read an account's whole list to find the few rows of one reason or address.
const formatPageQuery = (index: string, where: string) =>
  `${SELECT} WHERE s.id IN (SELECT id FROM suppressions INDEXED BY ${index} WHERE ${where} AND id < ? ORDER BY id DESC LIMIT ? OFFSET ?)
   ORDER BY s.id DESC`

const sql = prepareStatements((db) => ({
  page: db.prepare<Suppression, [number, number, number, number]>(
    formatPageQuery('suppressions_account', 'account_id = ?'),
  ),
  pageOfReason: db.prepare<Suppression, [number, string, number, number, number]>(
    formatPageQuery('suppressions_reason', 'account_id = ? AND reason = ?'),
  ),
  listOfAddress: newestFirst<Suppression, [number, string, string, string | null]>(
    db,
    SELECT,
    'suppressions s INDEXED BY suppressions_address WHERE account_id = ? AND address IN (?, ?) AND reason = coalesce(?, reason)',
    's.id',
  ),
  ofStream: db.prepare<Suppression, [number, string, number, number]>(
    `${SELECT} WHERE s.account_id = ? AND s.address = ? AND s.covers = ? AND s.stream_id = ? AND s.list_id = 0`,
  ),
  after: db.prepare<Suppression, [number, number, number]>(
    `${SELECT} WHERE s.account_id = ? AND s.id > ? ORDER BY s.id LIMIT ?`,
  ),
  afterOfReason: db.prepare<Suppression, [number, string, number, number]>(
    `${SELECT} WHERE s.id IN (SELECT id FROM suppressions INDEXED BY suppressions_reason WHERE account_id = ? AND reason = ? AND id > ? ORDER BY id LIMIT ?) ORDER BY s.id`,
  ),
  byId: db.prepare<Suppression, [number, number]>(`${SELECT} WHERE s.account_id = ? AND s.id = ?`),
}))

export interface SuppressionFilter {
  readonly reason?: string | undefined
  /** In any spelling. */
  readonly address?: string | undefined
}

/** A page of an account's suppressions, newest first, with the total under the filter. */
export function listSuppressions(
  db: Database,
  accountId: number,
  { reason, address }: SuppressionFilter,
  page: RowWindow,
): { suppressions: Suppression[]; total: number } {
  const statements = sql(db)
  if (address !== undefined) {
    const key = toKey(address)
    const forms = [suppressionListKey(db, accountId, key), key] as const
    const { rows: suppressions, total } = statements.listOfAddress(page, accountId, ...forms, reason ?? null)
    return { suppressions, total }
  }
  const metric = reason === undefined ? TOTAL_METRIC : toReasonMetric(reason)
  const total = readCounter(db, accountId, metric, NO_HOUR)
  const { limit, offset } = page
  const below = belowId(page)
  // Past the end the query is skipped: SQLite would scan all rows up to the offset.
  if (offset >= total) return { suppressions: [], total }
  return {
    suppressions:
      reason === undefined
        ? statements.page.all(accountId, below, limit, offset)
        : statements.pageOfReason.all(accountId, reason, below, limit, offset),
    total,
  }
}

/** Up to `limit` suppressions with a higher row id, oldest first. @param reason only those with this reason */
export const listSuppressionsAfter = (
  db: Database,
  accountId: number,
  after: number,
  limit: number,
  reason?: string,
): Suppression[] =>
  reason === undefined
    ? sql(db).after.all(accountId, after, limit)
    : sql(db).afterOfReason.all(accountId, reason, after, limit)

/** The account's suppression with a row id. */
export const findSuppressionById = (db: Database, accountId: number, id: number): Suppression | undefined =>
  sql(db).byId.get(accountId, id) ?? undefined

/** An address that can be put on the list, or why it cannot; also the keyed hash of an erased address. */
export function parseSuppressedAddress(text: string): { readonly address: string } | { readonly reason: string } {
  if (isErasedKey(text)) return { address: text }
  const parsed = parseMailbox(text)
  return parsed.kind === 'ok' ? { address: parsed.address } : { reason: parsed.reason }
}

/** The key of the address that a request gives; text that is no address is made a key as it is. */
function toKey(text: string): string {
  const listed = parseSuppressedAddress(text)
  return toSuppressionKey('address' in listed ? listed.address : text)
}

/** A reason in its stored form, or what is wrong with it. An empty reason means the default. */
export function parseReason(text: string | null | undefined): { readonly reason: string } | { readonly error: string } {
  if (text === undefined || text === null || text === '') return { reason: DEFAULT_REASON }
  if (text.length > MAX_REASON_LENGTH) return { error: `A reason must have at most ${MAX_REASON_LENGTH} characters.` }
  if (!text.isWellFormed()) return { error: 'The reason must be valid Unicode text.' }
  return { reason: UNSUBSCRIBE_WORD.test(text) ? UNSUBSCRIBE : text }
}

/** Other services' words for an unsubscription. Stored literally, they would also stop receipts and password resets. */
const UNSUBSCRIBE_WORD = /^\s*(?:list[-_ ]?)?unsubscribed?\s*$/i

/** Only addresses that unsubscribed may still get transactional mail. */
export const toScope = (reason: string): SuppressionScope => (reason === UNSUBSCRIBE ? 'marketing' : 'all')

/** Adds an address; returns the existing row if one has the same scope. Throws 422 for an invalid address. */
export function addSuppression(
  app: App,
  actor: Actor,
  input: {
    readonly address: string
    readonly reason?: string | null | undefined
    /** Row id; for an unsubscription from this stream only. */
    readonly streamId?: number
  },
): Promise<Suppression> {
  const listed = parseSuppressedAddress(input.address)
  if ('reason' in listed) throw invalid('email_address', listed.reason, 'invalid_address')
  const parsed = parseReason(input.reason)
  if ('error' in parsed) throw invalid('reason', parsed.error)
  const { reason } = parsed
  const { accountId } = actor
  const { streamId = EVERY } = input
  const covers = toScope(reason)
  return app.commit.write((tx) => {
    requireOpenAccount(tx.db, accountId)
    const address = suppressionListKey(tx.db, accountId, toSuppressionKey(listed.address))
    const insert = () => suppress(app, tx, { accountId, address, reason, covers, streamId, keepsFirst: true })
    if (storeWithinPlan(app, tx, accountId, insert)) {
      auditChange(app, tx, actor, 'suppression.created', address, { reason })
    }
    const row = sql(tx.db).ofStream.get(accountId, address, toSuppressionScopeCode(covers), streamId)
    if (!row) throw new Error('suppression neither added nor found')
    return row
  })
}

/**
 * Removes all suppressions of an address, however it is spelled, or those with a reason; returns the number of rows. Its contacts that are
 * unsubscribed, bounced or complained regain their previous status, because allowing mail to an address again applies
 * to contact lists too.
 * @param streamId 0: those of no stream, also of lists
 */
export function removeSuppression(
  app: App,
  actor: Actor,
  address: string,
  reason?: string,
  streamId?: number,
): Promise<number> {
  const key = toKey(address)
  return app.commit.writeFromReserve((tx) => {
    const listed = suppressionListKey(tx.db, actor.accountId, key)
    const reasons = unsuppressAddress(tx, actor.accountId, key, reason, streamId)
    if (reasons.length > 0) {
      const target = { accountId: actor.accountId, addressKey: key }
      reinstateContacts(app, tx, target, ['unsubscribed', 'bounced', 'complained'])
      auditChange(app, tx, actor, 'suppression.deleted', listed, { reasons })
    }
    return reasons.length
  })
}
