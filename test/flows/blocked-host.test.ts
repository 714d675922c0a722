/**
 * @module End to end: a receiver lists our IP on its block list. Checks what happens to the mail, and that no account
 * is blamed.
 */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { listSuppressions } from '#features/audience/suppressions/suppressions.ts'
import { readAbuseStats } from '#features/reporting/abuse/rates.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { hours } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { advanceUntil } from '#test/support/delivery-time.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { siteLimits } from '#test/support/providers-file.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

setDefaultTimeout(240_000)

const zone = { 'receiver.test': { A: ['127.0.0.1'] } }
const LISTED =
  "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150)."
const UNKNOWN = '550 5.1.1 No such user here'

const recipients = ({ app }: MailFlow) =>
  app.db
    .query<{ n: number; attempts: number; smtpResponse: string | null; bounceType: string | null }, []>(
      `SELECT count(*) AS n, attempts, smtp_response AS smtpResponse, bounce_type AS bounceType FROM recipients
       WHERE status <> 2 GROUP BY 2, 3, 4`,
    )
    .all()

/**
 * Sends to `count` addresses, waits for the first attempt at each, and runs the abuse check for an account on the free
 * plan.
 */
async function sendAndSettle(flow: MailFlow, count: number): Promise<boolean> {
  await Promise.all(Array.from({ length: count }, (_, number) => flow.send({ to: `bob-${number}@receiver.test` })))
  const attempted = () => recipients(flow).reduce((sum, { n, attempts }) => sum + (attempts === 1 ? n : 0), 0)
  await eventually(() => attempted() === count)
  flow.app.db.run("UPDATE accounts SET plan = 'free'")
  // The abuse check starts with every account, and `stop` waits until it has finished.
  await startAbuseWatch(flow.app).stop()
  return flow.app.db.query('SELECT 1 FROM accounts WHERE paused_at IS NOT NULL').get() !== null
}

// Proves: status-24
test('230 addresses that do not exist pause a free account', async () => {
  await using server = await startScriptedSmtp({ rcpt: UNKNOWN })
  await using flow = await startMailFlow({ zone, smtpPort: server.port })
  expect(await sendAndSettle(flow, 230)).toBe(true)
})

const ZEN =
  '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/192.0.2.1'

// Proves: status-24
test('230 refusals of our IP, at MAIL, RCPT and the final dot, pause nobody, suppress nobody and bounce nothing before expiry; each event names the rule', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  const start = clock.now()
  let transactions = 0
  await using server = await startScriptedSmtp({
    // Every third transaction is refused at MAIL; of the others, every second recipient at RCPT, the rest at the final dot.
    mail: () => (transactions++ % 3 === 1 ? LISTED : '250 ok'),
    rcpt: (line) => (/[02468]@/.test(line) ? ZEN : '250 ok'),
    body: ZEN,
  })
  await using flow = await startMailFlow({
    clock,
    zone,
    smtpPort: server.port,
    settings: siteLimits({ idle_seconds: 0 }),
  })
  const { app } = flow
  const sent = await Promise.all(
    Array.from({ length: 230 }, (_, number) => flow.send({ to: `bob-${number}@receiver.test` })),
  )
  await eventually(() => recipients(flow).some(({ attempts }) => attempts > 0))
  app.db.run("UPDATE accounts SET plan = 'free'")
  const advanceTo = (end: number) => advanceUntil(clock, flow.service, () => clock.now() >= end, hours(1))
  await advanceTo(start + hours(47))
  await startAbuseWatch(app).stop()
  expect(app.db.query('SELECT count(*) AS n FROM accounts WHERE paused_at IS NOT NULL').get()).toEqual({ n: 0 })
  expect(new Set(recipients(flow).map(({ bounceType }) => bounceType))).toEqual(new Set([null]))
  expect(readAbuseStats(app.db, flow.actor.accountId, app.eventTime()).bounced).toBe(0)
  expect(listSuppressions(app.db, flow.actor.accountId, {}, { limit: 100, offset: 0 }).suppressions).toEqual([])
  const events = sent.flatMap((each) => flow.events(each)).filter(({ type }) => type !== 'queued')
  expect(new Set(events.map(({ type }) => type))).toEqual(new Set(['deferred']))
  const rulesOf = (reply: string) =>
    new Set(events.filter(({ data }) => data.smtp_response === reply).map(({ data }) => data.rule))
  expect([rulesOf(ZEN), rulesOf(LISTED)]).toEqual([new Set(['block-list']), new Set(['microsoft-network'])])
  expectBalanced(flow.service)

  // Long after expiry all have ended softly, which counts against nobody.
  await advanceTo(start + hours(96))
  expect(new Set(recipients(flow).map(({ bounceType }) => bounceType))).toEqual(new Set(['soft']))
  const bounces = sent.flatMap((each) => flow.events(each)).filter(({ type }) => type === 'bounced')
  expect(bounces).toHaveLength(sent.length)
  // The rule is that of the refusal which last suspended the provider, so it depends on the order of the attempts.
  for (const { data } of bounces) expect(['block-list', 'microsoft-network']).toContain(String(data.rule))
  await startAbuseWatch(app).stop()
  expect(app.db.query('SELECT count(*) AS n FROM accounts WHERE paused_at IS NOT NULL').get()).toEqual({ n: 0 })
  expect(listSuppressions(app.db, flow.actor.accountId, {}, { limit: 100, offset: 0 }).suppressions).toEqual([])
  expectBalanced(flow.service)
})
