/** @module Attacks on an SMTP listener, each of limited size. `attacker.ts` runs them in a process of their own. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Random } from '#test/support/random.ts'

export interface Attack {
  readonly name: string
  run(port: number, random: Random): Promise<void>
}

const MiB = 1024 * 1024
const ENVELOPE = 'MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n'

/** Opens a connection and waits for the greeting or the end. Discards everything received, or does not read it. */
function open(port: number, isRead = true): Promise<Socket> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, '127.0.0.1')
    socket.on('error', () => resolve(socket))
    socket.on('close', () => resolve(socket))
    socket.once('data', () => {
      if (!isRead) socket.pause()
      resolve(socket)
    })
    if (isRead) socket.on('data', () => {})
  })
}

/** Resolves when the octets are sent, the connection has ended, or the peer has accepted nothing for a while. */
function write(socket: Socket, data: string | Uint8Array, maxMs = 10_000): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed || !socket.writable) return resolve()
    const timer = setTimeout(resolve, maxMs)
    const done = () => {
      clearTimeout(timer)
      resolve()
    }
    socket.once('close', done)
    socket.write(data, () => {
      socket.off('close', done)
      done()
    })
  })
}

async function runConcurrently(count: number, run: (index: number) => Promise<unknown>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, index) => run(index)))
}

/** Sends EHLO, MAIL, RCPT and DATA, and waits for the 354. */
async function startData(socket: Socket): Promise<void> {
  await write(socket, `EHLO a.test\r\n${ENVELOPE}`)
  await new Promise<void>((resolve) => {
    if (socket.destroyed) return resolve()
    socket.once('close', resolve)
    let received = ''
    socket.on('data', function look(chunk: Buffer) {
      received += chunk.toString()
      if (!received.includes('354')) return
      socket.off('data', look)
      resolve()
    })
  })
}

/** Opens a session up to DATA, sends a body in pieces and its end, and disconnects. */
async function sendMessage(port: number, pieces: Iterable<string | Uint8Array>, end = '\r\n.\r\n'): Promise<void> {
  const socket = await open(port)
  await startData(socket)
  for (const piece of pieces) await write(socket, piece)
  await write(socket, end)
  await reply(socket)
  socket.destroy()
}

/** Waits until data from the server arrives, the connection ends, or some time has passed. */
const reply = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.destroyed) return resolve()
    const timer = setTimeout(resolve, 3_000)
    const done = () => {
      clearTimeout(timer)
      resolve()
    }
    socket.once('data', done)
    socket.once('close', done)
  })

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

const repeat = (piece: string | Uint8Array, count: number) => Array<string | Uint8Array>(count).fill(piece)

const randomBytes = (random: Random, count: number): Uint8Array =>
  Uint8Array.from({ length: count }, () => random.between(0, 255))

const PIECES = [
  ...[
    'EHLO a.test',
    'HELO a',
    'MAIL FROM:<a@b.test>',
    'RCPT TO:<c@d.test>',
    'RCPT TO:<nobody@d.test>',
    'DATA',
    'RSET',
    'NOOP',
    'QUIT',
  ],
  ...[
    'STARTTLS',
    'AUTH PLAIN',
    'BDAT 5',
    'VRFY a',
    'HELP',
    'EXPN b',
    'ETRN x',
    '.',
    '..',
    'BODY=8BITMIME',
    'SIZE=99999999999999999999',
    'SMTPUTF8',
  ],
  ...[
    '\r\n',
    '\r\n',
    '\r\n',
    '\r',
    '\n',
    '\n.\n',
    '\r\n.\r\n',
    '\r\n.\r\n',
    '\n.\r\n',
    '\r\n.\n',
    '\r.\r',
    '\0',
    ' ',
    '\t',
    '<',
    '>',
    '@',
    '"',
    '\\',
    ':',
    '%s',
    '../',
  ],
  ...[
    '\u00fc',
    '\ufffd',
    '\u202e',
    'x'.repeat(3_000),
    '\x16\x03\x01',
    '\x80\xff',
    'constructor',
    '__proto__',
    'toString',
  ],
]

