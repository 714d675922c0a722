/** @module deSEC's API v1: whole sets. */
import { parseName, toRelativeName } from './record-text.ts'
import { type Connect, remember, toRecords } from './zone-api.ts'

type Domain = { name: string; minimum_ttl: number }
type Rrset = { name: string; type: string; ttl: number; records: string[] }

export const connectDesec: Connect = (open, { token }) => {
  const api = open({ authenticate: () => ({ authorization: `Token ${token}` }) })
  const findOwner = remember(async (name) => (await api.call<Domain[]>('GET', `/domains/?owns_qname=${name}`))[0])
  const toSubname = (name: string, zone: string) => toRelativeName(name, zone, '')
  const read = (zone: string, sets: readonly Rrset[]) =>
    sets.flatMap(({ type, ttl, records }) => toRecords(zone, type, ttl, records))
  return {
    async findZone(domain) {
      const owner = await findOwner(domain)
      return api.findLongestZone(domain, async (name) => ({ status: name === owner?.name ? 200 : 404, data: null }))
    },
    async listAll(zone) {
      const reply = await api.send('GET', `/domains/${zone}/rrsets/`)
      // Over 500 sets.
      if (reply.status === 400) return undefined
      if (reply.status > 400) throw api.toError(reply)
      const byName = Map.groupBy(reply.data as Rrset[], ({ name }) => parseName(name))
      return new Map([...byName].map(([name, sets]) => [name, read(zone, sets)]))
    },
    list: async (zone, name) =>
      read(zone, await api.call('GET', `/domains/${zone}/rrsets/?subname=${toSubname(name, zone)}`)),
    async apply({ zone, name, type, ttl, raws: records }) {
      const minTtl = (await findOwner(zone))?.minimum_ttl ?? 3600
      const set = { subname: toSubname(name, zone), type, ttl: Math.max(ttl, minTtl), records }
      await api.call('PATCH', `/domains/${zone}/rrsets/`, [set])
    },
  }
}
