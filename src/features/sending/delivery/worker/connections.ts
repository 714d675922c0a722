/**
 * @module Opens SMTP sessions: dials the addresses of a route until one accepts the connection; and notes what happens
 * in an attempt. Never sends a message and never reuses a session; the pool in `deliver` does that.
 */
import { isIPv6 } from 'node:net'
import { createSecureContext, type SecureContext } from 'node:tls'
import { canOpenDescriptor } from '#platform/process/descriptors.ts'
import type { Clock } from '#platform/time/clock.ts'
import { KiB } from '#platform/units.ts'
import type { SmtpClient } from '#protocols/smtp/client.ts'
import { type ConnectResult, connectSmtp } from '#protocols/smtp/connect.ts'
import { describeTlsFailure, type SmtpFailure } from '#protocols/smtp/failures.ts'
import type { OnPhaseEnd } from '#protocols/smtp/timeouts.ts'
import {
  type AddressFailure,
  type AttemptResult,
  type AttemptSession,
  type AttemptTimings,
  type AttemptTraceData,
  nameProxy,
  type OutboundSource,
  type Route,
  type RouteHost,
  type WorkerSettings,
} from '../protocol.ts'

/** A session, and its details for the record of the attempt. */
export interface Connection {
  readonly client: SmtpClient
  readonly session: AttemptSession
  /** By the monotonic clock of the Worker. */
  readonly openedAtMs: number
  /** Whether the session carried a message before; the server may have closed it since then. */
  readonly isReused: boolean
  /** The attempt that uses the session now. */
  readonly user: { trace: AttemptTrace | undefined }
}

export type OpenResult =
  | { readonly kind: 'open'; readonly connection: Connection }
  | Extract<AttemptResult, { kind: 'unreachable' | 'postponed' | 'proxy_failed' }>

/** The failure of sessions whose attempt took too long. */
export const ATTEMPT_TIMEOUT: SmtpFailure = {
  kind: 'timeout',
  message: 'The server took too long while most capacity for deliveries was in use',
}

/** The addresses of a route in dialling order. */
export const listTargets = (route: Route): readonly Target[] =>
  route.hosts.flatMap(({ host, addresses, demand }) =>
    addresses.map((address) => ({ host, address, ...(demand && { demand }) })),
  )

export interface Target extends Pick<RouteHost, 'host' | 'demand'> {
  readonly address: string
}

export class Connections {
  readonly #clock: Clock
  readonly #settings: WorkerSettings
  readonly #onAddressFailed: (failure: AddressFailure) => void
  #nextSource = 0
  #secureContext: SecureContext | undefined

  constructor(clock: Clock, settings: WorkerSettings, onAddressFailed: (failure: AddressFailure) => void) {
    this.#clock = clock
    this.#settings = settings
    this.#onAddressFailed = onAddressFailed
  }

  /** The source of the route, or another one of the address's family; undefined when the system chooses. */
  #sourceFor({ source, fromOutboundIps }: Route, address: string): OutboundSource | undefined {
    const isUsable = ({ ip }: OutboundSource) => isIPv6(ip) === isIPv6(address)
    if (!fromOutboundIps || (source && isUsable(source))) return source
    const family = this.#settings.outboundSources.filter(isUsable)
    const usable = family.every(({ isProxied }) => isProxied) ? family : family.filter(({ isProxied }) => !isProxied)
    return usable[this.#nextSource++ % usable.length]
  }

