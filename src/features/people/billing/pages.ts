/**
 * @module POST /billing/stripe: receives Stripe's events on payments and subscriptions. Public; only signed events are
 * accepted. Only the customer of an event is used: we ask Stripe what that customer has.
 */
import { Elysia } from 'elysia'
import type { Stripe } from 'stripe'
import type { App } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { reconcile } from './reconcile.ts'
import { loadStripe } from './stripe.ts'

/** Maximum age of a signature in seconds. For that long, someone who copied a signed request could send it again. */
const TOLERANCE_SECONDS = 300
const MAX_ID_LENGTH = 255

/** Other events change no plan. */
const HANDLED_EVENTS: readonly string[] = [
  'checkout.session.completed',
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.deleted',
  'customer.deleted',
  'invoice.paid',
  'invoice.payment_failed',
]

const RECEIVED = { received: true }

export const billingPages = (app: App) =>
  new Elysia().post(
    '/billing/stripe',
    async ({ body, request }) => {
      const event = await verifyEvent(app, body, request.headers.get('stripe-signature'))
      if (!HANDLED_EVENTS.includes(event.type)) return RECEIVED
      const customer = readCustomer(event)
      // Stripe repeats an event until the response is 2xx, so an outage is retried later.
      if (isId(customer) && isId(event.id)) await withoutTimeLimit(request, () => reconcile(app, customer, event.id))
      return RECEIVED
    },
    { detail: { hide: true, ...acceptsBody('bytes') } },
  )

/** The event in a body signed by Stripe; throws 400 `invalid_signature`. */
async function verifyEvent({ config, clock }: App, body: unknown, signature: string | null): Promise<Stripe.Event> {
  try {
    if (!(body instanceof Uint8Array) || signature === null) throw new TypeError('signature or body missing')
    const { webhooks } = await loadStripe()
    const event: unknown = await webhooks.constructEventAsync(
      Buffer.from(body),
      signature,
      config.stripeWebhookSecret,
      TOLERANCE_SECONDS,
      undefined,
      clock.now(),
    )
    if (typeof event !== 'object' || event === null) throw new TypeError('not an event')
    return event as Stripe.Event
  } catch {
    throw new AppError(
      400,
      'invalid_signature',
      'Invalid signature: it was not made with the secret of the endpoint, or is too old.',
    )
  }
}

/**
 * The customer of the event's object, which may be an id or the expanded object; for `customer.deleted` the event's
 * object itself.
 */
function readCustomer(event: Stripe.Event): unknown {
  const about: unknown = event.data?.object
  if (typeof about !== 'object' || about === null) return undefined
  if (event.type === 'customer.deleted') return 'id' in about ? about.id : undefined
  const customer: unknown = 'customer' in about ? about.customer : undefined
  return typeof customer === 'object' && customer !== null && 'id' in customer ? customer.id : customer
}

const isId = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH
