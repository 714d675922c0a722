/**
 * @module Adds addresses to an account's suppression list and removes them, in the caller's transaction: for delivery
 * outcomes, complaints, unsubscriptions, the API and imports. The only writer of `suppressions`.
 */
import type { App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { count, NO_HOUR } from '#features/core/events/record.ts'
import { transitionContacts } from '#features/setup/contact-store/status.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import {
  COMPLAINT,
  EVERY,
  HARD_BOUNCE,
  type SuppressionScope,
  toSuppressionKey,
  toSuppressionScopeCode,
  UNSUBSCRIBE,
} from './check.ts'
import {
  ERASED_ADDRESS,
  isErasedKey,
  prepareErasedKey,
  recordErased,
  suppressionListKey,
} from './suppression-list-key.ts'

export interface NewSuppression {
  readonly accountId: number
  /** In any spelling; a valid address. */
  readonly address: string
  /** `hard_bounce`, `complaint`, `manual`, `unsubscribe`, or a reason that the account provided. */
  readonly reason: string
  readonly covers: SuppressionScope
  /** Only mail of this stream; allowed for `marketing` only. */
  readonly streamId?: number | undefined
  /** Only mail to this contact list; allowed for `marketing` only. */
  readonly listId?: number | undefined
  /** Row id of the email that caused it. */
  readonly sourceEmailId?: number | undefined
  /**
   * Whether an existing row keeps its reason even if the new reason is a complaint. Set for additions by the account,
   * which must not change a reason.
   */
  readonly keepsFirst?: boolean
  /** When another service suppressed it; undefined, or a time to come: now. */
  readonly createdAt?: Millis | undefined
}

