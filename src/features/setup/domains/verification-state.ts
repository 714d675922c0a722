/**
 * @module What a look at a domain's DNS does to its standing: flags, verification, next look. Pure: asks and stores nothing.
 *
 * - A definite answer (found, missing, wrong) decides; `unknown`, DNS not answering, leaves every flag as it was.
 * - A domain becomes verified once its SPF, DKIM and return-path flags are all set. DMARC and the inbound MX count
 *   for nothing there.
 * - The three flags say what is in DNS now. A verified domain that lacks one stays verified for 72 hours from the look
 *   that first missed it (`recordsLostAt`), whoever asked for that look; then it is not verified and sends nothing.
 *   It is never a sandbox again: that is for domains that never were verified, so that live mail is never captured.
 * - A scheduled look is forgiving of the other records: such a flag falls only when its record was found missing or
 *   wrong at 3 scheduled looks in a row that lie 24 hours apart. Until then the flag stands. A look on request stores
 *   what it finds at once.
 * - The tracking host is told apart: its CNAME counts for nothing in the verification of the domain. It is forgiven in the same way while it is
 *   verified, since links in mail that goes out without it are dead.
 * - Inbound is switched on when the MX flag is newly set, never off: an MX that is gone brings no mail, and the owner's word by PATCH stays.
 */
import type { Millis } from '#platform/clock.ts'
import { days, hours, minutes } from '#platform/units.ts'
import type { Check } from './check-result.ts'
import { DNS_RECORD_KEYS, type DnsRecordKey } from './dns-records.ts'

/** What is looked at: the records of the domain, and the CNAME of its tracking host. */
export type CheckKey = DnsRecordKey | 'tracking'

/** What a look has found; a record that it left out is as it was. */
export type CheckResults = Readonly<Partial<Record<CheckKey, Check>>>

/**
 * Verified records beside those of sending that scheduled looks find missing or wrong: since when, and at how many
 * looks in a row.
 */
export type Failing = Readonly<Partial<Record<CheckKey, { readonly since: Millis; readonly looks: number }>>>

export interface VerificationState {
  readonly verified: Readonly<Record<DnsRecordKey, boolean>>
  readonly verifiedAt: Millis | null
  /**
   * Since when a domain that was verified lacks a record that sending needs; null also for one that never was verified.
   */
  readonly recordsLostAt: Millis | null
  readonly mxVerifiedAt: Millis | null
  /** No look changes it. */
  readonly trackingDomain: string | null
  readonly trackingVerifiedAt: Millis | null
  readonly inboundEnabled: boolean
  readonly failing: Failing
}

/** The records without which nothing is sent under the domain's name. */
export const SENDING_RECORDS: readonly DnsRecordKey[] = ['spf', 'dkim', 'return_path']

/** How long a verified domain goes on sending while it lacks records. */
export const LOSS_GRACE_MS = hours(72)

/** Until when a domain sends that lacks records, or sent; null while it lacks none, or never was verified. */
export const getSendsUntil = ({ recordsLostAt }: Pick<VerificationState, 'recordsLostAt'>): Millis | null =>
  recordsLostAt === null ? null : recordsLostAt + LOSS_GRACE_MS

/** The records of sending that a domain that was verified lacks now. */
export const listLostRecords = ({
  recordsLostAt,
  verified,
}: Pick<VerificationState, 'recordsLostAt' | 'verified'>): DnsRecordKey[] =>
  recordsLostAt === null ? [] : SENDING_RECORDS.filter((key) => !verified[key])

/** A verified record that sending does not need is given up only after both. */
const FORGIVEN_CHECKS = 3
const FORGIVEN_MS = hours(24)

/** The first look that nobody asked for, after registration. */
export const FIRST_CHECK_DELAY_MS = minutes(5)

/** The standing after a look at `now`. */
export function applyChecks(
  before: VerificationState,
  checks: CheckResults,
  trigger: { readonly by: 'request' | 'schedule'; readonly now: Millis },
): VerificationState {
  const failing: Partial<Record<CheckKey, { since: Millis; looks: number }>> = {}
  const isSetAfter = (key: CheckKey, was: boolean, isForgiven: boolean): boolean => {
    const earlier = before.failing[key]
    const outcome = checks[key]?.outcome ?? 'unknown'
    if (outcome === 'verified') return true
    if (outcome === 'unknown') {
      if (earlier) failing[key] = earlier
      return was
    }
    if (!was || !isForgiven || trigger.by !== 'schedule') return false
    const now = { since: earlier?.since ?? trigger.now, looks: (earlier?.looks ?? 0) + 1 }
    if (now.looks >= FORGIVEN_CHECKS && trigger.now - now.since >= FORGIVEN_MS) return false
    failing[key] = now
    return true
  }
  const flagAfter = (key: DnsRecordKey): boolean =>
    isSetAfter(key, before.verified[key], before.verifiedAt !== null && !SENDING_RECORDS.includes(key))
  const isTracking = before.trackingDomain !== null && isSetAfter('tracking', before.trackingVerifiedAt !== null, true)
  const verified: Record<DnsRecordKey, boolean> = {
    spf: flagAfter('spf'),
    dkim: flagAfter('dkim'),
    dmarc: flagAfter('dmarc'),
    return_path: flagAfter('return_path'),
    mx: flagAfter('mx'),
  }
  return {
    verified,
    ...computeVerification(before, checks, verified, trigger.now),
    mxVerifiedAt: verified.mx ? (before.mxVerifiedAt ?? trigger.now) : null,
    trackingDomain: before.trackingDomain,
    trackingVerifiedAt: isTracking ? (before.trackingVerifiedAt ?? trigger.now) : null,
    inboundEnabled: before.inboundEnabled || (verified.mx && !before.verified.mx),
    failing,
  }
}

