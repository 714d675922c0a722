import { describe, expect, test } from 'bun:test'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import type { SharedBody } from '#features/sending/delivery/message/compose.ts'
import { JobBuilder } from '#features/sending/delivery/message/job.ts'
import type { ConnectionLimits, DeliverJob, FromWorker, Route, ToWorker } from '#features/sending/delivery/protocol.ts'
import { prepareMessage, SigningKeys } from '#features/sending/delivery/worker/deliver.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createContentReader } from '#platform/content/read.ts'
import { randomBytes } from '#platform/ids.ts'
import { startWorker } from '#platform/process/workers.ts'
import { KiB, MiB, minutes } from '#platform/units.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import { verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { runSteps } from '#test/support/compose.ts'
import { ownHosts } from '#test/support/dns-server.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'
import { newSender, watchWorkers } from './flows.ts'

const ROUTE: Route = { site: 'site', hosts: [], port: 25, fromOutboundIps: false, tls: 'never' }
const TRACKING = { ownUrl: 'https://mail.test' }

const createFile = (bytes: number) => ({
  filename: 'a.bin',
  content_type: 'application/octet-stream',
  content: Buffer.from(randomBytes(bytes)).toString('base64'),
})

/** Composes the job of a delivery Worker for an email, recipient by recipient. */
async function startComposing(request: Partial<SendRequest>) {
  const service = await createTestApp()
  const { app, dataDir } = service
  const actor = await createTestAccount(app)
  const { domain } = await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const to = Array.from({ length: 3 }, (_, i) => `r${i}@receiver.test`)
  const draft = createDraft(app, { from: 'ada@sender.test', to, subject: 'Hello', ...request })
  await acceptEmail(app, actor, draft)
  const rows = app.db
    .query<{ recipientId: number; emailId: number; address: string }, []>(
      'SELECT id AS recipientId, email_id AS emailId, address FROM recipients',
    )
    .all()
  const jobs = new JobBuilder(app)
  const contentFolder = `${dataDir}/content`
  const content = createContentReader(contentFolder)
  const build = (recipient: number) => {
    const row = rows[recipient]
    const built = row && jobs.build(row, row.address, ROUTE)
    if (!built || 'render' in built) throw new Error('there is no such recipient')
    return built
  }
  return {
    contentFolder,
    build,
    record: formatDkimRecord(domain.dkimPublicKey),
    compose(recipient: number, shared: SharedBody) {
      const built = build(recipient)
      const keys = new SigningKeys()
      for (const key of built.keys) keys.add(key)
      return prepareMessage(built.job, shared, content, keys, TRACKING)
    },
    async [Symbol.asyncDispose]() {
      content.close()
      await service[Symbol.asyncDispose]()
    },
  }
}

const countSteps = (steps: Generator<void, unknown>): number => {
  let count = 1
  while (!steps.next().done) count++
  return count
}

