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
 * Categories of rejections that pass with time: of the reputation or the rate of our IP, and of TLS, which is tried again
 * some time after a handshake failed.
 */
const PASSING_CATEGORIES: ReadonlySet<BounceCategory> = new Set(['reputation', 'rate_limited', 'tls_failure'])

/** Whether rejections of this category are retried until the email expires, even permanent ones (5xx). */
export const isRetriedUntilExpiry = (category: BounceCategory): boolean => PASSING_CATEGORIES.has(category)

/**
 * `hard`: the recipient cannot receive mail. Only such bounces count toward the pause of an account. A full mailbox is
 * emptied some day, and categories of the sender or the message say nothing about the address, so they are `soft`.
 */
export const toBounceType = (category: BounceCategory): 'hard' | 'soft' =>
  isRecipientCategory(category) && category !== 'mailbox_full' ? 'hard' : 'soft'
