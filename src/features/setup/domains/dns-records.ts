/** @module Builds the DNS records that a domain's owner publishes for us. Looks nothing up; `checks.ts` does. */
import { isIPv6 } from 'node:net'
import type { Config } from '#platform/settings/config.ts'
import { type DkimKeyType, formatDkimRecord } from '#protocols/dkim/keys.ts'

export interface DkimPublicKeys {
  /** DKIM selector: one label. */
  readonly selector: string
  /** The `p=` value: base64 of the RSA key's SubjectPublicKeyInfo. */
  readonly dkimPublicKey: string
  /** The `p=` value of the Ed25519 key (RFC 8463); null: there is none yet. */
  readonly ed25519PublicKey: string | null
}

/** Where mail leaves and arrives: this service, or another node of its cluster. */
export interface NodeDns {
  /** The host name to which MX records point. */
  readonly hostname: string
  /** Its source addresses; empty when the system chooses. */
  readonly outboundIps: readonly string[]
}

/** The values from which the records are built; host name and addresses are those of this service. */
export interface DomainDns extends DkimPublicKeys, NodeDns {
  /** Lower-case A-labels. */
  readonly domain: string
  /** The keys that will sign once their records are published; null: no rotation waits. */
  readonly nextDkim: DkimPublicKeys | null
  /** The label of the envelope sender's subdomain, such as `send`. */
  readonly sendingSubdomain: string
  /** In a cluster: the nodes that may take over. The records that we offer cover them. */
  readonly otherNodes?: readonly NodeDns[]
  /** Whether a check fails for records that do not cover the other nodes, although mail flows now. */
  readonly needsOtherNodes?: boolean
}

export const DNS_RECORD_KEYS = ['spf', 'dkim', 'dmarc', 'return_path', 'mx'] as const
export type DnsRecordKey = (typeof DNS_RECORD_KEYS)[number]

/** Records that a domain may have but does not need: further DKIM keys, the tracking host, the address of TLS reports. */
export type OptionalRecordKey = 'dkim_ed25519' | 'dkim_next' | 'dkim_ed25519_next' | 'tracking' | 'tls_reports'

/** The checked records: those of the domain, its other DKIM keys, and the CNAME of its tracking host. */
export type CheckKey = DnsRecordKey | OptionalRecordKey

/** Something for each record: the further keys are there once they exist, those of a rotation while it waits. */
export type ByRecord<T> = Readonly<Record<DnsRecordKey, T>> & { readonly [Key in OptionalRecordKey]?: T }

/** Waits for the values of all records, in their order, and leaves out records without one. */
export async function resolveRecords<T>(
  values: Readonly<Record<DnsRecordKey, Promise<T>>> & {
    readonly [Key in CheckKey]?: Promise<T | undefined> | null | undefined
  },
): Promise<ByRecord<T>> {
  const found = await Promise.all(Object.entries(values).map(async ([key, value]) => [key, await value] as const))
  return Object.fromEntries(found.filter(([, value]) => value)) as ByRecord<T>
}

/**
 * A record in wire form. `host` is the full name without a trailing dot; `value` is unquoted and has no MX priority.
 */
export interface DnsRecord {
  readonly type: 'TXT' | 'MX' | 'CNAME'
  readonly host: string
  readonly value: string
  readonly priority?: number
  /** MX: the values of further records with the same priority, for the other nodes of a cluster. */
  readonly further_values?: string[]
  readonly verified: boolean
}

const MX_PRIORITY = 10

/** The records to publish, and whether the last check found them. */
export function buildDnsRecords(
  dns: DomainDns & { readonly verified: Readonly<Record<DnsRecordKey, boolean>> },
): Record<DnsRecordKey, DnsRecord> {
  const { verified } = dns
  const further = listOtherHosts(dns)
  const mx = { priority: MX_PRIORITY, ...(further.length > 0 && { further_values: further }) }
  return {
    spf: { type: 'TXT', host: toReturnPathHost(dns), value: formatSpfValue(dns), verified: verified.spf },
    dkim: buildDkimRecord(dns, toRsaKey(dns), verified.dkim),
    dmarc: { type: 'TXT', host: toDmarcHost(dns.domain), value: formatDmarcValue(dns), verified: verified.dmarc },
    return_path: {
      type: 'MX',
      host: toReturnPathHost(dns),
      value: dns.hostname,
      ...mx,
      verified: verified.return_path,
    },
    mx: { type: 'MX', host: dns.domain, value: dns.hostname, ...mx, verified: verified.mx },
  }
}

