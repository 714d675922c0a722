/**
 * @module Sends one HEAD or GET to an address that the caller has chosen and checked, and reads only the head of the
 * response. Never follows a redirect, reads a body, resolves a name or uses a proxy.
 */
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { KiB } from '#platform/units.ts'
import type { PostTarget } from './https-post.ts'

export interface ProbeTarget extends PostTarget {
  readonly isHttps: boolean
}

export interface ProbeRequest {
  readonly method: 'HEAD' | 'GET'
  readonly headers: Readonly<Record<string, string>>
}

export type ProbeResult =
  | {
      readonly kind: 'response'
      readonly status: number
      readonly location: string | undefined
    }
  | { readonly kind: 'failed'; readonly reason: string }

const MAX_HEAD_BYTES = 32 * KiB

/** @param ca trusted certificate authorities in PEM; undefined: those of the system */
export function probeOnce(
  target: ProbeTarget,
  { method, headers }: ProbeRequest,
  { signal, ca }: { readonly signal: AbortSignal; readonly ca?: readonly string[] | undefined },
): Promise<ProbeResult> {
  return new Promise((resolve) => {
    const fail = (reason: string) => resolve({ kind: 'failed', reason })
    const options: RequestOptions & { readonly rejectUnauthorized: boolean } = {
      method,
      // An address, so nothing is resolved again.
      host: target.address,
      port: target.port,
      path: target.path,
      headers: { ...headers, host: target.authority, 'accept-encoding': 'identity', connection: 'close' },
      agent: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      rejectUnauthorized: true,
      signal,
    }
    const onResponse = (incoming: IncomingMessage) => {
      resolve({ kind: 'response', status: incoming.statusCode ?? 0, location: incoming.headers.location })
      incoming.destroy()
    }
    const outgoing = target.isHttps
      ? httpsRequest(
          {
            ...options,
            // RFC 6066 §3 forbids addresses as server names.
            servername: target.host === target.address ? '' : target.host,
            minVersion: 'TLSv1.2',
            ...(ca && { ca: [...ca] }),
          },
          onResponse,
        )
      : httpRequest(options, onResponse)
    outgoing.on('upgrade', (_, socket) => {
      fail(`${target.host} switched to another protocol without being asked.`)
      socket.destroy()
    })
    outgoing.on('error', (error: NodeJS.ErrnoException) => fail(describeError(error, target)))
    outgoing.on('close', () => fail(`${target.host} closed the connection before it responded.`))
    outgoing.end()
  })
}

function describeError({ code = '' }: NodeJS.ErrnoException, { host, isHttps }: ProbeTarget): string {
  if (code === 'ECONNREFUSED') return `${host} refused the connection.`
  if (code === 'CERT_HAS_EXPIRED') return `The TLS certificate of ${host} has expired.`
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `The TLS certificate is not for ${host}.`
  if (/SELF_SIGNED|UNABLE_TO_(GET|VERIFY)/.test(code))
    return `The TLS certificate of ${host} is not from a trusted authority.`
  if (/^ERR_(SSL|TLS)_/.test(code)) return `The TLS handshake with ${host} failed.`
  if (code.startsWith('HPE_')) return `${host} sent a response that is not HTTP.`
  return isHttps
    ? `${host} closed the connection before it responded.`
    : `${host} cannot be reached, or closed the connection.`
}
