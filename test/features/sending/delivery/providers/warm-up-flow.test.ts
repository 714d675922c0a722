import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { listProviders } from '#app/operator/providers.ts'
import type { Actor } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { addContacts, countByStatus, getOperation, newList } from '#test/support/broadcasts.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { createFolder } from '#test/support/folder.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const ZONE = {
  'one.test': { MX: [{ preference: 1, exchange: 'mx1.big.test' }] },
  'mx1.big.test': { A: ['127.0.0.1'] },
}

const PROVIDERS = { 'providers.toml': '[big]\nmx = ["big.test"]\nconnections = 5\nper_minute = 6000\n' }

const countMessages = ({ sessions }: ScriptedSmtp): number => sessions.flatMap(({ messages }) => messages).length
const countOpen = ({ app }: Pick<TestApp, 'app'>): number =>
  app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM recipients WHERE next_at IS NOT NULL').get()?.n ?? 0
/** The warm-ups of the pairs with "big", by address. */
const warmUpsOf = ({ app, delivery }: Pick<TestApp, 'app' | 'delivery'>) =>
  Object.fromEntries(
    listProviders(app, delivery)
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
      await acceptEmail(service.app, actor, createDraft(service.app, { ...mail, to }, undefined))
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
  await addContacts(
    service.app,
    list,
    Array.from({ length: 100 }, (_, n) => ({ email: `c${n}@one.test` })),
  )
  const answer = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: 'Ada <ada@sender.test>',
    subject: 'News',
    text_body: 'Hello.',
  })
  const operation = String(at(answer.body, 'data', 'operation_id'))
  await eventually(async () => countByStatus(await getOperation(service, operation))['sent'] === 40)
  const isWaiting = () => service.delivery?.scheduler.states()[0]?.reason.includes('big has had its 50 messages')
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
  await eventually(() => service.delivery?.scheduler.states()[0]?.reason.includes('big has had its 70 messages'))
  // Messages in flight count in the budget, so that it is used up before the last ones are sent.
  await eventually(async () => countByStatus(await getOperation(service, operation))['sent'] === 96)
  clock.advance(days(1))
  await eventually(() => countOpen(service) === 0)
  expect(countByStatus(await getOperation(service, operation))).toEqual({ sent: 100 })
  expect(countMessages(receiver)).toBe(115)
  expectBalanced(service)
}, 120_000)
