/** @module Cloudflare's API v4: single records. A changed record keeps its TTL, comment and tags. */
import { formatValue, parseName, parseTxt } from './record-text.ts'
import { bearer, type Connect, changeRecords, listPages } from './zone-api.ts'

type Zones = { result: { id: string; name: string }[] }
type ZoneRecord = { id: string; name: string; type: string; content?: string; ttl: number; priority?: number }
type Page = { result: ZoneRecord[]; result_info?: { total_pages?: number } }

/** Cloudflare then chooses 300 seconds. */
const AUTOMATIC_TTL = 1
const MAX_TTL_SECONDS = 86_400

export const cloudflare: Connect = (open, credentials) => {
  const api = open(bearer(credentials))
  const parse = ({ type, content = '', priority = 0 }: ZoneRecord) =>
    type === 'TXT' ? parseTxt(content) : type === 'MX' ? `${priority} ${parseName(content)}` : parseName(content)
  return {
    api,
    async findPath(zone) {
      const { result } = await api.call<Zones>('GET', `/zones?name=${zone}`)
      const found = result.find(({ name }) => name.toLowerCase() === zone)
      return found && `/zones/${found.id}/dns_records`
    },
    async list(path, _zone, name) {
      const records = await listPages(async (page) => {
        const query = `name.exact=${name}&page=${page}&per_page=100`
        const { result, result_info: info } = await api.call<Page>('GET', `${path}?${query}`)
        return [result, page < (info?.total_pages ?? 1)]
      })
      return records
        .filter((record) => parseName(record.name) === name)
        .map((record) => {
          const { id, type, ttl, content: raw = '' } = record
          return { id, type, raw, value: parse(record), ttl: ttl === AUTOMATIC_TTL ? 300 : ttl, note: String(ttl) }
        })
    },
    apply(set) {
      const { path, name, type } = set
      return changeRecords(api, path, set, 'PATCH', (value, record) => {
        const fixed = { type, name, ttl: record ? Number(record.note) : Math.min(set.ttl, MAX_TTL_SECONDS) }
        const [priority, host] = value.split(' ')
        if (type === 'MX') return { ...fixed, content: host, priority: Number(priority) }
        if (type === 'TXT') return { ...fixed, content: formatValue(type, value) }
        // For a proxied one, Cloudflare answers with its own addresses.
        return { ...fixed, content: value, proxied: false }
      })
    },
  }
}
