/**
 * @module Sends one request to an address that the caller has chosen and checked, and keeps an HTTPS connection for the
 * next one. Limits what it reads; never follows a redirect, decompresses, resolves a name or uses a proxy. Uses
 * node:https instead of Bun's fetch for two reasons (measured in Bun 1.4.5): fetch sends at most 256 concurrent
 * requests per process, so that 256 silent endpoints would block all others; and fetch obeys HTTPS_PROXY.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContext } from 'node:tls'
import { canOpenDescriptor } from '#platform/process/descriptors.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { KiB } from '#platform/units.ts'

export interface PostTarget {
  readonly address: string
  readonly port: number
  /** Name or address in the URL; the certificate must match it. */
  readonly host: string
  readonly authority: string
  readonly path: string
  /** False: in plain text. Only for requests of the head. */
  readonly isHttps: boolean
}

export interface PostContent {
  /** Default: POST. GET, HEAD and DELETE have no body. */
  readonly method?: 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'GET' | 'HEAD'
  /** Reads only the head of the response, over a connection of its own. */
  readonly isHeadOnly?: boolean
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  readonly maxResponseBytes: number
  /**
   * Takes each piece of the body of the response, which `body` then lacks; the caller copies what it keeps. False ends
   * the call.
   */
  readonly takeChunk?: (chunk: Uint8Array) => boolean
}

export interface PostLimits {
  /**
   * Aborts the request. If the head of the response has arrived, the result is still that response, with the body
   * received so far.
   */
  readonly signal: AbortSignal
  /** Time limit for dialling; undefined: only `signal` limits it. */
  readonly connectTimeoutMs?: number | undefined
}

export interface PostResponse {
  readonly kind: 'response'
  readonly status: number
  /** The first `maxResponseBytes` of the body as text: UTF-8, with replacement characters for invalid bytes. */
  readonly body: string
  /** The Retry-After field, unchecked. */
  readonly retryAfter?: string | undefined
  /** Present after a request without a body. */
  readonly bodyInfo?: BodyInfo
}

export type PostResult = PostResponse | PostFailure

export interface BodyInfo {
  /** The Content-Type field; '' without one. */
  readonly contentType: string
  /** The Location field, unchecked; '' without one. */
  readonly location: string
  /** Whether the body ended before its limit, and was not cut off. */
  readonly isComplete: boolean
}

export interface PostFailure {
  readonly kind: 'failed'
  /**
   * `unconnected`: nothing was sent, so another address may work. `own`: this process has too many open files, so no
   * address would work. `ended`: `signal` aborted the request.
   */
  readonly cause: 'unconnected' | 'own' | 'connection' | 'tls' | 'protocol' | 'ended'
  /** One sentence. */
  readonly reason: string
}

export interface HttpsPosterOptions {
  readonly clock: Clock
  /** Trusted certificate authorities in PEM; undefined: those of the system. */
  readonly ca?: readonly string[] | undefined
}

/** Many servers close an idle connection after 5 seconds; a request sent at that moment would be lost. */
const MAX_IDLE_MS = 4000
/** Maximum number of idle connections to all hosts together, so that they never exhaust the file descriptors. */
const MAX_IDLE_CONNECTIONS = 256
/** Maximum interim responses (100, 102, 103) to one request; a server that sends more is flooding. */
const MAX_INTERIM_RESPONSES = 8
const MAX_HEAD_BYTES = 32 * KiB

/** Opens no connection before the first request. */
export function createHttpsPoster({ clock, ca }: HttpsPosterOptions) {
  const agent = new KeepAliveAgent(clock)
  let secureContext: SecureContext | undefined
  const exchange = (target: PostTarget, content: PostContent, limits: PostLimits, isReusable: boolean) => {
    // Created once: loading the authorities takes longer than a handshake.
    secureContext ??= createSecureContext({ minVersion: 'TLSv1.2', ...(ca && { ca: [...ca] }) })
    return exchangeOnce(target, content, limits, { agent: isReusable ? agent : false, secureContext, clock })
  }
  return {
    async post(target: PostTarget, content: PostContent, limits: PostLimits): Promise<PostResult> {
      const first = await exchange(target, content, limits, !content.isHeadOnly)
      // `stale`: the server closed an idle connection while the request was on its way (RFC 9112 §9.3.1).
      return first === 'stale' ? ((await exchange(target, content, limits, false)) as PostResult) : first
    },
    /** Closes idle connections. */
    close: () => agent.destroy(),
  }
}

interface ExchangeContext {
  readonly agent: Agent | false
  readonly secureContext: SecureContext
  readonly clock: Clock
}

