/**
 * @module What follows when an attempt has ended: for its provider and site, for alerts and the log, and, by
 * its verdict, for its recipient. Never stores anything.
 */
import { isIPv6 } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { findAttemptLogFields } from '#features/sending/queue/email.ts'
import type { Clock } from '#platform/time/clock.ts'
import { hours, MiB, type Millis, seconds } from '#platform/units.ts'
import { type AttemptResult, type AttemptSession, type FromWorker, nameProxy } from '../protocol.ts'
import type { Pair } from '../providers/pair.ts'
import type { Pairs } from '../providers/pairs.ts'
import { labelProvider } from '../providers/registry.ts'
import type { FailedAddresses } from '../sites/route.ts'
import type { Site, Sites } from '../sites/sites.ts'
import { toVerdict, type Verdict } from '../verdict/outcome.ts'
import { concernsAllMail, decideReply, findSiteRejection } from '../verdict/replies.ts'
import { type InFlightAttempt, type InFlightAttempts, toCountedOutcome } from './in-flight-attempts.ts'
import type { ReplyAlerts } from './reply-alerts.ts'

export interface AttemptResultsOptions {
  readonly app: App
  readonly attempts: InFlightAttempts
  readonly sites: Sites
  readonly pairs: Pairs
  readonly failedAddresses: FailedAddresses
  readonly recentDialogues: RecentDialogues
  readonly alerts: ReplyAlerts
  /** When a site is tried again over a pair; 0 when it is tried now. */
  readonly findResumption: (destination: { readonly pair: Pair; readonly site: Site }) => Millis
}

export class AttemptResults {
  readonly #options: AttemptResultsOptions

  constructor(options: AttemptResultsOptions) {
    this.#options = options
  }

  /** Applies the outcome that a Worker reports, and ends the attempt. */
  apply(attempt: InFlightAttempt, { result, session, trace }: Extract<FromWorker, { type: 'outcome' }>): void {
    const { app, pairs, sites, failedAddresses, recentDialogues, alerts, findResumption } = this.#options
    attempt.trace = trace
    if (trace && result.kind === 'accepted') recentDialogues.add(attempt.recipientId, trace.dialogue)
    if (session) failedAddresses.recordSession(session.address)
    const { pair, siteName } = attempt.destination
    const ipv6Rejection = findIpv6Rejection(attempt, result, session)
    if (ipv6Rejection !== undefined && failedAddresses.withdrawIpv6(pair.provider.name))
      app.log.warn(
        { provider: pair.provider.name, reply: ipv6Rejection },
        'provider rejects our IPv6; IPv4 is used for 6 hours',
      )
    const failures = this.#applyToDestination(attempt, result, session, ipv6Rejection !== undefined)
    const found = toVerdict(result, providerOf(attempt))
    // Also after a permanent rejection: the next attempt does not use IPv6.
    const attemptVerdict: Verdict =
      ipv6Rejection !== undefined && found.kind === 'bounced'
        ? { ...found, kind: 'deferred', reason: found.reply }
        : found
    const verdict =
      attemptVerdict.kind === 'deferred'
        ? {
            ...attemptVerdict,
            ...(failures > 0 && { siteFailures: failures }),
            resumesAt: findResumption({ pair, site: sites.getSite(siteName) }),
          }
        : attemptVerdict
    const counted = toCountedOutcome(verdict)
    if (counted) pairs.count(pair, counted.outcome)
    if (result.kind === 'proxy_failed') {
      // What a dead proxy costs is logged once, with the pause of its address.
      const level = result.isDead ? 'debug' : 'warn'
      app.log[level]({ ...findAttemptLogFields(app.db, attempt), detail: result.reason }, 'delivery postponed')
    } else if (result.kind !== 'postponed' && result.kind !== 'broken') this.#logAttempt(attempt, verdict, session)
    else {
      // Our own error ended it before the message began.
      const fields = { ...findAttemptLogFields(app.db, attempt), detail: result.detail }
      if (result.kind === 'postponed') app.log.warn(fields, 'delivery postponed')
      else app.log.error(fields, 'message not composed')
    }
    if (!pair.provider.isLocal) alerts.record(verdict, { site: siteName, pair, session })
    this.#settle(attempt, verdict, session)
  }

