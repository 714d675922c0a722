/**
 * @module Decides whether a rejection means that the address itself accepts no mail, so that the address is suppressed.
 * Stricter than the bounce category: an address suppressed by mistake gets no mail at all, while a dead address that
 * is missed costs only another bounce. Pure.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { classifyReply, findDecidingReply, findStatusDetail } from './classify.ts'
import {
  hasOtherCause,
  isClearlyUnknown,
  isDisabledMailbox,
  isInconclusive,
  isLockedMailbox,
  isMicrosoftDirectoryReply,
  isUnknownDomain,
  isUnknownMailbox,
  isUnreadable,
  namesSender,
  normaliseReply,
} from './reply-words.ts'

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

/**
 * @param phase the rejected command. A rejection after RCPT also concerns the recipient, because each transaction has
 * only one.
 */
export function isPermanentlyInvalid(given: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  const reply = findDecidingReply(given)
  if (reply.code < 500 || phase === 'mail' || TEMPORARY_CODE.test(reply.text)) return false
  const category = classifyReply(reply, phase)
  if (category !== 'invalid_recipient' && category !== 'inactive_mailbox') return false
  const words = normaliseReply(reply.text)
  const detail = findStatusDetail(reply, words)
  if (detail === COMMAND_CODE) return false
  if (isMicrosoftDirectoryReply(words)) return true
  // Servers reject the sender's address at RCPT too, in the same words.
  if (namesSender(words)) return false
  if (isUnknownDomain(words) || (reply.code === 553 && detail === DOMAIN_CODE && !hasOtherCause(words))) return true
  if (isInconclusive(words) || isLockedMailbox(words)) return false
  const isAddressCode = detail !== undefined && ADDRESS_CODES.has(detail)
  if (isAddressCode && isClearlyUnknown(words)) return true
  if (hasOtherCause(words)) return false
  // 5.7.x is a policy of the receiver, unless the words leave no doubt.
  if (detail?.startsWith('7.')) return isClearlyUnknown(words) || isDisabledMailbox(words)
  const isConfirmedByWords = isUnknownMailbox(words) || isDisabledMailbox(words)
  // Servers also return 5.1.1 for full mailboxes and blocked senders, so the code is not trusted when its explanation
  // is in an unknown language.
  if (isAddressCode) return isConfirmedByWords || !isUnreadable(words)
  // Without such a code, the words must confirm that the address is invalid; 5.1.0 and 5.1.8 are often about the
  // sender.
  if (NON_MAILBOX_REPLY.test(String(reply.code))) return false
  return isConfirmedByWords || (detail === DISABLED_CODE && !ANY_LETTER.test(words))
}
