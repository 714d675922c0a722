/**
 * @module Counts SMTP sessions by domain, day, policy and failure, for TLS reports (RFC 8460). Only domains that ask
 * for reports are counted. Counts of up to a minute are only in memory; a crash loses them. The only writer of
 * `tls_session_counts`, with `reports.ts`.
 */
import type { App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, minutes, seconds } from '#platform/units.ts'
import { parseTlsReportRecord } from '#protocols/aggregate-reports/tls-record.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import {
  type DomainPolicy,
  findReportedFailure,
  type ReportedPolicy,
  type TlsResult,
  toReportedPolicy,
} from './tls-policy.ts'

const FLUSH_INTERVAL_MS = minutes(1)
/** Different counts in memory; a session that would add another one is not counted. */
const MAX_PENDING = 10_000
/** Domains of which it is known whether they ask for reports. */
const MAX_KNOWN_DOMAINS = 20_000
const KNOWN_MS = days(1)
/** How long a domain whose DNS fails is not asked again; its sessions are not counted until then. */
const FAILED_LOOKUP_MS = minutes(5)
const CONCURRENT_LOOKUPS = 32
/** Domains that are not asked within this time are asked at the next flush. */
const MAX_LOOKUPS_MS = seconds(30)
/** Rows of one domain and day; sessions that would add another one are not counted. */
const MAX_ROWS_PER_DOMAIN = 70
const MAX_ROWS = 50_000
/** A longer policy is stored without its text. */
const MAX_POLICY_LENGTH = 4096

/** Days since the epoch, UTC. */
export const toDay = (at: Millis): number => Math.floor(at / days(1))

interface Count {
  readonly day: number
  readonly domain: string
  /** JSON. */
  readonly policy: string
  /** JSON; empty for successful sessions. */
  readonly failure: string
  sessions: number
}

const sql = prepareStatements((db) => ({
  total: db.prepare<{ n: number }, []>('SELECT count(*) AS n FROM tls_session_counts'),
  ofDomain: db.prepare<{ n: number }, [number, string]>(
    'SELECT count(*) AS n FROM tls_session_counts WHERE day = ? AND domain = ?',
  ),
  addToRow: db.prepare<null, [number, number, string, string, string]>(
    `UPDATE tls_session_counts SET sessions = sessions + ? WHERE day = ? AND domain = ? AND policy = ? AND failure = ?`,
  ),
  add: db.prepare<null, [number, string, string, string, number]>(
    'INSERT INTO tls_session_counts (day, domain, policy, failure, sessions) VALUES (?, ?, ?, ?, ?)',
  ),
}))

export class SessionCounts {
  readonly #app: App
  readonly #pending = new Map<string, Count>()
  /** Whether each domain asks for reports, and until when this is taken as known. */
  readonly #wanted = new Map<string, { readonly isWanted: boolean; readonly until: Millis }>()
  #loop: DueLoop | undefined

  constructor(app: App) {
    this.#app = app
  }