export const attacks: readonly Attack[] = [
  {
    name: '300 sessions of random octets',
    run: (port, random) =>
      runConcurrently(300, async () => {
        const socket = await open(port)
        for (let i = 0; i < 20; i++) await write(socket, randomBytes(random, random.between(0, 5_000)))
        socket.destroy()
      }),
  },
  {
    name: '500 sessions of random pieces of SMTP',
    run: (port, random) =>
      runConcurrently(500, async () => {
        const socket = await open(port)
        for (let i = 0; i < 60; i++)
          await write(
            socket,
            Array.from({ length: random.between(0, 12) }, () => PIECES[random.between(0, PIECES.length - 1)]).join(''),
          )
        if (random.chance(0.5)) socket.resetAndDestroy()
        else socket.destroy()
      }),
  },
  {
    name: '200 sessions that pipeline 100,000 commands and read no reply',
    run: (port) =>
      runConcurrently(200, async () => {
        const socket = await open(port, false)
        await write(socket, 'EHLO a.test\r\n'.repeat(100_000), 3_000)
        socket.destroy()
      }),
  },
  {
    name: '100 command lines of 10 MB',
    run: (port) =>
      runConcurrently(100, async () => {
        const socket = await open(port)
        for (const piece of repeat('x'.repeat(100_000), 100)) await write(socket, piece)
        socket.destroy()
      }),
  },
  {
    name: '50 messages with one line of 10 MB',
    run: (port) => runConcurrently(50, () => sendMessage(port, repeat('x'.repeat(100_000), 100))),
  },
  {
    name: '10 messages of 39 MB of dots at the start of lines',
    run: (port) => runConcurrently(10, () => sendMessage(port, repeat('..\r\n'.repeat(25_000), 390))),
  },
  {
    name: '20 messages of 20 MB of lone LF',
    run: (port) => runConcurrently(20, () => sendMessage(port, repeat('\n'.repeat(100_000), 200))),
  },
  {
    name: '10 messages of 100 MB, over the largest size',
    run: (port) => runConcurrently(10, () => sendMessage(port, repeat('x'.repeat(MiB), 100))),
  },
  {
    name: '100 messages of 20 MB at once',
    run: (port, random) => {
      const block = randomBytes(random, MiB)
      return runConcurrently(100, () => sendMessage(port, repeat(block, 20)))
    },
  },
  {
    name: '100 messages of 100,000 header lines',
    run: (port) => {
      const lines = Array.from({ length: 1_000 }, (_, i) => `X-Header-${i}: value\r\n`).join('')
      return runConcurrently(100, () => sendMessage(port, repeat(lines, 100)))
    },
  },
  {
    name: '1,000 connections at once that say nothing',
    async run(port) {
      const sockets = await Promise.all(Array.from({ length: 1_000 }, () => open(port)))
      await pause(3_000)
      for (const socket of sockets) socket.destroy()
    },
  },
  {
    name: '1,000 messages that stop after 200 KB',
    run: (port) =>
      runConcurrently(1_000, async () => {
        const socket = await open(port)
        await startData(socket)
        await write(socket, 'x'.repeat(200_000))
        await pause(4_000)
        socket.resetAndDestroy()
      }),
  },
  {
    name: '1,000 sessions that send 500 KB without waiting for the 354',
    run: (port) =>
      runConcurrently(1_000, async () => {
        const socket = await open(port)
        await write(socket, `EHLO a.test\r\n${ENVELOPE}${'x'.repeat(500_000)}`)
        socket.destroy()
      }),
  },
  {
    name: '1,000 messages that stop after 300 KB, in files',
    run(port, random) {
      const noise = randomBytes(random, 300_000)
      return runConcurrently(1_000, async () => {
        const socket = await open(port)
        await startData(socket)
        await write(socket, noise)
        await pause(4_000)
        socket.destroy()
      })
    },
  },
  {
    name: '500 messages in single octets',
    run: (port) =>
      runConcurrently(500, async () => {
        const socket = await open(port)
        socket.setNoDelay(true)
        await startData(socket)
        for (let i = 0; i < 300; i++) {
          await write(socket, 'x')
          await pause(10)
        }
        socket.destroy()
      }),
  },
  {
    name: '300 handshakes: good, broken, left',
    run: (port, random) =>
      runConcurrently(300, async (index) => {
        const socket = await open(port)
        await write(socket, 'EHLO a.test\r\n')
        await reply(socket)
        await write(socket, `STARTTLS\r\n${index % 4 === 3 ? 'MAIL FROM:<injected@x.test>\r\n' : ''}`)
        await reply(socket)
        if (index % 4 === 0) {
          socket.removeAllListeners()
          const secure = connectTls({ socket, rejectUnauthorized: false })
          secure.on('error', () => {})
          await write(secure, 'EHLO a.test\r\nQUIT\r\n', 3_000)
          secure.destroy()
        } else if (index % 4 === 1) await write(socket, randomBytes(random, 500))
        else if (index % 4 === 2) await write(socket, '\x16\x03\x01\x02\x00\x01')
        if (index % 2 === 0) socket.resetAndDestroy()
        else socket.destroy()
      }),
  },
  {
    name: '2,000 connections that are reset at once',
    run: (port) =>
      runConcurrently(2_000, async () => {
        const socket = connectTcp(port, '127.0.0.1')
        socket.on('error', () => {})
        await new Promise((resolve) => {
          socket.once('connect', resolve)
          socket.once('close', resolve)
        })
        socket.resetAndDestroy()
      }),
  },
]
