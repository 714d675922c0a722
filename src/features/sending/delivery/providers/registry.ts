/** @module Finds the provider of a route by the names of its MX hosts. Never changes a limit. */
import { nameSite } from '#features/sending/transport-security/tls-policy.ts'
import type { Route } from '../model/protocol.ts'
import { DEFAULT_PROVIDER, type ProviderPolicy, readProviders } from './policy.ts'

/** A provider as a unit of policy: an entry of `providers.toml`, or a site without an entry. */
export interface Provider {
  /** The name of the entry, or the MX hosts of the site. */
  readonly name: string
  /** Whether the provider has an entry. */
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

/** The name of a site, whatever TLS a domain demands of its hosts. */
const nameHosts = (hosts: readonly { readonly host: string }[]): string =>
  nameSite(
    hosts.map(({ host }) => host),
    [],
  )

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

  /** All entries, in the order of the files. */
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

  /** The provider of these MX hosts. */
  providerOfHosts(hosts: readonly { readonly host: string }[]): Provider {
    return this.findProvider(nameHosts(hosts), hosts)
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
