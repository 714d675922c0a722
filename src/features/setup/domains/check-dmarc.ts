/**
 * @module Checks the DMARC policy that applies to a domain: its own, or that of its organisational domain (RFC 9989
 * §4.7, §4.10). Any valid policy passes.
 */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { parseTags } from './check-dkim.ts'
import {
  adviseTxt,
  type Check,
  findAbsenceHint,
  hasRecord,
  isCheck,
  missing,
  quoteValue,
  removeQuoting,
  toRecordsOrCheck,
  verified,
  wrong,
} from './check-result.ts'
import { DMARC_VALUE, type DomainDns, toDmarcHost } from './dns-records.ts'
import { findRegistrableDomain } from './name.ts'

/** The version must come first, with its value in capitals. */
export const isDmarc = (text: string): boolean => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text.trim())

export async function checkDmarc(resolver: Resolver, dns: DomainDns): Promise<Check> {
  const own = await checkPolicyAt(resolver, dns.domain)
  if (own !== undefined) return own
  const organisation = findRegistrableDomain(dns.domain)
  if (organisation !== undefined && organisation !== dns.domain) {
    const inherited = await checkPolicyAt(resolver, organisation)
    if (inherited?.verified)
      return verified(`${dns.domain} has no DMARC record of its own and inherits: ${inherited.detail}`)
    if (inherited !== undefined) return inherited
  }
  const host = toDmarcHost(dns.domain)
  const isAt = async (name: string) => hasRecord(await resolver.txt(name), (text) => isDmarc(removeQuoting(text)))
  return missing(
    `There is no DMARC record at ${host}.`,
    (await isAt(dns.domain)) ? `It was found at ${dns.domain} instead: its name must begin with _dmarc.` : '',
    await findAbsenceHint(resolver, dns.domain, host, isAt),
    adviseTxt(host, DMARC_VALUE),
  )
}

/** Checks the policy that `domain` itself publishes; undefined when there is none. */
async function checkPolicyAt(resolver: Resolver, domain: string): Promise<Check | undefined> {
  const host = toDmarcHost(domain)
  const texts = toRecordsOrCheck(await resolver.txt(host), 'DMARC record (TXT)', host)
  if (isCheck(texts)) return texts
  const advice = adviseTxt(host, DMARC_VALUE)
  const records = texts.filter(isDmarc)
  const [record] = records
  if (records.length > 1) {
    return wrong(
      `There are ${records.length} DMARC records at ${host}: ${records.map(quoteValue).join(', ')}.`,
      'Receivers ignore all of them in that case; keep only one.',
    )
  }
  if (record === undefined) {
    const lookalike = texts.find((text) => /dmarc1/i.test(text) || parseTags(removeQuoting(text)).has('p'))
    if (lookalike === undefined) return undefined
    const problem = isDmarc(removeQuoting(lookalike))
      ? 'has quotes or backslashes inside its value; enter the value without them'
      : 'does not begin with v=DMARC1; (in capitals)'
    return wrong(`The DMARC record at ${host} is ${quoteValue(lookalike)}, which ${problem}.`, advice)
  }
  const problem = findProblem(record)
  if (problem !== undefined)
    return wrong(`The DMARC record at ${host} is ${quoteValue(record)}, which ${problem}.`, advice)
  return verified(`The DMARC record at ${host} is valid: ${quoteValue(record)}.`)
}

const POLICIES: readonly (string | undefined)[] = ['none', 'quarantine', 'reject']

function findProblem(record: string): string | undefined {
  if (/["\\\u201c\u201d]/.test(record))
    return 'has quotes or backslashes inside its value; enter the value without them'
  const names = record
    .split(';')
    .flatMap((part) => (part.includes('=') ? [part.slice(0, part.indexOf('=')).trim()] : []))
  const duplicate = names.find((name, i) => names.indexOf(name) !== i)
  if (duplicate !== undefined) return `contains ${quoteValue(duplicate)} twice`
  const tags = parseTags(record)
  const policy = tags.get('p')
  if (policy === undefined) {
    // RFC 9989 §4.10.1: with a report address, a missing policy means p=none.
    return /^\s*[a-z][a-z0-9+.-]*:/i.test(tags.get('rua') ?? '')
      ? undefined
      : 'has no policy: p=none, p=quarantine or p=reject'
  }
  for (const name of ['p', 'sp', 'np']) {
    const value = tags.get(name)?.toLowerCase()
    if (tags.has(name) && !POLICIES.includes(value)) {
      return `has the invalid policy ${name}=${tags.get(name)}; allowed are none, quarantine and reject`
    }
  }
  return undefined
}
