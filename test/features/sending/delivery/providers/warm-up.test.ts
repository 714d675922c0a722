import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Actor } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { listProviders } from '#features/sending/delivery/control/operator-providers.ts'
import { WarmUp } from '#features/sending/delivery/providers/limits.ts'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { addContacts, countByStatus, getOperation, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { laneStates } from '#test/support/lanes.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { countOpen } from '../flows.ts'

const START = Date.UTC(2026, 2, 15, 12, 30)
const budgetOf = (warmUp: WarmUp, now: number) => warmUp.stateAt(now).budget

/** Uses what is left of a day; every `nth` message is deferred. */
function spendDay(warmUp: WarmUp, now: number, nth = Number.POSITIVE_INFINITY): number {
  const left = warmUp.left(false, 0, now)
  for (let n = 1; n <= left; n++) warmUp.count(n % nth === 0 ? 'deferred' : 'accepted', now)
  return left
}

test('over 14 good days the budget grows by 40 % a day', () => {
  const warmUp = new WarmUp(600, START)
  const sent = Array.from({ length: 14 }, (_, day) => spendDay(warmUp, START + days(day)))
  expect(sent).toEqual([50, 70, 98, 138, 194, 272, 381, 534, 748, 1048, 1468, 2056, 2879, 4031])
})

test('it ends once the rate of the provider is the limit', () => {
  const warmUp = new WarmUp(2, START)
  expect(spendDay(warmUp, START)).toBe(50)
  expect(spendDay(warmUp, START + days(1))).toBe(70)
  expect(spendDay(warmUp, START + days(2))).toBe(98)
  expect(warmUp.left(false, 0, START + days(3))).toBe(Number.POSITIVE_INFINITY)
  expect(budgetOf(warmUp, START + days(3))).toBeNull()
  // A block later does not begin it again: suspension and rate are the answer to that.
  warmUp.recordBlock(START + days(4))
  expect(budgetOf(warmUp, START + days(4))).toBeNull()
})

test('a day with few messages, with deferrals or with a block does not raise it', () => {
  const warmUp = new WarmUp(600, START)
  for (let n = 0; n < 24; n++) warmUp.count('accepted', START)
  expect(budgetOf(warmUp, START + days(1))).toBe(50)
  spendDay(warmUp, START + days(1), 25)
  expect(budgetOf(warmUp, START + days(2))).toBe(50)
  spendDay(warmUp, START + days(2))
  warmUp.recordBlock(START + days(2))
  // Halved at once, and once a day.
  expect(budgetOf(warmUp, START + days(2))).toBe(25)
  warmUp.recordBlock(START + days(2) + hours(1))
  expect(budgetOf(warmUp, START + days(2))).toBe(25)
  expect(warmUp.left(false, 0, START + days(2))).toBeLessThan(0)
  expect(warmUp.left(false, 0, START + days(3))).toBe(25)
  for (let day = 3; day < 6; day++) warmUp.recordBlock(START + days(day))
  expect(budgetOf(warmUp, START + days(6))).toBe(20)
})

test('broadcasts leave a fifth of it to other mail, and messages in flight count', () => {
  const warmUp = new WarmUp(600, START)
  expect([warmUp.left(true, 0, START), warmUp.left(false, 0, START), warmUp.left(false, 8, START)]).toEqual([
    40, 50, 42,
  ])
})

test('a clock that is set back gives no second budget', () => {
  const midnight = Date.UTC(2026, 2, 16)
  const warmUp = new WarmUp(600, midnight - 1)
  spendDay(warmUp, midnight - 1)
  spendDay(warmUp, midnight)
  // By minutes, over midnight and back.
  expect(warmUp.left(false, 0, midnight - 1)).toBe(0)
  expect(warmUp.left(false, 0, midnight)).toBe(0)
  expect(warmUp.msUntilNextDay(midnight - 1)).toBe(days(1) + 1)
  // A clock that was a year ahead: the day goes on with what is left, and the next one is the day after.
  const behind = midnight - days(365)
  expect(warmUp.left(false, 0, behind)).toBe(0)
  expect(warmUp.left(false, 0, behind + days(1))).toBe(98)
})

test('a restart continues the day', () => {
  const warmUp = new WarmUp(600, START)
  for (let n = 0; n < 30; n++) warmUp.count('accepted', START)
  const again = new WarmUp(600, START, warmUp.stateAt(START))
  expect(again.left(false, 0, START)).toBe(20)
})

const ZONE = {
  'one.test': { MX: [{ preference: 1, exchange: 'mx1.big.test' }] },
  'mx1.big.test': { A: ['127.0.0.1'] },
}

const PROVIDERS = { 'providers.toml': '[big]\nmx = ["big.test"]\nconnections = 5\nper_minute = 6000\n' }

const countMessages = ({ sessions }: ScriptedSmtp): number => sessions.flatMap(({ messages }) => messages).length
/** The warm-ups of the pairs with "big", by address. */
const warmUpsOf = ({ app, delivery }: Pick<TestApp, 'app' | 'delivery'>) =>
  Object.fromEntries(
    listProviders(app, delivery?.scheduler)
      .views(0, 100)
      .flatMap(({ provider, source, warm_up }) => (provider === 'big' ? [[source ?? '', warm_up]] : [])),
  )

test.each([
  // The second address is new.
  ['configured', '127.0.0.2', '127.0.0.2', '127.0.0.2, 127.0.0.3', { '127.0.0.2': null, '127.0.0.3': { budget: 50 } }],
  // No test can have the address that the system chose before.
  ['chosen by the system', '', '192.0.2.10', '', { '': null }],
])(
  'an address that is %s is not new if mail had left from it before it was set',
  async (...row) => {
    const [, outboundIps, sentFrom, outboundIpsAfterwards, warmUps] = row
    await using receiver = await startScriptedSmtp({})
    await using dns = await startDnsServer(ZONE)
    using folder = createFolder(PROVIDERS)
    const dataDir = folder.pathOf('data')
    mkdirSync(dataDir)
    const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
    const settings = {
      TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'),
      TASSIS_WARM_UP: 'all',
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(receiver.port),
    }
    let actor: Actor
    {
      const before = { ...settings, TASSIS_OUTBOUND_IPS: outboundIps }
      await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock, dataDir, settings: before })
      actor = flow.actor
      expect((await flow.outcome('r@one.test')).recipient.status).toBe('sent')
      flow.app.db.run('UPDATE recipients SET sending_ip = ?', [sentFrom])
    }
    // The address is set for the first time.
    const db = new Database(join(dataDir, 'tassis.db'))
    db.run('DELETE FROM warm_ups')
    db.close()
    await using service = await createTestApp({
      clock,
      dataDir,
      delivers: true,
      settings: { ...settings, TASSIS_OUTBOUND_IPS: outboundIpsAfterwards },
    })
    const mail = { from: 'ada@sender.test', subject: 'Hello', text_body: 'Hello.' }
    for (let n = 0; n < 4; n++) {
      const to = Array.from({ length: 40 }, (_, i) => `n${n}-${i}@one.test`)
      await acceptEmail(service.app, actor, createDraft(service.app, { ...mail, to }))
    }
    await eventually(() => countOpen(service) === 0)
    expect(countMessages(receiver)).toBe(161)
    expect(warmUpsOf(service)).toMatchObject(warmUps)
    expectBalanced(service)
  },
  120_000,
)

