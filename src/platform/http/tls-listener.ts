/**
 * @module Accepts TLS connections and passes their plain octets on to an HTTP listener on loopback. The certificate is
 * chosen by server name for each connection, so it may change at any time. Bun's own HTTP server cannot do that: its
 * `reload` ignores `tls`, and it knows no ALPN (measured in Bun 1.4.5).
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import { canOpenDescriptor } from '#platform/process/descriptors.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '../units.ts'
import type { TlsClient } from './connection-guard.ts'

export interface TlsCertificates {
  /** The certificate for a server name (SNI); '' when the client sent none. */
  contextFor(serverName: string): SecureContext
  /**
   * The certificate for a protocol that the client names alone in its ClientHello (ALPN), while there is one: its
   * connection then ends after the handshake.
   */
  probe?(): { readonly protocol: string; readonly context: SecureContext } | undefined
}

export interface TlsListenerOptions {
  readonly hostname: string
  readonly port: number
  readonly certificates: TlsCertificates
  /** The HTTP listener on 127.0.0.1. */
  readonly targetPort: number
  /** Called before a connection to the HTTP listener carries anything, with its port there. */
  readonly onConnected: (port: number, client: TlsClient) => void
  readonly onClosed: (port: number) => void
  readonly clock: Pick<Clock, 'after'>
}

const HANDSHAKE_TIMEOUT_MS = seconds(10)
/** Each has three descriptors. */
const MAX_CONNECTIONS = 5000
/** RFC 8446 §5.1: type, version and length. */
const RECORD_HEADER_BYTES = 5
const HANDSHAKE_RECORD = 22
const MAX_RECORD_BYTES = 16_384 + RECORD_HEADER_BYTES

export type TlsListener = Awaited<ReturnType<typeof startTlsListener>>

/** Resolves when it listens; rejects with the system's error, such as EADDRINUSE. */
export async function startTlsListener(options: TlsListenerOptions) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    if (sockets.size >= MAX_CONNECTIONS || !canOpenDescriptor()) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    acceptConnection(socket, options)
  })
  server.listen(options.port, options.hostname)
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the TLS listener has no port')
  server.on('error', () => undefined)
  return {
    hostname: address.address,
    port: address.port,
    /** Accepts no further connection; open ones end with those of the HTTP listener, or by `closeAll`. */
    stop: () => void server.close(),
    closeAll() {
      for (const socket of sockets) socket.destroy()
    },
  }
}

function acceptConnection(socket: Socket, options: TlsListenerOptions): void {
  const { certificates, clock } = options
  // A client that sends nothing, or half a handshake, costs a socket for this time only.
  const timer = clock.after(HANDSHAKE_TIMEOUT_MS, () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('close', () => timer.cancel())
  const probe = certificates.probe?.()
  const onSecure = () => timer.cancel()
  if (!probe) {
    upgrade(socket, options, onSecure)
    return
  }
  readFirstRecord(socket, (record) => {
    if (offersOnly(record, probe.protocol)) answerProbe(socket, probe)
    else upgrade(socket, options, onSecure)
  })
}

/** Reads the first TLS record, which has the ClientHello, and puts it back. */
function readFirstRecord(socket: Socket, onRecord: (record: Buffer) => void): void {
  let seen: Buffer = Buffer.alloc(0)
  const onData = (chunk: Buffer) => {
    seen = Buffer.concat([seen, chunk])
    const wanted = seen[0] === HANDSHAKE_RECORD && seen.length >= RECORD_HEADER_BYTES ? seen.readUInt16BE(3) : 0
    const isIncomplete =
      seen[0] === HANDSHAKE_RECORD &&
      (seen.length < RECORD_HEADER_BYTES || seen.length < Math.min(wanted + RECORD_HEADER_BYTES, MAX_RECORD_BYTES))
    if (isIncomplete) return
    socket.off('data', onData)
    socket.pause()
    socket.unshift(seen)
    onRecord(seen)
  }
  socket.on('data', onData)
}

/** Whether a ClientHello has an ALPN extension with one protocol, this one (RFC 7301 §3.1). */
function offersOnly(record: Buffer, protocol: string): boolean {
  const name = Buffer.from(protocol)
  const list = Buffer.concat([Buffer.from([name.length]), name])
  const extension = Buffer.alloc(6)
  extension.writeUInt16BE(16, 0)
  extension.writeUInt16BE(list.length + 2, 2)
  extension.writeUInt16BE(list.length, 4)
  return record.includes(Buffer.concat([extension, list]))
}

function answerProbe(
  socket: Socket,
  { protocol, context }: NonNullable<ReturnType<Required<TlsCertificates>['probe']>>,
) {
  const secure = new TLSSocket(socket, { isServer: true, secureContext: context, ALPNProtocols: [protocol] })
  closeTogether(secure, socket)
  secure.once('secure', () => secure.end())
}

function upgrade(socket: Socket, options: TlsListenerOptions, onSecure: () => void): void {
  const { certificates } = options
  const client = { address: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 }
  const secure = new TLSSocket(socket, {
    isServer: true,
    secureContext: certificates.contextFor(''),
    SNICallback: (serverName: string, done: (error: Error | null, context?: SecureContext) => void) =>
      done(null, certificates.contextFor(serverName)),
    ALPNProtocols: ['http/1.1'],
  })
  closeTogether(secure, socket)
  secure.once('secure', () => {
    onSecure()
    joinConnections(secure, client, options)
  })
}

/** On Bun a failed handshake destroys neither socket. */
function closeTogether(secure: TLSSocket, socket: Socket): void {
  const close = () => {
    secure.destroy()
    socket.destroy()
  }
  secure.on('error', close)
  secure.on('close', close)
}

/** Passes octets on in both directions; each side waits for the other. */
function joinConnections(secure: TLSSocket, client: TlsClient, options: TlsListenerOptions): void {
  const inner = connect({ host: '127.0.0.1', port: options.targetPort })
  let port: number | undefined
  inner.on('connect', () => {
    port = inner.localPort ?? 0
    options.onConnected(port, client)
    secure.pipe(inner)
    inner.pipe(secure)
  })
  inner.on('error', () => secure.destroy())
  inner.on('close', () => {
    if (port !== undefined) options.onClosed(port)
    secure.end()
  })
  secure.on('close', () => inner.destroy())
}
