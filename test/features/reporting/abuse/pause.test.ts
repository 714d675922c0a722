/**
 * @module Effects of a pause and a resume: rejections, the mail to owners, bursts, broadcasts, the operator's
 * commands.
 */
import { describe, expect, test } from 'bun:test'
import type { Actor, App } from '#features/core/app/app.ts'
import { count } from '#features/core/events/record.ts'
import { PAUSE_NOTICE, pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { startAbuseWatch } from '#features/reporting/abuse/watch.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import { hours, seconds } from '#platform/units.ts'
import { createDataFolder, runTassis } from '#test/app/process.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { addContacts, createContacts, getOperation, newList } from '#test/support/broadcasts.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'

const REASON = 'The operator looks at it.'
const pause = (app: App, actor: Actor) =>
  app.commit.write((tx) => pauseAccount(app, tx, actor, { source: 'admin', reason: REASON }))
const resume = (app: App, actor: Actor) => app.commit.write((tx) => resumeAccount(app, tx, actor))

test('an account whose pause cannot be stored delays no other', async () => {
  await using service = await createEmailApi({
    settings: { TASSIS_PLANS: 'unlimited.abuse_watch=true' },
  })
  const { app, actor, clock } = service
  const accounts = [actor, await service.newAccount(), await service.newAccount()] as const
  const [broken, bouncing, busy] = accounts
  for (const { accountId } of [broken, bouncing])
    await app.commit.write((tx) => count(tx, accountId, toAccountMetric('bounced'), clock.now(), 200))
  const key = await service.newKey([], busy)
  for (let i = 0; i < 30; i++) await service.api('POST', '/v1/api-keys', { name: `k${i}`, scopes: [] }, { key })
  app.db.run(`CREATE TRIGGER broken BEFORE INSERT ON abuse_findings WHEN NEW.account_id = ${broken.accountId}
      BEGIN SELECT RAISE(FAIL, 'no'); END`)
  const watch = startAbuseWatch(app)
  const sources = () =>
    app.db.query<{ source: string | null }, []>('SELECT pause_source AS source FROM accounts ORDER BY id').all()
  const [no, rates, burst] = [{ source: null }, { source: 'reputation' }, { source: 'registration_burst' }]
  await eventually(() => Bun.deepEquals(sources(), [no, rates, burst]))
  app.db.run('DROP TRIGGER broken')
  await eventually(() => {
    clock.advance(seconds(1))
    return Bun.deepEquals(sources(), [rates, rates, burst])
  })
  await watch.stop()
})

// Proves: auth-17
test('while an account is paused, every way to send is a 403 with the reason; a known idempotency key gets its stored response', async () => {
  await using service = await createEmailApi()
  const { app, api, actor } = service
  const keyed = { headers: { 'idempotency-key': 'k-1' } }
  const first = await service.accepted({}, keyed)
  const list = await newList(service, 'News')
  await pause(app, actor)
  const refused = await service.send()
  expectError(refused, 403, 'account_paused')
  expect(at(refused.body, 'message')).toBe(`The account is paused: ${REASON} Contact the operator of the service.`)
  const broadcast = { from_address: EMAIL.from, subject: 'Hi', text_body: 'Hi', contact_list_id: list }
  expectError(await api('POST', '/v1/emails/batch', { emails: [EMAIL] }), 403, 'account_paused')
  expectError(await api('POST', '/v1/emails/broadcast', broadcast), 403, 'account_paused')
  expect((await service.accepted({}, keyed)).id).toBe(first.id)
  // Everything else still works.
  expect((await api('GET', '/v1/emails')).status).toBe(200)
  expect((await api('POST', '/v1/domains', { domain: 'other.test' })).status).toBe(201)
  await resume(app, actor)
  expect((await service.send()).status).toBe(202)
  expect(at((await api('GET', '/v1/account')).body, 'data')).not.toHaveProperty('paused')
})

test('a pause writes one event, one finding and one audit log entry; a second one writes nothing', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  expect([await pause(app, actor), await pause(app, actor)]).toEqual([true, false])
  expect([await resume(app, actor), await resume(app, actor)]).toEqual([true, false])
  expect(app.db.query('SELECT type, data FROM events').all()).toEqual([
    { type: 16, data: JSON.stringify({ source: 'admin', reason: REASON }) },
  ])
  expect(app.db.query('SELECT source, reason, paused FROM abuse_findings').all()).toEqual([
    { source: 'admin', reason: REASON, paused: 1 },
  ])
  expect(app.db.query("SELECT action FROM audit_logs WHERE action LIKE 'account._%ed' ORDER BY id").all()).toEqual([
    { action: 'account.created' },
    { action: 'account.paused' },
    { action: 'account.resumed' },
  ])
})

