/**
 * @module Decides what follows from a rejection: its rule and category, and what it means for the address, for the
 * recipient's next attempt, and for all mail from our source to the provider. Pure.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, isRetriedUntilExpiry } from './bounce-category.ts'
import { findRule } from './classify.ts'
import { isPermanentlyInvalid } from './permanently-invalid.ts'
import type { AttemptResult } from './protocol.ts'
import type { Phase, ReplyAction, ReplyRule } from './reply-rules.ts'
import { findNamedWait } from './reply-wait.ts'

export type { Phase, ReplyAction } from './reply-rules.ts'

export interface ReplyDecision {
  /** Id of the rule that decided. */
  readonly rule: string
  readonly category: BounceCategory
  readonly action: ReplyAction
  /** How long the pair is suspended; only for `suspend_provider`. */
  readonly suspendMs?: number
  /** The recipient is not attempted again before this time has passed. */
  readonly waitMs?: number
  /** Whether the operator should know. */
  readonly alert: boolean
}

/** Whether the recipient of a rejection is attempted again: 4xx, or a 5xx about us, which may be corrected. */
export const isDeferral = (reply: SmtpReply, category: BounceCategory): boolean =>
  reply.code < 500 || isRetriedUntilExpiry(category)

/**
 * What follows from a 4xx or 5xx reply.
 * @param provider name in providers.toml; undefined when the server belongs to none
 */
export function decideReply(reply: SmtpReply, phase: Phase, provider: string | undefined): ReplyDecision {
  const rule = findRule(reply, phase, provider)
  const { id, category, alert } = rule
  const isDeferred = isDeferral(reply, category)
  const action = chooseAction(rule, reply, phase, provider, isDeferred)
  const waitMs = isDeferred ? findNamedWait(reply.text) : undefined
  return {
    rule: id,
    category,
    action,
    ...(action === 'suspend_provider' && rule.suspendMs !== undefined && { suspendMs: rule.suspendMs }),
    ...(waitMs !== undefined && { waitMs }),
    alert,
  }
}

/**
 * What follows from an attempt that ended with a rejection, also with one in the greeting or after EHLO; undefined when
 * no reply ended it.
 */
export function decideResult(result: AttemptResult, provider: string | undefined): ReplyDecision | undefined {
  if (result.kind === 'refused') return decideReply(result.reply, result.phase, provider)
  return result.kind === 'unreachable' && result.reply && !result.tlsDemanded
    ? decideReply(result.reply, 'session', provider)
    : undefined
}

function chooseAction(
  rule: ReplyRule,
  reply: SmtpReply,
  phase: Phase,
  provider: string | undefined,
  isDeferred: boolean,
): ReplyAction {
  const general = isDeferred ? 'retry' : 'none'
  switch (rule.action) {
    case 'suppress':
      return phase !== 'session' && isPermanentlyInvalid(reply, phase) ? 'suppress' : general
    case 'suspend_provider':
      return maySuspend(rule, reply, phase, provider) ? rule.action : 'slow'
    case 'slow':
      return 'slow'
    default:
      return general
  }
}

/**
 * Whether a reply may stop all mail to a provider. From RCPT on, a permanent rejection may be in the words of one of
 * its customers, who must not stop the mail to all others; only the provider's own codes and temporary rejections
 * count. The server of an unknown provider may always: only its own mail waits.
 */
function maySuspend(rule: ReplyRule, reply: SmtpReply, phase: Phase, provider: string | undefined): boolean {
  if (provider === undefined || phase === 'session' || phase === 'mail') return true
  return rule.provider === provider && (rule.hasCodes || reply.code < 500)
}
