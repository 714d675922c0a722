/**
 * @module Account rows for sub-accounts, deletion and export: finds, lists and changes sub-accounts; closes an
 * account and empties its row once all its data is deleted; records exports and the first use of the event feed; finds the account that an operator names. Decides
 * nothing: `sub-accounts` and `privacy` do.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/units.ts'
import { type Account, findAccount, listAccounts } from './accounts.ts'
import { prepareCount } from './limits.ts'

const sql = prepareStatements((db) => ({
  existing: prepareCount(db, 'accounts WHERE parent_id = ? AND deleted_at IS NULL'),
  find: db.prepare<{ id: number }, [Uint8Array, number]>(
    'SELECT id FROM accounts WHERE uuid = ? AND parent_id = ? AND deleted_at IS NULL',
  ),
  list: newestFirst<{ id: number }, [number]>(
    db,
    'SELECT id FROM accounts',
    'accounts WHERE parent_id = ? AND deleted_at IS NULL',
  ),
  update: db.prepare('UPDATE accounts SET name = ?, monthly_quota = ?, disabled_at = ?, updated_at = ? WHERE id = ?'),
  ownQuota: db.prepare<{ quota: number | null }, [number]>('SELECT monthly_quota AS quota FROM accounts WHERE id = ?'),
  isOpen: db.prepare<{ one: number }, [number]>('SELECT 1 AS one FROM accounts WHERE id = ? AND deleted_at IS NULL'),
  close: db.prepare('UPDATE accounts SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2 AND deleted_at IS NULL'),
  // The row stays so that its id is never reused: old tokens and erased audit entries still contain it.
  empty: db.prepare(
    `UPDATE accounts SET uuid = ?, name = '', email = '', plan = 'free', monthly_quota = NULL, parent_id = NULL, pause_reason = NULL, stripe_customer_id = NULL,
     stripe_subscription_id = NULL, subscription_status = NULL, billing_email = NULL, trial_ends_at = NULL WHERE id = ? AND deleted_at IS NOT NULL`,
  ),
  keepPause: db.prepare(
    `UPDATE accounts SET pause_source = parent.pause_source FROM accounts parent
     WHERE accounts.id = ? AND parent.id = accounts.parent_id AND accounts.pause_source IS NULL`,
  ),
  paused: db.prepare<{ uuid: UuidBytes }, [number]>(
    'SELECT uuid FROM accounts WHERE id = ? AND pause_source IS NOT NULL',
  ),
  subAccounts: db.prepare<{ id: number; uuid: UuidBytes }, [number, number]>(
    'SELECT id, uuid FROM accounts WHERE parent_id = ? AND deleted_at IS NULL ORDER BY id LIMIT ?',
  ),
  exportedAt: db.prepare<{ at: Millis | null }, [number]>('SELECT exported_at AS at FROM accounts WHERE id = ?'),
  setExportedAt: db.prepare('UPDATE accounts SET exported_at = ? WHERE id = ?'),
  setEventsReadAt: db.prepare('UPDATE accounts SET events_read_at = ? WHERE id = ? AND events_read_at IS NULL'),
}))

/** The sub-account of `parentId` with this UUID, unless it is deleted. */
export function findSubAccount(config: Config, db: Database, parentId: number, uuid: UuidBytes): Account | undefined {
  const row = sql(db).find.get(uuid, parentId)
  return row ? findAccount(config, db, row.id) : undefined
}

/** A page of sub-accounts, newest first. */
export function listSubAccounts(config: Config, db: Database, parentId: number, page: RowWindow) {
  const { rows, total } = sql(db).list(page, parentId)
  return { accounts: rows.flatMap(({ id }) => findAccount(config, db, id) ?? []), total }
}

/** The statement with which `requirePlanCapacity` counts sub-accounts. */
export const getSubAccountCountStatement = (db: Database) => sql(db).existing

