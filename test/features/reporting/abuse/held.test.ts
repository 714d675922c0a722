/** @module Mail of accounts that may not send: held with a reason, without delaying others, and released later. */
import { expect, test } from 'bun:test'
import type { Actor, App } from '#features/core/app/app.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { WaitNotes } from '#features/sending/delivery/schedule/waits.ts'
import { startHeldMailReleaser } from '#features/sending/delivery/verdict/held-mail.ts'
import { createApiKey, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
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

/**
 * Waits while the clock moves on: an attempt that is still ending sets its next timer late, and with a clock that stands
 * still a timer that is due already would never fire.
 */
const whileTimePasses = (clock: ManualClock, condition: () => boolean | undefined) =>
  eventually(() => {
    if (condition()) return true
    clock.advance(250)
    return false
  })

const waiting = (app: App): Waiting[] =>
  app.db
    .query<Waiting, []>(
      'SELECT status, attempts, next_at AS nextAt, last_error AS lastError FROM recipients ORDER BY id',
    )
    .all()

test('queued mail of a paused account is held with one event, and sent when the account resumes, however late', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const releaser = startHeldMailReleaser(app)
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
  // Checked again after a day, deferred silently, and never expired.
  for (let day = 1; day <= 5; day++) {
    clock.advance(hours(24) + minutes(1))
    await whileTimePasses(clock, () => (waiting(app)[0]?.nextAt ?? 0) > clock.now())
  }
  expect(flow.events(sent)).toHaveLength(3)
  expect(sink.messages).toEqual([])

  await resume(app, actor)
  await whileTimePasses(clock, () => sink.messages.length === 1)
  expect((await flow.settled(sent)).recipients.map(({ status }) => status)).toEqual(['sent'])
  await whileTimePasses(clock, () => app.db.query('SELECT 1 FROM held_accounts').all().length === 0)
  expectBalanced({ ...flow.service, app })
  await releaser.stop()
})

test('1,000 due recipients of a paused account do not delay others behind them in the lane', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const other = await createTestAccount(app)
  await createDomain(app, other, 'other.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const at = new Date(clock.now() + hours(1)).toISOString()
  const to = (i: number) => Array.from({ length: 50 }, (_, n) => `r${i}-${n}@many.test`)
  for (let i = 0; i < 20; i++) await flow.send({ to: to(i), send_at: at })
  await pause(app, actor)
  const mine = { from: 'eve@other.test', to: 'bob@many.test', subject: 'Hi', text_body: 'Hi', send_at: at }
  await acceptEmail(app, other, createDraft(app, mine))
  clock.advance(hours(1))
  await eventually(() => sink.messages.length > 0, 60_000)
  expect(sink.messages.map(({ rcptTo }) => rcptTo)).toEqual([['bob@many.test']])
  await eventually(
    () => waiting(app).filter(({ lastError }) => lastError?.startsWith('Held: ')).length === 1000,
    60_000,
  )

  const releaser = startHeldMailReleaser(app)
  await resume(app, actor)
  await eventually(() => {
    clock.advance(250)
    return waiting(app).every(({ lastError }) => !lastError?.startsWith('Held: '))
  }, 60_000)
  await releaser.stop()
}, 200_000)

test('deferred mail keeps its attempts during a pause, and its retry period starts again afterwards', async () => {
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
  await whileTimePasses(clock, () => waiting(app)[0]?.lastError?.startsWith('Held: '))
  expect(waiting(app)[0]?.attempts).toBe(1)
  clock.advance(days(10))
  await whileTimePasses(clock, () => (waiting(app)[0]?.nextAt ?? 0) > clock.now())
  isBusy = false
  const releaser = startHeldMailReleaser(app)
  await resume(app, actor)
  await whileTimePasses(clock, () => sink.messages.length === 1)
  await eventually(() => waiting(app)[0]?.status === 3)
  await releaser.stop()
})

test('a sub-account waits with its parent, and a release continues after a restart', async () => {
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
  // No release happens: the process ends in between.
  await resume(app, parent)
  const releaser = startHeldMailReleaser(app)
  await whileTimePasses(clock, () => sink.messages.length === 1)
  await releaser.stop()
})