test('owners of the account and of its parent are mailed why it is paused, unless it is resumed before that', async () => {
  await using service = await createEmailApi()
  const { app, actor } = service
  const parent = await service.newAccount()
  app.db.run("UPDATE accounts SET email = 'parent@tassis.test' WHERE id = ?", [parent.accountId])
  app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, actor.accountId])
  const sendDue = createNoticeSender(app, PAUSE_NOTICE)
  await pause(app, actor)
  await resume(app, actor)
  await sendDue()
  expect(listServiceMail(app)).toEqual([])
  await pause(app, actor)
  await sendDue()
  const [mail, ...others] = listServiceMail(app)
  expect([mail, ...others].map((sent) => [sent?.to, sent?.subject])).toEqual([
    ['owner@tassis.test', 'Sending is paused on your account'],
    ['parent@tassis.test', 'Sending is paused on your account'],
  ])
  expect(mail?.text).toContain(`Reason: ${REASON}\n\nUntil sending is resumed, new emails are rejected`)
})

test('a broadcast stops while its account is paused, and continues when it is resumed', async () => {
  await using service = await createEmailApi({ runsTasks: true, delivers: true })
  const { app, api, actor, clock } = service
  const list = await newList(service, 'News')
  await addContacts(app, list, createContacts(20))
  const send_at = new Date(clock.now() + hours(1)).toISOString()
  const body = { from_address: EMAIL.from, subject: 'Hi', text_body: 'Hi', contact_list_id: list, send_at }
  const operation = String(at((await api('POST', '/v1/emails/broadcast', body)).body, 'data', 'operation_id'))
  await pause(app, actor)
  clock.advance(hours(1))
  await eventually(async () => {
    clock.advance(seconds(1))
    return JSON.stringify(await getOperation(service, operation)).includes(REASON)
  })
  expect(app.db.query('SELECT 1 FROM emails WHERE broadcast_id IS NOT NULL').all()).toEqual([])
  await resume(app, actor)
  await eventually(() => {
    clock.advance(seconds(1))
    return app.db.query('SELECT 1 FROM emails WHERE broadcast_id IS NOT NULL').all().length === 20
  })
})

describe('bursts', () => {
  const SETTINGS = { TASSIS_PLANS: 'unlimited.abuse_watch=true' }
  const source = ({ app }: EmailApi) =>
    app.db.query<{ source: string }, []>('SELECT pause_source AS source FROM accounts WHERE id = 1').get()?.source
  const looked = async (service: EmailApi): Promise<void> => {
    // Two rounds: anything present when the first began is checked when the second ends.
    const watch = startAbuseWatch(service.app)
    await watch.stop()
  }

  // Proves: account-15
  test('of domains pause the account, even when the domains are deleted again', async () => {
    await using service = await createEmailApi({ settings: SETTINGS })
    const { api } = service
    for (let i = 0; i < 19; i++) {
      const made = await api('POST', '/v1/domains', { domain: `d${i}.test` })
      await api('DELETE', `/v1/domains/${at(made.body, 'data', 'id')}`)
    }
    await looked(service)
    expect(source(service)).toBeNull()
    await api('POST', '/v1/domains', { domain: 'last.test' })
    await looked(service)
    expect(source(service)).toBe('registration_burst')
  })

  test('of keys over more than an hour do not pause the account', async () => {
    await using service = await createEmailApi({ settings: SETTINGS })
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 20; i++) await service.api('POST', '/v1/api-keys', { name: `k${i}`, scopes: [] })
      service.clock.advance(hours(1.1))
      await looked(service)
    }
    expect(source(service)).toBeNull()
  })

  test('before a resume do not pause the account again', async () => {
    await using service = await createEmailApi({ settings: SETTINGS })
    for (let i = 0; i < 30; i++) await service.api('POST', '/v1/api-keys', { name: `k${i}`, scopes: [] })
    await looked(service)
    expect(source(service)).toBe('registration_burst')
    service.clock.advance(1000)
    await resume(service.app, service.actor)
    await looked(service)
    expect(source(service)).toBeNull()
  })

  test('by the operator do not pause the account', async () => {
    await using service = await createEmailApi({ settings: SETTINGS })
    for (let i = 0; i < 31; i++) await service.newKey()
    await looked(service)
    expect(source(service)).toBeNull()
  })
})

// Proves: account-15
test('the operator pauses, inspects and resumes an account by command', async () => {
  using data = createDataFolder()
  {
    await using service = await createTestApp({ dataDir: data.path })
    await createTestAccount(service.app)
  }
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runTassis(['accounts', ...args], data.settings)
    return { exitCode, said: `${stdout}${stderr}`.trim() }
  }
  const paused = await run('pause', 'Test', '--reason', REASON)
  expect(paused).toEqual({ exitCode: 0, said: expect.stringContaining(`The account is paused: ${REASON}`) })
  expect(await run('pause', 'Test', '--reason', REASON)).toEqual({
    exitCode: 1,
    said: 'tassis: The account Test is already paused; `tassis accounts show` shows why.',
  })
  expect((await run('show', 'Test')).said).toContain(`The account is paused: ${REASON}`)
  expect((await run('findings')).said).toContain(REASON)
  expect(JSON.parse((await run('findings', 'Test', '--json')).said)).toMatchObject({
    data: [{ account: 'Test', source: 'admin', reason: REASON, paused: true }],
    has_more: false,
  })
  expect(await run('resume', 'Test')).toMatchObject({ exitCode: 0 })
  expect(await run('resume', 'Test')).toEqual({ exitCode: 1, said: 'tassis: The account Test is not paused.' })
})
