/** @module The TLS policy of a domain as TLS reports state it (RFC 8460 §4.4). Pure. */
import type { TlsaRecord } from '#protocols/smtp/dane.ts'
import { allowsMailHost, type StsPolicy } from '#protocols/smtp/mta-sts.ts'
import type { TlsFailureType } from '#protocols/smtp/tls-failures.ts'
import type { StsFinding } from './mta-sts.ts'
import type { TlsResult } from './tls-result.ts'

/** What a domain and its hosts had published when a route was chosen. */
export interface DomainPolicy {
  readonly domain: string
  readonly sts: StsPolicy | undefined
  readonly stsFailure: TlsFailureType | undefined
  /** TLSA records by host; only of hosts that have some. */
  readonly tlsa: ReadonlyMap<string, readonly TlsaRecord[]>
}

/** RFC 8460 §4.4: the `policy` object of a report. */
export interface ReportedPolicy {
  readonly 'policy-type': 'tlsa' | 'sts' | 'no-policy-found'
  readonly 'policy-string'?: readonly string[]
  readonly 'policy-domain': string
  readonly 'mx-host'?: readonly string[]
}

export const describeDomainPolicy = (
  domain: string,
  sts: StsFinding,
  tlsa: ReadonlyMap<string, readonly TlsaRecord[]>,
): DomainPolicy => ({
  domain,
  sts: sts.policy,
  stsFailure: sts.failure,
  tlsa: new Map([...tlsa].filter(([, records]) => records.length > 0)),
})

/** The policy that applied to a session. The domain of a TLSA policy is the name of the host (RFC 8460 §4.4). */
export function toReportedPolicy({ domain, sts, stsFailure, tlsa }: DomainPolicy, host: string): ReportedPolicy {
  const records = tlsa.get(host)
  if (records)
    return {
      'policy-type': 'tlsa',
      'policy-string': records.map(
        ({ usage, selector, matchingType, data }) => `${usage} ${selector} ${matchingType} ${data}`,
      ),
      'policy-domain': host,
    }
  if (sts)
    return {
      'policy-type': 'sts',
      'policy-string': [
        'version: STSv1',
        `mode: ${sts.mode}`,
        ...sts.mx.map((mx) => `mx: ${mx}`),
        `max_age: ${sts.maxAgeSeconds}`,
      ],
      'policy-domain': domain,
      'mx-host': sts.mx,
    }
  return { 'policy-type': stsFailure ? 'sts' : 'no-policy-found', 'policy-domain': domain }
}

/**
 * The failure of a session as a report counts it; undefined when the session was as the policy wants it. Without a
 * policy, any encrypted session is; a policy of mode `testing` counts what `enforce` would refuse.
 */
export function findReportedFailure(policy: DomainPolicy, result: TlsResult): TlsFailureType | undefined {
  if (policy.tlsa.has(result.host)) return result.failure
  if (!policy.sts)
    return policy.stsFailure ?? (result.version === undefined ? (result.failure ?? 'validation-failure') : undefined)
  if (!allowsMailHost(policy.sts, result.host)) return 'validation-failure'
  return result.verified ? undefined : (result.failure ?? 'validation-failure')
}
