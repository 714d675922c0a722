/**
 * @module What a look at a domain's DNS does to its standing: flags, verification, next look. Pure: asks and stores nothing.
 *
 * - A definite answer (found, missing, wrong) decides; `unknown`, DNS not answering, leaves every flag as it was.
 * - A domain is verified exactly while its SPF, DKIM and return-path flags are all set. DMARC and the inbound MX count for nothing there.
 * - A look on request stores what it finds at once, also to the domain's harm: what was asked for, what is answered and what is stored are one.
 * - A scheduled look at a verified domain is forgiving, since losing verification sends mail to the sandbox and nobody is watching: a flag falls
 *   only when its record was found missing or wrong at 3 scheduled looks in a row that lie 24 hours apart. Until then the flag stands.
 * - Inbound is switched on when the MX flag is newly set, never off: an MX that is gone brings no mail, and the owner's word by PATCH stays.
 */
import type { Millis } from '#platform/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import type { DomainChecks } from './checks.ts'
import { DNS_RECORD_KEYS, type DnsRecordKey } from './dns-records.ts'

/** Records of a verified domain that scheduled looks find missing or wrong: since when, and at how many looks in a row. */
export type Failing = Readonly<Partial<Record<DnsRecordKey, { readonly since: Millis; readonly looks: number }>>>

export interface Standing {
  readonly verified: Readonly<Record<DnsRecordKey, boolean>>
  readonly verifiedAt: Millis | null
  readonly mxVerifiedAt: Millis | null
  readonly inboundEnabled: boolean
  readonly failing: Failing
}

/** The records without which nothing is sent under the domain's name. */
export const SENDING_RECORDS: readonly DnsRecordKey[] = ['spf', 'dkim', 'return_path']

/** A record of a verified domain is given up only after both. */
const FORGIVEN_LOOKS = 3
const FORGIVEN_MS = hours(24)

/** The first look that nobody asked for, after registration. */
export const FIRST_CHECK_MS = minutes(5)

/** The standing after a look at `now`. */
export function standingAfter(
  before: Standing,
  checks: DomainChecks,
  look: { readonly by: 'request' | 'schedule'; readonly now: Millis },
): Standing {
  const forgives = look.by === 'schedule' && before.verifiedAt !== null
  const failing: Partial<Record<DnsRecordKey, { since: Millis; looks: number }>> = {}
  const flagAfter = (key: DnsRecordKey): boolean => {
    const was = before.verified[key]
    const earlier = before.failing[key]
    const { outcome } = checks[key]
    if (outcome === 'verified') return true
    if (outcome === 'unknown') {
      if (earlier) failing[key] = earlier
      return was
    }
    if (!was || !forgives) return false
    const now = { since: earlier?.since ?? look.now, looks: (earlier?.looks ?? 0) + 1 }
    if (now.looks >= FORGIVEN_LOOKS && look.now - now.since >= FORGIVEN_MS) return false
    failing[key] = now
    return true
  }
  const verified: Record<DnsRecordKey, boolean> = {
    spf: flagAfter('spf'),
    dkim: flagAfter('dkim'),
    dmarc: flagAfter('dmarc'),
    return_path: flagAfter('return_path'),
    mx: flagAfter('mx'),
  }
  return {
    verified,
    verifiedAt: SENDING_RECORDS.every((key) => verified[key]) ? (before.verifiedAt ?? look.now) : null,
    mxVerifiedAt: verified.mx ? (before.mxVerifiedAt ?? look.now) : null,
    inboundEnabled: before.inboundEnabled || (verified.mx && !before.verified.mx),
    failing,
  }
}

/** Whether the API shows a difference. */
export const isSameStanding = (a: Standing, b: Standing): boolean =>
  DNS_RECORD_KEYS.every((key) => a.verified[key] === b.verified[key]) &&
  a.verifiedAt === b.verifiedAt &&
  a.inboundEnabled === b.inboundEnabled

/** A look that got no answer is repeated at least this soon. */
const UNANSWERED_MS = minutes(15)

/**
 * How long until the next scheduled look: seldom at a verified domain; at an unverified one the more often the fresher its last change is, so that
 * records are seen soon after registration and soon after they were lost.
 * @param sinceChangeMs since the domain was registered or last changed
 */
export function untilNextLook(
  standing: Pick<Standing, 'verifiedAt'>,
  checks: DomainChecks | undefined,
  sinceChangeMs: number,
): number {
  const interval =
    standing.verifiedAt !== null
      ? hours(6)
      : sinceChangeMs < days(1)
        ? minutes(5)
        : sinceChangeMs < days(7)
          ? hours(1)
          : days(1)
  const isUnanswered = checks !== undefined && SENDING_RECORDS.some((key) => checks[key].outcome === 'unknown')
  return isUnanswered ? Math.min(interval, UNANSWERED_MS) : interval
}
