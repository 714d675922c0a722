/**
 * @module Classifies a rejection into a bounce category: by its words (`reply-table`), else by its enhanced status code
 * (RFC 3463, the IANA registry), else by its reply code. Pure. Returns `unknown` when nothing matches.
 */

import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, isRecipientCategory } from './bounce-category.ts'
import {
  findCauseInWords,
  findLivingCause,
  isClearlyUnknown,
  isRejectedRecipient,
  namesSender,
  normaliseReply,
} from './reply-words.ts'

/** Subject and detail of the enhanced code: RFC 3463 §3, www.iana.org/assignments/smtp-enhanced-status-codes. */
const CATEGORY_BY_CODE: Readonly<Record<string, BounceCategory>> = {
  '1.1': 'invalid_recipient',
  '1.2': 'invalid_recipient',
  '1.3': 'invalid_recipient',
  '1.6': 'inactive_mailbox',
  '1.7': 'policy',
  '1.8': 'dns_failure',
  '1.10': 'invalid_recipient',
  '2.1': 'inactive_mailbox',
  '2.2': 'mailbox_full',
  '2.3': 'message_too_large',
  '3.1': 'mailbox_full',
  '3.4': 'message_too_large',
  '4.4': 'dns_failure',
  '4.7': 'expired',
  '5.0': 'protocol_error',
  '5.1': 'protocol_error',
  '5.2': 'protocol_error',
  '5.3': 'rate_limited',
  '5.4': 'protocol_error',
  '6.7': 'protocol_error',
  '7.10': 'tls_failure',
  // RFC 7372 §3: DKIM, SPF, several of them; reverse DNS.
  '7.20': 'authentication',
  '7.21': 'authentication',
  '7.22': 'authentication',
  '7.23': 'authentication',
  '7.25': 'reputation',
  '7.26': 'authentication',
  // RFC 7505 §4.2.
  '7.27': 'dns_failure',
  '7.28': 'rate_limited',
  // RFC 8617 §10: ARC.
  '7.29': 'authentication',
  '7.8': 'authentication',
  // Specific to Microsoft.
  '4.300': 'expired',
  '4.310': 'dns_failure',
  '4.316': 'expired',
  '7.509': 'authentication',
  '7.515': 'authentication',
}

/** Codes that decide the category even when the words of the reply suggest another. */
const DECISIVE_CODES: ReadonlySet<string> = new Set(['2.2', '3.4', '4.300', '7.25', '7.28', '7.509', '7.515'])

/** `#5.1.1` within the text, as qmail and Cisco appliances write it. */
const EMBEDDED_CODE = /#([45]\.\d{1,3}\.\d{1,3})(?!\d)/

/** Subject and detail of the enhanced code, such as `1.1`: of the one at the start, else of one within the text. */
export function findStatusDetail(reply: SmtpReply, words: string): string | undefined {
  const embedded = EMBEDDED_CODE.exec(words)?.[1]
  const code = reply.enhanced ?? (embedded?.startsWith(String(reply.code).charAt(0)) ? embedded : undefined)
  return code?.slice(2)
}

export type Phase = 'mail' | 'rcpt' | 'data' | 'body' | 'session'

/** The category of a 4xx or 5xx reply. */
export function classifyReply(reply: SmtpReply, phase: Phase): BounceCategory {
  const words = normaliseReply(reply.text)
  const category = findCause(reply, words)
  if (!isRecipientCategory(category)) return category
  if (phase !== 'mail' && phase !== 'session' && !(namesSender(words) && category !== 'mailbox_full')) return category
  return reply.code >= 500 ? 'policy' : 'unknown'
}

function findCause(reply: SmtpReply, words: string): BounceCategory {
  const detail = findStatusDetail(reply, words)
  const byCode = detail === undefined ? undefined : CATEGORY_BY_CODE[detail]
  const byWords = findCauseInWords(words)
  if (detail !== undefined && byCode !== undefined && DECISIVE_CODES.has(detail))
    return findLivingCause(words) === 'rate_limited' ? 'rate_limited' : byCode
  // An explicit "does not exist" decides, whatever else the reply mentions.
  if (byCode === 'invalid_recipient' && isClearlyUnknown(words)) return findLivingCause(words) ?? byCode
  // Exchange Online rejects addresses that are not in its directory with 4.1, although that code means that a host did
  // not answer.
  if (detail === '4.1' && isRejectedRecipient(words)) return 'invalid_recipient'
  if (byWords === 'invalid_recipient' && reply.code < 500 && !isClearlyUnknown(words)) return 'unknown'
  if (byWords !== undefined) return byWords
  if (byCode !== undefined) return byCode
  if (detail?.startsWith('7.') || (reply.code >= 500 && namesSender(words))) return 'policy'
  if (reply.code === 552) return 'message_too_large'
  if (reply.code >= 500 && reply.code <= 504) return 'protocol_error'
  return 'unknown'
}
