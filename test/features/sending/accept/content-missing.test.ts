import { afterEach, beforeEach, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toEventCode } from '#features/core/events/record.ts'
import { type RunningDelivery, startDelivery } from '#features/sending/delivery/start.ts'
import { findContentProblem, releaseWithoutContent } from '#features/sending/delivery/verdict/held-mail.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { flipBit } from '#test/support/bit-flip.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const WHY = 'The stored content of the email is missing or damaged; it is sent once it is back.'

let service: TestApi
let clock: ManualClock
let delivery: RunningDelivery | undefined
beforeEach(async () => {
  clock = new ManualClock(Date.UTC(2026, 2, 15))
  service = await createTestApi({ clock, runsTasks: true })
  await createDomain(service.app, service.actor, 'sandbox.test')
})
afterEach(async () => {
  await delivery?.stop()
  delivery = undefined
  await service[Symbol.asyncDispose]()
})

/** Too large for a row of the content store, so it is stored in a file. */
const large = (): string => randomBytes(400_000).toString('base64')

async function send(more: Record<string, unknown>): Promise<string> {
  const request = { from: 'a@sandbox.test', to: 'b@receiver.test', subject: 'x', ...more }
  const { status, body } = await service.api('POST', '/v1/emails', request)
  expect(status).toBe(202)
  return String(at(body, 'data', 'id'))
}

/** The only file of the content store. */
function contentFile(): string {
  const folder = join(service.dataDir, 'content')
  const [month = ''] = readdirSync(folder).filter((name) => /^\d{4}-\d{2}$/.test(name))
  const [name = ''] = readdirSync(join(folder, month))
  return join(folder, month, name)
}

const detail = async (id: string) => {
  const { status, body } = await service.api('GET', `/v1/emails/${id}`)
  return { status, data: (body as { data: Record<string, unknown> }).data }
}
/** The reasons of all `deferred` events. */
const deferrals = () =>
  service.app.db
    .query<{ reason: string }, [number]>("SELECT data ->> 'reason' AS reason FROM events WHERE type = ?")
    .all(toEventCode('deferred'))
    .map(({ reason }) => reason)
const isHeld = (id: string) =>
  eventually(async () => {
    const { data } = await detail(id)
    return data['error_message'] === `Held without its content: ${WHY}` && data
  })
/** Counts the recipients on hold. */
const countHeld = () =>
  service.app.db
    .query<{ n: number }, [number]>(
      "SELECT count(*) AS n FROM recipients WHERE last_error LIKE 'Held without%' AND status = 0 AND next_at > ?",
    )
    .get(clock.now())?.n

const isCaptured = (id: string) =>
  eventually(async () => (await service.api('GET', `/v1/emails/${id}/captured`)).status === 200)

// Proves: storage-6
test('reading an email whose body or attachment is missing or corrupt is a 200 that reports this, until the content is restored', async () => {
  const file = { filename: 'a.pdf', content_type: 'application/pdf', content: large() }
  for (const [content, text] of [
    [{ text_body: 'Hello.', attachments: [file] }, 'Hello.'],
    [{ text_body: large() }, null],
  ] as const) {
    const id = await send(content)
    const path = contentFile()
    expect((await detail(id)).data).not.toHaveProperty('content')
    const missing = { status: 200, data: { content: 'missing', text_body: text, html_body: null } }
    renameSync(path, `${path}.away`)
    expect(await detail(id)).toMatchObject(missing)
    // Only the bodies are read.
    writeFileSync(path, 'junk')
    if (text === null) expect(await detail(id)).toMatchObject(missing)
    renameSync(`${path}.away`, path)
    expect((await detail(id)).data).not.toHaveProperty('content')
    rmSync(path)
  }
})

// Proves: storage-7
test('open recipients of an email without its content are held, with one event each, and sent once the content is restored and they are released', async () => {
  const id = await send({ to: ['b@receiver.test', 'c@receiver.test'], text_body: large() })
  const path = contentFile()
  renameSync(path, `${path}.away`)
  delivery = await startDelivery(service.opened)
  const held = await isHeld(id)
  await eventually(() => countHeld() === 2)
  expect([held['status'], held['content'], held['attempts']]).toEqual(['queued', 'missing', 0])
  // A release before the content is restored holds them again, without a second event.
  expect(await releaseWithoutContent(service.app)).toBe(2)
  await eventually(() => countHeld() === 2)
  renameSync(`${path}.away`, path)
  expect(await releaseWithoutContent(service.app)).toBe(2)
  await eventually(async () => (await detail(id)).data['status'] === 'sent')
  expect(deferrals()).toEqual([WHY, WHY])
  expect(service.app.db.query('SELECT count(*) AS n FROM dead_letters').get()).toEqual({ n: 0 })
})

