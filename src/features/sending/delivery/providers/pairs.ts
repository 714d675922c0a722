/** @module All pairs of provider and outgoing address: creates, wakes, stores and evicts them. */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { wakeAt } from '#platform/queue/due-loop.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { hours, type Millis } from '#platform/units.ts'
import type { providerPairs } from '../tables.ts'
import { findWarmUp, isEstablished, saveWarmUp, type TrafficOutcome, WarmUp } from './limits.ts'
import { type Instant, keyOfPair, Pair, type PairState } from './pair.ts'
import { type Provider, type ProviderRegistry, registryOf } from './registry.ts'

export interface PairsOptions {
  readonly app: Pick<App, 'clock' | 'config' | 'commit' | 'db' | 'log'>
  readonly ownerOf: (lane: string) => number
  /** Called when a message may begin over a pair. */
  readonly onAllowed: (pair: Pair) => void
  /** Called when the connections that a pair may open have changed. */
  readonly onChanged: (pair: Pair) => void
}

/** A site with its own mail server is one pair, and domains of tenants decide how many sites there are. */
const MAX_PAIRS = 10_000
/** How long a pair without an entry is remembered after its last attempt. */
const RETENTION_MS = hours(1)
/** How long a lowered rate without traffic is remembered. */
const STATE_RETENTION_MS = hours(24)

export class Pairs {
  readonly registry: ProviderRegistry
  readonly #options: PairsOptions
  readonly #clock: Clock
  readonly #store: PairStore
  readonly #pairs = new Map<string, Pair>()
  readonly #timers = new Map<Pair, Timer>()
  #nextSweepAtMs = 0
  #isStopped = false

