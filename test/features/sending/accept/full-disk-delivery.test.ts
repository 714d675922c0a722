import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { createLog } from '#platform/log/log.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, EMAIL, expectError, UNVERIFIED } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** Simulates a full disk: from this call on, an update of the column needs more space than the database may use. */
function fillDisk(db: Database, column: string): void {
  db.run('CREATE TABLE IF NOT EXISTS ballast (data BLOB)')
  db.run(
    `CREATE TEMP TRIGGER needs_room BEFORE UPDATE OF ${column} ON recipients BEGIN INSERT INTO ballast VALUES (zeroblob(100000)); END`,
  )
  const pages = db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  db.run(`PRAGMA max_page_count = ${pages}`)
}

const freeDisk = (db: Database): void => void db.run('PRAGMA max_page_count = 1000000')

/** Advances the clock by one second at a time until `condition` holds. */
const advancing = (clock: ManualClock) => (condition: () => boolean | Promise<boolean>) =>
  eventually(async () => {
    if (await condition()) return true
    clock.advance(1_000)
    return false
  })

/** A service that delivers to a scripted server, with a clock that the test moves and a log that it reads. */
async function startDelivery(script: (disk: () => Database) => SmtpScript) {
  const opened: { db?: Database } = {}
  const disk = () => {
    if (!opened.db) throw new Error('the service is not open yet')
    return opened.db
  }
  const smtp = await startScriptedSmtp(script(disk))
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
  })
  const logged: string[] = []
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  const emails = await createEmailApi({
    clock,
    delivers: true,
    log: createLog('error', { write: (line) => void logged.push(line) }),
    resolver: createResolver(dns),
    settings: { TASSIS_SMTP_PORT: String(smtp.port) },
  })
  opened.db = emails.app.db
  const messages = () => smtp.sessions.flatMap((session) => session.messages)
  return {
    emails,
    clock,
    smtp,
    logged,
    messages,
    advanceUntil: advancing(clock),
    async [Symbol.asyncDispose]() {
      freeDisk(emails.app.db)
      await emails[Symbol.asyncDispose]()
      await smtp[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

const typesOf = (detail: Record<string, unknown>) =>
  (detail['events'] as { event_type: string }[]).map((event) => event.event_type)

test('an outcome that cannot be stored is retried until it can, and the mail is sent once', async () => {
  await using delivery = await startDelivery((disk) => ({
    body: () => {
      fillDisk(disk(), 'delivered_at')
      return '250 2.0.0 Queued as 1'
    },
  }))
  const { emails, logged } = delivery
  const { id } = await emails.accepted()
  const refusals = () => logged.filter((line) => line.includes('outcome not stored')).length
  await delivery.advanceUntil(() => refusals() >= 3)
  expect(await emails.detail(id)).toMatchObject({
    status: 'processing',
    recipients: [{ status: 'processing', delivered_at: null }],
  })
  freeDisk(emails.app.db)
  await delivery.advanceUntil(async () => (await emails.detail(id))['status'] === 'sent')
  const detail = await emails.detail(id)
  expect(typesOf(detail)).toEqual(['queued', 'sent', 'delivered'])
  expect(detail).toMatchObject({
    attempts: 1,
    smtp_response: '250 2.0.0 Queued as 1',
    recipients: [{ status: 'sent', delivery_started_at: expect.any(String) }],
  })
  // Later than any retry.
  delivery.clock.advance(3 * 86_400_000)
  await emails.app.commit.barrier()
  expect(delivery.messages()).toHaveLength(1)
  expect(delivery.emails.delivery?.scheduler.inFlight).toBe(0)
})

test('if the start of DATA cannot be stored, nothing is sent; once there is disk space, the mail is sent once, as a first attempt', async () => {
  let isFirst = true
  await using delivery = await startDelivery((disk) => ({
    data: () => {
      if (isFirst) fillDisk(disk(), 'delivery_started_at')
      isFirst = false
      return '354 End with a dot'
    },
  }))
  const { emails, logged } = delivery
  const { id } = await emails.accepted()
  await eventually(() => logged.some((line) => line.includes('delivery start not stored')))
  // The outcome, "not begun", cannot be stored either.
  await delivery.advanceUntil(() => logged.filter((line) => line.includes('outcome not stored')).length >= 2)
  expect(delivery.messages()).toEqual([])
  for (const { rawMessages } of delivery.smtp.sessions) expect(Buffer.concat([...rawMessages]).length).toBe(0)
  expect(await emails.detail(id)).toMatchObject({ status: 'processing', delivery_started_at: null })
  freeDisk(emails.app.db)
  await delivery.advanceUntil(async () => (await emails.detail(id))['status'] === 'sent')
  const detail = await emails.detail(id)
  expect(typesOf(detail)).toEqual(['queued', 'sent', 'delivered'])
  expect(detail).toMatchObject({ attempts: 1, recipients: [{ attempts: 1 }] })
  expect(delivery.messages()).toHaveLength(1)
})

test('a claim that cannot be stored opens no connection, and succeeds once there is disk space', async () => {
  await using delivery = await startDelivery(() => ({}))
  const { emails, logged } = delivery
  const sendAt = new Date(delivery.clock.now() + 60_000).toISOString()
  const { id } = await emails.accepted({ send_at: sendAt })
  fillDisk(emails.app.db, 'attempts')
  await delivery.advanceUntil(() => logged.filter((line) => line.includes('queue processing failed')).length >= 2)
  expect(delivery.smtp.sessions).toHaveLength(0)
  expect(await emails.detail(id)).toMatchObject({ status: 'scheduled', attempts: 0 })
  freeDisk(emails.app.db)
  await delivery.advanceUntil(async () => (await emails.detail(id))['status'] === 'sent')
  expect(typesOf(await emails.detail(id))).toEqual(['scheduled', 'queued', 'sent', 'delivered'])
  expect(delivery.messages()).toHaveLength(1)
})

test('sandbox mail does not use the disk reserve: it is deferred, and captured once there is disk space', async () => {
  let hasRoom = true
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  const disk = createTestDisk(
    () => false,
    () => hasRoom,
  )
  await using emails = await createEmailApi({ clock, delivers: true, disk })
  const advanceUntil = advancing(clock)
  const { id } = await emails.accepted({
    from: `ada@${UNVERIFIED}`,
    send_at: new Date(clock.now() + 60_000).toISOString(),
  })
  hasRoom = false
  await advanceUntil(async () => (await emails.detail(id))['smtp_response'] !== null)
  expect(await emails.detail(id)).toMatchObject({
    sandbox: true,
    smtp_response: '452 4.3.1 Insufficient system storage',
  })
  expect(emails.opened.captures.list({ limit: 10 })).toEqual([])
  hasRoom = true
  await advanceUntil(async () => (await emails.detail(id))['status'] === 'sent')
  expect(typesOf(await emails.detail(id))).toContain('delivered')
  expect(emails.opened.captures.list({ limit: 10 })).toHaveLength(1)
})

const BATCH = { emails: [{ ...EMAIL, idempotency_key: 'of the batch' }] }
const withKey = (key: string) => ({ headers: { 'Idempotency-Key': key } })

test('on a low disk, sends and batches return 507 and store nothing; replays still work, and so do validation errors', async () => {
  let isLow = false
  const disk = createTestDisk(
    () => isLow,
    () => !isLow,
  )
  await using emails = await createEmailApi({ disk })
  const { api } = emails
  const first = await emails.accepted({ idempotency_key: 'first' })
  const batch = await api('POST', '/v1/emails/batch', BATCH, withKey('batch'))
  const listId = at((await api('POST', '/v1/contact-lists', { name: 'Readers' })).body, 'data', 'id')
  const news = { contact_list_id: listId, from_address: EMAIL.from, subject: 'News', text_body: 'Hello.' }
  const broadcast = await api('POST', '/v1/emails/broadcast', news, withKey('broadcast'))
  expect([batch.status, broadcast.status]).toEqual([202, 202])
  isLow = true
  expectError(await emails.send({ idempotency_key: 'second' }), 507, 'insufficient_storage')
  const items = { emails: ['second', 'first'].map((key) => ({ ...EMAIL, idempotency_key: key })) }
  expectError(await api('POST', '/v1/emails/batch', items), 507, 'insufficient_storage')
  expectError(await emails.send({ from: 'ada@elsewhere.test' }), 422, 'domain_not_found', 'from')
  expect(await emails.accepted({ idempotency_key: 'first' })).toEqual({ ...first, replayed: true })
  const again = [
    await api('POST', '/v1/emails/batch', BATCH, withKey('batch')),
    await api('POST', '/v1/emails/broadcast', news, withKey('broadcast')),
  ]
  expect(again.map(({ status, body }) => [status, body])).toEqual([batch, broadcast].map(({ body }) => [202, body]))
  expect(emails.stored()['emails']).toBe(2)
})
