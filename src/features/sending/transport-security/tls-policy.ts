/**
 * @module Decides which TLS a session to a mail host must have, from the policies of the domain (MTA-STS) and the host
 * (DANE). Pure. The policy of a provider (`tls` in providers.toml) is that of the route.
 */
import { isUsableTlsa, type TlsaRecord } from '#protocols/smtp/dane.ts'
import type { StsPolicy } from '#protocols/smtp/mta-sts.ts'

/** What a session to a host must have; without it the mail is deferred, never sent in clear. */
export interface TlsDemand {
  readonly by: 'mta-sts' | 'dane'
  /** What about the certificate is checked: its validity for the host, the TLSA records, or nothing. */
  readonly verifies: 'certificate' | 'tlsa' | 'nothing'
  /** The usable TLSA records. */
  readonly tlsa?: readonly TlsaRecord[]
  /** Who demands what, as the beginning of a sentence. */
  readonly words: string
}

export interface TlsPolicies {
  /** The recipient domain. */
  readonly domain: string
  readonly sts?: StsPolicy | undefined
  /** The TLSA records of the host, if DNSSEC protects them; undefined or empty when there are none. */
  readonly dane?: readonly TlsaRecord[] | undefined
}

/**
 * Returns what a session to one host must have; undefined: as the route's `tls` says. DANE comes before MTA-STS (RFC
 * 8461 §2). TLSA records that SMTP cannot use demand TLS without a check of the certificate (RFC 7672 §2.2).
 */
export function chooseTlsPolicy({ domain, sts, dane = [] }: TlsPolicies): TlsDemand | undefined {
  const tlsa = dane.filter(isUsableTlsa)
  if (tlsa.length > 0)
    return { by: 'dane', verifies: 'tlsa', tlsa, words: `${domain} demands TLS that matches its TLSA records (DANE)` }
  if (dane.length > 0) return { by: 'dane', verifies: 'nothing', words: `${domain} demands TLS (DANE)` }
  if (sts?.mode === 'enforce')
    return { by: 'mta-sts', verifies: 'certificate', words: `${domain} demands verified TLS (MTA-STS, enforce)` }
  return undefined
}

const DEMAND_NAMES: Readonly<Record<TlsDemand['by'], string>> = {
  'mta-sts': 'MTA-STS',
  dane: 'DANE',
}

/**
 * The name of a site whose hosts have these demands: sessions and failures are not shared with domains that demand
 * less.
 */
export function nameSite(hosts: readonly string[], demands: readonly (TlsDemand | undefined)[]): string {
  const site = [...new Set(hosts)].sort().join(',')
  const names = new Set(demands.flatMap((demand) => (demand ? [DEMAND_NAMES[demand.by]] : [])))
  return names.size === 0 ? site : `${site} (${[...names].sort().join(', ')})`
}
