/** @module A service that uses the Stripe stub, for tests: an account on plan free, and events that Stripe posts. */
import type { Actor } from '#features/core/app/app.ts'
import { type ApiResponse, at } from './api.ts'
import { createTestAccount } from './app.ts'
import { createEmailApi, type EmailApi } from './email-api.ts'
import {
  createSignedEvent,
  STRIPE_SECRET,
  type StripeStub,
  type StubSubscription,
  startStripeStub,
  stripeSettings,
} from './stripe-stub.ts'

export interface BillingApi extends AsyncDisposable {
  readonly service: EmailApi
  readonly stripe: StripeStub
  readonly actor: Actor
  /** As the account. */
  api(method: string, path: string, body?: unknown): Promise<ApiResponse>
  checkout(body?: Record<string, unknown>): Promise<ApiResponse>
  /** Makes the account a customer that buys at the stub. */
  buy(subscription?: Partial<StubSubscription>): Promise<StubSubscription>
  /** Posts an event about the account's customer, as Stripe does; ids count up. */
  tell(type: string, more?: { id?: string; object?: object; at?: number; secret?: string }): Promise<number>
  /** The account's billing state, from GET /v1/billing/subscription and GET /v1/account. */
  state(): Promise<Record<string, unknown>>
  /** Actions in the account's audit log with actor and metadata, oldest first; only Stripe's. */
  audited(): unknown[]
}

export const CUSTOMER = 'cus_1'

export async function createBillingApi(settings: Record<string, string> = {}): Promise<BillingApi> {
  const stripe = startStripeStub()
  const service = await createEmailApi({ settings: { ...stripeSettings(stripe), ...settings } })
  const { app, clock, url } = service
  const actor = await createTestAccount(app, 'free')
  const key = await service.newKey([], actor)
  const api: BillingApi['api'] = (method, path, body) => service.api(method, path, body, { key })
  const checkout: BillingApi['checkout'] = (body = {}) =>
    api('POST', '/v1/billing/checkout', {
      plan: 'pro',
      success_url: 'https://app.test/paid?session={CHECKOUT_SESSION_ID}',
      cancel_url: 'https://app.test/not',
      ...body,
    })
  let events = 0
  return {
    service,
    stripe,
    actor,
    api,
    checkout,
    async buy(given = {}) {
      if (stripe.customers.size === 0) await checkout()
      const subscriptions = stripe.customers.get(CUSTOMER)?.subscriptions ?? []
      const subscription = {
        id: `sub_${subscriptions.length + 1}`,
        status: 'active',
        created: 1_000 + subscriptions.length,
        price: 'price_pro',
        paid: [],
        ...given,
      }
      subscriptions.push(subscription)
      return subscription
    },
    async tell(
      type,
      { id = `evt_${++events}`, object = { customer: CUSTOMER }, at: when = clock.now(), secret = STRIPE_SECRET } = {},
    ) {
      const { body, signature } = await createSignedEvent({ id, type, object }, when, secret)
      const headers = { 'content-type': 'application/json; charset=utf-8', 'stripe-signature': signature }
      return (await fetch(`${url}/billing/stripe`, { method: 'POST', headers, body })).status
    },
    async state() {
      const { body } = await api('GET', '/v1/billing/subscription')
      const account = await api('GET', '/v1/account')
      const { limits: _, emails_sent_this_month: __, ...record } = at(body, 'data') as Record<string, unknown>
      if (at(account.body, 'data', 'monthly_quota') !== record['monthly_quota']) throw new Error('two quotas')
      return record
    },
    audited: () =>
      app.db
        .query<{ action: string; actor_type: string; metadata: string }, [number]>(
          "SELECT action, actor_type, metadata FROM audit_logs WHERE account_id = ? AND actor_id = 'stripe' ORDER BY id",
        )
        .all(actor.accountId)
        .map(({ metadata, ...row }) => ({ ...row, metadata: JSON.parse(metadata) })),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      stripe[Symbol.dispose]()
    },
  }
}

/** The billing state of an account that never bought anything. */
export const NOTHING_BOUGHT = {
  plan: 'free',
  subscription_status: 'none',
  stripe_subscription_id: null,
  billing_email: null,
  trial_ends_at: null,
  monthly_quota: 3000,
}

/** The billing state with a live subscription to plan pro whose first invoice is paid. */
export const PRO = {
  plan: 'pro',
  subscription_status: 'active',
  stripe_subscription_id: 'sub_1',
  billing_email: 'owner@tassis.test',
  trial_ends_at: null,
  monthly_quota: 100_000,
}
