/**
 * @module A `DnsApi` on top of reading the records of a name and changing them, which the HTTP providers have in common.
 * Records are read again before each change, which shows most changes by others.
 */

import { formatTxtData } from '../../domains/zone-file.ts'
import { type DnsApi, type DnsApiDeps, DnsApiError, type PublishedType, type RecordSet } from '../dns-api.ts'
import type { ApiClient, ApiOptions } from './api-client.ts'

export interface StoredRecord {
  /** Where records have one. */
  readonly id?: string | number
  readonly type: string
  /** As in `RecordSet`. */
  readonly value: string
  /** As the provider has it. */
  readonly raw: string
  readonly ttl: number
  /** What the provider has besides. */
  readonly note?: string | undefined
}

export interface SetChange {
  /** As `findPath` returned it. */
  readonly path: string
  readonly zone: string
  readonly name: string
  readonly type: PublishedType
  /** In seconds: an existing set keeps its own. */
  readonly ttl: number
  readonly current: readonly StoredRecord[]
  readonly removed: readonly StoredRecord[]
  readonly added: readonly string[]
  /** All values to be there, as the provider has them. */
  readonly raws: readonly string[]
}

/** Without `authenticate`, requests have the token of the credentials. */
export interface ZoneBackend extends Partial<Pick<ApiOptions, 'authenticate' | 'parse'>> {
  /** Where the API has the records of the zone of this name; undefined: nowhere. */
  findPath(zone: string): Promise<string | undefined>
  /** The records of all types at a name; undefined: there are too many. */
  list(path: string, zone: string, name: string): Promise<readonly StoredRecord[] | undefined>
  /** All records of the zone, by name; undefined: one request cannot read them. For providers that allow few. */
  listAll?(path: string, zone: string): Promise<ReadonlyMap<string, readonly StoredRecord[]> | undefined>
  apply(change: SetChange): Promise<unknown>
  /** As `DnsApi` has it. */
  publish?(path: string): Promise<unknown>
}

export type Connect = (api: ApiClient, credentials: Readonly<Record<string, string>>, deps: DnsApiDeps) => ZoneBackend

export const toRecords = (zone: string, type: string, ttl: number, raws: readonly string[]): StoredRecord[] =>
  raws.map((raw) => ({ type, raw, value: parseValue(type, raw, zone), ttl }))

export function createDnsApi(api: ApiClient, backend: ZoneBackend, title: string): DnsApi {
  const unlessSenseless = <T>(result: Promise<T>): Promise<T> =>
    result.catch((error: unknown) => {
      if (!(error instanceof TypeError)) throw error
      throw new DnsApiError('unavailable', `${title} gave a response of an unknown form. Try again later.`)
    })
  const paths = new Map<string, string>()
  const findPath = async (zone: string) => {
    const path = paths.get(zone) ?? (await backend.findPath(zone))
    if (path !== undefined) paths.set(zone, path)
    return path
  }
  const getPath = async (zone: string) => {
    const path = await findPath(zone)
    if (path === undefined) throw api.noZone(zone)
    return path
  }
  const findZone = async (domain: string) => {
    for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1))
      if ((await findPath(name)) !== undefined) return name
    throw api.noZone(domain)
  }
  const list = async (path: string, zone: string, name: string) => {
    const records = await backend.list(path, zone, name)
    if (records) return records
    throw new DnsApiError('unavailable', `${title} has more records of ${name} than can be read.`)
  }
  const read = async (zone: string, names: readonly string[]) => {
    const sets: RecordSet[] = []
    const path = await getPath(zone)
    const all = await backend.listAll?.(path, zone)
    for (const name of names) {
      const found = all ? (all.get(name) ?? []) : await list(path, zone, name)
      for (const [type, records] of Map.groupBy(found, (record) => record.type))
        sets.push({ name, type, ttlSeconds: records[0]?.ttl ?? 0, values: records.map(({ value }) => value) })
    }
    return sets
  }
  const write: DnsApi['write'] = async (zone, { name, type, before, after, ttlSeconds }) => {
    const path = await getPath(zone)
    const current = (await list(path, zone, name)).filter((record) => record.type === type)
    const values = current.map(({ value }) => value)
    if (values.toSorted().join('\n') !== before.toSorted().join('\n'))
      throw new DnsApiError('changed', `The ${type} records of ${name} changed since they were read. Try again.`)
    // Of equal records, one stays.
    const kept = current.filter(({ value }, i) => after.includes(value) && values.indexOf(value) === i)
    const removed = current.filter((record) => !kept.includes(record))
    const added = after.filter((value) => !values.includes(value))
    if (/[^\x20-\x7e]/.test(added.join('')))
      throw new DnsApiError('rejected', `The ${type} record of ${name} has special characters. Change it by hand.`)
    const ttl = current[0]?.ttl ?? ttlSeconds
    const raws = [...kept.map(({ raw }) => raw), ...added.map((value) => formatValue(type, value))]
    await backend.apply({ path, zone, name, type, ttl, current, removed, added, raws })
  }
  return {
    findZone: (domain) => unlessSenseless(findZone(domain)),
    read: (zone, names) => unlessSenseless(read(zone, names)),
    write: (zone, change) => unlessSenseless(write(zone, change)),
    publish: async (zone) => void (await backend.publish?.(await getPath(zone))),
  }
}

