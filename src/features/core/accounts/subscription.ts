/**
 * @module Reads and writes the billing columns of `accounts`: customer and subscription at the payment provider, plan,
 * own quota. Decides nothing: `people/billing` does.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { type Plan, toPlan } from './plans.ts'

export interface Subscription {
  readonly plan: Plan
  /** True until the first invoice above zero is settled. */
  readonly quotaHeld: boolean
  readonly subscriptionId: string | null
  /** Status as the provider names it: active, trialing, past_due, canceled; null if there never was a subscription. */
  readonly status: string | null
  readonly billingEmail: string | null
  readonly trialEndsAt: Millis | null
}

export interface BillingState extends Subscription {
  readonly accountId: number
  readonly accountUuid: string
  readonly customerId: string | null
  readonly isSubAccount: boolean
  /** Whether the owner deleted the account. */
  readonly isDeleted: boolean
}

type Row = Omit<BillingState, 'accountUuid' | 'quotaHeld' | 'isSubAccount' | 'isDeleted'> &
  Readonly<Record<'quotaHeld' | 'isSubAccount' | 'isDeleted', number>> & { readonly uuid: Uint8Array }

const SELECT = `SELECT id AS accountId, uuid, plan, quota_held AS quotaHeld, stripe_customer_id AS customerId, stripe_subscription_id AS subscriptionId,
  subscription_status AS status, billing_email AS billingEmail, trial_ends_at AS trialEndsAt, parent_id IS NOT NULL AS isSubAccount,
  deleted_at IS NOT NULL AS isDeleted FROM accounts`

const sql = prepareStatements((db) => ({
  byId: db.prepare<Row, [number]>(`${SELECT} WHERE id = ?`),
  byCustomer: db.prepare<Row, [string]>(`${SELECT} WHERE stripe_customer_id = ?`),
  customers: db.prepare<{ customerId: string }, [string, number]>(
    'SELECT stripe_customer_id AS customerId FROM accounts WHERE stripe_customer_id > ? ORDER BY stripe_customer_id LIMIT ?',
  ),
  setCustomer: db.prepare('UPDATE accounts SET stripe_customer_id = ?, updated_at = ? WHERE id = ?'),
  setPlan: db.prepare('UPDATE accounts SET plan = ?, quota_held = 0, updated_at = ? WHERE id = ?'),
  setQuota: db.prepare('UPDATE accounts SET monthly_quota = ?, updated_at = ? WHERE id = ?'),
  setSubscription: db.prepare<
    unknown,
    [Omit<Subscription, 'quotaHeld'> & Record<'quotaHeld' | 'now' | 'accountId', number>]
  >(
    `UPDATE accounts SET plan = $plan, quota_held = $quotaHeld, stripe_subscription_id = $subscriptionId, subscription_status = $status,
     billing_email = $billingEmail, trial_ends_at = $trialEndsAt, updated_at = $now WHERE id = $accountId`,
  ),
  followPlan: db.prepare('UPDATE accounts SET plan = ?, updated_at = ? WHERE parent_id = ?'),
}))

const toBillingState = ({ uuid, ...row }: Row): BillingState => ({
  ...row,
  accountUuid: formatUuid(uuid),
  plan: toPlan(row.plan),
  quotaHeld: row.quotaHeld === 1,
  isSubAccount: row.isSubAccount === 1,
  isDeleted: row.isDeleted === 1,
})

/** The billing state of an account. Throws when the account is missing, which is a bug. */
export function getBillingState(db: Database, accountId: number): BillingState {
  const row = sql(db).byId.get(accountId)
  if (!row) throw new Error(`account ${accountId} does not exist`)
  return toBillingState(row)
}

/** The billing state of a customer of the payment provider; undefined when no account has that customer id. */
export function findBillingStateByCustomer(db: Database, customerId: string): BillingState | undefined {
  const row = sql(db).byCustomer.get(customerId)
  return row ? toBillingState(row) : undefined
}

/** The next customer ids, in order, after a given one. */
export const listCustomersAfter = (db: Database, customerId: string, limit: number): string[] =>
  sql(db)
    .customers.all(customerId, limit)
    .map((row) => row.customerId)

export const setCustomer = (tx: Tx, accountId: number, customerId: string | null, now: Millis): void =>
  void sql(tx.db).setCustomer.run(customerId, now, accountId)

/** Sets the plan of an account and its sub-accounts without payment. The quota of the plan applies immediately. */
export function setPlan(tx: Tx, accountId: number, plan: Plan, now: Millis): void {
  sql(tx.db).setPlan.run(plan, now, accountId)
  sql(tx.db).followPlan.run(plan, now, accountId)
}

/** Overrides the monthly quota of the plan; null restores it. */
export const setQuota = (tx: Tx, accountId: number, monthlyQuota: number | null, now: Millis): void =>
  void sql(tx.db).setQuota.run(monthlyQuota, now, accountId)

/** Stores the subscription of an account. Its sub-accounts follow its plan. */
export function setSubscription(tx: Tx, accountId: number, subscription: Subscription, now: Millis): void {
  sql(tx.db).setSubscription.run({ ...subscription, quotaHeld: Number(subscription.quotaHeld), now, accountId })
  sql(tx.db).followPlan.run(subscription.plan, now, accountId)
}
