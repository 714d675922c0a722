import { describe, expect, test } from 'bun:test'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { reconcileAll } from '#features/people/billing/reconcile.ts'
import { days } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { CUSTOMER, createBillingApi, NOTHING_BOUGHT, PRO } from '#test/support/billing.ts'
import { expectError } from '#test/support/email-api.ts'
import { STRIPE_PLANS } from '#test/support/stripe-stub.ts'

const HELD = { ...PRO, monthly_quota: 3000 }
const ENDED = { ...NOTHING_BOUGHT, subscription_status: 'canceled', billing_email: 'owner@tassis.test' }

describe('a subscription', () => {
  // Proves: account-3, billing-2
  test("grants its plan immediately, and the plan's quota when an invoice over more than zero is paid", async () => {
    await using billing = await createBillingApi()
    const subscription = await billing.buy()
    expect(await billing.state()).toEqual(NOTHING_BOUGHT)
    expect(await billing.tell('customer.subscription.created')).toBe(200)
    expect(await billing.state()).toEqual(HELD)
    subscription.paid.push(4900)
    expect(await billing.tell('invoice.paid')).toBe(200)
    expect(await billing.state()).toEqual(PRO)
    expect(billing.audited()).toEqual([
      {
        action: 'subscription.updated',
        actor_type: 'system',
        metadata: {
          plan: 'pro',
          previous_plan: 'free',
          subscription_id: 'sub_1',
          subscription_status: 'active',
          quota_held: true,
        },
      },
      {
        action: 'subscription.updated',
        actor_type: 'system',
        metadata: { plan: 'pro', subscription_id: 'sub_1', subscription_status: 'active', quota_held: false },
      },
    ])
  })

  // Proves: account-3
  test('has the quota of plan free during its trial and after an invoice over zero', async () => {
    await using billing = await createBillingApi()
    const trialEnd = 1_775_000_000
    const subscription = await billing.buy({ status: 'trialing', trialEnd, paid: [0] })
    for (const type of ['checkout.session.completed', 'customer.subscription.created', 'invoice.paid'])
      expect(await billing.tell(type)).toBe(200)
    expect(await billing.state()).toEqual({
      ...HELD,
      subscription_status: 'trialing',
      trial_ends_at: new Date(trialEnd * 1000).toISOString(),
    })
    subscription.status = 'active'
    subscription.paid.unshift(4900)
    await billing.tell('customer.subscription.updated')
    expect(await billing.state()).toEqual({ ...PRO, trial_ends_at: new Date(trialEnd * 1000).toISOString() })
  })

  // Proves: account-3
  test('limits sending to plan free until it is paid, and the error says so', async () => {
    await using billing = await createBillingApi({ TASSIS_PLANS: `${STRIPE_PLANS},free.monthly_quota=2` })
    await billing.service.addDomain(billing.actor, 'plan.test')
    const email = { from: 'a@plan.test', to: 'b@receiver.test', subject: 'S', text_body: 'T' }
    const send = () => billing.api('POST', '/v1/emails', email)
    const subscription = await billing.buy()
    await billing.tell('customer.subscription.created')
    expect([(await send()).status, (await send()).status]).toEqual([202, 202])
    const refused = await send()
    expectError(refused, 429, 'quota_exceeded')
    expect(at(refused.body, 'message')).toBe(
      'The monthly quota of 2 recipients is used up; it renews on the first of next month (UTC), and the quota of plan pro applies once its first invoice is paid.',
    )
    subscription.paid.push(4900)
    await billing.tell('invoice.paid')
    expect((await send()).status).toBe(202)
  })

  test('that is not paid never grants more than the quota of its own plan, even if plan free has more', async () => {
    await using billing = await createBillingApi({
      TASSIS_PLANS: `${STRIPE_PLANS},free.monthly_quota=500,pro.monthly_quota=200`,
    })
    await billing.buy()
    await billing.tell('customer.subscription.created')
    expect(await billing.state()).toEqual({ ...HELD, monthly_quota: 200 })
  })

  test('that is paid stays paid when its plan changes: the quota of the new plan applies immediately', async () => {
    await using billing = await createBillingApi()
    const subscription = await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    subscription.price = 'price_business'
    await billing.tell('customer.subscription.updated')
    expect(await billing.state()).toEqual({ ...PRO, plan: 'business', monthly_quota: 500_000 })
  })

  test('keeps its plan while Stripe retries a failed payment, and loses it when Stripe gives up', async () => {
    await using billing = await createBillingApi()
    const subscription = await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    subscription.status = 'past_due'
    await billing.tell('invoice.payment_failed')
    expect(await billing.state()).toEqual({ ...PRO, subscription_status: 'past_due' })
    subscription.status = 'unpaid'
    await billing.tell('customer.subscription.updated')
    expect(await billing.state()).toEqual(ENDED)
  })

  test('returns the account to plan free when it ends; the next one must be paid before its quota applies', async () => {
    await using billing = await createBillingApi()
    const first = await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    first.status = 'canceled'
    await billing.tell('customer.subscription.deleted')
    expect(await billing.state()).toEqual(ENDED)
    await billing.buy()
    await billing.tell('customer.subscription.created')
    expect(await billing.state()).toEqual({ ...HELD, stripe_subscription_id: 'sub_2' })
  })

  test("leaves the plan unchanged when no plan has the subscription's price", async () => {
    await using billing = await createBillingApi()
    await billing.buy({ price: 'price_of_something_else', paid: [100] })
    await billing.tell('customer.subscription.created')
    expect(await billing.state()).toEqual({ ...PRO, plan: 'free', monthly_quota: 3000 })
  })

  test('counts if it is the newer of two; the older counts once the newer has ended', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    const second = await billing.buy({ price: 'price_business', paid: [9900] })
    await billing.tell('customer.subscription.created')
    expect(await billing.state()).toMatchObject({ plan: 'business', stripe_subscription_id: 'sub_2' })
    second.status = 'canceled'
    await billing.tell('customer.subscription.deleted')
    expect(await billing.state()).toEqual(PRO)
  })

  test('does not remove a plan assigned by the operator when the customer has no subscription', async () => {
    await using billing = await createBillingApi()
    await billing.checkout()
    billing.service.app.db.run("UPDATE accounts SET plan = 'business' WHERE id = ?", [billing.actor.accountId])
    for (const type of ['customer.subscription.deleted', 'checkout.session.completed'])
      expect(await billing.tell(type)).toBe(200)
    expect(await billing.state()).toEqual({ ...NOTHING_BOUGHT, plan: 'business', monthly_quota: 500_000 })
  })

  test('does not change a quota that the operator set, whatever is paid', async () => {
    await using billing = await createBillingApi()
    billing.service.app.db.run('UPDATE accounts SET monthly_quota = 77 WHERE id = ?', [billing.actor.accountId])
    const subscription = await billing.buy()
    await billing.tell('customer.subscription.created')
    expect(await billing.state()).toEqual({ ...HELD, monthly_quota: 77 })
    subscription.paid.push(4900)
    await billing.tell('invoice.paid')
    expect(await billing.state()).toEqual({ ...PRO, monthly_quota: 77 })
  })
})

