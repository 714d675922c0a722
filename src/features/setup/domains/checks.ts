/**
 * @module Checks the DNS records of a domain, each with an outcome and a sentence that says what to do. Pass a
 * resolver without a cache, so that a new record is seen. Stores nothing.
 */
import type { Resolver } from '#protocols/dns/resolver.ts'
import { checkDkim } from './check-dkim.ts'
import { checkDmarc } from './check-dmarc.ts'
import { checkInboundMx, checkReturnPath } from './check-mx.ts'
import type { Check } from './check-result.ts'
import { checkSpf } from './check-spf.ts'
import {
  type ByRecord,
  type DkimPublicKey,
  type DomainDns,
  resolveRecords,
  toEd25519Key,
  toRsaKey,
} from './dns-records.ts'

/** Checks all records but that of the tracking host. For an outcome `unknown`, the caller keeps the flag of the previous check. */
export function checkDomain(resolver: Resolver, dns: DomainDns): Promise<ByRecord<Check>> {
  const check = (key: DkimPublicKey | null | undefined) => key && checkDkim(resolver, dns.domain, key)
  return resolveRecords({
    spf: checkSpf(resolver, dns),
    dkim: checkDkim(resolver, dns.domain, toRsaKey(dns)),
    dkim_ed25519: check(toEd25519Key(dns)),
    dkim_next: check(dns.nextDkim && toRsaKey(dns.nextDkim)),
    dkim_ed25519_next: check(dns.nextDkim && toEd25519Key(dns.nextDkim)),
    dmarc: checkDmarc(resolver, dns),
    return_path: checkReturnPath(resolver, dns),
    mx: checkInboundMx(resolver, dns),
  })
}
