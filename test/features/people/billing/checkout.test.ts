import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { listOpenDeletions, startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { endBilling } from '#features/people/billing/checkout.ts'
import { createLog } from '#platform/log/log.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { days } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually } from '#test/support/app.ts'
import { type BillingApi, CUSTOMER, createBillingApi, NOTHING_BOUGHT } from '#test/support/billing.ts'
import { createEmailApi, expectError } from '#test/support/email-api.ts'
import { STRIPE_KEY, startStripeStub, stripeSettings } from '#test/support/stripe-stub.ts'

const portal = { return_url: 'https://app.test/account' }

describe('GET /v1/billing/plans', () => {
  // Proves: list-28, auth-15, billing-1
  test('is public, ignores any key, and lists all plans as configured', async () => {
    await using billing = await createBillingApi({
      TASSIS_PLANS:
        'pro.stripe_price_id=price_pro,pro.price_cents=4900,free.max_domains=2,free.max_sub_accounts=2147483647,free.tracking_enabled=false,starter.tracking_enabled=false,enterprise.tracking_enabled=false,unlimited.tracking_enabled=false',
    })
    const { api } = billing.service
    const answers = await Promise.all(
      [null, 'wrong', billing.service.key].map((key) => api('GET', '/v1/billing/plans', undefined, { key })),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    const [first] = answers
    for (const { body } of answers) expect(body).toEqual(first?.body)
    expect(at(first?.body, 'pagination')).toEqual({ page: 1, per_page: 6, total: 6, total_pages: 1 })
    const columns = [
      'plan',
      'monthly_quota',
      'max_domains',
      'max_templates',
      'max_webhooks',
      'max_contact_lists',
      'max_sub_accounts',
      'tracking_enabled',
      'price_cents',
      'stripe_price_id',
    ]
    const data = at(first?.body, 'data') as Record<string, unknown>[]
    expect(data.map((plan) => Object.keys(plan))).toEqual(data.map(() => columns))
    const all = 2_147_483_647
    expect(data.map((plan) => Object.values(plan))).toEqual([
      ['free', 3000, 2, 20, 5, 5, all, false, 0, null],
      ['starter', 10_000, 10, 100, 10, 20, 0, false, 0, null],
      ['pro', 100_000, 50, 500, 25, 100, 10, true, 4900, 'price_pro'],
      ['business', 500_000, 250, 2000, 50, 500, 100, true, 0, null],
      ['enterprise', 2_000_000, 1000, 10_000, 100, 2000, 1000, false, 0, null],
      ['unlimited', all, all, all, all, all, all, false, 0, null],
    ])
  })
})

describe('GET /v1/billing/subscription', () => {
  // Proves: list-28, billing-2
  test('returns plan, quota, use and limits of an account that never bought anything', async () => {
    await using billing = await createBillingApi()
    expect((await billing.api('GET', '/v1/billing/subscription')).body).toEqual({
      data: {
        ...NOTHING_BOUGHT,
        emails_sent_this_month: 0,
        limits: { max_domains: 3, max_templates: 20, max_webhooks: 5, tracking_enabled: true, price_cents: 0 },
      },
    })
  })
})

describe('POST /v1/billing/checkout', () => {
  // Proves: billing-3
  test('makes the account a customer once and returns the Stripe page', async () => {
    await using billing = await createBillingApi()
    const first = await billing.checkout()
    expect({ status: first.status, body: first.body }).toEqual({
      status: 200,
      body: { data: { checkout_url: `https://pay.test/c/${CUSTOMER}` } },
    })
    expect((await billing.checkout({ plan: 'starter' })).status).toBe(200)
    const { accountUuid } = billing.actor
    const session = {
      mode: 'subscription',
      customer: CUSTOMER,
      client_reference_id: accountUuid,
      'line_items[0][quantity]': '1',
      'subscription_data[metadata][account_id]': accountUuid,
      success_url: 'https://app.test/paid?session={CHECKOUT_SESSION_ID}',
      cancel_url: 'https://app.test/not',
    }
    expect(billing.stripe.requests.map(({ path, fields }) => ({ path, fields }))).toEqual([
      { path: '/v1/customers', fields: { email: 'owner@tassis.test', 'metadata[account_id]': accountUuid } },
      { path: '/v1/checkout/sessions', fields: { ...session, 'line_items[0][price]': 'price_pro' } },
      { path: '/v1/checkout/sessions', fields: { ...session, 'line_items[0][price]': 'price_starter' } },
    ])
    expect(billing.stripe.requests.map(({ authorization }) => authorization)).toEqual(
      Array(3).fill(`Bearer ${STRIPE_KEY}`),
    )
  })

  test('creates one customer for many concurrent calls', async () => {
    await using billing = await createBillingApi()
    const answers = await Promise.all(Array.from({ length: 20 }, () => billing.checkout()))
    expect(answers.map(({ body }) => at(body, 'data', 'checkout_url'))).toEqual(
      Array(20).fill(`https://pay.test/c/${CUSTOMER}`),
    )
    expect([...billing.stripe.customers.keys()]).toEqual([CUSTOMER])
  })

  test('creates another customer when Stripe no longer knows the old one', async () => {
    await using billing = await createBillingApi()
    await billing.checkout()
    billing.stripe.customers.delete(CUSTOMER)
    billing.stripe.customers.set('cus_of_others', { email: '', subscriptions: [] })
    expect((await billing.checkout()).body).toEqual({ data: { checkout_url: 'https://pay.test/c/cus_2' } })
  })

  test('is a 409 while there is a subscription', async () => {
    await using billing = await createBillingApi()
    await billing.buy({ paid: [4900] })
    await billing.tell('invoice.paid')
    expectError(await billing.checkout({ plan: 'starter' }), 409, 'subscription_exists')
  })

  test('is a 422 for a plan that is not for sale, and for a URL that no browser should be led to', async () => {
    await using billing = await createBillingApi()
    for (const plan of ['business2', 'free', 'enterprise', 'PRO']) {
      const answer = await billing.checkout({ plan })
      expectError(answer, 422, 'plan_not_for_sale', 'plan')
      expect(at(answer.body, 'message')).toContain('one of starter, pro, business.')
    }
    for (const url of ['javascript:alert(1)', '/relative', 'https://user:pass@app.test/', 'ftp://app.test/']) {
      expectError(await billing.checkout({ success_url: url }), 422, 'validation_failed', 'success_url')
      expectError(await billing.checkout({ cancel_url: url }), 422, 'validation_failed', 'cancel_url')
      const opened = await billing.api('POST', '/v1/billing/portal', { return_url: url })
      expectError(opened, 422, 'validation_failed', 'return_url')
    }
    expect(billing.stripe.requests).toEqual([])
  })

  test('is a 403 for a sub-account, whose parent pays', async () => {
    await using billing = await createBillingApi()
    const { app, actor } = billing.service
    app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [actor.accountId, billing.actor.accountId])
    expectError(await billing.checkout(), 403, 'sub_account')
    expectError(await billing.api('POST', '/v1/billing/portal', portal), 403, 'sub_account')
    expect(billing.stripe.requests).toEqual([])
  })

  test('is a 429 after too many calls', async () => {
    await using billing = await createBillingApi()
    for (let i = 0; i < 30; i++) expect((await billing.checkout()).status).toBe(200)
    expectError(await billing.checkout(), 429, 'rate_limited')
    expectError(await billing.api('POST', '/v1/billing/portal', portal), 429, 'rate_limited')
  })
})

describe('POST /v1/billing/portal', () => {
  // Proves: billing-3
  test('returns the Stripe page', async () => {
    await using billing = await createBillingApi()
    await billing.checkout()
    const answer = await billing.api('POST', '/v1/billing/portal', portal)
    expect({ status: answer.status, body: answer.body }).toEqual({
      status: 200,
      body: { data: { portal_url: 'https://pay.test/portal' } },
    })
    expect(billing.stripe.requests.at(-1)?.fields).toEqual({ customer: CUSTOMER, ...portal })
  })

  test('is a 409 without a purchase, and for a customer that Stripe does not know', async () => {
    await using billing = await createBillingApi()
    expectError(await billing.api('POST', '/v1/billing/portal', portal), 409, 'no_subscription')
    await billing.checkout()
    billing.stripe.customers.clear()
    expectError(await billing.api('POST', '/v1/billing/portal', portal), 409, 'no_subscription')
  })
})

describe('while Stripe fails', () => {
  const refusal = (type: string, more: object = {}, status = 400) =>
    Response.json({ error: { type, message: `It is wrong: ${STRIPE_KEY}`, ...more } }, { status })

  test.each([
    ['fails', () => new Response('x', { status: 500 }), 503, 'billing_unavailable'],
    ['is overloaded', () => refusal('rate_limit_error', {}, 429), 503, 'billing_unavailable'],
    ['does not know the key', () => refusal('invalid_request_error', {}, 401), 503, 'billing_unavailable'],
    [
      'knows no such price',
      () => refusal('invalid_request_error', { param: 'line_items[0][price]' }),
      502,
      'billing_failed',
    ],
    ['returns no JSON', () => new Response('<html>'), 503, 'billing_unavailable'],
    ['returns null', () => Response.json(null), 502, 'billing_failed'],
    ['redirects elsewhere', () => Response.redirect('http://127.0.0.1:9/', 302), 503, 'billing_unavailable'],
    ['returns no URL', () => Response.json({ id: 'cs', url: null }), 502, 'billing_failed'],
    ['returns an invalid URL', () => Response.json({ id: 'cs', url: 'javascript:alert(1)' }), 502, 'billing_failed'],
  ] as const)(
    'the client gets an error, and neither client nor log gets a secret, when Stripe %s',
    async (_, interfere, status, code) => {
      const lines: string[] = []
      const log = createLog('debug', { write: (line) => lines.push(line) })
      using stub = startStripeStub()
      await using service = await createEmailApi({ settings: stripeSettings(stub), log })
      stub.interfere = ({ path }) => (path === '/v1/checkout/sessions' ? interfere() : undefined)
      const answer = await service.api('POST', '/v1/billing/checkout', {
        plan: 'pro',
        success_url: 'https://app.test/',
        cancel_url: 'https://app.test/',
      })
      expect({ status: answer.status, code: at(answer.body, 'code'), type: at(answer.body, 'type') }).toEqual({
        status,
        code,
        type: 'server_error',
      })
      expect(answer.headers.get('retry-after')).toBe(status === 503 ? '30' : null)
      expect(lines.join('')).toContain('payment provider ')
      expect(JSON.stringify(answer.body) + lines.join('')).not.toContain(STRIPE_KEY)
    },
  )

  test('a URL that Stripe rejects is a 422 that names the field', async () => {
    await using billing = await createBillingApi()
    billing.stripe.interfere = ({ path }) =>
      path === '/v1/checkout/sessions' ? refusal('invalid_request_error', { param: 'cancel_url' }) : undefined
    expectError(await billing.checkout(), 422, 'invalid_url', 'cancel_url')
  })

  test('the client waits at most 20 seconds', async () => {
    await using billing = await createBillingApi()
    const { asked, release } = billing.stripe.hold()
    const answer = billing.checkout()
    await asked
    billing.service.clock.advance(20_000)
    expectError(await answer, 503, 'billing_unavailable')
    release()
  })
})

describe('without billing', () => {
  // Proves: billing-3
  test('there is no page for Stripe, and the routes answer 503 before any other check', async () => {
    await using service = await createEmailApi()
    const page = await fetch(`${service.url}/billing/stripe`, { method: 'POST', body: '{}' })
    expect(page.status).toBe(404)
    for (const [path, body] of [
      ['checkout', { plan: 'pro', success_url: 'https://app.test/', cancel_url: 'https://app.test/' }],
      ['portal', portal],
    ] as const) {
      const answer = await service.api('POST', `/v1/billing/${path}`, body)
      expectError(answer, 503, 'billing_not_configured')
      expect(answer.headers.get('retry-after')).toBe('3600')
    }
    const plans = await service.api('GET', '/v1/billing/plans')
    const data = at(plans.body, 'data') as { price_cents: number; stripe_price_id: string | null }[]
    expect(data.map(({ price_cents: price, stripe_price_id: id }) => [price, id])).toEqual([
      [0, null],
      ...Array(5).fill([0, null]),
    ])
  })

  test.each([
    [
      { TASSIS_STRIPE_KEY: 'sk_test_1' },
      'TASSIS_STRIPE_KEY is set but TASSIS_STRIPE_WEBHOOK_SECRET is not; set it to the signing secret of the endpoint {public_url}/billing/stripe, which reports payments.',
    ],
    [
      { TASSIS_STRIPE_URL: 'http://127.0.0.1:1/api' },
      'TASSIS_STRIPE_URL is "http://127.0.0.1:1/api"; it must be a URL of host and port only, such as https://api.stripe.com.',
    ],
  ])('incomplete settings stop the start with one sentence: %j', async (settings, sentence) => {
    await expect(createTestApp({ settings })).rejects.toThrow(new ConfigError(sentence))
  })
})

describe('deleting an account', () => {
  test('ends its subscription by deleting the customer, and succeeds when the customer is already deleted', async () => {
    await using billing = await createBillingApi()
    const { app } = billing.service
    await endBilling(app, billing.actor.accountId)
    expect(billing.stripe.requests).toEqual([])
    await billing.buy({ paid: [4900] })
    await endBilling(app, billing.actor.accountId)
    expect([...billing.stripe.customers.keys()]).toEqual([])
    app.db.run('UPDATE accounts SET stripe_customer_id = ? WHERE id = ?', [CUSTOMER, billing.actor.accountId])
    await endBilling(app, billing.actor.accountId)
    expect(app.db.query('SELECT stripe_customer_id FROM accounts WHERE id = ?').get(billing.actor.accountId)).toEqual({
      stripe_customer_id: null,
    })
  })

  test('is retried while Stripe is unavailable, and no purchase changes the account until then', async () => {
    await using billing = await createBillingApi()
    const { app } = billing.service
    await billing.buy({ paid: [4900] })
    app.db.run('UPDATE accounts SET deleted_at = 1 WHERE id = ?', [billing.actor.accountId])
    billing.stripe.interfere = () => new Response('x', { status: 500 })
    await expect(endBilling(app, billing.actor.accountId)).rejects.toMatchObject({ status: 503 })
    billing.stripe.interfere = undefined
    expect(await billing.tell('invoice.paid')).toBe(200)
    expect(
      app.db.query('SELECT plan, stripe_customer_id FROM accounts WHERE id = ?').get(billing.actor.accountId),
    ).toEqual({
      plan: 'free',
      stripe_customer_id: CUSTOMER,
    })
    await endBilling(app, billing.actor.accountId)
    expect(billing.stripe.customers.size).toBe(0)
  })
})

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
