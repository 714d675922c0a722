/**
 * @module Gets certificates for the hosts that need one, and renews them: one order at a time, with increasing delays
 * after failures, which survive restarts. A certificate stays in use until a better one has been checked and stored.
 * What a client asks for (SNI) never causes an order: hosts come from settings and from verified tracking domains.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { App } from '#features/core/app/app.ts'
import { normaliseHost } from '#features/setup/domains/tracking-domain.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { attempt } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createBoundedFetch } from '#platform/net/bounded-fetch.ts'
import { createCertificateRequest, type KeyedCertificate } from '#platform/net/self-signed.ts'
import { type DueLoop, isDue, startDueLoop } from '#platform/queue/due-loop.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { sleepUntilAborted } from '#platform/time/clock.ts'
import { days, hours, KiB, type Millis, minutes, seconds } from '#platform/units.ts'
import { type ChallengeType, orderCertificate } from '#protocols/acme/order.ts'
import { AcmeError, AcmeSession, type AcmeTransport } from '#protocols/acme/session.ts'
import type { Challenges } from './challenges.ts'
import * as store from './store.ts'

export interface CertificateOrdersOptions {
  readonly app: Pick<App, 'config' | 'clock' | 'log' | 'certificatesDue' | 'replica'>
  /** Trusted certificate authorities in PEM; undefined: those of the system. */
  readonly authorities: readonly string[] | undefined
  readonly challenges: Challenges
  /** The hosts that need a certificate now, in A-labels and lower case. */
  readonly listHosts: () => readonly string[]
}

/** How often new tracking hosts are looked for. */
const SCAN_INTERVAL_MS = seconds(15)
const ORDER_TIMEOUT_MS = minutes(5)
/** Limits of one request to the authority. */
const REQUEST_TIMEOUT_MS = seconds(30)
const MAX_RESPONSE_BYTES = 256 * KiB
/** After failures for one host. An authority allows five failed validations of a host per hour. */
const HOST_RETRY_MS = [minutes(1), minutes(15), hours(1), hours(4), hours(12)]
/** After failures of the authority itself. */
const SERVER_RETRY_MS = [minutes(1), minutes(5), minutes(30), hours(2), hours(6)]
/** A limit of an authority lasts up to a week. */
const MAX_RETRY_AFTER_MS = days(7)
/** After a rate limit without Retry-After. */
const RATE_LIMITED_MS = hours(1)
/** Before the next host after a rate limit. */
const LIMITED_PAUSE_MS = minutes(1)
const MAX_CONTEXTS = 1000
/** More than a process can have. */
const MAX_TURNS = 1e9
/** What every TLS listener of HTTP allows. */
export const TLS_OPTIONS = { minVersion: 'TLSv1.2', honorCipherOrder: true } as const

/** Certificates of an authority, and the loop that keeps them valid. */
export class CertificateOrders {
  readonly #options: CertificateOrdersOptions
  readonly #certificates = new Map<string, store.StoredCertificate>()
  readonly #contexts = new Map<string, SecureContext>()
  #state: ReturnType<typeof store.readOrdersState>
  #stopListening: (() => void) | undefined
  readonly #turns = new Map<string, number>()
  #lastTurn = 0
  #loop: DueLoop | undefined

  /** Reads the stored certificates; orders nothing before `start`. */
  constructor(options: CertificateOrdersOptions) {
    this.#options = options
    const { dataDir } = options.app.config
    this.#state = store.readOrdersState(dataDir)
    for (const host of listStoredHosts(dataDir)) {
      const stored = store.readCertificate(dataDir, host)
      if (stored) this.#certificates.set(host, stored)
    }
  }

