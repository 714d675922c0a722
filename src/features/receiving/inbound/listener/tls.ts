/** @module Upgrades a connection of the SMTP listener to TLS (STARTTLS). */
import type { Socket } from 'node:net'
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls'
import type { Certificate } from './protocol.ts'

const MIN_TLS_VERSION = 'TLSv1.2'

export interface TlsEvents {
  onSecure(socket: TLSSocket): void
  onError(error: Error): void
  /** May be called more than once. */
  onClosed(): void
}

export const openSecureContext = ({ cert, key }: Certificate): SecureContext =>
  createSecureContext({ cert, key, minVersion: MIN_TLS_VERSION, honorCipherOrder: true })

/** Starts the handshake as server. From then on nothing else may read or write the socket. */
export function upgradeToTls(socket: Socket, secureContext: SecureContext, events: TlsEvents): TLSSocket {
  socket.removeAllListeners()
  socket.pause()
  const secure = new TLSSocket(socket, { isServer: true, secureContext })
  // On Bun a failed handshake destroys neither socket.
  const onFailed = (error: Error): void => {
    secure.destroy()
    socket.destroy()
    events.onError(error)
  }
  let isSecure = false
  const onError = (error: Error): void => (isSecure ? events.onError(error) : onFailed(error))
  socket.on('error', onError)
  for (const name of ['error', '_tlsError', 'clientError']) secure.on(name, onError)
  socket.on('close', () => events.onClosed())
  secure.on('close', () => {
    socket.destroy()
    events.onClosed()
  })
  // Listens once, because TLS 1.2 renegotiation emits the event again.
  secure.once('secure', () => {
    isSecure = true
    events.onSecure(secure)
  })
  return secure
}

/** Version and cipher: `TLSv1.3 TLS_AES_256_GCM_SHA384`. */
export function describeTls(socket: TLSSocket): string {
  const cipher = socket.getCipher()
  return `${socket.getProtocol() ?? 'TLS'} ${cipher?.standardName ?? cipher?.name ?? ''}`.trim()
}
