/**
 * @module Creates, reads and changes accounts, and enforces the monthly quota. The only writer of table `usage`. Table
 * `accounts` is also written by `pause.ts`, `rows.ts` and `subscription.ts`.
 */

import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { AppError, attempt, invalid, notFound, tooManyRequests } from '#platform/errors.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { isTimeZone } from '#platform/time/zones.ts'
import type { Millis } from '#platform/units.ts'
import { findPause, findSendingBlock, type Pause } from './pause.ts'
import { getEnforcedQuota, type Plan, toPlan, UNLIMITED } from './plans.ts'
import type { accounts } from './tables.ts'

export interface Account
  extends Readonly<
    Pick<
      typeof accounts.$inferSelect,
      | ('id' | 'uuid' | 'name' | 'email' | 'trackingDefault' | 'trackingPrivacy' | 'timezone' | 'parentId')
      | ('pausedAt' | 'disabledAt' | 'eventsReadAt' | 'createdAt' | 'updatedAt')
    >
  > {
  readonly plan: Plan
  /** Recipients per month that may be used now. A sub-account never has more than its parent. */
  readonly monthlyQuota: number
}

type Row = Omit<Account, 'plan' | 'monthlyQuota' | 'trackingDefault' | 'trackingPrivacy'> &
  QuotaRow & { readonly trackingDefault: number; readonly trackingPrivacy: number }

const SELECT = `SELECT id, uuid, name, email, plan, monthly_quota AS quota, quota_held AS quotaHeld, tracking_default AS trackingDefault,
  tracking_privacy AS trackingPrivacy, timezone, paused_at AS pausedAt, parent_id AS parentId, disabled_at AS disabledAt, events_read_at AS eventsReadAt,
  created_at AS createdAt, updated_at AS updatedAt FROM accounts`

/** The public id of an account; undefined if it does not exist. */
export const findAccountUuid = (db: Database, id: number): UuidBytes | undefined => sql(db).uuidOf.get(id)?.uuid

/** The public id of an account in log lines; null if it does not exist. Never throws, as a log line must not fail. */
export function findAccountLogId(db: Database, id: number): string | null {
  const uuid = attempt(() => findAccountUuid(db, id))
  return uuid ? formatUuid(uuid) : null
}

