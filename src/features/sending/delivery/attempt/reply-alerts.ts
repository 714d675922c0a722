/**
 * @module Warns the operator of replies that our IP or our set-up caused: block lists, reputation, failed
 * authentication. Logs one line an hour for each rule and provider, so that neither a block nor many strange servers
 * flood the log, and lists what was rejected in the last day.
 */

import type { Log } from '#platform/log/log.ts'
import type { Clock } from '#platform/time/clock.ts'
import { days, hours, type Millis } from '#platform/units.ts'
import type { AttemptSession, BounceCategory } from '../protocol.ts'
import type { Pair } from '../providers/pair.ts'
import type { Verdict } from '../verdict/outcome.ts'
import { categoryOfRule, isAlertRule } from '../verdict/reply-rules.ts'

const ALERT_INTERVAL_MS = hours(1)
const MAX_REPLY_LENGTH = 500
/** An alert ends this long after its last reply. */
const ALERT_RETENTION_MS = days(1)
/** A site without an entry is a provider of its own, and tenants decide how many sites there are. */
const MAX_ALERTS = 200

export interface Alerting {
  readonly site: string
  readonly pair: Pick<Pair, 'key' | 'provider' | 'sourceIp'>
  readonly session: AttemptSession | undefined
}

/** What a rule found about a pair of provider and outgoing address, until a day has passed without such a reply. */
export interface ReplyAlert {
  readonly rule: string
  readonly category: BounceCategory
  readonly provider: string
  readonly isNamed: boolean
  /** The address from which the last message left. */
  readonly source: string | undefined
  readonly reply: string
  readonly firstAt: Millis
  readonly lastAt: Millis
  /** Attempts that ended with such a reply. */
  readonly count: number
}

export class ReplyAlerts {
  readonly #clock: Clock
  readonly #log: Log
  /** By rule and provider: as many as there are of both. */
  readonly #lines = new Map<string, { loggedAt: Millis; unlogged: number }>()
  /** By rule and pair; the last one to be recorded comes last. */
  readonly #alerts = new Map<string, ReplyAlert>()

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** Alerts of the last day, the newest reply first. Of those before the start of the service, only suspensions are known. */
  list(): ReplyAlert[] {
    this.#deleteEnded()
    return [...this.#alerts.values()].reverse()
  }

  /** Adds the alerts of pairs that were suspended before the start of the service. */
  restore(pairs: readonly Pair[]): void {
    const suspended = pairs.flatMap(({ key, provider, sourceIp, state: { suspension } }) =>
      suspension && isAlertRule(suspension.rule) ? [{ key, provider, sourceIp, suspension }] : [],
    )
    const lastAt = ({ suspension: { until, durationMs } }: (typeof suspended)[0]) => until - durationMs
    for (const pair of suspended.toSorted((a, b) => lastAt(a) - lastAt(b)).slice(-MAX_ALERTS)) {
      const { key, provider, sourceIp, suspension } = pair
      this.#alerts.set(`${suspension.rule} ${key}`, {
        rule: suspension.rule,
        category: categoryOfRule(suspension.rule),
        reply: suspension.reason,
        provider: provider.name,
        isNamed: provider.isNamed,
        source: sourceIp || undefined,
        firstAt: suspension.since,
        lastAt: lastAt(pair),
        count: suspension.failures,
      })
    }
  }

  /** Records a verdict that the operator should know of; ignores all others. */
  record(verdict: Verdict, alerting: Alerting): void {
    if ((verdict.kind !== 'deferred' && verdict.kind !== 'bounced') || !verdict.alert || verdict.rule === undefined)
      return
    const { rule, category } = verdict
    const words = verdict.kind === 'deferred' ? verdict.reason : verdict.reply
    const found = { rule, category, reply: words.slice(0, MAX_REPLY_LENGTH).toWellFormed() }
    this.#add(found, alerting)
    this.#logLine(found, alerting)
  }

  #add(found: Pick<ReplyAlert, 'rule' | 'category' | 'reply'>, { pair, session }: Alerting): void {
    this.#deleteEnded()
    const key = `${found.rule} ${pair.key}`
    const known = this.#alerts.get(key)
    const now = this.#clock.now()
    this.#alerts.delete(key)
    if (this.#alerts.size >= MAX_ALERTS) {
      // Those of listed providers concern most of the mail.
      const [oldest] = [...this.#alerts].find(([, { isNamed }]) => !isNamed) ?? [...this.#alerts][0] ?? []
      if (oldest !== undefined) this.#alerts.delete(oldest)
    }
    this.#alerts.set(key, {
      ...found,
      provider: pair.provider.name,
      isNamed: pair.provider.isNamed,
      source: session?.localAddress ?? (pair.sourceIp || undefined),
      firstAt: known?.firstAt ?? now,
      lastAt: now,
      count: (known?.count ?? 0) + 1,
    })
  }

  /** Also those that were recorded while the clock was ahead. */
  #deleteEnded(): void {
    const now = this.#clock.now()
    for (const [key, { lastAt }] of this.#alerts)
      if (Math.abs(now - lastAt) >= ALERT_RETENTION_MS) this.#alerts.delete(key)
  }

  #logLine(found: Pick<ReplyAlert, 'rule' | 'category' | 'reply'>, { site, pair, session }: Alerting): void {
    // Servers that belong to no listed provider share one line.
    const provider = pair.provider.isNamed ? pair.provider.name : undefined
    const key = `${found.rule} ${provider ?? ''}`
    const now = this.#clock.now()
    const line = this.#lines.get(key)
    // A clock that was set back must not silence the line.
    if (line && now >= line.loggedAt && now - line.loggedAt < ALERT_INTERVAL_MS) {
      line.unlogged++
      return
    }
    this.#lines.set(key, { loggedAt: now, unlogged: 0 })
    const fields = { provider, site, host: session?.host, source: session?.localAddress }
    const moreInLastHour = line?.unlogged ?? 0
    this.#log.warn({ ...found, ...fields, moreInLastHour }, 'mail is rejected because of our IP or set-up')
  }
}
