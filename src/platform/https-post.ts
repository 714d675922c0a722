/**
 * @module One POST over HTTPS to one address that its caller has chosen and checked, with connections kept for the next. Bounded in what it
 * reads; never follows a redirect, decompresses, resolves a name or asks a proxy. On node:https, because Bun's fetch sends at most 256
 * requests at once in the whole process, so that 256 silent endpoints stop all others, and goes through HTTPS_PROXY (measured in Bun 1.4.5).
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock, Timer } from './clock.ts'
import { canOpenDescriptor } from './descriptors.ts'
import { KiB } from './units.ts'

export interface PostTarget {
  /** The address that is dialled. */
  readonly address: string
  readonly port: number
  /** Name or address in the URL: the certificate has to be for it. */
  readonly host: string
  /** The Host header. */
  readonly authority: string
  /** Path and query. */
  readonly path: string
}

export interface PostContent {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  readonly maxResponseBytes: number
}

export interface PostLimits {
  /** Ends the request. What has arrived of a response whose head is here still counts. */
  readonly signal: AbortSignal
  /** Ends the dialling; undefined leaves that to `signal`. */
  readonly connectTimeoutMs?: number | undefined
}

export type PostResult = { readonly kind: 'response'; readonly status: number; readonly body: string } | PostFailure

export interface PostFailure {
  readonly kind: 'failed'
  /** `unconnected`: nothing was sent, another address may do. `own`: none would, this process has too many files open. `ended`: by the signal. */
  readonly cause: 'unconnected' | 'own' | 'connection' | 'tls' | 'protocol' | 'ended'
  /** One sentence. */
  readonly reason: string
}

export interface HttpsPoster {
  post(target: PostTarget, content: PostContent, limits: PostLimits): Promise<PostResult>
  /** Ends the kept connections. */
  close(): void
}

export interface HttpsPosterOptions {
  readonly clock: Clock
  /** The authorities that are trusted, PEM; undefined: the usual ones. */
  readonly ca?: readonly string[] | undefined
}

/** Many servers close an idle connection after 5 seconds; a request that meets this is lost. */
const MAX_IDLE_MS = 4000
/** Over all hosts, so that kept connections never use up the file descriptors. */
const MAX_IDLE_CONNECTIONS = 256
/** 100, 102, 103: more than a few are a flood. */
const MAX_INTERIM_RESPONSES = 8
const MAX_HEAD_BYTES = 32 * KiB

