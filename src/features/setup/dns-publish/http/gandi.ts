/** @module Gandi's LiveDNS API v5: whole sets. */
import { toRelativeName } from './record-text.ts'
import { bearer, type Connect, ifExists, toRecords } from './zone-api.ts'

type Rrset = { rrset_type: string; rrset_ttl: number; rrset_values: string[] }

export const gandi: Connect = (open, credentials) => {
  const api = open(bearer(credentials))
  return {
    api,
    findPath: (zone) => ifExists(api, `/domains/${zone}`, '/records'),
    async list(path, zone, name) {
      const reply = await api.send('GET', `${path}/${toRelativeName(name, zone)}`)
      if (reply.status >= 400 && reply.status !== 404) throw api.toError(reply)
      const sets = reply.status === 404 ? [] : (reply.data as Rrset[])
      return sets.flatMap((set) => toRecords(zone, set.rrset_type, set.rrset_ttl, set.rrset_values))
    },
    apply({ path, zone, name, type, ttl, raws }) {
      const set = { rrset_ttl: ttl, rrset_values: raws }
      return api.call('PUT', `${path}/${toRelativeName(name, zone)}/${type}`, set)
    },
  }
}
