import { expect, test } from 'bun:test'
import { listProviders } from '#features/sending/delivery/control/operator-providers.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createFolder } from '#test/support/folder.ts'
import { laneStates } from '#test/support/lanes.ts'
import type { MailFlow, MailFlowOptions } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { restartProviderFlow, startProviderFlow } from '#test/support/provider-flow.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'
import { countOpen, drain } from '../flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const LIMITS = 'connections = 5\nper_minute = 6000'

const startFlow = (options: MailFlowOptions & { clock?: ManualClock }) =>
  startProviderFlow(LIMITS, { ...options, settings: { TASSIS_RELAY_TLS: 'opportunistic', ...options.settings } })

type Running = Pick<MailFlow, 'app' | 'service'>
const urlOf = ({ port }: ScriptedSmtp): string => `smtp://127.0.0.1:${port}`
const countMessages = ({ sessions }: ScriptedSmtp): number =>
  sessions.flatMap(({ commands }) => commands).filter((line) => /^RCPT /i.test(line)).length
const sendMany = (flow: MailFlow, count: number) =>
  Promise.all(Array.from({ length: count }, (_, n) => flow.send({ to: `r${n}@one.test` })))
const reasonOf = (flow: Running): string => laneStates(flow.service)[0]?.reason ?? ''
const isIdle = (flow: Running): boolean => flow.service.delivery?.scheduler.inFlight === 0
const warmUpOf = (flow: Running) =>
  listProviders(flow.app, flow.service.delivery?.scheduler)
    .views(0, 100)
    .find(({ provider }) => provider === 'big')?.warm_up

test('a new address: what is over the budget of a provider waits for the next day, also over a restart', async () => {
  await using server = await startScriptedSmtp({})
  using folder = createFolder()
  const clock = new ManualClock(START)
  const options = { smtpPort: server.port, clock, dataDir: folder.path, settings: { TASSIS_WARM_UP: 'all' } }
  {
    await using first = await startFlow(options)
    await sendMany(first.flow, 130)
    await eventually(() => countOpen(first.flow) === 80 && isIdle(first.flow))
    expect(countMessages(server)).toBe(50)
    await eventually(() => reasonOf(first.flow).includes('big has had its 50 messages of the day'))
    expect(warmUpOf(first.flow)).toEqual({ budget: 50, used: 50, next_day_at: '2026-03-16T00:00:00.000Z' })
    expectBalanced(first.flow.service)
  }
  await using restarted = await restartProviderFlow(LIMITS, options)
  const { service } = restarted
  const second = { app: service.app, service }
  await eventually(() => reasonOf(second).includes('big has had its 50 messages'))
  clock.advance(hours(11))
  await eventually(() => isIdle(second))
  expect(countMessages(server)).toBe(50)
  clock.advance(minutes(30))
  await eventually(() => countOpen(second) === 10 && isIdle(second))
  expect(countMessages(server)).toBe(120)
  clock.advance(days(1))
  await eventually(() => countOpen(second) === 0)
  expect(countMessages(server)).toBe(130)
  expectBalanced(service)
}, 120_000)

test('what is over the budget takes the smarthost, and its events say so', async () => {
  await using server = await startScriptedSmtp({})
  await using smarthost = await startScriptedSmtp({})
  const settings = { TASSIS_OVERFLOW_URL: urlOf(smarthost) }
  await using overflow = await startFlow({ smtpPort: server.port, settings })
  const { flow } = overflow
  const sent = await sendMany(flow, 70)
  await eventually(() => countOpen(flow) === 0)
  expect([countMessages(server), countMessages(smarthost)]).toEqual([50, 20])
  const delivered = sent.flatMap((one) => flow.events(one).filter(({ type }) => type === 'delivered'))
  expect(delivered.filter(({ data }) => 'relay' in data).length).toBe(20)
  expectBalanced(flow.service)
}, 120_000)

