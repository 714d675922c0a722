/**
 * @module Domain Connect (domainconnect.org, version 2): a link to the DNS provider, on which its customer accepts the
 * records of our template. Needs no credentials. Links are not signed, so providers that demand `syncPubKeyDomain` have
 * no template of ours, and no link.
 */
import type { App } from '#features/core/app/app.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { KiB, seconds } from '#platform/units.ts'
import type { Domain } from '../domains/domains.ts'
import { listUsedRecords } from '../domains/published-dns.ts'
import { isWithin } from './plan.ts'

const LIMITS = { timeoutMs: seconds(4), maxResponseBytes: 64 * KiB }

/**
 * The link to the provider of the zone; null: it has no template of ours, or did not answer. It has the records that the
 * last check did not find: each is a group of the template, with its value and its host as variables.
 */
export async function findDomainConnectUrl(app: App, domain: Domain, zone: string): Promise<string | null> {
  const [providerId, serviceId] = app.config.domainConnect.split('/')
  const records = listUsedRecords(app, domain).filter(([, { verified }]) => !verified)
  if (!serviceId || records.length === 0) return null
  const answer = await app.resolver.txt(`_domainconnect.${zone}`)
  const [host = ''] = answer.kind === 'ok' ? answer.records : []
  const read = async (url: string) => {
    const outcome = await app.fetch.get(url, { headers: { accept: 'application/json' }, ...LIMITS })
    return outcome.kind === 'response' && outcome.status === 200 ? outcome.body : undefined
  }
  const settings = parseJsonObject((await read(`https://${host}/v2/${zone}/settings`)) ?? '')
  const [apiUrl, pageUrl] = [String(settings?.['urlAPI']), String(settings?.['urlSyncUX'])]
  const path = `/v2/domainTemplates/providers/${providerId}/services/${serviceId}`
  if (!pageUrl.startsWith('https://') || (await read(`${apiUrl}${path}`)) === undefined) return null
  // Hosts in a template are relative to this name.
  const base = domain.domain
  const query = new URLSearchParams({ domain: zone, ...(base !== zone && { host: base.slice(0, -zone.length - 1) }) })
  const groups: string[] = []
  for (const [key, { host: name, value, further_values: further }] of records) {
    if (further || !isWithin(name, base)) continue
    groups.push(key)
    query.set(`${key}_host`, name === base ? '@' : name.slice(0, -base.length - 1))
    // The provider merges SPF terms, and adds version and `all` itself.
    query.set(key, key === 'spf' ? value.split(' ').slice(1, -1).join(' ') : value)
  }
  query.set('groupId', groups.join(','))
  // Not every provider reads `+` as a space.
  return groups.length > 0 ? `${pageUrl}${path}/apply?${`${query}`.replaceAll('+', '%20')}` : null
}
