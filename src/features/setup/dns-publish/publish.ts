/**
 * @module Publishes the records of a domain at its DNS provider: reads the zone, plans, writes one record set at a time,
 * reads it again, and checks what the world sees. Each write leaves the zone whole, so a run that was killed is
 * finished by the next one.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { AppError, conflict, invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { hours, seconds } from '#platform/units.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { type Check, isUnanswered } from '../domains/check-result.ts'
import { runDnsCheck } from '../domains/dns-check-slots.ts'
import type { DnsRecord } from '../domains/dns-records.ts'
import {
  auditDomain,
  type Domain,
  domainTaken,
  findDomainById,
  getDomain,
  isVerifiedElsewhere,
} from '../domains/domains.ts'
import {
  checkRecords,
  createZoneResolver,
  findZone,
  isMissing,
  listUsedRecords,
  overrideResolver,
} from '../domains/published-dns.ts'
import { verifyDomain, verifyTracking } from '../domains/verify.ts'
import { findPublication, openFields, putPublication, sealFields } from './credentials.ts'
import { type DnsApiDeps, DnsApiError, type DnsApiProblem, type DnsProviderEntry, type RecordSet } from './dns-api.ts'
import { PROVIDERS, type PublishBody, type Published, type PublishedRecord } from './model.ts'
import { listNames, type PlannedRecord, planRecord, type ZoneView } from './plan.ts'

/** Changes when other records are wanted. */
export const hashRecords = (records: readonly [string, DnsRecord][]): string =>
  sha256(JSON.stringify(records.map(([key, { verified: _, ...record }]) => [key, record]))).toBase64()

/** Between automatic attempts with the same records. */
export const RETRY_DELAY_MS = hours(1)

/** Of a run, since its server may be slow on purpose; the last requests then end as well. */
const MAX_RUN_MS = seconds(60)

const getRunning = perOwner((_: App['freshResolver']) => new Set<number>())

/**
 * Publishes what is missing. Throws 404; 409 `domain_taken` while another account has the domain verified, and
 * `publish_in_progress`; 422 for credentials that cannot be used, with what the provider says; 429 when it limits us.
 * @param id public id of the domain
 * @param stopping ends the run, as its time limit does
 */
export async function publishDomain(
  app: App,
  actor: Actor,
  id: string,
  request: PublishBody,
  providers = PROVIDERS,
  stopping?: AbortSignal,
): Promise<Published> {
  const domain = getDomain(app.db, actor.accountId, id)
  if (isVerifiedElsewhere(app.db, actor.accountId, domain.domain)) throw domainTaken(domain.domain)
  const running = getRunning(app.freshResolver)
  if (running.has(domain.id))
    throw conflict('publish_in_progress', `The records of ${domain.domain} are being published; wait for the end.`)
  running.add(domain.id)
  const late = new AbortController()
  const timer = app.clock.after(MAX_RUN_MS, () => late.abort())
  const signal = AbortSignal.any([late.signal, ...(stopping ? [stopping] : [])])
  try {
    return await publish(openProvider(app, actor, domain, request, { providers, signal }), request)
  } catch (error) {
    if (!(error instanceof DnsApiError)) throw error
    // Others say nothing about those that are kept.
    if (!request.dry_run && !request.credentials)
      await app.commit.write((tx) => {
        const known = findPublication(tx.db, domain)
        if (known) putPublication(tx, { ...known, error: error.message })
      })
    throw toAppError(error)
  } finally {
    timer.cancel()
    running.delete(domain.id)
  }
}

const toAppError = ({ problem, message, retryAfterSeconds }: DnsApiError): AppError =>
  new AppError(problem === 'rate_limited' ? 429 : problem === 'changed' ? 409 : 422, `dns_${problem}`, message, {
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  })

/** After these, the next write would fail in the same way. */
const ENDING_PROBLEMS: readonly DnsApiProblem[] = ['unauthorised', 'no_zone', 'rate_limited', 'unavailable']

