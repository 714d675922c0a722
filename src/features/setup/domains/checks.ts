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
import { type ByRecord, type DkimPublicKey, type DomainDns, toEd25519Key, toRsaKey } from './dns-records.ts'

/** Checks all records but that of the tracking host. For an outcome `unknown`, the caller keeps the flag of the previous check. */
export async function checkDomain(resolver: Resolver, dns: DomainDns): Promise<ByRecord<Check>> {
  const check = (key: DkimPublicKey | null | undefined) => key && checkDkim(resolver, dns.domain, key)
  const [spf, dkim, ed25519, next, ed25519Next, dmarc, returnPath, mx] = await Promise.all([
    checkSpf(resolver, dns),
    checkDkim(resolver, dns.domain, toRsaKey(dns)),
    check(toEd25519Key(dns)),
    check(dns.nextDkim && toRsaKey(dns.nextDkim)),
    check(dns.nextDkim && toEd25519Key(dns.nextDkim)),
    checkDmarc(resolver, dns),
    checkReturnPath(resolver, dns),
    checkInboundMx(resolver, dns),
  ])
  return {
    spf,
    dkim,
    ...(ed25519 && { dkim_ed25519: ed25519 }),
    ...(next && { dkim_next: next }),
    ...(ed25519Next && { dkim_ed25519_next: ed25519Next }),
    dmarc,
    return_path: returnPath,
    mx,
  }
}
