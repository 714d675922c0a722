import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { type CaptureServerOptions, type LocalServer, startCaptureServer } from '#features/sending/capture/server.ts'
import type { NewCapture } from '#features/sending/capture/store.ts'
import { createLog } from '#platform/log/log.ts'
import { systemClock } from '#platform/time/clock.ts'
import { hours, KiB } from '#platform/units.ts'
import { encodeVerp } from '#protocols/address/verp.ts'
import type { SmtpClient, TransactionResult } from '#protocols/smtp/client.ts'
import { connectSmtp } from '#protocols/smtp/connect.ts'
import { eventually } from '#test/support/app.ts'
import { createStore, incompressible } from './fixture.ts'

const VERP_KEY = new Uint8Array(32).fill(7)
const MAX_MESSAGE_BYTES = 1000 * KiB
/** Recipients 1 to 99 exist; recipient 12 belongs to email 1200. */
const findEmail = (id: number) => (id < 100 ? { emailId: id * 100, ownerId: 1 } : undefined)
const returnPath = (recipientId: number, key = VERP_KEY) =>
  `${encodeVerp({ recipientId: recipientId, tag: 0 }, key)}@bounces.sender.test`

interface RunningServer extends AsyncDisposable {
  readonly server: LocalServer
  readonly saved: NewCapture[]
}

/** A server with a store in memory, unless another is given. */
async function startServer(store?: CaptureServerOptions['store']): Promise<RunningServer> {
  const saved: NewCapture[] = []
  const recordingStore = { save: async (capture: NewCapture) => void saved.push(capture) }
  const server = await startCaptureServer({
    store: store ?? recordingStore,
    keys: { subkeys: () => [VERP_KEY] },
    findEmail,
    hostname: 'mail.tassis.test',
    maxMessageBytes: MAX_MESSAGE_BYTES,
    log: createLog('silent'),
  })
  return { server, saved, [Symbol.asyncDispose]: () => server.close() }
}

async function dial({ host, port }: LocalServer): Promise<SmtpClient> {
  const result = await connectSmtp({
    host: 'capture.invalid',
    address: host,
    port,
    ehloName: 'mail.tassis.test',
    clock: systemClock,
    tls: 'never',
    verifyCertificate: false,
  })
  if (result.kind !== 'connected') throw new Error(JSON.stringify(result))
  return result.client
}

const send = (
  client: SmtpClient,
  {
    message,
    ...given
  }: { mailFrom?: string; rcptTo?: string; message?: Uint8Array; sizeBytes?: number; smtpUtf8?: boolean } = {},
): Promise<TransactionResult> =>
  client.send({
    mailFrom: returnPath(12),
    rcptTo: 'bob@x.test',
    message: [message ?? Buffer.from('Subject: Hello\r\n\r\nHello.\r\n')],
    smtpUtf8: false,
    eightBit: false,
    beforeBody: async () => undefined,
    ...given,
  })

/** Describes a result, such as `accepted 250 OK` or `refused at rcpt 550 No`. */
const describeOutcome = (result: TransactionResult): string => {
  if (result.kind === 'refused') return `refused at ${result.phase} ${result.reply.text}`
  return result.kind === 'accepted' ? `accepted ${result.reply.text}` : result.kind
}

test('a message is stored octet for octet, with its email and envelope', async () => {
  await using fixture = createStore()
  await using running = await startServer(fixture.store)
  await using client = await dial(running.server)
  const raw = Buffer.concat([
    Buffer.from('.\r\n..\r\n...three\r\nSubject: Hello\r\n\r\n.\r\n.hidden\r\n \t\r\n'),
    Buffer.from(Array.from({ length: 256 }, (_, i) => i).filter((i) => i !== 10 && i !== 13)),
    Buffer.from(`\r\n${`${'a'.repeat(997)}\r\n.`.repeat(300)}\r\n\r\n`),
  ])
  expect(describeOutcome(await send(client, { message: raw }))).toBe('accepted 250 2.6.0 Captured')
  expect(fixture.store.get(12)).toMatchObject({
    recipientId: 12,
    emailId: 1200,
    mailFrom: returnPath(12),
    rcptTo: 'bob@x.test',
    receivedAt: fixture.clock.now(),
    sizeBytes: raw.length,
  })
  expect(Buffer.from(fixture.store.get(12)?.raw ?? []).equals(raw)).toBe(true)
})

test('internationalised addresses are stored as in the envelope', async () => {
  await using running = await startServer()
  await using client = await dial(running.server)
  const mailFrom = `${encodeVerp({ recipientId: 12, tag: 0 }, VERP_KEY)}@bounces.xn--bcher-kva.test`
  await send(client, { mailFrom, rcptTo: 'bob@xn--bcher-kva.test' })
  await send(client, { mailFrom, rcptTo: 'büro@xn--bcher-kva.test', smtpUtf8: true })
  expect(running.saved.map((c) => [c.mailFrom, c.rcptTo])).toEqual([
    [mailFrom, 'bob@xn--bcher-kva.test'],
    [mailFrom, 'büro@xn--bcher-kva.test'],
  ])
})

