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
      const customer = findCustomer(event)
      // Stripe repeats an event until the response is 2xx, so an outage is retried later.
      if (customer) await withoutTimeLimit(request, () => reconcile(app, customer, event.id))
      return RECEIVED
    },
    { detail: { hide: true, ...acceptsBody('bytes') } },
  )

/** The event in a body signed by Stripe; throws 400 `invalid_signature`. */
async function verifyEvent({ config, clock }: App, body: unknown, signature: string | null): Promise<Stripe.Event> {
  try {
    if (!(body instanceof Uint8Array) || signature === null) throw new TypeError('signature or body missing')
    const { webhooks } = await loadStripe()
    return await webhooks.constructEventAsync(
      Buffer.from(body),
      signature,
      config.stripeWebhookSecret,
      TOLERANCE_SECONDS,
      undefined,
      clock.now(),
    )
  } catch {
    throw new AppError(
      400,
      'invalid_signature',
      'Invalid signature: it was not made with the secret of the endpoint, or is too old.',
    )
  }
}

/** The customer of the event's object, an id or the expanded object; for `customer.deleted` the object itself. */
function findCustomer({ type, data }: Stripe.Event): string | undefined {
  const { id, customer } = data.object as { readonly id?: string; readonly customer?: string | { readonly id: string } }
  if (type === 'customer.deleted') return id
  return typeof customer === 'object' ? customer?.id : customer
}
