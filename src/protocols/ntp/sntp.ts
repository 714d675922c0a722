/**
 * @module Asks a time server once (SNTP, RFC 5905 §14): how far the local clock is from it. Never sets a clock.
 */
import { createSocket } from 'node:dgram'
import { isIPv6 } from 'node:net'
import type { Clock } from '#platform/time/clock.ts'

export interface TimeQueryOptions {
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly timeoutMs: number
  /** Eight unpredictable bytes: only a server that saw the query can return them. */
  readonly nonce: Uint8Array
  /** When aborted, ends the query without a result. */
  readonly signal: AbortSignal
}

const PACKET_BYTES = 48
/** No leap second known, version 4, mode client. */
const CLIENT_HEADER = 0x23
const SERVER_MODE = 4
/** A server without a time of its own sets this leap indicator. */
const UNSYNCHRONISED = 3
const MAX_STRATUM = 15
/** Seconds from 1900, where NTP begins, to 1970. */
const UNIX_EPOCH_SECONDS = 2_208_988_800
/** The 32 bits of seconds overflow in 2036; a value of the lower half belongs to the time after that. */
const ERA_SECONDS = 2 ** 32

/**
 * Resolves with milliseconds to add to the local clock; undefined when the server gives no usable answer in time.
 * @param server an address, not a name
 */
export function queryTimeOffset(
  server: { readonly host: string; readonly port: number },
  { clock, timeoutMs, nonce, signal }: TimeQueryOptions,
): Promise<number | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv6(server.host) ? 'udp6' : 'udp4')
    let isDone = false
    const finish = (offsetMs: number | undefined): void => {
      if (isDone) return
      isDone = true
      timer.cancel()
      signal.removeEventListener('abort', abort)
      socket.close()
      resolve(offsetMs)
    }
    const abort = () => finish(undefined)
    const timer = clock.after(timeoutMs, abort)
    signal.addEventListener('abort', abort)
    if (signal.aborted) return abort()
    let sentAt = 0
    socket.on('error', abort)
    socket.on('message', (reply) => {
      const receivedAt = clock.now()
      const times = decodeReply(reply, nonce)
      if (times === 'foreign') return
      if (times === 'unusable') return abort()
      finish(Math.round((times.receivedAt - sentAt + (times.sentAt - receivedAt)) / 2))
    })
    socket.connect(server.port, server.host, (error?: unknown) => {
      if (error) return abort()
      if (isDone) return
      sentAt = clock.now()
      socket.send(encodeQuery(nonce))
    })
  })
}

function encodeQuery(nonce: Uint8Array): Buffer {
  const query = Buffer.alloc(PACKET_BYTES)
  query[0] = CLIENT_HEADER
  // The transmit timestamp, which the server returns; random bytes in place of our time reveal nothing.
  query.set(nonce.subarray(0, 8), 40)
  return query
}

/** Times of the server in milliseconds since 1970. */
interface ServerTimes {
  readonly receivedAt: number
  readonly sentAt: number
}

function decodeReply(reply: Buffer, nonce: Uint8Array): ServerTimes | 'foreign' | 'unusable' {
  if (reply.length < PACKET_BYTES || !reply.subarray(24, 32).equals(nonce.subarray(0, 8))) return 'foreign'
  const [header = 0, stratum = 0] = reply
  // Stratum 0 is a refusal ("kiss of death", §7.4).
  if ((header & 7) !== SERVER_MODE || header >> 6 === UNSYNCHRONISED || stratum < 1 || stratum > MAX_STRATUM)
    return 'unusable'
  return { receivedAt: readTimestamp(reply, 32), sentAt: readTimestamp(reply, 40) }
}

function readTimestamp(reply: Buffer, at: number): number {
  const inEra = reply.readUInt32BE(at)
  const seconds = inEra < ERA_SECONDS / 2 ? inEra + ERA_SECONDS : inEra
  return (seconds - UNIX_EPOCH_SECONDS) * 1000 + (reply.readUInt32BE(at + 4) / ERA_SECONDS) * 1000
}
