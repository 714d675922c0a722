/**
 * @module Decides whether a rejection means that the address itself accepts no mail, so that it is suppressed. Stricter
 * than the bounce category: an address suppressed by mistake gets no mail at all, while a missed one costs only another
 * bounce. Pure.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { classifyReply, findStatusDetail } from './classify.ts'
import {
  hasOtherCause,
  isClearlyUnknown,
  isDisabledMailbox,
  isInconclusive,
  isLockedMailbox,
  isMicrosoftDirectoryReply,
  isUnknownMailbox,
  isUnreadable,
  namesSender,
  normaliseReply,
} from './reply-words.ts'

/** Subject and detail of enhanced codes about the mailbox itself (RFC 3463 §3.2 and §3.3, RFC 7505 §4.1). */
const ADDRESS_CODES: ReadonlySet<string> = new Set(['1.1', '1.3', '1.6', '1.10'])
/** "Mailbox disabled". Servers also return it for rate limits, block lists, full mailboxes and local rules. */
const DISABLED_CODE = '2.1'
/** "Invalid command". */
const COMMAND_CODE = '5.1'
/** Replies about wrong commands or their order, hosts, sizes and authentication: none is about a mailbox. */
const NON_MAILBOX_REPLY = /^(?:50\d|52[13]|53\d)$/
const ANY_LETTER = /\p{L}/u
/** A permanent reply code with a temporary enhanced code. */
const TEMPORARY_CODE = /^5\d\d[ -]4\.\d/

/**
 * @param phase the rejected command; after RCPT the rejection also applies to this recipient, because each transaction
 * has only one
 */
export function isPermanentlyInvalid(reply: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  if (reply.code < 500 || phase === 'mail' || TEMPORARY_CODE.test(reply.text)) return false
  const category = classifyReply(reply, phase)
  if (category !== 'invalid_recipient' && category !== 'inactive_mailbox') return false
  const words = normaliseReply(reply.text)
  const detail = findStatusDetail(reply, words)
  // 5.7.x is a policy of the receiver, whatever the words.
  if (detail?.startsWith('7.') || detail === COMMAND_CODE) return false
  if (isMicrosoftDirectoryReply(words)) return true
  // Servers reject the sender's address at RCPT too, in the same words.
  if (namesSender(words) || isInconclusive(words) || isLockedMailbox(words)) return false
  const isAddressCode = detail !== undefined && ADDRESS_CODES.has(detail)
  if (isAddressCode && isClearlyUnknown(words)) return true
  if (hasOtherCause(words)) return false
  const isConfirmedByWords = isUnknownMailbox(words) || isDisabledMailbox(words)
  // The code is not trusted when its explanation is in an unknown language: servers also return 5.1.1 for full
  // mailboxes and blocked senders.
  if (isAddressCode) return isConfirmedByWords || !isUnreadable(words)
  // With another code (5.1.0 and 5.1.8 are often about the sender) or none, the words must confirm that the address is
  // invalid.
  if (NON_MAILBOX_REPLY.test(String(reply.code))) return false
  return isConfirmedByWords || (detail === DISABLED_CODE && !ANY_LETTER.test(words))
}