describe('recipients of one email', () => {
  test('share a body that is composed and hashed once, with headers and a signature of their own', async () => {
    await using composing = await startComposing({
      html_body: '<p>Grüße</p>',
      text_body: 'Grüße',
      attachments: [createFile(MiB)],
      transactional: false,
    })
    const shared: SharedBody = {}
    const first = runSteps(composing.compose(0, shared))
    expect(countSteps(composing.compose(1, shared))).toBe(1)
    const second = runSteps(composing.compose(1, shared))
    const unsubscribeUrl = (pieces: readonly Buffer[]) =>
      /^List-Unsubscribe:\s*(<[^>]+>)/m.exec(Buffer.concat(pieces).toString())?.[1]
    expect(unsubscribeUrl(second)).toStartWith('<')
    expect(unsubscribeUrl(second)).not.toBe(unsubscribeUrl(first))
    const large = (pieces: readonly Buffer[]) => pieces.filter((piece) => piece.length > 50 * KiB)
    expect(large(first).length).toBeGreaterThan(10)
    expect(large(second).every((piece, i) => piece === large(first)[i])).toBe(true)
    for (const message of [first, second])
      expect(await verifyWithMailauth(Buffer.concat(message), composing.record)).toBe('pass')
  })

  test('get the same bytes as they would alone, at every attempt', async () => {
    for (const change of [{ tracking: true }, { tracking: false }]) {
      await using composing = await startComposing({
        html_body: '<a href="https://shop.test/">Zur Übersicht</a>',
        attachments: [createFile(200 * KiB), createFile(10)],
        ...change,
      })
      const shared: SharedBody = {}
      for (const recipient of [0, 1, 2, 1, 0]) {
        const together = Buffer.concat(runSteps(composing.compose(recipient, shared)))
        const alone = Buffer.concat(runSteps(composing.compose(recipient, {})))
        expect(together.equals(alone)).toBe(true)
        expect(await verifyWithMailauth(together, composing.record)).toBe('pass')
      }
    }
  })

  test('have their own HTML when it is tracked, and share the other parts', async () => {
    await using composing = await startComposing({
      html_body: '<a href="https://shop.test/">Shop</a>',
      attachments: [createFile(MiB)],
      tracking: true,
    })
    const shared: SharedBody = {}
    const [first, second] = [0, 1].map((recipient) => runSteps(composing.compose(recipient, shared)))
    const html = (pieces: readonly Buffer[] = []) => pieces.filter((piece) => piece.includes('/t/c/'))
    expect(html(first)).toHaveLength(1)
    expect(html(first)[0]?.equals(html(second)[0] ?? Buffer.alloc(0))).toBe(false)
    const large = (pieces: readonly Buffer[] = []) => pieces.filter((piece) => piece.length > 50 * KiB)
    expect(large(second).every((piece, i) => piece === large(first)[i])).toBe(true)
  })
})

test('a message of 2 MiB of text, 2 MiB of HTML and 5 MiB of files is composed in more than 300 steps', async () => {
  await using composing = await startComposing({
    html_body: ' \n'.repeat(MiB),
    text_body: '=ü\n'.repeat(MiB / 2),
    attachments: [createFile(5 * MiB)],
  })
  expect(countSteps(composing.compose(0, {}))).toBeGreaterThan(300)
})

// Proves: send-20
test('HTML alone gets a generated text part before it', async () => {
  await using sink = await startSink()
  await using flow = await startMailFlow({ zone: { 'receiver.test': { A: ['127.0.0.1'] } }, smtpPort: sink.port })
  await flow.settled(
    await flow.send({
      to: 'a@receiver.test',
      text_body: null,
      html_body: '<h1>Hi</h1><p>See <a href="https://example.com/x">this</a></p>',
      tracking: false,
    }),
  )
  const raw = sink.messages[0]?.raw ?? ''
  expect(raw.match(/(?<=Content-Type: )[^;]+/g)).toEqual(['multipart/alternative', 'text/plain', 'text/html'])
  expect(raw).toContain('\r\n\r\nHi\r\n\r\nSee this <https://example.com/x>\r\n')
})

/**
 * The delivery Workers that start from now on get their messages once one of these jobs is among them, and then in one
 * piece: otherwise a busy main thread could bring that job after everything else was done.
 */
const holdStartsUntil = (isAwaited: (job: DeliverJob) => boolean): Disposable =>
  watchWorkers((worker) => {
    const post = worker.postMessage.bind(worker)
    const held: ToWorker[] = []
    worker.postMessage = (message: unknown) => {
      held.push(...(JSON.parse(String(message)) as ToWorker[]))
      if (!held.some((one) => one.type === 'start' && isAwaited(one.job))) return
      worker.postMessage = post
      post(JSON.stringify(held))
    }
  })

test('large messages of one account do not delay a small one of another', async () => {
  const order: string[] = []
  await using server = await startScriptedSmtp({
    rcpt: (line) => {
      order.push(/<(\w+)/.exec(line)?.[1] ?? '')
      return '250 2.1.5 Recipient ok'
    },
  })
  using _ = holdStartsUntil(({ rcptTo }) => rcptTo === 'other@other.test')
  const domains = ['other.test', ...Array.from({ length: 6 }, (_, i) => `d${i}.test`)]
  const settings = { TASSIS_WORKERS: '1' }
  await using flow = await startMailFlow({ zone: ownHosts(...domains), smtpPort: server.port, settings })
  const other = await newSender(flow)
  const large = createFile(4 * MiB)
  const sent = await Promise.all(
    Array.from({ length: 6 }, (_, i) => flow.send({ to: `large${i}@d${i}.test`, attachments: [large] })),
  )
  await other.send('other@other.test')
  for (const email of sent) await flow.settled(email)
  await eventually(() => order.length === domains.length)
  expect(order.indexOf('other')).toBeLessThan(domains.length - 1)
})

