/**
 * @module Decides what to do with each record of a domain: create it, change it, leave it, or leave it to its owner as a
 * conflict. Values of others at a name always stay. Pure.
 */
import type { Check } from '../domains/check-result.ts'
import type { DnsRecord } from '../domains/dns-records.ts'
import { addReportAddress, isOfKind, mergeSpf } from '../domains/published-dns.ts'
import type { RecordSet } from './dns-api.ts'
import type { PublishedRecord } from './model.ts'

export type PlannedRecord = Omit<PublishedRecord, 'state' | 'error'> & { readonly ttlSeconds: number }

/** The zone as the provider has it. */
export interface ZoneView {
  readonly zone: string
  /** The domain whose records these are, and for which alone the credentials may be used. */
  readonly domain: string
  /** All sets at the names of the records, at the names between them and the zone, and at their wildcards. */
  readonly sets: readonly RecordSet[]
}

const TTL_SECONDS = 3600

/** @param check what a check of the zone as the provider has it finds; undefined: this record is not checked */
export function planRecord(key: string, record: DnsRecord, check: Check | undefined, view: ZoneView): PlannedRecord {
  const name = record.host.toLowerCase()
  const { type } = record
  const present = view.sets.find((set) => set.name === name && set.type === type)
  const before = present?.values ?? []
  const plan = (action: PlannedRecord['action'], reason: string, after = before): PlannedRecord => ({
    ...{ key, type, name, action, before: [...before], after: [...after], reason },
    ttlSeconds: present?.ttlSeconds ?? TTL_SECONDS,
  })
  if (check?.verified) {
    const addition = key === 'dmarc' ? addReportAddress(before, record.value) : undefined
    return addition
      ? plan('change', 'The policy stays, and its reports also come to this service.', addition)
      : plan('leave', check.detail)
  }
  const obstacle = findObstacle(name, record, view)
  if (obstacle) return plan('conflict', obstacle)
  const wanted = listValues(record)
  if (type === 'MX') return planMx(before, wanted, check, plan)
  const existing = before.filter((value) => isOfKind(key, record.value, value))
  const others = before.filter((value) => !existing.includes(value))
  const add = () => plan(before.length > 0 ? 'change' : 'create', 'It is not there yet.', [...before, ...wanted])
  if (key.startsWith('dkim')) {
    if (others.length > 0) return plan('conflict', `${name} has a TXT record that is no DKIM key. Remove it first.`)
    return existing.length > 0 ? plan('change', 'The key there is not the one that signs.', wanted) : add()
  }
  // Without an answer about the domain above, a policy of our own could weaken the one that applies.
  if (key === 'dmarc' && check?.outcome !== 'missing') return plan('conflict', check?.detail ?? '')
  if (existing.length === 0) return add()
  if (key !== 'spf') return plan('leave', 'There is one already.')
  // A term that could not be looked up may be the one that makes the record invalid.
  if (check?.outcome === 'unknown') return plan('conflict', check.detail)
  const merged = mergeSpf(existing, record.value)
  return plan('change', 'The SPF record that is there keeps its terms and gets ours.', [...others, merged])
}

/** The values of a record, in the form of `RecordSet`. */
const listValues = ({ type, value, priority = 0, further_values: further = [] }: DnsRecord): string[] =>
  [value, ...further].map((one) => (type === 'MX' ? `${priority} ${one.toLowerCase()}` : one))

function planMx(
  before: readonly string[],
  wanted: readonly string[],
  check: Check | undefined,
  plan: (action: PlannedRecord['action'], reason: string, after?: readonly string[]) => PlannedRecord,
): PlannedRecord {
  const toHost = (value: string) => value.slice(value.indexOf(' ') + 1)
  const ours = wanted.map(toHost)
  if (before.some((value) => !ours.includes(toHost(value)))) return plan('conflict', check?.detail ?? '')
  const missing = wanted.filter((value) => !before.some((one) => toHost(one) === toHost(value)))
  return before.length > 0
    ? plan('change', 'A further node of this service may take over.', [...before, ...missing])
    : plan('create', 'It is not there yet.', missing)
}

/** Why a record cannot be at a name, whatever its values; undefined: it can. */
function findObstacle(name: string, { type, value }: DnsRecord, view: ZoneView): string | undefined {
  const { zone, domain, sets } = view
  if (!isWithin(name, zone)) return `${name} is not in the zone ${zone}. Publish it in the zone of that name.`
  if (!isWithin(name, domain))
    return `${name} is not below ${domain}, for which alone these credentials are used. Publish the record yourself.`
  const cut = sets.find((set) => set.type === 'NS' && set.name !== zone && isWithin(name, set.name))
  if (cut) return `${cut.name} is a zone of its own, at ${cut.values.join(' and ')}. Publish the record there.`
  const there = sets.filter((set) => set.name === name)
  const alias = there.find((set) => set.type === 'CNAME')
  if (type !== 'CNAME')
    return (
      alias && `${name} is an alias (CNAME) of ${alias.values[0]}, beside which DNS allows no record. Remove it first.`
    )
  if (name === zone) return `${name} is the zone itself, which cannot be an alias (CNAME).`
  if (alias)
    return `${name} is an alias (CNAME) of ${alias.values[0]} and not of ${value}. Change it if nothing uses it.`
  const types = [...new Set(there.map((set) => set.type))].join(', ')
  return types && `${name} has records (${types}), beside which DNS allows no CNAME. Remove them, or use another name.`
}

/** A name in the zone, and those above it, up to the zone; none: it is not in the zone. */
export function listNames(name: string, zone: string): string[] {
  const labels = name.split('.')
  return labels.map((_, i) => labels.slice(i).join('.')).filter((one) => isWithin(one, zone))
}

export const isWithin = (name: string, zone: string): boolean => name === zone || name.endsWith(`.${zone}`)
