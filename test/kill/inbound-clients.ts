/** @module SMTP clients that submit messages to the service under the kill test and record the reply to each. */
import { connect, type Socket } from 'node:net'
import type { Random } from './random.ts'

/** `accepted`: 250; `refused`: another reply; `unanswered`: the connection ended before a reply. */
export type SubmitOutcome = 'accepted' | 'refused' | 'unanswered'

export interface SubmittedMessage {
  /** Local part of its Message-ID. */
  readonly id: string
  readonly recipients: readonly string[]
  readonly sizeBytes: number
  /** Whether all of it was sent; without a reply it may have been accepted. */
  isWhole: boolean
  outcome: SubmitOutcome
}

export interface InboundClients {
  /** Returns the number of sessions that have sent part of a message and have no reply to it yet. */
  inData(): number
  /** Stops the clients; resolves when every session has ended. */
  stop(): Promise<void>
}

const CLIENT_COUNT = 12
/** Probability of a message so large that it is spooled. */
const LARGE_CHANCE = 0.04
const LARGE_BYTES = 700_000

export interface InboundClientOptions {
  readonly port: number
  readonly random: Random
  /** Prefix of the message ids. */
  readonly prefix: string
  /** Sets of recipients that the service accepts. */
  readonly recipients: readonly (readonly string[])[]
  /** Submitted messages by id. */
  readonly handed: Map<string, SubmittedMessage>
}

/** Submits messages over several connections until stopped. */
export function startInboundClients(options: InboundClientOptions): InboundClients {
  let isStopping = false
  let inData = 0
  let createdCount = 0
  const sockets = new Set<Socket>()

  const session = async (): Promise<void> => {
    const socket = connect(options.port, '127.0.0.1')
    sockets.add(socket)
    const replies = createReplyReader(socket)
    try {
      await replies.next()
      await replies.ask('EHLO hander.test')
      for (let sent = 0; sent < 20 && !isStopping; sent++) await submit(socket, replies)
    } finally {
      socket.destroy()
      sockets.delete(socket)
    }
  }

  const submit = async (socket: Socket, replies: ReplyReader): Promise<void> => {
    const { random, recipients } = options
    const id = `${options.prefix}-${++createdCount}`
    const to = recipients[random.between(0, recipients.length - 1)] ?? []
    const message = buildMessage(id, to, random)
    const entry: SubmittedMessage = {
      id,
      recipients: to,
      sizeBytes: message.length,
      isWhole: false,
      outcome: 'unanswered',
    }
    options.handed.set(id, entry)
    const isRejected = (reply: string): boolean => {
      if (/^[23]/.test(reply)) return false
      entry.outcome = 'refused'
      return true
    }
    if (isRejected(await replies.ask('MAIL FROM:<ada@hander.test>'))) return
    for (const address of to) if (isRejected(await replies.ask(`RCPT TO:<${address}>`))) return
    if (isRejected(await replies.ask('DATA'))) return
    inData++
    try {
      const half = random.between(1, message.length - 1)
      socket.write(message.slice(0, half), 'latin1')
      if (random.chance(0.3)) await Bun.sleep(random.between(1, 40))
      socket.write(`${message.slice(half)}\r\n.\r\n`, 'latin1')
      entry.isWhole = true
      const reply = await replies.next()
      entry.outcome = reply.startsWith('250') ? 'accepted' : 'refused'
    } finally {
      inData--
    }
  }

  const run = async (): Promise<void> => {
    while (!isStopping) {
      // Kills cut sessions off; the next session follows.
      await session().catch(() => Bun.sleep(5))
    }
  }
  const running = Array.from({ length: CLIENT_COUNT }, run)
  return {
    inData: () => inData,
    async stop() {
      isStopping = true
      for (const socket of sockets) socket.destroy()
      await Promise.all(running)
    },
  }
}

function buildMessage(id: string, to: readonly string[], random: Random): string {
  const size = random.chance(LARGE_CHANCE) ? LARGE_BYTES : random.between(100, 4000)
  const line = `${'0123456789abcdef'.repeat(4)} ${id}\r\n`
  return [
    'From: Ada <ada@hander.test>',
    `To: ${to.join(', ')}`,
    `Subject: Number ${id}`,
    `Message-ID: <${id}@hander.test>`,
    '',
    line.repeat(Math.ceil(size / line.length)),
  ].join('\r\n')
}

interface ReplyReader {
  /** Returns the next complete reply; rejects when the connection ends first. */
  next(): Promise<string>
  ask(command: string): Promise<string>
}

function createReplyReader(socket: Socket): ReplyReader {
  let text = ''
  let ended: Error | undefined
  let wake = () => {}
  const end = (reason: string) => {
    ended ??= new Error(reason)
    wake()
  }
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    text += chunk
    wake()
  })
  socket.on('error', (error) => end(error.message))
  socket.on('close', () => end('the connection was closed'))
  const next = async (): Promise<string> => {
    for (;;) {
      const reply = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\n/.exec(text)?.[0]
      if (reply) {
        text = text.slice(reply.length)
        return reply.slice(reply.lastIndexOf('\n', reply.length - 2) + 1).trim()
      }
      if (ended) throw ended
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    next,
    ask(command) {
      socket.write(`${command}\r\n`)
      return next()
    },
  }
}
