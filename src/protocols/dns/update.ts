/**
 * @module Encodes changes of a zone (DNS UPDATE, RFC 2136), and exchanges signed messages with one server over TCP.
 * Takes no decision about errors.
 */
import { connect } from 'node:net'
import type { Clock } from '#platform/time/clock.ts'
import type { ServerAddress } from './exchange.ts'
import { encodeName, signMessage, type TsigKey, type VerifiedResponse, verifyResponse } from './tsig.ts'

const TYPES = { A: 1, NS: 2, CNAME: 5, SOA: 6, MX: 15, TXT: 16, AAAA: 28, ANY: 255 } as const
export type RecordType = keyof typeof TYPES
/** RFC 2136 §2.4, §2.5: NONE denies or deletes one value, IN requires or adds one. */
const CLASSES = { IN: 1, NONE: 254 } as const

export interface UpdateRecord {
  readonly name: string
  readonly type: RecordType
  readonly class: keyof typeof CLASSES
  /** Only of values that are added. */
  readonly ttlSeconds?: number
  readonly data?: Buffer
}

const header = (id: number, flags: number, ...counts: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(12)
  for (const [i, value] of [id, flags, ...counts].entries()) bytes.writeUInt16BE(value, 2 * i)
  return bytes
}

const encodeQuestion = (name: string, type: RecordType): Buffer =>
  Buffer.concat([encodeName(name), Buffer.from([0, TYPES[type], 0, CLASSES.IN])])

/** A question without recursion: what the server itself has. */
export const encodeDirectQuery = (id: number, name: string, type: RecordType): Buffer =>
  Buffer.concat([header(id, 0, 1, 0, 0, 0), encodeQuestion(name, type)])

/** The changes are made only if all that `requires` says is true, and then all at once. */
export const encodeUpdate = (
  id: number,
  zone: string,
  requires: readonly UpdateRecord[],
  changes: readonly UpdateRecord[],
): Buffer =>
  Buffer.concat([
    header(id, 5 << 11, 1, requires.length, changes.length, 0),
    encodeQuestion(zone, 'SOA'),
    ...[...requires, ...changes].map(encodeRecord),
  ])

function encodeRecord({ name, type, class: of, ttlSeconds = 0, data = Buffer.alloc(0) }: UpdateRecord): Buffer {
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(TYPES[type], 0)
  fixed.writeUInt16BE(CLASSES[of], 2)
  fixed.writeUInt32BE(ttlSeconds, 4)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([encodeName(name), fixed, data])
}

export interface SignedExchange {
  readonly clock: Clock
  readonly key: TsigKey
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Sends all messages over one connection and returns their responses in the same order. Their ids must differ.
 * Throws an Error that says why there is no response to one of them.
 */
export function exchangeSigned(
  server: ServerAddress,
  messages: readonly Buffer[],
  { clock, key, timeoutMs, signal }: SignedExchange,
): Promise<VerifiedResponse[]> {
  const seconds = Math.floor(clock.now() / 1000)
  const waiting = new Map(messages.map((message, i) => [message.readUInt16BE(0), i]))
  const requests = messages.map((message) => signMessage(message, key, seconds))
  const responses: VerifiedResponse[] = []
  const { promise, resolve, reject } = Promise.withResolvers<VerifiedResponse[]>()
  const socket = connect(server.port, server.host)
  const fail = (reason: string) => reject(new Error(reason))
  let received = Buffer.alloc(0)
  const take = (bytes: Buffer): void => {
    const i = waiting.get(bytes.readUInt16BE(0))
    const request = requests[i ?? -1]
    if (i === undefined || !request) return
    waiting.delete(bytes.readUInt16BE(0))
    responses[i] = verifyResponse(bytes, key, { mac: request.mac, seconds })
  }
  socket.on('data', (chunk: Buffer) => {
    try {
      received = Buffer.concat([received, chunk])
      for (let length = 0; received.length >= 2; received = received.subarray(2 + length)) {
        length = received.readUInt16BE(0)
        if (received.length < 2 + length) break
        take(received.subarray(2, 2 + length))
      }
      if (waiting.size === 0) resolve(responses)
    } catch {
      fail('it sent a malformed response')
    }
  })
  socket.on('connect', () => {
    for (const { bytes } of requests) {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(bytes.length)
      socket.write(Buffer.concat([length, bytes]))
    }
  })
  socket.on('error', (error) => fail(error.message))
  socket.on('close', () => fail('it closed the connection'))
  const timer = clock.after(timeoutMs, () => fail(`it did not respond within ${timeoutMs / 1000} seconds`))
  const abort = () => fail('the service is stopping')
  signal?.addEventListener('abort', abort)
  return promise.finally(() => {
    timer.cancel()
    signal?.removeEventListener('abort', abort)
    socket.destroy()
  })
}
