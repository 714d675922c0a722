/** @module What a delivery Worker does with one message: composes, signs and transmits it over a pooled session. */

import { createPrivateKey } from 'node:crypto'
import type { ContentReader } from '#platform/content/read.ts'
import { RsaSigners } from '#platform/crypto/rsa-signer.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { createDkimSigner, createSignatureFields, type DkimSigner } from '#protocols/dkim/sign.ts'
import { isUnencoded } from '#protocols/mime/attachment.ts'
import type { TransactionResult } from '#protocols/smtp/client.ts'
import { composeUnsigned, hashBody, type SharedBody } from '../message/compose.ts'
import type {
  AttemptResult,
  AttemptSession,
  ConnectionLimits,
  DeliverJob,
  DkimKeyPem,
  TrackingSettings,
} from '../protocol.ts'
import { ATTEMPT_TIMEOUT, type AttemptTrace, type Connection, type Connections, listTargets } from './connections.ts'

export interface TransmitOptions {
  /** Resolves when the start of DATA is durable; rejects when nothing may be sent. */
  readonly beforeBody: () => Promise<void>
  /** Aborted when the attempt takes too long: the session of the attempt is closed, and no other is opened. */
  readonly signal: AbortSignal
  readonly trace: AttemptTrace
}

export interface Attempt {
  readonly result: AttemptResult
  readonly session: AttemptSession | undefined
}

/**
 * Composes and signs the message of a job; the same job always produces the same bytes. Yields regularly, so that a
 * large message does not block the SMTP sessions of other accounts in this Worker.
 * @param shared the parts that recipients of this email share
 */
export function* prepareMessage(
  job: DeliverJob,
  shared: SharedBody,
  content: ContentReader,
  keys: Pick<SigningKeys, 'get'>,
  tracking: TrackingSettings,
): Generator<void, readonly Buffer[]> {
  const { dkim } = job
  const { header, body, isAllShared } = yield* composeUnsigned(job, shared, content, tracking)
  const bodyHash = (isAllShared ? shared.bodyHash : undefined) ?? (yield* hashBody(body))
  if (isAllShared) shared.bodyHash = bodyHash
  const signatures = dkim.keys.map(({ id, selector }) => ({ domain: dkim.domain, selector, signer: keys.get(id) }))
  return [createSignatureFields(header, bodyHash, signatures), header, ...body]
}

/**
 * How many hosts may reject an attempt with a 4xx before the attempt ends. RFC 5321 §5.1 asks to try each host, but
 * greylisting, full mailboxes and throttling are the same at all hosts of a site, so trying more hosts would cost
 * sessions without effect.
 */
const MAX_REJECTING_HOSTS = 3

/**
 * Sends a prepared message over an idle session of the site, or else over a new session to the first address of the
 * route that accepts one. As long as no octet of the message was sent, a lost session is followed by the next address,
 * and a 4xx rejection by the next host. A reused session that the server ended is simply replaced. A 5xx is final for
 * the domain, whichever host returns it.
 */
