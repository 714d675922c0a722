/** @module DNS providers whose APIs have single records: Cloudflare (v4), DigitalOcean (v2) and OVHcloud (1.0). */
import { createHash } from 'node:crypto'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { type Connect, changeRecords, formatValue, parseName, parseValue, toRelativeName } from './zone-api.ts'

/** Cloudflare then chooses 300 seconds. */
const AUTOMATIC_TTL = 1
/** Cloudflare then answers with its own addresses, so the record is none that we want. */
const PROXIED = ' behind a proxy (switch it off: grey cloud)'

type CloudflareZones = { result: { id: string; name: string }[] }
type CloudflareFields = { content?: string; ttl: number; priority?: number; proxied?: boolean }
type CloudflareRecord = CloudflareFields & Record<'id' | 'name' | 'type', string>
type CloudflarePage = { result: CloudflareRecord[]; result_info?: { total_pages?: number } }

/** A changed record keeps its TTL, comment and tags. */
export const cloudflare: Connect = (api) => ({
  async findPath(zone) {
    const { result } = await api.call<CloudflareZones>('GET', `/zones?name=${zone}`)
    const found = result.find(({ name }) => name.toLowerCase() === zone)
    return found && `/zones/${found.id}/dns_records`
  },
  async list(path, _zone, name) {
    const query = `name.exact=${name}&per_page=1000`
    const { result, result_info: info } = await api.call<CloudflarePage>('GET', `${path}?${query}`)
    if ((info?.total_pages ?? 1) > 1) return undefined
    return result
      .filter((record) => parseName(record.name) === name)
      .map(({ id, type, ttl, priority, proxied, content: raw = '' }) => {
        const value = parseValue(type, type === 'MX' ? `${priority} ${raw}` : raw)
        const note = String(ttl)
        // Addresses stay addresses: SPF may name them.
        const shown = proxied && type === 'CNAME' ? value + PROXIED : value
        return { id, type, raw, value: shown, ttl: ttl === AUTOMATIC_TTL ? 300 : ttl, note }
      })
  },
  apply: (set) =>
    changeRecords(api, set.path, set, 'PATCH', (value, record) => {
      const { type, name } = set
      const fixed = { type, name, ttl: record ? Number(record.note) : set.ttl }
      const [priority, host] = value.split(' ')
      if (type === 'MX') return { ...fixed, content: host, priority: Number(priority) }
      if (type === 'TXT') return { ...fixed, content: formatValue(type, value) }
      // For a proxied one, Cloudflare answers with its own addresses.
      return { ...fixed, content: value, proxied: false }
    }),
})

type OceanRecord = { id: number; name: string; type: string; data: string; ttl: number; priority: number | null }
type OceanPage = { domain_records: OceanRecord[]; links?: { pages?: { next?: string } } }

/** Has relative names, and TXT data without quotes. */
export const digitalocean: Connect = (api) => ({
  findPath: (zone) => api.ifExists(`/domains/${zone}`, `/domains/${zone}/records`),
  async list(path, zone, name) {
    const { domain_records, links } = await api.call<OceanPage>('GET', `${path}?name=${name}&per_page=200`)
    if (links?.pages?.next !== undefined) return undefined
    return domain_records
      .filter((record) => record.name.toLowerCase() === toRelativeName(name, zone))
      .map(({ id, type, data: raw, ttl, priority }) => {
        const host = raw === '@' ? zone : parseName(raw)
        return { id, type, raw, value: type === 'MX' ? `${priority} ${host}` : type === 'CNAME' ? host : raw, ttl }
      })
  },
  apply: (set) =>
    changeRecords(api, set.path, set, 'PATCH', (value, record) => {
      const { type, name, zone } = set
      const fixed = { type, name: toRelativeName(name, zone), ttl: record?.ttl ?? set.ttl }
      const [priority, host] = value.split(' ')
      if (type === 'MX') return { ...fixed, data: `${host}.`, priority: Number(priority) }
      return { ...fixed, data: type === 'TXT' ? value : `${value}.` }
    }),
})

type OvhRecord = { id: number; fieldType: string; subDomain: string | null; target: string; ttl: number | null }

const DEFAULT_OVH_TTL_SECONDS = 3600
const MAX_OVH_RECORDS_PER_NAME = 400
const MAX_CONCURRENT_READS = 4

/** Requests are signed, and only the refresh of the zone publishes a change. */
export const ovh: Connect = (api, credentials, { clock }) => {
  const { application_key: key = '', application_secret: secret, consumer_key: consumer = '' } = credentials
  /** By how much their clock is ahead of ours; undefined before it was read. */
  let aheadSeconds: number | undefined
  const nowSeconds = () => Math.round(clock.now() / 1000)
  return {
    async authenticate({ method, url, body }) {
      const application = { 'x-ovh-application': key }
      if (url.endsWith('/auth/time')) return application
      aheadSeconds ??= (await api.call<number>('GET', '/auth/time')) - nowSeconds()
      const time = String(nowSeconds() + aheadSeconds)
      const hash = createHash('sha1').update([secret, consumer, method, url, body, time].join('+')).digest('hex')
      const signed = { 'x-ovh-timestamp': time, 'x-ovh-signature': `$1$${hash}` }
      return { ...application, 'x-ovh-consumer': consumer, ...signed }
    },
    // The status is below the path that the consumer key must allow, unlike the zone itself.
    findPath: (zone) => api.ifExists(`/domain/zone/${zone}/status`, `/domain/zone/${zone}`),
    async list(zonePath, zone, name) {
      const [path, subDomain] = [`${zonePath}/record`, toRelativeName(name, zone, '')]
      const ids = await api.call<number[]>('GET', `${path}?subDomain=${subDomain}`)
      if (ids.length > MAX_OVH_RECORDS_PER_NAME) return undefined
      const read = (id: number) => api.call<OvhRecord>('GET', `${path}/${id}`)
      const records = await mapConcurrently(ids, MAX_CONCURRENT_READS, read)
      // The filter is a pattern, in which `_` stands for any character.
      return records
        .filter((record) => (record.subDomain ?? '').toLowerCase() === subDomain)
        .map(({ id, fieldType: note, target: raw, ttl }) => {
          const type = /^(SPF|DKIM|DMARC)$/.test(note) ? 'TXT' : note
          return { id, type, note, raw, value: parseValue(type, raw, zone), ttl: ttl || DEFAULT_OVH_TTL_SECONDS }
        })
    },
    apply(set) {
      const subDomain = toRelativeName(set.name, set.zone, '')
      return changeRecords(api, `${set.path}/record`, set, 'PUT', (value, record) => {
        // Two types of their own want no quotes. A record keeps its type.
        const target = /^(DKIM|DMARC)$/.test(record?.note ?? '') ? value : formatValue(set.type, value)
        return { subDomain, target, ttl: record?.ttl ?? set.ttl, ...(!record && { fieldType: set.type }) }
      })
    },
    publish: (path) => api.call('POST', `${path}/refresh`),
  }
}