  #getSecureContext(): SecureContext | undefined {
    const { authorities } = this.#settings
    // Created once, because loading the authorities takes longer than a handshake.
    if (authorities) this.#secureContext ??= createSecureContext({ ca: [...authorities] })
    return this.#secureContext
  }

  #dial(
    route: Route,
    { host, address, demand }: Target,
    source: OutboundSource | undefined,
    tls: Route['tls'],
    signal: AbortSignal,
    user: Connection['user'],
  ): Promise<ConnectResult> {
    user.trace?.beginServer(host, address, 'connecting to')
    const proxy = source?.isProxied ? this.#settings.proxies?.[source.ip] : undefined
    if (source && proxy) user.trace?.note(`through ${nameProxy(source.ip)}`)
    const isVerified = tls === 'implicit' || route.tls === 'required' || demand?.verifies === 'certificate'
    return connectSmtp({
      host,
      address,
      port: route.port,
      ehloName: source?.ehloName ?? this.#settings.ehloName,
      clock: this.#clock,
      abort: { signal, failure: ATTEMPT_TIMEOUT },
      tls,
      verifyCertificate: isVerified && !demand?.tlsa,
      tlsa: demand?.tlsa,
      secureContext: this.#getSecureContext(),
      transcript: (direction, line) => user.trace?.record(direction, line),
      onPhaseEnd: (phase) => user.trace?.endPhase(phase),
      ...(source && { localAddress: source.ip, proxy }),
      ...(route.auth && { auth: route.auth }),
    })
  }

  /**
   * Dials one address. With opportunistic TLS, a failed handshake is followed by a new session in clear, because
   * otherwise the mail would only be lost. If a handshake failed recently, TLS is not tried.
   */
  async #openAddress(
    route: Route,
    target: Target,
    source: OutboundSource | undefined,
    signal: AbortSignal,
    trace: AttemptTrace,
  ): Promise<Connection | Exclude<ConnectResult, { kind: 'connected' }>> {
    const user: Connection['user'] = { trace }
    const tls = target.demand ? 'required' : route.tls
    const isBroken = tls === 'opportunistic' && (route.plaintextAddresses?.includes(target.address) ?? false)
    let result = await this.#dial(route, target, source, isBroken ? 'never' : tls, signal, user)
    let handshakeFailure: SmtpFailure | undefined = isBroken ? RECENTLY_BROKEN : undefined
    if (tls === 'opportunistic' && isHandshakeFailure(result) && !signal.aborted) {
      handshakeFailure = result.failure
      trace.note(`the TLS handshake failed: ${handshakeFailure.message}`)
      this.#onAddressFailed({ address: target.address, kind: 'tls' })
      result = await this.#dial(route, target, source, 'never', signal, user)
    }
    if (result.kind === 'failed') trace.note(describeFailure(result, source))
    if (result.kind !== 'connected') return result
    const { client } = result
    return {
      client,
      session: toAttemptSession(client, target, handshakeFailure),
      openedAtMs: this.#clock.monotonicMs(),
      isReused: false,
      user,
    }
  }

  /**
   * Dials the addresses of a route in order, until one accepts the connection or `signal` is aborted. Starts at index
   * `from` and omits the hosts in `skipped`. `next` is the index after the last dialled address.
   */
  async open(
    route: Route,
    from: number,
    skipped: ReadonlySet<string>,
    signal: AbortSignal,
    trace: AttemptTrace,
  ): Promise<OpenResult & { readonly next: number }> {
    const none: Unreachable = {
      kind: 'unreachable',
      phase: 'connect',
      failure: { kind: 'unreachable', message: 'No mail host has a usable address' },
      tlsDemanded: false,
    }
    let last = none
    let refusal: Extract<AttemptResult, { kind: 'proxy_failed' }> | undefined
    const targets = listTargets(route)
    for (const [index, target] of targets.entries()) {
      if (index < from || skipped.has(target.host)) continue
      const hadDescriptor = canOpenDescriptor()
      const source = this.#sourceFor(route, target.address)
      const opened = await this.#openAddress(route, target, source, signal, trace)
      if ('client' in opened) return { kind: 'open', connection: opened, next: index + 1 }
      const phase = opened.kind === 'failed' ? opened.phase : undefined
      if ((phase === 'connect' || phase === 'proxy') && !(hadDescriptor && canOpenDescriptor()))
        return { kind: 'postponed', detail: 'this process has too many open files', next: index + 1 }
      if (source && opened.kind === 'failed' && (phase === 'proxy' || phase === 'request') && !signal.aborted) {
        const reason = `${where(route, target)}: ${describeFailure(opened, source)}`
        refusal = { kind: 'proxy_failed', source: source.ip, isDead: phase === 'proxy', reason }
        if (!refusal.isDead) continue
        return { ...refusal, reason: `T${describeFailure(opened, source).slice(1)}`, next: index + 1 }
      }
      if (isSilent(opened) && !signal.aborted) this.#onAddressFailed({ address: target.address, kind: 'connect' })
      const unreachable = toUnreachable(opened, target, route, source)
      // A host that lacks the demanded TLS is the reason, even if another host cannot be reached at all.
      if (unreachable.tlsDemanded || !last.tlsDemanded) last = unreachable
      if (signal.aborted) return { ...last, next: index + 1 }
    }
    return { ...(last === none ? (refusal ?? none) : last), next: targets.length }
  }
}

type Unreachable = Extract<AttemptResult, { kind: 'unreachable' }>

const where = ({ port }: Route, { host, address }: Target): string => `${host}[${address}]:${port}`

const RECENTLY_BROKEN: SmtpFailure = { kind: 'tls', message: 'not tried again, because it failed recently' }

/** Whether a server that offers TLS cannot do it: its handshake fails, or it goes on in clear after its 220. */
const isHandshakeFailure = (result: ConnectResult): result is Extract<ConnectResult, { kind: 'failed' }> =>
  result.kind === 'failed' &&
  (result.phase === 'tls' || (result.phase === 'starttls' && result.failure.kind === 'protocol'))

/** Whether an address did not answer at all, or cannot be reached. A refused connection costs no time. */
const isSilent = (result: Exclude<ConnectResult, { kind: 'connected' }>): boolean =>
  result.kind === 'failed' &&
  result.phase === 'connect' &&
  (result.failure.kind === 'timeout' || result.failure.kind === 'unreachable')

/** In phases of a connection that the proxy makes, the message is about the proxy. */
function describeFailure(
  { phase, failure: { message } }: Extract<ConnectResult, { kind: 'failed' }>,
  source: OutboundSource | undefined,
): string {
  if (!source?.isProxied) return message
  if (phase === 'proxy' || phase === 'request' || phase === 'connect') return `${nameProxy(source.ip)} ${message}`
  return `${message} (through ${nameProxy(source.ip)})`
}