export async function transmit(
  job: DeliverJob,
  message: readonly Uint8Array[],
  connections: Connections,
  sessions: SessionPool,
  { beforeBody, signal, trace }: TransmitOptions,
): Promise<Attempt> {
  const { route } = job
  const targets = listTargets(route)
  const rejectingHosts = new Set<string>()
  let rejection: Attempt | undefined
  let next = 0
  let connection = sessions.reuse(route.site)
  for (;;) {
    if (!connection) {
      await sessions.waitForCapacity()
      const opened = await connections.open(route, next, rejectingHosts, signal, trace)
      next = opened.next
      if (opened.kind !== 'open') {
        if (rejection) return rejection
        // We ended the attempt because the site was slow. The site is not reported as unreachable, because that would
        // cause a backoff for other mail.
        const ended = signal.aborted ? ({ kind: 'lost', phase: 'mail', failure: ATTEMPT_TIMEOUT } as const) : opened
        return { result: ended, session: undefined }
      }
      connection = opened.connection
    }
    let result: TransactionResult
    const { client, session, isReused } = connection
    connection.user.trace = trace
    if (isReused) trace.beginServer(session.host, session.address, 'reusing the session with')
    const close = () => client.destroy(ATTEMPT_TIMEOUT)
    signal.addEventListener('abort', close)
    try {
      result = await client.send({
        mailFrom: job.mailFrom,
        rcptTo: job.rcptTo,
        message,
        smtpUtf8: job.smtpUtf8,
        eightBit: job.compose.attachments.some(isUnencoded),
        beforeBody,
        onPhaseEnd: trace.endPhase,
      })
    } finally {
      signal.removeEventListener('abort', close)
      // This host was tried only after another one had rejected the message. The session ends, because the messages
      // that follow must go to the hosts in order of preference (RFC 5321 §5.1).
      connection.user.trace = undefined
      if (rejection) sessions.close(connection)
      else sessions.release(route.site, connection)
    }
    if ('failure' in result) trace.note(result.failure.message)
    const attempt = { result, session }
    // Servers end sessions that were idle or carried many messages; that is not a failure of the host.
    const isStaleSession = isReused && hasEndedSession(result)
    const isRejected = isTemporaryRejection(result) && !isStaleSession
    if (isRejected) {
      rejectingHosts.add(session.host)
      rejection = attempt
    }
    if (signal.aborted || !(result.kind === 'lost' || isTemporaryRejection(result))) return attempt
    const hasNext = targets.slice(next).some(({ host }) => !rejectingHosts.has(host))
    if (!(isStaleSession || hasNext) || rejectingHosts.size >= MAX_REJECTING_HOSTS) return rejection ?? attempt
    connection = rejection ? undefined : sessions.reuse(route.site)
  }
}

const hasEndedSession = (result: TransactionResult): boolean =>
  result.kind === 'lost' || (result.kind === 'refused' && result.reply.code === 421)

/** Whether a 4xx came before any octet of the message was sent: then the next host may accept the message. */
const isTemporaryRejection = (result: TransactionResult): boolean =>
  result.kind === 'refused' && result.phase !== 'body' && result.reply.code < 500

interface IdleSession {
  readonly site: string
  readonly connection: Connection
  readonly timer: Timer
}

/**
 * Each running attempt counts as one session, whether it dials, sends, or waits for another session to end. A session
 * counts until its connection is closed, so the limit also holds as the receiver counts.
 */
export class SessionPool {
  readonly #clock: Clock
  readonly #onFreed: () => void
  #limits: ConnectionLimits
  /** Oldest first. */
  #idle: IdleSession[] = []
  #running = 0
  readonly #closing = new Set<Promise<void>>()

  /** @param onFreed called when a session was closed while no attempt used it */
  constructor(clock: Clock, limits: ConnectionLimits, onFreed: () => void) {
    this.#clock = clock
    this.#limits = limits
    this.#onFreed = onFreed
  }

  /** Whether no session is open and no attempt runs. */
  get isEmpty(): boolean {
    return this.#openCount === 0
  }

  /** Changes the limits. Idle sessions above them end; those in use end after their message. */
  setLimits(limits: ConnectionLimits): void {
    this.#limits = limits
    this.#closeSurplus()
  }

  hasCapacity(isBulk: boolean): boolean {
    const { connections, bulkConnections } = this.#limits
    return this.#running + this.#closing.size < (isBulk ? bulkConnections : connections)
  }

