/** @module Gandi's LiveDNS API v5: whole sets. */
import { toRelativeName } from './record-text.ts'
import { bearer, type Connect, toRecords } from './zone-api.ts'

type Rrset = { rrset_type: string; rrset_ttl: number; rrset_values: string[] }

export const connectGandi: Connect = (open, credentials) => {
  const api = open(bearer(credentials))
  const toPath = (zone: string, name: string) => `/domains/${zone}/records/${toRelativeName(name, zone)}`
  return {
    findZone: (domain) => api.findLongestZone(domain, (zone) => api.send('GET', `/domains/${zone}`)),
    async list(zone, name) {
      const sets = await api.call<Rrset[]>('GET', toPath(zone, name))
      return sets.flatMap((set) => toRecords(zone, set.rrset_type, set.rrset_ttl, set.rrset_values))
    },
    apply: ({ zone, name, type, ttl, raws }) =>
      api.call('PUT', `${toPath(zone, name)}/${type}`, { rrset_ttl: ttl, rrset_values: raws }),
  }
}
