/**
 * @module Finds the rule that a rejection matches: by its words, else by its enhanced status code (RFC 3463, the IANA
 * registry), else by its reply code. Pure. `replies.toml` has the rules.
 */

import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, isRecipientCategory } from '../model/bounce-category.ts'
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

const STATUS = /(?<![\d.])[45]\.[0-7]\.\d{1,3}(?![\d.]*\d)/g

/**
 * The last enhanced status code of the class of the reply, because a server quotes what decided last; but that of a
 * report, which is not in its text.
 */
function findStatus({ code, enhanced }: SmtpReply, words: string): string | undefined {
  const statuses = (words.match(STATUS) ?? []).filter((status) => status.startsWith(String(code).charAt(0)))
  return enhanced === undefined || statuses.includes(enhanced) ? statuses.at(-1) : enhanced
}

/** A reply that begins with another, as in `550 554 5.7.1 No`: then the quoted code decides. */
const QUOTED_CODE = /^5\d\d[ -](?:5\.\d{1,3}\.\d{1,3} )?(4[25]\d|5[0157]\d)[ -](?:[45]\.|\D)/

/** The reply that decides: the one that a 5xx quotes, if there is one. */
export function findDecidingReply(reply: SmtpReply): SmtpReply {
  const quoted = QUOTED_CODE.exec(reply.text)?.[1]
  return quoted === undefined ? reply : { ...reply, code: Number(quoted) }
}

/** Subject and detail of the enhanced code, such as `1.1`. */
export const findStatusDetail = (reply: SmtpReply, words: string): string | undefined =>
  findStatus(reply, words)?.slice(2)

/**
 * The rule of a 4xx or 5xx reply.
 * @param provider name in providers.toml; undefined when the server belongs to none, and in reports
 */
export function findRule(given: SmtpReply, phase: Phase, provider?: string): ReplyRule {
  const reply = findDecidingReply(given)
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