test('an account has the quota of a plan assigned by the operator immediately', async () => {
  await using billing = await createBillingApi()
  billing.service.app.db.run("UPDATE accounts SET plan = 'pro' WHERE id = ?", [billing.actor.accountId])
  expect(await billing.state()).toEqual({ ...NOTHING_BOUGHT, plan: 'pro', monthly_quota: 100_000 })
})

describe('events', () => {
  const ALL = [
    'checkout.session.completed',
    'customer.subscription.created',
    'customer.subscription.updated',
    'invoice.paid',
  ] as const
  const ORDERS = [ALL, ALL.toReversed(), [ALL[3], ALL[0], ALL[2], ALL[1]], [ALL[2], ALL[3], ALL[1], ALL[0]]] as const

  // Proves: billing-4
  test.each(ORDERS)('in the order %s, %s, %s, %s have the same result', async (...order) => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    for (const type of order) expect(await billing.tell(type)).toBe(200)
    expect(await billing.state()).toEqual(PRO)
  })

  test('have the same result when they arrive at the same time, with one entry in the audit log', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    const types = Array.from({ length: 40 }, (_, i) => ALL[i % ALL.length] ?? 'invoice.paid')
    expect(await Promise.all(types.map((type) => billing.tell(type)))).toEqual(types.map(() => 200))
    expect(await billing.state()).toEqual(PRO)
    expect(billing.audited()).toHaveLength(1)
  })

  test('that report an old state restore nothing when they arrive after the end of the subscription', async () => {
    await using billing = await createBillingApi()
    const subscription = await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    subscription.status = 'canceled'
    await billing.tell('customer.subscription.deleted')
    for (const type of ['invoice.paid', 'customer.subscription.updated', 'customer.subscription.created'])
      expect(await billing.tell(type, { object: { customer: CUSTOMER, id: 'sub_1', status: 'active' } })).toBe(200)
    expect(await billing.state()).toEqual(ENDED)
  })

  test('restore nothing when Stripe responds to the query of a newer event first', async () => {
    await using billing = await createBillingApi()
    const subscription = await billing.buy({ paid: [4900] })
    const { asked, release } = billing.stripe.hold()
    const first = billing.tell('customer.subscription.created')
    await asked
    subscription.status = 'canceled'
    const second = billing.tell('customer.subscription.deleted')
    release()
    expect(await Promise.all([first, second])).toEqual([200, 200])
    expect(await billing.state()).toMatchObject({ plan: 'free', stripe_subscription_id: null })
  })

  // Proves: billing-4
  test('are applied once: a repeated one sends Stripe no request', async () => {
    await using billing = await createBillingApi()
    await billing.buy()
    await billing.tell('invoice.paid', { id: 'evt_same' })
    const asked = billing.stripe.requests.length
    for (let i = 0; i < 3; i++) expect(await billing.tell('invoice.paid', { id: 'evt_same' })).toBe(200)
    expect(billing.stripe.requests).toHaveLength(asked)
  })

  test('of unknown kinds and of unknown customers get a 200 and change nothing', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    const asked = billing.stripe.requests.length
    expect(await billing.tell('charge.refunded')).toBe(200)
    for (const object of [
      { customer: 'cus_of_others' },
      { customer: null },
      {},
      { customer: 5 },
      { customer: { id: [] } },
    ])
      expect(await billing.tell('invoice.paid', { object })).toBe(200)
    expect(billing.stripe.requests).toHaveLength(asked)
    expect(await billing.state()).toEqual(NOTHING_BOUGHT)
  })

  test('are not trusted: a forged sum, plan or status in one changes nothing', async () => {
    await using billing = await createBillingApi()
    await billing.buy()
    const object = {
      customer: { id: CUSTOMER },
      status: 'active',
      amount_paid: 99_999,
      items: { data: [{ price: { id: 'price_business' } }] },
    }
    expect(await billing.tell('invoice.paid', { object })).toBe(200)
    expect(await billing.state()).toEqual(HELD)
  })

  test('leave the table after 60 days', async () => {
    await using billing = await createBillingApi()
    const { app, clock } = billing.service
    await billing.buy()
    await billing.tell('invoice.paid', { id: 'evt_old' })
    clock.advance(days(59))
    await billing.tell('invoice.paid', { id: 'evt_new' })
    expect(await purgeExpired(app)).toBe(0)
    clock.advance(days(1) + 1)
    expect(await purgeExpired(app)).toBe(1)
    expect(app.db.query('SELECT id FROM billing_events').all()).toEqual([{ id: 'evt_new' }])
  })

  test('that never arrived are replaced by reconciling every customer', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    await reconcileAll(billing.service.app, new AbortController().signal)
    expect(await billing.state()).toEqual(PRO)
  })

  test("that never arrived are replaced even if Stripe's response for one customer is invalid", async () => {
    await using billing = await createBillingApi()
    const { app, actor } = billing.service
    await billing.buy({ paid: [4900] })
    app.db.run("UPDATE accounts SET stripe_customer_id = 'cus_0' WHERE id = ?", [actor.accountId])
    billing.stripe.interfere = ({ fields }) => (fields['customer'] === 'cus_0' ? Response.json({}) : undefined)
    await reconcileAll(app, new AbortController().signal)
    expect(await billing.state()).toEqual(PRO)
  })
})

