/**
 * @module Decides what follows from a rejection: its rule and category, and what it means for the address, for the
 * recipient's next attempt, and for all mail from our source to the provider. Pure.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, isRetriedUntilExpiry } from '../model/bounce-category.ts'
import type { AttemptResult } from '../model/protocol.ts'
import { findDecidingReply, findRule } from './classify.ts'
import { isPermanentlyInvalid } from './permanently-invalid.ts'
import { nameRule, type Phase, type ReplyAction, type ReplyRule } from './reply-rules.ts'
import { findNamedWait } from './reply-wait.ts'
import { concernsOne, namesOurHost, normaliseReply } from './reply-words.ts'

export type { Phase, ReplyAction } from './reply-rules.ts'

export interface ReplyDecision {
  /** Id of the rule that decided. */
  readonly rule: string
  readonly category: BounceCategory
  /** Whether the recipient is attempted again: after a 4xx, before MAIL, and after a 5xx that passes with time. */
  readonly isDeferred: boolean
  readonly action: ReplyAction
  /** How long the pair is suspended; only for `suspend_provider`. */
  readonly suspendMs?: number
  /** The recipient is not attempted again before this time has passed. */
  readonly waitMs?: number
  /** Whether the operator should know. */
  readonly alert: boolean
}

/**
 * What follows from a 4xx or 5xx reply.
 * @param provider name in providers.toml; undefined when the server belongs to none
 */
export function decideReply(given: SmtpReply, phase: Phase, provider: string | undefined): ReplyDecision {
  const reply = findDecidingReply(given)
  const rule = findRule(reply, phase, provider)
  const { category, alert } = rule
  const isDeferred = reply.code < 500 || phase === 'session' || isRetriedUntilExpiry(category)
  const action = chooseAction(rule, reply, phase, provider) ?? (isDeferred ? 'retry' : 'none')
  const waitMs = isDeferred ? findNamedWait(reply.text) : undefined
  return {
    rule: nameRule(rule, provider),
    category,
    isDeferred,
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

/** The action of a rule, unless it goes too far for this reply. */
function chooseAction(
  rule: ReplyRule,
  reply: SmtpReply,
  phase: Phase,
  provider: string | undefined,
): ReplyAction | undefined {
  switch (rule.action) {
    case 'suppress':
      return phase !== 'session' && isPermanentlyInvalid(reply, phase) ? 'suppress' : undefined
    case 'suspend_provider':
    case 'slow':
      return choosePairAction(rule, reply, phase, provider)
    default:
      return undefined
  }
}

/**
 * What a reply does to all mail to its provider, at most what the rule says; undefined: nothing. The provider's own codes
 * always count. Its words in a permanent rejection may be those of a customer, so they only slow.
 */
function choosePairAction(
  rule: ReplyRule,
  reply: SmtpReply,
  phase: Phase,
  provider: string | undefined,
): 'slow' | 'suspend_provider' | undefined {
  const isOwn = provider !== undefined && rule.provider === provider
  if (!isOwn && maySpeakForCustomer(phase, provider)) return undefined
  if (rule.action === 'slow') return 'slow'
  if (phase === 'session' || (isOwn && rule.hasCodes)) return 'suspend_provider'
  const words = normaliseReply(reply.text)
  if (concernsOne(words) || !(isOwn || namesOurHost(words))) return undefined
  return isOwn && phase !== 'mail' && reply.code >= 500 ? 'slow' : 'suspend_provider'
}

/**
 * Whether a reply may be in the words of one customer of a provider, who must not stop the mail to all others. That of an
 * unknown provider never is: only its own mail waits.
 */
const maySpeakForCustomer = (phase: Phase, provider: string | undefined): boolean =>
  provider !== undefined && phase !== 'session' && phase !== 'mail'

/** Whether a reply that ends sessions, whatever its rule, is about more than one recipient, one sender or one customer. */
export const concernsAllMail = ({ text }: SmtpReply, phase: Phase, provider: string | undefined): boolean =>
  phase === 'session' || !(maySpeakForCustomer(phase, provider) || concernsOne(normaliseReply(text)))
