/**
 * @module Reads `providers.toml` and the file of `TASSIS_PROVIDERS_FILE`: the limits of each provider. A mistake throws
 * a ConfigError that names file, line and what is allowed. Never applies a limit.
 */
import { readFileSync } from 'node:fs'
import { nameSite } from '#features/sending/transport-security/tls-policy.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { HOST_NAME } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import type { Route } from '../protocol.ts'
import embedded from './providers.toml' with { type: 'text' }

/** The limits of a provider, for each of our outgoing addresses. */
export interface ProviderPolicy {
  readonly name: string
  /** Suffixes of the names of the MX hosts, in lower case. */
  readonly mx: readonly string[]
  readonly connections: number
  readonly messagesPerConnection: number
  readonly connectionAgeMs: number
  readonly idleMs: number
  /** Messages in any second, and in any minute; 0: no limit. */
  readonly perSecond: number
  readonly perMinute: number
  readonly tls: 'opportunistic' | 'required'
  readonly route: 'direct' | 'smarthost'
  /** Where the figures are published, or that they are a conservative default. */
  readonly source: string
}

/** The entry for every site that belongs to no other. */
const DEFAULT_PROVIDER = 'default'
/** The entries for the servers at TASSIS_RELAY_URL and at TASSIS_OVERFLOW_URL. */
export const SMARTHOST_PROVIDER = 'smarthost'
export const OVERFLOW_PROVIDER = 'overflow'

type Entry = Readonly<Record<string, unknown>>

/** A kind of field: what is allowed, in words, and whether a value is that. */
interface FieldKind {
  readonly allowed: string
  readonly isAllowed: (value: unknown) => boolean
}

const wholeNumber = (min: number, max: number): FieldKind => ({
  allowed: `a whole number from ${min} to ${max}`,
  isAllowed: (value) => typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max,
})

const oneOf = (...values: readonly string[]): FieldKind => ({
  allowed: values.map((value) => `"${value}"`).join(' or '),
  isAllowed: (value) => values.some((allowed) => allowed === value),
})

const MAX_SUFFIXES = 100

const FIELDS: Readonly<Record<string, FieldKind>> = {
  mx: {
    allowed: `a list of at most ${MAX_SUFFIXES} host names such as ["mx.example.com"]`,
    isAllowed: (value) =>
      Array.isArray(value) &&
      value.length <= MAX_SUFFIXES &&
      value.every((suffix) => typeof suffix === 'string' && HOST_NAME.test(suffix)),
  },
  connections: wholeNumber(1, 1000),
  messages_per_connection: wholeNumber(1, 100_000),
  connection_age_seconds: wholeNumber(1, 86_400),
  idle_seconds: wholeNumber(0, 300),
  per_second: wholeNumber(0, 100_000),
  per_minute: wholeNumber(0, 1_000_000),
  tls: oneOf('opportunistic', 'required'),
  route: oneOf('direct', 'smarthost'),
  source: {
    allowed: 'a text of at most 300 characters',
    isAllowed: (value) => typeof value === 'string' && value.length <= 300,
  },
}

const NAME = /^[a-z0-9][a-z0-9-]{0,39}$/
const MAX_ENTRIES = 1000

/** A file of entries by name. `text` finds the line of a mistake. */
interface ProviderFile {
  readonly path: string
  readonly text: string
  readonly entries: Readonly<Record<string, Entry>>
}

/** The policies of all providers, `default` and `smarthost` among them. Throws ConfigError for a mistake in a file. */
export function readProviders(
  config: Pick<Config, 'providersFile' | 'relayUrl' | 'overflowUrl'>,
): ReadonlyMap<string, ProviderPolicy> {
  const files = [parseProviders('providers.toml', embedded)]
  if (config.providersFile !== '') files.push(parseProviders(config.providersFile, readFile(config.providersFile)))
  const merged = new Map<string, Entry>()
  for (const { entries } of files)
    for (const [name, entry] of Object.entries(entries)) merged.set(name, { ...merged.get(name), ...entry })
  requireDistinctSuffixes(merged, files)
  if (config.relayUrl === '' && config.overflowUrl === '') requireDirectRoutes(files)
  const fallback = merged.get(DEFAULT_PROVIDER)
  return new Map([...merged].map(([name, entry]) => [name, toPolicy(name, { ...fallback, mx: [], ...entry })]))
}

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    throw new ConfigError(
      `TASSIS_PROVIDERS_FILE is "${path}", which cannot be read; give the path of a readable TOML file or unset it.`,
    )
  }
}

