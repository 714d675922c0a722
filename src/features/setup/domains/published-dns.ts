/**
 * @module Reads what DNS has now of the records that a domain needs: found and expected values, and the names as the
 * domain's DNS provider wants them typed. Stores nothing: the verification of the domain stays as it is.
 */
import type { App } from '#features/core/app/app.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import { parseTags } from './check-dkim.ts'
import { checkTlsReports, isDmarc } from './check-dmarc.ts'
import { adviseTxt, type Check, removeQuoting } from './check-result.ts'
import { checkSpf, findSpfProblem, isSpf } from './check-spf.ts'
import { checkTracking } from './check-tracking.ts'
import { checkDomain } from './checks.ts'
import data from './dns-providers.json' with { type: 'json' }
import {
  buildTlsReportRecord,
  type CheckKey,
  type DnsRecord,
  type DomainDns,
  findHostnameWarnings,
  formatSpfValue,
  toDmarcHost,
  toReturnPathHost,
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
  const expected = listDnsRecords(app, domain)
  const { mx, ...checks } = await checkDomain(resolver, dns)
  const describe = async (key: CheckKey, check: Promise<Check> | Check | undefined) =>
    check && expected[key] && describeRecord(resolver, dns, key, expected[key], await check)
  const { accountId, trackingDomain: host } = domain
  const isTracking = host !== null && !isHostElsewhere(app.db, accountId, host)
  const used: Partial<Record<CheckKey, Promise<Check> | Check>> = {
    ...checks,
    ...(domain.inboundEnabled && { mx, tls_reports: checkTlsReports(resolver, buildTlsReportRecord(dns)) }),
    ...(isTracking && { tracking: checkTracking(resolver, { host, target: getCnameTarget(app.config) }) }),
  }
  const found = await Promise.all(
    Object.entries(used).map(async ([key, check]) => [key, await describe(key as CheckKey, check)] as const),
  )
  return Object.fromEntries(found) as Records
}

async function describeRecord(
  resolver: Resolver,
  dns: DomainDns,
  key: CheckKey,
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

async function findKept(resolver: Resolver, dns: DomainDns, key: CheckKey, check: Check): Promise<Kept> {
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

/** Of a resolver. */
export const METHODS = ['mx', 'a', 'aaaa', 'txt', 'cname', 'ns', 'ptr'] as const
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

/** Checks all records, those that cover the other nodes of a cluster too. */
export async function checkRecords(
  app: App,
  domain: Domain,
  resolver: Resolver,
): Promise<Readonly<Record<string, Check>>> {
  const { trackingDomain: host } = domain
  const dns = { ...toDomainDns(app, domain), needsOtherNodes: true }
  const [records, tracking, spfProblem] = await Promise.all([
    checkDomain(resolver, dns),
    host === null ? undefined : checkTracking(resolver, { host, target: getCnameTarget(app.config) }),
    findSpfProblem(resolver, toReturnPathHost(dns)),
  ])
  const spf = (records.spf.verified && spfProblem) || records.spf
  return { ...records, spf, ...(tracking && { tracking }) }
}
