import type { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from '#platform/ids.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'

const randomText = (bytes: number): string => Buffer.from(randomBytes(bytes)).toString('base64')

/** Keeps a database from growing by another page. */
const fill = (db: Database): void => {
  const pages = db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  db.run(`PRAGMA max_page_count = ${pages}`)
}
const freeDisk = (db: Database): void => void db.run('PRAGMA max_page_count = 1000000')

/** The stored rows, without content blobs: a rejected send may leave unused blobs. */
const rowsOf = (emails: EmailApi) => {
  const { contentParts: _, ...rows } = emails.stored()
  return rows
}

/** Sends until a send is rejected, and returns its response; all sends before must have been accepted. */
async function sendUntilRefused(send: () => Promise<ApiResponse>): Promise<ApiResponse> {
  for (let i = 0; i < 2_000; i++) {
    const answer = await send()
    if (answer.status !== 202) return answer
  }
  throw new Error('the disk did not fill up')
}

const batchOf = (emails: EmailApi, count: number, item: () => Record<string, unknown>) =>
  emails.api('POST', '/v1/emails/batch', { emails: Array.from({ length: count }, () => ({ ...EMAIL, ...item() })) })

const createLarge = () => ({ metadata: { filler: randomText(12_000) } })
const expectFull = (answer: ApiResponse) => expectError(answer, 507, 'insufficient_storage')

describe('when the main database cannot grow', () => {
  // Proves: storage-4, error-13
  test('sends are a 507 that stores nothing, and are accepted again once there is disk space', async () => {
    await using emails = await createEmailApi()
    await emails.accepted({ idempotency_key: 'before' })
    fill(emails.app.db)
    expectFull(await sendUntilRefused(() => emails.send(createLarge())))
    const before = rowsOf(emails)
    expectFull(await emails.send({ ...createLarge(), idempotency_key: 'k' }))
    expectFull(await batchOf(emails, 20, createLarge))
    expect(rowsOf(emails)).toEqual(before)
    // Stored emails can be read and replayed in the meantime.
    expect((await emails.api('GET', '/v1/emails')).status).toBe(200)
    expect((await emails.send({ idempotency_key: 'before' })).status).toBe(202)
    freeDisk(emails.app.db)
    const { id } = await emails.accepted({ ...createLarge(), idempotency_key: 'k' })
    expect((await emails.detail(id))['idempotency_key']).toBe('k')
    expect((await batchOf(emails, 20, createLarge)).status).toBe(202)
  })

  test('of parallel sends, exactly those that returned 202 are stored', async () => {
    await using emails = await createEmailApi()
    await emails.accepted()
    fill(emails.app.db)
    const answers = await Promise.all(
      Array.from({ length: 150 }, () => emails.send({ ...createLarge(), to: ['a@r.test', 'b@r.test'] })),
    )
    const accepted = answers.filter(({ status }) => status === 202)
    for (const answer of answers) if (answer.status !== 202) expectFull(answer)
    expect(accepted.length).toBeLessThan(150)
    const stored = emails.stored()
    expect({ ...stored }).toMatchObject({
      emails: accepted.length + 1,
      recipients: 2 * accepted.length + 1,
      events: accepted.length + 1,
      recipientsUsed: 2 * accepted.length + 1,
    })
    for (const answer of accepted) expect((await emails.detail(at(answer.body, 'data', 'id')))['status']).toBe('queued')
    const total = async () => at((await emails.api('GET', '/v1/emails')).body, 'pagination', 'total')
    expect(await total()).toBe(accepted.length + 1)
    freeDisk(emails.app.db)
    await emails.accepted(createLarge())
    expect(await total()).toBe(accepted.length + 2)
  })

  test('a cancellation that cannot be stored changes nothing, and can be retried', async () => {
    await using emails = await createEmailApi()
    const { id } = await emails.accepted({ send_at: new Date(emails.clock.now() + 3_600_000).toISOString() })
    const { db } = emails.app
    db.run('CREATE TABLE ballast (data BLOB)')
    db.run(
      'CREATE TEMP TRIGGER needs_room BEFORE INSERT ON audit_logs BEGIN INSERT INTO ballast VALUES (zeroblob(100000)); END',
    )
    fill(db)
    const before = emails.stored()
    expectFull(await emails.api('POST', `/v1/emails/${id}/cancel`))
    expect(emails.stored()).toEqual(before)
    expect((await emails.detail(id))['status']).toBe('scheduled')
    freeDisk(db)
    expect((await emails.api('POST', `/v1/emails/${id}/cancel`)).status).toBe(200)
    expect(emails.used()).toBe(0)
  })
})

// Proves: storage-4
test('when the content database cannot grow, sends are a 507 that stores nothing, and are accepted again once there is disk space', async () => {
  await using emails = await createEmailApi()
  await emails.accepted()
  const createLarge = () => ({ text_body: randomText(60_000) })
  for (const db of emails.app.content.databases()) fill(db)
  expectFull(await sendUntilRefused(() => emails.send(createLarge())))
  const before = emails.stored()
  expectFull(await emails.send(createLarge()))
  expect(rowsOf(emails)).toEqual({ ...before, contentParts: undefined } as never)
  expectFull(await batchOf(emails, 5, createLarge))
  expect(emails.stored()).toEqual(before)
  for (const db of emails.app.content.databases()) freeDisk(db)
  const body = createLarge()
  const { id } = await emails.accepted(body)
  expect((await emails.detail(id))['text_body']).toBe(body.text_body)
})

const mount = (...args: string[]): boolean => Bun.which('mount') !== null && Bun.spawnSync(['mount', ...args]).success

/** Whether this process may mount a tmpfs: as root and outside of a restricted container. */
function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-mount-'))
  const mounted = mount('-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder)
  if (mounted) Bun.spawnSync(['umount', folder])
  rmSync(folder, { recursive: true, force: true })
  return mounted
}

/** Runs a service with a folder of its data directory, or all of it for '', on a small disk, which `grow` enlarges. */
async function onSmallDisk(
  sizeMiB: number,
  folder: string,
  run: (emails: EmailApi, grow: () => void, path: string) => Promise<void>,
): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-small-'))
  const path = join(dataDir, folder)
  mkdirSync(path, { recursive: true })
  if (!mount('-t', 'tmpfs', '-o', `size=${sizeMiB}m`, 'tmpfs', path)) throw new Error('cannot mount')
  const grow = () => void mount('-o', 'remount,size=256m', path)
  try {
    const emails = await createEmailApi({ dataDir })
    try {
      await run(emails, grow, path)
    } finally {
      grow()
      await emails[Symbol.asyncDispose]()
    }
  } finally {
    Bun.spawnSync(['umount', '--lazy', path])
    rmSync(dataDir, { recursive: true, force: true })
  }
}