function computeVerification(
  before: VerificationState,
  checks: CheckResults,
  verified: VerificationState['verified'],
  now: Millis,
): Pick<VerificationState, 'verifiedAt' | 'recordsLostAt'> {
  const { verifiedAt, recordsLostAt } = before
  // A look at the tracking host alone says nothing about the domain.
  if (SENDING_RECORDS.every((key) => checks[key] === undefined)) return { verifiedAt, recordsLostAt }
  if (SENDING_RECORDS.every((key) => verified[key])) return { verifiedAt: verifiedAt ?? now, recordsLostAt: null }
  // Only a look that misses a record begins or ends the 72 hours: one that got no answer may be our own trouble.
  const isMissed = SENDING_RECORDS.some((key) => !verified[key] && checks[key] && checks[key].outcome !== 'unknown')
  if (recordsLostAt === null && (verifiedAt === null || !isMissed)) return { verifiedAt, recordsLostAt }
  // A clock that was ahead when they were lost must not prolong it.
  const lostAt = Math.min(recordsLostAt ?? now, now)
  const isInGrace = now < lostAt + LOSS_GRACE_MS
  // In its 72 hours again: a look by a wrong clock had ended them.
  const at = isInGrace ? (verifiedAt ?? now) : isMissed ? null : verifiedAt
  return { verifiedAt: at, recordsLostAt: lostAt }
}

/** Whether the API shows a difference. */
export const isSameState = (a: VerificationState, b: VerificationState): boolean =>
  DNS_RECORD_KEYS.every((key) => a.verified[key] === b.verified[key]) &&
  a.verifiedAt === b.verifiedAt &&
  a.recordsLostAt === b.recordsLostAt &&
  a.trackingVerifiedAt === b.trackingVerifiedAt &&
  a.inboundEnabled === b.inboundEnabled

/** A look that got no answer is repeated at least this soon. */
const UNANSWERED_INTERVAL_MS = minutes(15)

const VERIFIED_INTERVAL_MS = hours(6)

/** No look is put off for longer. */
export const MAX_CHECK_INTERVAL_MS = days(1)

/**
 * How long until the next scheduled look: seldom at a verified domain; at an unverified one, one that lacks records or
 * one with an unverified tracking host, the more often the fresher its last change is, so that records are seen soon
 * after they were asked for and soon after they were lost.
 * @param sinceChangeMs since the domain was registered or last changed
 */
export function computeNextCheckDelay(
  state: Pick<VerificationState, 'verifiedAt' | 'recordsLostAt' | 'trackingDomain' | 'trackingVerifiedAt'>,
  checks: CheckResults | undefined,
  sinceChangeMs: number,
  now: Millis,
): number {
  const whileUnverified =
    sinceChangeMs < days(1) ? minutes(5) : sinceChangeMs < days(7) ? hours(1) : MAX_CHECK_INTERVAL_MS
  const isTrackingPending = state.trackingDomain !== null && state.trackingVerifiedAt === null
  const interval =
    state.verifiedAt === null
      ? whileUnverified
      : isTrackingPending || state.recordsLostAt !== null
        ? Math.min(whileUnverified, VERIFIED_INTERVAL_MS)
        : VERIFIED_INTERVAL_MS
  const isUnanswered = [...SENDING_RECORDS, 'tracking' as const].some((key) => checks?.[key]?.outcome === 'unknown')
  const until = isUnanswered ? Math.min(interval, UNANSWERED_INTERVAL_MS) : interval
  const lastMoment = state.verifiedAt === null ? null : getSendsUntil(state)
  // A look at the end of the 72 hours is the one that ends them.
  return lastMoment === null || lastMoment <= now ? until : Math.min(until, lastMoment - now)
}

/** What a look changed of a domain's right to send. */
export type VerificationChange = 'verified' | 'records_lost' | 'records_restored' | 'unverified'
