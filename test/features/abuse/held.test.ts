/** @module Mail of accounts that may not send: held with the reason, in nobody's way, and released when they may again. */
import { expect, test } from 'bun:test'
import { pauseAccount, resumeAccount } from '#features/abuse/pause.ts'
import type { Actor, App } from '#features/app.ts'
import { startReleaser } from '#features/delivery/held.ts'
import { createDomain } from '#features/domains/domains.ts'
import { acceptEmail } from '#features/emails/accept.ts'
import { draftOf } from '#features/emails/draft.ts'
import { ManualClock } from '#platform/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/books.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'

const ZONE = {
  'many.test': { MX: [{ preference: 10, exchange: 'mx.many.test' }] },
  'mx.many.test': { A: ['127.0.0.1'] },
}
const REASON = 'The operator looks at it.'

const pause = (app: App, actor: Actor) =>
  app.commit.write((tx) => pauseAccount(app, tx, actor, { source: 'admin', reason: REASON }))
const resume = (app: App, actor: Actor) => app.commit.write((tx) => resumeAccount(app, tx, actor))

interface Waiting {
  readonly status: number
  readonly attempts: number
  readonly nextAt: number | null
  readonly lastError: string | null
}

const waiting = (app: App): Waiting[] =>
  app.db
    .query<Waiting, []>(
      'SELECT status, attempts, next_at AS nextAt, last_error AS lastError FROM recipients ORDER BY id',
    )
    .all()

test('queued mail of a paused account is held with the reason, told once, and sent when it is resumed, however late', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const releaser = startReleaser(app)
  const sent = await flow.send({ to: 'bob@many.test', send_at: new Date(clock.now() + hours(1)).toISOString() })
  await pause(app, actor)
  clock.advance(hours(1))
  const held = { status: 0, attempts: 0, lastError: `Held: The account is paused: ${REASON}` }
  await eventually(() => waiting(app)[0]?.lastError !== null)
  const until = clock.now() + hours(24)
  expect(waiting(app)).toEqual([{ ...held, nextAt: until }])
  expect(flow.events(sent).slice(1)).toEqual([
    { type: 'queued', recipient: null, data: {} },
    {
      type: 'deferred',
      recipient: 'bob@many.test',
      data: { reason: `The account is paused: ${REASON}`, next_retry_at: until },
    },
  ])
  // Looked at again after a day, put off without a word, and never expired.
  for (let day = 1; day <= 5; day++) {
    clock.advance(hours(24) + minutes(1))
    await eventually(() => (waiting(app)[0]?.nextAt ?? 0) > clock.now())
  }
  expect(flow.events(sent)).toHaveLength(3)
  expect(sink.messages).toEqual([])

  await resume(app, actor)
  await eventually(() => {
    clock.advance(100)
    return sink.messages.length === 1
  })
  expect((await flow.settled(sent)).recipients.map(({ status }) => status)).toEqual(['sent'])
  await eventually(() => {
    clock.advance(1000)
    return app.db.query('SELECT 1 FROM held_accounts').all().length === 0
  })
  expectBalanced({ ...flow.service, app })
  await releaser.stop()
})

test('5,000 due recipients of a paused account hold nobody up who waits behind them in the lane', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const other = await createTestAccount(app)
  await createDomain(app, other, 'other.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const at = new Date(clock.now() + hours(1)).toISOString()
  const to = (i: number) => Array.from({ length: 50 }, (_, n) => `r${i}-${n}@many.test`)
  for (let i = 0; i < 100; i++) await flow.send({ to: to(i), send_at: at })
  await pause(app, actor)
  const mine = { from: 'eve@other.test', to: 'bob@many.test', subject: 'Hi', text_body: 'Hi', send_at: at }
  await acceptEmail(app, other, draftOf(app, mine, undefined))
  const commits = performance.now()
  clock.advance(hours(1))
  await eventually(() => sink.messages.length > 0)
  expect(performance.now() - commits).toBeLessThan(20_000)
  expect(sink.messages.map(({ rcptTo }) => rcptTo)).toEqual([['bob@many.test']])
  await eventually(() => waiting(app).filter(({ lastError }) => lastError?.startsWith('Held: ')).length === 5000)

  const releaser = startReleaser(app)
  await resume(app, actor)
  await eventually(() => {
    clock.advance(250)
    return waiting(app).every(({ lastError }) => !lastError?.startsWith('Held: '))
  })
  await releaser.stop()
})

test('what a receiver deferred before keeps its attempts while its account is paused, and may be tried as long anew', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  let isBusy = true
  await using sink = await startSink({
    onRcptTo(_, __, done) {
      done(isBusy ? Object.assign(new Error('busy'), { responseCode: 450 }) : null)
    },
  })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  await flow.send({ to: 'bob@many.test' })
  await eventually(() => waiting(app)[0]?.status === 0 && waiting(app)[0]?.attempts === 1)
  await pause(app, actor)
  clock.advance(minutes(10))
  await eventually(() => waiting(app)[0]?.lastError?.startsWith('Held: '))
  expect(waiting(app)[0]?.attempts).toBe(1)
  clock.advance(days(10))
  await eventually(() => (waiting(app)[0]?.nextAt ?? 0) > clock.now())
  isBusy = false
  const releaser = startReleaser(app)
  await resume(app, actor)
  await eventually(() => {
    clock.advance(250)
    return sink.messages.length === 1
  })
  await eventually(() => waiting(app)[0]?.status === 3)
  await releaser.stop()
})

test('a sub-account waits with its parent, and what is released is found again after a restart', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const parent = await createTestAccount(app)
  app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, actor.accountId])
  await pause(app, parent)
  await expect(flow.send({ to: 'bob@many.test' })).rejects.toThrow(REASON)
  await resume(app, parent)
  await flow.send({ to: 'bob@many.test', send_at: new Date(clock.now() + hours(1)).toISOString() })
  await pause(app, parent)
  clock.advance(hours(1))
  await eventually(() => waiting(app)[0]?.lastError?.startsWith('Held: '))
  // Nobody releases now: the process ends between.
  await resume(app, parent)
  const releaser = startReleaser(app)
  await eventually(() => sink.messages.length === 1)
  await releaser.stop()
})
