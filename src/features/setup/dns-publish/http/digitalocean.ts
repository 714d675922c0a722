/** @module DigitalOcean's API v2: single records, with relative names, and TXT data without quotes. */
import { DnsApiError } from '../dns-api.ts'
import { parseName, toRelativeName } from './record-text.ts'
import { bearer, type Connect, changeRecords, ifExists, listPages } from './zone-api.ts'

type ZoneRecord = { id: number; name: string; type: string; data: string; ttl: number; priority: number | null }
type Page = { domain_records: ZoneRecord[]; links?: { pages?: { next?: string } } }

export const digitalocean: Connect = (open, credentials) => {
  const api = open(bearer(credentials))
  return {
    api,
    findPath: (zone) => ifExists(api, `/domains/${zone}`, '/records'),
    async list(path, zone, name) {
      const records = await listPages(async (page) => {
        const query = `name=${name}&page=${page}&per_page=200`
        const { domain_records, links } = await api.call<Page>('GET', `${path}?${query}`)
        return [domain_records, links?.pages?.next !== undefined]
      })
      return records
        .filter((record) => record.name.toLowerCase() === toRelativeName(name, zone))
        .map(({ id, type, data: raw, ttl, priority }) => {
          const host = raw === '@' ? zone : parseName(raw)
          return { id, type, raw, value: type === 'MX' ? `${priority} ${host}` : type === 'CNAME' ? host : raw, ttl }
        })
    },
    async apply(set) {
      const { path, zone, name, type, ttl } = set
      if (type === 'TXT' && set.added.some((value) => value.includes('\\')))
        throw new DnsApiError('rejected', `DigitalOcean stores the backslash in the TXT record of ${name} wrongly.`)
      await changeRecords(api, path, set, 'PATCH', (value, record) => {
        const fixed = { type, name: toRelativeName(name, zone), ttl: record?.ttl ?? ttl }
        const [priority, host] = value.split(' ')
        if (type === 'MX') return { ...fixed, data: `${host}.`, priority: Number(priority) }
        return { ...fixed, data: type === 'TXT' ? value : `${value}.` }
      })
    },
  }
}