function exchangeOnce(
  target: PostTarget,
  content: PostContent,
  { signal, connectTimeoutMs }: PostLimits,
  context: ExchangeContext,
): Promise<PostResult | 'stale'> {
  return new Promise((resolve) => {
    let connecting: Timer | undefined
    let response: ReturnType<typeof readResponse> | undefined
    let informational = 0

    const outgoing = (target.isHttps ? httpsRequest : httpRequest)(toRequestOptions(target, content, context))
    const phase = trackPhase(outgoing, target, () => connecting?.cancel())

    const settle = (result: PostResult | 'stale') => {
      signal.removeEventListener('abort', end)
      connecting?.cancel()
      resolve(result)
    }
    const fail = (cause: PostFailure['cause'], reason: string) => settle({ kind: 'failed', cause, reason })
    const end = () => {
      if (response) settle(response.readSoFar())
      else fail('ended', 'The call was aborted.')
      outgoing.destroy()
    }

    outgoing.on('information', () => {
      if (++informational <= MAX_INTERIM_RESPONSES) return
      fail('protocol', `${target.host} sent too many interim responses.`)
      outgoing.destroy()
    })
    outgoing.on('upgrade', (_, socket: Duplex) => {
      fail('protocol', `${target.host} switched to another protocol without being asked.`)
      socket.destroy()
    })
    outgoing.on('response', (incoming: IncomingMessage) => {
      const reader = readResponse(incoming, content, settle)
      response = reader
      if (!content.isHeadOnly) return
      settle(reader.readSoFar())
      outgoing.destroy()
    })
    // This event also follows `destroy`, when the result is already settled.
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (response) settle(response.readToEnd())
      else if (phase() === 'connected' && outgoing.reusedSocket && isConnectionLoss(error)) settle('stale')
      else settle(toFailure(error, phase(), target))
    })
    outgoing.on('close', () => {
      if (!response) fail('connection', `${target.host} closed the connection before it responded.`)
    })

    if (signal.aborted) return end()
    signal.addEventListener('abort', end)
    if (connectTimeoutMs !== undefined) {
      connecting = context.clock.after(connectTimeoutMs, () => {
        fail('unconnected', `${target.host} (${target.address}) did not accept a connection.`)
        outgoing.destroy()
      })
    }
    outgoing.end(content.body)
  })
}

function toRequestOptions(
  target: PostTarget,
  content: PostContent,
  { agent, secureContext }: ExchangeContext,
): RequestOptions & { readonly secureContext: SecureContext } {
  return {
    method: content.method ?? 'POST',
    // The host is an address, so nothing is resolved again. The agent groups connections by address, port and server
    // name.
    host: target.address,
    port: target.port,
    path: target.path,
    // RFC 6066 §3 forbids addresses as server names; the certificate is then checked for `host`, the same address.
    servername: target.host === target.address ? '' : target.host,
    headers: {
      ...removeReservedHeaders(content.headers),
      host: target.authority,
      ...(hasBody(content.method) && { 'content-length': String(Buffer.byteLength(content.body)) }),
      'accept-encoding': 'identity',
    },
    agent,
    secureContext,
    // Set explicitly, because otherwise NODE_TLS_REJECT_UNAUTHORIZED decides.
    rejectUnauthorized: true,
    maxHeaderSize: MAX_HEAD_BYTES,
  }
}

const hasBody = (method: PostContent['method'] = 'POST'): boolean => /^P/.test(method)

type Phase = 'dialling' | 'handshake' | 'connected'

/**
 * Returns a function that returns the state of the request's connection. A reused connection is connected from the
 * start.
 */
function trackPhase(outgoing: ClientRequest, { isHttps }: PostTarget, onDialled: () => void): () => Phase {
  let phase: Phase = 'dialling'
  outgoing.on('socket', (socket: Socket) => {
    if (!socket.connecting) {
      phase = 'connected'
      return
    }
    socket.once('connect', () => {
      phase = isHttps ? 'handshake' : 'connected'
      onDialled()
    })
    socket.once('secureConnect', () => {
      phase = 'connected'
    })
  })
  return () => phase
}

/**
 * Reads up to `maxResponseBytes` of the body, then closes the connection. Calls `done` with the response even if the
 * body is cut off.
 */
function readResponse(
  incoming: IncomingMessage,
  { maxResponseBytes: maxBytes, method, takeChunk }: PostContent,
  done: (result: PostResult) => void,
) {
  // Each chunk is decoded immediately: it may be a small view of a large buffer, which would otherwise stay in memory.
  const decoder = new TextDecoder()
  let body = ''
  let leftBytes = maxBytes
  let isComplete = false
  /** The response with the body received so far. */
  const readSoFar = (): PostResult => ({
    kind: 'response',
    status: incoming.statusCode ?? 0,
    body,
    retryAfter: incoming.headers['retry-after'],
    ...(!hasBody(method) && {
      bodyInfo: {
        contentType: incoming.headers['content-type'] ?? '',
        location: incoming.headers.location ?? '',
        isComplete,
      },
    }),
  })
  incoming.on('data', (chunk: Buffer) => {
    const read = chunk.subarray(0, leftBytes)
    const isTaken = takeChunk?.(read) ?? true
    if (!takeChunk) body += decoder.decode(read, { stream: true })
    leftBytes -= chunk.length
    if (isTaken && leftBytes >= 0) return
    leftBytes = 0
    done(readSoFar())
    incoming.destroy()
  })
  incoming.on('end', () => {
    body += decoder.decode()
    isComplete = incoming.complete
    done(readSoFar())
  })
  incoming.on('error', () => done(readSoFar()))
  incoming.on('close', () => done(readSoFar()))
  /** The response so far, with what has arrived and not been read. */
  const readToEnd = (): PostResult => {
    incoming.read()
    return readSoFar()
  }
  return { readSoFar, readToEnd }
}

