/**
 * @module Opens SMTP sessions: dials the addresses of a route until one accepts the connection. Never sends a message
 * and never reuses a session; `session-pool` does that.
 */
import { isIPv6 } from 'node:net'
import type { Clock } from '#platform/clock.ts'
import { canOpenDescriptor } from '#platform/descriptors.ts'
import type { SmtpClient } from '#protocols/smtp/client.ts'
import { type ConnectResult, connectSmtp } from '#protocols/smtp/connect.ts'
import type { SmtpFailure } from '#protocols/smtp/failures.ts'
import type { AttemptTrace } from './attempt-trace.ts'
import type {
  AddressFailure,
  AttemptResult,
  AttemptSession,
  OutboundSource,
  Route,
  WorkerSettings,
} from './protocol.ts'

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
  | Extract<AttemptResult, { kind: 'unreachable' | 'postponed' }>

/** The failure of sessions whose attempt took too long. */
export const ATTEMPT_TIMEOUT: SmtpFailure = {
  kind: 'timeout',
  message: 'The server took too long while most capacity for deliveries was in use',
}

/** The addresses of a route in dialling order. */
export const listTargets = (route: Route): readonly { readonly host: string; readonly address: string }[] =>
  route.hosts.flatMap(({ host, addresses }) => addresses.map((address) => ({ host, address })))

/** Opens the SMTP sessions of one Worker. */
export class Connections {
  readonly #clock: Clock
  readonly #settings: WorkerSettings
  readonly #onAddressFailed: (failure: AddressFailure) => void
  #nextSource = 0

  constructor(clock: Clock, settings: WorkerSettings, onAddressFailed: (failure: AddressFailure) => void) {
    this.#clock = clock
    this.#settings = settings
    this.#onAddressFailed = onAddressFailed
  }

  /** The source of the route, or another one of the address's family; undefined when the system chooses. */
  #sourceFor({ source, fromOutboundIps }: Route, address: string): OutboundSource | undefined {
    const isUsable = ({ ip }: OutboundSource) => isIPv6(ip) === isIPv6(address)
    if (!fromOutboundIps || (source && isUsable(source))) return source
    const usable = this.#settings.outboundSources.filter(isUsable)
    return usable[this.#nextSource++ % usable.length]
  }

  #dial(
    route: Route,
    { host, address }: { readonly host: string; readonly address: string },
    tls: Route['tls'],
    signal: AbortSignal,
    user: Connection['user'],
  ): Promise<ConnectResult> {
    user.trace?.beginServer(host, address, 'connecting to')
    const source = this.#sourceFor(route, address)
    return connectSmtp({
      host,
      address,
      port: route.port,
      ehloName: source?.ehloName ?? this.#settings.ehloName,
      clock: this.#clock,
      abort: { signal, failure: ATTEMPT_TIMEOUT },
      tls,
      verifyCertificate: route.tls === 'required' || route.tls === 'implicit',
      transcript: (direction, line) => user.trace?.record(direction, line),
      onPhaseEnd: (phase) => user.trace?.endPhase(phase),
      ...(source && { localAddress: source.ip }),
      ...(route.auth && { auth: route.auth }),
    })
  }

  /**
   * Dials one address. With opportunistic TLS, a failed handshake is followed by a session in clear, because otherwise
   * the mail would only be lost. If a handshake failed recently, TLS is not tried.
   */
  async #openAddress(
    route: Route,
    host: string,
    address: string,
    signal: AbortSignal,
    trace: AttemptTrace,
  ): Promise<Connection | Exclude<ConnectResult, { kind: 'connected' }>> {
    const user: Connection['user'] = { trace }
    const isBroken = route.plaintextAddresses?.includes(address) ?? false
    let result = await this.#dial(route, { host, address }, isBroken ? 'never' : route.tls, signal, user)
    let handshakeError = isBroken ? 'not tried again, because it failed recently' : undefined
    if (route.tls === 'opportunistic' && result.kind === 'failed' && result.phase === 'tls' && !signal.aborted) {
      handshakeError = result.failure.message
      trace.note(`the TLS handshake failed: ${handshakeError}`)
      this.#onAddressFailed({ address, kind: 'tls' })
      result = await this.#dial(route, { host, address }, 'never', signal, user)
    }
    if (result.kind === 'failed') trace.note(result.failure.message)
    if (result.kind !== 'connected') return result
    const { client } = result
    return {
      client,
      session: toAttemptSession(client, host, address, handshakeError),
      openedAtMs: this.#clock.monotonicMs(),
      isReused: false,
      user,
    }
  }

  /**
   * Dials the addresses of a route in order, until one accepts the connection or `signal` is aborted. Starts at index
   * `from` and leaves out `skipped` hosts. `next` is the index after the last dialled address.
   */
  async open(
    route: Route,
    from: number,
    skipped: ReadonlySet<string>,
    signal: AbortSignal,
    trace: AttemptTrace,
  ): Promise<OpenResult & { readonly next: number }> {
    let last: Extract<AttemptResult, { kind: 'unreachable' }> = {
      kind: 'unreachable',
      phase: 'connect',
      failure: { kind: 'unreachable', message: 'No mail host has a usable address' },
      tlsDemanded: false,
    }
    const targets = listTargets(route)
    for (const [index, { host, address }] of targets.entries()) {
      if (index < from || skipped.has(host)) continue
      const opened = await this.#openAddress(route, host, address, signal, trace)
      if ('client' in opened) return { kind: 'open', connection: opened, next: index + 1 }
      if (opened.kind === 'failed' && opened.phase === 'connect' && !canOpenDescriptor())
        return { kind: 'postponed', detail: 'this process has too many open files', next: index + 1 }
      if (isSilent(opened) && !signal.aborted) this.#onAddressFailed({ address, kind: 'connect' })
      last = toUnreachable(opened, host, address, route)
      if (signal.aborted) return { ...last, next: index + 1 }
    }
    return { ...last, next: targets.length }
  }
}

/** Whether an address did not answer at all, or cannot be reached. A refused connection costs no time. */
const isSilent = (result: Exclude<ConnectResult, { kind: 'connected' }>): boolean =>
  result.kind === 'failed' &&
  result.phase === 'connect' &&
  (result.failure.kind === 'timeout' || result.failure.kind === 'unreachable')

function toAttemptSession(
  client: SmtpClient,
  host: string,
  address: string,
  handshakeError: string | undefined,
): AttemptSession {
  const tls = client.tls
    ? `${client.tls.protocol} ${client.tls.cipher}, ${client.tls.authorized ? 'certificate verified' : `certificate not verified: ${client.tls.authorizationError ?? 'unknown'}`}`
    : handshakeError === undefined
      ? 'none: not offered'
      : `none: handshake failed: ${handshakeError}`
  return { host, address, localAddress: client.localAddress, tls }
}

function toUnreachable(
  result: Exclude<ConnectResult, { kind: 'connected' }>,
  host: string,
  address: string,
  route: Route,
): Extract<AttemptResult, { kind: 'unreachable' }> {
  const where = `${host}[${address}]:${route.port}`
  const tlsDemanded =
    (route.tls === 'required' || route.tls === 'implicit') && (result.phase === 'tls' || result.phase === 'starttls')
  return result.kind === 'refused'
    ? {
        kind: 'unreachable',
        phase: result.phase,
        failure: { kind: 'refused', message: `${where} rejected the session (${result.phase}): ${result.reply.text}` },
        reply: result.reply,
        tlsDemanded,
      }
    : {
        kind: 'unreachable',
        phase: result.phase,
        failure: { ...result.failure, message: `${where}: ${result.failure.message}` },
        tlsDemanded,
      }
}
