/**
 * @module Tells a refusal of the whole site from one of a recipient or a message, by the reply alone: after the first, the site rests. Pure. Never decides
 * what becomes of the recipient.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import type { AttemptResult } from './protocol.ts'
import { isGreylisting, normaliseReply } from './reply-words.ts'

/** Why the site accepts nothing from us for now, in words; undefined when an attempt says nothing of others. */
export function findSiteRejection(result: AttemptResult): string | undefined {
  if (result.kind === 'unreachable') return result.failure.message
  return result.kind === 'refused' && isSiteRejection(result.reply, result.phase) ? result.reply.text : undefined
}

/**
 * A 421 ends the session whatever it carries (RFC 5321 §3.8). 4.7.x is how providers throttle a sending address: 4.7.0, 4.7.28, 4.7.500, 4.7.650.
 * Greylisting uses 4.7.x as well, and refuses one sender and recipient: others may be through already, so that the site must not rest. It
 * comes as 4.7.1 at RCPT, or at DATA or the final dot from filters behind Postfix ("451 4.7.1 Service unavailable - try again later"), often without
 * naming itself; so a 4.7.1 counts only before the server knows the recipient.
 */
function isSiteRejection({ code, enhanced, text }: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body'): boolean {
  if (code === 421) return true
  if (!enhanced?.startsWith('4.7.')) return false
  if (enhanced === '4.7.1' && phase !== 'mail') return false
  return !isGreylisting(normaliseReply(text))
}
