/**
 * @module MTA-STS policies (RFC 8461 §3): their record in DNS, their text, and which mail hosts they allow. mailauth
 * parses them. Never fetches or caches a policy.
 */
import { parsePolicy, resolvePolicy, validateMx } from 'mailauth/lib/mta-sts'
import { createMailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'

export interface StsPolicy {
  readonly mode: 'enforce' | 'testing' | 'none'
  /** Names of the allowed mail hosts; `*.` at the start stands for one label. */
  readonly mx: readonly string[]
  /** For how long the policy may be used without another look. */
  readonly maxAgeSeconds: number
}

/** RFC 8461 §3.3 suggests this limit for the text of a policy. */
export const MAX_POLICY_BYTES = 65_536
/** Largest domains have a few mail hosts; the limits bound what is stored, and kept in memory, for each domain. */
const MAX_MX_PATTERNS = 50
const MAX_MX_LENGTH = 2048

/**
 * Looks up the id of a domain's current policy (RFC 8461 §3.1). `none`: the domain publishes no valid record.
 * `unknown`: DNS gave no answer.
 */
export async function lookUpPolicyId(resolver: Resolver, domain: string): Promise<{ id: string } | 'none' | 'unknown'> {
  try {
    const id = await resolvePolicy(domain, { resolver: createMailauthResolver(resolver), strict: true })
    return id === false ? 'none' : { id }
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'multi_sts_records' ? 'none' : 'unknown'
  }
}

/** Parses the text of a policy; undefined when it is not valid. Lenient about letter case, as most senders are. */
export function parseStsPolicy(text: string): StsPolicy | undefined {
  try {
    const { mode, mx = [], maxAge = 0 } = parsePolicy(text)
    const isAllowed = mx.length <= MAX_MX_PATTERNS && mx.join('').length <= MAX_MX_LENGTH
    return isAllowed ? { mode: mode as StsPolicy['mode'], mx, maxAgeSeconds: Math.floor(maxAge) } : undefined
  } catch {
    return undefined
  }
}

/** Whether a policy allows a mail host. A policy of mode `none` allows every host. */
export const allowsMailHost = ({ mode, mx }: StsPolicy, host: string): boolean =>
  validateMx(host, { mode, mx: [...mx] }).valid
