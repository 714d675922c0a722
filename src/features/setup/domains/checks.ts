/**
 * @module Checks the five DNS records of a domain, each with an outcome and a sentence that says what to do. Pass a
 * resolver without a cache, so that a new record is seen. Stores nothing.
 */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { checkDkim } from './check-dkim.ts'
import { checkDmarc } from './check-dmarc.ts'
import { checkInboundMx, checkReturnPath } from './check-mx.ts'
import type { Check } from './check-result.ts'
import { checkSpf } from './check-spf.ts'
import type { DnsRecordKey, DomainDns } from './dns-records.ts'

export type DomainChecks = Readonly<Record<DnsRecordKey, Check>>

/** Checks all five records. For an outcome `unknown`, the caller keeps the flag of the previous check. */
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
