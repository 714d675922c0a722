/**
 * @module Decides what a rejection means: finds the rule that it matches, by its words, else by its enhanced status
 * code (RFC 3463, the IANA registry), else by its reply code; then category and action. Pure. `replies.toml` has
 * the rules.
 */

import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type AttemptResult, type BounceCategory, isRecipientCategory, isRetriedUntilExpiry } from '../protocol.ts'
import * as rules from './reply-rules.ts'

const STATUS = /(?<![\d.])[45]\.[0-7]\.\d{1,3}(?![\d.]*\d)/g

/** The last one of the reply's class: a server quotes what decided last. That of a report is not in its text. */
function findStatus({ code, enhanced }: SmtpReply, words: string): string | undefined {
  const statuses = (words.match(STATUS) ?? []).filter((status) => status.startsWith(String(code).charAt(0)))
  return enhanced === undefined || statuses.includes(enhanced) ? statuses.at(-1) : enhanced
}

/** A reply that begins with another, as in `550 554 5.7.1 No`: then the quoted code decides. */
const QUOTED_CODE = /^5\d\d[ -](?:5\.\d{1,3}\.\d{1,3} )?(4[25]\d|5[0157]\d)[ -](?:[45]\.|\D)/

/** The reply that decides: the one that a 5xx quotes, if there is one. */
function findDecidingReply(reply: SmtpReply): SmtpReply {
  const quoted = QUOTED_CODE.exec(reply.text)?.[1]
  return quoted === undefined ? reply : { ...reply, code: Number(quoted) }
}

/** The rule of a 4xx or 5xx reply. @param provider in providers.toml; undefined when there is none, and in reports */
export function findRule(given: SmtpReply, phase: rules.Phase, provider?: string): rules.ReplyRule {
  const reply = findDecidingReply(given)
  const words = rules.normaliseReply(reply.text)
  const rule = findCause({ code: reply.code, status: findStatus(reply, words), words, phase, provider })
  if (!isRecipientCategory(rule.category)) return rule
  const isRecipientNamed = phase !== 'mail' && phase !== 'session'
  if (isRecipientNamed && !(rules.namesSender(words) && rule.category !== 'mailbox_full')) return rule
  return reply.code >= 500 ? rules.SENDER_REJECTED : rules.MAILBOX_BUSY
}

export const classifyReply = (reply: SmtpReply, phase: rules.Phase): BounceCategory => findRule(reply, phase).category

function findCause(facts: rules.ReplyFacts): rules.ReplyRule {
  const { code, status, words } = facts
  const exact = rules.EXACT_RULES.find((rule) => rule.matches(facts))
  if (exact) return exact
  const byCode = status === undefined ? undefined : rules.RULES_BY_CODE.get(status.slice(2))
  if (byCode?.isDecisive) {
    const living = rules.findLivingCause(words)
    return living?.category === 'rate_limited' ? living : byCode
  }
  // With such a code, an explicit "does not exist" decides, unless the words show that the address is live.
  if (byCode?.category === 'invalid_recipient' && rules.isClearlyUnknown(words))
    return rules.findLivingCause(words) ?? byCode
  const byWords = rules.WORD_RULES.find((rule) => rule.matches(facts))
  if (byWords?.category === 'invalid_recipient' && code < 500 && !rules.isClearlyUnknown(words))
    return rules.MAILBOX_BUSY
  if (byWords) return byWords
  if (byCode && byCode.category !== 'unknown') return byCode
  if (code >= 500 && rules.namesSender(words)) return rules.SENDER_REJECTED
  const fallback = rules.CODE_FALLBACKS.find((rule) => rule.matches(facts)) ?? rules.UNRECOGNISED
  return fallback === rules.UNRECOGNISED && byCode ? byCode : fallback
}

/** Subject and detail of enhanced codes about the mailbox itself (RFC 3463 §3.2 and §3.3, RFC 7505 §4.1). */
const ADDRESS_CODES: ReadonlySet<string> = new Set(['1.1', '1.3', '1.6', '1.10'])
/** "Mailbox disabled". Servers also return it for rate limits, block lists, full mailboxes and local rules. */
const DISABLED_CODE = '2.1'
/** "Bad destination system": other servers return it when they cannot look up the domain; 553 is about its syntax. */
const DOMAIN_CODE = '1.2'
/** "Invalid command". */
const COMMAND_CODE = '5.1'
/** Replies about wrong commands or their order, hosts, sizes and authentication: none is about a mailbox. */
const NON_MAILBOX_REPLY = /^(?:50\d|52[13]|53\d)$/
const ANY_LETTER = /\p{L}/u
/** A permanent reply code with a temporary enhanced code. */
const TEMPORARY_CODE = /^5\d\d[ -]4\.\d/