test('an account keeps its plan when the key belongs to a Stripe account without its customer, until an event ends the subscription', async () => {
  await using billing = await createBillingApi()
  await billing.buy({ paid: [4900] })
  await reconcileAll(billing.service.app, new AbortController().signal)
  billing.stripe.customers.clear()
  await reconcileAll(billing.service.app, new AbortController().signal)
  expect(await billing.state()).toEqual(PRO)
  expect(await billing.tell('customer.subscription.deleted')).toBe(200)
  expect(await billing.state()).toMatchObject({ plan: 'free' })
})

describe("events without Stripe's signature are a 400 and change nothing:", () => {
  // Proves: billing-4
  test.each([
    ['another secret', { secret: 'whsec_of_somebody_else' }, 0],
    ['a signature that is older than five minutes', {}, -301_000],
  ])('%s', async (_, more, shift) => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    const asked = billing.stripe.requests.length
    expect(await billing.tell('invoice.paid', { ...more, at: billing.service.clock.now() + shift })).toBe(400)
    expect(billing.stripe.requests).toHaveLength(asked)
    expect(await billing.state()).toEqual(NOTHING_BOUGHT)
  })

  // Proves: billing-4
  test.each([
    ['no signature', {}, '{}'],
    ['a malformed signature', { 'stripe-signature': 't=x,v1=y' }, '{}'],
    ['nothing', { 'stripe-signature': 't=1,v1=00' }, ''],
  ])('%s', async (_, headers, body) => {
    await using billing = await createBillingApi()
    const answer = await fetch(`${billing.service.url}/billing/stripe`, { method: 'POST', headers, body })
    expect({ status: answer.status, body: await answer.json() }).toMatchObject({
      status: 400,
      body: { code: 'invalid_signature', type: 'validation_error' },
    })
  })

  test('a body of more than 256 KiB is a 413, in one piece and in chunks', async () => {
    await using billing = await createBillingApi()
    const post = (bytes: number) =>
      fetch(`${billing.service.url}/billing/stripe`, { method: 'POST', body: 'x'.repeat(bytes) })
    expect((await post(256 * 1024 + 1)).status).toBe(413)
    expect((await post(256 * 1024)).status).toBe(400)
    const chunks = (count: number) =>
      fetch(`${billing.service.url}/billing/stripe`, {
        method: 'POST',
        body: new ReadableStream({
          start(controller) {
            for (let i = 0; i < count; i++) controller.enqueue(new Uint8Array(64 * 1024))
            controller.close()
          },
        }),
      })
    expect((await chunks(5)).status).toBe(413)
    expect((await chunks(4)).status).toBe(400)
  })
})

