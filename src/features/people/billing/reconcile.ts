/**
 * @module Makes an account's plan match what its customer has bought, according to Stripe at this moment. Stripe's
 * events only trigger the query, so they may arrive twice, late, in any order or not at all. Only this module writes
 * `billing_events`.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
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
import { seconds } from '#platform/units.ts'
import { invalidResponse, isBillingConfigured, isResourceMissing, withStripe } from './stripe.ts'

const BATCH_SIZE = 500

const sql = prepareStatements((db) => ({
  seen: db.prepare<{ id: string }, [string]>('SELECT id FROM billing_events WHERE id = ?'),
  note: db.prepare('INSERT OR IGNORE INTO billing_events (id, created_at) VALUES (?, ?)'),
}))

/** A paid plan stays while Stripe still tries to collect the payment. */
const LIVE_STATUSES: readonly string[] = ['active', 'trialing', 'past_due']

const Id = Type.String({ minLength: 1, maxLength: 255 })
const MAX_EMAIL_LENGTH = 320
const LAST_SECOND = 253_402_300_799
const Second = Type.Integer({ minimum: 0, maximum: LAST_SECOND })

const ListedSubscriptions = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Id,
      status: Type.String({ maxLength: 50 }),
      created: Second,
      customer: Type.Union([
        Id,
        Type.Object({ id: Id, email: Type.Optional(Type.Union([Type.String(), Type.Null()])) }),
      ]),
      trial_end: Type.Optional(Type.Union([Second, Type.Null()])),
      items: Type.Object({ data: Type.Array(Type.Object({ price: Type.Object({ id: Id }) })) }),
    }),
  ),
})
const ListedInvoices = Type.Object({ data: Type.Array(Type.Object({ amount_paid: Type.Integer() })) })

type ListedSubscription = Static<typeof ListedSubscriptions>['data'][number]

/** The value, if it matches the schema; throws 502 otherwise. */
function requireShape<T extends TSchema>(app: App, what: string, schema: T, value: unknown): Static<T> {
  if (!Value.Check(schema, value)) throw invalidResponse(app, what)
  return value
}

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
  runInOrder(app, customerId, async () => {
    if (eventId !== undefined && isEventApplied(app, eventId)) return
    const before = findBillingStateByCustomer(app.db, customerId)
    const purchase =
      before && !before.isDeleted ? await readPurchase(app, customerId, before, eventId !== undefined) : undefined
    await app.commit.write((tx) => {
      const now = app.eventTime()
      if (eventId !== undefined) sql(tx.db).note.run(eventId, now)
      // Read again: an operator may have changed the plan since then.
      const current = findBillingStateByCustomer(tx.db, customerId)
      if (!current || current.isDeleted || !purchase) return
      const after = toSubscription(app, current, purchase)
      if (!after || isSame(current, after)) return
      setSubscription(tx, current.accountId, after, now)
      auditChange(
        app,
        tx,
        toStripeActor(current),
        'subscription.updated',
        current.accountUuid,
        {
          plan: after.plan,
          ...(after.plan !== current.plan && { previous_plan: current.plan }),
          subscription_id: after.subscriptionId,
          subscription_status: after.status,
          quota_held: after.quotaHeld,
        },
        'account',
      )
    })
  })

/** What a customer has at Stripe; `subscription` undefined: no live subscription. */
interface Purchase {
  readonly subscription: ListedSubscription | undefined
  /** Whether an invoice of the subscription over more than zero was paid. */
  readonly isSettled: boolean
}

/**
 * Undefined when Stripe does not know the customer and no event reported that: with the key of another Stripe account,
 * every customer would otherwise lose the plan.
 */