/** The provider with its credentials. Throws 422 when some are missing or unknown. */
function openProvider(
  app: App,
  actor: Actor,
  domain: Domain,
  { provider, credentials }: PublishBody,
  { providers, signal }: { readonly providers: readonly DnsProviderEntry[]; readonly signal: AbortSignal },
) {
  const known = findPublication(app.db, domain)
  const kept = credentials || known?.fields == null ? undefined : known
  const entry = providers.find(({ name }) => name === (provider ?? kept?.provider))
  if (!entry)
    throw invalid('provider', 'There are no kept credentials: name a provider, and its credentials.', 'no_credentials')
  const fields = credentials ?? (kept?.provider === entry.name ? openFields(app, domain, kept) : undefined) ?? {}
  const missing = entry.fields.find(({ name, isRequired }) => isRequired && !fields[name])
  if (missing) throw invalid(`credentials.${missing.name}`, `${entry.title} needs ${missing.name}: ${missing.label}.`)
  const names = entry.fields.map(({ name }) => name)
  const unknown = Object.keys(fields).find((name) => !names.includes(name))
  if (unknown !== undefined) throw invalid(`credentials.${unknown}`, `${entry.title} takes ${names.join(', ')}.`)
  // An operator's own DNS server is often in his own network, or on this machine.
  const allowsPrivate = kept ? kept.allowsPrivate === 1 : actor.type === 'operator'
  const resolveServer: DnsApiDeps['resolveServer'] = async (host, port) => {
    const found = await app.fetch.resolve({ host, port }, allowsPrivate)
    if (found.kind === 'ok') return found.addresses.map((address) => ({ host: address, port }))
    const advice = found.kind === 'refused' ? ' The operator may name it with `tassis domains publish`.' : ''
    throw new DnsApiError(found.kind === 'refused' ? 'rejected' : 'unavailable', `${found.reason}${advice}`)
  }
  const api = entry.create({ fetch: app.fetch, clock: app.clock, signal, resolveServer }, fields)
  const wanted = listUsedRecords(app, domain)
  return { app, actor, domain, entry, fields, allowsPrivate, known, api, signal, wanted }
}
type Run = ReturnType<typeof openProvider>

async function publish(run: Run, { dry_run: isDryRun = false, keep = true }: PublishBody): Promise<Published> {
  const { app, actor, domain, entry, signal } = run
  const { zone, names, planned } = await runDnsCheck(app, actor.accountId, () => planAll(run))
  const errors = isDryRun ? undefined : await writeAll(run, zone, names, planned)
  const records = planned.map(({ ttlSeconds: _, ...record }): PublishedRecord => {
    const error = errors?.get(record.key) ?? null
    const written = !errors ? 'planned' : error === null ? 'published' : 'failed'
    return { ...record, state: isWritten(record) ? written : 'unchanged', error }
  })
  const isKept = isDryRun ? findPublication(app.db, domain)?.fields != null : await store(run, zone, records, keep)
  const inZone = records
    .filter(({ state, action }) => state === 'published' || action === 'leave')
    .map(({ key }) => key)
  const seen = isDryRun ? '' : ` ${await checkPublished(app, actor, domain, zone, { inZone, signal })}`
  const summary = `${countRecords(records)}.${seen}`
  return { provider: entry.name, zone, dry_run: isDryRun, is_kept: isKept, records, summary }
}

async function planAll({ app, domain, api, signal, wanted }: Run) {
  const zone = await api.findZone(domain.domain)
  const names = new Set<string>()
  // Also the names between, any of which may be a zone of its own, and the wildcards that cover them.
  for (const name of wanted.flatMap(([, { host }]) => listNames(host.toLowerCase(), zone))) {
    names.add(name)
    if (name !== zone && !name.includes('_')) names.add(name.replace(/^[^.]+/, '*'))
  }
  const sets = await api.read(zone, [...names])
  const resolver = limitResolver(app.freshResolver, signal)
  const check = (at: readonly RecordSet[]): Promise<Readonly<Record<string, Check>>> =>
    checkRecords(app, domain, resolveFromSets(resolver, [...names], at), true)
  const checks = await check(sets)
  const view = { zone, domain: domain.domain, sets }
  const planned = wanted.map(([key, record]) => planRecord(key, record, checks[key], view))
  // What the zone would be afterwards must pass, too: a merged SPF record may need too many look-ups.
  const later = await check(applyPlan(sets, planned))
  const findConflict = async (one: PlannedRecord) => {
    const found = later[one.key]
    const isUnknown = found?.outcome === 'unknown' && !(one.key === 'spf' && one.action === 'change')
    if (found && !found.verified && !isUnknown) return `With our record it would fail: ${found.detail}`
    return one.action === 'create' ? findCut(resolver, one, view) : undefined
  }
  const safe = planned.map(async (one): Promise<PlannedRecord> => {
    const reason = isWritten(one) ? await findConflict(one) : undefined
    return reason === undefined ? one : { ...one, action: 'conflict', after: one.before, reason }
  })
  return { zone, names: [...names], planned: await Promise.all(safe) }
}

