import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Actor } from '#features/core/app/app.ts'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import { inboundStatusName, listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { createParser, type ParseResult } from '#features/receiving/inbound/process/parser.ts'
import { InboundProcessor } from '#features/receiving/inbound/process/process.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { startWorker } from '#platform/process/workers.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { receiveTestMail } from '#test/support/inbound.ts'

const HOST: Destination = { kind: 'host', address: 'postmaster@mail.tassis.test' }

let service: TestApp
let actor: Actor
let tenant: Destination
let processor: InboundProcessor | undefined
beforeEach(async () => {
  service = await createTestApp()
  actor = await createTestAccount(service.app)
  const { domain } = await createDomain(service.app, actor, 'inbound.test')
  service.app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  tenant = { kind: 'domain', address: 'a@inbound.test', accountId: actor.accountId, domainId: domain.id }
})
afterEach(async () => {
  await processor?.stop(0)
  processor = undefined
  await service[Symbol.asyncDispose]()
})

const incoming = () => join(service.app.config.dataDir, 'content', 'incoming')

/** Files are removed right after a message has left the queue. */
const isClean = () => eventually(() => readdirSync(incoming()).length === 0)

function begin(parser = createParser(service.app)): void {
  processor = new InboundProcessor(service.app, parser)
  processor.start()
}

async function process(message: string | Uint8Array, destination = tenant): Promise<void> {
  if (!processor) begin()
  await receiveTestMail(service.app, [destination], message)
  await eventually(() => countQueueEntries(service.app.db) === 0)
}

const newest = () => listInbound(service.app.db, actor.accountId, {}, { limit: 1, offset: 0 }).emails[0]

const attached = (content: Uint8Array, type = 'a/b', name = 'large'): string =>
  `--x\r\nContent-Type: ${type}; name="${name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(content).toString('base64')}\r\n`

const mixed = (...parts: readonly string[]): string =>
  `Subject: large\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n${parts.join('')}--x--\r\n`

describe('large attachments', () => {
  test('are stored unchanged and in order, together with small ones, and leave no files', async () => {
    const contents = [1000, 300_000, 1, 2_000_000, 300_000].map((size) => randomBytes(size))
    await process(mixed(...contents.map((content) => attached(content))))
    const attachments = newest()?.attachments ?? []
    expect(attachments.map(({ size, ref }) => [size, service.app.content.get(ref).length])).toEqual(
      contents.map(({ length }) => [length, length]),
    )
    expect(contents.map((content, n) => content.equals(service.app.content.get(attachments[n]?.ref ?? 0)))).toEqual(
      contents.map(() => true),
    )
    await isClean()
  })

  test('in many batches keep their own references', async () => {
    const contents = Array.from({ length: 50 }, () => randomBytes(60_000))
    await process(mixed(...contents.map((content) => attached(content))))
    const attachments = newest()?.attachments ?? []
    expect(contents.map((content, n) => content.equals(service.app.content.get(attachments[n]?.ref ?? 0)))).toEqual(
      contents.map(() => true),
    )
  })

  test('of discarded or unparseable mail leave no files', async () => {
    const content = randomBytes(1_000_000)
    await process(mixed(attached(content)), HOST)
    await isClean()
    await process(mixed(attached(content), ...Array.from({ length: 1000 }, () => attached(new Uint8Array(1)))))
    expect([inboundStatusName(newest()?.status ?? 0), newest()?.errorMessage]).toEqual([
      'failed',
      'The message has more than 1000 attachments.',
    ])
    await isClean()
  })

  test('of an earlier run are removed when the first message is parsed', async () => {
    mkdirSync(incoming(), { recursive: true })
    writeFileSync(join(incoming(), '7-0.zst'), 'left')
    await process('Subject: x\r\n\r\nHello.\r\n')
    expect(existsSync(join(incoming(), '7-0.zst'))).toBe(false)
  })

  test('of a dead Worker are removed', async () => {
    let left = 0
    let parses = 0
    begin(
      createParser(service.app, {
        createWorker: () => {
          const worker = startWorker('parse')
          const post = worker.postMessage.bind(worker)
          worker.postMessage = (message: { type: string }) => {
            post(message)
            if (message.type !== 'parse' || ++parses !== 2) return
            // Does not yield, so that the file cannot be stored, however far the Worker gets.
            while (left === 0) {
              left = readdirSync(incoming()).length
              Bun.sleepSync(1)
            }
            worker.terminate()
          }
          return worker
        },
      }),
    )
    // The Worker of large messages has started when it dies.
    for (const sizeBytes of [600_000, 5_000_000]) await process(mixed(attached(randomBytes(sizeBytes))))
    expect([left, parses]).toEqual([1, 2])
    await isClean()
  })
})

test('a report of more than 256 KiB is read from its file, compressed or not', async () => {
  const padding = randomBytes(250_000).toString('hex')
  const xml = (id: number) =>
    `<feedback><report_metadata><org_name>a.test</org_name><report_id>${id}</report_id><date_range><begin>1790000000</begin><end>1790086400</end></date_range></report_metadata><policy_published><domain>inbound.test</domain></policy_published><record>${padding}</record></feedback>`
  await process(mixed(attached(Buffer.from(xml(1)), 'text/xml', 'a.test!b.test!1!2.xml')), HOST)
  await process(mixed(attached(gzipSync(xml(2)), 'application/gzip', 'a.test!b.test!1!2.xml.gz')), HOST)
  expect(
    listReports(service.app.db, undefined, { limit: 10, offset: 0 }).reports.map(({ reportId }) => reportId),
  ).toEqual(['2', '1'])
})

test('a text of more than 2 MiB is truncated, and complete as an attachment', async () => {
  const text = `${'a'.repeat(98)}\r\n`.repeat(30_000)
  await process(`Subject: x\r\n\r\n${text}`)
  const email = newest()
  expect(email?.attachments.map((each) => [each.content_type, each.filename, each.size])).toEqual([
    ['text/plain', null, 3_000_000],
  ])
  expect(Buffer.from(service.app.content.get(email?.attachments[0]?.ref ?? 0)).toString() === text).toBe(true)
  expect(service.app.content.get(email?.textRef ?? 0).length).toBe(20_971 * 99)
})

test('the parsed message is freed when it has been processed', async () => {
  const answers: WeakRef<ParseResult>[] = []
  begin({
    parse: async () => {
      const answer: ParseResult = { problem: 'None of it.', strippedText: null, authentication: UNKNOWN_AUTHENTICATION }
      answers.push(new WeakRef(answer))
      return answer
    },
    close: () => undefined,
  })
  for (let n = 0; n < 20; n++) await process('Subject: x\r\n\r\nHello.\r\n')
  const isHeld = () => {
    Bun.gc(true)
    return answers.filter((answer) => answer.deref() !== undefined).length
  }
  // The collector also scans the stack, which may still refer to the last ones.
  expect(await eventually(() => isHeld() <= 5)).toBe(true)
})
