/**
 * @module A `DnsApi` on top of reading the records of a name and changing them, which the HTTP providers have in common.
 * Records are read again before each change, which shows most changes by others.
 */
import { type DnsApi, DnsApiError, type PublishedType, type RecordSet } from '../dns-api.ts'
import type { DnsApiDeps } from '../dns-provider.ts'
import type { ApiClient, ApiOptions } from './api-client.ts'
import { formatValue, parseValue } from './record-text.ts'

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
  /** In seconds: an existing set keeps its own, within the limits of the provider. */
  readonly ttl: number
  readonly current: readonly StoredRecord[]
  readonly removed: readonly StoredRecord[]
  readonly added: readonly string[]
  /** All values to be there, as the provider has them. */
  readonly raws: readonly string[]
}

export interface ZoneBackend {
  readonly api: ApiClient
  /** Where the API has the records of the zone of this name; undefined: nowhere. */
  findPath(zone: string): Promise<string | undefined>
  /** The records of all types at a name. */
  list(path: string, zone: string, name: string): Promise<readonly StoredRecord[]>
  /** All records of the zone by name, where one request reads them; undefined: there are too many. */
  listAll?(path: string, zone: string): Promise<ReadonlyMap<string, readonly StoredRecord[]> | undefined>
  apply(change: SetChange): Promise<unknown>
  /** As `DnsApi` has it. */
  publish?(path: string): Promise<unknown>
}

/** Returns the path of a zone, if it exists. */
export const ifExists = async (api: ApiClient, path: string, records: string): Promise<string | undefined> =>
  (await api.exists(path)) ? `${path}${records}` : undefined

export type Credentials = Readonly<Record<string, string>>
type Open = (options: Pick<ApiOptions, 'authenticate' | 'parse'>) => ApiClient
export type Connect = (open: Open, credentials: Credentials, deps: DnsApiDeps) => ZoneBackend

export const bearer = ({ token }: Credentials) => ({ authenticate: () => ({ authorization: `Bearer ${token}` }) })

export const toRecords = (zone: string, type: string, ttl: number, raws: readonly string[]): StoredRecord[] =>
  raws.map((raw) => ({ type, raw, value: parseValue(type, raw, zone), ttl }))

export function createDnsApi(backend: ZoneBackend, title: string, minTtl: number): DnsApi {
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
    if (path === undefined) throw backend.api.noZone(zone)
    return path
  }
  const findZone = async (domain: string) => {
    for (let name = domain; name.includes('.'); name = name.slice(name.indexOf('.') + 1))
      if ((await findPath(name)) !== undefined) return name
    throw backend.api.noZone(domain)
  }
  const read = async (zone: string, names: readonly string[]) => {
    const sets: RecordSet[] = []
    const path = await getPath(zone)
    const all = await backend.listAll?.(path, zone)
    for (const name of names) {
      const found = all ? (all.get(name) ?? []) : await backend.list(path, zone, name)
      for (const [type, records] of Map.groupBy(found, (record) => record.type))
        sets.push({ name, type, ttlSeconds: records[0]?.ttl ?? 0, values: records.map(({ value }) => value) })
    }
    return sets
  }
  const write: DnsApi['write'] = async (zone, { name, type, before, after, ttlSeconds }) => {
    const path = await getPath(zone)
    const current = (await backend.list(path, zone, name)).filter((record) => record.type === type)
    const values = current.map(({ value }) => value)
    if (values.toSorted().join('\n') !== before.toSorted().join('\n'))
      throw new DnsApiError('changed', `The ${type} records of ${name} changed since they were read. Try again.`)
    const kept = current.filter(({ value }) => after.includes(value))
    const removed = current.filter((record) => !kept.includes(record))
    const added = after.filter((value) => !values.includes(value))
    if (/[^\x20-\x7e]/.test(added.join('')))
      throw new DnsApiError('rejected', `The ${type} record of ${name} has special characters. Change it by hand.`)
    const ttl = Math.max(current[0]?.ttl ?? ttlSeconds, minTtl)
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

const MAX_PAGES = 40

/** The items of all pages, numbered from 1; `readPage` also returns whether there are more. */
export async function listPages<T>(readPage: (page: number) => Promise<[readonly T[], boolean]>): Promise<T[]> {
  const all: T[] = []
  for (let page = 1; page <= MAX_PAGES; page++) {
    const [items, hasMore] = await readPage(page)
    all.push(...items)
    if (!hasMore) return all
  }
  throw new DnsApiError('unavailable', 'The DNS provider has more records of one name than can be read.')
}
