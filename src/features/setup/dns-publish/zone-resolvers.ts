/**
 * @module Resolvers for the names of one zone: as its provider has it before the world does, and as its name servers
 * answer. Those are asked instead of a resolver, which may have cached that a new record does not exist.
 */
import type { App } from '#features/core/app/app.ts'
import { randomBelow } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { isFailedAnswer, type Resolver, StubResolver } from '#protocols/dns/resolver.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import { overrideResolver } from '../domains/published-dns.ts'
import type { RecordSet } from './dns-api.ts'
import { isWithin } from './plan.ts'

const TIMEOUT_MS = seconds(2)
const MAX_NAME_SERVERS = 4

/** Answers until the signal is aborted. */
export const limitResolver = (base: Resolver, signal?: AbortSignal): Resolver =>
  overrideResolver(base, () => (signal?.aborted ? { kind: 'timeout' } : undefined))

/** Answers about `names` from these sets. */
export const resolveFromSets = (base: Resolver, names: readonly string[], sets: readonly RecordSet[]): Resolver =>
  overrideResolver(base, (method, name) => {
    if (!names.includes(name)) return undefined
    const find = (type: string) => sets.find((set) => set.name === name && set.type === type)
    const found = find(method.toUpperCase())
    const alias = find('CNAME')?.values[0]
    if (!found && alias !== undefined) return base[method](alias)
    if (!found) return { kind: 'nodata' }
    const records = method === 'mx' ? found.values.map(parseMx) : found.values
    return { kind: 'ok', records, ttlSeconds: found.ttlSeconds }
  })

function parseMx(value: string) {
  const [preference = '', exchange = ''] = value.split(' ')
  return { preference: Number(preference), exchange: exchange.replace(/\.$/, '') }
}

/** Asks the name servers of the zone themselves about its names, and the service's resolver when they do not answer. */
export async function createZoneResolver(app: App, zone: string): Promise<Resolver> {
  const base = app.freshResolver
  const found = await base.ns(zone)
  const hosts = found.kind === 'ok' ? found.records.slice(0, MAX_NAME_SERVERS) : []
  const addresses = await Promise.all(hosts.map((host) => resolveHostAddresses(base, host, { ipv6: false })))
  const servers = addresses.flatMap((one) => (one.kind === 'ok' ? one.addresses : []))
  const allowed = servers.filter((address) => canConnectTo(address, app.config.allowPrivateNetworks))
  if (allowed.length === 0) return base
  const direct = new StubResolver({
    servers: allowed,
    clock: app.clock,
    timeoutMs: TIMEOUT_MS,
    attempts: 1,
    randomId: () => randomBelow(0x10000),
    cacheEntries: 0,
  })
  return overrideResolver(base, async (method, name) => {
    const answer = isWithin(name, zone) ? await direct[method](name) : undefined
    return answer && isFailedAnswer(answer) ? undefined : answer
  })
}
