/**
 * @module Makes an account's plan match what its customer has bought, according to Stripe at this moment. Stripe's
 * events only trigger the query, so they may arrive twice, late, in any order or not at all. Only this module writes
 * `billing_events`.
 */
import type { Stripe } from 'stripe'
import { findPlanByPrice } from '#features/core/accounts/plans.ts'
import {
  type BillingState,
  findBillingStateByCustomer,
  listCustomersAfter,
  type Subscription,
  setSubscription,
} from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { isBillingConfigured, isResourceMissing, withStripe } from './stripe.ts'

const BATCH_SIZE = 500

const sql = prepareStatements((db) => ({
  seen: db.prepare<{ id: string }, [string]>('SELECT id FROM billing_events WHERE id = ?'),
  note: db.prepare('INSERT OR IGNORE INTO billing_events (id, created_at) VALUES (?, ?)'),
}))

/** A paid plan stays while Stripe still tries to collect the payment. */
const LIVE_STATUSES: readonly string[] = ['active', 'trialing', 'past_due']

/** The actor of these changes in the audit log. */
const toStripeActor = ({ accountId, accountUuid }: BillingState): Actor => ({
  accountId,
  accountUuid,
  type: 'system',
  id: 'stripe',
  scopes: new Set(),
})

export const isEventApplied = (app: Pick<App, 'db'>, eventId: string): boolean => sql(app.db).seen.get(eventId) !== null

/**
 * Asks Stripe for the subscriptions of a customer and updates plan, quota and status of the account, in one transaction
 * with the audit log. An unknown customer, or one whose account is being deleted, changes nothing. Throws as
 * `withStripe`.
 * @param eventId the event that triggered this; recorded with the change, so it is not applied twice
 */
export const reconcile = (app: App, customerId: string, eventId?: string): Promise<void> =>
  queueOf(app).run(customerId, async () => {
    if (eventId !== undefined && isEventApplied(app, eventId)) return
    const before = findBillingStateByCustomer(app.db, customerId)
    const purchase =
      before && !before.isDeleted ? await readPurchase(app, customerId, before, eventId !== undefined) : undefined
    await app.commit.write((tx) => {
      const now = app.eventTime()
      if (eventId !== undefined) sql(tx.db).note.run(eventId, now)
      // Read again: an operator may have changed the plan since then.
      const current = findBillingStateByCustomer(tx.db, customerId)
      if (!current || current.isDeleted || purchase === undefined) return
      const after = toSubscription(app, current, purchase)
      if (!after || isSame(current, after)) return
      setSubscription(tx, current.accountId, after, now)
      const metadata = {
        plan: after.plan,
        ...(after.plan !== current.plan && { previous_plan: current.plan }),
        subscription_id: after.subscriptionId,
        subscription_status: after.status,
        quota_held: after.quotaHeld,
      }
      auditChange(app, tx, toStripeActor(current), 'subscription.updated', current.accountUuid, metadata, 'account')
    })
  })

/** A live subscription of a customer. */
interface Purchase {
  readonly id: string
  readonly status: string
  readonly priceIds: readonly string[]
  readonly email: string | null
  readonly trialEndsAt: Millis | null
  /** Whether an invoice over more than zero was paid. */
  readonly isSettled: boolean
}

/**
 * What a customer has at Stripe; null: no live subscription. Undefined when Stripe does not know the customer and no
 * event reported that: with the key of another Stripe account, every customer would otherwise lose the plan.
 */
function readPurchase(
  app: App,
  customerId: string,
  before: BillingState,
  isFromEvent: boolean,
): Promise<Purchase | null | undefined> {
  return withStripe(app, async (stripe) => {
    const live = await listLiveSubscriptions(stripe, customerId)
    if (live === undefined && !isFromEvent) {
      app.log.error(
        { account: before.accountUuid },
        'customer unknown to Stripe; check that TASSIS_STRIPE_KEY belongs to the right Stripe account',
      )
      return undefined
    }
    // When there are several, the newest is the one that the customer wants now.
    const [newest] = live?.sort((a, b) => b.created - a.created) ?? []
    if (!newest) return null
    const { id, status, customer, items, trial_end: trialEnd } = newest
    // Once settled, a subscription stays settled.
    const isKnown = id === before.subscriptionId && !before.quotaHeld
    return {
      id,
      status,
      priceIds: items.data.map(({ price }) => price.id),
      email: typeof customer === 'object' && !customer.deleted ? customer.email : null,
      trialEndsAt: trialEnd ? seconds(trialEnd) : null,
      isSettled: isKnown || (await hasPaid(stripe, id)),
    }
  })
}

/** Undefined when there is no such customer. */
async function listLiveSubscriptions(stripe: Stripe, customerId: string): Promise<Stripe.Subscription[] | undefined> {
  try {
    // Stripe leaves out ended subscriptions by default.
    const { data } = await stripe.subscriptions.list({ customer: customerId, limit: 100, expand: ['data.customer'] })
    return data.filter(({ status }) => LIVE_STATUSES.includes(status))
  } catch (error) {
    if (isResourceMissing(error)) return undefined
    throw error
  }
}

async function hasPaid(stripe: Stripe, subscription: string): Promise<boolean> {
  const { data } = await stripe.invoices.list({ subscription, status: 'paid', limit: 100 })
  return data.some((invoice) => invoice.amount_paid > 0)
}

/** The subscription to store; undefined when the account's plan does not come from Stripe. */
function toSubscription(app: App, current: BillingState, purchase: Purchase | null): Subscription | undefined {
  if (!purchase) {
    // A plan that the operator assigned stays.
    if (current.subscriptionId === null) return undefined
    return { ...current, plan: 'free', quotaHeld: false, subscriptionId: null, status: 'canceled', trialEndsAt: null }
  }
  const { id, status, priceIds, email, trialEndsAt, isSettled } = purchase
  const plan = priceIds.map((price) => findPlanByPrice(app.config, price)).find((known) => known !== undefined)
  if (!plan)
    app.log.warn(
      { account: current.accountUuid },
      'subscription has no price of TASSIS_PLANS; the account keeps its plan',
    )
  return {
    plan: plan ?? current.plan,
    quotaHeld: plan ? !isSettled : current.quotaHeld,
    subscriptionId: id,
    status,
    billingEmail: email ?? current.billingEmail,
    trialEndsAt,
  }
}

const isSame = (current: BillingState, after: Subscription): boolean =>
  (Object.keys(after) as (keyof Subscription)[]).every((field) => current[field] === after[field])

/** One queue per service and customer: results must be written in the order in which Stripe was asked. */
const queueOf = perOwner((_: App) => new SerialQueue<string>())

/** Reconciles every customer in turn, for events that never arrived. Stops when Stripe is unavailable. */
export async function reconcileAll(app: App, signal: AbortSignal): Promise<void> {
  if (!isBillingConfigured(app.config)) return
  for (let last = ''; ; ) {
    const customers = listCustomersAfter(app.db, last, BATCH_SIZE)
    for (const customer of customers) if (signal.aborted || !(await tryReconcile(app, customer))) return
    const next = customers.at(-1)
    if (next === undefined) return
    last = next
  }
}

/** False when Stripe is unavailable; an error for one customer is logged and does not affect the others. */
async function tryReconcile(app: App, customerId: string): Promise<boolean> {
  try {
    await reconcile(app, customerId)
    return true
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return error.status !== 503
  }
}