function toAttemptSession(
  client: SmtpClient,
  { host, address }: Target,
  handshakeFailure: SmtpFailure | undefined,
): AttemptSession {
  const { localAddress } = client
  if (!client.tls) {
    const words = handshakeFailure ? `none: handshake failed: ${handshakeFailure.message}` : 'none: not offered'
    return { host, address, localAddress, tls: words }
  }
  const { protocol, cipher, authorized, authorizationError, matchesTlsa = false } = client.tls
  const words = matchesTlsa
    ? 'certificate matches the TLSA records'
    : authorized
      ? 'certificate verified'
      : `certificate not verified: ${authorizationError ?? 'unknown'}`
  return { host, address, localAddress, tls: `${protocol} ${cipher}, ${words}` }
}

function toUnreachable(
  result: Exclude<ConnectResult, { kind: 'connected' }>,
  target: Target,
  route: Route,
  source: OutboundSource | undefined,
): Unreachable {
  const { demand } = target
  const server = where(route, target)
  const isTlsPhase = result.phase === 'tls' || result.phase === 'starttls'
  const tlsDemanded = (demand !== undefined || route.tls === 'required' || route.tls === 'implicit') && isTlsPhase
  const ended = {
    kind: 'unreachable' as const,
    phase: result.phase,
    tlsDemanded,
    ...(tlsDemanded && demand && { tlsDemand: demand.words }),
  }
  if (result.kind === 'refused') {
    const message = `${server} rejected the session (${result.phase}): ${result.reply.text}`
    return { ...ended, failure: { kind: 'refused', message }, reply: result.reply }
  }
  const words = tlsDemanded ? ` ${describeTlsFailure(result.failure)}` : `: ${describeFailure(result, source)}`
  return { ...ended, failure: { ...result.failure, message: `${server}${words}` } }
}

/** Maximum length of a line of the dialogue, in characters; the rest is replaced by its length. */
const MAX_LINE_LENGTH = 1000
/** Of a long dialogue, the first and the last lines are recorded: up to this size each, in bytes of UTF-8. */
const MAX_END_BYTES = 8 * KiB

const CONTROLS = /[\x00-\x1f\x7f]/g

/** Who wrote a line of the dialogue; `*` is a remark of our own. */
export type DialogueMark = '>' | '<' | '*'

export class AttemptTrace {
  readonly #clock: Clock
  readonly #startedMs: number
  #phaseStartedMs: number
  #timings: AttemptTimings = {}
  #target: Pick<AttemptTraceData, 'host' | 'address'> = {}
  readonly #first: string[] = []
  #firstBytes = 0
  readonly #last: string[] = []
  #lastBytes = 0
  #omitted = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedMs = clock.monotonicMs()
    this.#phaseStartedMs = this.#startedMs
  }

  /** Begins with another server; the timings are those of the last one. */
  beginServer(host: string, address: string, how: 'connecting to' | 'reusing the session with'): void {
    this.#target = { host, address }
    this.#timings = {}
    this.#phaseStartedMs = this.#clock.monotonicMs()
    this.note(`${how} ${host} [${address}]`)
  }

  readonly endPhase: OnPhaseEnd = (phase) => {
    const now = this.#clock.monotonicMs()
    this.#timings[phase] = (this.#timings[phase] ?? 0) + Math.round(now - this.#phaseStartedMs)
    this.#phaseStartedMs = now
  }

  /** Adds a line of the session: the transcript of `protocols/smtp`. */
  readonly record = (direction: 'client' | 'server', line: string): void =>
    this.#add(direction === 'client' ? '>' : '<', line)

  note(text: string): void {
    this.#add('*', text)
  }

  toData(): AttemptTraceData {
    const omitted = this.#omitted > 0 ? [`${this.#elapsedMs()} * ${this.#omitted} lines omitted here`] : []
    return {
      ...this.#target,
      timings: this.#timings,
      dialogue: [...this.#first, ...omitted, ...this.#last].join('\n'),
    }
  }

  #elapsedMs(): number {
    return Math.round(this.#clock.monotonicMs() - this.#startedMs)
  }

  #add(mark: DialogueMark, text: string): void {
    const rest = text.length - MAX_LINE_LENGTH
    const shown = rest > 0 ? `${text.slice(0, MAX_LINE_LENGTH).toWellFormed()} [${rest} more characters]` : text
    const line = `${this.#elapsedMs()} ${mark} ${shown.replace(CONTROLS, ' ')}`
    const bytes = Buffer.byteLength(line) + 1
    if (this.#last.length === 0 && this.#firstBytes + bytes <= MAX_END_BYTES) {
      this.#first.push(line)
      this.#firstBytes += bytes
      return
    }
    this.#last.push(line)
    this.#lastBytes += bytes
    while (this.#lastBytes > MAX_END_BYTES) {
      this.#lastBytes -= Buffer.byteLength(this.#last.shift() ?? '') + 1
      this.#omitted++
    }
  }
}
