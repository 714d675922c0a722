/**
 * @module Reads what DNS has now of the records that a domain needs: found and expected values, and the names as the
 * domain's DNS provider wants them typed. Stores nothing: the verification of the domain stays as it is.
 */
import type { App } from '#features/core/app/app.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { randomBelow } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { type Answer, isFailedAnswer, type Resolver, StubResolver } from '#protocols/dns/resolver.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import { parseTags } from './check-dkim.ts'
import { checkTlsReports, isDmarc } from './check-dmarc.ts'
import { adviseTxt, type Check, missing, removeQuoting } from './check-result.ts'
import { checkSpf, findSpfProblem, isSpf } from './check-spf.ts'
import { checkTracking } from './check-tracking.ts'
import { checkDomain } from './checks.ts'
import data from './dns-providers.json' with { type: 'json' }
import {
  type ByRecord,
  buildTlsReportRecord,
  type DnsRecord,
  type DomainDns,
  findHostnameWarnings,
  formatSpfValue,
  toDkimHost,
  toDmarcHost,
  toEd25519Key,
  toReturnPathHost,
  toRsaKey,
} from './dns-records.ts'
import { type Domain, listDnsRecords, toDomainDns } from './domains.ts'
import type { PublishedDnsWire } from './model.ts'
import { findRegistrableDomain } from './name.ts'
import { getCnameTarget, isHostElsewhere } from './tracking-domain.ts'

interface DnsProvider {
  readonly name: string
  /** Domains of its name servers; a `*` at the end of a label stands for any characters. */
  readonly nameServers: readonly string[]
  /** Where records are edited; `{zone}` stands for the name of the zone. Only addresses that need no other value. */
  readonly editUrl?: string | undefined
  /** Whether its form wants full names; else it appends the zone itself. */
  readonly wantsFullNames?: boolean | undefined
  /** What stands for the zone itself in a form that appends it; default `@`, empty: leave the field empty. */
  readonly apex?: string | undefined
}

const PROVIDERS: readonly DnsProvider[] = data

/**
 * The provider that runs all of these name servers; undefined when it is unknown, or when several do and it is not
 * clear where records are edited.
 */
export function findDnsProvider(nameServers: readonly string[]): DnsProvider | undefined {
  const [first, ...others] = nameServers
  const provider = first === undefined ? undefined : PROVIDERS.find((one) => runs(one, first))
  return provider && others.every((server) => runs(provider, server)) ? provider : undefined
}

const runs = ({ nameServers }: DnsProvider, server: string): boolean =>
  nameServers.some((pattern) => {
    const labels = pattern.split('.')
    const found = server.split('.').slice(-labels.length)
    return found.length === labels.length && labels.every((label, i) => matchesLabel(label, found[i] ?? ''))
  })

/** A `*` at the end of a label stands for any characters. */
const matchesLabel = (pattern: string, label: string): boolean =>
  pattern.endsWith('*') ? label.startsWith(pattern.slice(0, -1)) : label === pattern

/** The address at which the records of a zone are edited; null: unknown. */
export const getEditUrl = ({ editUrl }: DnsProvider, zone: string): string | null =>
  editUrl?.replace('{zone}', encodeURIComponent(zone)) ?? null

/** The name of a record as the provider's form wants it typed; an unknown provider's takes relative names. */
export function toTypedName(name: string, zone: string, provider: DnsProvider | undefined): string {
  if (provider?.wantsFullNames) return name
  if (name === zone) return provider?.apex ?? '@'
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name
}

/**
 * One record with the terms of all `existing` ones and ours. Ours come first: they then pass whatever an existing term
 * matches, and before look-ups that could fail. The first `all` or `redirect` decides about other senders, as before.
 * @param existing at least one record
 * @param ours the record that we ask for without others
 */
export function mergeSpf(existing: readonly string[], ours: string): string {
  const terms = new Set(listTerms(ours).filter((term) => !isLast(term)))
  for (const term of existing.flatMap(listTerms)) if (!isLast(term)) terms.add(term)
  const last = existing.flatMap(listTerms).find(isLast)
  return ['v=spf1', ...terms, ...(last === undefined ? [] : [last])].join(' ')
}

const listTerms = (record: string): string[] => record.trim().split(/\s+/).slice(1)

/** RFC 7208 §5.1, §6.1: `all` and `redirect=` end the evaluation. */
const isLast = (term: string): boolean => /^([-+~?]?all$|redirect=)/i.test(term)

const MAX_NAME_SERVERS = 16

/**
 * The zone of a name. Never looks above the registrable domain: a registry's servers are not those of the owner. That
 * domain is also the result when DNS names no server, because it has none or did not respond. Servers are sorted.
 */
