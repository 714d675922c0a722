import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect } from 'node:net'
import { listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { countQueueEntries, receiveMessage } from '#features/receiving/inbound/process/queue.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { FairScheduler } from '#platform/queue/fair-scheduler.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'

const MESSAGES = 12

let service: TestApi
let domainId = 0
beforeAll(async () => {
  service = await createTestApi({ receives: true, delivers: true })
  const { domain } = await createDomain(service.app, service.actor, 'inbound.test')
  service.app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  domainId = domain.id
})
afterAll(() => service[Symbol.asyncDispose]())

/** Content files of the service that this process has open, Workers included. */
function openContentFiles(): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      // Closed since then.
      return ''
    }
  })
  return targets.filter((target) => target.startsWith(service.dataDir) && target.endsWith('.zst')).length
}

const waitUntilAllClosed = () => eventually(() => openContentFiles() === 0)

/** Text that does not compress enough to fit in a row. */
const createIncompressible = (bytes: number): string =>
  randomBytes(bytes).toString('base64').replaceAll(/.{76}/g, '$&\r\n')

const createAttachmentPart = (bytes: number): string =>
  `--x\r\nContent-Type: a/b; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\n${createIncompressible(bytes)}\r\n`

const createMultipart = (...parts: readonly string[]): string =>
  `From: ada@sender.test\r\nSubject: large\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n${parts.join('')}--x--\r\n`

async function submit(text: string): Promise<void> {
  await receiveMessage(service.app, {
    mailFrom: 'ada@sender.test',
    destinations: [
      { kind: 'domain', address: 'a@inbound.test', accountId: service.actor.accountId, domainId },
      { kind: 'host', address: 'postmaster@mail.tassis.test' },
    ],
    sourceIp: '127.0.0.1',
    helo: 'mx.sender.test',
    tls: null,
    sizeBytes: text.length,
    content: { kind: 'bytes', bytes: Buffer.from(text) },
  })
}

const waitUntilProcessed = () => eventually(() => countQueueEntries(service.app.db) === 0)

const readNewestInbound = () => {
  const [email] = listInbound(service.app.db, service.actor.accountId, {}, { limit: 1, offset: 0 }).emails
  if (!email) throw new Error('nothing came in')
  return formatUuid(email.uuid)
}

/** Requests a path and disconnects once part of the response has arrived. */
const abortDownload = (path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1', () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`)
    })
    socket.on('error', reject)
    socket.on('close', () => resolve())
    socket.once('data', () => socket.destroy())
  })

describe('no content file stays open', () => {
  // Proves: inbound-27
  test.each<[what: string, message: () => string]>([
    ['that are parsed', () => createMultipart(createAttachmentPart(400_000))],
    [
      'with a signature that has to be verified',
      () =>
        `DKIM-Signature: v=1; a=rsa-sha256; c=simple/simple; d=sender.test; s=s; h=from; bh=x; b=x\r\n${createMultipart(createAttachmentPart(400_000))}`,
    ],
    [
      'that cannot be parsed',
      () => createMultipart(`\r\n${'\r'.repeat(2000)}`, createAttachmentPart(400_000), createAttachmentPart(400_000)),
    ],
    ['whose header never ends', () => `X: ${createIncompressible(2_000_000).replaceAll('\r\n', '\r\n ')}`],
  ])('after received messages above 256 KiB %s', async (_, message) => {
    for (let n = 0; n < MESSAGES; n++) await submit(message())
    await waitUntilProcessed()
    await waitUntilAllClosed()
  })

  test('after a client aborts a download, raw or of an attachment', async () => {
    await submit(createMultipart(createAttachmentPart(8_000_000)))
    await waitUntilProcessed()
    const id = readNewestInbound()
    for (const path of [`/v1/inbound/${id}/raw`, `/v1/inbound/${id}/attachments/0`])
      for (let n = 0; n < 4; n++) await abortDownload(path)
    await waitUntilAllClosed()
  })

  test('after a HEAD request for a download', async () => {
    await submit(createMultipart(createAttachmentPart(400_000)))
    await waitUntilProcessed()
    const path = `${service.url}/v1/inbound/${readNewestInbound()}/raw`
    await fetch(path, { method: 'HEAD', headers: { authorization: `Bearer ${service.key}` } })
    await waitUntilAllClosed()
  })

  test('after delivery of an email with a large attachment', async () => {
    const { domain } = await createDomain(service.app, service.actor, 'sandbox.test')
    expect(domain.domain).toBe('sandbox.test')
    const content = randomBytes(600_000).toString('base64')
    const { body, status } = await service.api('POST', '/v1/emails', {
      from: 'a@sandbox.test',
      to: 'b@receiver.test',
      subject: 'x',
      text_body: 'x',
      attachments: [{ filename: 'a.bin', content_type: 'application/pdf', content }],
    })
    expect(status).toBe(202)
    const { id } = (body as { data: { id: string } }).data
    await eventually(async () => (await service.api('GET', `/v1/emails/${id}/captured`)).status === 200)
    await waitUntilAllClosed()
  })

  test('after a scrub, an export of the account and an export of a person', async () => {
    await submit(createMultipart(createAttachmentPart(400_000)))
    await waitUntilProcessed()
    await service.app.scrubFiles()
    expect((await service.api('GET', '/v1/account/export')).status).toBe(200)
    expect((await service.api('GET', '/v1/gdpr/export?email=ada@sender.test')).status).toBe(200)
    await waitUntilAllClosed()
  })
})

test('a fair run that ends before its items are read closes their source', async () => {
  let isClosed = false
  function* items() {
    try {
      for (;;) yield 1
    } finally {
      isClosed = true
    }
  }
  const turns = new FairScheduler({ clock: service.app.clock, overload: () => new Error('too many'), maxPerOwner: 10 })
  const failing = turns.forEach('a', items(), () => {
    throw new Error('a bug')
  })
  await expect(failing).rejects.toThrow('a bug')
  expect(isClosed).toBe(true)
})
