/**
 * @module Checks what a domain publishes against what it should: five checks, each with a verdict and a sentence that says what to do. Pure over
 * a resolver; give it one without a cache, so that a record just published is seen. Stores nothing.
 */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { checkDkim } from './check-dkim.ts'
import { checkDmarc } from './check-dmarc.ts'
import { checkInboundMx, checkReturnPath } from './check-mx.ts'
import type { Check } from './check-result.ts'
import { checkSpf } from './check-spf.ts'
import type { DnsRecordKey, DomainDns } from './dns-records.ts'

export type DomainChecks = Readonly<Record<DnsRecordKey, Check>>

/** An `unknown` outcome says nothing about a record: what was verified before it stays so. */
export async function checkDomain(resolver: Resolver, dns: DomainDns): Promise<DomainChecks> {
  const [spf, dkim, dmarc, returnPath, mx] = await Promise.all([
    checkSpf(resolver, dns),
    checkDkim(resolver, dns),
    checkDmarc(resolver, dns),
    checkReturnPath(resolver, dns),
    checkInboundMx(resolver, dns),
  ])
  return { spf, dkim, dmarc, return_path: returnPath, mx }
}