/** From RCPT on, a rejection also concerns the recipient, because each transaction has only one. */
export function isPermanentlyInvalid(given: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  const reply = findDecidingReply(given)
  if (reply.code < 500 || phase === 'mail' || TEMPORARY_CODE.test(reply.text)) return false
  const category = classifyReply(reply, phase)
  if (category !== 'invalid_recipient' && category !== 'inactive_mailbox') return false
  const words = rules.normaliseReply(reply.text)
  // Subject and detail of the enhanced code, such as `1.1`.
  const detail = findStatus(reply, words)?.slice(2)
  if (detail === COMMAND_CODE) return false
  if (rules.isMicrosoftDirectoryReply(words)) return true
  // Servers reject the sender's address at RCPT too, in the same words.
  if (rules.namesSender(words)) return false
  if (rules.isUnknownDomain(words) || (reply.code === 553 && detail === DOMAIN_CODE && !rules.hasOtherCause(words)))
    return true
  if (rules.isInconclusive(words) || rules.isLockedMailbox(words)) return false
  const isAddressCode = detail !== undefined && ADDRESS_CODES.has(detail)
  if (isAddressCode && rules.isClearlyUnknown(words)) return true
  if (rules.hasOtherCause(words)) return false
  // 5.7.x is a policy of the receiver, unless the words leave no doubt.
  if (detail?.startsWith('7.')) return rules.isClearlyUnknown(words) || rules.isDisabledMailbox(words)
  const isConfirmedByWords = rules.isUnknownMailbox(words) || rules.isDisabledMailbox(words)
  // Servers also return 5.1.1 for full mailboxes and blocked senders, so the code is not trusted when its explanation
  // is in an unknown language.
  if (isAddressCode) return isConfirmedByWords || !rules.isUnreadable(words)
  // Without such a code, the words must confirm that the address is invalid; 5.1.0 and 5.1.8 are often about the
  // sender.
  if (NON_MAILBOX_REPLY.test(String(reply.code))) return false
  return isConfirmedByWords || (detail === DISABLED_CODE && !ANY_LETTER.test(words))
}

/** Why the site accepts nothing from us for now, in words; undefined when the result says nothing about other mail. */
export function findSiteRejection(result: AttemptResult): string | undefined {
  if (result.kind === 'unreachable') return result.failure.message
  return result.kind === 'refused' && isSiteRejection(result.reply, result.phase) ? result.reply.text : undefined
}

/**
 * A 421 ends the session in any phase (RFC 5321 §3.8). Providers throttle a sending address with 4.7.x: 4.7.0, 4.7.28,
 * 4.7.500, 4.7.650. Greylisting uses 4.7.x as well, but rejects one pair of sender and recipient; other pairs may pass
 * already, so greylisting must not cause a backoff. Greylisting is sent as 4.7.1 at RCPT, or at DATA or the final dot
 * by filters behind Postfix ("451 4.7.1 Service unavailable - try again later"), often without the word greylisting. So
 * a 4.7.1 counts only before the server knows the recipient.
 */
function isSiteRejection({ code, enhanced, text }: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  if (code === 421) return true
  if (!enhanced?.startsWith('4.7.')) return false
  if (enhanced === '4.7.1' && phase !== 'mail') return false
  return !rules.isGreylisting(rules.normaliseReply(text))
}

/** What follows from a 4xx or 5xx reply. @param provider in providers.toml; undefined when there is none */
export function decideReply(given: SmtpReply, phase: rules.Phase, provider: string | undefined) {
  const reply = findDecidingReply(given)
  const rule = findRule(reply, phase, provider)
  const { category, alert } = rule
  // Attempted again: after a 4xx, before MAIL, and after a 5xx that passes with time.
  const isDeferred = reply.code < 500 || phase === 'session' || isRetriedUntilExpiry(category)
  const action = chooseAction(rule, reply, phase, provider) ?? (isDeferred ? 'retry' : 'none')
  return {
    rule: rules.nameRule(rule, provider),
    category,
    isDeferred,
    action,
    // How long the pair is suspended.
    ...(action === 'suspend_provider' && rule.suspendMs !== undefined && { suspendMs: rule.suspendMs }),
    alert,
  }
}

/** The action of a rule, unless it goes too far for this reply. */
function chooseAction(
  rule: rules.ReplyRule,
  reply: SmtpReply,
  phase: rules.Phase,
  provider: string | undefined,
): rules.ReplyAction | undefined {
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
  rule: rules.ReplyRule,
  reply: SmtpReply,
  phase: rules.Phase,
  provider: string | undefined,
): 'slow' | 'suspend_provider' | undefined {
  const isOwn = provider !== undefined && rule.provider === provider
  if (!isOwn && maySpeakForCustomer(phase, provider)) return undefined
  if (rule.action === 'slow') return 'slow'
  if (phase === 'session' || (isOwn && rule.hasCodes)) return 'suspend_provider'
  const words = rules.normaliseReply(reply.text)
  if (rules.concernsOne(words) || !(isOwn || rules.namesOurHost(words))) return undefined
  return isOwn && phase !== 'mail' && reply.code >= 500 ? 'slow' : 'suspend_provider'
}

/**
 * Whether a reply may be in the words of one customer of a provider, who must not stop the mail to all others. That of an
 * unknown provider never is: only its own mail waits.
 */
const maySpeakForCustomer = (phase: rules.Phase, provider: string | undefined): boolean =>
  provider !== undefined && phase !== 'session' && phase !== 'mail'

/** Whether a reply that ends sessions, whatever its rule, is about more than one recipient, one sender or one customer. */
export const concernsAllMail = ({ text }: SmtpReply, phase: rules.Phase, provider: string | undefined): boolean =>
  phase === 'session' || !(maySpeakForCustomer(phase, provider) || rules.concernsOne(rules.normaliseReply(text)))
