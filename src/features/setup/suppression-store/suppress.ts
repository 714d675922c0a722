/**
 * @module Puts addresses on an account's suppression list and takes them off, inside the caller's transaction: for outcomes, complaints,
 * unsubscriptions, the API and imports alike. The only writer of `suppressions`.
 */
import type { App } from '#features/core/app/app.ts'
import { audit, createSystemActor } from '#features/core/audit-logs/audit.ts'
import { count } from '#features/core/events/record.ts'
import { transitionContacts } from '#features/setup/contact-store/status.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
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
  /** `hard_bounce`, `complaint`, `manual`, `unsubscribe`, or as its account gave it. */
  readonly reason: string
  readonly covers: SuppressionScope
  /** Only mail of this stream. Of `marketing` only. */
  readonly streamId?: number | undefined
  /** Only mail to this contact list. Of `marketing` only. */
  readonly listId?: number | undefined
  /** Row id of the email that led to it. */
  readonly sourceEmailId?: number | undefined
  /** What is on the list already keeps its reason against a complaint too: whoever adds to the list does not change it. */
  readonly keepsFirst?: boolean
}

/** One row of the list. */
export interface SuppressionSelector {
  readonly accountId: number
  readonly address: string
  readonly covers: SuppressionScope
  /** Left out: the row of every stream. */
  readonly streamId?: number | undefined
  /** Left out: the row of every list. */
  readonly listId?: number | undefined
  /** Only when the row has this reason. */
  readonly reason?: string | undefined
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
  // A person who complained says more than a note of the account, after which mail would come again once that is taken off.
  complain: db.prepare<{ id: number; reason: string }, [number, string, number, string, string]>(
    'SELECT id, reason FROM suppressions WHERE account_id = ? AND address = ? AND covers = ? AND reason NOT IN (?, ?)',
  ),
  setReason: db.prepare('UPDATE suppressions SET reason = ?, source_email_id = ? WHERE id = ?'),
  erase: db.prepare('UPDATE OR IGNORE suppressions SET address = ? WHERE account_id = ? AND address = ?'),
  deleteAddress: db.prepare<{ reason: string }, [number, string]>(
    'DELETE FROM suppressions WHERE account_id = ? AND address = ? RETURNING reason',
  ),
}))

/** Counters do not belong to an hour here: how many there are now. */
const NO_HOUR: Millis = 0

/** Counter of all suppressions of an account. */
export const TOTAL_METRIC = 'suppressions'

/** Counter of those with one reason. A bar would end the name of a counter. */
export const toReasonMetric = (reason: string): string =>
  `suppressions:${reason.replaceAll('%', '%25').replaceAll('|', '%7C')}`

function countRow(tx: Tx, accountId: number, reason: string, delta: 1 | -1): void {
  count(tx, accountId, TOTAL_METRIC, NO_HOUR, delta)
  count(tx, accountId, toReasonMetric(reason), NO_HOUR, delta)
}

/**
 * Puts an address on the list. False when it is there already with the same coverage, stream and list: then its first reason and source stay, but for
 * a complaint, which takes the place of what is neither a complaint nor a hard bounce unless it `keepsFirst`. A suppression of all mail has neither stream
 * nor list. The contacts of the address take the status that follows from it, also when it is there already: one that was added since then can leave
 * as well.
 */
export function suppress(app: Pick<App, 'eventTime'>, tx: Tx, suppression: NewSuppression): boolean {
  const { accountId, reason, covers } = suppression
  const isOfAll = covers === 'all'
  const addressKey = toSuppressionKey(suppression.address)
  stopContacts(app, tx, suppression, addressKey)
  const listed = suppressionListKey(tx.db, accountId, addressKey)
  // As an export has it, imported again.
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
    app.eventTime(),
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

/** Puts an address on the list for all mail, because of what became of an email to it, with an audit row. False when it is there already. */
export function suppressAfterOutcome(
  app: App,
  tx: Tx,
  email: { readonly id: number; readonly accountId: number; readonly accountUuid: UuidBytes },
  { address, reason }: Pick<NewSuppression, 'address' | 'reason'>,
): boolean {
  const { accountId } = email
  // Nobody knows any more whose it was.
  if (address === ERASED_ADDRESS) return false
  if (!suppress(app, tx, { accountId, address, reason, covers: 'all', sourceEmailId: email.id })) return false
  audit(app, tx, createSystemActor(email), {
    action: 'suppression.created',
    resourceType: 'suppression',
    resourceId: suppressionListKey(tx.db, accountId, toSuppressionKey(address)),
    metadata: { reason },
  })
  return true
}

/**
 * Takes one row off the list; its contacts stay as they are, for the caller to bring back. False when it is not there, or has another reason than the one asked for.
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

/** Takes everything about an address off the list, but leaves its contacts as they are; returns the reasons that it was there for. */
export function unsuppressAddress(tx: Tx, accountId: number, address: string): string[] {
  const addressKey = toSuppressionKey(address)
  const reasons = [...new Set([suppressionListKey(tx.db, accountId, addressKey), addressKey])]
    .flatMap((form) => sql(tx.db).deleteAddress.all(accountId, form))
    .map(({ reason }) => reason)
  for (const reason of reasons) countRow(tx, accountId, reason, -1)
  return reasons
}

/** Keeps what the list says of an address without the address: under a keyed hash, by which it is still found. Returns how many rows that were. */
export function eraseSuppressions(tx: Tx, accountId: number, address: string): number {
  const addressKey = toSuppressionKey(address)
  const form = prepareErasedKey(tx.db, accountId, addressKey)
  const { changes } = sql(tx.db).erase.run(form, accountId, addressKey)
  // What the hash says already, from an export that was imported.
  const duplicates = sql(tx.db).deleteAddress.all(accountId, addressKey)
  for (const { reason } of duplicates) countRow(tx, accountId, reason, -1)
  return changes + duplicates.length
}
