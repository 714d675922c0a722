import { describe, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { startWorker } from '#platform/process/workers.ts'
import { type Random, seededRandom } from '#test/support/random.ts'
import { type ListenerFixture, sendMessage, startTestListener } from './listener-fixture.ts'

/** Building blocks of sessions: commands, their parts, every kind of line end, and invalid input. */
const PIECES = [
  ...['EHLO a.test', 'MAIL FROM:<a@b.test>', 'RCPT TO:<c@d.test>', 'RCPT TO:<nobody@d.test>', 'DATA', 'RSET', 'NOOP'],
  ...['AUTH PLAIN', 'BDAT 5', 'VRFY a', 'HELP', 'constructor', '__proto__', 'toString', 'MAIL FROM:', 'RCPT TO:'],
  ...['<>', '<a@', '@b>', '"', '\\', ':', '=', ' SIZE=1', ' SIZE=99999999999999999999', ' BODY=8BITMIME', ' SMTPUTF8'],
  ...['\r\n', '\r\n', '\r\n', '\r\n', '\r', '\n', '\n.\n', '\r\n.\r\n', '\n.\r\n', '\r\n.\n', '\r.\r', '.', '..'],
  ...['\0', '\t', ' ', '\u00fc', '\ufffd', '\u202e', 'x'.repeat(3_000), '\x16\x03\x01', '%s'],
]

const randomBytes = (random: Random, count: number): Uint8Array =>
  Uint8Array.from({ length: count }, () => random.between(0, 255))

/** Runs a session that sends these pieces, some together, some after a tick; returns all replies. */
async function converse(port: number, says: readonly (string | Uint8Array)[], leaves: boolean): Promise<string> {
  let told = ''
  const socket: Socket = connect(port, '127.0.0.1')
  const greeted = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => {
    told += chunk.toString('latin1')
    greeted.resolve()
  })
  socket.on('close', () => {
    greeted.resolve()
    over.resolve()
  })
  await greeted.promise
  for (const said of says)
    await new Promise<void>((resolve) => {
      if (socket.destroyed || !socket.writable) return resolve()
      const done = () => {
        socket.off('close', done)
        resolve()
      }
      socket.once('close', done)
      socket.write(said, done)
    })
  if (leaves) socket.destroy()
  else socket.end('\r\n.\r\nQUIT\r\n')
  await over.promise
  return told
}

async function runWithWorker(run: (fixture: ListenerFixture) => Promise<string[]>): Promise<unknown> {
  let workers = 0
  await using fixture = await startTestListener({
    startWorker() {
      workers++
      return startWorker('inbound')
    },
  })
  const told = await run(fixture)
  await using client = await fixture.connectGreeted()
  const reply = await sendMessage(client, 'Subject: Hello\r\n\r\nHello.\r\n')
  const lines = told.flatMap((text) => text.split('\r\n').slice(0, -1))
  return {
    reply,
    workers,
    // Whatever the input, each reply line begins with a code and has no control characters.
    oddLines: lines.filter((line) => !/^[2345]\d\d[ -][^\0-\x1f\x7f]*$/.test(line)),
    withoutRecipient: fixture.received.filter(({ destinations }) => destinations.length === 0),
    troubles: fixture.logged.filter(({ level }) => level !== 'debug' && level !== 'info'),
    spooled: fixture.listSpooled(),
  }
}

const UNHARMED = {
  reply: '250 2.6.0 Message accepted',
  workers: 1,
  oddLines: [],
  withoutRecipient: [],
  troubles: [],
  spooled: [],
}

describe('the listener withstands', () => {
  test.each([1, 2, 3])('sessions with random pieces of SMTP (seed %d)', async (seed) => {
    const random = seededRandom(seed)
    const sessions = Array.from({ length: 80 }, () => ({
      leaves: random.chance(0.3),
      says: Array.from({ length: random.between(1, 30) }, () =>
        Array.from({ length: random.between(1, 8) }, () => PIECES[random.between(0, PIECES.length - 1)]).join(''),
      ),
    }))
    expect(
      await runWithWorker(({ port }) =>
        Promise.all(sessions.map(({ says, leaves }) => converse(port, ['EHLO a.test\r\n', ...says], leaves))),
      ),
    ).toEqual(UNHARMED)
  })

  test.each([4, 5])('sessions with random octets (seed %d)', async (seed) => {
    const random = seededRandom(seed)
    const sessions = Array.from({ length: 80 }, () =>
      Array.from({ length: random.between(1, 10) }, () => randomBytes(random, random.between(1, 4_000))),
    )
    expect(
      await runWithWorker(({ port }) => Promise.all(sessions.map((says) => converse(port, says, random.chance(0.5))))),
    ).toEqual(UNHARMED)
  })

  test('random octets in messages, which are all stored unchanged', async () => {
    const random = seededRandom(6)
    await using fixture = await startTestListener()
    await using client = await fixture.connectGreeted()
    const replies: string[] = []
    const sent: string[] = []
    for (let i = 0; i < 30; i++) {
      // Lines end in CRLF only, as RFC 5321 §2.3.8 requires; the rest is random.
      const lines = Array.from({ length: random.between(1, 20) }, () =>
        Buffer.from(randomBytes(random, random.between(0, 300)))
          .toString('latin1')
          .replaceAll(/[\r\n]/g, '.'),
      )
      const message = `${lines.join('\r\n')}\r\n`
      sent.push(message)
      replies.push(await sendMessage(client, Buffer.from(message.replaceAll(/(^|\r\n)\./g, '$1..'), 'latin1')))
    }
    expect({
      replies: new Set(replies),
      areSame: fixture.received.every(({ text }, index) => text === sent[index]),
    }).toEqual({ replies: new Set(['250 2.6.0 Message accepted']), areSame: true })
  })

  test('garbage handshakes after STARTTLS', async () => {
    const random = seededRandom(7)
    expect(
      await runWithWorker((fixture) =>
        Promise.all(
          Array.from({ length: 40 }, async () => {
            const garbage = randomBytes(random, random.between(1, 600))
            await using client = await fixture.connectGreeted()
            const reply = await client.say('STARTTLS')
            await client.write(garbage)
            // Closes the connection, because after short garbage the handshake would wait for its timeout.
            if (random.chance(0.5)) client.socket.end()
            else client.socket.resetAndDestroy()
            await client.closed()
            return `${reply}\r\n`
          }),
        ),
      ),
    ).toEqual(UNHARMED)
  })

  test('100,000 header lines and a line of 1 MB', async () => {
    await using fixture = await startTestListener()
    await using client = await fixture.connectGreeted()
    const header = 'X-Line: value\r\n'.repeat(100_000)
    const line = `${'x'.repeat(1_000_000)}\r\n`
    const replies = [await sendMessage(client, header), await sendMessage(client, line)]
    expect({ replies, areSame: fixture.received.map(({ text }) => text === header || text === line) }).toEqual({
      replies: ['250 2.6.0 Message accepted', '250 2.6.0 Message accepted'],
      areSame: [true, true],
    })
  })
})
