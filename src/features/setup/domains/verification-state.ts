/**
 * @module Computes how a check of a domain's DNS changes its verification: flags, verification and next check. Pure.
 *
 * - A definite outcome (verified, missing, wrong) decides; `unknown`, when DNS did not respond, leaves every flag as it
 *   was.
 * - A domain becomes verified once its SPF, DKIM and return-path flags are all set. DMARC and the inbound MX do not
 *   matter for that.
 * - The three flags reflect what DNS has now. A verified domain that lacks one stays verified for 72 hours from the
 *   check that first missed it (`recordsLostAt`), whether scheduled or on request; then it is no longer verified and
 *   sends nothing. Its mail is still not captured: only a domain that was never verified is a sandbox.
 * - A scheduled check tolerates loss of the other records: such a flag is cleared only when its record was missing or
 *   wrong at 3 scheduled checks in a row that span 24 hours. A check on request stores its result immediately.
 * - The tracking host is separate: its CNAME does not affect the verification of the domain. While the host is
 *   verified, loss of the CNAME is tolerated in the same way, because without the host all links in mail sent before
 *   are broken.
 * - The Ed25519 key is separate, too: it signs only while DNS has its record, and sending does not need it.
 * - Inbound mail is enabled when the MX flag is newly set, but never disabled: without an MX no mail arrives anyway,
 *   and the owner's choice by PATCH stays.
 */
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import type { Check } from './check-result.ts'
import { type ByRecord, type CheckKey, DNS_RECORD_KEYS, type DnsRecordKey } from './dns-records.ts'

/** The results of a check; a record without a result stays as it was. */
export type CheckResults = Partial<ByRecord<Check>>

/**
 * Verified records, except those for sending, that scheduled checks find missing or wrong: since when, and at how many
 * checks in a row.
 */
export type Failing = Readonly<Partial<Record<CheckKey, { readonly since: Millis; readonly looks: number }>>>

export interface VerificationState {
  readonly verified: Readonly<Record<DnsRecordKey, boolean>>
  readonly isEd25519Verified: boolean
  readonly verifiedAt: Millis | null
  /**
   * When a check first found that a verified domain lacks a record that sending needs; null also if it was never
   * verified.
   */
  readonly recordsLostAt: Millis | null
  readonly mxVerifiedAt: Millis | null
  /** Never changed by a check. */
  readonly trackingDomain: string | null
  readonly trackingVerifiedAt: Millis | null
  readonly inboundEnabled: boolean
  readonly failing: Failing
}

/** The records without which nothing is sent under the domain's name. */
export const SENDING_RECORDS: readonly DnsRecordKey[] = ['spf', 'dkim', 'return_path']

/** Whether a domain counts as verified because the operator said so, and DNS has not been looked up since. */
export const isUnchecked = ({
  verifiedAt,
  checkedAt,
}: Pick<VerificationState, 'verifiedAt'> & { readonly checkedAt: Millis | null }): boolean =>
  verifiedAt !== null && checkedAt === null

/** How long a verified domain still sends without its records. */
export const LOSS_GRACE_MS = hours(72)

/** Until when a domain that lacks records sends, or when it stopped; null when it lacks none or was never verified. */
export const getSendsUntil = ({ recordsLostAt }: Pick<VerificationState, 'recordsLostAt'>): Millis | null =>
  recordsLostAt === null ? null : recordsLostAt + LOSS_GRACE_MS

/** The records for sending that a domain has lost since it was verified. */
export const listLostRecords = ({
  recordsLostAt,
  verified,
}: Pick<VerificationState, 'recordsLostAt' | 'verified'>): DnsRecordKey[] =>
  recordsLostAt === null ? [] : SENDING_RECORDS.filter((key) => !verified[key])

/**
 * A flag that sending does not need is cleared by scheduled checks, but only after this many checks and this much time.
 */
const FORGIVEN_CHECKS = 3
const FORGIVEN_MS = hours(24)

/** Delay of the first scheduled check after registration. */
export const FIRST_CHECK_DELAY_MS = minutes(5)

