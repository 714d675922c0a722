import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { listOpenDeletions, startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { days } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { type BillingApi, CUSTOMER, createBillingApi } from '#test/support/billing.ts'

// Three days of hourly attempts take long on a busy machine.
setDefaultTimeout(120_000)

/**
 * Requests the deletion of the account and runs it until `isEnough`, moving the clock forward only when nothing can be
 * done.
 */
async function deleteAccount({ service, actor }: BillingApi, isEnough: () => boolean): Promise<void> {
  const { app, clock, url } = service
  const key = await service.newKey([], actor)
  const headers = { authorization: `Bearer ${key}`, 'x-confirm-delete': 'DELETE' }
  expect((await fetch(`${url}/v1/account`, { method: 'DELETE', headers })).status).toBe(202)
  const removal = startAccountRemoval(app)
  try {
    await eventually(() => {
      const [deletion] = listOpenDeletions(app.db)
      if (deletion && deletion.dueAt > clock.now()) clock.advance(deletion.dueAt - clock.now())
      removal.wake()
      return isEnough()
    }, 100_000)
  } finally {
    await removal.stop()
  }
}

const stripeColumns = ({ service, actor }: BillingApi): unknown =>
  service.app.db
    .query('SELECT stripe_customer_id AS customer, stripe_subscription_id AS subscription FROM accounts WHERE id = ?')
    .get(actor.accountId)

describe('a deleted account', () => {
  test('is not charged any more: its customer is deleted at Stripe, with retries, before the customer id is deleted', async () => {
    await using billing = await createBillingApi()
    const { app } = billing.service
    await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    let refused = 0
    billing.stripe.interfere = ({ method }) =>
      method === 'DELETE' && ++refused < 3 ? new Response('x', { status: 500 }) : undefined
    await deleteAccount(billing, () => listOpenDeletions(app.db).length === 0)
    expect({ refused, customers: billing.stripe.customers.size, row: stripeColumns(billing) }).toEqual({
      refused: 3,
      customers: 0,
      row: { customer: null, subscription: null },
    })
  })

  test('is deleted after three days, not before, when Stripe is unavailable', async () => {
    await using billing = await createBillingApi()
    const { app, clock } = billing.service
    await billing.buy({ paid: [4900] })
    billing.stripe.interfere = () => new Response('x', { status: 500 })
    const begin = clock.now()
    await deleteAccount(billing, () => listOpenDeletions(app.db).length === 0)
    const days3 = Math.floor((clock.now() - begin) / days(3))
    expect({ days3, customers: [...billing.stripe.customers.keys()], row: stripeColumns(billing) }).toEqual({
      days3: 1,
      customers: [CUSTOMER],
      row: { customer: null, subscription: null },
    })
  })
})