/** Parses the entries of a file and checks their names and fields. */
function parseProviders(path: string, text: string): ProviderFile {
  let entries: Record<string, Entry>
  try {
    entries = Bun.TOML.parse(text) as Record<string, Entry>
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new ConfigError(`${path}:${findSyntaxErrorLine(text)}: this is not valid TOML: ${reason}.`)
  }
  const names = Object.keys(entries)
  if (names.length > MAX_ENTRIES) throw new ConfigError(`${path} has more than ${MAX_ENTRIES} entries.`)
  for (const name of names) checkEntry({ path, text, entries }, name)
  return { path, text, entries }
}

function checkEntry({ path, text, entries }: ProviderFile, name: string): void {
  const entry: unknown = entries[name]
  const createError = (key: string | undefined, problem: string): ConfigError =>
    new ConfigError(`${path}:${findLine(text, name, key)}: ${problem}`)
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw createError(undefined, `"${name}" stands outside of an entry; write it below a line such as [gmail].`)
  if (!NAME.test(name))
    throw createError(
      undefined,
      `"${name}" is no name of a provider; allowed are a to z, 0 to 9 and "-", at most 40 characters.`,
    )
  for (const [key, value] of Object.entries(entry)) {
    const field = FIELDS[key]
    if (!field) throw createError(key, `there is no field "${key}"; allowed are ${Object.keys(FIELDS).join(', ')}.`)
    if (!field.isAllowed(value))
      throw createError(key, `${key} is ${JSON.stringify(value)}; allowed is ${field.allowed}.`)
  }
}

function requireDistinctSuffixes(entries: ReadonlyMap<string, Entry>, files: readonly ProviderFile[]): void {
  const nameOf = new Map<string, string>()
  for (const [name, { mx }] of entries)
    for (const suffix of (mx ?? []) as readonly string[]) {
      const key = suffix.toLowerCase()
      const other = nameOf.get(key)
      nameOf.set(key, name)
      if (other === undefined) continue
      const file = files.findLast((candidate) => candidate.entries[name]?.['mx'] !== undefined)
      throw new ConfigError(
        `${file?.path}:${findLine(file?.text ?? '', name, 'mx')}: the suffix "${suffix}" is also in [${other}]; each may be in one entry, once.`,
      )
    }
}

/** Throws ConfigError when mail to a provider should take the smarthost and there is none. */
function requireDirectRoutes(files: readonly ProviderFile[]): void {
  for (const { path, text, entries } of files)
    for (const [name, { route }] of Object.entries(entries))
      if (route === 'smarthost')
        throw new ConfigError(
          `${path}:${findLine(text, name, 'route')}: route is "smarthost" but neither TASSIS_RELAY_URL nor TASSIS_OVERFLOW_URL is set; set one to a URL such as smtp://user:password@smtp.example.com:587.`,
        )
}

function toPolicy(name: string, entry: Entry): ProviderPolicy {
  const number = (key: string): number => Number(entry[key])
  return {
    name,
    mx: (entry['mx'] as readonly string[]).map((suffix) => suffix.toLowerCase()),
    connections: number('connections'),
    messagesPerConnection: number('messages_per_connection'),
    connectionAgeMs: seconds(number('connection_age_seconds')),
    idleMs: seconds(number('idle_seconds')),
    perSecond: number('per_second'),
    perMinute: number('per_minute'),
    tls: entry['tls'] === 'required' ? 'required' : 'opportunistic',
    route: entry['route'] === 'smarthost' ? 'smarthost' : 'direct',
    source: String(entry['source']),
  }
}

/** The line of a field of an entry, or of the entry itself, from 1. */
function findLine(text: string, name: string, key: string | undefined): number {
  const lines = text.split('\n')
  const isHeader = (line: string): boolean => /^\s*\[/.test(line)
  const start = lines.findIndex((line) => isHeader(line) && line.replace(/[[\]"'\s]|#.*/g, '') === name)
  const first = lines.findIndex((line) => line.trim().startsWith(name))
  if (start === -1) return Math.max(0, first) + 1
  if (key === undefined) return start + 1
  for (const [offset, line] of lines.slice(start + 1).entries()) {
    if (isHeader(line)) break
    if (line.replace(/["'\s]/g, '').startsWith(`${key}=`)) return start + offset + 2
  }
  return start + 1
}

/** The line after the longest beginning of a text that is valid TOML. */
function findSyntaxErrorLine(text: string): number {
  const lines = text.split('\n')
  for (let valid = lines.length - 1; valid > 0; valid--) {
    try {
      Bun.TOML.parse(lines.slice(0, valid).join('\n'))
      return valid + 1
    } catch {
      // The mistake is on an earlier line.
    }
  }
  return 1
}

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

const toProvider = (policy: ProviderPolicy): Provider => ({ name: policy.name, isNamed: true, policy })
