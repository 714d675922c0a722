/**
 * @module Makes an account's plan what its customer has bought, as Stripe says at this moment. Events of Stripe only say that it is time to ask: so
 * they may come twice, late, in any order or not at all. The only writer of `billing_events`.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Stripe } from 'stripe'
import { planOfPrice } from '#features/core/accounts/plans.ts'
import {
  type BillingState,
  billingOfCustomer,
  customersAfter,
  type Subscription,
  setSubscription,
} from '#features/core/accounts/subscription.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { SerialQueue } from '#platform/queue/serial-queue.ts'
import { days, seconds } from '#platform/units.ts'
import { isBillingConfigured, isMissing, nonsense, withStripe } from './stripe.ts'

/** Stripe repeats an event for three days by itself, for thirty by hand. */
const KEPT_EVENT_DAYS = 60
const SLICE = 500

const sql = prepared((db) => ({
  seen: db.prepare<{ id: string }, [string]>('SELECT id FROM billing_events WHERE id = ?'),
  note: db.prepare('INSERT OR IGNORE INTO billing_events (id, created_at) VALUES (?, ?)'),
  trim: db.prepare(
    'DELETE FROM billing_events WHERE id IN (SELECT id FROM billing_events WHERE created_at < ? ORDER BY created_at LIMIT ?)',
  ),
}))

/** A paid plan holds while Stripe still tries to collect. */
const LIVE: readonly string[] = ['active', 'trialing', 'past_due']

const Id = Type.String({ minLength: 1, maxLength: 255 })
const LONGEST_EMAIL = 320
const LAST_SECOND = 253_402_300_799
const Second = Type.Integer({ minimum: 0, maximum: LAST_SECOND })

/** Of the answers, what is read of them. */
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

type Listed = Static<typeof ListedSubscriptions>['data'][number]

/** The value, once it is of this shape; a 502 otherwise. */
function shaped<T extends TSchema>(app: App, what: string, schema: T, value: unknown): Static<T> {
  if (!Value.Check(schema, value)) throw nonsense(app, what)
  return value
}

/** Who changes accounts here, in the audit log. */
const stripeActor = ({ accountId, accountUuid }: BillingState): Actor => ({
  accountId,
  accountUuid,
  type: 'system',
  id: 'stripe',
  scopes: new Set(),
})

export const isEventApplied = (app: Pick<App, 'db'>, eventId: string): boolean => sql(app.db).seen.get(eventId) !== null

/**
 * Asks Stripe for the subscriptions of a customer and makes plan, quota and status of the account follow, in one transaction with the audit log.
 * A customer who is not ours, or whose account is being deleted, changes nothing. Throws as `withStripe`.
 * @param eventId of the event that says so; noted with the change, and not applied a second time
 */
export const reconcile = (app: App, customerId: string, eventId?: string): Promise<void> =>
  inTurn(app, customerId, async () => {
    if (eventId !== undefined && isEventApplied(app, eventId)) return
    const before = billingOfCustomer(app.db, customerId)
    const bought =
      before && !before.isDeleted ? await boughtBy(app, customerId, before, eventId !== undefined) : undefined
    await app.commit.write((tx) => {
      const now = app.eventTime()
      if (eventId !== undefined) sql(tx.db).note.run(eventId, now)
      // Read again: an operator may have changed the plan meanwhile.
      const current = billingOfCustomer(tx.db, customerId)
      if (!current || current.isDeleted || !bought) return
      const after = followed(app, current, bought)
      if (!after || isSame(current, after)) return
      setSubscription(tx, current.accountId, after, now)
      audit(app, tx, stripeActor(current), {
        action: 'subscription.updated',
        resourceType: 'account',
        resourceId: current.accountUuid,
        metadata: {
          plan: after.plan,
          ...(after.plan !== current.plan && { previous_plan: current.plan }),
          subscription_id: after.subscriptionId,
          subscription_status: after.status,
          quota_held: after.quotaHeld,
        },
      })
    })
  })

/** What Stripe says that a customer has; `subscription` undefined: nothing that counts. */
interface Bought {
  readonly subscription: Listed | undefined
  /** Whether an invoice of it over more than zero was paid. */
  readonly isSettled: boolean
}

