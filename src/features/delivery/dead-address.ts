/**
 * @module Whether a refusal says that the address itself takes no mail, so that nothing more should be sent to it. Stricter than its bounce
 * category: an address that is suppressed by mistake gets no mail at all, while one too few costs only another bounce. Pure.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { classifyReply } from './classify.ts'

/** Subject and detail of the enhanced codes that speak of this mailbox (RFC 3463 §3.2 and §3.3, RFC 7505 §4.1). */
const MAILBOX_CODES: ReadonlySet<string> = new Set(['1.1', '1.3', '1.6', '1.10', '2.1'])

/** What servers say of an unknown mailbox without such a code. */
const UNKNOWN_MAILBOX =
  /\b(?:user unknown|unknown (?:user|recipient|mailbox|address)|no such (?:user|recipient|mailbox|address|person)|(?:user|recipient|mailbox|account|address) (?:\S+ )?(?:not found|does not exist|doesn't exist|is unknown|is disabled|is inactive)|no mailbox|mailbox (?:unavailable|not found|disabled|inactive)|invalid (?:recipient|mailbox)|unrouteable address|no longer (?:active|available))/i

/** Servers refuse the sender's address at RCPT too, in the same words. */
const OF_THE_SENDER = /\b(?:sender|from address|return.?path|mail from)\b/i

/** @param phase the command that was refused; after RCPT it concerns this recipient as well, since a transaction has only one */
export function isAddressDead(reply: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  if (reply.code < 500 || phase === 'mail') return false
  const category = classifyReply(reply, phase)
  if (category !== 'invalid_recipient' && category !== 'inactive_mailbox') return false
  const detail = reply.enhanced?.slice(2)
  if (detail !== undefined && MAILBOX_CODES.has(detail)) return true
  // 5.7.x is a rule of theirs, 5.1.0 and 5.1.8 often the sender; other codes with a clear text are sloppy servers.
  if (detail?.startsWith('7.')) return false
  return UNKNOWN_MAILBOX.test(reply.text) && !OF_THE_SENDER.test(reply.text)
}
