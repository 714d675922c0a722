/**
 * @module A payment provider on a local socket with the part of Stripe's API that the service uses; it can fail, be
 * slow or return nonsense. Stripe's library signs its events. Nothing leaves this machine.
 */
import Stripe from 'stripe'

export const STRIPE_KEY = 'sk_test_Very5ecretKeyOfTheOperator'
export const STRIPE_SECRET = 'whsec_test_VerySecretOfTheEndpoint'

export interface StubSubscription {
  id: string
  status: string
  created: number
  price: string
  trialEnd?: number
  /** Sums of its paid invoices, in cents. */
  paid: number[]
}

export interface StripeRequest {
  readonly method: string
  readonly path: string
  readonly fields: Readonly<Record<string, string>>
  readonly authorization: string | null
  readonly idempotencyKey: string | null
}

export interface StripeStub extends Disposable {
  readonly url: string
  readonly requests: StripeRequest[]
  /** Customer ids with the subscriptions of each, including ended ones. */
  readonly customers: Map<string, { email: string; subscriptions: StubSubscription[] }>
  /** Overrides the stub's response to a request; undefined: the stub responds. */
  interfere: ((request: StripeRequest) => Response | Promise<Response> | undefined) | undefined
  /** Delays the next request until the returned function is called; `asked` resolves when the request has come. */
  hold(): { readonly asked: Promise<void>; release(): void }
}

const NOT_FOUND = (param: string) =>
  Response.json(
    { error: { type: 'invalid_request_error', code: 'resource_missing', param, message: 'No such thing: x' } },
    { status: 404 },
  )

const LIVE_STATUSES = ['active', 'trialing', 'past_due', 'incomplete', 'unpaid', 'paused']

export function startStripeStub(): StripeStub {
  const requests: StripeRequest[] = []
  const customers: StripeStub['customers'] = new Map()
  const byIdempotencyKey = new Map<string, string>()
  let holding: { told: () => void; released: Promise<void> } | undefined
  const stub: Pick<StripeStub, 'interfere'> = { interfere: undefined }

  const answer = ({ method, path, fields, idempotencyKey }: StripeRequest): Response => {
    const customer = customers.get(fields['customer'] ?? '')
    switch (`${method} ${path}`) {
      case 'POST /v1/customers': {
        const known = byIdempotencyKey.get(idempotencyKey ?? '')
        const id = known ?? `cus_${customers.size + 1}`
        if (!known) customers.set(id, { email: fields['email'] ?? '', subscriptions: [] })
        if (idempotencyKey) byIdempotencyKey.set(idempotencyKey, id)
        return Response.json({ id, object: 'customer', email: fields['email'] })
      }
      case 'POST /v1/checkout/sessions':
        return customer
          ? Response.json({ id: 'cs_1', object: 'checkout.session', url: `https://pay.test/c/${fields['customer']}` })
          : NOT_FOUND('customer')
      case 'POST /v1/billing_portal/sessions':
        return customer
          ? Response.json({ id: 'bps_1', object: 'billing_portal.session', url: 'https://pay.test/portal' })
          : NOT_FOUND('customer')
      case 'GET /v1/subscriptions':
        return customer
          ? Response.json({
              object: 'list',
              has_more: false,
              data: customer.subscriptions
                .filter(({ status }) => LIVE_STATUSES.includes(status))
                .map(({ id, status, created, price, trialEnd }) => ({
                  id,
                  object: 'subscription',
                  status,
                  created,
                  customer: { id: fields['customer'], object: 'customer', email: customer.email },
                  trial_end: trialEnd ?? null,
                  items: { object: 'list', data: [{ id: 'si_1', price: { id: price, object: 'price' } }] },
                })),
            })
          : NOT_FOUND('customer')
      case 'GET /v1/invoices': {
        const all = [...customers.values()].flatMap(({ subscriptions }) => subscriptions)
        const of = all.find(({ id }) => id === fields['subscription'])
        return Response.json({
          object: 'list',
          has_more: false,
          data: (of?.paid ?? []).map((amount, i) => ({ id: `in_${i}`, object: 'invoice', amount_paid: amount })),
        })
      }
    }
    const deleted = method === 'DELETE' ? /^\/v1\/customers\/(\w+)$/.exec(path)?.[1] : undefined
    if (deleted !== undefined)
      return customers.delete(deleted)
        ? Response.json({ id: deleted, object: 'customer', deleted: true })
        : NOT_FOUND('id')
    return NOT_FOUND('path')
  }

  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url)
      const fields = request.method === 'POST' ? new URLSearchParams(await request.text()) : searchParams
      const asked: StripeRequest = {
        method: request.method,
        path: pathname,
        fields: Object.fromEntries(fields),
        authorization: request.headers.get('authorization'),
        idempotencyKey: request.headers.get('idempotency-key'),
      }
      requests.push(asked)
      if (holding) {
        const { told, released } = holding
        holding = undefined
        told()
        await released
      }
      return (await stub.interfere?.(asked)) ?? answer(asked)
    },
  })
  return Object.assign(stub, {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    customers,
    hold() {
      const asked = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      holding = { told: asked.resolve, released: released.promise }
      return { asked: asked.promise, release: released.resolve }
    },
    [Symbol.dispose]: () => void server.stop(true),
  })
}

/** TASSIS_PLANS with prices of the stub. */
export const STRIPE_PLANS = [
  'starter.stripe_price_id=price_starter',
  'starter.price_cents=900',
  'pro.stripe_price_id=price_pro',
  'pro.price_cents=4900',
  'business.stripe_price_id=price_business',
].join(',')

/** Settings of a service that uses the stub: price_starter, price_pro and price_business. */
export const stripeSettings = ({ url }: Pick<StripeStub, 'url'>): Record<string, string> => ({
  TASSIS_STRIPE_URL: url,
  TASSIS_STRIPE_KEY: STRIPE_KEY,
  TASSIS_STRIPE_WEBHOOK_SECRET: STRIPE_SECRET,
  TASSIS_PLANS: STRIPE_PLANS,
})

/** Body and signature of an event, as Stripe posts it. */
export async function createSignedEvent(
  event: { readonly id: string; readonly type: string; readonly object: object },
  at: number,
  secret = STRIPE_SECRET,
): Promise<{ body: string; signature: string }> {
  const { id, type, object } = event
  const body = JSON.stringify({ id, object: 'event', type, created: Math.floor(at / 1000), data: { object } })
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({
    payload: body,
    secret,
    timestamp: Math.floor(at / 1000),
  })
  return { body, signature }
}
