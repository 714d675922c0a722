/** @module Submission when something is exhausted, fails, waits or ends: replies, limits of time, stopping. */
import { describe, expect, test } from 'bun:test'
import { LISTENER_LIMITS, type Login, type SubmittedMessage } from '#features/receiving/inbound/listener/protocol.ts'
import { InboundServer } from '#features/receiving/inbound/listener/server.ts'
import type { Rejection } from '#features/receiving/received/message.ts'
import { pauseAccount } from '#features/reporting/abuse/pause.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { createListenerSettings } from '#test/support/listener-settings.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'
import { createMessage, encodePlain, sendMessage, startSubmissionFixture } from './fixture.ts'

describe('a message gets the sentence of the API', () => {
  test('when the disk is full, and later a 250', async () => {
    let isLow = true
    await using service = await startSubmissionFixture({ disk: createTestDisk(() => isLow) })
    await using client = await service.connectLoggedIn()
    const full = await sendMessage(client, createMessage())
    isLow = false
    expect([full, await sendMessage(client, createMessage())]).toEqual([
      '452 4.3.1 The server has no disk space left; nothing was accepted. Try again later.',
      expect.stringMatching(/^250 2\.0\.0 Ok: queued as /),
    ])
  })

  test('when the rate, the quota or the account stops it', async () => {
    await using service = await startSubmissionFixture({
      settings: { TASSIS_SEND_RATE_PER_SECOND: '1', TASSIS_SEND_BURST: '1', TASSIS_PLANS: 'free.monthly_quota=1' },
    })
    const actor = await createTestAccount(service.app, 'free')
    await service.addDomain(actor, 'plan.test')
    await using client = await service.connectLoggedIn(await service.newKey([], actor))
    const send = () => sendMessage(client, createMessage().replace('ada@sender.test', 'ada@plan.test'))
    const replies = [await send(), await send()]
    service.clock.advance(1000)
    replies.push(await send())
    await service.app.commit.write((tx) => {
      pauseAccount(service.app, tx, actor, { source: 'admin', reason: 'Review' })
    })
    service.clock.advance(1000)
    replies.push(await send())
    expect(replies.map((reply) => reply.slice(0, 60))).toEqual([
      expect.stringMatching(/^250 2\.0\.0 Ok: queued as /),
      '451 4.7.1 More than 1 send requests per second; wait, or sen',
      expect.stringMatching(/^452 4\.2\.2 .*quota/),
      expect.stringMatching(/^550 5\.7\.1 /),
    ])
  })

  test('when too many large messages are in progress', async () => {
    await using service = await startSubmissionFixture()
    const { limitBytes } = service.app.memory
    const reservation = service.app.memory.reserve(limitBytes)
    await using client = await service.connectLoggedIn()
    const busy = await sendMessage(client, createMessage())
    reservation?.release()
    expect([busy.slice(0, 9), (await sendMessage(client, createMessage())).slice(0, 9)]).toEqual([
      '451 4.3.2',
      '250 2.0.0',
    ])
    expect(service.app.memory.inUseBytes).toBe(0)
  })
})

