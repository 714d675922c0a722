/** @module The rows of sub-accounts: found and listed by their parent, made and changed. Decides nothing: see `features/sub-accounts`. */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { belowId, type RowWindow } from '#platform/db/row-window.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { type Account, findAccount } from './accounts.ts'
import type { Plan } from './plans.ts'

const sql = prepared((db) => ({
  find: db.prepare<{ id: number }, [Uint8Array, number]>(
    'SELECT id FROM accounts WHERE uuid = ? AND parent_id = ? AND deleted_at IS NULL',
  ),
  page: db.prepare<{ id: number }, [number, number, number, number]>(
    'SELECT id FROM accounts WHERE parent_id = ? AND id < ? AND deleted_at IS NULL ORDER BY id DESC LIMIT ? OFFSET ?',
  ),
  count: db.prepare<{ n: number }, [number]>(
    'SELECT COUNT(*) AS n FROM accounts WHERE parent_id = ? AND deleted_at IS NULL',
  ),
  insert: db.prepare<{ id: number }, [number, Uint8Array, string, string, string, number | null, Millis, Millis]>(
    'INSERT INTO accounts (parent_id, uuid, name, email, plan, monthly_quota, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id',
  ),
  update: db.prepare('UPDATE accounts SET name = ?, monthly_quota = ?, disabled_at = ?, updated_at = ? WHERE id = ?'),
  ownQuota: db.prepare<{ quota: number | null }, [number]>('SELECT monthly_quota AS quota FROM accounts WHERE id = ?'),
}))

/** A sub-account of `parentId` that is not deleted. */
export function findSubAccount(config: Config, db: Database, parentId: number, uuid: UuidBytes): Account | undefined {
  const row = sql(db).find.get(uuid, parentId)
  return row ? findAccount(config, db, row.id) : undefined
}

/** Newest first, of those with a row id below `below` where it is given. */
export const listSubAccounts = (config: Config, db: Database, parentId: number, page: RowWindow): Account[] =>
  sql(db)
    .page.all(parentId, belowId(page), page.limit, page.offset)
    .flatMap(({ id }) => findAccount(config, db, id) ?? [])

export const countSubAccounts = (db: Database, parentId: number): number => sql(db).count.get(parentId)?.n ?? 0

export interface NewSubAccount {
  readonly name: string
  readonly email: string
  readonly plan: Plan
  /** Null: that of the parent. */
  readonly monthlyQuota: number | null
}

export function insertSubAccount(
  tx: Tx,
  parentId: number,
  { name, email, plan, monthlyQuota }: NewSubAccount,
  now: Millis,
): { id: number; uuid: string } {
  const uuid = newUuid()
  const row = sql(tx.db).insert.get(parentId, uuid, name, email, plan, monthlyQuota, now, now)
  if (!row) throw new Error('the sub-account was not stored')
  return { id: row.id, uuid: formatUuid(uuid) }
}

export interface SubAccountRowChange {
  readonly name?: string | undefined
  readonly monthlyQuota?: number | null | undefined
  /** Null: it is switched on. */
  readonly disabledAt?: Millis | null | undefined
}

/** What is not given stays. */
export function updateSubAccount(tx: Tx, account: Account, change: SubAccountRowChange, now: Millis): void {
  const quota =
    change.monthlyQuota === undefined ? (sql(tx.db).ownQuota.get(account.id)?.quota ?? null) : change.monthlyQuota
  const disabledAt = change.disabledAt === undefined ? account.disabledAt : change.disabledAt
  sql(tx.db).update.run(change.name ?? account.name, quota, disabledAt, now, account.id)
}