/** Changes records in place, then creates or removes what is left: the name is never without a record. */
export async function changeRecords(
  api: ApiClient,
  path: string,
  { removed, added }: SetChange,
  changeMethod: 'PATCH' | 'PUT',
  /** @param record the one that changes; undefined: a new one */
  toBody: (value: string, record: StoredRecord | undefined) => object,
): Promise<void> {
  for (const [i, value] of added.entries()) {
    const record = removed[i]
    const [method, target] = record ? [changeMethod, `${path}/${record.id}`] : (['POST', path] as const)
    await api.call(method, target, toBody(value, record))
  }
  for (const { id } of removed.slice(added.length)) await api.call('DELETE', `${path}/${id}`)
}

/** The strings joined; a text that is not quoted stays as it is. `radix` is that of `\DDD`. */
export function parseTxt(text: string, radix = 10): string {
  if (!text.startsWith('"')) return text
  let isInside = false
  const octets: Buffer[] = []
  for (const [token] of text.matchAll(/\\\d{3}|\\.|"|[^\\"]+/gs)) {
    if (token === '"') isInside = !isInside
    else if (/^\\\d{3}$/.test(token)) octets.push(Buffer.of(Number.parseInt(token.slice(1), radix)))
    else if (isInside) octets.push(Buffer.from(token.replace(/^\\/, '')))
  }
  return Buffer.concat(octets).toString()
}

/** Lower case, without a trailing dot; `zone`: a name without a trailing dot is relative to it. */
export function parseName(text: string, zone?: string): string {
  const name = text.toLowerCase()
  if (name === '@') return zone ?? name
  if (name.endsWith('.')) return name.slice(0, -1) || name
  return zone === undefined ? name : `${name}.${zone}`
}

export function parseValue(type: string, text: string, zone?: string, radix?: number): string {
  if (type === 'TXT') return parseTxt(text, radix)
  if (type === 'CNAME') return parseName(text, zone)
  const [preference = '', exchange = ''] = text.trim().split(/\s+/)
  return type === 'MX' ? `${Number(preference)} ${parseName(exchange, zone)}` : text
}

export const formatValue = (type: string, value: string): string =>
  type === 'TXT' ? formatTxtData(value) : `${value}.`

/** @param apex how the provider writes the name of the zone itself */
export const toRelativeName = (name: string, zone: string, apex = '@'): string =>
  name === zone ? apex : name.slice(0, -zone.length - 1)