test('a MAIL FROM that is not a return path of the service is rejected, and the session continues', async () => {
  await using running = await startServer()
  await using client = await dial(running.server)
  const verp = encodeVerp({ recipientId: 12, tag: 0 }, VERP_KEY)
  for (const mailFrom of [
    'ada@sender.test',
    '',
    returnPath(12, new Uint8Array(32)),
    `${verp.slice(0, -1)}${verp.endsWith('a') ? 'b' : 'a'}@bounces.sender.test`,
    returnPath(100),
  ]) {
    expect(`${mailFrom}: ${describeOutcome(await send(client, { mailFrom }))}`).toBe(
      `${mailFrom}: refused at mail 550 5.7.1 Only mail from this service is accepted`,
    )
  }
  expect(describeOutcome(await send(client))).toBe('accepted 250 2.6.0 Captured')
  expect(running.saved.map((c) => c.recipientId)).toEqual([12])
})

test('a message over the limit is rejected with 552 with or without SIZE; one of exactly the limit is accepted', async () => {
  await using running = await startServer()
  const declared = await sendLines(running.server, [
    'EHLO a.test',
    `MAIL FROM:<${returnPath(12)}> SIZE=${MAX_MESSAGE_BYTES + 1}`,
    'QUIT',
  ])
  expect(declared.filter((line) => /^5/.test(line))).toEqual([expect.stringMatching(/^552 /)])
  await using client = await dial(running.server)
  const message = new Uint8Array(MAX_MESSAGE_BYTES + 2).fill(97)
  message.set([13, 10], MAX_MESSAGE_BYTES)
  expect(describeOutcome(await send(client, { message, sizeBytes: 1 }))).toBe(
    `refused at body 552 5.3.4 Message size exceeds limit of ${MAX_MESSAGE_BYTES} octets`,
  )
  expect(describeOutcome(await send(client, { message: message.subarray(2) }))).toBe('accepted 250 2.6.0 Captured')
  expect(running.saved.map((c) => c.raw.length)).toEqual([MAX_MESSAGE_BYTES])
})

test('a full disk is a 452 4.3.1, and the same session works once there is disk space', async () => {
  await using fixture = createStore({ maxAgeMs: hours(1) })
  const { store } = fixture
  await using running = await startServer(store)
  await using client = await dial(running.server)
  const message = incompressible(100 * KiB)
  store.db.run('PRAGMA max_page_count = 1')
  expect(describeOutcome(await send(client, { message }))).toBe('refused at body 452 4.3.1 Insufficient system storage')
  expect(store.list({ limit: 10 })).toEqual([])
  store.db.run('PRAGMA max_page_count = 4294967294')
  expect(describeOutcome(await send(client, { message }))).toBe('accepted 250 2.6.0 Captured')
  expect(store.list({ limit: 10 }).map((c) => c.recipientId)).toEqual([12])
})

test('any other failure of the store is a 451, so that the delivery is retried', async () => {
  await using running = await startServer({ save: () => Promise.reject(new Error('no such table')) })
  await using client = await dial(running.server)
  expect(describeOutcome(await send(client))).toBe('refused at body 451 4.3.0 Local error in processing')
})

test('the reply waits for the store', async () => {
  const stored = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  await using running = await startServer({
    save: () => {
      begun.resolve()
      return stored.promise
    },
  })
  await using client = await dial(running.server)
  let isAnswered = false
  const sent = send(client).finally(() => {
    isAnswered = true
  })
  await begun.promise
  // Another session completes in the meantime, so a reply had time to arrive.
  await using other = await dial(running.server)
  await other.quit()
  expect(isAnswered).toBe(false)
  stored.resolve()
  expect(describeOutcome(await sent)).toBe('accepted 250 2.6.0 Captured')
})

test('a session lost in the middle of a message stores nothing, and the server closes', async () => {
  const running = await startServer()
  const { host, port } = running.server
  const socket = connect({ host, port })
  let received = ''
  socket.on('data', (chunk) => {
    received += chunk.toString()
  })
  await eventually(() => received.startsWith('220 '))
  socket.write(`EHLO a.test\r\nMAIL FROM:<${returnPath(12)}>\r\nRCPT TO:<bob@x.test>\r\nDATA\r\n`)
  await eventually(() => received.includes('\r\n354 '))
  socket.write('Subject: half\r\n\r\n')
  socket.destroy()
  await using client = await dial(running.server)
  expect(describeOutcome(await send(client, { mailFrom: returnPath(13) }))).toBe('accepted 250 2.6.0 Captured')
  await client.quit()
  await running.server.close()
  expect(running.saved.map((c) => c.recipientId)).toEqual([13])
})

test('the server listens only on 127.0.0.1', async () => {
  await using running = await startServer()
  const otherAddress = connectSmtp({
    host: 'capture.invalid',
    address: '127.0.0.2',
    port: running.server.port,
    ehloName: 'a.test',
    clock: systemClock,
    tls: 'never',
    verifyCertificate: false,
  })
  expect(await otherAddress).toMatchObject({ kind: 'failed', phase: 'connect' })
})

/** Sends the lines one by one, each after the previous reply; returns the last line of each reply. */
async function sendLines({ host, port }: LocalServer, lines: readonly string[]): Promise<string[]> {
  const socket = connect({ host, port })
  const replies: string[] = []
  let pending = ''
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('data', (chunk) => {
    pending += chunk.toString()
    const ended = pending.split('\r\n')
    pending = ended.pop() ?? ''
    replies.push(...ended.filter((line) => /^\d{3} /.test(line)))
    const next = lines[replies.length - 1]
    if (next !== undefined) socket.write(`${next}\r\n`)
  })
  await closed
  return replies
}