/** Undefined: Stripe does not know the customer, and nothing told us so. A key of another account of Stripe must not take everybody's plan away. */
function boughtBy(app: App, customerId: string, before: BillingState, isTold: boolean): Promise<Bought | undefined> {
  return withStripe(app, async (stripe) => {
    const live = await liveOf(app, stripe, customerId)
    if (live === undefined && !isTold) {
      app.log.error(
        { account: before.accountUuid },
        'Stripe does not know a customer; is TASSIS_STRIPE_KEY of the right account?',
      )
      return undefined
    }
    const subscription = newest(live ?? [])
    if (!subscription) return { subscription, isSettled: false }
    // Once settled, a subscription stays so.
    const isKnown = subscription.id === before.subscriptionId && !before.quotaHeld
    return { subscription, isSettled: isKnown || (await hasPaid(app, stripe, subscription.id)) }
  })
}

/** Undefined: there is no such customer. */
async function liveOf(app: App, stripe: Stripe, customerId: string): Promise<Listed[] | undefined> {
  try {
    // Without those that have ended.
    const { data } = shaped(
      app,
      'subscriptions',
      ListedSubscriptions,
      await stripe.subscriptions.list({ customer: customerId, limit: 100, expand: ['data.customer'] }),
    )
    return data.filter(({ customer, status }) => customerOf(customer) === customerId && LIVE.includes(status))
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

const customerOf = (customer: Listed['customer']): string => (typeof customer === 'string' ? customer : customer.id)

/** Of several, the last that was begun: what its customer wants now. */
const newest = (subscriptions: readonly Listed[]): Listed | undefined =>
  subscriptions.reduce<Listed | undefined>(
    (last, subscription) => (last && last.created >= subscription.created ? last : subscription),
    undefined,
  )

async function hasPaid(app: App, stripe: Stripe, subscriptionId: string): Promise<boolean> {
  const { data } = shaped(
    app,
    'invoices',
    ListedInvoices,
    await stripe.invoices.list({ subscription: subscriptionId, status: 'paid', limit: 100 }),
  )
  return data.some((invoice) => invoice.amount_paid > 0)
}

/** What an account is to have; undefined: nothing of it comes from Stripe. */
function followed(app: App, current: BillingState, { subscription, isSettled }: Bought): Subscription | undefined {
  if (!subscription) {
    // A plan that the operator gave is not taken away.
    if (current.subscriptionId === null) return undefined
    return { ...current, plan: 'free', quotaHeld: false, subscriptionId: null, status: 'canceled', trialEndsAt: null }
  }
  const { customer, items, trial_end: trialEnd } = subscription
  const plan = items.data.map(({ price }) => planOfPrice(app.config, price.id)).find((known) => known !== undefined)
  if (!plan)
    app.log.warn({ account: current.accountUuid }, 'a subscription has no price of TASSIS_PLANS; its plan stays')
  const email = typeof customer === 'string' ? null : (customer.email ?? null)
  return {
    plan: plan ?? current.plan,
    quotaHeld: plan ? !isSettled : current.quotaHeld,
    subscriptionId: subscription.id,
    status: subscription.status,
    billingEmail: email === null || email.length > LONGEST_EMAIL ? current.billingEmail : email,
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

/** Of each service, one queue for a customer: what was asked of Stripe first must be written first. */
const queueOf = perOwner((_: App) => new SerialQueue<string>())

const inTurn = (app: App, customerId: string, work: () => Promise<void>): Promise<void> =>
  queueOf(app).run(customerId, work)

/** Asks for every customer, one after the other: for events that never came. Ends when Stripe cannot be asked. */
export async function reconcileAll(app: App, signal: AbortSignal): Promise<void> {
  if (!isBillingConfigured(app.config)) return
  for (let last = ''; ; ) {
    const customers = customersAfter(app.db, last, SLICE)
    for (const customer of customers) if (signal.aborted || !(await couldReconcile(app, customer))) return
    const next = customers.at(-1)
    if (next === undefined) return
    last = next
  }
}

/** False when Stripe cannot be asked at the moment; what it refuses for one customer is logged and says nothing of others. */
async function couldReconcile(app: App, customerId: string): Promise<boolean> {
  try {
    await reconcile(app, customerId)
    return true
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return error.status !== 503
  }
}

/** Forgets events that nobody will repeat any more; returns how many. */
export async function trimBillingEvents(app: App): Promise<number> {
  const before = app.provenNow() - days(KEPT_EVENT_DAYS)
  for (let removed = 0; ; ) {
    const { changes } = await app.commit.writeFromReserve((tx) => sql(tx.db).trim.run(before, SLICE))
    removed += changes
    if (changes < SLICE) return removed
  }
}
