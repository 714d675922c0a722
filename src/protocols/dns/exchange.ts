/**
 * @module Sends one DNS question to one server: over UDP from a new port each time, over TCP when the response is
 * truncated (RFC 7766). Holds no socket open between questions, so it never keeps a process alive. No cache, no second
 * server, no CNAME resolution.
 */
import { connect, isIPv6 } from 'node:net'
import type { Clock } from '#platform/time/clock.ts'
import { decodeResponse, encodeQuery, type Question, type Response } from './message.ts'

export interface ServerAddress {
  readonly host: string
  readonly port: number
}

/** `silent`: no response in time; `broken`: the server was unreachable, or its response was cut off or unreadable. */
export type ExchangeResult =
  | { readonly kind: 'response'; readonly response: Response }
  | { readonly kind: 'silent' }
  | { readonly kind: 'broken' }
  /** The question was not sent, because this process has too many open files. */
  | { readonly kind: 'unasked' }

export interface ExchangeOptions {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly randomId: () => number
  /** When aborted, ends the exchange as `broken`. */
  readonly signal: AbortSignal
}

/**
 * Asks `server` over UDP; asks again without EDNS if the server does not support EDNS, and over TCP if the response was
 * truncated.
 */
export async function exchange(
  server: ServerAddress,
  question: Question,
  options: ExchangeOptions,
): Promise<ExchangeResult> {
  let result = await exchangeOverUdp(server, question, true, options)
  if (result.kind === 'response' && result.response.rcode === 'unsupported') {
    result = await exchangeOverUdp(server, question, false, options)
  }
  if (result.kind === 'response' && result.response.truncated) return exchangeOverTcp(server, question, options)
  return result
}

type ConnectedSocket = Bun.udp.ConnectedSocket<'buffer'>

function exchangeOverUdp(
  server: ServerAddress,
  question: Question,
  edns: boolean,
  options: ExchangeOptions,
): Promise<ExchangeResult> {
  const id = options.randomId() & 0xffff
  const query = encodeQuery(question, id, edns)
  return new Promise((resolve) => {
    let socket: ConnectedSocket | undefined
    const finish = createFinish(options, resolve, () => socket?.close())
    // Each query has its own socket: the port, chosen by the system, is half of what a forger must guess (RFC 5452
    // §9.2). The socket is connected, so that the kernel drops datagrams from other sources and reports a closed port
    // immediately.
    const { host, port } = server
    const local = isIPv6(host) ? '::' : '0.0.0.0'
    const handlers = {
      data(_: ConnectedSocket, bytes: Buffer) {
        const read = decodeResponse(bytes, question, id)
        if (read.kind !== 'other') finish(read.kind === 'malformed' ? { kind: 'broken' } : read)
      },
      error: () => finish({ kind: 'broken' }),
    }
    // Without a route to the server, opening throws or sending does.
    Promise.try(() => Bun.udpSocket({ hostname: local, connect: { hostname: host, port }, socket: handlers }))
      .then((opened) => {
        socket = opened
        if (finish.isDone()) socket.close()
        else socket.send(query)
      })
      .catch((error: Error) => finish({ kind: isOutOfFiles(error) ? 'unasked' : 'broken' }))
  })
}

function exchangeOverTcp(server: ServerAddress, question: Question, options: ExchangeOptions): Promise<ExchangeResult> {
  const id = options.randomId() & 0xffff
  const query = encodeQuery(question, id, true)
  const length = Buffer.alloc(2)
  length.writeUInt16BE(query.length)
  return new Promise((resolve) => {
    const socket = connect(server.port, server.host)
    const finish = createFinish(options, resolve, () => socket.destroy())
    const chunks: Buffer[] = []
    let receivedBytes = 0
    socket.on('error', () => finish({ kind: 'broken' }))
    socket.on('close', () => finish({ kind: 'broken' }))
    socket.on('connect', () => socket.write(Buffer.concat([length, query])))
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      receivedBytes += chunk.length
      // The length field has 16 bits, so a response has at most 64 KiB.
      if (receivedBytes < 2) return
      const bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks)
      chunks.splice(0, chunks.length, bytes)
      const end = 2 + bytes.readUInt16BE(0)
      if (bytes.length < end) return
      const read = decodeResponse(bytes.subarray(2, end), question, id)
      finish(read.kind === 'response' ? read : { kind: 'broken' })
    })
  })
}

const isOutOfFiles = (error: Error): boolean => 'code' in error && (error.code === 'EMFILE' || error.code === 'ENFILE')

interface Finish {
  (result: ExchangeResult): void
  isDone(): boolean
}

/** Creates the function that ends an exchange. Only its first call counts, which also releases timer and socket. */
function createFinish(
  options: ExchangeOptions,
  resolve: (result: ExchangeResult) => void,
  release: () => void,
): Finish {
  let isDone = false
  const finish = (result: ExchangeResult): void => {
    if (isDone) return
    isDone = true
    timer.cancel()
    options.signal.removeEventListener('abort', abort)
    release()
    resolve(result)
  }
  const abort = () => finish({ kind: 'broken' })
  const timer = options.clock.after(options.timeoutMs, () => finish({ kind: 'silent' }))
  options.signal.addEventListener('abort', abort)
  return Object.assign(finish, { isDone: () => isDone })
}