/**
 * Why a record would take a name out of DNS that its owner uses by a wildcard, which covers no name with records of its
 * own, or below it (RFC 4592 §2.2.1); undefined: it does not. Names that only this service uses do not count.
 */
async function findCut(resolver: Resolver, { key, name: host }: PlannedRecord, { zone, sets }: ZoneView) {
  for (const name of listNames(host, zone)) {
    if (name === zone || name.startsWith('_') || (name === host && key !== 'mx')) continue
    if (sets.some((set) => set.name === name)) continue
    for (const { name: wildcard, type } of sets) {
      if (!wildcard.startsWith('*') || !name.endsWith(wildcard.slice(1)) || !/^(A|AAAA|MX|TXT|CNAME)$/.test(type))
        continue
      const { kind } = await resolver[type.toLowerCase() as 'a'](name)
      // Else the wildcard does not cover it now, because of other records below it.
      if (kind !== 'nodata' && kind !== 'nxdomain')
        return `The wildcard ${wildcard} (${type}) covers ${name}, and would not once it has records of its own, or below it. Publish a ${type} record at ${name} as well, then publish again.`
    }
  }
  return undefined
}

/** Why records were not published, by key. */
async function writeAll(run: Run, zone: string, names: readonly string[], planned: readonly PlannedRecord[]) {
  const { api, entry } = run
  const errors = new Map<string, string>()
  let end: DnsApiError | undefined
  for (const record of planned.filter(isWritten)) {
    const failure = end ?? (await writeOne(run, zone, record).catch(toDnsApiError))
    if (failure) errors.set(record.key, end ? 'Not tried, since the record before it failed.' : failure.message)
    if (failure && ENDING_PROBLEMS.includes(failure.problem)) end = failure
  }
  const written = planned.filter((record) => isWritten(record) && !errors.has(record.key))
  const readBack = async () => {
    await api.publish?.(zone)
    return written.length > 0 ? await api.read(zone, names) : []
  }
  // Also when only this fails, the credentials are kept for the next time.
  const sets = await readBack().catch(toDnsApiError)
  if (sets instanceof DnsApiError && written.length === 0) throw sets
  for (const record of written) {
    if (sets instanceof DnsApiError) errors.set(record.key, sets.message)
    // Some providers accept a record and drop it.
    else if (!record.after.every((value) => sets.find((set) => isSame(set, record))?.values.includes(value)))
      errors.set(record.key, `${entry.title} accepted the record, but its zone ${zone} does not have it.`)
  }
  return errors
}

async function writeOne({ app, actor, domain, entry, api }: Run, zone: string, record: PlannedRecord) {
  if (!findDomainById(app.db, domain.id) || isVerifiedElsewhere(app.db, actor.accountId, domain.domain))
    throw new DnsApiError('no_zone', `${domain.domain} was deleted, or another account has verified it since.`)
  await api.write(zone, record)
  const { type, name, before, after } = record
  const added = after.filter((value) => !before.includes(value))
  const removed = before.filter((value) => !after.includes(value))
  const facts = { provider: entry.name, zone, type, name, added, removed }
  await app.commit.write((tx) => auditDomain(app, tx, actor, 'dns_published', domain, facts))
  return undefined
}

function toDnsApiError(error: unknown): DnsApiError {
  if (error instanceof DnsApiError) return error
  throw error
}

/**
 * Keeps the credentials, if they may be kept, and neither the domain nor what was kept was deleted during the run.
 * Returns whether any are kept: those of earlier stay when the new ones may not be.
 */
