/**
 * @module The SMTP server for remote clients: accepts or refuses connections, opens sessions, counts rates. Its
 * connection slots limit the total and each network, and choose the session to evict when all are in use. Runs in the
 * listener's Worker and asks the main thread for everything that needs the database.
 */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import { createNetworkLimiter, type NetworkLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { networksOf } from '#platform/net/network.ts'
import { Counts } from '#platform/queue/counts.ts'
import { hours, minutes, seconds } from '#platform/units.ts'
import { formatReply, REPLIES, type Reply } from './commands.ts'
import type { Certificate, Endpoint, ListenerSettings, SubmissionHandlers } from './protocol.ts'
import { InboundSession, type SessionHost, type Stage } from './session.ts'
import { Spool } from './spool.ts'
import { openSecureContext } from './tls.ts'

interface Slot {
  readonly network: string
  /** The largest network that the customer may have: an IPv6 /48, an IPv4 address. */
  readonly wideNetwork: string
  holder: InboundSession | undefined
  /** May be called more than once. */
  release(): void
}

const STAGES: readonly Stage[] = ['ended', 'idle', 'envelope', 'message']
/** Fraction of all slots reserved for networks that have no slot yet. */
const RESERVED_FRACTION = 0.1

class ConnectionSlots {
  readonly #limits: Pick<ListenerSettings, 'maxConnections' | 'maxConnectionsPerNetwork'>
  readonly #onEvicted: (session: InboundSession) => void
  readonly #slots = new Set<Slot>()
  readonly #perNetwork = new Counts<string>()
  /** By the largest network that one customer may have: an IPv6 /48 has 65,536 of the others. */
  readonly #perWideNetwork = new Counts<string>()

  /** @param onEvicted ends a session whose slot another one received */
  constructor(
    limits: Pick<ListenerSettings, 'maxConnections' | 'maxConnectionsPerNetwork'>,
    onEvicted: (session: InboundSession) => void,
  ) {
    this.#limits = limits
    this.#onEvicted = onEvicted
  }

  /** A slot for a connection, or why there is none: its network is at its limit, or all are in use. */
  acquire(address: string): Slot | 'network' | 'all' {
    const networks = networksOf(address)
    const [network = address] = networks
    const wideNetwork = networks.at(-1) ?? address
    const { maxConnections: max, maxConnectionsPerNetwork } = this.#limits
    if (this.#perNetwork.of(network) >= maxConnectionsPerNetwork) return 'network'
    const heldCount = this.#perWideNetwork.of(wideNetwork)
    const available = heldCount === 0 ? max : max - Math.floor(max * RESERVED_FRACTION)
    if (this.#slots.size >= available) {
      const victim = this.#findVictim(heldCount)
      if (!victim?.holder) return 'all'
      victim.release()
      this.#onEvicted(victim.holder)
    }
    const slot: Slot = { network, wideNetwork, holder: undefined, release: () => this.#release(slot) }
    this.#slots.add(slot)
    this.#perNetwork.add(network, 1)
    this.#perWideNetwork.add(wideNetwork, 1)
    return slot
  }

  #release(slot: Slot): void {
    if (!this.#slots.delete(slot)) return
    this.#perNetwork.add(slot.network, -1)
    this.#perWideNetwork.add(slot.wideNetwork, -1)
  }

  /** The most dispensable session, of the network with the most slots, that is longest without progress. */
  #findVictim(heldCount: number): Slot | undefined {
    let victim: (Rank & { readonly slot: Slot }) | undefined
    for (const slot of this.#slots) {
      const { holder } = slot
      if (holder?.stage === undefined) continue
      const count = this.#perWideNetwork.of(slot.wideNetwork)
      const stage = STAGES.indexOf(holder.stage)
      // A session with a transaction is evicted only for a network that still has fewer slots afterwards, so that two
      // honest networks do not evict each other in turn.
      if (count <= heldCount + (stage > IDLE ? 1 : 0)) continue
      const rank = { stage, count, sinceMs: holder.progressAtMs, slot }
      if (!victim || isBefore(rank, victim)) victim = rank
    }
    return victim?.slot
  }
}

const IDLE = STAGES.indexOf('idle')

interface Rank {
  readonly stage: number
  readonly count: number
  readonly sinceMs: number
}

const isBefore = (a: Rank, b: Rank): boolean => (a.stage - b.stage || b.count - a.count || a.sinceMs - b.sinceMs) < 0

export interface InboundServerOptions extends Pick<SessionHost, 'settings' | 'clock' | 'decide' | 'receive'> {
  readonly submission?: SubmissionHandlers | undefined
  readonly onWarning: (event: string, detail: string) => void
  readonly onDebug: (event: string, detail: string) => void
}

/** How long a refused client may keep its connection open. */
const LINGER_MS = seconds(2)
/** Refused clients that may read the reason at the same time; further clients are disconnected without it. */
const MAX_LINGERING = 200
/** Fraction of all connections that one account may have after login. */
const MAX_ACCOUNT_FRACTION = 0.5
/** Networks of each size whose rates are tracked; further ones evict the oldest. */
const MAX_NETWORKS = 50_000

/** Allows a burst of `count`, and refills as many within `ms`. */
const toRate = (ms: number, count: number): Rate => ({ burst: count, ratePerSecond: (count * 1000) / ms })

/** An address cannot be used; `code` is that of the system's error. */
export class UnusableEndpointError extends Error {
  readonly index: number
  readonly code: string

  constructor(index: number, cause: Error) {
    super(cause.message, { cause })
    this.index = index
    this.code = 'code' in cause ? String(cause.code) : ''
  }
}

export class InboundServer {
  readonly #options: InboundServerOptions
  readonly #servers: readonly Server[]
  readonly #slots: ConnectionSlots
  readonly #sessions = new Set<InboundSession>()
  /** Sessions after login, by account. */
  readonly #perAccount = new Counts<number>()
  /** What all sessions have in common. */
  readonly #shared: Omit<SessionHost, 'isTlsImplicit' | 'submission' | 'network' | 'onOctets' | 'onClosed'>
  readonly #messageLimiter: NetworkLimiter
  readonly #octetLimiter: NetworkLimiter
  #secureContext: SecureContext
  #isDraining = false
  #onDrained: (() => void) | undefined
  #lingeringCount = 0

  constructor(options: InboundServerOptions) {
    const { settings, clock } = options
    this.#options = options
    this.#secureContext = openSecureContext(settings.certificate)
    this.#messageLimiter = createNetworkLimiter(clock, toRate(minutes(1), settings.maxMessagesPerMinute), MAX_NETWORKS)
    this.#octetLimiter = createNetworkLimiter(clock, toRate(hours(1), settings.maxBytesPerHour), MAX_NETWORKS)
    this.#slots = new ConnectionSlots(settings, (session) => this.#evict(session))
    this.#shared = {
      ...options,
      spool: new Spool(settings),
      secureContext: () => this.#secureContext,
      isDraining: () => this.#isDraining,
      checkRates: (address) => this.#checkRates(address),
      onStoreFailed: (error) => options.onWarning('message not stored', String(error)),
      onError: (error) => this.#onError(error),
    }
    this.#servers = settings.endpoints.map((endpoint) => createServer((socket) => this.#onConnection(socket, endpoint)))
    for (const server of this.#servers) server.on('error', (error) => this.#onError(error))
  }

  get sessionCount(): number {
    return this.#sessions.size
  }

  /** Listens on every endpoint, and returns them with their ports. Throws UnusableEndpointError. */
  async listen(): Promise<Endpoint[]> {
    const listening: Endpoint[] = []
    for (const [index, endpoint] of this.#options.settings.endpoints.entries())
      listening.push(await this.#listenOn(index, endpoint))
    this.#sweep()
    return listening
  }

  #listenOn(index: number, endpoint: Endpoint): Promise<Endpoint> {
    const server = this.#servers[index]
    if (!server) throw new Error('an endpoint has no server')
    return new Promise((resolve, reject) => {
      const onError = (error: Error): void => reject(new UnusableEndpointError(index, error))
      server.once('error', onError)
      server.listen(endpoint.port, endpoint.host, () => {
        server.off('error', onError)
        const { address, port } = server.address() as AddressInfo
        resolve({ ...endpoint, host: address, port })
      })
    })
  }

  /** Sessions already in TLS keep the previous certificate. */
  useCertificate(certificate: Certificate): void {
    this.#secureContext = openSecureContext(certificate)
  }

  /** Accepts no new sessions; resolves when the last one has ended. A message in progress still gets its reply. */
  drain(): Promise<void> {
    this.#isDraining = true
    for (const server of this.#servers) server.close()
    for (const session of this.#sessions) session.drain()
    if (this.#sessions.size === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onDrained = resolve
    })
  }

  stop(): void {
    this.#isDraining = true
    for (const server of this.#servers) server.close()
    for (const session of this.#sessions) session.end(REPLIES.stopping)
  }

  #onConnection(socket: Socket, { isTlsImplicit }: Endpoint): void {
    const address = socket.remoteAddress
    // A socket without an address is already closed.
    const slot = address === undefined ? 'gone' : this.#slots.acquire(address)
    if (typeof slot === 'string') {
      this.#refuseConnection(socket, slot, isTlsImplicit)
      return
    }
    const account = this.#createAccountSlot()
    const session = new InboundSession(socket, {
      ...this.#shared,
      isTlsImplicit,
      submission: account.handlers,
      network: slot.wideNetwork,
      onOctets: (count) => {
        this.#octetLimiter.charge(address ?? '', count)
      },
      onClosed: () => {
        this.#sessions.delete(session)
        slot.release()
        account.release()
        if (this.#isDraining && this.#sessions.size === 0) this.#onDrained?.()
      },
    })
    slot.holder = session
    this.#sessions.add(session)
  }

  /** The handlers for one session: its login takes a slot of its account, until the session ends. */
  #createAccountSlot(): { readonly handlers: SubmissionHandlers | undefined; release(): void } {
    const { submission, settings } = this.#options
    const max = Math.max(1, Math.floor(settings.maxConnections * MAX_ACCOUNT_FRACTION))
    let heldAccountId: number | undefined
    let isClosed = false
    return {
      handlers: submission && {
        submit: (message) => submission.submit(message),
        logIn: async (credentials, sourceIp) => {
          const login = await submission.logIn(credentials, sourceIp)
          if ('code' in login || isClosed) return login
          if (this.#perAccount.of(login.accountId) >= max) return REPLIES.tooManyOfAccount
          heldAccountId = login.accountId
          this.#perAccount.add(heldAccountId, 1)
          return login
        },
      },
      release: () => {
        isClosed = true
        if (heldAccountId !== undefined) this.#perAccount.add(heldAccountId, -1)
        heldAccountId = undefined
      },
    }
  }

  /** Why a client may not send another message now; counts the message. */
  #checkRates(address: string): Reply | undefined {
    if (!this.#octetLimiter.take(address).ok) {
      this.#options.onDebug('message rejected', `${address} exceeds its byte rate`)
      return REPLIES.byteRate
    }
    if (this.#messageLimiter.take(address).ok) return undefined
    this.#options.onDebug('message rejected', `${address} exceeds its message rate`)
    return REPLIES.messageRate
  }

  /** Ends a session that lost its slot; its client may briefly read the reason, without a slot. */
  #evict(session: InboundSession): void {
    this.#options.onWarning('connections refused', 'connection limit reached; slow sessions are closed')
    if (session.stage !== 'ended' && this.#tryLinger(session.socket)) session.end(REPLIES.evicted)
    else session.socket.destroy()
  }

  #tryLinger(socket: Socket): boolean {
    if (this.#lingeringCount >= MAX_LINGERING) return false
    this.#lingeringCount++
    socket.on('close', () => {
      this.#lingeringCount--
    })
    return true
  }

  #refuseConnection(socket: Socket, reason: 'all' | 'network' | 'gone', isTlsImplicit: boolean): void {
    const { onWarning, onDebug, clock } = this.#options
    socket.on('error', () => {})
    if (reason === 'all') onWarning('connections refused', 'connection limit reached')
    else if (reason === 'network')
      onDebug('connection refused', `${socket.remoteAddress} has reached its connection limit`)
    // A client that expects TLS cannot read a reply in clear.
    if (reason === 'gone' || isTlsImplicit || !this.#tryLinger(socket)) {
      socket.destroy()
      return
    }
    // Discards client input: closing a socket with unread octets would discard the reply.
    socket.resume()
    const { code, text } = reason === 'network' ? REPLIES.tooManyOfNetwork : REPLIES.tooManyConnections
    socket.end(formatReply(code, [text]))
    clock.after(LINGER_MS, () => socket.destroy())
  }

  #onError(error: Error): void {
    this.#options.onDebug('session error', String(error))
  }

  #sweep(): void {
    const { clock, settings } = this.#options
    const nowMs = clock.monotonicMs()
    for (const session of this.#sessions) session.sweep(nowMs)
    clock.after(settings.limits.sweepMs, () => this.#sweep())
  }
}