test('a smarthost that wants TLS and a password takes the overflow, signed; one that refuses us keeps the mail waiting', async () => {
  const authority = createCertificateAuthority()
  await using server = await startScriptedSmtp({})
  let password = 'changed'
  const logins: string[] = []
  await using smarthost = await startSink({
    ...authority.issue(['localhost', '127.0.0.1']),
    disabledCommands: [],
    authOptional: false,
    onAuth({ username = '', password: given }, _session, done) {
      logins.push(username)
      if (given === password) done(null, { user: username })
      else done(new Error('Authentication failed'))
    },
  })
  using folder = createFolder({ 'ca.pem': authority.pem })
  const settings = {
    TASSIS_OVERFLOW_URL: `smtp://tassis:s%40cret@127.0.0.1:${smarthost.port}`,
    TASSIS_RELAY_TLS: 'required',
    TASSIS_EXTRA_CA_FILE: folder.pathOf('ca.pem'),
    TASSIS_WARM_UP: 'all',
  }
  await using overflow = await startFlow({ smtpPort: server.port, settings })
  const { flow, clock } = overflow
  const sent = await sendMany(flow, 60)
  // A slot is free a moment before the outcome of its attempt is stored.
  await eventually(() => countMessages(server) === 50 && logins.length > 0 && isIdle(flow) && countOpen(flow) === 10)
  expect(smarthost.messages).toEqual([])
  password = 's@cret'
  await drain(flow, clock)
  // At most the probes went to the server itself.
  expect(countMessages(server)).toBe(50)
  expect(smarthost.messages).toHaveLength(10)
  expect(smarthost.messages.every(({ secure, raw }) => secure && raw.startsWith('DKIM-Signature:'))).toBe(true)
  expect(new Set(logins)).toEqual(new Set(['tassis']))
  const delivered = sent.flatMap((one) => flow.events(one).filter(({ type }) => type === 'delivered'))
  expect(delivered.filter(({ data }) => 'relay' in data)).toHaveLength(10)
  expectBalanced(flow.service)
}, 120_000)

test('without a smarthost, only broadcasts are held to the budget unless the setting says all', async () => {
  await using server = await startScriptedSmtp({})
  await using overflow = await startFlow({ smtpPort: server.port })
  await sendMany(overflow.flow, 70)
  await eventually(() => countOpen(overflow.flow) === 0)
  expect(warmUpOf(overflow.flow)).toMatchObject({ budget: 50, used: 70 })
}, 120_000)

test('the mail of a suspended provider takes the smarthost; one probe ends the suspension', async () => {
  let isBlocked = true
  await using server = await startScriptedSmtp({
    mail: () => (isBlocked ? '421 4.7.0 Try again later' : '250 2.1.0 ok'),
  })
  await using smarthost = await startScriptedSmtp({})
  const settings = { TASSIS_OVERFLOW_URL: urlOf(smarthost), TASSIS_WARM_UP: 'off' }
  await using overflow = await startFlow({ smtpPort: server.port, settings })
  const { flow, clock } = overflow
  await sendMany(flow, 30)
  await drain(flow, clock)
  expect(countMessages(smarthost)).toBe(30)
  isBlocked = false
  clock.advance(hours(2))
  const before = countMessages(server)
  const [probe] = await sendMany(flow, 1)
  await eventually(() => countOpen(flow) === 0)
  expect(probe && flow.events(probe).some(({ data }) => 'relay' in data)).toBe(false)
  expect(countMessages(server)).toBe(before + 1)
  expectBalanced(flow.service)
}, 120_000)

test('mail waits as before when the smarthost takes none either', async () => {
  let isBlocked = true
  const mail = () => (isBlocked ? '421 4.7.0 Try again later' : '250 2.1.0 ok')
  await using server = await startScriptedSmtp({ mail })
  await using smarthost = await startScriptedSmtp({ mail })
  const settings = { TASSIS_OVERFLOW_URL: urlOf(smarthost), TASSIS_WARM_UP: 'off' }
  await using overflow = await startFlow({ smtpPort: server.port, settings })
  const { flow, clock } = overflow
  await sendMany(flow, 20)
  for (let minute = 0; minute < 30; minute++) {
    await eventually(() => isIdle(flow))
    clock.advance(minutes(1))
  }
  expect(countOpen(flow)).toBe(20)
  isBlocked = false
  await drain(flow, clock)
  expect(countMessages(server) + countMessages(smarthost)).toBe(20)
  expectBalanced(flow.service)
}, 120_000)