export async function findZone(
  resolver: Resolver,
  name: string,
): Promise<{ readonly name: string; readonly nameServers: string[] }> {
  const top = findRegistrableDomain(name) ?? name
  for (let zone = name; ; zone = zone.slice(zone.indexOf('.') + 1)) {
    const found = await resolver.ns(zone)
    if (found.kind === 'ok')
      return { name: zone, nameServers: [...new Set(found.records)].sort().slice(0, MAX_NAME_SERVERS) }
    // Other names of the zone have the same silent servers.
    if (found.kind === 'timeout' || zone === top || !zone.endsWith(`.${top}`)) return { name: top, nameServers: [] }
  }
}

type Records = PublishedDnsWire['records']
type PublishedRecord = Records['spf']

const MAX_VALUES = 10
const MAX_VALUE_LENGTH = 1024
/** A longer record is never shown as one to publish, because a truncated one would be wrong. */
const MAX_KEPT_LENGTH = 2048

const truncate = (text: string): string =>
  text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH).toWellFormed()}…` : text

/** Looks the domain's records up now, each question once. */
export async function readPublishedDns(app: App, domain: Domain): Promise<PublishedDnsWire> {
  const resolver = shareAnswers(app.freshResolver)
  const dns = { ...toDomainDns(app, domain), needsOtherNodes: true }
  const [zone, records, texts] = await Promise.all([
    findZone(resolver, dns.domain),
    describeRecords(app, resolver, domain, dns),
    resolver.txt(dns.domain),
  ])
  const provider = findDnsProvider(zone.nameServers)
  const domainSpf = texts.kind === 'ok' ? texts.records.find(isSpf) : undefined
  return {
    domain: dns.domain,
    zone: zone.name,
    nameservers: zone.nameServers,
    provider: provider
      ? { name: provider.name, nameservers: zone.nameServers, edit_url: getEditUrl(provider, zone.name) }
      : null,
    domain_spf: domainSpf === undefined ? null : truncate(domainSpf),
    records,
    checked_at: isoTime(app.clock.now()),
    warnings: findHostnameWarnings(app.config),
  }
}

/** The inbound MX and the tracking host are left out unless they are in use. */
async function describeRecords(app: App, resolver: Resolver, domain: Domain, dns: DomainDns): Promise<Records> {
  const used = new Map(listUsedRecords(app, domain))
  const checks = Object.entries(await checkRecords(app, domain, resolver))
  const found = checks.flatMap(([key, check]) => {
    const record = used.get(key)
    return record ? [describeRecord(resolver, dns, key, record, check).then((described) => [key, described])] : []
  })
  return Object.fromEntries(await Promise.all(found)) as Records
}

async function describeRecord(
  resolver: Resolver,
  dns: DomainDns,
  key: string,
  { type, host: name, value, priority, further_values }: DnsRecord,
  check: Check,
): Promise<PublishedRecord> {
  const [zone, found, kept] = await Promise.all([
    findZone(resolver, name),
    readValues(resolver, type, name),
    findKept(resolver, dns, key, check),
  ])
  const { record, inheritedFrom } = kept
  const keep = record !== value && (record?.length ?? 0) <= MAX_KEPT_LENGTH ? record : undefined
  // A part of the domain can be a zone of its own, at another provider.
  const provider: DnsProvider | undefined = findDnsProvider(zone.nameServers)
  return {
    type,
    name,
    zone: zone.name,
    host: toTypedName(name, zone.name, provider),
    expected: value,
    ...(priority !== undefined && { priority }),
    ...(further_values && { further_values }),
    found: found.slice(0, MAX_VALUES).map(truncate),
    status: check.outcome === 'unknown' ? 'unanswered' : check.outcome,
    detail: describeWithKept(check, name, value, keep),
    ...(keep !== undefined && { keep }),
    ...(inheritedFrom !== undefined && { inherited_from: inheritedFrom }),
  }
}

interface Kept {
  readonly record?: string | undefined
  readonly inheritedFrom?: string
}

/**
 * The sentences of a check, which end with the advice to publish `value` whatever exists: with a record to keep, they
 * end with that one instead.
 */
function describeWithKept({ detail, verified }: Check, name: string, value: string, keep: string | undefined): string {
  if (verified || keep === undefined) return detail
  const advice = adviseTxt(name, value)
  if (detail.endsWith(advice)) return `${detail.slice(0, -advice.length)}Replace it with ${keep}`
  return detail.endsWith(value) ? `${detail.slice(0, -value.length)}${keep}` : detail
}

/** The values at a name now; none when DNS did not respond. */
async function readValues(resolver: Resolver, type: DnsRecord['type'], name: string): Promise<readonly string[]> {
  if (type === 'MX') {
    const answer = await resolver.mx(name)
    return answer.kind === 'ok'
      ? answer.records.map(({ preference, exchange }) => `${preference} ${exchange === '' ? '.' : exchange}`)
      : []
  }
  const answer = await (type === 'TXT' ? resolver.txt(name) : resolver.cname(name))
  if (answer.kind === 'ok') return answer.records
  if (type === 'TXT') return []
  const addresses = await Promise.all([resolver.a(name), resolver.aaaa(name)])
  return addresses.flatMap((found) => (found.kind === 'ok' ? found.records : []))
}

async function findKept(resolver: Resolver, dns: DomainDns, key: string, check: Check): Promise<Kept> {
  if (key === 'spf') return { record: await findKeptSpf(resolver, dns, check) }
  return key === 'dmarc' && check.verified ? findKeptDmarc(resolver, dns.domain) : {}
}

/** The SPF record that stays; or, when those that exist do not pass, one that keeps their terms and does. */
async function findKeptSpf(resolver: Resolver, dns: DomainDns, check: Check): Promise<string | undefined> {
  const host = toReturnPathHost(dns)
  const answer = await resolver.txt(host)
  const records = answer.kind === 'ok' ? answer.records.filter(isSpf) : []
  if (check.verified) return records[0]
  if (check.outcome !== 'wrong' || records.length === 0) return undefined
  const merged = mergeSpf(records, formatSpfValue(dns))
  const after = await checkSpf(withTxtRecord(resolver, host, merged), dns)
  return after.verified ? merged : undefined
}

/** The policy that applies: the domain's own, else that of its organisational domain. */
async function findKeptDmarc(resolver: Resolver, domain: string): Promise<Kept> {
  for (const name of [domain, findRegistrableDomain(domain) ?? domain]) {
    const answer = await resolver.txt(toDmarcHost(name))
    const record = answer.kind === 'ok' ? answer.records.find(isDmarc) : undefined
    if (record !== undefined) return { record, ...(name !== domain && { inheritedFrom: name }) }
  }
  return {}
}

const METHODS = ['mx', 'a', 'aaaa', 'txt', 'cname', 'ns', 'ptr'] as const
type Method = (typeof METHODS)[number]
type MaybeAnswer = Answer<unknown> | undefined

/** Answers by `ask`, which gets names in lower case, and where that has no answer by `base`. */
export function overrideResolver(
  base: Resolver,
  ask: (method: Method, name: string) => MaybeAnswer | Promise<MaybeAnswer>,
): Resolver {
  const answer = (method: Method) => async (name: string) =>
    (await ask(method, name.toLowerCase())) ?? base[method](name)
  const methods = Object.fromEntries(METHODS.map((method) => [method, answer(method)]))
  // The cast is safe: `ask` answers each method in the form of that method.
  return { ...(methods as unknown as Resolver), close() {}, [Symbol.dispose]() {} }
}

/** Asks each question once, so that all look-ups see the same answers. */
function shareAnswers(resolver: Resolver): Resolver {
  const answers = new Map<string, Promise<Answer<unknown>>>()
  return overrideResolver(resolver, (method, name) =>
    answers.getOrInsertComputed(`${method} ${name}`, () => resolver[method](name)),
  )
}

/** Answers as if the only TXT record at `host` were `text`: what would hold after it is published. */
const withTxtRecord = (resolver: Resolver, host: string, text: string): Resolver =>
  overrideResolver(resolver, (method, name) =>
    method === 'txt' && name === host ? { kind: 'ok', records: [text], ttlSeconds: 0 } : undefined,
  )

/** Whether a TXT value has the purpose of a record, so that there may be only one of them. */
export function isOfKind(key: string, ours: string, value: string): boolean {
  if (key === 'spf') return isSpf(value)
  if (key === 'dmarc') return isDmarc(value)
  const tags = parseTags(removeQuoting(value))
  return key.startsWith('dkim') ? tags.has('p') : tags.has('v') && tags.get('v') === parseTags(ours).get('v')
}

/** A DMARC record with the report addresses of ours; undefined when it has them, or is inherited. */
export function addReportAddress(values: readonly string[], ours: string): string[] | undefined {
  const record = values.find(isDmarc)
  const address = parseTags(ours).get('rua')
  if (record === undefined || address === undefined) return undefined
  const present = parseTags(record).get('rua')
  // RFC 7489 §6.2: a size limit may follow an address.
  const toBare = (text: string) => text.split('!', 1).join('').trim().toLowerCase()
  if (present?.split(',').map(toBare).includes(toBare(address))) return undefined
  const tags = record.split(';').flatMap((tag) => tag.trim() || [])
  const isAddresses = (tag: string) => tag.split('=', 1).join('').trim().toLowerCase() === 'rua'
  const changed = present
    ? tags.map((tag) => (isAddresses(tag) ? `${tag},${address}` : tag))
    : [...tags.filter((tag) => !isAddresses(tag)), `rua=${address}`]
  return values.map((value) => (value === record ? changed.join('; ') : value))
}

/** The records that a domain uses, by key. Those about where its mail goes, and what may send it, come last. */
export function listUsedRecords(app: App, domain: Domain): [key: string, record: DnsRecord][] {
  const { trackingDomain: host, inboundEnabled, accountId } = domain
  const isUnused = (key: string) =>
    (key === 'mx' && !inboundEnabled) ||
    (key === 'tracking' && host !== null && isHostElsewhere(app.db, accountId, host))
  const rank = ([key]: [string, DnsRecord]) => ['dmarc', 'mx'].indexOf(key)
  return Object.entries(listDnsRecords(app, domain))
    .filter(([key]) => !isUnused(key))
    .sort((a, b) => rank(a) - rank(b))
}

/** Whether the last check missed a record; those of TLS reports are not among the records that a check stores. */
export const isMissing = ([key, { verified }]: [key: string, record: DnsRecord]): boolean =>
  !verified && key !== 'tls_reports'

/**
 * Checks all records, those that cover the other nodes of a cluster too.
 * @param forAll whether SPF must be valid for other senders as well
 */
export async function checkRecords(
  app: App,
  domain: Domain,
  resolver: Resolver,
  forAll = false,
): Promise<Readonly<Record<string, Check>>> {
  const { trackingDomain: host } = domain
  const dns = { ...toDomainDns(app, domain), needsOtherNodes: true }
  const [records, reports, tracking] = await Promise.all([
    checkDomain(resolver, dns),
    domain.inboundEnabled && checkTlsReports(resolver, buildTlsReportRecord(dns)),
    host === null ? undefined : checkTracking(resolver, { host, target: getCnameTarget(app.config) }),
  ])
  const spf = forAll && records.spf.verified ? await findSpfProblem(resolver, toReturnPathHost(dns)) : undefined
  return { ...records, ...(spf && { spf }), ...(reports && { tls_reports: reports }), ...(tracking && { tracking }) }
}

const TIMEOUT_MS = seconds(2)
/** Of a zone, and of each its addresses: the owner of the zone names them, and each may be silent. */
const [MAX_ASKED_SERVERS, MAX_ASKED_ADDRESSES] = [4, 2]

async function listServers({ freshResolver: base, config }: App, zone: string): Promise<string[]> {
  const found = await base.ns(zone)
  const hosts = found.kind === 'ok' ? found.records.slice(0, MAX_ASKED_SERVERS) : []
  const addresses = await Promise.all(hosts.map((host) => resolveHostAddresses(base, host, { ipv6: false })))
  const servers = addresses.flatMap((one) => (one.kind === 'ok' ? one.addresses.slice(0, MAX_ASKED_ADDRESSES) : []))
  return servers.filter((address) => canConnectTo(address, config.allowPrivateNetworks))
}

const connectTo = ({ clock }: App, servers: readonly string[]): Resolver =>
  new StubResolver({
    ...{ servers, clock, timeoutMs: TIMEOUT_MS },
    attempts: 1,
    randomId: () => randomBelow(0x10000),
    cacheEntries: 0,
  })

/** Asks the name servers of the zone themselves about its names, and the service's resolver when they do not answer. */
export async function createZoneResolver(app: App, zone: string): Promise<Resolver> {
  const servers = await listServers(app, zone)
  if (servers.length === 0) return app.freshResolver
  const direct = connectTo(app, servers)
  return overrideResolver(app.freshResolver, async (method, name) => {
    const answer = `.${name}`.endsWith(`.${zone}`) ? await direct[method](name) : undefined
    return answer && isFailedAnswer(answer) ? undefined : answer
  })
}

/**
 * Checks the records of a domain. A key of a rotation must be at every name server that responds: it signs once it is
 * verified, and receivers may ask any of them.
 */
export async function checkWithServers(app: App, domain: Domain, resolver: Resolver): Promise<ByRecord<Check>> {
  const { nextDkim: next } = domain
  const checks = await checkDomain(resolver, toDomainDns(app, domain))
  const keys = { dkim_next: next && toRsaKey(next), dkim_ed25519_next: next && toEd25519Key(next) }
  for (const [name, key] of Object.entries(keys)) {
    if (!key || !checks[name as keyof typeof keys]?.verified) continue
    const host = toDkimHost(domain.domain, key)
    const { name: zone } = await findZone(app.freshResolver, host.slice(host.indexOf('.') + 1))
    // All at once: a check must not wait for each that is silent.
    const asked = (await listServers(app, zone)).map(async (server) => {
      const { kind } = await connectTo(app, [server]).txt(host)
      return kind === 'nodata' || kind === 'nxdomain' ? server : []
    })
    const [server] = (await Promise.all(asked)).flat()
    if (server !== undefined)
      return {
        ...checks,
        [name]: missing(`The name server ${server}, which receivers may ask, does not have ${host}.`),
      }
  }
  return checks
}
