import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readRemainingQuota } from '#features/core/accounts/accounts.ts'
import { consumeSandboxQuota } from '#features/core/accounts/limits.ts'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { retryDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { days, hours, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const SIMULATOR = 'sim.mail.tassis.test'
const at = (mailbox: string): string => `${mailbox}@${SIMULATOR}`
const start = (options: MailFlowOptions = {}) => startMailFlow({ settings: { TASSIS_DELIVERY: 'direct' }, ...options })
const typesOf = (events: readonly { readonly type: string }[]): string[] => events.map(({ type }) => type)

test('what an account simulates changes no limit, causes no alert and delays no other mail', async () => {
  await using flow = await start({ clock: new ManualClock() })
  const mailboxes = ['defer+4.7.28', 'defer+4.7.1', 'defer+4.3.2', 'drop-after-dot']
  for (const mailbox of mailboxes) await flow.outcome(at(mailbox))
  const scheduler = flow.service.delivery?.scheduler
  const pairs = scheduler?.pairs.all() ?? []
  expect(pairs.map(({ key, isNormal }) => [key, isNormal])).toEqual([['1.simulator.invalid', true]])
  expect(scheduler?.alerts.list()).toEqual([])
  // More than a slowed provider gets while the clock stands still.
  const sent = await Promise.all(Array.from({ length: 30 }, () => flow.send({ to: at('deliver') })))
  for (const one of sent) expect((await flow.settled(one)).recipients[0]?.status).toBe('sent')
})

describe('mail to the simulator', () => {
  let flow: MailFlow
  beforeAll(async () => {
    flow = await start()
  })
  afterAll(() => flow[Symbol.asyncDispose]())

  test.each([
    ['deliver', ['sent', 'delivered']],
    ['Deliver', ['sent', 'delivered']],
    ['open', ['sent', 'delivered', 'opened']],
    ['click', ['sent', 'delivered', 'opened', 'clicked']],
    ['complain', ['sent', 'delivered', 'complained']],
  ])('to %s is sent over SMTP and has its events', async (mailbox, types) => {
    const { recipient, events } = await flow.outcome(at(mailbox), { html_body: '<a href="https://a.test/">a</a>' })
    expect(recipient).toMatchObject({ status: 'sent', attempts: 1, bounceCategory: null })
    expect(typesOf(events)).toEqual(types)
    expect(events[1]?.data).toMatchObject({
      smtp_response: '250 2.0.0 Simulated: accepted and discarded',
      remote_mta: '1.simulator.invalid [127.0.0.1]',
    })
    expect(flow.dns.queries).toEqual([])
    expectBalanced(flow.service)
  })

  test.each([
    ['bounce', '550 5.1.1 Simulated rejection', 'hard', 'invalid_recipient'],
    ['bounce+5.1.1', '550 5.1.1 Simulated rejection', 'hard', 'invalid_recipient'],
    ['bounce+5.3.4', '550 5.3.4 Simulated rejection', 'soft', 'message_too_large'],
  ])('to %s bounces with its reply, and suppresses nothing', async (mailbox, reply, type, category) => {
    for (let round = 0; round < 2; round++) {
      const { recipient, events } = await flow.outcome(at(mailbox))
      expect(recipient).toMatchObject({ status: 'bounced', attempts: 1, bounceType: type, bounceCategory: category })
      expect(typesOf(events)).toEqual(['bounced'])
      expect(events[0]?.data).toMatchObject({ smtp_response: reply, bounce_type: type, bounce_category: category })
      expect(events[0]?.data).not.toHaveProperty('suppressed')
    }
    expect(flow.app.db.query('SELECT * FROM suppressions').all()).toEqual([])
    expectBalanced(flow.service)
  })

  test.each(['nobody', 'deliver+5.1.1', 'bounce+4.1.1', 'defer+5.1.1', 'bounce+5.1.1111', 'constructor'])(
    'to %s bounces with the list of mailboxes',
    async (mailbox) => {
      const { recipient } = await flow.outcome(at(mailbox))
      expect(recipient).toMatchObject({ status: 'bounced', bounceCategory: 'invalid_recipient' })
      expect(recipient.smtpResponse).toBe(
        `550 5.1.1 User unknown; the simulator has these mailboxes: ${['deliver', 'open', 'click', 'complain', 'bounce+5.x.y', 'defer+4.x.y', 'greylist', 'slow', 'drop-after-dot'].map((name) => `<${at(name)}>`).join(' ')} The code after the plus sign may be left out.`,
      )
    },
  )

  test('to greylist is deferred at the first attempt and delivered at the second', async () => {
    const clock = new ManualClock()
    await using flow = await start({ clock })
    const sent = await flow.send({ to: at('greylist') })
    const [first] = (await flow.settled(sent)).recipients
    expect(first).toMatchObject({ status: 'queued', attempts: 1 })
    clock.advance((first?.nextAt ?? 0) - clock.now())
    const email = await eventually(async () => {
      const settled = await flow.settled(sent)
      return settled.status === 'sent' ? settled : undefined
    })
    expect(email.recipients[0]).toMatchObject({ attempts: 2 })
    expect(typesOf(flow.events(sent))).toEqual(['queued', 'deferred', 'sent', 'delivered'])
    expectBalanced(flow.service)
  })

  test('to defer is deferred at each attempt, and expires', async () => {
    const clock = new ManualClock()
    await using flow = await start({ clock, settings: { TASSIS_RETRY_EXPIRY_HOURS: '1' } })
    const sent = await flow.send({ to: at('defer+4.2.1') })
    for (let attempt = 1; ; attempt++) {
      const { status, recipients } = await eventually(async () => {
        const settled = await flow.settled(sent)
        return settled.status === 'bounced' || settled.recipients[0]?.attempts === attempt ? settled : undefined
      })
      if (status === 'bounced') break
      expect(recipients[0]).toMatchObject({ status: 'queued', smtpResponse: '451 4.2.1 Simulated deferral' })
      clock.advance((recipients[0]?.nextAt ?? 0) - clock.now())
    }
    expect(clock.now() - Date.UTC(2026, 0, 1)).toBeGreaterThanOrEqual(hours(1))
    expect(flow.events(sent).at(-1)).toMatchObject({ type: 'bounced', data: { bounce_category: 'expired' } })
    expectBalanced(flow.service)
  })

  test('to drop-after-dot is uncertain; the retry of its dead letter goes to the simulator again', async () => {
    const { recipient, events } = await flow.outcome(at('drop-after-dot'))
    expect(recipient).toMatchObject({ status: 'uncertain', attempts: 1, nextAt: null })
    expect(typesOf(events)).toEqual(['uncertain'])
    const letter = flow.app.db.query<{ id: number }, []>('SELECT id FROM dead_letters').get()
    await retryDeadLetter(flow.app, flow.actor, String(letter?.id))
    await eventually(() => flow.app.db.query('SELECT id FROM dead_letters WHERE id > ?').get(letter?.id ?? 0))
    expect(flow.dns.queries).toEqual([])
    expectBalanced(flow.service)
  })

  test('to slow is delivered once the delays of RCPT and the final dot are over', async () => {
    const clock = new ManualClock()
    await using flow = await start({ clock })
    const sent = await flow.send({ to: at('slow') })
    let advances = 0
    const isDelivered = () =>
      flow.app.db.query('SELECT 1 FROM recipients WHERE delivered_at IS NOT NULL').get() !== null
    // Each step waits for the clock; an advance while no step waits has no effect.
    await eventually(() => {
      if (isDelivered()) return true
      clock.advance(seconds(3))
      advances++
      return false
    })
    expect(advances).toBeGreaterThanOrEqual(2)
    expect(typesOf(flow.events(sent))).toEqual(['queued', 'sent', 'delivered'])
  })

  test.each([['relay'], ['capture'], ['direct']])('stays on this machine in delivery mode %s', async (mode) => {
    await using flow = await start({
      settings: {
        TASSIS_DELIVERY: mode,
        TASSIS_RELAY_URL: 'smtp://127.0.0.1:9',
        TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
        TASSIS_OUTBOUND_IPS: '192.0.2.10',
      },
    })
    const { recipient, events } = await flow.outcome(at('deliver'))
    expect(recipient.status).toBe('sent')
    expect(events[1]?.data).not.toHaveProperty('relay')
    expect(flow.service.opened.captures.find(1)).toBeUndefined()
  })

  test.each([true, false])(
    'needs no verified domain, is never captured, and cannot be combined with other mail; verified: %p',
    async (verified) => {
      await using flow = await start({ verified })
      const mixed = flow.send({ to: [at('deliver'), 'bob@receiver.test'] })
      await expect(mixed).rejects.toMatchObject({ status: 422, code: 'simulator_mixed' })
      const email = await flow.settled(await flow.send({ to: [at('deliver')], cc: [at('bounce')] }))
      expect(email.recipients.map(({ status }) => status)).toEqual(['sent', 'bounced'])
      expect(flow.service.opened.captures.find(1)).toBeUndefined()
    },
  )
})

describe('mail to the simulator and the account', () => {
  const countRows = (flow: MailFlow, sql: string) => flow.app.db.query<{ n: number }, []>(sql).get()?.n

  test('has no effect on quota, statistics, complaint rate, suppressions; all of its events are sandbox events', async () => {
    await using flow = await start()
    const { app, actor } = flow
    const account = { id: actor.accountId, plan: 'unlimited' as const }
    const left = readRemainingQuota(app.db, account as never, app.clock.now())
    for (const mailbox of ['deliver', 'click', 'complain', 'bounce', 'drop-after-dot']) {
      const sent = await flow.send({ to: at(mailbox) })
      expect(sent.sandbox).toBe(true)
      await flow.settled(sent)
    }
    expect(readRemainingQuota(app.db, account as never, app.clock.now())).toBe(left)
    const now = app.clock.now()
    expect(readComplaintRate(app.db, actor.accountId, { from: now - days(1), to: now })).toEqual({
      delivered: 0,
      complaints: 0,
      rate: null,
    })
    expect(countRows(flow, 'SELECT count(*) AS n FROM suppressions')).toBe(0)
    expect(countRows(flow, 'SELECT count(*) AS n FROM daily_figures')).toBe(0)
    expect(countRows(flow, `SELECT count(*) AS n FROM counters WHERE metric LIKE 'stream:%'`)).toBe(0)
    expectBalanced(flow.service)
  })

  test('counts in the daily limit of sandbox recipients', async () => {
    await using flow = await start()
    const { app, actor } = flow
    await app.commit.write((tx) => consumeSandboxQuota(app, tx, actor.accountId, 9_999))
    await flow.send({ to: at('deliver') })
    await expect(flow.send({ to: at('deliver') })).rejects.toMatchObject({ status: 429, code: 'sandbox_limit' })
  })
})

test('mailboxes without a code in their address do not delay mail to the others', async () => {
  await using flow = await start({ clock: new ManualClock() })
  await flow.send({ to: at('slow') })
  for (const mailbox of ['bounce', 'defer', 'greylist', 'drop-after-dot', 'nobody', 'bounce+5.1.1', 'complain']) {
    await flow.outcome(at(mailbox))
    const { recipient } = await flow.outcome(at('deliver'))
    expect(recipient).toMatchObject({ status: 'sent', attempts: 1 })
  }
})
