/**
 * @module Decides from the result of an attempt alone whether a site rejected our whole connection, or only a recipient
 * or message. Only the first makes us back off from the site. Pure. Never decides what happens to the recipient.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import type { AttemptResult } from '../model/protocol.ts'
import { isGreylisting, normaliseReply } from './reply-words.ts'

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
  return !isGreylisting(normaliseReply(text))
}
