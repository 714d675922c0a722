import type { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createLog } from '#platform/log/log.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
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
    /** Advances the clock by one second at a time until `condition` holds. */
    advanceUntil: (condition: () => boolean | Promise<boolean>) =>
      eventually(async () => {
        if (await condition()) return true
        clock.advance(1_000)
        return false
      }),
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
  const advanceUntil = (condition: () => Promise<boolean>) =>
    eventually(async () => {
      if (await condition()) return true
      clock.advance(1_000)
      return false
    })
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

const createEmail = (key: string) => ({
  from: 'ada@sender.test',
  to: 'bob@x.test',
  subject: 'Hi',
  text_body: 'Hi',
  idempotency_key: key,
})

const BATCH = { emails: [createEmail('of the batch')] }
const withKey = (key: string) => ({ headers: { 'Idempotency-Key': key } })

/** A service whose disk can be filled. */
async function createOnDisk(): Promise<{ service: TestApi; fill: () => void }> {
  let isLow = false
  const service = await createTestApi({
    disk: createTestDisk(
      () => isLow,
      () => !isLow,
    ),
  })
  await createDomain(service.app, service.actor, 'sender.test')
  return {
    service,
    fill: () => {
      isLow = true
    },
  }
}

test('on a low disk, sends and batches return 507 and store nothing; replays still work', async () => {
  const { service: opened, fill } = await createOnDisk()
  await using service = opened
  const { api, app } = service
  const first = await api('POST', '/v1/emails', createEmail('first'))
  expect(first.status).toBe(202)
  const batch = await api('POST', '/v1/emails/batch', BATCH, withKey('batch'))
  expect(batch.status).toBe(202)
  const listId = at((await api('POST', '/v1/contact-lists', { name: 'Readers' })).body, 'data', 'id')
  const news = { contact_list_id: listId, from_address: 'ada@sender.test', subject: 'News', text_body: 'Hello.' }
  const broadcast = await api('POST', '/v1/emails/broadcast', news, withKey('broadcast'))
  expect(broadcast.status).toBe(202)
  fill()
  for (const [path, body] of [
    ['/v1/emails', createEmail('second')],
    ['/v1/emails/batch', { emails: [createEmail('second'), createEmail('first')] }],
  ] as const) {
    const refused = await api('POST', path, body)
    expect({ path, status: refused.status, code: at(refused.body, 'code') }).toEqual({
      path,
      status: 507,
      code: 'insufficient_storage',
    })
  }
  expect((await api('POST', '/v1/emails', createEmail('first'))).body).toEqual({
    data: { ...(at(first.body, 'data') as object), replayed: true },
  })
  expect(await api('POST', '/v1/emails/batch', BATCH, withKey('batch'))).toMatchObject({
    status: 202,
    body: batch.body,
  })
  expect(await api('POST', '/v1/emails/broadcast', news, withKey('broadcast'))).toMatchObject({
    status: 202,
    body: broadcast.body,
  })
  expect(app.db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM emails').get()).toEqual({ n: 2 })
})

test('an invalid send on a low disk still returns its validation error', async () => {
  const { service: opened, fill } = await createOnDisk()
  await using service = opened
  fill()
  const refused = await service.api('POST', '/v1/emails', { ...createEmail('x'), from: 'ada@elsewhere.test' })
  expect({ status: refused.status, code: at(refused.body, 'code') }).toEqual({ status: 422, code: 'domain_not_found' })
})