function store(run: Run, zone: string, records: readonly PublishedRecord[], keeps: boolean): Promise<boolean> {
  const { app, actor, domain, entry, fields, allowsPrivate, wanted } = run
  const now = app.clock.now()
  return app.commit.write((tx) => {
    const known = findPublication(tx.db, domain)
    if (!findDomainById(tx.db, domain.id) || known?.keptAt !== run.known?.keptAt) return false
    const isSame = known && Bun.deepEquals(openFields(app, domain, known), fields)
    const earlier = !keeps && known?.fields ? known : undefined
    putPublication(tx, {
      domainId: domain.id,
      provider: entry.name,
      zone,
      fields: keeps ? sealFields(app, domain, fields) : null,
      allowsPrivate: allowsPrivate ? 1 : 0,
      keptAt: keeps ? ((isSame ? known.keptAt : null) ?? now) : null,
      ...earlier,
      error: (earlier && !isSame ? earlier : records.find(({ error }) => error !== null))?.error ?? null,
      publishedAt: records.some(({ state }) => state === 'published') ? now : (known?.publishedAt ?? null),
      recordsHash: hashRecords(wanted),
      nextAttemptAt: now + RETRY_DELAY_MS,
    })
    if (keeps && !isSame) auditDomain(app, tx, actor, 'dns_credentials_stored', domain, { provider: entry.name, zone })
    return keeps || earlier !== undefined
  })
}

const isSame = (a: RecordSet, b: PlannedRecord): boolean => a.name === b.name && a.type === b.type

const isWritten = ({ action }: Pick<PlannedRecord, 'action'>): boolean => action === 'create' || action === 'change'

/** `4 published, 1 already right` */
function countRecords(records: readonly PublishedRecord[]): string {
  const words = records.map(({ action, state }) => {
    if (state === 'published' || state === 'failed') return state
    return action === 'leave' ? 'already right' : action === 'conflict' ? 'to settle by hand' : `to ${action}`
  })
  return [...new Set(words)].map((word) => `${words.filter((one) => one === word).length} ${word}`).join(', ')
}

/** Answers until the signal is aborted. */
const limitResolver = (base: Resolver, signal?: AbortSignal): Resolver =>
  overrideResolver(base, () => (signal?.aborted ? { kind: 'timeout' } : undefined))

/** Answers about `names` from these sets: as the provider has the zone, before the world does. */
const resolveFromSets = (base: Resolver, names: readonly string[], sets: readonly RecordSet[]): Resolver =>
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

/** The zone after the changes. */
function applyPlan(sets: readonly RecordSet[], planned: readonly PlannedRecord[]): RecordSet[] {
  const changed = planned.filter(isWritten)
  return [
    ...sets.filter((set) => !changed.some((one) => isSame(set, one))),
    ...changed.map(({ name, type, ttlSeconds, after: values }) => ({ name, type, ttlSeconds, values })),
  ]
}

/**
 * Verifies the domain at the name servers of its zone, and says what they do not show. Never throws.
 * @param inZone keys of the records that the zone has, from this run or an earlier one
 */
export async function checkPublished(
  app: App,
  actor: Actor,
  of: Domain,
  zone: string,
  { inZone = [], signal }: { readonly inZone?: readonly string[]; readonly signal?: AbortSignal } = {},
) {
  const { uuid, domain } = of
  try {
    const id = formatUuid(uuid)
    const resolver = limitResolver(await createZoneResolver(app, zone), signal)
    const { checks, domain: after } = await verifyDomain(app, actor, id, resolver)
    if (after.trackingDomain !== null) await verifyTracking(app, actor, id, resolver)
    const wanted = listUsedRecords(app, getDomain(app.db, actor.accountId, id))
    const absent = wanted.filter(isMissing).map(([key]) => key)
    if (absent.length === 0) return `DNS shows all records of ${domain}.`
    const late = absent.filter((key) => inZone.includes(key))
    if (late.length === 0)
      return `Still missing in DNS: ${absent.join(', ')}. Mend what is said about each, then publish again.`
    const unanswered = Object.values(checks).find(({ detail }) => isUnanswered(detail))
    const { nameServers } = await findZone(app.freshResolver, domain)
    const asked = nameServers.length > 0 ? `its name servers ${nameServers.join(', ')}` : 'no name server'
    return `The world asks ${asked} for ${domain}, which do not show yet: ${late.join(', ')}. If that stays so after some minutes, the zone ${zone} that was changed is not the one that they have.${unanswered ? ` ${unanswered.detail}` : ''}`
  } catch (error) {
    return error instanceof AppError ? error.message : 'DNS could not be checked now; verify the domain in a minute.'
  }
}