/** The state after a check at `now`. */
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
  const verified = Object.fromEntries(DNS_RECORD_KEYS.map((key) => [key, flagAfter(key)])) as Record<
    DnsRecordKey,
    boolean
  >
  return {
    verified,
    isEd25519Verified: isSetAfter('dkim_ed25519', before.isEd25519Verified, false),
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
  // If only the tracking host was checked, nothing changes, because it does not concern the verification of the domain.
  if (SENDING_RECORDS.every((key) => checks[key] === undefined)) return { verifiedAt, recordsLostAt }
  if (SENDING_RECORDS.every((key) => verified[key])) return { verifiedAt: verifiedAt ?? now, recordsLostAt: null }
  // Only a check that finds a record missing or wrong can begin the 72 hours, or end verification after them: a check
  // without a response may be our own problem.
  const isMissed = SENDING_RECORDS.some((key) => !verified[key] && checks[key] && checks[key].outcome !== 'unknown')
  if (recordsLostAt === null && (verifiedAt === null || !isMissed)) return { verifiedAt, recordsLostAt }
  // A clock that was ahead when the records were lost must not prolong the 72 hours.
  const lostAt = Math.min(recordsLostAt ?? now, now)
  const isInGrace = now < lostAt + LOSS_GRACE_MS
  // During the 72 hours the domain is verified. If its verification has ended all the same, a check under a wrong clock
  // ended it.
  const at = isInGrace ? (verifiedAt ?? now) : isMissed ? null : verifiedAt
  return { verifiedAt: at, recordsLostAt: lostAt }
}

/** Whether two states look equal in the API. */
export const isSameState = (a: VerificationState, b: VerificationState): boolean =>
  DNS_RECORD_KEYS.every((key) => a.verified[key] === b.verified[key]) &&
  a.isEd25519Verified === b.isEd25519Verified &&
  a.verifiedAt === b.verifiedAt &&
  a.recordsLostAt === b.recordsLostAt &&
  a.trackingVerifiedAt === b.trackingVerifiedAt &&
  a.inboundEnabled === b.inboundEnabled

/** Longest delay before a check without a response is repeated. */
const UNANSWERED_INTERVAL_MS = minutes(15)

const VERIFIED_INTERVAL_MS = hours(6)

/** Longest interval between checks. */
export const MAX_CHECK_INTERVAL_MS = days(1)

/**
 * Returns the delay until the next scheduled check. It is long for a verified domain. For an unverified domain, missing
 * records, an unverified tracking host or a pending rotation of the DKIM keys, the delay grows with the time since the last change, so that new and lost
 * records are noticed early.
 * @param sinceChangeMs since the domain was registered or last changed
 */
export function computeNextCheckDelay(
  state: Pick<VerificationState, 'verifiedAt' | 'recordsLostAt' | 'trackingDomain' | 'trackingVerifiedAt'> & {
    readonly nextDkim?: object | null
  },
  checks: CheckResults | undefined,
  sinceChangeMs: number,
  now: Millis,
): number {
  const whileUnverified =
    sinceChangeMs < days(1) ? minutes(5) : sinceChangeMs < days(7) ? hours(1) : MAX_CHECK_INTERVAL_MS
  const isPending = Boolean(state.nextDkim) || (state.trackingDomain !== null && state.trackingVerifiedAt === null)
  const interval =
    state.verifiedAt === null
      ? whileUnverified
      : isPending || state.recordsLostAt !== null
        ? Math.min(whileUnverified, VERIFIED_INTERVAL_MS)
        : VERIFIED_INTERVAL_MS
  const isUnanswered = [...SENDING_RECORDS, 'tracking' as const].some((key) => checks?.[key]?.outcome === 'unknown')
  const until = isUnanswered ? Math.min(interval, UNANSWERED_INTERVAL_MS) : interval
  const lastMoment = state.verifiedAt === null ? null : getSendsUntil(state)
  // Only a check ends verification, so one is scheduled for the end of the 72 hours.
  return lastMoment === null || lastMoment <= now ? until : Math.min(until, lastMoment - now)
}

/** How a check changed a domain's right to send. */
export type VerificationChange = 'verified' | 'records_lost' | 'records_restored' | 'unverified'