describe('while Stripe is unavailable', () => {
  // Proves: billing-4
  test.each([
    ['fails', () => new Response('oops', { status: 500 })],
    ['is overloaded', () => Response.json({ error: { type: 'rate_limit' } }, { status: 429 })],
    ['returns no JSON', () => new Response('<html>', { status: 200 })],
    ['returns another object', () => Response.json({ object: 'list', data: 'none' })],
    ['returns subscriptions without items', () => Response.json({ data: [{ id: 'sub_1', status: 'active' }] })],
    ['redirects elsewhere', () => Response.redirect('http://127.0.0.1:9/', 302)],
  ])('an event is not recorded, so that Stripe repeats it, when Stripe %s', async (_, interfere) => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    billing.stripe.interfere = interfere
    expect(await billing.tell('invoice.paid', { id: 'evt_1' })).toBeOneOf([502, 503])
    expect(await billing.state()).toEqual(NOTHING_BOUGHT)
    billing.stripe.interfere = undefined
    expect(await billing.tell('invoice.paid', { id: 'evt_1' })).toBe(200)
    expect(await billing.state()).toEqual(PRO)
  })

  test('an event is a 503 after 20 seconds', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    const { asked, release } = billing.stripe.hold()
    const told = billing.tell('invoice.paid')
    await asked
    billing.service.clock.advance(20_000)
    expect(await told).toBe(503)
    release()
    expect(await billing.state()).toEqual(NOTHING_BOUGHT)
  })
})