  applyWorkerDeath(attempt: InFlightAttempt): void {
    this.#settle(attempt, toWorkerDeathVerdict(attempt))
  }

  /** Ends an attempt whose message cannot be prepared, because its stored content is missing. */
  holdWithoutContent(attempt: InFlightAttempt): void {
    this.#logAttempt(attempt, { kind: 'content_missing' }, undefined)
    this.#settle(attempt, { kind: 'content_missing' })
  }

  #settle(attempt: InFlightAttempt, verdict: Verdict, session?: AttemptSession): void {
    const { app, attempts } = this.#options
    const { sentToWorkerAt, destination } = attempt
    const outcome = verdict.kind === 'released' || verdict.kind === 'content_missing' ? 'unsent' : verdict.kind
    app.metrics.attemptEnded(
      labelProvider(destination.pair.provider),
      outcome,
      'category' in verdict ? verdict.category : undefined,
      sentToWorkerAt === undefined ? undefined : app.clock.now() - sentToWorkerAt,
    )
    void attempts.settle(attempt, verdict, session)
  }

  /** Returns the failures in a row that count as attempts for all mail that waits there; 0: no such failure. */
  #applyToDestination(
    attempt: InFlightAttempt,
    result: AttemptResult,
    session: AttemptSession | undefined,
    isAboutIpv6: boolean,
  ): number {
    const { app, pairs, sites } = this.#options
    const { pairGeneration: generation } = attempt
    const { siteName, pair } = attempt.destination
    const at = pairs.instant()
    const site = sites.getSite(siteName)
    const proxy = nameProxy(result.kind === 'proxy_failed' ? result.source : (session?.localAddress ?? pair.sourceIp))
    if (result.kind === 'proxy_failed' && result.isDead) {
      if (sites.backOffProxy(sites.getSite(proxy), result.reason))
        app.log.warn({ source: result.source }, result.reason)
      return 0
    }
    if ((session || result.kind === 'unreachable' || result.kind === 'proxy_failed') && sites.endOutage(proxy))
      app.log.info(`${proxy} works again`)
    if (result.kind === 'proxy_failed') {
      // The proxy of another address is asked only for receivers without an address of this one's family.
      if (result.source === pair.sourceIp) sites.backOff(site, result.reason, 'proxy-failed')
      return 0
    }
    // What the simulator says is about no address of ours; what is said about IPv6 not about that of the pair.
    const action =
      pair.provider.isLocal || isAboutIpv6
        ? undefined
        : findPairAction(result, providerOf(attempt), pair.state.suspension !== undefined)
    if (session) sites.recordSession(site)
    if (action) {
      const hasChanged =
        action.kind === 'slow' ? pair.slowDown(generation, action, at) : pair.suspend(generation, action, at)
      pairs.onOutcome(pair, hasChanged)
      return Math.max(1, pair.state.suspension?.failures ?? 0)
    }
    if (result.kind === 'accepted' || result.kind === 'refused')
      pairs.onOutcome(pair, pair.recordSuccess(generation, at))
    if (result.kind !== 'unreachable') return 0
    sites.backOff(site, result.failure.message)
    return site.failures
  }

  /** Logs one line per attempt: routine outcomes at debug level, all others above it. */
  #logAttempt(attempt: InFlightAttempt, verdict: Verdict, session: AttemptSession | undefined): void {
    const { db, log } = this.#options.app
    const isRoutine = verdict.kind === 'sent' || verdict.kind === 'released'
    if (isRoutine && !log.isLevelEnabled('debug')) return
    const fields = {
      ...findAttemptLogFields(db, attempt),
      lane: attempt.lane,
      attempt: attempt.attempt,
      host: session?.host,
      ...verdict,
    }
    if (isRoutine) log.debug(fields, verdict.kind)
    else if (verdict.kind === 'failed') log.error(fields, verdict.kind)
    else if (verdict.kind === 'content_missing')
      log.error(
        fields,
        'an email waits because its stored content is missing or damaged; `tassis check --content` names what is',
      )
    else log.info(fields, verdict.kind)
  }
}

/**
 * The reply that rejects our IPv6 address, or IPv6 as such, as Gmail's "IPv6 sending guidelines regarding PTR records",
 * where IPv4 is left.
 */
