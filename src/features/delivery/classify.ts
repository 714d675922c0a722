/**
 * @module What a refusal means: bounce categories from the enhanced status code (RFC 3463, the IANA registry), else from the words that the large
 * providers use, else from the phase. Pure. When nothing fits it stays `unknown`.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'

const BOUNCE_CATEGORIES = [
  'invalid_recipient',
  'mailbox_full',
  'inactive_mailbox',
  'spam_content',
  'policy',
  'authentication',
  'reputation',
  'rate_limited',
  'message_too_large',
  'dns_failure',
  'connection_failure',
  'tls_failure',
  'protocol_error',
  'relay_denied',
  'expired',
  'unknown',
] as const
export type BounceCategory = (typeof BOUNCE_CATEGORIES)[number]

/** Words before codes where a provider uses one code for several causes; first match wins. */
const BY_TEXT: readonly (readonly [RegExp, BounceCategory])[] = [
  [/\b(?:dkim|dmarc|spf|unauthenticated|not authenticated|sender id)\b/i, 'authentication'],
  [/\b(?:blocked|block ?list|blacklist|denylist|dnsbl|rbl|spamhaus|reputation|poor rep)/i, 'reputation'],
  [/\b(?:spam|unsolicited|junk|virus|malware|phish)/i, 'spam_content'],
  [/\b(?:rate|too many|throttl|try again later|exceeded.*(?:connections|messages))/i, 'rate_limited'],
  [/\b(?:over ?quota|quota exceeded|mailbox (?:is )?full|insufficient (?:system )?storage)/i, 'mailbox_full'],
  [/\b(?:disabled|inactive|suspended|no longer (?:active|available))\b/i, 'inactive_mailbox'],
  [
    /\b(?:user unknown|unknown user|no such (?:user|recipient|mailbox)|does not exist|recipient (?:address )?rejected: user|invalid recipient|mailbox (?:unavailable|not found))/i,
    'invalid_recipient',
  ],
  [/\brelay(?:ing)? (?:access )?(?:denied|not permitted)|\bunable to relay\b/i, 'relay_denied'],
  [/\b(?:too large|size limit|exceeds.*size)/i, 'message_too_large'],
]

/** Subject and detail of the enhanced code, RFC 3463 §3. */
const BY_CODE: Readonly<Record<string, BounceCategory>> = {
  '1.1': 'invalid_recipient',
  '1.2': 'invalid_recipient',
  '1.3': 'invalid_recipient',
  '1.6': 'inactive_mailbox',
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
  '5.4': 'protocol_error',
  '6.7': 'protocol_error',
  '7.8': 'authentication',
  '7.9': 'authentication',
  '7.20': 'authentication',
  '7.23': 'authentication',
  '7.25': 'reputation',
  '7.26': 'authentication',
  '7.27': 'dns_failure',
  '7.28': 'rate_limited',
  '7.515': 'authentication',
}

/** The category of a 4xx or 5xx reply. */
export function classifyReply(reply: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body' | 'session'): BounceCategory {
  const detail = reply.enhanced?.slice(2)
  const byCode = detail === undefined ? undefined : BY_CODE[detail]
  // An address that the server says does not exist is that, whatever else its words mention.
  if (byCode === 'invalid_recipient' && phase === 'rcpt') return byCode
  const byText = BY_TEXT.find(([pattern]) => pattern.test(reply.text))?.[1]
  // 5.5.0 is "other": what outlook.com says with it of a mailbox that is not there.
  if (byCode === 'protocol_error' && byText === 'invalid_recipient') return byText
  if (byCode !== undefined) return byCode
  if (byText !== undefined) return byText
  if (detail?.startsWith('7.')) return 'policy'
  if (reply.code === 552) return 'message_too_large'
  if (reply.code === 550 && phase === 'rcpt' && detail === undefined) return 'invalid_recipient'
  if (reply.code >= 500 && reply.code <= 504) return 'protocol_error'
  return 'unknown'
}
