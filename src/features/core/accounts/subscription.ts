/**
 * @module What an account has bought or was given: customer and subscription at the payment provider, plan and own quota. Reads and writes columns
 * of `accounts`; `features/people/billing` decides what goes into them.
 */
import type { Database } from 'bun:sqlite'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { isPlan, type Plan } from './plans.ts'

export interface Subscription {
  readonly plan: Plan
  /** Until the first invoice over more than zero is settled. */
  readonly quotaHeld: boolean
  readonly subscriptionId: string | null
  /** As the provider names it: active, trialing, past_due, canceled; null: there never was one. */
  readonly status: string | null
  readonly billingEmail: string | null
  readonly trialEndsAt: Millis | null
}

export interface BillingState extends Subscription {
  readonly accountId: number
  readonly accountUuid: string
  readonly customerId: string | null
  readonly isSubAccount: boolean
  /** Its owner has deleted it. */
  readonly isDeleted: boolean
}

interface Row {
  id: number
  uuid: Uint8Array
  plan: string
  quotaHeld: number
  customerId: string | null
  subscriptionId: string | null
  status: string | null
  billingEmail: string | null
  trialEndsAt: number | null
  parentId: number | null
  deletedAt: number | null
}

const SELECT = `SELECT id, uuid, plan, quota_held AS quotaHeld, stripe_customer_id AS customerId, stripe_subscription_id AS subscriptionId,
  subscription_status AS status, billing_email AS billingEmail, trial_ends_at AS trialEndsAt, parent_id AS parentId, deleted_at AS deletedAt
  FROM accounts`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE id = ?`),
  byCustomer: db.prepare<Row, [string]>(`${SELECT} WHERE stripe_customer_id = ?`),
  customers: db.prepare<{ customerId: string }, [string, number]>(
    'SELECT stripe_customer_id AS customerId FROM accounts WHERE stripe_customer_id > ? ORDER BY stripe_customer_id LIMIT ?',
  ),
  setCustomer: db.prepare('UPDATE accounts SET stripe_customer_id = ?, updated_at = ? WHERE id = ?'),
  setPlan: db.prepare('UPDATE accounts SET plan = ?, quota_held = 0, updated_at = ? WHERE id = ?'),
  setQuota: db.prepare('UPDATE accounts SET monthly_quota = ?, updated_at = ? WHERE id = ?'),
  setSubscription: db.prepare(
    `UPDATE accounts SET plan = ?, quota_held = ?, stripe_subscription_id = ?, subscription_status = ?, billing_email = ?, trial_ends_at = ?,
     updated_at = ? WHERE id = ?`,
  ),
  followPlan: db.prepare('UPDATE accounts SET plan = ?, updated_at = ? WHERE parent_id = ?'),
}))

const toBillingState = (row: Row): BillingState => ({
  accountId: row.id,
  accountUuid: formatUuid(row.uuid),
  plan: isPlan(row.plan) ? row.plan : 'free',
  quotaHeld: row.quotaHeld === 1,
  customerId: row.customerId,
  subscriptionId: row.subscriptionId,
  status: row.status,
  billingEmail: row.billingEmail,
  trialEndsAt: row.trialEndsAt,
  isSubAccount: row.parentId !== null,
  isDeleted: row.deletedAt !== null,
})

/** What an account has bought; a missing account is a bug. */
export function getBillingState(db: Database, accountId: number): BillingState {
  const row = sql(db).byId.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  return toBillingState(row)
}

/** The account of a customer of the payment provider; undefined for one who is not ours. */
export function findBillingStateByCustomer(db: Database, customerId: string): BillingState | undefined {
  const row = sql(db).byCustomer.get(customerId)
  return row ? toBillingState(row) : undefined
}

/** Customers in the order of their ids, beginning behind one. */
export const listCustomersAfter = (db: Database, customerId: string, limit: number): string[] =>
  sql(db)
    .customers.all(customerId, limit)
    .map((row) => row.customerId)

export const setCustomer = (tx: Tx, accountId: number, customerId: string | null, now: Millis): void =>
  void sql(tx.db).setCustomer.run(customerId, now, accountId)

/** Gives an account, with its sub-accounts, a plan that nobody bought: its quota holds at once. */
export function setPlan(tx: Tx, accountId: number, plan: Plan, now: Millis): void {
  sql(tx.db).setPlan.run(plan, now, accountId)
  sql(tx.db).followPlan.run(plan, now, accountId)
}

/** Recipients a month in place of those of the plan; null: those of the plan. */
export const setQuota = (tx: Tx, accountId: number, monthlyQuota: number | null, now: Millis): void =>
  void sql(tx.db).setQuota.run(monthlyQuota, now, accountId)

/** Stores what an account has bought. Its sub-accounts have its plan. */
export function setSubscription(tx: Tx, accountId: number, subscription: Subscription, now: Millis): void {
  const { plan } = subscription
  sql(tx.db).setSubscription.run(
    plan,
    subscription.quotaHeld ? 1 : 0,
    subscription.subscriptionId,
    subscription.status,
    subscription.billingEmail,
    subscription.trialEndsAt,
    now,
    accountId,
  )
  sql(tx.db).followPlan.run(plan, now, accountId)
}
