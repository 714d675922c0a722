import { describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { LISTENER_LIMITS } from '#features/receiving/inbound/listener/protocol.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { startWorker } from '#platform/process/workers.ts'
import { systemClock, yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { beginMessage, sendMessage, shareTestListener, startTestListener, startTestServer } from './listener-fixture.ts'

const fixture = shareTestListener()

const MESSAGE = 'Subject: Hello\r\n\r\nHello.\r\n'
const GREETING = '220 mx.tassis.test ESMTP'
const EVICTED = '421 4.7.0 Too many connections, slowest one closed; try again later\r\n'
const FULL = '421 4.7.0 Too many connections; try again later'
const NETWORK_FULL = '421 4.7.0 Too many connections from your address; try again later'

describe('connections', () => {
  // Proves: inbound-17
  test('of one address are limited without affecting others, and a closed one frees its slot', async () => {
    await using fixture = await startTestListener({ traffic: { maxConnectionsPerNetwork: 2 } })
    const first = await fixture.connectGreeted()
    await using second = await fixture.connectGreeted()
    await using third = await fixture.connect()
    await using other = await fixture.connect({ localAddress: '127.0.0.2' })
    const replies = [await third.reply(), await third.closed(), await other.reply(), await second.say('NOOP')]
    await first.say('QUIT')
    await first.closed()
    // The server may learn of the next connection before it learns of the end of this one.
    const next = await eventually(async () => {
      await using client = await fixture.connect()
      const reply = await client.reply()
      return reply === NETWORK_FULL ? undefined : reply
    })
    expect([...replies, next]).toEqual([NETWORK_FULL, '', GREETING, '250 2.0.0 OK', GREETING])
  })

  test('are limited in total, and sessions with mail are not evicted for others with mail', async () => {
    await using fixture = await startTestListener({ traffic: { maxConnections: 1 } })
    await using first = await fixture.connectGreeted()
    await first.say('MAIL FROM:<>')
    await using second = await fixture.connect({ localAddress: '127.0.0.2' })
    expect([await second.reply(), await first.say('NOOP')]).toEqual([FULL, '250 2.0.0 OK'])
  })

  // Proves: inbound-18
  test.each([
    ['says NOOP', []],
    ['has sent MAIL', ['MAIL FROM:<>']],
    ['sends a message slowly', ['MAIL FROM:<>', 'RCPT TO:<postmaster@tassis.test>', 'DATA', 'x\r\n']],
    ['has sent QUIT without closing', ['QUIT']],
  ])('of 28 addresses leave capacity for a 29th with a message, even if each of them %s', async (_, lines) => {
    await using fixture = await startTestListener({
      traffic: { maxConnections: 112, maxConnectionsPerNetwork: 4 },
    })
    const attackers = await Promise.all(
      Array.from({ length: 112 }, async (_, index) => {
        const client = await fixture.connectGreeted({
          localAddress: `127.0.1.${1 + (index % 28)}`,
          allowHalfOpen: true,
        })
        await client.say('NOOP')
        await client.write(lines.map((line) => `${line}\r\n`).join(''))
        for (let i = 0; i < lines.length; i++) if (lines[i] !== 'x\r\n') await client.reply()
        return client
      }),
    )
    await using honest = await fixture.connectGreeted({ localAddress: '127.0.1.29' })
    expect([await sendMessage(honest, MESSAGE), await honest.say('NOOP')]).toEqual([
      '250 2.6.0 Message accepted',
      '250 2.0.0 OK',
    ])
    for (const client of attackers) client.destroy()
  })

  // Proves: inbound-18
  test('of 28 addresses, one each, also leave capacity while they send no mail: the oldest is closed', async () => {
    await using fixture = await startTestListener({ traffic: { maxConnections: 28 } })
    const attackers = []
    for (let host = 1; host <= 28; host++)
      attackers.push(await fixture.connectGreeted({ localAddress: `127.0.1.${host}` }))
    const [oldest] = attackers
    await attackers[1]?.say('NOOP')
    await using honest = await fixture.connectGreeted({ localAddress: '127.0.1.29' })
    await using next = await fixture.connectGreeted({ localAddress: '127.0.1.30' })
    expect({
      oldest: await oldest?.closed(),
      second: await attackers[1]?.closed(),
      third: await attackers[2]?.say('NOOP'),
      honest: [await sendMessage(honest, MESSAGE), await sendMessage(next, MESSAGE)],
    }).toEqual({
      oldest: EVICTED,
      second: EVICTED,
      third: '250 2.0.0 OK',
      honest: ['250 2.6.0 Message accepted', '250 2.6.0 Message accepted'],
    })
    for (const client of attackers) client.destroy()
  })

  // Proves: inbound-18
  test('leave the last tenth of the slots to addresses without a connection', async () => {
    await using fixture = await startTestListener({ traffic: { maxConnections: 20 } })
    const greetings: string[] = []
    const clients = []
    for (let number = 0; number < 19; number++) {
      const client = await fixture.connect()
      greetings.push(await client.reply())
      clients.push(client)
    }
    await using other = await fixture.connect({ localAddress: '127.0.0.2' })
    expect([greetings.filter((reply) => reply === GREETING).length, greetings.at(-1), await other.reply()]).toEqual([
      18,
      FULL,
      GREETING,
    ])
    for (const client of clients) client.destroy()
  })

  test('free their slots however they end: TLS, a failed handshake, a reset', async () => {
    await using fixture = await startTestListener({
      traffic: { maxConnectionsPerNetwork: 1 },
      limits: { sweepMs: 10 },
    })
    /** A session, if there is a slot. */
    const enter = () =>
      eventually(async () => {
        const client = await fixture.connect()
        if ((await client.reply()) === GREETING) return client
        client.destroy()
        return undefined
      })
    const ended: string[] = []
    const secured = await enter()
    await secured.say('EHLO client.test')
    await secured.startTls()
    ended.push(await secured.say('QUIT'))
    await secured.closed()
    const cutInTls = await enter()
    await cutInTls.startTls()
    cutInTls.socket.destroy()
    const garbage = await enter()
    ended.push(await garbage.say('STARTTLS'))
    await garbage.write('This is no handshake\r\n')
    await garbage.closed()
    const goneInHandshake = await enter()
    ended.push(await goneInHandshake.say('STARTTLS'))
    goneInHandshake.destroy()
    const reset = await enter()
    reset.socket.resetAndDestroy()
    const last = await enter()
    ended.push(await last.say('NOOP'))
    last.destroy()
    expect(ended).toEqual([
      '221 2.0.0 Bye',
      '220 2.0.0 Ready to start TLS',
      '220 2.0.0 Ready to start TLS',
      '250 2.0.0 OK',
    ])
  })

  test('of a thousand concurrent clients are accepted or refused with a reason, and the next client is served', async () => {
    await using fixture = await startTestListener({
      traffic: { maxConnections: 50, maxConnectionsPerNetwork: 1_000 },
    })
    const clients = await Promise.all(Array.from({ length: 1_000 }, () => fixture.connect()))
    const replies = await Promise.all(clients.map((client) => client.reply()))
    const count = (text: string) => replies.filter((reply) => reply === text).length
    const told = { greeted: count(GREETING), refused: count(FULL), cut: count('') }
    for (const client of clients) client.destroy()
    const served = await eventually(async () => {
      await using client = await fixture.connect()
      return (await client.reply()) === GREETING
    })
    expect({ greeted: told.greeted, others: told.refused + told.cut, anyTold: told.refused > 0, served }).toEqual({
      greeted: 45,
      others: 955,
      anyTold: true,
      served: true,
    })
  })
})

describe('a client that', () => {
  test('exceeds its message rate is rejected temporarily at MAIL', async () => {
    await using fixture = await startTestListener({ traffic: { maxMessagesPerMinute: 2 } })
    await using client = await fixture.connectGreeted()
    await using other = await fixture.connectGreeted({ localAddress: '127.0.0.2' })
    expect([
      await sendMessage(client, MESSAGE),
      await sendMessage(client, MESSAGE),
      await client.say('MAIL FROM:<>'),
      await other.say('MAIL FROM:<>'),
    ]).toEqual([
      '250 2.6.0 Message accepted',
      '250 2.6.0 Message accepted',
      '451 4.7.1 Message rate limit exceeded; try again later',
      '250 2.1.0 Accepted',
    ])
  })

  test('exceeds its byte rate is rejected temporarily at MAIL, even if its messages were rejected', async () => {
    await using fixture = await startTestListener({
      traffic: { maxBytesPerHour: 1_000, maxMessageBytes: 64 * KiB },
    })
    await using client = await fixture.connectGreeted()
    await using other = await fixture.connectGreeted({ localAddress: '127.0.0.2' })
    expect([
      await sendMessage(client, MESSAGE),
      await sendMessage(client, `${'x'.repeat(78)}\r\n`.repeat(1_000)),
      await client.say('MAIL FROM:<>'),
      await other.say('MAIL FROM:<>'),
    ]).toEqual([
      '250 2.6.0 Message accepted',
      '552 5.3.4 Error: message exceeds fixed maximum message size 65536',
      '451 4.7.1 Byte rate limit exceeded; try again later',
      '250 2.1.0 Accepted',
    ])
  })

  test('talks before the greeting is refused', async () => {
    await using fixture = await startTestListener({ limits: { greetingDelayMs: minutes(10) } })
    await using client = await fixture.connect()
    await client.write('EHLO client.test\r\n')
    expect([await client.reply(), await client.closed()]).toEqual(['421 mx.tassis.test You talk too soon', ''])
  })

  test('speaks HTTP is refused', async () => {
    await using client = await fixture.connectGreeted()
    expect([await client.say('GET / HTTP/1.1'), await client.closed()]).toEqual([
      '421 4.4.2 HTTP requests not allowed',
      '',
    ])
  })

  // Proves: inbound-20
  test.each([
    ['is silent', []],
    ['sends octets without a line end', ['N', 'O', 'O', 'P']],
    ['says NOOP and RSET', ['NOOP\r\n', 'RSET\r\n']],
    ['greets again and again', ['EHLO client.test\r\n', 'HELO client.test\r\n']],
    ['asks for help', ['HELP\r\n', 'VRFY ada\r\n']],
    ['sends commands that are rejected for now', ['MAIL FROM:<>\r\n']],
  ])('%s times out with a reply', async (_, said) => {
    await using server = await startTestServer({ maxMessagesPerMinute: 1, limits: { idleMs: seconds(30) } })
    await using before = await server.connectGreeted()
    await before.say('MAIL FROM:<>')
    await using client = await server.connectGreeted()
    const replies: string[] = []
    for (let second = 0; second < 30; second++) {
      const piece = said[second % said.length] ?? ''
      await client.write(piece)
      if (piece.endsWith('\r\n')) replies.push(await client.reply())
      server.clock.advance(seconds(1))
    }
    server.clock.advance(seconds(1))
    expect([replies.filter((reply) => reply === '' || reply.startsWith('421')), await client.closed()]).toEqual([
      [],
      '421 4.4.2 Idle timeout\r\n',
    ])
  })

  test('stalls in a handshake is disconnected', async () => {
    await using server = await startTestServer()
    await using client = await server.connectGreeted()
    const reply = await client.say('STARTTLS')
    server.clock.advance(LISTENER_LIMITS.idleMs + LISTENER_LIMITS.sweepMs)
    expect([reply, await client.closed()]).toEqual(['220 2.0.0 Ready to start TLS', ''])
  })

  test.each([
    ['sends a message too slowly is disconnected, and nothing of it is stored', {}, 1, 30],
    [
      'takes too long for a message is disconnected, even if octets keep arriving',
      { messageMs: seconds(20) },
      2000,
      20,
    ],
  ])('%s', async (_, limits, bytesPerSecond, allowedSeconds) => {
    let stored = 0
    await using server = await startTestServer({
      limits,
      async receive() {
        stored++
        return null
      },
    })
    await using client = await server.connectGreeted()
    const begun = await beginMessage(client)
    for (let second = 0; second <= allowedSeconds; second++) {
      await client.write('x'.repeat(bytesPerSecond))
      server.clock.advance(seconds(1))
    }
    expect({ begun: begun.slice(0, 3), said: await client.closed(), stored, spooled: server.listSpooled() }).toEqual({
      begun: '354',
      said: '421 4.4.2 Data rate too low\r\n',
      stored: 0,
      spooled: [],
    })
  })

  test('exceeds the session time is disconnected, but not while a message is being stored', async () => {
    const arrived = Promise.withResolvers<void>()
    const onDisk = Promise.withResolvers<null>()
    await using server = await startTestServer({
      limits: { sessionMs: seconds(50) },
      receive() {
        arrived.resolve()
        return onDisk.promise
      },
    })
    await using waiting = await server.connectGreeted()
    await using talking = await server.connectGreeted()
    await beginMessage(waiting)
    await waiting.write(`${MESSAGE}.\r\n`)
    await arrived.promise
    server.clock.advance(seconds(50))
    const replies = [await talking.say('NOOP')]
    server.clock.advance(seconds(1))
    replies.push(await talking.reply())
    onDisk.resolve(null)
    replies.push(await waiting.reply())
    server.clock.advance(seconds(1))
    expect([...replies, await waiting.reply()]).toEqual([
      '250 2.0.0 OK',
      '421 4.4.2 Session time limit exceeded',
      '250 2.6.0 Message accepted',
      '421 4.4.2 Session time limit exceeded',
    ])
  })

  test.each([
    ['sends too many commands', { commands: 6 }, 'NOOP', 5, '421 4.7.0 Too many commands'],
    ['causes too many errors', { protocolErrors: 5 }, 'MAIL FROM:', 5, '421 4.7.0 Too many errors'],
    [
      'tries too many unknown recipients',
      { rejectedRecipients: 15 },
      'RCPT TO:<nobody@x.test>',
      15,
      '421 4.7.0 Too many unknown recipients',
    ],
  ])('%s is disconnected', async (_, limits, line, allowed, expected) => {
    await using fixture = await startTestListener({ limits })
    await using client = await fixture.connectGreeted()
    if (line.startsWith('RCPT')) await client.say('MAIL FROM:<>')
    const replies: string[] = []
    for (let i = 0; i <= allowed; i++) replies.push(await client.say(line))
    expect([replies.filter((reply) => reply.startsWith('421')), replies.at(-1), await client.closed()]).toEqual([
      [expected],
      expected,
      '',
    ])
  })

  test('sends many messages in one session has its limits reset by each', async () => {
    await using fixture = await startTestListener({ limits: { commands: 8, protocolErrors: 3 } })
    await using client = await fixture.connectGreeted()
    const replies: string[] = []
    for (let i = 0; i < 5; i++) replies.push(await client.say('WHAT'), await sendMessage(client, MESSAGE))
    expect(new Set(replies)).toEqual(new Set(['500 5.5.2 Error: command not recognized', '250 2.6.0 Message accepted']))
  })

  test.each([
    ['of 10 KB', 10_000, ['500 5.5.2 Line too long']],
    // The system decides how much of it one read returns.
    ['of 10 MB', 10_000_000, ['500 5.5.2 Line too long', '554 5.5.0 Too much pipelined data']],
  ])('sends an endless command line, %s, is disconnected', async (_, length, expected) => {
    await using client = await fixture.connectGreeted()
    await client.write('x'.repeat(length))
    expect(expected).toContain(await client.reply())
    expect(await client.closed()).toBe('')
  })

  test('pipelines more than a group of commands is disconnected (RFC 2920 §3.1)', async () => {
    await using fixture = await startTestListener({ limits: { pipelinedBytes: 4_000 } })
    await using hasty = await fixture.connectGreeted()
    await hasty.write(`MAIL FROM:<>\r\nRCPT TO:<a@b.test>\r\nDATA\r\n${'x'.repeat(1_000_000)}\r\n.\r\n`)
    const hastyReplies = await hasty.closed()
    await using pipelining = await fixture.connectGreeted()
    await pipelining.write(`MAIL FROM:<>\r\nRCPT TO:<a@b.test>\r\n${'RCPT TO:<nobody@b.test>\r\n'.repeat(40)}DATA\r\n`)
    const replies: string[] = []
    for (let i = 0; i < 43; i++) replies.push(await pipelining.reply())
    // The end of one message and the commands of the next in one write.
    await pipelining.write(`${MESSAGE}.\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.test>\r\nDATA\r\n`)
    const next = [
      await pipelining.reply(),
      await pipelining.reply(),
      await pipelining.reply(),
      await pipelining.reply(),
    ]
    expect({
      hasty: hastyReplies.includes('554 5.5.0 Too much pipelined data\r\n'),
      last: replies.at(-1)?.slice(0, 3),
      next: next.map((reply) => reply.slice(0, 3)),
      taken: fixture.received.length,
    }).toEqual({ hasty: true, last: '354', next: ['250', '250', '250', '354'], taken: 1 })
  })

  test('pipelines many recipients gets a reply to each, although the socket is paused for a while', async () => {
    const asked = Promise.withResolvers<void>()
    const decided = Promise.withResolvers<boolean>()
    await using fixture = await startTestListener({
      isDiskLow() {
        asked.resolve()
        return decided.promise
      },
    })
    await using client = await fixture.connectGreeted()
    await client.say('MAIL FROM:<>')
    const recipients = Array.from({ length: 100 }, (_, n) => `RCPT TO:<${'x'.repeat(200)}${n}@b.test>\r\n`).join('')
    // Enough to pause the listener's reads; the last line is incomplete.
    await client.write(`${recipients}NO`)
    await asked.promise
    decided.resolve(false)
    const codes: string[] = []
    for (let n = 0; n < 100; n++) codes.push((await client.reply()).slice(0, 3))
    expect([codes, await client.say('OP')]).toEqual([
      [...Array(3).fill('250'), ...Array(97).fill('452')],
      '250 2.0.0 OK',
    ])
  })

  test('sends commands after STARTTLS in clear text has them discarded (RFC 3207 §4.2, injection)', async () => {
    const client = await fixture.connect()
    await client.reply()
    await client.say('EHLO client.test')
    const plain = client.socket
    plain.removeAllListeners()
    const text = Promise.withResolvers<string>()
    plain.once('data', (chunk: Buffer) => text.resolve(chunk.toString()))
    plain.write('STARTTLS\r\nMAIL FROM:<injected@x.test>\r\nRCPT TO:<a@x.test>\r\nNOOP\r\n')
    const reply = await text.promise
    const secure = connectTls({ socket: plain, rejectUnauthorized: false })
    await new Promise((resolve) => secure.once('secureConnect', resolve))
    let said = ''
    secure.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
    secure.write('EHLO again.test\r\nDATA\r\nQUIT\r\n')
    await new Promise((resolve) => secure.once('close', resolve))
    client.destroy()
    expect([reply, said.split('\r\n').filter((line) => !line.startsWith('250-'))]).toEqual([
      '220 2.0.0 Ready to start TLS\r\n',
      ['250 SIZE 2097152', '503 5.5.1 Error: need RCPT command', '221 2.0.0 Bye', ''],
    ])
  })

  test('tries to smuggle a second message into the first sends one message', async () => {
    await using client = await fixture.connectGreeted()
    const smuggled = 'MAIL FROM:<evil@x.test>\r\nRCPT TO:<a@x.test>\r\nDATA\r\nSmuggled\r\n'
    const ends = [
      '\n.\n',
      '\n.\r\n',
      '\r\n.\n',
      '\r.\r',
      '\r.\r\n',
      '\r\n.\r',
      '\r\n\0.\r\n',
      '\r\n.\0\r\n',
      '\r\r\n.\r\r\n',
    ]
    const replies: string[] = []
    for (const end of ends) replies.push(await sendMessage(client, `First${end}${smuggled}`))
    replies.push(await client.say('NOOP'))
    expect({
      replies,
      senders: fixture.received.map(({ mailFrom }) => mailFrom),
      areWhole: fixture.received.every(({ text }) => text.startsWith('First') && text.endsWith(smuggled)),
    }).toEqual({
      replies: [...ends.map(() => '250 2.6.0 Message accepted'), '250 2.0.0 OK'],
      senders: ends.map(() => 'ada@sender.test'),
      areWhole: true,
    })
  })
})

describe('closing', () => {
  test('disconnects idle clients, finishes messages in progress and accepts no new clients', async () => {
    await using fixture = await startTestListener({ clock: new ManualClock() })
    await using idle = await fixture.connectGreeted()
    await using sending = await fixture.connectGreeted()
    await beginMessage(sending)
    const closing = fixture.listener.close(20_000)
    const told = [await idle.reply(), await idle.closed()]
    const refused = await connectSmtp(fixture.port).then(
      () => 'connected',
      (error: { code: string }) => error.code,
    )
    const replies = [await sending.say(`${MESSAGE}.`), await sending.reply(), await sending.closed()]
    await closing
    expect({ told, refused, replies, taken: fixture.received.length }).toEqual({
      told: ['421 4.3.2 Service shutting down', ''],
      refused: 'ECONNREFUSED',
      replies: ['250 2.6.0 Message accepted', '421 4.3.2 Service shutting down', ''],
      taken: 1,
    })
  })

  test('waits for messages being stored, and for nothing else without a grace period', async () => {
    const arrived = Promise.withResolvers<void>()
    const onDisk = Promise.withResolvers<void>()
    await using fixture = await startTestListener({
      clock: new ManualClock(),
      receive() {
        arrived.resolve()
        return onDisk.promise
      },
    })
    await using idle = await fixture.connectGreeted()
    await using storing = await fixture.connectGreeted()
    await using sending = await fixture.connectGreeted()
    await beginMessage(sending)
    await beginMessage(storing)
    await storing.write(`${MESSAGE}.\r\n`)
    await arrived.promise
    let isClosed = false
    const closing = fixture.listener.close(0).then(() => {
      isClosed = true
    })
    await idle.closed()
    const wasClosed = isClosed
    onDisk.resolve()
    const replies = [await storing.reply(), await sending.closed()]
    await closing
    expect({ wasClosed, replies, taken: fixture.received.length }).toEqual({
      wasClosed: false,
      replies: ['250 2.6.0 Message accepted', '421 4.3.2 Service shutting down\r\n'],
      taken: 1,
    })
  })
})

describe('the Worker', () => {
  test('that dies is replaced on the same port; its pending message gets no reply, and its file is removed', async () => {
    const workers: Worker[] = []
    await using fixture = await startTestListener({
      startWorker() {
        const worker = startWorker('inbound')
        workers.push(worker)
        return worker
      },
    })
    await using client = await fixture.connectGreeted()
    await beginMessage(client)
    await client.write('x'.repeat(1_000_000))
    await eventually(() => fixture.listSpooled().length === 1)
    workers[0]?.terminate()
    const said = await client.closed()
    const greeting = await eventually(async () => {
      try {
        await using next = await fixture.connect()
        return await next.reply()
      } catch {
        return undefined
      }
    })
    expect({
      said,
      greeting,
      workers: workers.length,
      taken: fixture.received,
      spooled: fixture.listSpooled(),
    }).toEqual({
      said: '',
      greeting: GREETING,
      workers: 2,
      taken: [],
      spooled: [],
    })
  })

  test('that stops responding is replaced after half a minute; a responsive one is not', async () => {
    const clock = new ManualClock(systemClock.now())
    const workers: Worker[] = []
    let isDeaf = false
    await using fixture = await startTestListener({
      clock,
      startWorker() {
        const worker = startWorker('inbound')
        const say = worker.postMessage.bind(worker)
        if (workers.push(worker) === 1)
          worker.postMessage = (message: { type: string }) =>
            isDeaf && message.type === 'ping' ? undefined : say(message)
        return worker
      },
    })
    await using clients = new AsyncDisposableStack()
    for (let looks = 1; looks <= 5; looks++) {
      clients.use(await fixture.connectGreeted())
      clock.advance(seconds(10))
      // The number of sessions comes with the response to this check.
      await eventually(() => fixture.listener.sessions === looks)
    }
    expect(workers).toHaveLength(1)
    isDeaf = true
    // No client connects, because its traffic would show that the Worker lives. A jump of the clock counts as one
    // check.
    const reasons: unknown[] = []
    for (const step of [60, 10, 10, 10]) {
      reasons.push(fixture.logged.some(({ reason }) => reason === 'silent for 30 s'))
      clock.advance(seconds(step))
      await yieldToEventLoop()
    }
    reasons.push(fixture.logged.some(({ reason }) => reason === 'silent for 30 s'))
    expect(reasons).toEqual([false, false, false, false, true])
    clock.advance(seconds(1))
    await eventually(() => fixture.logged.some(({ msg }) => msg === 'SMTP listener restarted'))
    await using client = await fixture.connectGreeted()
    expect([workers.length, await sendMessage(client, MESSAGE)]).toEqual([2, '250 2.6.0 Message accepted'])
  })

  test('that cannot listen fails with one sentence for the operator', async () => {
    const second = startTestListener({ port: fixture.port })
    // Never another port: mail arrives at port 25.
    expect(await second.catch((error: Error) => error.message)).toBe(
      `TASSIS_INBOUND_ADDR is "127.0.0.1:${fixture.port}", but another program uses the port; see which with \`ss -ltnp sport = :${fixture.port}\` as root, and stop it.`,
    )
  })

  test('starts with an empty spool folder, whatever an earlier process left', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-listener-'))
    const spoolFolder = join(dataDir, 'spool')
    mkdirSync(spoolFolder)
    writeFileSync(join(spoolFolder, '1-1.zst'), 'left')
    {
      await using _fixture = await startTestListener({ dataDir, spoolFolder })
      expect(readdirSync(spoolFolder)).toEqual([])
    }
    rmSync(dataDir, { recursive: true })
  })
})

test('a connection that disappears immediately is harmless', async () => {
  await Promise.all(
    Array.from({ length: 50 }, async () => {
      const socket = connectTcp(fixture.port, '127.0.0.1')
      await new Promise((resolve) => socket.once('connect', resolve))
      socket.resetAndDestroy()
    }),
  )
  await using client = await fixture.connectGreeted()
  expect(await sendMessage(client, MESSAGE)).toBe('250 2.6.0 Message accepted')
})

const { idleMs, sweepMs } = LISTENER_LIMITS

test('waiting for a reply, of any kind, does not count as idle time', async () => {
  let asked = Promise.withResolvers<void>()
  let decided = Promise.withResolvers<Destination | Rejection>()
  await using server = await startTestServer({
    decide() {
      asked.resolve()
      return decided.promise
    },
  })
  await using client = await server.connectGreeted()
  const replies = [await client.say('MAIL FROM:<>')]
  for (const code of [452, 550]) {
    const reply = client.say('RCPT TO:<ada@x.test>')
    await Promise.race([asked.promise, reply])
    server.clock.advance(2 * idleMs)
    decided.resolve({ code, text: '4.3.1 Not now' })
    replies.push(await reply)
    server.clock.advance(sweepMs)
    replies.push(await client.say('NOOP'))
    asked = Promise.withResolvers()
    decided = Promise.withResolvers()
  }
  server.clock.advance(idleMs)
  replies.push(await client.reply())
  expect(replies.map((reply) => reply.slice(0, 3))).toEqual(['250', '452', '250', '550', '250', '421'])
})