function findIpv6Rejection(
  attempt: InFlightAttempt,
  result: AttemptResult,
  session: AttemptSession | undefined,
): string | undefined {
  if (result.kind !== 'refused' || !session || !isIPv6(session.address) || !attempt.destination.hasIpv4)
    return undefined
  const isAboutIpv6 = /ipv6(?!:)|ip6\.arpa/i.test(result.reply.text)
  return isAboutIpv6 || findPairAction(result, providerOf(attempt), false) ? result.reply.text : undefined
}

/** The provider of an attempt, by its name in providers.toml. */
const providerOf = ({ destination: { pair } }: InFlightAttempt): string | undefined =>
  pair.provider.isNamed ? pair.provider.name : undefined

const toWorkerDeathVerdict = (attempt: InFlightAttempt): Verdict =>
  attempt.startedAt === undefined
    ? {
        kind: 'deferred',
        category: 'unknown',
        rule: 'worker-ended',
        reason: 'The delivery Worker ended unexpectedly',
        reply: undefined,
      }
    : { kind: 'uncertain', reason: 'The delivery Worker ended unexpectedly, so the receiver may have it' }

export interface PairAction {
  readonly kind: 'slow' | 'suspend_provider'
  readonly rule: string
  readonly reason: string
  /** Minimum time of a suspension. */
  readonly durationMs: number
}

/** After a reply that ends all sessions but has no rule of its own: most often the server is busy for moments. */
const MIN_SUSPENSION_MS = seconds(30)

/**
 * Undefined when a result says nothing about other mail to the provider.
 * @param provider its name in providers.toml; undefined when it has no entry
 * @param isProbe whether the pair is suspended: then a session that the provider ends is as good as a rejection, or
 *   probes would use up the queue
 */
export function findPairAction(
  result: AttemptResult,
  provider: string | undefined,
  isProbe: boolean,
): PairAction | undefined {
  switch (result.kind) {
    case 'lost':
    case 'uncertain':
      return isProbe
        ? { kind: 'suspend_provider', rule: 'connection-lost', reason: result.failure.message, durationMs: 0 }
        : undefined
    case 'unreachable':
    case 'refused': {
      if (!result.reply) return undefined
      const { text: reason } = result.reply
      const phase = result.kind === 'refused' ? result.phase : 'session'
      const { rule, category, action, suspendMs = MIN_SUSPENSION_MS } = decideReply(result.reply, phase, provider)
      if (action === 'slow' || action === 'suspend_provider')
        return { kind: action, rule, reason, durationMs: suspendMs }
      // If no host of a site accepts a session, the site backs off instead. A bad reputation is not that of our address.
      const endsSessions =
        result.kind === 'refused' &&
        category !== 'reputation' &&
        findSiteRejection(result) !== undefined &&
        concernsAllMail(result.reply, phase, provider)
      return endsSessions ? { kind: 'suspend_provider', rule, reason, durationMs: MIN_SUSPENSION_MS } : undefined
    }
    default:
      return undefined
  }
}

/** Of all dialogues together; one has about a thousand characters. */
const MAX_DIALOGUES_LENGTH = 8 * MiB
/** Bounds how long an erased address may stay in memory. */
const MAX_AGE_MS = hours(1)

/** The dialogues of accepted messages, which are stored nowhere. */
export class RecentDialogues {
  readonly #clock: Clock
  /** By recipient, oldest first. */
  readonly #dialogues = new Map<number, { readonly dialogue: string; readonly at: Millis }>()
  #length = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(recipientId: number, dialogue: string): void {
    this.#delete(recipientId)
    this.#dialogues.set(recipientId, { dialogue, at: this.#clock.now() })
    this.#length += dialogue.length
    for (const oldest of this.#dialogues.keys()) {
      if (this.#length <= MAX_DIALOGUES_LENGTH) break
      this.#delete(oldest)
    }
  }

  find(recipientId: number): string | undefined {
    const found = this.#dialogues.get(recipientId)
    return found && this.#clock.now() - found.at <= MAX_AGE_MS ? found.dialogue : undefined
  }

  #delete(recipientId: number): void {
    this.#length -= this.#dialogues.get(recipientId)?.dialogue.length ?? 0
    this.#dialogues.delete(recipientId)
  }
}
