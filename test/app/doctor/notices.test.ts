import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { createReporter } from '#app/doctor/doctor.ts'
import type { Finding } from '#app/status-routes.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestAccount, createTestApp, type TestApp } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { listServiceMail } from '#test/support/notices.ts'
import { createFinding } from './fixture.ts'

setDefaultTimeout(300_000)

let service: TestApp
let reporter: ReturnType<typeof createReporter>
const clock = new ManualClock(Date.UTC(2026, 10, 23, 9))
beforeAll(async () => {
  service = await createTestApp({ clock, settings: { TASSIS_OPERATOR_EMAIL: 'Olga@ops.test' } })
  const actor = await createTestAccount(service.app)
  await createDomain(service.app, actor, 'sender.test')
  service.app.db.run('UPDATE domains SET verified_at = 1')
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(() => {
  // Tests run in any order, so each begins with nothing known, on a day of its own.
  service.app.db.run("DELETE FROM meta WHERE key = 'doctor_notices'")
  reporter = createReporter(service.app)
  clock.advance(days(2))
  seen = listMails().length
})

let seen = 0

const listMails = () => listServiceMail(service.app)

const subjects = (): string[] =>
  listMails()
    .slice(seen)
    .map(({ subject }) => subject)

/** Runs after some time. */
function report(afterMs: number, ...findings: readonly Finding[]): Promise<boolean> {
  clock.advance(afterMs)
  return reporter(findings)
}

const bad = createFinding('outgoing_port', 'failure')
const good = createFinding('outgoing_port', 'ok')
const BAD = 'mail.tassis.test: outgoing_port failure'
const MENDED = 'mail.tassis.test: mended (1)'

test('what is bad in two runs is mailed once, with its fix, and again when it is mended', async () => {
  // False: it should soon be confirmed.
  expect(await report(0, bad)).toBe(false)
  expect(subjects()).toEqual([])
  expect(await report(minutes(5), bad)).toBe(true)
  for (let i = 0; i < 50; i++) expect(await report(hours(1), bad)).toBe(true)
  const [mail, ...others] = listMails().slice(seen)
  expect(others).toEqual([])
  expect(mail).toMatchObject({ to: 'Olga@ops.test', subject: BAD })
  expect(mail?.text).toStartWith('Failure (outgoing_port): outgoing_port is failure.\nMend it.\n\n')
  await report(hours(1), good)
  expect(subjects()).toEqual([BAD, MENDED])
  expect(listMails().at(-1)?.text).toStartWith(
    'Mended (outgoing_port). This is no longer so: outgoing_port is failure.',
  )
  await report(hours(1), good)
  expect(subjects()).toHaveLength(2)
})

test('what is bad in one run only is not mailed', async () => {
  for (const finding of [bad, good, bad, good]) await report(hours(1), finding)
  expect(subjects()).toEqual([])
})

test('a finding that comes and goes is mailed once a day, and mended once', async () => {
  for (let hour = 0; hour < 24; hour++) await report(hours(1), hour % 4 < 2 ? bad : good)
  expect(subjects()).toEqual([BAD, MENDED])
  for (let hour = 0; hour < 4; hour++) await report(hours(1), hour % 4 < 2 ? bad : good)
  expect(subjects()).toEqual([BAD, MENDED, BAD, MENDED])
})

test('a check that could not be made mends nothing', async () => {
  const one = createFinding('block_lists', 'failure', '192.0.2.1 list.test')
  await report(0, one)
  await report(hours(1), one)
  await report(hours(1), createFinding('block_lists', 'skipped'))
  await report(hours(1), createFinding('block_lists', 'skipped', '192.0.2.1 list.test'))
  expect(subjects()).toEqual(['mail.tassis.test: block_lists failure'])
  // Another thing of the same check is well, and this one is no longer mentioned.
  await report(hours(1), createFinding('block_lists', 'ok', 'list.test'))
  expect(subjects()).toHaveLength(2)
})

test('a warning that becomes a failure is mailed again, after a day at the earliest', async () => {
  const warned = createFinding('certificates', 'warning', 'SMTP')
  const failed = createFinding('certificates', 'failure', 'SMTP')
  await report(0, warned)
  await report(hours(1), warned)
  await report(hours(1), failed)
  expect(subjects()).toEqual(['mail.tassis.test: certificates warning'])
  await report(days(1), failed)
  await report(hours(1), failed)
  expect(subjects()).toEqual(['mail.tassis.test: certificates warning', 'mail.tassis.test: certificates failure'])
})

test('all that turns bad together is one mail, failures first', async () => {
  const others = ['a', 'b'].map((id) => createFinding('webhooks', 'warning', id))
  await report(0, ...others, bad)
  await report(hours(1), ...others, bad)
  expect(subjects()).toEqual(['mail.tassis.test: 3 problems'])
  expect(listMails().at(-1)?.text).toMatch(/^Failure[\s\S]*Warning[\s\S]*Warning/)
})

// The clock was a day ahead when the mail was sent, and was then set back.
test('a clock that was ahead suppresses mail for no more than a day', async () => {
  const now = clock.now()
  clock.jumpTo(now + days(1))
  await report(0, bad)
  await report(minutes(5), bad)
  clock.jumpTo(now)
  await report(hours(1), good)
  await report(hours(1), bad)
  await report(hours(1), bad)
  expect(subjects()).toEqual([BAD, MENDED])
  await report(hours(24), bad)
  expect(subjects()).toEqual([BAD, MENDED, BAD])
})

test('without a domain to send from, it is logged, stays unsent, and is mailed when there is one', async () => {
  await report(0, bad)
  service.app.db.run('UPDATE domains SET verified_at = NULL')
  try {
    expect(await report(hours(1), bad)).toBe(true)
    expect(subjects()).toEqual([])
  } finally {
    service.app.db.run('UPDATE domains SET verified_at = 1')
  }
  await report(hours(1), bad)
  expect(subjects()).toEqual([BAD])
})