  start(): void {
    const { clock, log } = this.#app
    this.#loop = startDueLoop({
      name: 'TLS session counts',
      clock,
      log,
      step: async (ending) => {
        await this.#flush(ending)
        return clock.now() + FLUSH_INTERVAL_MS
      },
    })
  }

  /** Stores the counts of domains that are known to ask for reports; asks DNS for no others. */
  async stop(): Promise<void> {
    await this.#loop?.stop()
    this.#loop = undefined
    await this.#store([...this.#pending.values()].filter(({ domain }) => this.#isWanted(domain) === true))
  }

  add(policy: DomainPolicy, result: TlsResult): void {
    const { domain } = policy
    if (this.#isWanted(domain) === false) return
    const day = toDay(this.#app.clock.now())
    const reported = formatPolicy(toReportedPolicy(policy, result.host))
    const type = findReportedFailure(policy, result)
    const failure = type === undefined ? '' : JSON.stringify(describeFailure(type, result))
    const key = `${day} ${domain} ${reported} ${failure}`
    const count = this.#pending.get(key)
    if (count) count.sessions++
    else if (this.#pending.size < MAX_PENDING)
      this.#pending.set(key, { day, domain, policy: reported, failure, sessions: 1 })
  }

  /** Stores the counts of domains that want reports, and drops those of the others. */
  async #flush(ending: AbortSignal): Promise<void> {
    await this.#lookUpAllWanted(ending)
    const wanted: Count[] = []
    for (const [key, count] of this.#pending) {
      const isWanted = this.#isWanted(count.domain)
      if (isWanted === undefined) continue
      this.#pending.delete(key)
      if (isWanted) wanted.push(count)
    }
    await this.#store(wanted)
  }

  /** Asks DNS which of the counted domains want reports, for a limited time. */
  async #lookUpAllWanted(ending: AbortSignal): Promise<void> {
    const { clock } = this.#app
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    const unknown = new Set<string>()
    for (const { domain } of this.#pending.values()) if (this.#isWanted(domain) === undefined) unknown.add(domain)
    const until = clock.monotonicMs() + MAX_LOOKUPS_MS
    const domains = [...unknown]
    const onEnding = () => end()
    ending.addEventListener('abort', onEnding)
    for (let from = 0; from < domains.length && !ending.aborted; from += CONCURRENT_LOOKUPS) {
      if (clock.monotonicMs() > until) break
      const batch = domains.slice(from, from + CONCURRENT_LOOKUPS).map((domain) => this.#lookUpWanted(domain))
      await Promise.race([Promise.all(batch), ended])
    }
    ending.removeEventListener('abort', onEnding)
  }

  #isWanted(domain: string): boolean | undefined {
    const known = this.#wanted.get(domain)
    return known && known.until > this.#app.clock.now() ? known.isWanted : undefined
  }

  async #lookUpWanted(domain: string): Promise<void> {
    const destinations = await lookUpDestinations(this.#app.resolver, domain)
    const isWanted = destinations !== 'unknown' && destinations.length > 0
    const until = this.#app.clock.now() + (destinations === 'unknown' ? FAILED_LOOKUP_MS : KNOWN_MS)
    const oldest = this.#wanted.keys().next().value
    if (this.#wanted.size >= MAX_KNOWN_DOMAINS && oldest !== undefined) this.#wanted.delete(oldest)
    this.#wanted.delete(domain)
    this.#wanted.set(domain, { isWanted, until })
  }

  async #store(counts: readonly Count[]): Promise<void> {
    if (counts.length === 0) return
    await this.#app.commit.write((tx) => {
      for (const count of counts) addCount(tx, count)
    })
  }
}

function addCount(tx: Tx, { day, domain, policy, failure, sessions }: Count): void {
  const { total, ofDomain, add, addToRow } = sql(tx.db)
  if (addToRow.run(sessions, day, domain, policy, failure).changes > 0) return
  const rows = ofDomain.get(day, domain)?.n ?? 0
  if (rows >= MAX_ROWS_PER_DOMAIN || (rows === 0 && (total.get()?.n ?? 0) >= MAX_ROWS)) return
  add.run(day, domain, policy, failure, sessions)
}

function formatPolicy(policy: ReportedPolicy): string {
  const text = JSON.stringify(policy)
  if (text.length <= MAX_POLICY_LENGTH) return text
  return JSON.stringify({ 'policy-type': policy['policy-type'], 'policy-domain': policy['policy-domain'] })
}

/** RFC 8460 §4.4: an element of `failure-details`, without its count. */
const describeFailure = (type: string, { host, address, localAddress }: TlsResult) => ({
  'result-type': type,
  ...(localAddress !== undefined && { 'sending-mta-ip': localAddress }),
  'receiving-mx-hostname': host,
  'receiving-ip': address,
})

/** Looks up where a domain wants its reports; an empty list: nowhere. `unknown`: DNS gave no answer. */
export async function lookUpDestinations(
  resolver: Resolver,
  domain: string,
): Promise<ReturnType<typeof parseTlsReportRecord> | 'unknown'> {
  const answer = await resolver.txt(`_smtp._tls.${domain}`)
  switch (answer.kind) {
    case 'ok':
      return parseTlsReportRecord(answer.records)
    case 'nodata':
    case 'nxdomain':
    case 'loop':
      return []
    default:
      return 'unknown'
  }
}
