/**
 * @module SMTP connections of a Worker by receiving site: opens, reuses and closes them. Never sends a message itself.
 */
import { isIPv6 } from 'node:net'
import type { Clock, Timer } from '#platform/clock.ts'
import { canOpenDescriptor } from '#platform/descriptors.ts'
import type { SmtpClient } from '#protocols/smtp/client.ts'
import { type ConnectResult, connectSmtp } from '#protocols/smtp/connect.ts'
import type { SmtpFailure } from '#protocols/smtp/failures.ts'
import type { AttemptTrace } from './attempt-trace.ts'
import type { AttemptResult, AttemptSession, Route, WorkerSettings } from './protocol.ts'

/** A session, and its details for the record of the attempt. */
export interface Connection {
  readonly client: SmtpClient
  readonly session: AttemptSession
  /** Whether the session carried a message before; the server may have closed it since then. */
  readonly isReused: boolean
  /** The attempt that uses the session now. */
  readonly user: { trace: AttemptTrace | undefined }
}

export type OpenResult =
  | { readonly kind: 'open'; readonly connection: Connection }
  | Extract<AttemptResult, { kind: 'unreachable' | 'postponed' }>

interface IdleConnection {
  readonly connection: Connection
  readonly timer: Timer
}

/** The failure of sessions whose attempt took too long. */
export const ATTEMPT_TIMEOUT: SmtpFailure = {
  kind: 'timeout',
  message: 'The server took too long while most capacity for deliveries was in use',
}

/** The addresses of a route in dialling order. */
export const listTargets = (route: Route): readonly { readonly host: string; readonly address: string }[] =>
  route.hosts.flatMap(({ host, addresses }) => addresses.map((address) => ({ host, address })))

/**
 * The SMTP sessions of one Worker. Idle sessions stay open for the next message of their site; `closeIdle` ends them.
 * Opens no session before it is needed.
 */
export class Connections {
  readonly #clock: Clock
  readonly #settings: WorkerSettings
  readonly #idle = new Map<string, IdleConnection[]>()
  #nextOutboundIp = 0

  constructor(clock: Clock, settings: WorkerSettings) {
    this.#clock = clock
    this.#settings = settings
  }

  #localAddressFor(address: string): string | undefined {
    const usable = this.#settings.outboundIps.filter((ip) => isIPv6(ip) === isIPv6(address))
    return usable.length === 0 ? undefined : usable[this.#nextOutboundIp++ % usable.length]
  }

  #dial(
    route: Route,
    { host, address }: { readonly host: string; readonly address: string },
    tls: Route['tls'],
    signal: AbortSignal,
    user: Connection['user'],
  ): Promise<ConnectResult> {
    user.trace?.beginServer(host, address, 'connecting to')
    const localAddress = route.fromOutboundIps ? this.#localAddressFor(address) : undefined
    return connectSmtp({
      host,
      address,
      port: route.port,
      ehloName: this.#settings.ehloName,
      clock: this.#clock,
      abort: { signal, failure: ATTEMPT_TIMEOUT },
      tls,
      verifyCertificate: route.tls === 'required' || route.tls === 'implicit',
      transcript: (direction, line) => user.trace?.record(direction, line),
      onPhaseEnd: (phase) => user.trace?.endPhase(phase),
      ...(localAddress !== undefined && { localAddress }),
      ...(route.auth && { auth: route.auth }),
    })
  }

  /**
   * Dials one address. With opportunistic TLS, a failed handshake is followed by a session in clear, because otherwise
   * the mail would only be lost.
   */
  async #openAddress(
    route: Route,
    host: string,
    address: string,
    signal: AbortSignal,
    trace: AttemptTrace,
  ): Promise<Connection | Exclude<ConnectResult, { kind: 'connected' }>> {
    const user: Connection['user'] = { trace }
    let result = await this.#dial(route, { host, address }, route.tls, signal, user)
    let handshakeError: string | undefined
    if (route.tls === 'opportunistic' && result.kind === 'failed' && result.phase === 'tls' && !signal.aborted) {
      handshakeError = result.failure.message
      trace.note(`the TLS handshake failed: ${handshakeError}`)
      result = await this.#dial(route, { host, address }, 'never', signal, user)
    }
    if (result.kind === 'failed') trace.note(result.failure.message)
    if (result.kind !== 'connected') return result
    const { client } = result
    return { client, session: toAttemptSession(client, host, address, handshakeError), isReused: false, user }
  }

  /** An idle session of the site; undefined when there is none. */
  reuse(site: string): Connection | undefined {
    const waiting = this.#idle.get(site)
    for (;;) {
      const idle = waiting?.pop()
      if (!idle) return undefined
      idle.timer.cancel()
      if (idle.connection.client.isUsable) return { ...idle.connection, isReused: true }
      idle.connection.client.destroy()
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
      last = toUnreachable(opened, host, address, route)
      if (signal.aborted) return { ...last, next: index + 1 }
    }
    return { ...last, next: targets.length }
  }

  /** Keeps a session for the site's next message, or ends the session if it cannot or must not carry more messages. */
  release(site: string, connection: Connection): void {
    const { client } = connection
    connection.user.trace = undefined
    if (
      !client.isUsable ||
      client.transactionCount >= this.#settings.messagesPerConnection ||
      this.#settings.connectionIdleMs === 0
    ) {
      void client.quit()
      return
    }
    const waiting = this.#idle.get(site) ?? []
    const idle: IdleConnection = {
      connection,
      timer: this.#clock.after(this.#settings.connectionIdleMs, () => {
        const rest = (this.#idle.get(site) ?? []).filter((other) => other !== idle)
        if (rest.length > 0) this.#idle.set(site, rest)
        else this.#idle.delete(site)
        void client.quit()
      }),
    }
    waiting.push(idle)
    this.#idle.set(site, waiting)
  }

  /** Ends all idle sessions. */
  closeIdle(): void {
    for (const waiting of this.#idle.values()) {
      for (const { connection, timer } of waiting) {
        timer.cancel()
        void connection.client.quit()
      }
    }
    this.#idle.clear()
  }
}

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