describe('a client that loses its connection and sends the message again', () => {
  test('before the end of the message has sent nothing', async () => {
    await using service = await startSubmissionFixture()
    const before = service.stored()
    const client = await service.connectLoggedIn()
    for (const line of ['MAIL FROM:<ada@sender.test>', 'RCPT TO:<bob@receiver.test>', 'DATA']) await client.say(line)
    await client.write(createMessage())
    client.destroy()
    await using other = await service.connectLoggedIn()
    expect([await other.say('NOOP'), service.stored()]).toEqual(['250 2.0.0 OK', before])
  })

  test('after its end has sent one email if the message has a key', async () => {
    await using service = await startSubmissionFixture()
    const message = createMessage(['X-Tassis-Idempotency-Key: order-1'])
    const client = await service.connectLoggedIn()
    for (const line of ['MAIL FROM:<ada@sender.test>', 'RCPT TO:<bob@receiver.test>', 'DATA']) await client.say(line)
    await client.write(`${message}.\r\n`)
    client.destroy()
    await eventually(() => service.stored()['emails'] === 1)
    await using other = await service.connectLoggedIn()
    expect(await sendMessage(other, message)).toMatch(/^250 2\.0\.0 Ok: queued as \S+ \(of the first message with/)
    expect(service.stored()['emails']).toBe(1)
  })
})

test('stopping ends idle sessions and a message that does not end with a 421', async () => {
  const service = await startSubmissionFixture()
  const [idle, arriving] = [await service.connectLoggedIn(), await service.connectLoggedIn()]
  for (const line of ['MAIL FROM:<ada@sender.test>', 'RCPT TO:<bob@receiver.test>', 'DATA']) await arriving.say(line)
  await arriving.write('Subject: never')
  const before = service.stored()
  const stopped = service.submission?.stop()
  expect(await idle.closed()).toBe('421 4.3.2 Service shutting down\r\n')
  // The grace period is that of the service's clock.
  service.clock.advance(5000)
  expect(await arriving.closed()).toBe('421 4.3.2 Service shutting down\r\n')
  await stopped
  expect(service.stored()).toEqual(before)
  await service[Symbol.asyncDispose]()
})

/** The server of the Worker in this process, with a clock of its own; every login is that of account 1. */
async function startServer(maxConnections: number, submit: (message: SubmittedMessage) => Promise<Rejection>) {
  const { settings, remove } = await createListenerSettings({
    isSubmission: true,
    maxConnections,
    maxConnectionsPerNetwork: maxConnections,
    maxMessagesPerMinute: 1,
  })
  const clock = new ManualClock()
  const server = new InboundServer({
    settings,
    clock,
    decide: () => Promise.reject(new Error('not asked')),
    receive: () => Promise.reject(new Error('not asked')),
    submission: { logIn: async (): Promise<Login> => ({ accountId: 1 }), submit },
    onWarning: () => undefined,
    onDebug: () => undefined,
  })
  const [{ port } = { port: 0 }] = await server.listen()
  const open = (localAddress: string): Promise<RawSmtp> => connectSmtp(port, '127.0.0.1', { localAddress })
  const connect = async (localAddress = '127.0.0.1'): Promise<RawSmtp> => {
    const client = await open(localAddress)
    await client.reply()
    await client.say('EHLO client.test')
    return client
  }
  return {
    clock,
    /** A connection on which nothing was read or written. */
    open,
    connect,
    async connectLoggedIn(localAddress?: string) {
      const client = await connect(localAddress)
      await client.startTls()
      await client.say('EHLO client.test')
      return { client, reply: await client.say(`AUTH PLAIN ${encodePlain('a', 'b')}`) }
    },
    async [Symbol.asyncDispose]() {
      server.stop()
      await server.drain()
      remove()
    },
  }
}

const accept = async (): Promise<Rejection> => ({ code: 250, text: '2.0.0 Ok' })

describe('limits of time and number', () => {
  test('a client that has logged in may be idle for five minutes, any other for one', async () => {
    await using server = await startServer(10, accept)
    await using stranger = await server.connect()
    const { client } = await server.connectLoggedIn()
    const ended = stranger.closed()
    server.clock.advance(LISTENER_LIMITS.idleMs + LISTENER_LIMITS.sweepMs)
    expect(await ended).toBe('421 4.4.2 Idle timeout\r\n')
    const replies = [await client.say('NOOP')]
    const endedLater = client.closed()
    server.clock.advance(LISTENER_LIMITS.loggedInIdleMs)
    replies.push(await endedLater)
    expect(replies).toEqual(['250 2.0.0 OK', '421 4.4.2 Idle timeout\r\n'])
  })

  test('one account has at most half of the connections', async () => {
    await using server = await startServer(6, accept)
    const sessions = [await server.connectLoggedIn(), await server.connectLoggedIn(), await server.connectLoggedIn()]
    const fourth = await server.connectLoggedIn()
    await sessions[0]?.client.say('QUIT')
    await sessions[0]?.client.closed()
    const fifth = await server.connectLoggedIn()
    expect([...sessions, fourth, fifth].map(({ reply }) => reply.slice(0, 9))).toEqual([
      ...Array(3).fill('235 2.7.0'),
      '421 4.7.0',
      '235 2.7.0',
    ])
    for (const { client } of [...sessions, fifth]) client.destroy()
  })

  test('a thousand idle strangers take the place neither of a client that has logged in nor of the next one', async () => {
    await using server = await startServer(500, accept)
    const { client } = await server.connectLoggedIn()
    const strangers: RawSmtp[] = []
    for (let i = 0; i < 1000; i++) strangers.push(await server.open(`127.0.3.${1 + (i % 250)}`))
    const other = await server.connectLoggedIn('127.0.4.1')
    expect([await client.say('NOOP'), other.reply, await sendMessage(other.client, createMessage())]).toEqual([
      '250 2.0.0 OK',
      '235 2.7.0 Authentication successful',
      '250 2.0.0 Ok',
    ])
    for (const connection of [client, other.client, ...strangers]) connection.destroy()
    // A thousand connections, one after the other, take long on a busy machine.
  }, 300_000)
})
