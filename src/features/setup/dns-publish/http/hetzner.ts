/** @module The DNS of Hetzner's Cloud API v1: whole sets, changed by actions. */
import { DnsApiError } from '../dns-api.ts'
import { toRelativeName } from './record-text.ts'
import { bearer, type Connect, ifExists, toRecords } from './zone-api.ts'

type Rrset = { name: string; type: string; ttl: number | null; records: { value: string; comment?: string }[] }
type Changed = { action: { status: string } }

const DEFAULT_TTL_SECONDS = 3600

export const hetzner: Connect = (open, credentials) => {
  // Tokens of the Cloud have 64 characters.
  if (credentials['token']?.length === 32)
    throw new DnsApiError(
      'rejected',
      'This looks like a token of the DNS Console of Hetzner, which was shut down in 2026. Create one in the Hetzner Console, in the project that has the zone.',
    )
  const api = open(bearer(credentials))
  return {
    api,
    findPath: (zone) => ifExists(api, `/zones/${zone}`, '/rrsets'),
    async list(path, zone, name) {
      // One name has fewer types than a page has sets.
      const query = `name=${toRelativeName(name, zone)}&per_page=50`
      const { rrsets } = await api.call<{ rrsets: Rrset[] }>('GET', `${path}?${query}`)
      return rrsets
        .filter((set) => set.name === toRelativeName(name, zone))
        .flatMap(({ type, ttl, records }) => {
          const values = records.map(({ value }) => value)
          const stored = toRecords(zone, type, ttl ?? DEFAULT_TTL_SECONDS, values)
          return stored.map((record, i) => ({ ...record, note: records[i]?.comment }))
        })
    },
    async apply({ path, zone, name: fullName, type, ttl, current, raws }) {
      const comments = new Map(current.map(({ raw, note }) => [raw, note]))
      const records = raws.map((value) => ({ value, ...(comments.get(value) && { comment: comments.get(value) }) }))
      const name = toRelativeName(fullName, zone)
      const { action } = await (current.length === 0
        ? api.call<Changed>('POST', path, { name, type, ttl, records })
        : api.call<Changed>('POST', `${path}/${name}/${type}/actions/set_records`, { records }))
      if (action.status === 'error') throw api.toError({ status: 422, data: action })
    },
  }
}