/** Selects one row of the list; without `streamId` or `listId` the row for every stream or list. */
type SuppressionSelector = Pick<NewSuppression, 'accountId' | 'address' | 'covers' | 'streamId' | 'listId'> & {
  /** Only if the row has this reason. */
  readonly reason?: string
}

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, (string | number | Uint8Array | null)[]>(
    `INSERT INTO suppressions (uuid, account_id, address, covers, stream_id, list_id, reason, source_email_id, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
  ),
  delete: db.prepare<{ reason: string }, (string | number | null)[]>(
    `DELETE FROM suppressions WHERE account_id = ? AND address = ? AND covers = ? AND stream_id = ? AND list_id = ? AND reason = coalesce(?, reason)
     RETURNING reason`,
  ),
  // A complaint outranks a reason set by the account. Otherwise the account could remove that row, and mail would get
  // through again.
  complain: db.prepare<{ id: number; reason: string }, [number, string, number, string, string]>(
    'SELECT id, reason FROM suppressions WHERE account_id = ? AND address = ? AND covers = ? AND reason NOT IN (?, ?)',
  ),
  setReason: db.prepare('UPDATE suppressions SET reason = ?, source_email_id = ? WHERE id = ?'),
  erase: db.prepare('UPDATE OR IGNORE suppressions SET address = ? WHERE account_id = ? AND address = ?'),
  deleteAddress: db.prepare<{ reason: string }, [number, string, string | null, number | null]>(
    'DELETE FROM suppressions WHERE account_id = ? AND address = ? AND reason = coalesce(?, reason) AND stream_id = coalesce(?, stream_id) RETURNING reason',
  ),
}))

export const TOTAL_METRIC = 'suppressions'

/** Counter of suppressions with one reason. A `|` would end the name of a counter, so it is escaped. */
export const toReasonMetric = (reason: string): string =>
  `suppressions:${reason.replaceAll('%', '%25').replaceAll('|', '%7C')}`

function countRow(tx: Tx, accountId: number, reason: string, delta: 1 | -1): void {
  count(tx, accountId, TOTAL_METRIC, NO_HOUR, delta)
  count(tx, accountId, toReasonMetric(reason), NO_HOUR, delta)
}

/**
 * Adds an address to the list and stops its contacts accordingly. Contacts are stopped even if the address was already
 * on the list, because some may have been added since then. A suppression of all mail has neither stream nor list. An
 * existing row with the same scope, stream and list keeps its reason and source, with one exception: unless
 * `keepsFirst` is set, a complaint replaces any reason for stopping all mail except a complaint or hard bounce. Returns
 * whether a row was added or changed.
 */
export function suppress(app: Pick<App, 'eventTime'>, tx: Tx, suppression: NewSuppression): boolean {
  const { accountId, reason, covers } = suppression
  const isOfAll = covers === 'all'
  const addressKey = toSuppressionKey(suppression.address)
  stopContacts(app, tx, suppression, addressKey)
  const listed = suppressionListKey(tx.db, accountId, addressKey)
  // An imported export may contain the keys of erased addresses.
  if (isErasedKey(listed)) recordErased(tx.db, accountId)
  const inserted = sql(tx.db).insert.get(
    newUuid(),
    accountId,
    listed,
    toSuppressionScopeCode(covers),
    isOfAll ? EVERY : (suppression.streamId ?? EVERY),
    isOfAll ? EVERY : (suppression.listId ?? EVERY),
    reason,
    suppression.sourceEmailId ?? null,
    Math.min(suppression.createdAt ?? Number.POSITIVE_INFINITY, app.eventTime()),
  )
  if (!inserted)
    return isOfAll && reason === COMPLAINT && !suppression.keepsFirst && changeToComplaint(tx, suppression, listed)
  countRow(tx, accountId, reason, 1)
  return true
}

function changeToComplaint(tx: Tx, { accountId, sourceEmailId }: NewSuppression, listed: string): boolean {
  const row = sql(tx.db).complain.get(accountId, listed, toSuppressionScopeCode('all'), COMPLAINT, HARD_BOUNCE)
  if (!row) return false
  sql(tx.db).setReason.run(COMPLAINT, sourceEmailId ?? null, row.id)
  countRow(tx, accountId, row.reason, -1)
  countRow(tx, accountId, COMPLAINT, 1)
  return true
}

function stopContacts(
  app: Pick<App, 'eventTime'>,
  tx: Tx,
  { accountId, reason, covers, streamId = EVERY, listId = EVERY }: NewSuppression,
  addressKey: string,
): void {
  if (covers === 'all') {
    const to = reason === HARD_BOUNCE ? 'bounced' : reason === COMPLAINT ? 'complained' : undefined
    if (to) transitionContacts(app, tx, { accountId, addressKey, to })
  } else if (reason === UNSUBSCRIBE) {
    if (listId !== EVERY) transitionContacts(app, tx, { accountId, addressKey, listId, to: 'unsubscribed' })
    else if (streamId === EVERY) transitionContacts(app, tx, { accountId, addressKey, to: 'unsubscribed' })
  }
}

/**
 * Suppresses all mail to a recipient because of an email's outcome, with an audit entry. False when the address is
 * already suppressed.
 */
export function suppressAfterOutcome(
  app: App,
  tx: Tx,
  email: { readonly id: number; readonly accountId: number; readonly accountUuid: UuidBytes },
  { address, reason }: Pick<NewSuppression, 'address' | 'reason'>,
): boolean {
  const { accountId } = email
  // The recipient was erased, so the address is unknown.
  if (address === ERASED_ADDRESS) return false
  if (!suppress(app, tx, { accountId, address, reason, covers: 'all', sourceEmailId: email.id })) return false
  auditChange(
    app,
    tx,
    createSystemActor(email),
    'suppression.created',
    suppressionListKey(tx.db, accountId, toSuppressionKey(address)),
    { reason },
  )
  return true
}

/**
 * Removes one row from the list; the caller restores its contacts. False when there is no such row, or when the row has
 * a reason other than the requested one.
 */
export function unsuppress(tx: Tx, place: SuppressionSelector): boolean {
  const { accountId } = place
  const removed = sql(tx.db).delete.get(
    accountId,
    suppressionListKey(tx.db, accountId, toSuppressionKey(place.address)),
    toSuppressionScopeCode(place.covers),
    place.streamId ?? EVERY,
    place.listId ?? EVERY,
    place.reason ?? null,
  )
  if (!removed) return false
  countRow(tx, accountId, removed.reason, -1)
  return true
}

/**
 * Removes all rows of an address but leaves its contacts as they are; returns the reasons of the rows.
 * @param reason null: rows with any reason
 * @param streamId null: rows of any stream
 */
export function unsuppressAddress(
  tx: Tx,
  accountId: number,
  address: string,
  reason: string | null = null,
  streamId: number | null = null,
): string[] {
  const addressKey = toSuppressionKey(address)
  const reasons = [...new Set([suppressionListKey(tx.db, accountId, addressKey), addressKey])]
    .flatMap((form) => sql(tx.db).deleteAddress.all(accountId, form, reason, streamId))
    .map(({ reason }) => reason)
  for (const reason of reasons) countRow(tx, accountId, reason, -1)
  return reasons
}

/** Replaces an address on the list with its keyed hash, under which it is still found. Returns the number of rows. */
export function eraseSuppressions(tx: Tx, accountId: number, address: string): number {
  const addressKey = toSuppressionKey(address)
  const form = prepareErasedKey(tx.db, accountId, addressKey)
  const { changes } = sql(tx.db).erase.run(form, accountId, addressKey)
  // These rows did not get the hash, because an imported export had already added such rows with it.
  const duplicates = sql(tx.db).deleteAddress.all(accountId, addressKey, null, null)
  for (const { reason } of duplicates) countRow(tx, accountId, reason, -1)
  return changes + duplicates.length
}
