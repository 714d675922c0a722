/**
 * @module Warns the operator of replies that our IP or our set-up caused: block lists, reputation, failed
 * authentication. One line an hour for each rule and provider, so that neither a block nor many strange servers flood
 * the log.
 */
import type { Clock, Millis } from '#platform/clock.ts'
import type { Log } from '#platform/log.ts'
import { hours } from '#platform/units.ts'
import type { Verdict } from './outcome.ts'
import type { AttemptSession } from './protocol.ts'

const ALERT_INTERVAL_MS = hours(1)
const MAX_LOGGED_LENGTH = 500

export interface Alerting {
  readonly site: string
  /** Name in providers.toml; servers that belong to none share one line. */
  readonly provider: string | undefined
  readonly session: AttemptSession | undefined
}

export class ReplyAlerts {
  readonly #clock: Clock
  readonly #log: Log
  /** By rule and provider: as many as there are of both. */
  readonly #lines = new Map<string, { loggedAt: Millis; unlogged: number }>()

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** Logs a verdict that the operator should know of; ignores all others. */
  note(verdict: Verdict, { site, provider, session }: Alerting): void {
    if (verdict.kind !== 'deferred' || !verdict.alert || verdict.rule === undefined) return
    const key = `${verdict.rule} ${provider ?? ''}`
    const now = this.#clock.now()
    const line = this.#lines.get(key)
    // A clock that was set back must not silence the line.
    if (line && now >= line.loggedAt && now - line.loggedAt < ALERT_INTERVAL_MS) {
      line.unlogged++
      return
    }
    this.#lines.set(key, { loggedAt: now, unlogged: 0 })
    this.#log.warn(
      {
        rule: verdict.rule,
        category: verdict.category,
        provider,
        site,
        host: session?.host,
        source: session?.localAddress,
        reply: verdict.reason.slice(0, MAX_LOGGED_LENGTH),
        moreInLastHour: line?.unlogged ?? 0,
      },
      'mail is rejected because of our IP or set-up',
    )
  }
}
