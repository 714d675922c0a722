/**
 * @module Checks the DMARC policy that applies to a domain: its own, or that of its organisational domain (RFC 9989
 * §4.7, §4.10). Any valid policy passes.
 */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { parseTags } from './check-dkim.ts'
import * as result from './check-result.ts'
import { type DnsRecord, type DomainDns, formatDmarcValue, toDmarcHost } from './dns-records.ts'
import { findRegistrableDomain } from './name.ts'

/** The version must come first, with its value in capitals. */
export const isDmarc = (text: string): boolean => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text.trim())

export async function checkDmarc(resolver: Resolver, dns: DomainDns): Promise<result.Check> {
  const own = await checkPolicyAt(resolver, dns.domain, formatDmarcValue(dns))
  if (own !== undefined) return own
  const organisation = findRegistrableDomain(dns.domain) ?? dns.domain
  const inherited =
    organisation === dns.domain ? undefined : await checkPolicyAt(resolver, organisation, formatDmarcValue(dns))
  const { p = 'none', sp = p, ...policy } = inherited?.policy ?? {}
  const detail = `${dns.domain} has no DMARC record of its own and inherits: ${inherited?.detail}`
  if (inherited) return inherited.verified ? { ...inherited, detail, policy: { ...policy, p: sp } } : inherited
  const host = toDmarcHost(dns.domain)
  const isPolicy = (text: string) => isDmarc(result.removeQuoting(text))
  const hint = await result.findAbsenceHint(resolver, dns.domain, host, (name) => resolver.txt(name), isPolicy)
  return result.missing(`There is no DMARC record at ${host}.`, hint, result.adviseTxt(host, formatDmarcValue(dns)))
}

/**
 * Checks the policy that `domain` itself publishes; undefined when there is none.
 * @param value to publish in place of an invalid one
 */
async function checkPolicyAt(resolver: Resolver, domain: string, value: string): Promise<result.Check | undefined> {
  const host = toDmarcHost(domain)
  const texts = result.toRecordsOrCheck(await resolver.txt(host), 'DMARC record (TXT)', host)
  if (result.isCheck(texts)) return texts
  const records = texts.filter(isDmarc)
  const [record = texts.find(isMeantAsDmarc)] = records
  if (record === undefined) return undefined
  if (records.length > 1) {
    return result.wrong(
      `There are ${records.length} DMARC records at ${host}: ${records.map(result.quoteValue).join(', ')}.`,
      'Receivers ignore all of them in that case; keep only one.',
    )
  }
  const problem = findProblem(record)
  const tags = [...parseTags(record)].filter(([name]) => POLICY_TAGS.includes(name))
  const policy = Object.fromEntries(tags.map(([name, value]) => [name, value.slice(0, 1000).toLowerCase()]))
  return problem === undefined
    ? { ...result.verified(`The DMARC record at ${host} is valid: ${result.quoteValue(record)}.`), policy }
    : result.wrong(
        `The DMARC record at ${host} is ${result.quoteValue(record)}, which ${problem}.`,
        result.adviseTxt(host, value),
      )
}

const isMeantAsDmarc = (text: string): boolean => /dmarc1/i.test(text) || parseTags(result.removeQuoting(text)).has('p')

/** Any valid record passes: reports may go elsewhere. */
export async function checkTlsReports(resolver: Resolver, { host, value }: DnsRecord): Promise<result.Check> {
  const texts = result.toRecordsOrCheck(await resolver.txt(host), 'TLS report record (TXT)', host)
  if (result.isCheck(texts)) return texts
  const record = texts.find((text) => /^v=TLSRPTv1\s*;.*\brua\s*=/i.test(text))
  return record === undefined
    ? result.missing(`There is no TLS report record at ${host}; it is optional.`, result.adviseTxt(host, value))
    : result.verified(`The TLS report record at ${host} is valid: ${result.quoteValue(record)}.`)
}

const POLICY_TAGS: readonly string[] = ['p', 'sp', 'adkim', 'aspf', 'pct', 't', 'rua']
const POLICIES: readonly string[] = ['none', 'quarantine', 'reject']

function findProblem(record: string): string | undefined {
  const quoting = result.findQuotingProblem(record)
  if (quoting !== undefined) return quoting
  if (!isDmarc(record)) return 'does not begin with v=DMARC1; (in capitals)'
  const tags = parseTags(record)
  const policies = ['p', 'sp', 'np'].flatMap((name) => tags.get(name)?.toLowerCase() ?? [])
  // RFC 9989 §4.10.1: with a report address, a missing policy means p=none.
  const hasPolicy = tags.has('p') || tags.has('rua')
  return hasPolicy && policies.every((policy) => POLICIES.includes(policy))
    ? undefined
    : 'has no valid policy: p= must be none, quarantine or reject, and so must sp= and np= if they are there'
}
