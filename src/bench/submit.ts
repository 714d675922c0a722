/**
 * @module The SMTP client of the benchmark, in its own process: submits messages over persistent connections, one at a
 * time on each, and measures the time to the 250. Implements only the SMTP it needs, to use little CPU.
 */
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Clock } from '#platform/clock.ts'
import { type LoadResult, summarise } from './load.ts'

export interface SubmitJob {
  readonly port: number
  readonly connections: number
  /** For submission: the API key, sent over TLS from the first octet. */
  readonly key?: string
  readonly mailFrom: string
  readonly rcptTo: string
  /** File with all messages, one after another. */
  readonly file: string
  /** Offset of each message in the file; the last is its end. */
  readonly places: readonly number[]
}

/**
 * Each connection comes from an address of its own where the loopback network has more than one: the service limits the
 * unprocessed messages of a network, and one network alone would reach that limit.
 */
const HAS_LOOPBACK_NETWORK = process.platform === 'linux'

const END_OF_DATA = Buffer.from('\r\n.\r\n')

/** Submits each message once; resolves when the last 250 has arrived. Rejects when a connection is lost. */
export async function runSubmit(job: SubmitJob, clock: Clock): Promise<LoadResult> {
  const messages = readFileSync(job.file)
  const waitedMs: number[] = []
  let next = 0
  let refused = 0
  const startedMs = clock.monotonicMs()

  const session = async (_: unknown, index: number): Promise<void> => {
    const localAddress = HAS_LOOPBACK_NETWORK ? `127.0.0.${2 + (index % 250)}` : '127.0.0.1'
    const plain = connect({ host: '127.0.0.1', port: job.port, localAddress, noDelay: true })
    const socket = job.key === undefined ? plain : connectTls({ socket: plain, rejectUnauthorized: false })
    const replies = createReplyReader(socket)
    await replies(1)
    socket.write('EHLO hander.bench.test\r\n')
    await replies(1)
    if (job.key !== undefined) {
      socket.write(`AUTH PLAIN ${Buffer.from(`\0bench\0${job.key}`).toString('base64')}\r\n`)
      await replies(1)
    }
    while (next < job.places.length - 1) {
      const number = next++
      const message = messages.subarray(job.places[number], job.places[number + 1])
      const beginMs = clock.monotonicMs()
      socket.write(`MAIL FROM:<${job.mailFrom}>\r\n`)
      await replies(1)
      socket.write(`RCPT TO:<${job.rcptTo}>\r\n`)
      await replies(1)
      socket.write('DATA\r\n')
      await replies(1)
      socket.write(message)
      socket.write(END_OF_DATA)
      if ((await replies(1)).startsWith('250')) waitedMs.push(clock.monotonicMs() - beginMs)
      else refused++
    }
    socket.end('QUIT\r\n')
  }
  await Promise.all(Array.from({ length: job.connections }, session))
  return summarise(waitedMs, refused, (clock.monotonicMs() - startedMs) / 1000)
}

/** Returns a function that waits for `count` replies and returns the last. */
function createReplyReader(socket: Socket): (count: number) => Promise<string> {
  let text = ''
  let lastReply = ''
  let wake = () => {}
  let failed: Error | undefined
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    text += chunk
    wake()
  })
  const fail = (reason: string) => {
    failed ??= new Error(`the benchmark lost a connection: ${reason}; last reply: ${lastReply.trimEnd() || 'none'}`)
    wake()
  }
  socket.on('error', (error) => fail(error.message))
  socket.on('close', () => fail('closed'))
  return async (count) => {
    for (;;) {
      for (let match = LAST_LINE.exec(text); match; match = LAST_LINE.exec(text)) {
        text = text.slice(match.index + match[0].length)
        lastReply = match[0]
        if (--count === 0) return lastReply
      }
      if (failed) throw failed
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
}

/** The last line of a reply has a space after its code (RFC 5321 §4.2.1). */
const LAST_LINE = /^\d{3}(?: .*)?\r\n/m