/** In SQL: an account that is not deleted, with ?1 in its name or address (a pattern), in state ?2; null: any. */
const IS_FOUND = `deleted_at IS NULL AND (?1 IS NULL OR name LIKE ?1 ESCAPE '\\' OR email LIKE ?1 ESCAPE '\\')
  AND (?2 IS NULL OR CASE WHEN paused_at IS NOT NULL THEN 'paused' WHEN disabled_at IS NOT NULL THEN 'disabled' ELSE 'active' END = ?2)`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE id = ?`),
  all: db.prepare<Row, []>(`${SELECT} WHERE deleted_at IS NULL ORDER BY id`),
  search: newestFirst<Row, [string | null, string | null]>(db, SELECT, `accounts WHERE ${IS_FOUND}`),
  uuidOf: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
  byUuid: db.prepare<Row, [Uint8Array]>(`${SELECT} WHERE uuid = ? AND deleted_at IS NULL`),
  insert: db.prepare<{ id: number }, (Uint8Array | string | number | null)[]>(
    'INSERT INTO accounts (uuid, name, email, plan, parent_id, monthly_quota, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id',
  ),
  update: db.prepare(
    `UPDATE accounts SET name = coalesce(?, name), tracking_default = coalesce(?, tracking_default),
     tracking_privacy = coalesce(?, tracking_privacy), timezone = coalesce(?, timezone), updated_at = ? WHERE id = ?`,
  ),
  sending: db.prepare<QuotaRow & { trackingDefault: number; parentId: number | null }, [number]>(
    'SELECT plan, monthly_quota AS quota, quota_held AS quotaHeld, tracking_default AS trackingDefault, parent_id AS parentId FROM accounts WHERE id = ?',
  ),
  used: db.prepare<{ recipients: number }, [number, number]>(
    'SELECT recipients FROM usage WHERE account_id = ? AND month = ?',
  ),
  addUsage: db.prepare(
    'INSERT INTO usage (account_id, month, recipients) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET recipients = recipients + excluded.recipients',
  ),
  usedBySubAccounts: db.prepare<{ recipients: number }, [number, number]>(
    'SELECT recipients FROM usage_of_sub_accounts WHERE account_id = ? AND month = ?',
  ),
  addSubAccountUsage: db.prepare(
    'INSERT INTO usage_of_sub_accounts (account_id, month, recipients) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET recipients = recipients + excluded.recipients',
  ),
}))

function toAccount(config: Config, db: Database, { quota, quotaHeld, ...row }: Row): Account {
  const parent = row.parentId === null ? undefined : (sql(db).sending.get(row.parentId) ?? undefined)
  return {
    ...row,
    uuid: new Uint8Array(row.uuid),
    plan: toPlan(row.plan),
    monthlyQuota: resolveMonthlyQuota(
      config,
      { plan: row.plan, quota, quotaHeld },
      parent && resolvePlanQuota(config, parent),
    ),
    trackingDefault: row.trackingDefault === 1,
    trackingPrivacy: row.trackingPrivacy === 1,
  }
}

export function findAccount(config: Config, db: Database, id: number): Account | undefined {
  const row = sql(db).byId.get(id)
  return row ? toAccount(config, db, row) : undefined
}

export const listAccounts = (config: Config, db: Database): Account[] =>
  sql(db)
    .all.all()
    .map((row) => toAccount(config, db, row))

/** Paused comes before disabled. */
export const ACCOUNT_SENDING_STATES = ['active', 'paused', 'disabled'] as const
export type AccountSendingState = (typeof ACCOUNT_SENDING_STATES)[number]

export interface AccountFilter {
  /** Part of the name or address. */
  readonly text?: string | undefined
  readonly state?: AccountSendingState | undefined
}

/** A page of all accounts, newest first, with the number on all pages. Reads every row: accounts are few. */
export function searchAccounts(
  config: Config,
  db: Database,
  { text, state }: AccountFilter,
  window: RowWindow,
): { readonly accounts: Account[]; readonly total: number } {
  const pattern = text === undefined ? null : `%${text.replace(/[\\%_]/g, '\\$&')}%`
  const { rows, total } = sql(db).search(window, pattern, state ?? null)
  return { accounts: rows.map((row) => toAccount(config, db, row)), total }
}

export function findAccountByUuid(config: Config, db: Database, uuid: UuidBytes): Account | undefined {
  const row = sql(db).byUuid.get(uuid)
  return row ? toAccount(config, db, row) : undefined
}

/** For operators: the account with a public id. Throws 404 for an unknown one. */
export function requireAccount({ config, db }: Pick<App, 'config' | 'db'>, id: string): Account {
  const uuid = parseUuid(id)
  const account = uuid && findAccountByUuid(config, db, uuid)
  if (!account) throw notFound('account_not_found', 'No account has this id.')
  return account
}

/** The same actor, acting in an account: audit entries go to its log. */
export const actIn = (actor: Actor, { id, uuid }: Pick<Account, 'id' | 'uuid'>): Actor => ({
  ...actor,
  accountId: id,
  accountUuid: formatUuid(uuid),
})

/** For operators: acts for the account with a public id. Throws 404 for an unknown one. */
export const actForAccount = (app: Pick<App, 'config' | 'db'>, actor: Actor, id: string): Actor =>
  actIn(actor, requireAccount(app, id))

/** Row id for a filter by public id; undefined: no filter; 0, which no account has, for an unknown id. */
export function findFilteredAccountId(
  { config, db }: Pick<App, 'config' | 'db'>,
  id: string | undefined,
): number | undefined {
  if (id === undefined) return undefined
  const uuid = parseUuid(id)
  return (uuid && findAccountByUuid(config, db, uuid)?.id) ?? 0
}

export interface NewAccount {
  readonly name: string
  readonly email: string
  readonly plan: Plan
  /** Null: it is no sub-account. */
  readonly parentId?: number | null
  /** Null: the quota of the plan or the parent applies. */
  readonly monthlyQuota?: number | null
}

/** Creates an account. The caller creates its stream `transactional` in the same transaction. */
export function insertAccount(
  tx: Tx,
  { name, email, plan, parentId = null, monthlyQuota = null }: NewAccount,
  now: Millis,
): { id: number; uuid: string } {
  const uuid = newUuid()
  const row = sql(tx.db).insert.get(uuid, name, email, plan, parentId, monthlyQuota, now, now)
  if (!row) throw new Error('account not stored')
  return { id: row.id, uuid: formatUuid(uuid) }
}

/** Fields of the caller's own account, as in requests; undefined ones keep their value. */
interface AccountChanges {
  readonly name?: string
  readonly tracking_default?: boolean
  readonly tracking_privacy?: boolean
  readonly timezone?: string
}

/** Changes the provided fields. Throws 422 when none is provided, the name is blank or the zone unknown. */
export function changeAccount(app: App, actor: Actor, change: AccountChanges): Promise<AccountState> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid('body', 'At least one of name, tracking_default, tracking_privacy and timezone must be set.')
  const name = change.name?.trim()
  if (name === '') throw invalid('name', 'The name must have 1 to 200 characters.')
  if (change.timezone !== undefined && !isTimeZone(change.timezone))
    throw invalid('timezone', 'timezone must be the IANA name of a time zone, such as Europe/Berlin.')
  const metadata = { ...change, ...(name !== undefined && { name }) }
  return app.commit.write((tx) => {
    const before = getAccount(app.config, tx.db, actor.accountId)
    const { trackingDefault, trackingPrivacy } = before
    const changes = describeChanges(
      { ...before, tracking_default: trackingDefault, tracking_privacy: trackingPrivacy },
      metadata,
    )
    const { name, tracking_default = null, tracking_privacy = null, timezone = null } = metadata
    sql(tx.db).update.run(name ?? null, tracking_default, tracking_privacy, timezone, app.eventTime(), actor.accountId)
    auditChange(app, tx, actor, 'account.updated', actor.accountUuid, { ...metadata, ...changes })
    return readAccountState(app, actor, tx.db)
  })
}

/** The calendar month (UTC) of a time, as year * 12 + month. */
export function monthOf(at: Millis): number {
  const date = new Date(at)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** The first instant of a month, numbered as `monthOf` numbers it. */
export const startOfMonth = (month: number): Millis => Date.UTC(Math.floor(month / 12), month % 12, 1)

/** Recipients that the account used in a month. */
export const readMonthlyUsage = (db: Database, accountId: number, month: number): number =>
  sql(db).used.get(accountId, month)?.recipients ?? 0

/** Recipients that an account and its sub-accounts used in a month. */
export const readMonthlyUsageWithSubAccounts = (db: Database, accountId: number, month: number): number =>
  readMonthlyUsage(db, accountId, month) + (sql(db).usedBySubAccounts.get(accountId, month)?.recipients ?? 0)

/**
 * Consumes recipients of the current month's quota and returns that month, so that the caller can refund them.
 * Sub-accounts also consume the quota of their parent. Throws 429 `quota_exceeded` with the time until the next month.
 */
export function consumeQuota(tx: Tx, account: SendingAccount, recipients: number, now: Millis): number {
  const month = monthOf(now)
  const { parent } = account
  const hasLowerQuota = parent !== undefined && account.monthlyQuota < parent.monthlyQuota
  if (hasLowerQuota && readMonthlyUsage(tx.db, account.id, month) + recipients > account.monthlyQuota)
    throw quotaExceeded(`The monthly quota of ${account.monthlyQuota} recipients is used up`, month, now)
  const { id, monthlyQuota } = parent ?? account
  if (monthlyQuota < UNLIMITED && readMonthlyUsageWithSubAccounts(tx.db, id, month) + recipients > monthlyQuota) {
    const owner = parent ? ' of the parent account and its sub-accounts together' : ''
    const message = `The monthly quota of ${monthlyQuota} recipients${owner} is used up`
    throw quotaExceeded(message, month, now, describeHeldQuota(parent ?? account))
  }
  addUsage(tx, account.id, parent?.id ?? null, month, recipients)
  return month
}

/** Recipients to which an account can still send this month, within its parent's quota too; Infinity when unlimited. */
export function readRemainingQuota(
  db: Database,
  { id, monthlyQuota, parent }: Pick<SendingAccount, 'id' | 'monthlyQuota' | 'parent'>,
  now: Millis,
): number {
  const month = monthOf(now)
  const quotaOwner = parent ?? { id, monthlyQuota }
  const remaining =
    quotaOwner.monthlyQuota >= UNLIMITED
      ? Number.POSITIVE_INFINITY
      : quotaOwner.monthlyQuota - readMonthlyUsageWithSubAccounts(db, quotaOwner.id, month)
  if (!parent || monthlyQuota >= UNLIMITED) return remaining
  return Math.min(remaining, monthlyQuota - readMonthlyUsage(db, id, month))
}

const describeHeldQuota = ({ heldPlan }: Pick<SendingAccount, 'heldPlan'>): string =>
  heldPlan === undefined ? '' : `, and the quota of plan ${heldPlan} applies once its first invoice is paid`

const quotaExceeded = (message: string, month: number, now: Millis, hint = ''): AppError =>
  tooManyRequests(
    'quota_exceeded',
    `${message}; it renews on the first of next month (UTC)${hint}.`,
    (startOfMonth(month + 1) - now) / 1000,
  )

function addUsage(tx: Tx, accountId: number, parentId: number | null, month: number, recipients: number): void {
  sql(tx.db).addUsage.run(accountId, month, recipients)
  if (parentId !== null) sql(tx.db).addSubAccountUsage.run(parentId, month, recipients)
}

/** Refunds recipients of a cancelled email to the month in which they were consumed. */
export const giveQuotaBack = (tx: Tx, accountId: number, month: number, recipients: number): void =>
  addUsage(tx, accountId, sql(tx.db).sending.get(accountId)?.parentId ?? null, month, -recipients)

/** Fields of an account that sending reads several times per email. */
export interface SendingAccount {
  readonly id: number
  readonly plan: Plan
  readonly monthlyQuota: number
  /**
   * The account's plan, if the quota of the plan does not apply yet because its first invoice is not paid; undefined
   * otherwise.
   */
  readonly heldPlan: Plan | undefined
  /** The parent, whose quota also limits a sub-account. */
  readonly parent: Pick<SendingAccount, 'id' | 'monthlyQuota' | 'heldPlan'> | undefined
  /** Why the account may not send, as a sentence; undefined when it may. */
  readonly sendingBlock: string | undefined
  /** Whether emails are tracked when they do not set tracking themselves. */
  readonly trackingDefault: boolean
}

/** The account that an actor sends for. Throws when it is missing, which is a bug. */
export function getSendingAccount(config: Config, db: Database, id: number): SendingAccount {
  const row = sql(db).sending.get(id)
  if (!row) throw new Error(`account ${id} does not exist`)
  const { parentId } = row
  const found = parentId === null ? undefined : sql(db).sending.get(parentId)
  const parent = found && parentId !== null ? { id: parentId, ...resolvePlanQuota(config, found) } : undefined
  return {
    id,
    ...resolvePlanQuota(config, row),
    monthlyQuota: resolveMonthlyQuota(config, row, parent),
    parent,
    sendingBlock: findSendingBlock(db, id),
    trackingDefault: row.trackingDefault === 1,
  }
}

interface QuotaRow {
  readonly plan: string
  readonly quota: number | null
  readonly quotaHeld: number
}

/** The quota of a sub-account: its own if it has one, but never more than that of its parent. */
const resolveMonthlyQuota = (
  config: Config,
  row: QuotaRow,
  parent: { readonly monthlyQuota: number } | undefined,
): number =>
  parent ? Math.min(row.quota ?? UNLIMITED, parent.monthlyQuota) : resolvePlanQuota(config, row).monthlyQuota

function resolvePlanQuota(config: Config, row: QuotaRow): Pick<SendingAccount, 'plan' | 'monthlyQuota' | 'heldPlan'> {
  const plan = toPlan(row.plan)
  const isHeld = row.quotaHeld === 1
  return {
    plan,
    monthlyQuota: getEnforcedQuota(config, plan, row.quota, isHeld),
    heldPlan: isHeld && row.quota === null ? plan : undefined,
  }
}

/** Throws 403 `account_paused` with the reason when the account may not send. */
export function requireSendingAllowed({ sendingBlock }: Pick<SendingAccount, 'sendingBlock'>): void {
  if (sendingBlock !== undefined)
    throw new AppError(403, 'account_paused', `${sendingBlock} Contact the operator of the service.`)
}

/** All fields of an account. Throws when it is missing, which is a bug. */
export function getAccount(config: Config, db: Database, accountId: number): Account {
  const account = findAccount(config, db, accountId)
  if (!account) throw new Error(`account ${accountId} does not exist`)
  return account
}

/** An account and its quota usage in the current month. */
export interface AccountState {
  readonly account: Account
  /** Recipients. */
  readonly usedThisMonth: number
  readonly quotaResetAt: Millis
  /** The account's own pause, or else the pause of its parent. */
  readonly pause: Pause | undefined
}

export function readAccountState(app: App, actor: Actor, db: Database = app.db): AccountState {
  const month = monthOf(app.clock.now())
  return {
    account: getAccount(app.config, db, actor.accountId),
    usedThisMonth: readMonthlyUsage(db, actor.accountId, month),
    quotaResetAt: startOfMonth(month + 1),
    pause: findPause(db, actor.accountId),
  }
}
