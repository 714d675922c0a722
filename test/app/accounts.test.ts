/** @module Tests of `tassis accounts plan` and `tassis accounts pool`. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { assignPlan } from '#features/people/billing/routes.ts'
import { createBillingApi, PRO } from '#test/support/billing.ts'
import { createDataFolder, runTassis, runTassisJson } from './process.ts'

// Services run as separate processes on a machine that may be busy.
setDefaultTimeout(300_000)

// Proves: operator-61
test('accounts plan sets a plan and a quota, removes the quota and explains refusals', async () => {
  using data = createDataFolder()
  const run = (...args: string[]) => runTassis(['accounts', 'plan', ...args], data.settings)
  await runTassisJson(
    ['accounts', 'create', '--name', 'Ada', '--email', 'ada@example.com', '--plan', 'free'],
    data.settings,
  )
  expect((await run('Ada', 'pro')).stdout).toMatch(/\nPlan: +pro\nMonthly quota: +100000\n/)
  const both = await runTassisJson(['accounts', 'plan', 'Ada', 'business', '--monthly-quota', '7'], data.settings)
  expect(both).toMatchObject({ name: 'Ada', plan: 'business', monthly_quota: 7 })
  const own = await runTassisJson(['accounts', 'plan', 'Ada', '--monthly-quota', 'plan'], data.settings)
  expect(own).toMatchObject({ name: 'Ada', plan: 'business', monthly_quota: 500_000 })
  for (const [args, code, words] of [
    [['Ada'], 2, 'Name a plan, --monthly-quota or both;'],
    [['Ada', 'gold'], 2, 'Allowed choices are free, starter, pro, business, enterprise, unlimited.'],
    [['Ada', '--monthly-quota', '-1'], 2, 'It must be a whole number from 0 to 2147483647'],
    [['Eve', 'pro'], 1, 'Account "Eve"'],
  ] as const) {
    const { exitCode, stderr } = await run(...args)
    expect({ exitCode, stderr }).toEqual({ exitCode: code, stderr: expect.stringContaining(words) })
  }
})

test('the plan of an account that pays follows its subscription, but not its quota; each change is in the audit log', async () => {
  await using billing = await createBillingApi()
  const { app } = billing.service
  await assignPlan(app, billing.actor, { plan: 'starter' })
  await billing.buy({ paid: [4900] })
  await billing.tell('invoice.paid')
  await expect(assignPlan(app, billing.actor, { plan: 'free' })).rejects.toMatchObject({ code: 'subscription_exists' })
  await assignPlan(app, billing.actor, { monthly_quota: 12 })
  expect(await billing.state()).toEqual({ ...PRO, monthly_quota: 12 })
  const rows = app.db
    .query<{ metadata: string }, [number]>(
      "SELECT metadata FROM audit_logs WHERE account_id = ? AND action = 'account.plan_changed' ORDER BY id",
    )
    .all(billing.actor.accountId)
  expect(rows.map(({ metadata }) => JSON.parse(metadata))).toEqual([
    { plan: 'starter', previous_plan: 'free' },
    { monthly_quota: 12 },
  ])
})

test('tassis accounts pool shows, chooses and ends the pools of an account and of its streams', async () => {
  using data = createDataFolder()
  const settings = { ...data.settings, TASSIS_OUTBOUND_IPS: '127.0.0.2, 127.0.0.3@news, 127.0.0.4@receipts' }
  const run = (...args: string[]) => runTassis(['accounts', 'pool', 'Acme', ...args], settings)
  await runTassis(['accounts', 'create', '--name', 'Acme', '--email', 'owner@acme.test'], settings)
  expect((await run()).stdout).toBe('Pool: none\n')
  expect((await run('news')).stdout).toBe('Pool: news\n')
  const both = 'Pool:         news\nStream pools: stream transactional, pool receipts\n'
  expect((await run('receipts', '--stream', 'transactional')).stdout).toBe(both)
  // Without a name it changes nothing.
  expect((await run()).stdout).toBe(both)
  expect(await runTassisJson(['accounts', 'show', 'Acme'], settings)).toMatchObject({
    pool: 'news',
    stream_pools: [{ stream: 'transactional', pool: 'receipts' }],
  })
  expect((await run('--none')).stdout).toStartWith('Pool:         none\n')
  expect(await runTassisJson(['accounts', 'pool', 'Acme', '--none', '--stream', 'transactional'], settings)).toEqual({
    pool: null,
    stream_pools: [],
  })
  for (const [args, code, problem] of [
    [['typo'], 1, 'there are news, receipts'],
    [['news', '--stream', 'typo'], 1, 'has no stream "typo"'],
    [['news', '--none'], 2, 'Name a pool or use --none'],
    [['--stream', 'transactional'], 2, 'Name the pool for the stream'],
  ] as const) {
    const { exitCode, stderr } = await run(...args)
    expect([exitCode, stderr]).toEqual([code, expect.stringContaining(problem)])
  }
  const { stdout } = await runTassis(['audit', 'list', '--action', 'operator.account_pool_set', '--json'], settings)
  expect(stdout.match(/operator\.account_pool_set/g)?.length).toBe(4)
})