  start(): void {
    const { clock, log, certificatesDue, config } = this.#options.app
    this.#stopListening ??= certificatesDue.listen(() => {
      this.#state = store.readOrdersState(config.dataDir)
      this.#loop?.wake()
    })
    this.#loop ??= startDueLoop({ name: 'certificates', clock, log, step: (ending) => this.#step(ending) })
  }

  async stop(): Promise<void> {
    this.#stopListening?.()
    await this.#loop?.stop()
  }

  /** The certificate for a server name; undefined when there is none. */
  contextFor(serverName: string): SecureContext | undefined {
    const host = normaliseHost(serverName)
    const stored = this.#certificates.get(host)
    if (!stored) return undefined
    const context =
      this.#contexts.get(host) ?? createSecureContext({ ...TLS_OPTIONS, cert: stored.cert, key: stored.key })
    // The least recently used one is evicted.
    storeNewest(this.#contexts, host, context, MAX_CONTEXTS)
    return context
  }

  /** Makes the order that is most due. Returns when to look again. */
  async #step(ending: AbortSignal): Promise<Millis> {
    const { app } = this.#options
    const now = app.clock.now()
    const hosts = this.#options.listHosts()
    this.#removeUnused(new Set(hosts), now)
    const { server } = this.#state
    const soon = now + SCAN_INTERVAL_MS
    if (server.failures > 0 && !isDue(server.nextAttemptAt, now, MAX_RETRY_AFTER_MS)) return soon
    // Hosts that failed come last, then those whose turn was last, so that no host delays others.
    const [due] = hosts.filter((host) => this.#isDue(host, now)).sort((a, b) => this.#rank(a) - this.#rank(b))
    if (due === undefined) return soon
    this.#turns.set(due, ++this.#lastTurn)
    await this.#attempt(due, ending)
    return ending.aborted ? soon : app.clock.now()
  }

  #hostState(host: string): store.OrderState {
    return this.#state.hosts[host] ?? store.NO_FAILURES
  }

  #rank(host: string): number {
    return this.#hostState(host).failures * MAX_TURNS + (this.#turns.get(host) ?? 0)
  }

  #isDue(host: string, now: Millis): boolean {
    const { failures, nextAttemptAt } = this.#hostState(host)
    if (failures > 0 && !isDue(nextAttemptAt, now, MAX_RETRY_AFTER_MS)) return false
    const stored = this.#certificates.get(host)
    return !stored || isRenewalDue(stored, now)
  }

  async #attempt(host: string, ending: AbortSignal): Promise<void> {
    const { config, clock, log, replica } = this.#options.app
    const before = this.#hostState(host)
    // Stored before the order: one that ends with the process counts as a failure, so that a service that is restarted
    // again and again does not use up the limits of the authority, and nothing is ordered that cannot be stored.
    this.#store(host, toFailed(before, HOST_RETRY_MS, clock.now()))
    const timeout = new AbortController()
    const timer = clock.after(ORDER_TIMEOUT_MS, () => timeout.abort())
    const signal = AbortSignal.any([timeout.signal, ending])
    try {
      const session = await this.#openSession(signal)
      await session.logIn()
      const issued = await this.#order(session, host, before, signal)
      store.writeCertificate(config.dataDir, host, issued, replica)
      const certificate = store.readCertificate(config.dataDir, host)
      if (!certificate) throw new Error(`the certificate of ${host} cannot be read again`)
      this.#certificates.set(host, certificate)
      this.#contexts.delete(host)
      this.#state.server = store.NO_FAILURES
      this.#store(host, store.NO_FAILURES)
      log.info({ host, notAfter: isoTime(certificate.notAfter) }, 'certificate issued')
    } catch (error) {
      if (ending.aborted) this.#store(host, before)
      else this.#recordFailure(host, before, signal.aborted ? TIMED_OUT : error)
    } finally {
      timer.cancel()
    }
  }

  #openSession(signal: AbortSignal): Promise<AcmeSession> {
    const { config, clock, replica } = this.#options.app
    return AcmeSession.open({
      directoryUrl: config.acmeUrl,
      key: store.openAccountKey(config.dataDir, replica),
      transport: createAcmeTransport({ clock, ca: this.#options.authorities, signal }),
      now: () => clock.now(),
    })
  }

  async #order(
    session: AcmeSession,
    host: string,
    { failures }: store.OrderState,
    signal: AbortSignal,
  ): Promise<KeyedCertificate> {
    const { clock } = this.#options.app
    const { csr, key } = await createCertificateRequest(host)
    const cert = await orderCertificate(session, {
      host,
      csr,
      challengeTypes: this.#challengeTypes(failures),
      answer: (challenge) => this.#options.challenges.answer(challenge, clock),
      sleep: async (ms) => {
        await sleepUntilAborted(clock, ms, signal)
        if (signal.aborted) throw TIMED_OUT
      },
    })
    const problem = store.findCertificateProblem({ cert, key }, host, clock.now())
    if (problem !== undefined)
      throw new AcmeError('order', `The certificate that was issued for ${host} cannot be used: ${problem}.`)
    return { cert, key }
  }

  /** Alternates after each failure, because only one of the two ports may be reachable. */
  #challengeTypes(failures: number): readonly ChallengeType[] {
    const { httpAddr, httpsAddr } = this.#options.app.config
    if (httpsAddr === '') return ['http-01']
    const types: ChallengeType[] = ['tls-alpn-01', 'http-01']
    const isHttpFirst = (parseHostPort(httpAddr)?.port === 80) !== (failures % 2 === 1)
    return isHttpFirst ? types.reverse() : types
  }

  #recordFailure(host: string, before: store.OrderState, thrown: unknown): void {
    const { clock, log } = this.#options.app
    const now = clock.now()
    const error = thrown instanceof AcmeError ? thrown : new AcmeError('order', describeError(thrown))
    const isLimited = error.type === 'rateLimited'
    const askedMs = Math.min(error.retryAfterMs ?? (isLimited ? RATE_LIMITED_MS : 0), MAX_RETRY_AFTER_MS)
    const failed = (previous: store.OrderState, delays: readonly number[]): store.OrderState => {
      const next = toFailed(previous, delays, now)
      const nextAttemptAt = Math.max(next.nextAttemptAt, now + askedMs)
      return { ...next, nextAttemptAt, lastError: error.message, lastErrorAt: now }
    }
    const isServer = error.scope === 'server'
    this.#state.server = isServer
      ? failed(this.#state.server, SERVER_RETRY_MS)
      : // The limit may be that of the account: the others are tried slowly.
        { failures: isLimited ? 1 : 0, nextAttemptAt: isLimited ? now + LIMITED_PAUSE_MS : 0 }
    const state = isServer ? before : { ...before, ...failed(before, HOST_RETRY_MS) }
    const stored = this.#certificates.get(host)
    const details = {
      host,
      reason: error.message,
      nextAttempt: isoTime((isServer ? this.#state.server : state).nextAttemptAt),
      ...(stored && { notAfter: isoTime(stored.notAfter) }),
    }
    if (stored && stored.notAfter - now <= store.expiryWarningMs(stored))
      log.error(details, 'certificate expires soon and could not be renewed')
    else log.warn(details, stored ? 'certificate not renewed; it stays in use' : 'certificate not issued')
    this.#store(host, state)
  }

  #store(host: string, state: store.OrderState): void {
    this.#state.hosts[host] = state
    const { config, replica } = this.#options.app
    store.writeOrdersState(config.dataDir, this.#state, replica)
  }

  /** Deletes what nothing needs: certificates of hosts that have none any more serve until they expire. */
  #removeUnused(wanted: ReadonlySet<string>, now: Millis): void {
    const { replica, config } = this.#options.app
    const { dataDir } = config
    for (const [host, { notAfter }] of this.#certificates) {
      if (wanted.has(host) || notAfter > now) continue
      this.#certificates.delete(host)
      this.#contexts.delete(host)
      store.removeCertificate(dataDir, host, replica)
    }
    const left = Object.keys(this.#state.hosts).filter((host) => !wanted.has(host) && !this.#certificates.has(host))
    for (const host of left) delete this.#state.hosts[host]
    if (left.length > 0) store.writeOrdersState(dataDir, this.#state, replica)
  }
}

/** One more failure; the next attempt is later each time. */
const toFailed = <T extends store.OrderState>(state: T, delays: readonly number[], now: Millis): T => ({
  ...state,
  failures: state.failures + 1,
  nextAttemptAt: now + (delays[Math.min(state.failures, delays.length - 1)] ?? 0),
})

const TIMED_OUT = new AcmeError('server', 'The order took too long.')

/** With a third of its lifetime left. */
const isRenewalDue = ({ notBefore, notAfter }: store.StoredCertificate, now: Millis): boolean =>
  now >= notAfter - (notAfter - notBefore) / 3

/** The folder is created with the first file. */
const listStoredHosts = (dataDir: string): string[] =>
  attempt(() => readdirSync(join(dataDir, 'certificates')))?.flatMap((name) => /^(.+)\.pem$/.exec(name)?.[1] ?? []) ??
  []

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Creates the transport for one order. Obeys HTTPS_PROXY, as the operator's own network may need. */
function createAcmeTransport({
  clock,
  ca,
  signal,
}: {
  readonly clock: App['clock']
  readonly ca: readonly string[] | undefined
  /** Aborted when the order has to end. */
  readonly signal: AbortSignal
}): AcmeTransport {
  const request = createBoundedFetch({ clock, ca, timeoutMs: REQUEST_TIMEOUT_MS, maxBytes: MAX_RESPONSE_BYTES })
  return async ({ url, method, headers, body }) => {
    const init = {
      method,
      headers: { 'user-agent': 'Tassis', ...headers },
      ...(body !== undefined && { body }),
      signal,
    }
    const response = await request(url, init).catch((error: unknown) => {
      throw new Error(describeRequestError(error))
    })
    return { status: response.status, header: (name) => response.headers.get(name), body: response.text }
  }
}

/** Bun's own messages address the author of a program; the code of the system says what happened. */
function describeRequestError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  return CERTIFICATE_ERROR.test(code)
    ? `its certificate is not trusted (${code}); name the root of your own certificate authority in TASSIS_EXTRA_CA_FILE`
    : code === ''
      ? error.message
      : code
}

const CERTIFICATE_ERROR = /CERT|ISSUER|SIGNATURE/
