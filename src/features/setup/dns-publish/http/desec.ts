/** @module deSEC's API v1: whole sets. */
import { parseName, toRelativeName } from './record-text.ts'
import { type Connect, toRecords } from './zone-api.ts'

type Rrset = { name: string; type: string; ttl: number; records: string[] }

export const desec: Connect = (open, { token }) => {
  const api = open({ authenticate: () => ({ authorization: `Token ${token}` }) })
  const read = (zone: string, sets: readonly Rrset[]) =>
    sets.flatMap(({ type, ttl, records }) => toRecords(zone, type, ttl, records))
  return {
    api,
    async findPath(zone) {
      const [owner] = await api.call<{ name: string }[]>('GET', `/domains/?owns_qname=${zone}`)
      return owner?.name === zone ? `/domains/${zone}/rrsets/` : undefined
    },
    async listAll(path, zone) {
      const reply = await api.send('GET', path)
      // Over 500 sets.
      if (reply.status === 400) return undefined
      if (reply.status > 400) throw api.toError(reply)
      const byName = Map.groupBy(reply.data as Rrset[], ({ name }) => parseName(name))
      return new Map([...byName].map(([name, sets]) => [name, read(zone, sets)]))
    },
    list: async (path, zone, name) =>
      read(zone, await api.call('GET', `${path}?subname=${toRelativeName(name, zone, '')}`)),
    apply: ({ path, zone, name, type, ttl, raws: records }) =>
      api.call('PATCH', path, [{ subname: toRelativeName(name, zone, ''), type, ttl, records }]),
  }
}
