/**
 * @module Well-known DNS providers, recognised by the names of a zone's name servers, and the form in which they want
 * the name of a record typed. Looks nothing up.
 */
import data from './dns-providers.json' with { type: 'json' }

export interface DnsProvider {
  readonly name: string
  /** Domains of its name servers; a `*` at the end of a label stands for any characters. */
  readonly nameServers: readonly string[]
  /** Where records are edited; `{zone}` stands for the name of the zone. Only addresses that need no other value. */
  readonly editUrl?: string | undefined
  /** Whether its form wants full names; else it appends the zone itself. */
  readonly wantsFullNames?: boolean | undefined
  /** What stands for the zone itself in a form that appends it; default `@`, empty: leave the field empty. */
  readonly apex?: string | undefined
}

const PROVIDERS: readonly DnsProvider[] = data

/**
 * The provider that runs all of these name servers; undefined when it is unknown, or when several do and it is not
 * clear where records are edited.
 */
export function findDnsProvider(nameServers: readonly string[]): DnsProvider | undefined {
  const [first, ...others] = nameServers
  const provider = first === undefined ? undefined : PROVIDERS.find((one) => runs(one, first))
  return provider && others.every((server) => runs(provider, server)) ? provider : undefined
}

const runs = ({ nameServers }: DnsProvider, server: string): boolean =>
  nameServers.some((pattern) => {
    const labels = pattern.split('.')
    const found = server.split('.').slice(-labels.length)
    return found.length === labels.length && labels.every((label, i) => matchesLabel(label, found[i] ?? ''))
  })

/** A `*` at the end of a label stands for any characters. */
const matchesLabel = (pattern: string, label: string): boolean =>
  pattern.endsWith('*') ? label.startsWith(pattern.slice(0, -1)) : label === pattern

/** The address at which the records of a zone are edited; null: unknown. */
export const getEditUrl = ({ editUrl }: DnsProvider, zone: string): string | null =>
  editUrl?.replace('{zone}', encodeURIComponent(zone)) ?? null

/** The name of a record as the provider's form wants it typed; an unknown provider's takes relative names. */
export function toTypedName(name: string, zone: string, provider: DnsProvider | undefined): string {
  if (provider?.wantsFullNames) return name
  if (name === zone) return provider?.apex ?? '@'
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name
}