test('a broadcast gets four fifths of the budget of a day and is continued the next day; other mail passes it', async () => {
  await using receiver = await startScriptedSmtp({})
  await using dns = await startDnsServer(ZONE)
  using folder = createFolder(PROVIDERS)
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using service = await createEmailApi({
    clock,
    delivers: true,
    runsTasks: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(receiver.port),
      TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'),
      TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
    },
  })
  const list = await newList(service, 'News')
  const contacts = Array.from({ length: 100 }, (_, n) => ({ email: `c${n}@one.test` }))
  await addContacts(service.app, list, contacts)
  const answer = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: 'Ada <ada@sender.test>',
    subject: 'News',
    text_body: 'Hello.',
  })
  const operation = String(at(answer.body, 'data', 'operation_id'))
  await eventually(async () => countByStatus(await getOperation(service, operation))['sent'] === 40)
  const isWaiting = () => laneStates(service)[0]?.reason.includes('big has had its 50 messages')
  await eventually(isWaiting)
  expect(countMessages(receiver)).toBe(40)
  // More than the fifth that is left: only broadcasts are held back.
  await service.accepted({ to: Array.from({ length: 15 }, (_, n) => `t${n}@one.test`) })
  await eventually(() => countMessages(receiver) === 55 && service.delivery?.scheduler.inFlight === 0)
  clock.advance(hours(11))
  await eventually(isWaiting)
  expect(countMessages(receiver)).toBe(55)
  // 56 of the 70 messages of the second day.
  clock.advance(hours(1))
  await eventually(() => countMessages(receiver) === 111)
  await eventually(() => laneStates(service)[0]?.reason.includes('big has had its 70 messages'))
  // Messages in flight count in the budget, so that it is used up before the last ones are sent.
  await eventually(async () => countByStatus(await getOperation(service, operation))['sent'] === 96)
  clock.advance(days(1))
  await eventually(() => countOpen(service) === 0)
  expect(countByStatus(await getOperation(service, operation))).toEqual({ sent: 100 })
  expect(countMessages(receiver)).toBe(115)
  expectBalanced(service)
}, 120_000)
