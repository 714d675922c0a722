/** @module What becomes of forwarded mail besides its delivery: its share of the quota, refusals, deletion, erasure. */
import { expect, test } from 'bun:test'
import { startBackground } from '#app/schedules.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { buildInboundPayload } from '#features/receiving/inbound/api/model.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { createTestUser } from '#test/support/users.ts'

type Listed = { id: string; forward_refused: boolean; subject: string }
const BEA = 'bea@person.test'
const TO = `support@${VERIFIED}`

/** A service that receives and sends nothing, with a route to Bea. */
async function startService(settings: Readonly<Record<string, string>> = {}): Promise<EmailApi> {
  const service = await createEmailApi({ receives: true, settings })
  const { app, actor, api } = service
  app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE domain = ?', [VERIFIED])
  await createTestUser(app, actor, BEA, 'support')
  const domains = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
  const route = {
    domain_id: domains.find(({ domain }) => domain === VERIFIED)?.id,
    pattern: '',
    match_type: 'catch_all',
    forward_to: [BEA],
  }
  expect((await api('POST', '/v1/inbound-routes', route)).status).toBe(201)
  return service
}

/** Receives messages with these subjects; the inbound emails, oldest first. */
async function receive(service: EmailApi, ...subjects: string[]): Promise<Listed[]> {
  await using client = await connectSmtp(service.inbound?.listener?.port ?? 0)
  await client.reply()
  await client.say('EHLO client.test')
  for (const subject of subjects) {
    for (const line of ['MAIL FROM:<ann@x.example>', `RCPT TO:<${TO}>`, 'DATA']) await client.say(line)
    expect(await client.say(`From: ann@x.example\r\nSubject: ${subject}\r\n\r\nHi.\r\n.`)).toStartWith('250')
  }
  await eventually(() => countQueueEntries(service.app.db) === 0 || service.clock.advance(50), 20_000)
  return list(service)
}

const list = async ({ api }: EmailApi, query = ''): Promise<Listed[]> =>
  (at((await api('GET', `/v1/inbound${query}`)).body, 'data') as Listed[]).toReversed()

const forwarded = async ({ api }: EmailApi, { id = '' }: Partial<Listed> = {}) =>
  at((await api('GET', `/v1/inbound/${id}`)).body, 'data', 'forwarded') as Record<string, string>[]

// Proves: inbound-47
test('forwards wait behind own mail and get half of the quota; the others are listed, and one mail says so', async () => {
  await using service = await startService()
  const { app, actor, clock } = service
  app.db.run('UPDATE accounts SET monthly_quota = 60')
  const [first, , , fourth] = await receive(service, 'a', 'b', 'c', 'd')
  expect(await forwarded(service, first)).toMatchObject([{ address: BEA, status: 'queued', reason: null }])
  expect(app.db.query<{ lane: string }, []>('SELECT lane FROM recipients').get()?.lane).toStartWith('low')
  expect(await forwarded(service, fourth)).toMatchObject([
    { status: 'refused', reason: expect.stringContaining('half of the monthly quota') },
  ])
  expect((await list(service)).map((email) => email.forward_refused)).toEqual([false, false, false, true])
  for (const query of ['?forward=refused', '?forward=refused&from=ann@x.example', '?forward=refused&status=received'])
    expect([query, (await list(service, query)).map(({ subject }) => subject)]).toEqual([query, ['d']])
  expect(await list(service, '?forward=refused&status=failed')).toEqual([])
  expect(buildInboundPayload(app, actor.accountId, fourth?.id ?? '')).toMatchObject({ forward_refused: true })
  const background = startBackground(app)
  const mails = () =>
    app.db
      .query<{ text: number; subject: string }, []>(
        "SELECT subject, text_ref AS text FROM emails WHERE subject LIKE 'Received mail%'",
      )
      .all()
  const [mail] = await eventually(() => mails().length > 0 && mails())
  expect(new TextDecoder().decode(app.content.get(mail?.text ?? 0))).toContain(`${TO}: More is forwarded than half`)
  await background.stop()
  clock.advance(days(1) + hours(1))
  expect(await forwarded(service, (await receive(service, 'e')).at(-1))).toMatchObject([{ status: 'queued' }])
})

// Proves: inbound-3
test('a deleted message is not forwarded any more, and cannot be deleted while it is', async () => {
  await using service = await startService()
  const { app, api } = service
  const [email, other] = await receive(service, 'a', 'b')
  const [target] = await forwarded(service, email)
  expect((await api('DELETE', `/v1/inbound/${email?.id}`)).status).toBe(204)
  expect(await service.detail(target?.['email_id'])).toMatchObject({ status: 'cancelled', subject: '' })
  app.db.run(`UPDATE recipients SET status = ${statusCode('processing')} WHERE status = ${statusCode('queued')}`)
  expectError(await api('DELETE', `/v1/inbound/${other?.id}`), 409, 'forward_in_flight')
  expect(await forwarded(service, other)).toMatchObject([{ status: 'processing' }])
})

// Proves: inbound-3
test('what retention deletes is still forwarded', async () => {
  await using service = await startService({ TASSIS_INBOUND_DAYS: '1' })
  const { app, clock } = service
  const [email] = await receive(service, 'a')
  const [target] = await forwarded(service, email)
  clock.advance(days(1) + hours(1))
  expect(await runRetention(app)).toMatchObject({ inbound: 1 })
  expect(await list(service)).toEqual([])
  expect(await service.detail(target?.['email_id'])).toMatchObject({ status: 'queued', subject: 'a' })
})

// Proves: privacy-2
test('the erasure of a person takes the address out of routes and of what was forwarded', async () => {
  await using service = await startService()
  const { app, api, clock } = service
  app.db.run('UPDATE accounts SET paused_at = 1')
  const [email] = await receive(service, 'a')
  app.db.run('UPDATE accounts SET paused_at = NULL')
  expect(await forwarded(service, email)).toMatchObject([{ address: BEA, status: 'refused' }])
  expect((await api('DELETE', `/v1/gdpr/erase?email=${BEA}`)).status).toBe(200)
  const background = startBackground(app)
  const texts = () =>
    JSON.stringify([
      app.db.query('SELECT forward_to FROM inbound_routes').all(),
      app.db.query('SELECT forward FROM inbound_emails').all(),
    ])
  await eventually(() => clock.advance(1000) ?? !texts().includes(BEA))
  expect(texts()).toContain('erased@erased.invalid')
  await background.stop()
})
