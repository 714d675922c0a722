/**
 * @module What a refusal means: bounce categories from the enhanced status code (RFC 3463, the IANA registry), else from the words that the large
 * providers use, else from the phase. Pure. When nothing fits it stays `unknown`.
 */
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { isDisabledMailbox, isOfMicrosoftDirectory, isUnknownMailbox, wordsOf } from './reply-words.ts'

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
const BY_TEXT: readonly (readonly [Pick<RegExp, 'test'>, BounceCategory])[] = [
  [/\b(?:dkim|dmarc|spf|unauthenticated|not authenticated|sender id)\b/i, 'authentication'],
  [/\b(?:blocked|block ?list|black ?list|denylist|dnsbl|rbl|spamhaus|reputation|poor rep)/i, 'reputation'],
  [/\b(?:spam|unsolicited|junk|virus|malware|phish)/i, 'spam_content'],
  [/\b(?:rate|too many|throttl|try again later|exceeded.{0,200}(?:connections|messages))/i, 'rate_limited'],
  [
    /\b(?:over ?quota|quota exceeded|exceeded (?:\S+ )?(?:disk )?quota|mail ?box (?:is )?full|insufficient (?:system )?storage)/i,
    'mailbox_full',
  ],
  [/\b(?:disabled|inactive|suspended|no longer (?:active|available))\b/i, 'inactive_mailbox'],
  [{ test: isDisabledMailbox }, 'inactive_mailbox'],
  [
    /\b(?:user unknown|unknown user|no such (?:user|recipient|mailbox)|does not exist|recipient (?:address )?rejected: user|invalid recipient|mailbox (?:unavailable|not found))/i,
    'invalid_recipient',
  ],
  [{ test: isUnknownMailbox }, 'invalid_recipient'],
  [/\brelay(?:ing)? (?:access )?(?:denied|not permitted)|\bunable to relay\b/i, 'relay_denied'],
  [/\b(?:too large|size limit|exceeds.{0,200}size)/i, 'message_too_large'],
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

/** Causes for which servers answer with 5.2.1, "mailbox disabled", although it is none. */
const NOT_OF_THE_MAILBOX: ReadonlySet<BounceCategory> = new Set([
  'authentication',
  'reputation',
  'spam_content',
  'rate_limited',
  'mailbox_full',
])

/** `#5.1.1` within the text: qmail, and Cisco's appliances. */
const CODE_WITHIN = /#([45]\.\d{1,3}\.\d{1,3})(?!\d)/

/** Subject and detail of the enhanced code, such as `1.1`: of the one at the beginning, else of one within the text. */
export function detailOf(reply: SmtpReply, words: string): string | undefined {
  const within = CODE_WITHIN.exec(words)?.[1]
  const code = reply.enhanced ?? (within?.startsWith(String(reply.code).charAt(0)) ? within : undefined)
  return code?.slice(2)
}

/** The category of a 4xx or 5xx reply. */
export function classifyReply(reply: SmtpReply, phase: 'mail' | 'rcpt' | 'data' | 'body' | 'session'): BounceCategory {
  const words = wordsOf(reply.text)
  const detail = detailOf(reply, words)
  const byCode = detail === undefined ? undefined : BY_CODE[detail]
  // An address that the server says does not exist is that, whatever else its words mention.
  if (byCode === 'invalid_recipient' && phase === 'rcpt') return byCode
  const byText = BY_TEXT.find(([pattern]) => pattern.test(words))?.[1]
  // 5.5.0 is "other": what outlook.com says with it of a mailbox that is not there.
  if (byCode === 'protocol_error' && byText === 'invalid_recipient') return byText
  if (detail === '2.1' && byText !== undefined && NOT_OF_THE_MAILBOX.has(byText)) return byText
  if (byCode !== undefined) return byCode
  if (detail === '4.1' && isOfMicrosoftDirectory(words)) return 'invalid_recipient'
  if (byText !== undefined) return byText
  if (detail?.startsWith('7.')) return 'policy'
  if (reply.code === 552) return 'message_too_large'
  if (reply.code === 550 && phase === 'rcpt' && detail === undefined) return 'invalid_recipient'
  if (reply.code >= 500 && reply.code <= 504) return 'protocol_error'
  return 'unknown'
}
