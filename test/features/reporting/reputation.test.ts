import { expect, test } from 'bun:test'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { applyComplaint } from '#features/receiving/complaints/apply.ts'
import { findRateAlerts, readOutcomes } from '#features/reporting/reputation/report.ts'
import {
  type CountedOutcome,
  countOutcome,
  summariseReply,
} from '#features/sending/delivery/providers/daily-outcomes.ts'
import { findWarmUp } from '#features/sending/delivery/providers/limits.ts'
import { Pair } from '#features/sending/delivery/providers/pair.ts'
import { ProviderRegistry } from '#features/sending/delivery/providers/registry.ts'
import { days } from '#platform/units.ts'
import type { TestApp } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { startProviderFlow } from '#test/support/provider-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const IP = '203.0.113.5'
const BLOCK =
  '550-5.7.1 [203.0.113.5      18] Our system has detected an unusual rate of mail. a640c23a62f3a-4f1 - gsmtp'

/** Counts outcomes of attempts at Gmail from our address, in one write. */
function createCounter({ app }: Pick<TestApp, 'app'>) {
  const registry = new ProviderRegistry(app.config)
  const at = { now: app.clock.now(), monotonicMs: 0 }
  const pair = new Pair(registry.byName('gmail'), IP, () => 1, at)
  return (day: number, outcomes: readonly (readonly [number, CountedOutcome])[]) =>
    app.commit.write((tx) => {
      for (const [times, outcome] of outcomes)
        for (let n = 0; n < times; n++) countOutcome(tx, pair, outcome, app.clock.now() + days(day))
    })
}

const blockedBy = (reply: string): CountedOutcome => ({ outcome: 'refused', isBlocked: true, reply })

test('replies are stored without addresses and ids', () => {
  expect(summariseReply(BLOCK)).toBe(
    '550-5.7.1 [203.0.113.5 18] Our system has detected an unusual rate of mail. … - gsmtp',
  )
  expect(
    summariseReply(
      '550 5.1.1 <bob@x.test>: no bob@x.test; see https://x.test/a?id=77 https://x.test/bob%40x.test (2a00:1450:4025::1a)',
    ),
  ).toBe('550 5.1.1 <address> no <address> see https://x.test/a <address> (2a00:1450:4025::1a)')
})

// Proves: operator-75
test('a provider that begins to block an address is an alert with the share before and the reply', async () => {
  await using service = await createEmailApi()
  const { app } = service
  const count = createCounter(service)
  for (let day = -10; day < -1; day++)
    await count(day, [
      [999, { outcome: 'accepted' }],
      [1, blockedBy('421 4.7.0 Busy')],
    ])
  expect(findRateAlerts(app.db, app.clock.now() - days(2))).toEqual([])
  await count(-1, [
    [88, { outcome: 'accepted' }],
    [11, blockedBy(BLOCK)],
    [1, blockedBy('421 4.7.0 Busy')],
  ])
  await count(0, [[3, { outcome: 'accepted' }]])
  const { ask } = await signInAsOperator(service)
  const { body } = await ask('GET', '/v1/operator/reputation?days=4')
  expect(body).toMatchObject({
    data: {
      alerts: [
        {
          provider: 'gmail',
          source: IP,
          kind: 'blocked',
          rate: 0.12,
          rate_before: 0.001,
          message: `gmail blocked 12 % of yesterday's mail from ${IP}; before 0.1 %; reply: ${summariseReply(BLOCK)}`,
        },
      ],
      pairs: [
        { provider: 'gmail', source: IP, accepted: 2089, blocked: 14, bounce_rate: 14 / 2103, block_rate: 14 / 2103 },
      ],
      days: [
        { accepted: 3, block_rate: 0 },
        { refused: 12, blocked: 12, block_rate: 0.12 },
        { accepted: 999, blocked: 1 },
        { accepted: 999 },
      ],
      replies: [
        { kind: 'blocked', reply: summariseReply(BLOCK), count: 11 },
        { kind: 'blocked', reply: '421 4.7.0 Busy', count: 1 },
        { count: 1 },
        { count: 1 },
      ],
    },
  })
  expect((await ask('GET', '/v1/operator/reputation?days=91')).status).toBe(422)
  // Also when other addresses have more replies than are listed.
  app.db.run(`INSERT INTO provider_outcomes WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    SELECT (SELECT max(day) FROM provider_outcomes), '10.0.0.' || i, 'gmail', 'deferred', 0, '450 later', 60 FROM n`)
  const noticed = performance.now()
  expect(findRateAlerts(app.db, app.clock.now()).filter(({ source }) => source === IP)).toHaveLength(1)
  expect(findRateAlerts(app.db, app.clock.now())).toHaveLength(2001)
  expect(performance.now() - noticed).toBeLessThan(2000)
  app.db.run('DELETE FROM provider_outcomes WHERE source <> ?', [IP])
  // A day with few attempts changes nothing; one with many of today's does.
  await count(0, [[97, { outcome: 'accepted' }]])
  expect(findRateAlerts(app.db, app.clock.now())).toEqual([])
  expectBalanced(service)
})

