/**
 * @module Finds the rule that a rejection matches: by its words, else by its enhanced status code (RFC 3463, the IANA
 * registry), else by its reply code. Pure. `replies.toml` has the rules.
 */

import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, isRecipientCategory } from './bounce-category.ts'
import {
  CODE_FALLBACKS,
  EXACT_RULES,
  MAILBOX_BUSY,
  type Phase,
  type ReplyFacts,
  type ReplyRule,
  RULES_BY_CODE,
  SENDER_REJECTED,
  UNRECOGNISED,
  WORD_RULES,
} from './reply-rules.ts'
import { findLivingCause, isClearlyUnknown, namesSender, normaliseReply } from './reply-words.ts'

export type { Phase } from './reply-rules.ts'

/** `#5.1.1` within the text, as qmail and Cisco appliances write it. */
const EMBEDDED_CODE = /#([45]\.\d{1,3}\.\d{1,3})(?!\d)/

/** The enhanced status code at the start of the reply, or else one within its text. */
function findStatus(reply: SmtpReply, words: string): string | undefined {
  const embedded = EMBEDDED_CODE.exec(words)?.[1]
  return reply.enhanced ?? (embedded?.startsWith(String(reply.code).charAt(0)) ? embedded : undefined)
}

/** Subject and detail of the enhanced code, such as `1.1`. */
export const findStatusDetail = (reply: SmtpReply, words: string): string | undefined =>
  findStatus(reply, words)?.slice(2)

/**
 * The rule of a 4xx or 5xx reply.
 * @param provider name in providers.toml; undefined when the server belongs to none, and in reports
 */
export function findRule(reply: SmtpReply, phase: Phase, provider?: string): ReplyRule {
  const words = normaliseReply(reply.text)
  const rule = findCause({ code: reply.code, status: findStatus(reply, words), words, phase, provider })
  if (!isRecipientCategory(rule.category)) return rule
  const isRecipientNamed = phase !== 'mail' && phase !== 'session'
  if (isRecipientNamed && !(namesSender(words) && rule.category !== 'mailbox_full')) return rule
  return reply.code >= 500 ? SENDER_REJECTED : MAILBOX_BUSY
}

/** The category of a 4xx or 5xx reply. */
export const classifyReply = (reply: SmtpReply, phase: Phase): BounceCategory => findRule(reply, phase).category

function findCause(facts: ReplyFacts): ReplyRule {
  const { code, status, words } = facts
  const exact = EXACT_RULES.find((rule) => rule.matches(facts))
  if (exact) return exact
  const byCode = status === undefined ? undefined : RULES_BY_CODE.get(status.slice(2))
  if (byCode?.isDecisive) {
    const living = findLivingCause(words)
    return living?.category === 'rate_limited' ? living : byCode
  }
  // With such a code, an explicit "does not exist" decides, unless the words show that the address is live.
  if (byCode?.category === 'invalid_recipient' && isClearlyUnknown(words)) return findLivingCause(words) ?? byCode
  const byWords = WORD_RULES.find((rule) => rule.matches(facts))
  if (byWords?.category === 'invalid_recipient' && code < 500 && !isClearlyUnknown(words)) return MAILBOX_BUSY
  if (byWords) return byWords
  if (byCode && byCode.category !== 'unknown') return byCode
  if (code >= 500 && namesSender(words)) return SENDER_REJECTED
  const fallback = CODE_FALLBACKS.find((rule) => rule.matches(facts)) ?? UNRECOGNISED
  return fallback === UNRECOGNISED && byCode ? byCode : fallback
}