  /** Whether an attempt may ever begin: a Worker may have no share of a small limit. */
  isAllowed(isBulk: boolean): boolean {
    return (isBulk ? this.#limits.bulkConnections : this.#limits.connections) > 0
  }

  beginAttempt(): void {
    this.#running++
  }

  /** Ends an attempt, after `release` of its session. */
  endAttempt(): void {
    this.#running--
  }

  /** An idle session of the site; undefined when there is none. */
  reuse(site: string): Connection | undefined {
    for (;;) {
      const index = this.#idle.findLastIndex((idle) => idle.site === site)
      const [idle] = index < 0 ? [] : this.#idle.splice(index, 1)
      if (!idle) return undefined
      idle.timer.cancel()
      if (idle.connection.client.isUsable) return { ...idle.connection, isReused: true }
      idle.connection.client.destroy()
    }
  }

  /** Resolves when an attempt may dial: ends idle sessions of other sites first, oldest first, where needed. */
  async waitForCapacity(): Promise<void> {
    this.#closeSurplus()
    while (this.#closing.size > 0 && this.#openCount > this.#limits.connections) await Promise.race(this.#closing)
  }

  get #openCount(): number {
    return this.#running + this.#idle.length + this.#closing.size
  }

  /** Keeps the session for the next message of its site, or ends it if it cannot or must not carry more. */
  release(site: string, connection: Connection): void {
    const { client, openedAtMs } = connection
    const { connections, messagesPerConnection, idleMs, maxAgeMs } = this.#limits
    const leftMs = Math.min(idleMs, openedAtMs + maxAgeMs - this.#clock.monotonicMs())
    const isKept = client.isUsable && client.transactionCount < messagesPerConnection && leftMs > 0
    if (!isKept || this.#running + this.#idle.length > connections) {
      this.close(connection)
      return
    }
    const idle: IdleSession = { site, connection, timer: this.#clock.after(leftMs, () => this.#closeIdle(idle)) }
    this.#idle.push(idle)
  }

  close({ client }: Connection): void {
    const closed = client.quit().finally(() => {
      this.#closing.delete(closed)
      this.#onFreed()
    })
    this.#closing.add(closed)
  }

  closeAllIdle(): void {
    for (const idle of [...this.#idle]) this.#closeIdle(idle)
  }

  /** Ends the oldest idle sessions that leave no connection for the running attempts. */
  #closeSurplus(): void {
    const surplus = this.#running + this.#idle.length - this.#limits.connections
    for (const idle of this.#idle.slice(0, Math.max(surplus, 0))) this.#closeIdle(idle)
  }

  #closeIdle(idle: IdleSession): void {
    idle.timer.cancel()
    this.#idle = this.#idle.filter((other) => other !== idle)
    this.close(idle.connection)
  }
}

/** Parsed keys in memory, of about 10 KB each. */
const MAX_PARSED_KEYS = 1000

interface ParsedKey {
  readonly signer: DkimSigner
  free(): void
}

export class SigningKeys {
  readonly #rsa: RsaSigners
  readonly #maxParsed: number
  readonly #pems = new Map<string, string>()
  /** Least recently used first. */
  readonly #parsed = new Map<string, ParsedKey>()

  constructor(rsa = new RsaSigners(), maxParsed = MAX_PARSED_KEYS) {
    this.#rsa = rsa
    this.#maxParsed = maxParsed
  }

  /** Adds a key, or replaces it. */
  add({ id, privateKeyPem }: DkimKeyPem): void {
    this.#pems.set(id, privateKeyPem)
    this.#evict(id)
  }

  /** Throws when the key is missing or cannot be read. */
  get(id: string): DkimSigner {
    const pem = this.#pems.get(id)
    if (pem === undefined) throw new Error('the DKIM key of the sending domain is missing')
    const parsed = this.#parsed.get(id) ?? this.#parse(pem)
    this.#parsed.delete(id)
    this.#parsed.set(id, parsed)
    for (const oldest of this.#parsed.keys()) {
      if (this.#parsed.size <= this.#maxParsed) break
      this.#evict(oldest)
    }
    return parsed.signer
  }

  #parse(pem: string): ParsedKey {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'rsa') return { signer: createDkimSigner(key), free: () => {} }
    const rsa = this.#rsa.create(key)
    return { signer: { algorithm: 'rsa-sha256', sign: (data) => rsa.sign(data) }, free: () => rsa.free() }
  }

  #evict(id: string): void {
    this.#parsed.get(id)?.free()
    this.#parsed.delete(id)
  }
}