/** Opens nothing until asked. */
export function createHttpsPoster({ clock, ca }: HttpsPosterOptions): HttpsPoster {
  const agent = new KeepAliveAgent(clock)
  let secureContext: SecureContext | undefined
  const exchange = (target: PostTarget, content: PostContent, limits: PostLimits, keeps: boolean) => {
    // Once for all: to read the authorities takes longer than a handshake.
    secureContext ??= createSecureContext({ minVersion: 'TLSv1.2', ...(ca && { ca: [...ca] }) })
    return exchangeOnce(target, content, limits, { agent: keeps ? agent : false, secureContext, clock })
  }
  return {
    async post(target, content, limits) {
      const first = await exchange(target, content, limits, true)
      // The other side closed a kept connection while the request was on its way (RFC 9112 §9.3.1).
      return first === 'stale' ? requireFresh(await exchange(target, content, limits, false)) : first
    },
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
  means: ExchangeContext,
): Promise<PostResult | 'stale'> {
  return new Promise((resolve) => {
    let connecting: Timer | undefined
    let response: ResponseReader | undefined
    let informational = 0

    const outgoing = httpsRequest(toRequestOptions(target, content, means))
    const phase = trackPhase(outgoing, () => connecting?.cancel())

    const settle = (result: PostResult | 'stale') => {
      signal.removeEventListener('abort', end)
      connecting?.cancel()
      resolve(result)
    }
    const fail = (cause: PostFailure['cause'], reason: string) => settle({ kind: 'failed', cause, reason })
    const end = () => {
      if (response) settle(response.taken())
      else fail('ended', 'The call was ended.')
      outgoing.destroy()
    }

    outgoing.on('information', () => {
      if (++informational <= MAX_INTERIM_RESPONSES) return
      fail('protocol', `${target.host} sent too many interim responses.`)
      outgoing.destroy()
    })
    outgoing.on('upgrade', (_, socket: Duplex) => {
      fail('protocol', `${target.host} changed to another protocol, which was not asked for.`)
      socket.destroy()
    })
    outgoing.on('response', (incoming: IncomingMessage) => {
      const reader = readResponse(incoming, content.maxResponseBytes, settle)
      response = reader
    })
    // Also comes, and is then ignored, after `destroy`.
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (response) settle(response.taken())
      else if (phase() === 'connected' && outgoing.reusedSocket && isConnectionLoss(error)) settle('stale')
      else settle(toFailure(error, phase(), target))
    })
    outgoing.on('close', () => {
      if (!response) fail('connection', `${target.host} closed the connection before it answered.`)
    })

    if (signal.aborted) return end()
    signal.addEventListener('abort', end)
    if (connectTimeoutMs !== undefined) {
      connecting = means.clock.after(connectTimeoutMs, () => {
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
    method: 'POST',
    // An address: nothing is resolved a second time. Connections are kept by address, port and server name.
    host: target.address,
    port: target.port,
    path: target.path,
    // RFC 6066 §3 knows no addresses; the certificate is then checked for `host`, which is the same address.
    servername: target.host === target.address ? '' : target.host,
    headers: {
      ...removeReservedHeaders(content.headers),
      host: target.authority,
      'content-length': String(Buffer.byteLength(content.body)),
      'accept-encoding': 'identity',
    },
    agent,
    secureContext,
    // Explicitly: NODE_TLS_REJECT_UNAUTHORIZED would be the default.
    rejectUnauthorized: true,
    maxHeaderSize: MAX_HEAD_BYTES,
  }
}

type Phase = 'dialling' | 'handshake' | 'connected'

/** How far the connection of a request has come; a kept one is there at once. */
function trackPhase(outgoing: ClientRequest, onDialled: () => void): () => Phase {
  let phase: Phase = 'dialling'
  outgoing.on('socket', (socket: Socket) => {
    if (!socket.connecting) {
      phase = 'connected'
      return
    }
    socket.once('connect', () => {
      phase = 'handshake'
      onDialled()
    })
    socket.once('secureConnect', () => {
      phase = 'connected'
    })
  })
  return () => phase
}

interface ResponseReader {
  /** The response with what has arrived of its body. */
  taken(): PostResult
}

/** Reads up to `maxBytes` of the body, then ends the connection; `done` gets the response, whatever became of its end. */
function readResponse(incoming: IncomingMessage, maxBytes: number, done: (result: PostResult) => void): ResponseReader {
  // Decoded at once: a chunk may be a small view of a large buffer, which must not be held.
  const decoder = new TextDecoder()
  let body = ''
  let leftBytes = maxBytes
  const taken = (): PostResult => ({ kind: 'response', status: incoming.statusCode ?? 0, body })
  incoming.on('data', (chunk: Buffer) => {
    body += decoder.decode(chunk.subarray(0, leftBytes), { stream: true })
    leftBytes -= chunk.length
    if (leftBytes >= 0) return
    leftBytes = 0
    done(taken())
    incoming.destroy()
  })
  incoming.on('end', () => {
    body += decoder.decode()
    done(taken())
  })
  incoming.on('error', () => done(taken()))
  incoming.on('close', () => done(taken()))
  return { taken }
}

const RESERVED_HEADERS: readonly string[] = [
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'accept-encoding',
  'expect',
  'upgrade',
]

/** The headers of the caller but those that say how the request is sent, which is decided here. */
const removeReservedHeaders = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !RESERVED_HEADERS.includes(name.toLowerCase())))

const isConnectionLoss = ({ code = '' }: NodeJS.ErrnoException): boolean =>
  code === 'ECONNRESET' || code === 'EPIPE' || code === 'ERR_SOCKET_CLOSED'

function requireFresh(result: PostResult | 'stale'): PostResult {
  if (result === 'stale') throw new Error('a new connection was taken for a kept one')
  return result
}

function toFailure({ code = '' }: NodeJS.ErrnoException, phase: Phase, target: PostTarget): PostFailure {
  const { host, address, port } = target
  const failed = (cause: PostFailure['cause'], reason: string): PostFailure => ({ kind: 'failed', cause, reason })
  if (code === 'ECONNREFUSED' && !canOpenDescriptor())
    return failed('own', 'The service could not open a connection for the moment.')
  if (code === 'HPE_HEADER_OVERFLOW') return failed('protocol', `${host} sent a response with too large a head.`)
  if (code.startsWith('HPE_')) return failed('protocol', `${host} answered with what is not HTTP.`)
  if (phase === 'dialling') {
    const what = code === 'ECONNREFUSED' ? 'refused the connection' : 'cannot be reached'
    return failed('unconnected', `${host} (${address}) ${what} on port ${port}.`)
  }
  if (phase === 'handshake' || /^ERR_(SSL|TLS)_/.test(code)) {
    return failed('tls', TLS_REASONS[code]?.(host) ?? `The TLS handshake with ${host} failed (${code}).`)
  }
  return failed('connection', `${host} closed the connection before it answered.`)
}

const describeUntrusted = (host: string): string =>
  `The TLS certificate of ${host} is not from an authority that is trusted; its chain must be complete, and the operator names a private authority in TASSIS_EXTRA_CA_FILE.`

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

/** Keeps connections for a short while and not too many of them, by the clock of the service. */
class KeepAliveAgent extends Agent {
  readonly #clock: Clock
  /** The connections that wait for a request, the longest first. */
  readonly #idle = new Map<Duplex, { readonly timer: Timer; readonly forget: () => void }>()

  constructor(clock: Clock) {
    // Each connection is verified by itself: no TLS session is taken up again.
    super({ keepAlive: true, maxCachedSessions: 0, maxFreeSockets: MAX_IDLE_CONNECTIONS })
    this.#clock = clock
  }

  /** Whether the connection is kept; the base class also obeys the time that the server gave in Keep-Alive. */
  override keepSocketAlive(socket: Duplex): boolean {
    const isKept: unknown = super.keepSocketAlive(socket)
    if (isKept === false) return false
    const oldest = this.#idle.keys().next().value
    if (this.#idle.size >= MAX_IDLE_CONNECTIONS && oldest) {
      this.#evict(oldest)
      oldest.destroy()
    }
    const forget = () => this.#evict(socket)
    this.#idle.set(socket, { timer: this.#clock.after(MAX_IDLE_MS, () => socket.destroy()), forget })
    socket.once('close', forget)
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
    socket.off('close', kept.forget)
  }
}
