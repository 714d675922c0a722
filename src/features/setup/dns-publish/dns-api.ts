/**
 * @module What publishing asks of a DNS provider: the zone of a domain, the records at some names, and one change at a
 * time. An implementation keeps records that a change does not name, and never retries by itself. Also how a provider is
 * listed and configured.
 */
import type { SafeFetch } from '#platform/net/safe-fetch.ts'
import type { Clock } from '#platform/time/clock.ts'
import type { ServerAddress } from '#protocols/dns/exchange.ts'

export type PublishedType = 'TXT' | 'MX' | 'CNAME'

/** All records of one name and type. */
export interface RecordSet {
  /** Full name in lower case, without a trailing dot. */
  readonly name: string
  /** Other types matter only because they exclude ours, such as a CNAME or an A beside it. */
  readonly type: string
  readonly ttlSeconds: number
  /**
   * In wire form: TXT without quotes, its strings joined; MX as `10 mail.example.com`; CNAME as a name. Names are in
   * lower case, without a trailing dot.
   */
  readonly values: readonly string[]
}

/** A change of one record set: what was read, and what is to be there. Values in both stay untouched. */
export interface RecordChange {
  readonly name: string
  readonly type: PublishedType
  readonly ttlSeconds: number
  /** The values when the set was read; empty: there was none. */
  readonly before: readonly string[]
  /** Never empty. */
  readonly after: readonly string[]
}

export interface DnsApi {
  /**
   * The name of the zone that holds `domain`: the longest at or above it that the credentials may edit.
   * Throws `DnsApiError` `no_zone`.
   */
  findZone(domain: string): Promise<string>
  /** The sets of all types at the names, which are at or below the zone. */
  read(zone: string, names: readonly string[]): Promise<RecordSet[]>
  /** Throws `DnsApiError` `changed` when the set is no longer `before`, where the provider lets us know. */
  write(zone: string, change: RecordChange): Promise<void>
  /** Publishes what was written, where that is a step of its own; also what an interrupted run wrote. */
  publish?(zone: string): Promise<void>
}

/** `rejected`: the provider refuses the record, and says why. `unavailable`: no answer, or none that makes sense. */
export type DnsApiProblem = 'unauthorised' | 'no_zone' | 'rate_limited' | 'changed' | 'rejected' | 'unavailable'

/** `message`: sentences for the owner of the domain, with what to do; never with a secret. */
export class DnsApiError extends Error {
  readonly problem: DnsApiProblem
  /** Of `rate_limited`: seconds after which the provider accepts requests again, when it says so. */
  readonly retryAfterSeconds: number | undefined

  constructor(problem: DnsApiProblem, message: string, retryAfterSeconds?: number) {
    super(message)
    this.problem = problem
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export interface CredentialField {
  readonly name: string
  readonly label: string
  /** Never shown again, and not echoed while it is typed. */
  readonly isSecret: boolean
  readonly isRequired: boolean
  /** One sentence: where to find it, or what it defaults to. */
  readonly hint?: string
}

export interface DnsApiDeps {
  readonly fetch: SafeFetch
  readonly clock: Clock
  /** Aborted when the run must end. */
  readonly signal: AbortSignal
  /**
   * The addresses of a server that is not called by URL, by the rules of `fetch`. Throws `DnsApiError` `rejected` for
   * an address that may not be called, and `unavailable` when there is none.
   */
  resolveServer(host: string, port: number): Promise<readonly ServerAddress[]>
}

export interface DnsProviderEntry {
  /** As in the API and in commands, such as `cloudflare`. */
  readonly name: string
  /** As in domains/dns-providers.json, so that the provider found by name servers can be suggested. */
  readonly title: string
  readonly fields: readonly CredentialField[]
  /** The least rights that the credentials need, as `Needed: ` continues: `a token that …`. */
  readonly rights: string
  /** Where a token is created; null: no such page. */
  readonly tokenUrl: string | null
  /**
   * @param credentials values by name of field; all required ones are there
   * Throws `DnsApiError` `rejected` for a value that cannot be right.
   */
  create(deps: DnsApiDeps, credentials: Readonly<Record<string, string>>): DnsApi
}