// Proves: storage-7, storage-17
test.each([
  ['attachment in a file', 400_000],
  ['attachment in the database', 60_000],
])('an email with a flipped bit in an %s is held, not signed and sent, until it is mended', async (_, size) => {
  const content = randomBytes(size)
  const id = await send({
    text_body: 'Hello.',
    attachments: [{ filename: 'a.jpg', content_type: 'image/jpeg', content: content.toString('base64') }],
  })
  const other = await send({ text_body: 'Hello.' })
  const flip = () => flipBit(join(service.dataDir, 'content'), content.subarray(size - 1000))
  flip()
  delivery = await startDelivery(service.opened)
  await isHeld(id)
  await isCaptured(other)
  expect((await service.api('GET', `/v1/emails/${id}/captured`)).status).toBe(404)
  expect(deferrals()).toEqual([WHY])
  expect(findContentProblem(service.app.db)).toContain('`tassis check --content` names it')
  flip()
  expect(await releaseWithoutContent(service.app)).toBe(1)
  await isCaptured(id)
  expect(findContentProblem(service.app.db)).toBeUndefined()
})

test('a release frees all recipients held for missing content in a long queue, each once, and no others', async () => {
  const { db } = service.app
  for (let batch = 0; batch < 3; batch++) {
    const email = { from: 'a@sandbox.test', subject: 'x', text_body: 'Hello.' }
    const emails = Array.from({ length: 100 }, (_, i) => ({ ...email, to: `b${i}@receiver.test` }))
    expect((await service.api('POST', '/v1/emails/batch', { emails })).status).toBe(202)
  }
  // Every third recipient waits like deferred mail; the others wait as if held for missing content.
  db.run('UPDATE recipients SET next_at = ?, last_error = iif(id % 3 = 0, ?, ?)', [
    clock.now() + hours(1),
    '450 4.2.0 Later',
    `Held without its content: ${WHY}`,
  ])
  db.run("INSERT INTO meta (key, value) VALUES ('held_without_content', '1')")
  expect(await releaseWithoutContent(service.app)).toBe(200)
  expect(db.query('SELECT count(*) AS n FROM recipients WHERE next_at > ?').get(clock.now())).toEqual({ n: 100 })
  expect(await releaseWithoutContent(service.app)).toBe(0)
})

// Proves: storage-7
test('held recipients are sent after a restart', async () => {
  const id = await send({ text_body: large() })
  const path = contentFile()
  renameSync(path, `${path}.away`)
  delivery = await startDelivery(service.opened)
  await isHeld(id)
  await delivery.stop()
  renameSync(`${path}.away`, path)
  delivery = await startDelivery(service.opened)
  await isCaptured(id)
})

// Proves: storage-7
test('the content is checked again automatically after an hour', async () => {
  const id = await send({ text_body: large() })
  const path = contentFile()
  renameSync(path, `${path}.away`)
  delivery = await startDelivery(service.opened)
  await isHeld(id)
  renameSync(`${path}.away`, path)
  let passedMs = 0
  await eventually(async () => {
    clock.advance(60_000)
    passedMs += 60_000
    return (await service.api('GET', `/v1/emails/${id}/captured`)).status === 200
  })
  expect(passedMs).toBeGreaterThanOrEqual(hours(1))
})

test('recipients of a broadcast without its content are held and released too', async () => {
  const list = await newList(service, 'News')
  await addContacts(service.app, list, [{ email: 'ann@receiver.test' }])
  const { status } = await service.api('POST', '/v1/emails/broadcast', {
    contact_list_id: list,
    from_address: 'a@sandbox.test',
    subject: 'News',
    text_body: large(),
  })
  expect(status).toBe(202)
  const email = await eventually(
    () =>
      service.app.db
        .query<{ uuid: Uint8Array }, []>(
          'SELECT uuid FROM emails JOIN recipients ON email_id = emails.id WHERE lane IS NOT NULL',
        )
        .get() ?? undefined,
  )
  const id = formatUuid(email.uuid)
  const path = contentFile()
  renameSync(path, `${path}.away`)
  delivery = await startDelivery(service.opened)
  expect(await isHeld(id)).toMatchObject({ status: 'queued', content: 'missing', text_body: null })
  renameSync(`${path}.away`, path)
  expect(await releaseWithoutContent(service.app)).toBe(1)
  await isCaptured(id)
})

test('a corrupt captured message is a 410', async () => {
  const id = await send({ text_body: 'Hello.' })
  delivery = await startDelivery(service.opened)
  await isCaptured(id)
  service.opened.captures.db.run("UPDATE captures SET raw = x'0001'")
  expectError(await service.api('GET', `/v1/emails/${id}/captured`), 410, 'content_missing')
})