// Skipped without permission to mount: not root, or in a container without the capability.
describe.skipIf(!canMount())('with a full disk (needs root, to mount a tmpfs)', () => {
  const attachment = (bytes: number) => ({
    attachments: [{ filename: 'a.bin', content: randomText(bytes), content_type: 'application/x-test' }],
  })

  // Proves: storage-4
  test('under the content folder, attachments stored as files are a 507 that stores nothing and leaves no partial file, and are accepted again once there is disk space', async () => {
    await onSmallDisk(4, 'content', async (emails, grow, path) => {
      const createLarge = () => attachment(700_000)
      await emails.accepted()
      expectFull(await sendUntilRefused(() => emails.send(createLarge())))
      const before = rowsOf(emails)
      for (let i = 0; i < 5; i++) expectFull(await emails.send(createLarge()))
      expect(rowsOf(emails)).toEqual(before)
      const names = readdirSync(path, { recursive: true }).map(String)
      expect(names.filter((name) => name.endsWith('.tmp'))).toEqual([])
      grow()
      const { id } = await emails.accepted(createLarge())
      expect(await emails.detail(id)).toMatchObject({ attachments: [{ size: 700_000 }] })
    })
  })

  test('under the content folder, the service can still be stopped', async () => {
    await onSmallDisk(4, 'content', async (emails) => {
      expectFull(await sendUntilRefused(() => emails.send(attachment(700_000))))
      await emails.app.content.close()
    })
  })

  // Proves: storage-4
  test('under the whole data directory, sends are a 507 that stores nothing, and are accepted again once there is disk space', async () => {
    await onSmallDisk(8, '', async (emails, grow) => {
      expectFull(await sendUntilRefused(() => emails.send(attachment(200_000))))
      expectFull(await sendUntilRefused(() => emails.send(createLarge())))
      const before = rowsOf(emails)
      expectFull(await emails.send(createLarge()))
      expectFull(await batchOf(emails, 50, createLarge))
      expect(rowsOf(emails)).toEqual(before)
      expect((await emails.api('GET', '/v1/emails')).status).toBe(200)
      grow()
      const { id } = await emails.accepted(attachment(200_000))
      expect((await emails.detail(id))['status']).toBe('queued')
    })
  })

  test("without space for the month's content database, a send is a 507, and is accepted once there is disk space", async () => {
    await onSmallDisk(1, 'content', async (emails, grow, path) => {
      await Bun.write(join(path, 'filler'), new Uint8Array(1024 * 1024 - 4096 * 2)).catch(() => 0)
      const before = emails.stored()
      expectFull(await emails.send({ text_body: randomText(9_000) }))
      expect(emails.stored()).toEqual({ ...before })
      grow()
      const { id } = await emails.accepted({ text_body: 'There is room.' })
      expect((await emails.detail(id))['text_body']).toBe('There is room.')
    })
  })
})
