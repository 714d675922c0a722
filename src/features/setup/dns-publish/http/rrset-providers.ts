/** @module DNS providers whose APIs have whole sets as JSON: deSEC (v1), Gandi (LiveDNS v5) and Hetzner (Cloud v1). */
import { DnsApiError } from '../dns-api.ts'
import { type Connect, parseName, toRecords, toRelativeName } from './zone-api.ts'

type DesecSet = { name: string; type: string; ttl: number; records: string[] }

/** Allows 50 reads a minute. */
export const desec: Connect = (api) => {
  const read = (zone: string, sets: readonly DesecSet[]) =>
    sets.flatMap(({ type, ttl, records }) => toRecords(zone, type, ttl, records))
  return {
    async findPath(zone) {
      const [owner] = await api.call<{ name: string }[]>('GET', `/domains/?owns_qname=${zone}`)
      return owner?.name === zone ? `/domains/${zone}/rrsets/` : undefined
    },
    list: async (path, zone, name) =>
      read(zone, await api.call('GET', `${path}?subname=${toRelativeName(name, zone, '')}`)),
    async listAll(path, zone) {
      const reply = await api.send('GET', path)
      // Over 500 sets.
      if (reply.status === 400) return undefined
      if (reply.status > 400) throw api.toError(reply)
      const byName = Map.groupBy(reply.data as DesecSet[], ({ name }) => parseName(name))
      return new Map([...byName].map(([name, sets]) => [name, read(zone, sets)]))
    },
    apply: ({ path, zone, name, type, ttl, raws: records }) =>
      api.call('PATCH', path, [{ subname: toRelativeName(name, zone, ''), type, ttl, records }]),
  }
}

type GandiSet = { rrset_type: string; rrset_ttl: number; rrset_values: string[] }

export const gandi: Connect = (api) => ({
  findPath: (zone) => api.ifExists(`/domains/${zone}`, `/domains/${zone}/records`),
  async list(path, zone, name) {
    const reply = await api.send('GET', `${path}/${toRelativeName(name, zone)}`)
    if (reply.status >= 400 && reply.status !== 404) throw api.toError(reply)
    const sets = reply.status === 404 ? [] : (reply.data as GandiSet[])
    return sets.flatMap((set) => toRecords(zone, set.rrset_type, set.rrset_ttl, set.rrset_values))
  },
  apply({ path, zone, name, type, ttl, raws }) {
    const set = { rrset_ttl: ttl, rrset_values: raws }
    return api.call('PUT', `${path}/${toRelativeName(name, zone)}/${type}`, set)
  },
})

type HetznerSet = { type: string; ttl: number | null; records: { value: string; comment?: string }[] }
type HetznerAction = { action: { id: number; status: string } }

const DEFAULT_HETZNER_TTL_SECONDS = 3600
const ACTION_POLL_MS = 500
const MAX_ACTION_POLLS = 20

/** A change is an action, which may end, or fail, after the response. */
export const hetzner: Connect = (api, _credentials, { clock }) => ({
  findPath: (zone) => api.ifExists(`/zones/${zone}`, `/zones/${zone}/rrsets`),
  async list(path, zone, name) {
    // One name has fewer types than a page has sets.
    const query = `name=${toRelativeName(name, zone)}&per_page=50`
    const { rrsets } = await api.call<{ rrsets: HetznerSet[] }>('GET', `${path}?${query}`)
    return rrsets.flatMap(({ type, ttl, records }) => {
      const values = records.map(({ value }) => value)
      const stored = toRecords(zone, type, ttl ?? DEFAULT_HETZNER_TTL_SECONDS, values)
      return stored.map((record, i) => ({ ...record, note: records[i]?.comment }))
    })
  },
  async apply({ path, zone, name: fullName, type, ttl, current, raws }) {
    const comments = new Map(current.map(({ raw, note }) => [raw, note]))
    const records = raws.map((value) => ({ value, ...(comments.get(value) && { comment: comments.get(value) }) }))
    const name = toRelativeName(fullName, zone)
    let { action } = await (current.length === 0
      ? api.call<HetznerAction>('POST', path, { name, type, ttl, records })
      : api.call<HetznerAction>('POST', `${path}/${name}/${type}/actions/set_records`, { records }))
    for (let polls = 0; action.status === 'running'; polls++) {
      if (polls === MAX_ACTION_POLLS)
        throw new DnsApiError('unavailable', `Hetzner has not ended the change of ${fullName}. Try again later.`)
      await clock.sleep(ACTION_POLL_MS)
      action = (await api.call<HetznerAction>('GET', `/actions/${action.id}`)).action
    }
    if (action.status === 'error') throw api.toError({ status: 422, data: action })
  },
})
