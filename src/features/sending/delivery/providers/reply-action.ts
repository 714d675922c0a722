/**
 * @module What the result of an attempt means for the pair of provider and outgoing address: nothing, a lower rate or a
 * suspension. Pure. Never decides what happens to the recipient.
 */
import { seconds } from '#platform/units.ts'
import type { AttemptResult } from '../model/protocol.ts'
import { concernsAllMail, decideReply } from '../verdict/replies.ts'
import { findSiteRejection } from '../verdict/site-rejection.ts'

export interface PairAction {
  readonly kind: 'slow' | 'suspend_provider'
  /** The rule that decided. */
  readonly rule: string
  /** The reply. */
  readonly reason: string
  /** Minimum time of a suspension. */
  readonly durationMs: number
}

/** After a reply that ends all sessions but has no rule of its own: most often the server is busy for moments. */
const MIN_SUSPENSION_MS = seconds(30)

/**
 * Undefined when a result says nothing about other mail to the provider.
 * @param provider its name in providers.toml; undefined when it has no entry
 * @param isProbe whether the pair is suspended: then a session that the provider ends is as good as a rejection, or
 *   probes would use up the queue
 */
export function findPairAction(
  result: AttemptResult,
  provider: string | undefined,
  isProbe: boolean,
): PairAction | undefined {
  switch (result.kind) {
    case 'lost':
    case 'uncertain':
      return isProbe
        ? { kind: 'suspend_provider', rule: 'connection-lost', reason: result.failure.message, durationMs: 0 }
        : undefined
    case 'unreachable':
    case 'refused': {
      if (!result.reply) return undefined
      const { text: reason } = result.reply
      const phase = result.kind === 'refused' ? result.phase : 'session'
      const { rule, category, action, suspendMs = MIN_SUSPENSION_MS } = decideReply(result.reply, phase, provider)
      if (action === 'slow' || action === 'suspend_provider')
        return { kind: action, rule, reason, durationMs: suspendMs }
      // If no host of a site accepts a session, the site backs off instead. A bad reputation is not that of our address.
      const endsSessions =
        result.kind === 'refused' &&
        category !== 'reputation' &&
        findSiteRejection(result) !== undefined &&
        concernsAllMail(result.reply, phase, provider)
      return endsSessions ? { kind: 'suspend_provider', rule, reason, durationMs: MIN_SUSPENSION_MS } : undefined
    }
    default:
      return undefined
  }
}