const RESERVED_HEADERS: readonly string[] =
  'host content-length transfer-encoding connection accept-encoding expect upgrade'.split(' ')

/** The caller's headers without those that this module sets itself. */
const removeReservedHeaders = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !RESERVED_HEADERS.includes(name.toLowerCase())))

const isConnectionLoss = ({ code = '' }: NodeJS.ErrnoException): boolean =>
  code === 'ECONNRESET' || code === 'EPIPE' || code === 'ERR_SOCKET_CLOSED'

function toFailure({ code = '' }: NodeJS.ErrnoException, phase: Phase, target: PostTarget): PostFailure {
  const { host, address, port } = target
  const failed = (cause: PostFailure['cause'], reason: string): PostFailure => ({ kind: 'failed', cause, reason })
  if (code === 'ECONNREFUSED' && !canOpenDescriptor())
    return failed('own', 'The service could not open a connection at the moment.')
  if (code === 'HPE_HEADER_OVERFLOW') return failed('protocol', `${host} sent a response with too large a head.`)
  if (code.startsWith('HPE_')) return failed('protocol', `${host} sent a response that is not HTTP.`)
  if (phase === 'dialling') {
    const what = code === 'ECONNREFUSED' ? 'refused the connection' : 'cannot be reached'
    return failed('unconnected', `${host} (${address}) ${what} on port ${port}.`)
  }
  if (phase === 'handshake' || /^ERR_(SSL|TLS)_/.test(code)) {
    return failed('tls', TLS_REASONS[code]?.(host) ?? `The TLS handshake with ${host} failed (${code}).`)
  }
  return failed('connection', `${host} closed the connection before it responded.`)
}

const describeUntrusted = (host: string): string =>
  `The TLS certificate of ${host} is not from a trusted authority; its chain must be complete, and a private authority must be in TASSIS_EXTRA_CA_FILE.`

const TLS_REASONS: Readonly<Record<string, (host: string) => string>> = {
  CERT_HAS_EXPIRED: (host) => `The TLS certificate of ${host} has expired.`,
  CERT_NOT_YET_VALID: (host) => `The TLS certificate of ${host} is not valid yet.`,
  ERR_TLS_CERT_ALTNAME_INVALID: (host) => `The TLS certificate is not for ${host}.`,
  DEPTH_ZERO_SELF_SIGNED_CERT: describeUntrusted,
  SELF_SIGNED_CERT_IN_CHAIN: describeUntrusted,
  UNABLE_TO_GET_ISSUER_CERT: describeUntrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: describeUntrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: describeUntrusted,
  ERR_SSL_WRONG_VERSION_NUMBER: (host) => `${host} does not speak TLS on this port.`,
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: (host) => `${host} does not speak TLS 1.2 or newer.`,
  ERR_SSL_UNSUPPORTED_PROTOCOL: (host) => `${host} does not speak TLS 1.2 or newer.`,
  ECONNRESET: (host) => `${host} closed the connection in the TLS handshake.`,
  ERR_SOCKET_CLOSED: (host) => `${host} closed the connection in the TLS handshake.`,
}

/** Keeps a limited number of idle connections for a short time, measured by the service's clock. */
class KeepAliveAgent extends Agent {
  readonly #clock: Clock
  /** Idle connections; the one that has been idle longest comes first. */
  readonly #idle = new Map<Duplex, { readonly timer: Timer; readonly evict: () => void }>()

  constructor(clock: Clock) {
    // No TLS session is resumed, so each connection verifies the certificate again.
    super({ keepAlive: true, maxCachedSessions: 0, maxFreeSockets: MAX_IDLE_CONNECTIONS })
    this.#clock = clock
  }

  /**
   * Returns whether the connection is kept. The base class, which decides first, obeys the server's Keep-Alive timeout.
   */
  override keepSocketAlive(socket: Duplex): boolean {
    const isKept: unknown = super.keepSocketAlive(socket)
    if (isKept === false) return false
    const oldest = this.#idle.keys().next().value
    if (this.#idle.size >= MAX_IDLE_CONNECTIONS && oldest) {
      this.#evict(oldest)
      oldest.destroy()
    }
    const evict = () => this.#evict(socket)
    this.#idle.set(socket, { timer: this.#clock.after(MAX_IDLE_MS, () => socket.destroy()), evict })
    socket.once('close', evict)
    return true
  }

  override reuseSocket(socket: Duplex, request: ClientRequest): void {
    this.#evict(socket)
    super.reuseSocket(socket, request)
  }

  #evict(socket: Duplex): void {
    const kept = this.#idle.get(socket)
    if (kept === undefined) return
    this.#idle.delete(socket)
    kept.timer.cancel()
    socket.off('close', kept.evict)
  }
}
