/** @module Bounce categories, and what each means for the recipient and for retries. Pure. */

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

/** Categories that describe the recipient; they can occur only after RCPT. */
const RECIPIENT_CATEGORIES: ReadonlySet<BounceCategory> = new Set([
  'invalid_recipient',
  'inactive_mailbox',
  'mailbox_full',
])

export const isRecipientCategory = (category: BounceCategory): boolean => RECIPIENT_CATEGORIES.has(category)

/**
 * Categories that describe the sending side: our IP, domain, rate, encryption, or a rule that we break. Once that is
 * fixed, the same message is accepted.
 */
const SENDER_CATEGORIES: ReadonlySet<BounceCategory> = new Set([
  'policy',
  'reputation',
  'rate_limited',
  'authentication',
  'tls_failure',
  'dns_failure',
])

/** Whether rejections of this category are retried until the email expires, even permanent ones (5xx). */
export const isRetriedUntilExpiry = (category: BounceCategory): boolean => SENDER_CATEGORIES.has(category)

/**
 * `hard`: the recipient cannot receive mail; only these count toward the pause of an account. Categories of the sender
 * or the message are `soft`, because they say nothing about the address.
 */
export const toBounceType = (category: BounceCategory): 'hard' | 'soft' =>
  isRecipientCategory(category) ? 'hard' : 'soft'