function readPurchase(
  app: App,
  customerId: string,
  before: BillingState,
  isFromEvent: boolean,
): Promise<Purchase | undefined> {
  return withStripe(app, async (stripe) => {
    const live = await listLiveSubscriptions(app, stripe, customerId)
    if (live === undefined && !isFromEvent) {
      app.log.error(
        { account: before.accountUuid },
        'customer unknown to Stripe; check that TASSIS_STRIPE_KEY belongs to the right Stripe account',
      )
      return undefined
    }
    const subscription = findNewest(live ?? [])
    if (!subscription) return { subscription, isSettled: false }
    // Once settled, a subscription stays settled.
    const isKnown = subscription.id === before.subscriptionId && !before.quotaHeld
    return { subscription, isSettled: isKnown || (await hasPaid(app, stripe, subscription.id)) }
  })
}

/** Undefined when there is no such customer. */
async function listLiveSubscriptions(
  app: App,
  stripe: Stripe,
  customerId: string,
): Promise<ListedSubscription[] | undefined> {
  try {
    // Stripe leaves out ended subscriptions by default.
    const { data } = requireShape(
      app,
      'subscriptions',
      ListedSubscriptions,
      await stripe.subscriptions.list({ customer: customerId, limit: 100, expand: ['data.customer'] }),
    )
    return data.filter(
      ({ customer, status }) => toCustomerId(customer) === customerId && LIVE_STATUSES.includes(status),
    )
  } catch (error) {
    if (isResourceMissing(error)) return undefined
    throw error
  }
}

const toCustomerId = (customer: ListedSubscription['customer']): string =>
  typeof customer === 'string' ? customer : customer.id

/** The newest subscription. When there are several, it is the one that the customer wants now. */
const findNewest = (subscriptions: readonly ListedSubscription[]): ListedSubscription | undefined =>
  subscriptions.reduce<ListedSubscription | undefined>(
    (last, subscription) => (last && last.created >= subscription.created ? last : subscription),
    undefined,
  )

async function hasPaid(app: App, stripe: Stripe, subscriptionId: string): Promise<boolean> {
  const { data } = requireShape(
    app,
    'invoices',
    ListedInvoices,
    await stripe.invoices.list({ subscription: subscriptionId, status: 'paid', limit: 100 }),
  )
  return data.some((invoice) => invoice.amount_paid > 0)
}

/** The subscription to store; undefined when the account's plan does not come from Stripe. */
function toSubscription(
  app: App,
  current: BillingState,
  { subscription, isSettled }: Purchase,
): Subscription | undefined {
  if (!subscription) {
    // A plan that the operator assigned stays.
    if (current.subscriptionId === null) return undefined
    return { ...current, plan: 'free', quotaHeld: false, subscriptionId: null, status: 'canceled', trialEndsAt: null }
  }
  const { customer, items, trial_end: trialEnd } = subscription
  const plan = items.data.map(({ price }) => findPlanByPrice(app.config, price.id)).find((known) => known !== undefined)
  if (!plan)
    app.log.warn(
      { account: current.accountUuid },
      'subscription has no price of TASSIS_PLANS; the account keeps its plan',
    )
  const email = typeof customer === 'string' ? null : (customer.email ?? null)
  return {
    plan: plan ?? current.plan,
    quotaHeld: plan ? !isSettled : current.quotaHeld,
    subscriptionId: subscription.id,
    status: subscription.status,
    billingEmail: email === null || email.length > MAX_EMAIL_LENGTH ? current.billingEmail : email,
    trialEndsAt: trialEnd === undefined || trialEnd === null ? null : seconds(trialEnd),
  }
}

const isSame = (a: Subscription, b: Subscription): boolean =>
  a.plan === b.plan &&
  a.quotaHeld === b.quotaHeld &&
  a.subscriptionId === b.subscriptionId &&
  a.status === b.status &&
  a.billingEmail === b.billingEmail &&
  a.trialEndsAt === b.trialEndsAt

/** One queue per service and customer: results must be written in the order in which Stripe was asked. */
const queueOf = perOwner((_: App) => new SerialQueue<string>())

const runInOrder = (app: App, customerId: string, work: () => Promise<void>): Promise<void> =>
  queueOf(app).run(customerId, work)

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
