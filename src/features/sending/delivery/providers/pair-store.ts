/** @module Stores what a restart must not lose of a pair: its suspension, its lowered rate and its warm-up. */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { Pair, PairState } from './pair.ts'
import type { WarmUpState } from './warm-up.ts'
import { saveWarmUp } from './warm-up-store.ts'

export interface StoredPair extends PairState {
  readonly provider: string
  readonly source: string
}

interface PairRow {
  readonly provider: string
  readonly source: string
  readonly factor: number
  readonly learnedPerMinute: number | null
  readonly rule: string | null
  readonly reason: string | null
  readonly since: number | null
  readonly until: number | null
  readonly durationMs: number
  readonly failures: number
}

const sql = prepareStatements((db) => ({
  all: db.prepare<PairRow, []>(
    `SELECT provider, source, factor, learned_per_minute AS learnedPerMinute, rule, reason, suspended_at AS since, suspended_until AS until,
     duration_ms AS durationMs, failures FROM provider_pairs`,
  ),
  save: db.prepare(
    `INSERT OR REPLACE INTO provider_pairs
     (provider, source, factor, learned_per_minute, rule, reason, suspended_at, suspended_until, duration_ms, failures)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
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

/** Writes changes one after the other; several changes of a pair in the meantime become one. */
export class PairStore {
  readonly #app: Pick<App, 'commit' | 'db' | 'log'>
  /** By key. */
  readonly #changed = new Map<string, StoredPair | { readonly provider: string; readonly source: string }>()
  readonly #warmUps = new Map<
    string,
    { readonly provider: string; readonly source: string; readonly state: WarmUpState }
  >()
  #writing: Promise<void> | undefined

  constructor(app: Pick<App, 'commit' | 'db' | 'log'>) {
    this.#app = app
  }

  read(): StoredPair[] {
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
    if (pair.isNormal) this.remove(pair)
    else this.#add(pair.key, { provider: pair.provider.name, source: pair.sourceIp, ...pair.state })
  }

  remove(pair: Pair): void {
    this.#add(pair.key, { provider: pair.provider.name, source: pair.sourceIp })
  }

  saveWarmUp({ key, provider, sourceIp, warmUp }: Pair, now: Millis): void {
    if (!warmUp) return
    this.#warmUps.set(key, { provider: provider.name, source: sourceIp, state: warmUp.stateAt(now) })
    warmUp.markStored()
    void this.flush()
  }

  #add(key: string, change: StoredPair | { readonly provider: string; readonly source: string }): void {
    this.#changed.set(key, change)
    void this.flush()
  }

  /** Resolves when every change is stored or was refused; a refused one is stored with the next change of its pair. */
  flush(): Promise<void> {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    while (this.#changed.size > 0 || this.#warmUps.size > 0) {
      const changes = [...this.#changed.values()]
      const warmUps = [...this.#warmUps.values()]
      this.#changed.clear()
      this.#warmUps.clear()
      try {
        await this.#app.commit.writeFromReserve((tx) => {
          const statements = sql(tx.db)
          for (const { provider, source, state } of warmUps) saveWarmUp(tx, provider, source, state)
          for (const change of changes) {
            const { provider, source } = change
            if (!('factor' in change)) {
              statements.remove.run(provider, source)
              continue
            }
            const { factor, learnedPerMinute, suspension: s } = change
            statements.save.run(
              provider,
              source,
              factor,
              learnedPerMinute ?? null,
              s?.rule ?? null,
              s?.reason ?? null,
              s?.since ?? null,
              s?.until ?? null,
              s?.durationMs ?? 0,
              s?.failures ?? 0,
            )
          }
        })
      } catch (error) {
        this.#app.log.error({ err: error }, 'state of a provider not stored')
      }
    }
  }
}