test('mail held during a second pause is released too, wherever the scan of its mail had stopped', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using sink = await startSink({
    onRcptTo(_, __, done) {
      done(Object.assign(new Error('busy'), { responseCode: 450 }))
    },
  })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: sink.port, clock })
  const { app, actor } = flow
  const isHeld = (index: number) => waiting(app).at(index)?.lastError?.startsWith('Held: ') === true
  // The oldest is due again in some minutes; behind it wait several batches that are due tomorrow.
  await flow.send({ to: 'early@many.test' })
  await eventually(() => waiting(app)[0]?.attempts === 1 && waiting(app)[0]?.status === 0)
  seedBehind(app, 600, clock.now() + hours(20))
  await flow.send({ to: 'late@many.test', send_at: new Date(clock.now() + minutes(1)).toISOString() })
  await pause(app, actor)
  clock.advance(minutes(1))
  await eventually(() => isHeld(-1))
  const releaser = startHeldMailReleaser(app)
  await resume(app, actor)
  const passed = async (): Promise<void> => {
    await app.commit.barrier()
    await yieldToEventLoop()
    clock.advance(250)
  }
  // The first pass ends with the email that it releases. The second pass has scanned all of the mail when it is
  // interrupted.
  await eventually(async () => {
    await passed()
    return !isHeld(-1)
  })
  for (let slice = 0; slice < 5; slice++) await passed()
  await pause(app, actor)
  // Its second attempt, after a random delay, may have begun before the pause.
  await eventually(() => waiting(app)[0]?.status === 0)
  clock.advance(minutes(10))
  await whileTimePasses(clock, () => isHeld(0))
  await resume(app, actor)
  await eventually(async () => {
    await passed()
    return !isHeld(0)
  })
  await releaser.stop()
})

test('a resumed account leaves the list of held accounts while keys of others are deleted constantly', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using flow = await startMailFlow({ zone: ZONE, clock })
  const { app, actor } = flow
  const other = await createTestAccount(app)
  await flow.send({ to: 'bob@many.test', send_at: new Date(clock.now() + hours(1)).toISOString() })
  await pause(app, actor)
  clock.advance(hours(1))
  await eventually(() => waiting(app)[0]?.lastError?.startsWith('Held: '))
  const releaser = startHeldMailReleaser(app)
  await resume(app, actor)
  await eventually(async () => {
    const { id } = await createApiKey(app, other, { name: 'short-lived' })
    await revokeApiKey(app, other, id)
    clock.advance(250)
    await yieldToEventLoop()
    await app.commit.barrier()
    return app.db.query('SELECT 1 FROM held_accounts').all().length === 0
  })
  await releaser.stop()
})

/** Inserts copies of the first email, all due at one time. */
function seedBehind({ db }: App, count: number, nextAt: number): void {
  const columns = (table: string, ...without: string[]) =>
    db
      .query<{ name: string }, []>(`PRAGMA table_info(${table})`)
      .all()
      .map(({ name }) => name)
      .filter((name) => name !== 'id' && !without.includes(name))
  const ofEmail = columns('emails', 'uuid').join()
  const ofRecipient = columns('recipients', 'email_id', 'next_at')
  db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
     INSERT INTO emails (uuid, ${ofEmail}) SELECT randomblob(16), ${ofEmail} FROM n, emails WHERE emails.id = 1`,
  )
  db.run(
    `INSERT INTO recipients (email_id, next_at, ${ofRecipient.join()})
     SELECT emails.id, ${nextAt}, ${ofRecipient.map((name) => `first.${name}`).join()} FROM emails, recipients first WHERE emails.id > 1`,
  )
}

test('while a site backs off, mail of a paused account waits for its account, and other mail for the site', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12))
  await using flow = await startMailFlow({ zone: ZONE, clock })
  const { app, actor } = flow
  const other = await createTestAccount(app)
  await createDomain(app, other, 'other.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const send_at = new Date(clock.now() + hours(1)).toISOString()
  await flow.send({ to: 'bob@many.test', send_at })
  const mine = { from: 'eve@other.test', to: 'bob@many.test', subject: 'Hi', text_body: 'Hi', send_at }
  await acceptEmail(app, other, createDraft(app, mine))
  await pause(app, actor)
  const dueAt = clock.now() + hours(1)
  const notes = new WaitNotes({ ...app, clock: new ManualClock(dueAt) })
  const why = { reason: 'The site rests.', rule: 'site-backoff', category: 'connection_failure' } as const
  const wait = { until: dueAt + minutes(15), failures: 1, ...why }
  for (const { lane } of app.db.query<{ lane: string }, []>('SELECT lane FROM recipients').all())
    await notes.record({ name: lane }, wait)
  expect(waiting(app).map(({ lastError, nextAt }) => [lastError, nextAt])).toEqual([
    [`Held: The account is paused: ${REASON}`, dueAt + hours(24)],
    ['The site rests.', dueAt],
  ])
})
