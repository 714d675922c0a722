/**
 * @module Encodes changes of a zone (DNS UPDATE, RFC 2136), and exchanges signed messages with one server over TCP.
 * Takes no decision about errors.
 */
import { connect } from 'node:net'
import { encode } from 'dns-packet'
import type { Clock } from '#platform/time/clock.ts'
import type { ServerAddress } from './exchange.ts'
import { encodeRecord, signMessage, type TsigKey, uint16, type VerifiedResponse, verifyResponse } from './tsig.ts'

const TYPES = { CNAME: 5, MX: 15, TXT: 16, ANY: 255 } as const
/** RFC 2136 §2.4, §2.5: NONE denies or deletes one value, IN requires or adds one. */
const CLASSES = { IN: 1, NONE: 254 } as const
const UPDATE = 5 << 11

export interface UpdateRecord {
  readonly name: string
  readonly type: keyof typeof TYPES
  readonly class: keyof typeof CLASSES
  /** Only of values that are added. */
  readonly ttlSeconds?: number
  readonly data?: Buffer
}

/** A question without recursion: what the server itself has. */
export const encodeDirectQuery = (
  name: string,
  type: 'TXT' | 'MX' | 'CNAME' | 'A' | 'AAAA' | 'NS' | 'SOA',
  flags = 0,
): Buffer => encode({ type: 'query', flags, questions: [{ name, type }] })

/** The changes are made only if all that `requires` says is true, and then all at once. */
export function encodeUpdate(
  zone: string,
  requires: readonly UpdateRecord[],
  changes: readonly UpdateRecord[],
): Buffer {
  const head = encodeDirectQuery(zone, 'SOA', UPDATE)
  head.writeUInt16BE(requires.length, 6)
  head.writeUInt16BE(changes.length, 8)
  const records = [...requires, ...changes].map(({ name, type, class: of, ttlSeconds = 0, data = Buffer.alloc(0) }) =>
    encodeRecord(name, TYPES[type], CLASSES[of], ttlSeconds, data),
  )
  return Buffer.concat([head, ...records])
}

export interface SignedExchange {
  readonly clock: Clock
  readonly key: TsigKey
  readonly timeoutMs: number
  /** Ends the exchange, as the time limit does. */
  readonly signal: AbortSignal
  /** The id of the first message; those of the others follow. */
  readonly firstId: number
}

/**
 * Sends all messages over one connection and returns their responses in the same order.
 * Throws an Error that says why there is no response to one of them.
 */
export function exchangeSigned(
  server: ServerAddress,
  messages: readonly Buffer[],
  { clock, key, timeoutMs, signal, firstId }: SignedExchange,
): Promise<VerifiedResponse[]> {
  const seconds = Math.floor(clock.now() / 1000)
  const requests = messages.map((message, i) => {
    message.writeUInt16BE(firstId + i)
    return signMessage(message, key, seconds)
  })
  const responses = new Map<number, VerifiedResponse>()
  const { promise, resolve, reject } = Promise.withResolvers<VerifiedResponse[]>()
  const socket = connect({ ...server, signal })
  const fail = (reason: string) => reject(new Error(reason))
  let received = Buffer.alloc(0)
  const take = (bytes: Buffer): void => {
    const i = bytes.readUInt16BE(0) - firstId
    const request = requests[i]
    if (request) responses.set(i, verifyResponse(bytes, key, { mac: request.mac, seconds }))
  }
  socket.on('data', (chunk: Buffer) => {
    try {
      received = Buffer.concat([received, chunk])
      for (let length = 0; received.length >= 2; received = received.subarray(2 + length)) {
        length = received.readUInt16BE(0)
        if (received.length < 2 + length) break
        take(received.subarray(2, 2 + length))
      }
      const inOrder = messages.flatMap((_, i) => responses.get(i) ?? [])
      if (inOrder.length === messages.length) resolve(inOrder)
    } catch {
      fail('it sent a malformed response')
    }
  })
  socket.on('connect', () => {
    for (const { bytes } of requests) socket.write(Buffer.concat([uint16(bytes.length), bytes]))
  })
  socket.on('error', (error) => fail(error.message))
  socket.on('close', () => fail('it closed the connection'))
  const timer = clock.after(timeoutMs, () => fail(`it did not respond within ${timeoutMs / 1000} seconds`))
  return promise.finally(() => {
    timer.cancel()
    socket.destroy()
  })
}
