/** @module A DNS provider as it is listed and configured: its name, the credentials that it takes, and its `DnsApi`. */
import type { SafeFetch } from '#platform/net/safe-fetch.ts'
import type { Clock } from '#platform/time/clock.ts'
import type { ServerAddress } from '#protocols/dns/exchange.ts'
import type { DnsApi } from './dns-api.ts'

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
