/**
 * @module Whether a refusal says that the address itself takes no mail, so that nothing more should be sent to it. Stricter than its bounce
 * category: an address that is suppressed by mistake gets no mail at all, while one too few costs only another bounce. Pure.
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

/** Subject and detail of the enhanced codes that speak of this mailbox (RFC 3463 §3.2 and §3.3, RFC 7505 §4.1). */
const ADDRESS_CODES: ReadonlySet<string> = new Set(['1.1', '1.3', '1.6', '1.10'])
/** "Mailbox disabled": servers say it of rates, of block lists, of full mailboxes and of whatever they do not like. */
const DISABLED_CODE = '2.1'
/** "Invalid command". */
const COMMAND_CODE = '5.1'
/** Replies to commands that were wrong or came at a wrong time, and about hosts, sizes and authentication: none knows mailboxes. */
const NON_MAILBOX_REPLY = /^(?:50\d|52[13]|53\d)$/
const ANY_LETTER = /\p{L}/u
/** A reply that contradicts itself. */
const TEMPORARY_CODE = /^5\d\d[ -]4\.\d/

/** @param phase the command that was refused; after RCPT it concerns this recipient as well, since a transaction has only one */
export function isPermanentlyInvalid(reply: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  if (reply.code < 500 || phase === 'mail' || TEMPORARY_CODE.test(reply.text)) return false
  const category = classifyReply(reply, phase)
  if (category !== 'invalid_recipient' && category !== 'inactive_mailbox') return false
  const words = normaliseReply(reply.text)
  const detail = findStatusDetail(reply, words)
  // 5.7.x is a rule of theirs, whatever the words.
  if (detail?.startsWith('7.') || detail === COMMAND_CODE) return false
  if (isMicrosoftDirectoryReply(words)) return true
  // Servers refuse the sender's address at RCPT too, in the same words.
  if (namesSender(words) || isInconclusive(words) || isLockedMailbox(words)) return false
  const isAddressCode = detail !== undefined && ADDRESS_CODES.has(detail)
  if (isAddressCode && isClearlyUnknown(words)) return true
  if (hasOtherCause(words)) return false
  const isConfirmedByWords = isUnknownMailbox(words) || isDisabledMailbox(words)
  // A code that words of another language explain is not believed: servers give 5.1.1 to full mailboxes and blocked senders too.
  if (isAddressCode) return isConfirmedByWords || !isUnreadable(words)
  // Of other codes (5.1.0 and 5.1.8 are often the sender) and of none, the words have to say it.
  if (NON_MAILBOX_REPLY.test(String(reply.code))) return false
  return isConfirmedByWords || (detail === DISABLED_CODE && !ANY_LETTER.test(words))
}
