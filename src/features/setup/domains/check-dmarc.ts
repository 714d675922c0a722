/** @module Checks the DMARC policy of a domain, its own or that of the organisational domain above it (RFC 9989 §4.7, §4.10): any valid one passes. */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { tagsOf } from './check-dkim.ts'
import {
  absenceHint,
  type Check,
  isCheck,
  missing,
  publishTxt,
  quoted,
  recordsOrCheck,
  verified,
  withoutQuoting,
  wrong,
} from './check-result.ts'
import { DMARC_VALUE, type DomainDns, dmarcHost } from './dns-records.ts'
import { registrableDomain } from './name.ts'

/** The version comes first, and its value in capitals. */
const isDmarc = (text: string): boolean => /^[vV]\s*=\s*DMARC1\s*(;|$)/.test(text.trim())

export async function checkDmarc(resolver: Resolver, dns: DomainDns): Promise<Check> {
  const own = await policyAt(resolver, dns.domain)
  if (own !== undefined) return own
  const organisation = registrableDomain(dns.domain)
  if (organisation !== undefined && organisation !== dns.domain) {
    const inherited = await policyAt(resolver, organisation)
    if (inherited?.verified)
      return verified(`${dns.domain} has no DMARC record of its own and inherits: ${inherited.detail}`)
    if (inherited !== undefined) return inherited
  }
  const host = dmarcHost(dns.domain)
  const isAt = async (name: string) => {
    const found = await resolver.txt(name)
    return found.kind === 'ok' && found.records.some((text) => isDmarc(withoutQuoting(text)))
  }
  return missing(
    `There is no DMARC record at ${host}.`,
    (await isAt(dns.domain)) ? `It was found at ${dns.domain} instead: its name must begin with _dmarc.` : '',
    await absenceHint(resolver, dns.domain, host, isAt),
    publishTxt(host, DMARC_VALUE),
  )
}

/** The check of the policy published for `domain` itself; undefined when there is none. */
async function policyAt(resolver: Resolver, domain: string): Promise<Check | undefined> {
  const host = dmarcHost(domain)
  const texts = recordsOrCheck(await resolver.txt(host), 'DMARC record (TXT)', host)
  if (isCheck(texts)) return texts
  const advice = publishTxt(host, DMARC_VALUE)
  const records = texts.filter(isDmarc)
  const [record] = records
  if (records.length > 1) {
    return wrong(
      `There are ${records.length} DMARC records at ${host}: ${records.map(quoted).join(', ')}.`,
      'Receivers then ignore them all: remove all but one.',
    )
  }
  if (record === undefined) {
    const near = texts.find((text) => /dmarc1/i.test(text) || tagsOf(withoutQuoting(text)).has('p'))
    if (near === undefined) return undefined
    const fault = isDmarc(withoutQuoting(near))
      ? 'has quotes or backslashes inside its value; enter the value without them'
      : 'does not begin with v=DMARC1; (in capitals)'
    return wrong(`The DMARC record at ${host} is ${quoted(near)}, which ${fault}.`, advice)
  }
  const fault = faultOf(record)
  if (fault !== undefined) return wrong(`The DMARC record at ${host} is ${quoted(record)}, which ${fault}.`, advice)
  return verified(`The DMARC record at ${host} is valid: ${quoted(record)}.`)
}

const POLICIES: readonly (string | undefined)[] = ['none', 'quarantine', 'reject']

function faultOf(record: string): string | undefined {
  if (/["\\\u201c\u201d]/.test(record))
    return 'has quotes or backslashes inside its value; enter the value without them'
  const names = record
    .split(';')
    .flatMap((part) => (part.includes('=') ? [part.slice(0, part.indexOf('=')).trim()] : []))
  const double = names.find((name, i) => names.indexOf(name) !== i)
  if (double !== undefined) return `gives ${quoted(double)} twice`
  const tags = tagsOf(record)
  const policy = tags.get('p')
  if (policy === undefined) {
    // RFC 9989 §4.10.1: with an address for reports it counts as p=none.
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