describe('the Date field', () => {
  const START = Date.UTC(2026, 2, 15, 12, 30)
  /** Advances the clock by a minute, unless an attempt is in flight, because that would time out. */
  const step = ({ app }: MailFlow, clock: ManualClock) => {
    const inFlight = app.db.query('SELECT 1 FROM recipients WHERE status = ?').get(statusCode('processing'))
    if (!inFlight) clock.advance(minutes(1))
  }
  const fieldsOf = (raw: string) => /^(?:Date|Message-ID): .*$/gm[Symbol.match](raw)?.toSorted()

  // Proves: send-41
  test.each([
    ['an email that is sent now is the time of its acceptance', undefined, 'Sun, 15 Mar 2026 12:30:00 +0000'],
    ['a scheduled email is the time of its release', '2026-03-15T12:45:30Z', 'Sun, 15 Mar 2026 12:45:30 +0000'],
  ])('of %s, for every recipient and attempt', async (_, sendAt, date) => {
    let answered = 0
    await using server = await startScriptedSmtp({ body: () => (++answered === 1 ? '451 4.3.0 try later' : '250 ok') })
    const clock = new ManualClock(START)
    await using flow = await startMailFlow({
      zone: { 'receiver.test': { A: ['127.0.0.1'] } },
      smtpPort: server.port,
      clock,
    })
    const sent = await flow.send({
      to: ['r0@receiver.test', 'r1@receiver.test'],
      ...(sendAt !== undefined && { send_at: sendAt }),
    })
    const messages = await eventually(() => {
      step(flow, clock)
      const all = server.sessions.flatMap((session) => session.messages)
      return all.length === 3 && all
    })
    const expected = [`Date: ${date}`, `Message-ID: ${sent.message_id}`]
    expect(messages.map((each) => fieldsOf(each.toString()))).toEqual([expected, expected, expected])
  })

  test('of a scheduled email that is captured is the time of its release, too', async () => {
    const clock = new ManualClock(START)
    await using flow = await startMailFlow({ verified: false, clock })
    const sent = await flow.send({ to: 'bob@x.test', send_at: '2026-03-15T12:45:30Z' })
    await eventually(() => {
      step(flow, clock)
      return flow.events(sent).some(({ type }) => type === 'delivered')
    })
    const { id } = flow.app.db.query<{ id: number }, []>('SELECT id FROM emails').get() ?? { id: 0 }
    const captured = await flow.service.opened.captures.find(id)
    expect(fieldsOf(captured?.raw ?? '')?.[0]).toBe('Date: Sun, 15 Mar 2026 12:45:30 +0000')
  })
})

test('a limit that falls to 0 while a message is composed holds for this message', async () => {
  await using composing = await startComposing({ text_body: 'Hello', attachments: [createFile(2 * MiB)] })
  const { job, keys } = composing.build(0)
  const limits: ConnectionLimits = {
    key: 'site',
    connections: 5,
    bulkConnections: 4,
    messagesPerConnection: 10,
    maxAgeMs: minutes(5),
    idleMs: 1000,
  }
  const settings = {
    contentFolder: composing.contentFolder,
    ehloName: 'mail.test',
    outboundSources: [],
    tracking: TRACKING,
  }
  const worker = startWorker('delivery')
  const { promise, resolve } = Promise.withResolvers<FromWorker[]>()
  worker.onmessage = ({ data }: MessageEvent<string>) => resolve(JSON.parse(data))
  const messages: ToWorker[] = [
    { type: 'settings', settings },
    ...keys.map((key) => ({ type: 'key', ...key }) as const),
    { type: 'start', job, owner: 1, laneClass: 'normal', limits },
    { type: 'limits', limits: { ...limits, connections: 0, bulkConnections: 0 } },
  ]
  worker.postMessage(JSON.stringify(messages))
  expect(await promise).toMatchObject([{ type: 'outcome', result: { kind: 'dropped' } }])
  worker.terminate()
})
