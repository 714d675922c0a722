/**
 * @module Reads `providers.toml` and the file of `TASSIS_PROVIDERS_FILE`: the limits of each provider. A mistake throws
 * a ConfigError that names file, entry, field and what is allowed. Never applies a limit.
 */

import { readFileSync } from 'node:fs'
import { type Static, Type } from '@sinclair/typebox'
import { nameSite } from '#features/sending/transport-security/transport-security.ts'
import { attempt } from '#platform/errors.ts'
import { StrictObject, StringEnum } from '#platform/http/schemas.ts'
import { createCheck } from '#platform/http/validation.ts'
import { perOwner } from '#platform/per-owner.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { HOST_NAME } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import type { Route } from '../protocol.ts'
import embedded from './providers.toml' with { type: 'text' }

/** The entry for every site that belongs to no other. */
const DEFAULT_PROVIDER = 'default'
/** The entries for the servers at TASSIS_RELAY_URL and at TASSIS_OVERFLOW_URL. */
export const SMARTHOST_PROVIDER = 'smarthost'
export const OVERFLOW_PROVIDER = 'overflow'

const limit = (minimum: number, maximum: number) => Type.Integer({ minimum, maximum })

/** The fields of an entry; those of `[default]` replace missing ones. */
const FIELDS = {
  mx: Type.Array(Type.RegExp(HOST_NAME, { errorMessage: 'a host name such as "mx.example.com"' }), { maxItems: 100 }),
  connections: limit(1, 1000),
  messages_per_connection: limit(1, 100_000),
  connection_age_seconds: limit(1, 86_400),
  idle_seconds: limit(0, 300),
  per_second: limit(0, 100_000),
  per_minute: limit(0, 1_000_000),
  tls: StringEnum(['opportunistic', 'required']),
  route: StringEnum(['direct', 'smarthost']),
  source: Type.String({ maxLength: 300 }),
}
const Entry = StrictObject(FIELDS)
type Entry = Static<typeof Entry>
const Entries = Type.Record(Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,39}$' }), Type.Partial(Entry), {
  additionalProperties: false,
})
type Entries = Static<typeof Entries>

const findProblems = createCheck(Entries, 'the file')

/** The policies of all providers, `default` and `smarthost` among them. Throws ConfigError for a mistake in the file. */
export function readProviders({
  providersFile: path,
  relayUrl,
  overflowUrl,
}: Pick<Config, 'providersFile' | 'relayUrl' | 'overflowUrl'>): ReadonlyMap<string, ProviderPolicy> {
  const entries = parseProviders('providers.toml', embedded)
  const own = path === '' ? {} : parseProviders(path, readFile(path))
  for (const [name, entry] of Object.entries(own)) entries[name] = { ...entries[name], ...entry }
  requireDistinctSuffixes(path, entries)
  const relayed = Object.entries(entries).find(([, { route }]) => route === 'smarthost')
  if (relayed && relayUrl === '' && overflowUrl === '')
    throw new ConfigError(
      `${path}: ${relayed[0]}.route is "smarthost" but neither TASSIS_RELAY_URL nor TASSIS_OVERFLOW_URL is set; set one to a URL such as smtp://user:password@smtp.example.com:587.`,
    )
  const { default: fallback } = entries
  return new Map(
    Object.entries(entries).map(([name, entry]) => [name, toPolicy(name, { ...fallback, mx: [], ...entry } as Entry)]),
  )
}

function readFile(path: string): string {
  const text = attempt(() => readFileSync(path, 'utf8'))
  if (text !== undefined) return text
  throw new ConfigError(
    `TASSIS_PROVIDERS_FILE is "${path}", which cannot be read; give the path of a readable TOML file or unset it.`,
  )
}

function parseProviders(path: string, text: string): Entries {
  let entries: unknown
  try {
    entries = Bun.TOML.parse(text)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new ConfigError(`${path}:${findSyntaxErrorLine(text)}: this is not valid TOML: ${reason}.`)
  }
  const [problem] = findProblems(entries)
  if (problem) throw new ConfigError(`${path}: ${problem.field} ${problem.message}`)
  return entries as Entries
}

/** The line after the longest beginning that is valid, because the error of the parser names none. */
function findSyntaxErrorLine(text: string): number {
  const lines = text.split('\n')
  const valid = lines.findLastIndex((_, i) => attempt(() => Bun.TOML.parse(lines.slice(0, i).join('\n'))) !== undefined)
  return valid + 1
}

function requireDistinctSuffixes(path: string, entries: Entries): void {
  const nameOf = new Map<string, string>()
  for (const [name, { mx = [] }] of Object.entries(entries))
    for (const suffix of mx) {
      const other = nameOf.get(suffix.toLowerCase())
      if (other !== undefined)
        throw new ConfigError(
          `${path}: ${name}.mx has the suffix "${suffix}", which is also in [${other}]; each may be in one entry, once.`,
        )
      nameOf.set(suffix.toLowerCase(), name)
    }
}