  constructor(options: PairsOptions) {
    this.#options = options
    this.#clock = options.app.clock
    this.registry = registryOf(options.app.config)
    this.#store = new PairStore(options.app)
    for (const { provider, source, ...state } of this.#store.read())
      this.get(this.registry.byName(provider), source).restore(state, this.instant())
  }

  instant(): Instant {
    return { now: this.#clock.now(), monotonicMs: this.#clock.monotonicMs() }
  }

  /** The pair, created on first use. */
  get(provider: Provider, sourceIp: string): Pair {
    const key = keyOfPair(provider.name, sourceIp)
    let pair = this.#pairs.get(key)
    if (!pair) {
      this.#sweep()
      pair = new Pair(provider, sourceIp, this.#options.ownerOf, this.instant())
      this.#attachWarmUp(pair)
      this.#pairs.set(key, pair)
    }
    return pair
  }

  /** Only receivers with an entry: to a site of its own few messages go, and tenants decide how many sites there are. */
  #attachWarmUp(pair: Pair): void {
    const { app } = this.#options
    const { name, isNamed, policy } = pair.provider
    if (app.config.warmUp === 'off' || !isNamed || policy.mx.length === 0) return
    if (isEstablished(app, pair.sourceIp) !== false) return
    const state = findWarmUp(app, name, pair.sourceIp)
    if (state?.budget === null) return
    pair.warmUp = new WarmUp(policy.perMinute || policy.perSecond * 60, this.#clock.now(), state)
    pair.isWarmUpForBulk = app.config.warmUp === 'broadcasts'
  }

  count(pair: Pair, outcome: TrafficOutcome): void {
    pair.count(outcome, this.#clock.now())
    if (pair.warmUp?.isChanged) this.#store.save(pair)
  }

  all(): Pair[] {
    return [...this.#pairs.values()]
  }

  /** Calls `onAllowed` once a message may begin over the pair. While a probe is in flight, its outcome does that. */
  wakeWhenAllowed(pair: Pair): void {
    if (this.#timers.has(pair) || this.#isStopped) return
    const waitMs = pair.msUntilAllowed(this.instant())
    if (waitMs === undefined) return
    const timer = wakeAt(this.#clock, this.#clock.now() + waitMs, () => {
      this.#timers.delete(pair)
      if (pair.allowance(this.instant()) > 0) this.#options.onAllowed(pair)
      else this.wakeWhenAllowed(pair)
    })
    this.#timers.set(pair, timer)
  }

  /** Records how an attempt ended, for the lanes that wait. */
  onOutcome(pair: Pair, hasChanged: boolean): void {
    if (hasChanged) this.onStateChanged(pair)
    else if (!pair.isNormal && !pair.slots.waiting.isEmpty) this.#options.onAllowed(pair)
  }

  /** Stores a changed state, and applies it to connections and waiting lanes. */
  onStateChanged(pair: Pair): void {
    const { suspension, factor } = pair.state
    this.#options.app.log.info(
      {
        provider: pair.provider.name,
        source: pair.sourceIp || undefined,
        factor,
        rule: suspension?.rule,
        reason: suspension?.reason,
        until: suspension && new Date(suspension.until).toISOString(),
      },
      suspension ? 'provider suspended' : factor < 1 ? 'provider slowed down' : 'provider back to its limits',
    )
    this.#store.save(pair)
    this.#timers.get(pair)?.cancel()
    this.#timers.delete(pair)
    this.#options.onChanged(pair)
    if (pair.allowance(this.instant()) > 0) this.#options.onAllowed(pair)
    else if (!pair.slots.waiting.isEmpty) this.wakeWhenAllowed(pair)
  }

  /** Lifts the suspensions and lowered rates of a provider. Returns how many pairs changed. */
  resume(providerName: string): number {
    const found = this.all().filter((pair) => pair.provider.name === providerName && !pair.isNormal)
    for (const pair of found) {
      pair.reset(this.instant())
      this.onStateChanged(pair)
    }
    return found.length
  }

  /** Resolves when every change is stored or given up. */
  flush(): Promise<void> {
    return this.#store.flush()
  }

  /** Cancels the timers, and resolves when every change is stored or given up. */
  async stop(): Promise<void> {
    this.#isStopped = true
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    for (const pair of this.#pairs.values()) if (pair.warmUp?.isChanged) this.#store.save(pair)
    await this.#store.flush()
  }

  /** Evicts unused pairs, at most once an hour, or when there are too many. */
  #sweep(): void {
    const at = this.instant()
    if (at.monotonicMs < this.#nextSweepAtMs && this.#pairs.size < MAX_PAIRS) return
    this.#nextSweepAtMs = at.monotonicMs + RETENTION_MS
    for (const [key, pair] of this.#pairs) {
      const hasEnded = (pair.state.suspension?.until ?? 0) + STATE_RETENTION_MS <= at.now
      const quietMs = pair.isNormal ? RETENTION_MS : STATE_RETENTION_MS
      if (!pair.slots.isIdle || pair.traffic.sum(quietMs, at.now).attempted > 0) continue
      if (pair.isNormal ? pair.provider.isNamed : !hasEnded) continue
      this.#forget(key, pair, at)
    }
    // With too many in spite of that, those that were created first are the least likely to be needed.
    for (const [key, pair] of this.#pairs) {
      if (this.#pairs.size < MAX_PAIRS) break
      if (!pair.slots.isIdle || pair.provider.isNamed) continue
      this.#forget(key, pair, at)
    }
  }

  #forget(key: string, pair: Pair, at: Instant): void {
    this.#pairs.delete(key)
    if (pair.isNormal) return
    pair.reset(at)
    this.#store.save(pair)
  }
}

type PairRow = Readonly<Omit<typeof providerPairs.$inferSelect, 'suspendedAt' | 'suspendedUntil'>> & {
  readonly since: Millis | null
  readonly until: Millis | null
}

const sql = prepareStatements((db) => ({
  all: db.prepare<PairRow, []>(
    `SELECT provider, source, factor, learned_per_minute AS learnedPerMinute, rule, reason, suspended_at AS since, suspended_until AS until,
     duration_ms AS durationMs, failures FROM provider_pairs`,
  ),
  save: db.prepare<unknown, [PairRow]>(
    `INSERT OR REPLACE INTO provider_pairs
     (provider, source, factor, learned_per_minute, rule, reason, suspended_at, suspended_until, duration_ms, failures)
     VALUES ($provider, $source, $factor, $learnedPerMinute, $rule, $reason, $since, $until, $durationMs, $failures)`,
  ),
  suspended: db.prepare<{ provider: string }, []>(
    'SELECT DISTINCT provider FROM provider_pairs WHERE suspended_until IS NOT NULL',
  ),
  remove: db.prepare('DELETE FROM provider_pairs WHERE provider = ? AND source = ?'),
}))

/** The providers that are suspended from any of our addresses. */
export const listSuspendedProviders = (db: Database): string[] =>
  sql(db)
    .suspended.all()
    .map(({ provider }) => provider)

/** Writes changed pairs one after the other; several changes of a pair in the meantime become one. */
class PairStore {
  readonly #app: PairsOptions['app']
  readonly #changed = new Set<Pair>()

  constructor(app: PairsOptions['app']) {
    this.#app = app
  }

  read(): (PairState & Pick<PairRow, 'provider' | 'source'>)[] {
    return sql(this.#app.db)
      .all.all()
      .map(({ provider, source, factor, learnedPerMinute, rule, reason, since, until, durationMs, failures }) => ({
        provider,
        source,
        factor,
        learnedPerMinute: learnedPerMinute ?? undefined,
        suspension:
          until === null
            ? undefined
            : { rule: rule ?? '', reason: reason ?? '', since: since ?? until, until, durationMs, failures },
      }))
  }

  save(pair: Pair): void {
    if (pair.warmUp) pair.warmUp.isChanged = false
    this.#changed.add(pair)
    void this.flush()
  }

  /** Resolves when every change is stored or was refused; a refused one is stored with the next change of its pair. */
  readonly flush = shareRun(() => this.#write())

  async #write(): Promise<void> {
    const { clock, commit, log } = this.#app
    while (this.#changed.size > 0) {
      const pairs = [...this.#changed]
      this.#changed.clear()
      try {
        await commit.writeFromReserve((tx) => {
          for (const pair of pairs) savePair(tx, pair, clock.now())
        })
      } catch (error) {
        log.error({ err: error }, 'state of a provider not stored')
      }
    }
  }
}

const NOT_SUSPENDED = { rule: null, reason: null, since: null, until: null, durationMs: 0, failures: 0 }

/** A pair that is as if it were new has no row. */
function savePair(tx: Tx, { provider: { name }, sourceIp, state, isNormal, warmUp }: Pair, now: Millis): void {
  const { factor, learnedPerMinute = null, suspension = NOT_SUSPENDED } = state
  if (isNormal) sql(tx.db).remove.run(name, sourceIp)
  else sql(tx.db).save.run({ provider: name, source: sourceIp, factor, learnedPerMinute, ...suspension })
  if (warmUp) saveWarmUp(tx, name, sourceIp, warmUp.stateAt(now))
}
