/** @module OVHcloud's API: single records, with signed requests. Only the refresh of the zone publishes a change. */
import { createHash } from 'node:crypto'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { DnsApiError } from '../dns-api.ts'
import { formatValue, parseValue, toRelativeName } from './record-text.ts'
import { type Connect, changeRecords } from './zone-api.ts'

type ZoneRecord = { id: number; fieldType: string; subDomain: string | null; target: string; ttl: number | null }

const DEFAULT_TTL_SECONDS = 3600
const MAX_RECORDS_PER_NAME = 400
const MAX_CONCURRENT_READS = 4

export const ovh: Connect = (open, credentials, { clock }) => {
  const { application_key: key = '', application_secret: secret, consumer_key: consumer = '' } = credentials
  /** By how much their clock is ahead of ours; undefined before it was read. */
  let aheadSeconds: number | undefined
  const nowSeconds = () => Math.round(clock.now() / 1000)
  const api = open({
    async authenticate({ method, url, body }) {
      const application = { 'x-ovh-application': key }
      if (url.endsWith('/auth/time')) return application
      aheadSeconds ??= (await api.call<number>('GET', '/auth/time')) - nowSeconds()
      const time = String(nowSeconds() + aheadSeconds)
      const hash = createHash('sha1').update([secret, consumer, method, url, body, time].join('+')).digest('hex')
      const signed = { 'x-ovh-timestamp': time, 'x-ovh-signature': `$1$${hash}` }
      return { ...application, 'x-ovh-consumer': consumer, ...signed }
    },
  })
  return {
    api,
    // The status is below the path that the consumer key must allow, unlike the zone itself.
    findPath: async (zone) => ((await api.exists(`/domain/zone/${zone}/status`)) ? `/domain/zone/${zone}` : undefined),
    async list(zonePath, zone, name) {
      const [path, subDomain] = [`${zonePath}/record`, toRelativeName(name, zone, '')]
      const ids = await api.call<number[]>('GET', `${path}?subDomain=${subDomain}`)
      if (ids.length > MAX_RECORDS_PER_NAME)
        throw new DnsApiError('unavailable', `OVHcloud has more records of ${name} than can be read.`)
      const read = (id: number) => api.call<ZoneRecord>('GET', `${path}/${id}`)
      const records = await mapConcurrently(ids, MAX_CONCURRENT_READS, read)
      // The filter is a pattern, in which `_` stands for any character.
      return records
        .filter((record) => (record.subDomain ?? '').toLowerCase() === subDomain)
        .map(({ id, fieldType: note, target: raw, ttl }) => {
          const type = /^(SPF|DKIM|DMARC)$/.test(note) ? 'TXT' : note
          return { id, type, note, raw, value: parseValue(type, raw, zone), ttl: ttl || DEFAULT_TTL_SECONDS }
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