export interface SubAccountRowChange {
  readonly name?: string | undefined
  readonly monthlyQuota?: number | null | undefined
  /** Null enables the sub-account. */
  readonly disabledAt?: Millis | null | undefined
}

/** Changes the provided fields; undefined ones keep their value. */
export function updateSubAccount(tx: Tx, account: Account, change: SubAccountRowChange, now: Millis): void {
  const quota =
    change.monthlyQuota === undefined ? (sql(tx.db).ownQuota.get(account.id)?.quota ?? null) : change.monthlyQuota
  const disabledAt = change.disabledAt === undefined ? account.disabledAt : change.disabledAt
  sql(tx.db).update.run(change.name ?? account.name, quota, disabledAt, now, account.id)
}

/** Throws 404 when the account was deleted while the request ran. Call it in the transaction that creates something. */
export function requireOpenAccount(db: Database, accountId: number): void {
  if (!sql(db).isOpen.get(accountId)) throw notFound('account_not_found', 'The account was deleted.')
}

/** Closes an account; false when it is already closed. */
export const closeAccount = (tx: Tx, accountId: number, now: Millis): boolean =>
  sql(tx.db).close.run(now, accountId).changes === 1

/**
 * Clears the row of a closed account and gives it a new public id. A paused account keeps the last `tagBytes` bytes of
 * its id, because its tracked links contain them: deleting a paused account must not unblock these links.
 * @param tagBytes number of bytes that are kept
 */
export function emptyAccount(tx: Tx, accountId: number, tagBytes: number): void {
  sql(tx.db).keepPause.run(accountId)
  const uuid = newUuid()
  const paused = sql(tx.db).paused.get(accountId)
  if (paused) uuid.set(paused.uuid.subarray(-tagBytes), uuid.length - tagBytes)
  sql(tx.db).empty.run(uuid, accountId)
}

/** Up to `limit` sub-accounts that are not deleted. */
export const listOpenSubAccounts = (
  db: Database,
  accountId: number,
  limit: number,
): { id: number; uuid: UuidBytes }[] => sql(db).subAccounts.all(accountId, limit)

/** When the last export was completed; undefined if there was none. */
export const readExportedAt = (db: Database, accountId: number): Millis | undefined =>
  sql(db).exportedAt.get(accountId)?.at ?? undefined

export const recordExport = (tx: Tx, accountId: number, at: Millis): void =>
  void sql(tx.db).setExportedAt.run(at, accountId)

/** Records that an API key read the event feed; only the first time counts. */
export const recordEventsRead = (tx: Tx, accountId: number, at: Millis): void =>
  void sql(tx.db).setEventsReadAt.run(at, accountId)

/** The id of the named account; undefined without a name. Throws AppError 404 or 409 with the fix. */
export const findAccountId = (app: Pick<App, 'config' | 'db'>, account: string | undefined): number | undefined =>
  account === undefined ? undefined : resolveAccount(app, account).id

/** Returns the named account; without a name, the only one. Throws AppError 404 or 409 with the fix. */
export function resolveAccount({ config, db }: Pick<App, 'config' | 'db'>, requested: string | undefined): Account {
  const accounts = listAccounts(config, db)
  const matches = accounts.filter(
    ({ uuid, name }) =>
      requested === undefined || formatUuid(uuid) === requested || name.toLowerCase() === requested.toLowerCase(),
  )
  const [only] = matches
  if (only && matches.length === 1) return only
  if (accounts.length === 0)
    throw notFound('account_not_found', 'There is no account yet; create one with `tassis accounts create`.')
  if (matches.length === 0)
    throw notFound('account_not_found', `Account "${requested}" not found; \`tassis accounts list\` shows all.`)
  const ids = matches.slice(0, 5).map(({ uuid, name }) => `${formatUuid(uuid)} (${name})`)
  throw conflict(
    'account_ambiguous',
    `There are ${matches.length} accounts${requested === undefined ? '' : ` named "${requested}"`}; choose one with --account: ${ids.join(', ')}${matches.length > 5 ? ', …' : ''}.`,
  )
}