/** The limits of a provider, for each of our outgoing addresses. */
export type ProviderPolicy = Readonly<ReturnType<typeof toPolicy>>

const toPolicy = (name: string, entry: Entry) => ({
  name,
  /** Suffixes of the names of the MX hosts, in lower case. */
  mx: entry.mx.map((suffix) => suffix.toLowerCase()),
  connections: entry.connections,
  messagesPerConnection: entry.messages_per_connection,
  connectionAgeMs: seconds(entry.connection_age_seconds),
  idleMs: seconds(entry.idle_seconds),
  /** Messages in any second, and in any minute; 0: no limit. */
  perSecond: entry.per_second,
  perMinute: entry.per_minute,
  tls: entry.tls,
  route: entry.route,
  /** Where the figures are published, or that they are a conservative default. */
  source: entry.source,
})

/** A provider as a unit of policy: an entry of `providers.toml`, or a site without an entry. */
export interface Provider {
  readonly name: string
  readonly isNamed: boolean
  /** Whether it is a server of this process: its replies change no limit and cause no alert. */
  readonly isLocal?: true
  readonly policy: ProviderPolicy
}

/** The name of the provider in metrics: a site without an entry is `other`, because tenants decide how many there are. */
export const labelProvider = ({ name, isNamed, isLocal }: Provider): string =>
  isLocal ? 'local' : isNamed ? name : 'other'

/** Names of sites are shortened to this, because a domain may have many MX hosts with long names. */
const MAX_NAME_LENGTH = 200

export class ProviderRegistry {
  readonly #policies: ReadonlyMap<string, ProviderPolicy>
  readonly #default: ProviderPolicy
  readonly #bySuffix = new Map<string, ProviderPolicy>()

  /** Throws ConfigError for a mistake in the file of providers. */
  constructor(config: Parameters<typeof readProviders>[0]) {
    this.#policies = readProviders(config)
    const fallback = this.#policies.get(DEFAULT_PROVIDER)
    if (!fallback) throw new Error('providers.toml has no [default]')
    this.#default = fallback
    for (const policy of this.#policies.values()) for (const suffix of policy.mx) this.#bySuffix.set(suffix, policy)
  }

  /** Connections of a site without an entry. */
  get siteConnections(): number {
    return this.#default.connections
  }

  policies(): readonly ProviderPolicy[] {
    return [...this.#policies.values()]
  }

  /**
   * The provider of a route. The capture server, and the simulator for each account, are providers of their own, without a
   * limit of the rate: what one account simulates must not delay the mail of others.
   */
  providerOf({ site, hosts, fromOutboundIps, smarthost }: Route): Provider {
    if (!fromOutboundIps)
      return { name: site, isNamed: false, isLocal: true, policy: { ...this.#default, perSecond: 0, perMinute: 0 } }
    return smarthost ? this.byName(smarthost) : this.providerOfHosts(hosts)
  }

  /** The provider of these MX hosts, whatever TLS a domain demands of them. */
  providerOfHosts(hosts: readonly { readonly host: string }[]): Provider {
    const names = hosts.map(({ host }) => host)
    return this.findProvider(nameSite(names, []), hosts)
  }

  /** The provider of a site: that of all its MX hosts, else the site itself. */
  findProvider(site: string, hosts: readonly { readonly host: string }[]): Provider {
    const [first, ...others] = hosts.map(({ host }) => this.#findPolicy(host))
    return first && others.every((other) => other === first) ? toProvider(first) : this.#toSite(site)
  }

  /** The provider of a name that `findProvider` returned. */
  byName(name: string): Provider {
    const policy = name === DEFAULT_PROVIDER ? undefined : this.#policies.get(name)
    return policy ? toProvider(policy) : this.#toSite(name)
  }

  #toSite(site: string): Provider {
    // A host name without a dot must not be taken for an entry.
    if (!/[. ]/.test(site)) return this.#toSite(`site ${site}`)
    const name = site.length <= MAX_NAME_LENGTH ? site : `${site.slice(0, MAX_NAME_LENGTH - 20)}…${Bun.hash(site)}`
    return { name, isNamed: false, policy: this.#default }
  }

  /** The entry with the longest suffix of a host name, at a boundary of its labels. */
  #findPolicy(host: string): ProviderPolicy | undefined {
    let suffix = host.toLowerCase().replace(/\.$/, '')
    while (suffix !== '') {
      const policy = this.#bySuffix.get(suffix)
      if (policy) return policy
      const dot = suffix.indexOf('.')
      suffix = dot === -1 ? '' : suffix.slice(dot + 1)
    }
    return undefined
  }
}

/** The providers of a configuration; the file is read once. Throws ConfigError for a mistake in it. */
export const registryOf = perOwner((config: Config) => new ProviderRegistry(config))

const toProvider = (policy: ProviderPolicy): Provider => ({ name: policy.name, isNamed: true, policy })