/** Host names of the other nodes; nodes that share ours need no record of their own. */
export const listOtherHosts = ({ hostname, otherNodes = [] }: DomainDns): string[] =>
  [...new Set(otherNodes.map((node) => node.hostname))].filter((name) => name !== hostname).sort()

/** A DKIM key as it is published. */
export interface DkimPublicKey {
  readonly type: DkimKeyType
  /** One label. */
  readonly selector: string
  /** The `p=` value. */
  readonly publicKey: string
}

export const toRsaKey = ({ selector, dkimPublicKey: publicKey }: DkimPublicKeys): DkimPublicKey => ({
  type: 'rsa',
  selector,
  publicKey,
})

export const toEd25519Key = ({ selector, ed25519PublicKey: publicKey }: DkimPublicKeys): DkimPublicKey | undefined =>
  publicKey === null ? undefined : { type: 'ed25519', selector: toEd25519Selector(selector), publicKey }

/** The two keys need a name each: receivers reject several keys at one name (RFC 6376 §3.6.2.2). */
export const toEd25519Selector = (selector: string): string => `${selector}e`

/** The record of a DKIM key (RFC 6376 §3.6.1, RFC 8463 §4). */
export const buildDkimRecord = (
  { domain }: Pick<DomainDns, 'domain'>,
  key: DkimPublicKey,
  isVerified: boolean,
): DnsRecord => ({
  type: 'TXT',
  host: toDkimHost(domain, key),
  value: formatDkimValue(key),
  verified: isVerified,
})

/** The envelope sender's domain, to which SPF applies. */
export const toReturnPathHost = ({ sendingSubdomain, domain }: DomainDns): string => `${sendingSubdomain}.${domain}`

export const toDkimHost = (domain: string, { selector }: DkimPublicKey): string => `${selector}._domainkey.${domain}`

export const toDmarcHost = (domain: string): string => `_dmarc.${domain}`

/**
 * RFC 7208 §4.5. Without configured addresses the record names the host instead. The system may then choose an address
 * that the host name does not have, so other sources only fail softly.
 */
export function formatSpfValue(dns: DomainDns): string {
  const { otherNodes = [] } = dns
  const nodes = [dns, ...otherNodes]
  const terms = nodes.flatMap(({ outboundIps, hostname }) =>
    outboundIps.length === 0 ? `a:${hostname}` : outboundIps.map((ip) => (isIPv6(ip) ? `ip6:${ip}` : `ip4:${ip}`)),
  )
  // The same whichever node leads.
  if (otherNodes.length > 0) terms.sort()
  const all = nodes.every(({ outboundIps }) => outboundIps.length > 0) ? '-all' : '~all'
  return ['v=spf1', ...new Set(terms), all].join(' ')
}

export const formatDkimValue = ({ publicKey, type }: DkimPublicKey): string => formatDkimRecord(publicKey, type)

/**
 * RFC 9989 §4.7: a policy that changes nothing for the owner's other mail. Reports come to the return-path host: its MX
 * leads to us, and below the same organisational domain it needs no further record (RFC 9990 §4).
 */
export const formatDmarcValue = (dns: DomainDns): string =>
  `v=DMARC1; p=none; rua=mailto:dmarc-reports@${toReturnPathHost(dns)}`

/** Asks for reports about TLS sessions with our MX (RFC 8460 §3). */
export const buildTlsReportRecord = (dns: DomainDns): DnsRecord => ({
  type: 'TXT',
  host: `_smtp._tls.${dns.domain}`,
  value: `v=TLSRPTv1; rua=mailto:tls-reports@${toReturnPathHost(dns)}`,
  verified: false,
})

/** Returns at most one sentence: a name without a dot cannot be found in DNS, so records with it cannot be verified. */
export const findHostnameWarnings = ({ hostname }: Pick<Config, 'hostname'>): string[] =>
  hostname.includes('.')
    ? []
    : [
        `The host name "${hostname}" is not fully qualified: DNS records with it (a:${hostname}, MX ${hostname}) cannot work. Set TASSIS_HOSTNAME to a name that resolves to this host, such as mail.example.com.`,
      ]
