/**
 * @module What the result of an attempt means for the pair of provider and outgoing address: nothing, a lower rate or a
 * suspension. Pure. Never decides what happens to the recipient.
 */
import { seconds } from '#platform/units.ts'
import type { AttemptResult } from '../protocol.ts'
import { findSiteRejection } from '../site-rejection.ts'

export interface PairAction {
  readonly kind: 'slow' | 'suspend_provider' | 'suspend_source'
  /** The rule that decided. */
  readonly rule: string
  /** The reply. */
  readonly reason: string
  /** Least time of a suspension. */
  readonly durationMs: number
}

/**
 * Undefined when a result says nothing about other mail to the provider.
 * @param isProbe whether the pair is suspended: then a session that the provider ends is as good as a rejection, or
 *   probes would use up the queue
 */
export function findPairAction(result: AttemptResult, isProbe: boolean): PairAction | undefined {
  if (isProbe && (result.kind === 'lost' || result.kind === 'uncertain'))
    return { kind: 'suspend_provider', rule: 'session-lost', reason: result.failure.message, durationMs: 0 }
  if (result.kind !== 'refused') return undefined
  const reason = findSiteRejection(result)
  if (reason === undefined) return undefined
  return { kind: 'suspend_provider', rule: 'session-refused', reason, durationMs: seconds(30) }
}