test.each<[mail: number, complaintDay: number, rate: number | undefined]>([
  [5000, 0, undefined],
  [900, 0, 0.00333],
  [900, -1, 0.00333],
  [0, 0, undefined],
])('complaints are a rate of the mail of a week: %d messages, complaints on day %d: %p', async (mail, day, rate) => {
  await using service = await createEmailApi()
  const { db, clock } = service.app
  const count = createCounter(service)
  // Older mail is no base.
  await count(-8, [[9000, { outcome: 'accepted' }]])
  await count(-5, [[mail, { outcome: 'accepted' }]])
  db.run("INSERT INTO provider_outcomes VALUES (?, ?, 'gmail', 'complaints', 0, '', 3)", [dayOf(clock.now()) + day, IP])
  const alerts = findRateAlerts(db, clock.now())
  expect(alerts.map((alert) => alert.rate.toFixed(5))).toEqual(rate === undefined ? [] : [rate.toFixed(5)])
  for (const { message } of alerts) expect(message).toContain(`had complaints about 0.3 % of a week's mail from ${IP}`)
})

test('an outcome whose transaction is refused counts nothing', async () => {
  await using service = await createEmailApi()
  const { app } = service
  const pair = new Pair(new ProviderRegistry(app.config).byName('gmail'), IP, () => 1, { now: 0, monotonicMs: 0 })
  const refused = app.commit.write((tx) => {
    countOutcome(tx, pair, { outcome: 'accepted' }, app.clock.now())
    throw new Error('refused')
  })
  expect(await refused.catch(({ message }) => message)).toBe('refused')
  await createCounter(service)(0, [[1, { outcome: 'accepted' }]])
  expect(readOutcomes(app.db, 0).pairs).toMatchObject([{ accepted: 1 }])
})

test('replies of a day are bounded and add up, and end after 90 days', async () => {
  await using service = await createEmailApi()
  const { app } = service
  const count = createCounter(service)
  const replies = Array.from({ length: 20 }, (_, n) => [n + 1, { outcome: 'deferred', reply: `4${n}` }] as const)
  for (const reply of replies) await count(0, [reply])
  await count(0, replies)
  const rows = () => app.db.query('SELECT reply, count FROM provider_outcomes ORDER BY reply').values()
  expect(rows()).toEqual([
    ['', 390],
    ['40', 2],
    ['41', 4],
    ['42', 6],
    ['43', 8],
    ['44', 10],
  ])
  app.db.run('UPDATE provider_outcomes SET day = day - 89')
  await purgeExpired(app)
  expect(rows()).toHaveLength(6)
  app.db.run('UPDATE provider_outcomes SET day = day - 1')
  await purgeExpired(app)
  expect(rows()).toEqual([])
})

test('a delivered message and its complaint count at the provider that accepted it; a warm-up continues from them', async () => {
  await using server = await startScriptedSmtp({
    rcpt: (line) =>
      line.includes('bob')
        ? '554 5.7.1 Service unavailable; Client host [127.0.0.1] blocked using zen.spamhaus.org'
        : '250 ok',
  })
  await using provider = await startProviderFlow('connections = 1', { smtpPort: server.port })
  const { app } = provider.flow
  const { recipient } = await provider.flow.outcome('ada@one.test')
  await provider.flow.outcome('bob@one.test')
  const report = {
    feedbackType: 'abuse',
    originalRcptTo: [],
    ownLocalParts: [],
    originalListUnsubscribe: null,
  } as const
  const origin = { recipientId: recipient.id, rawRef: 1, now: app.clock.now() }
  await app.commit.write((tx) => applyComplaint(app, tx, report as never, origin as never))
  expect(readOutcomes(app.db, 0).pairs).toMatchObject([
    { provider: 'big', accepted: 1, deferred: 1, blocked: 1, complaints: 1 },
  ])
  expect(findWarmUp(app, 'big', '')).toMatchObject({ tried: 2, accepted: 1, failed: 1 })
  expectBalanced(provider.flow.service)
})
