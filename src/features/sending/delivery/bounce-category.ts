/** @module The causes for which mail is refused, and what each means for the recipient and for a retry. Pure. */

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

/** What can be said of a recipient only: not before one was named, and not of the sender. */
const RECIPIENT_CATEGORIES: ReadonlySet<BounceCategory> = new Set([
  'invalid_recipient',
  'inactive_mailbox',
  'mailbox_full',
])

export const isRecipientCategory = (category: BounceCategory): boolean => RECIPIENT_CATEGORIES.has(category)

/** What is said of us: our IP, domain, rate, encryption, or a rule that we do not meet. Once that is mended the same message is accepted. */
const SENDER_CATEGORIES: ReadonlySet<BounceCategory> = new Set([
  'policy',
  'reputation',
  'rate_limited',
  'authentication',
  'tls_failure',
  'dns_failure',
])

/** Whether a refusal is retried until the email expires, also one that calls itself permanent. */
export const isRetriedUntilExpiry = (category: BounceCategory): boolean => SENDER_CATEGORIES.has(category)

/**
 * `hard`: the recipient cannot be delivered to. Only these count toward the pause of an account. What is said of us or of the message is `soft`: of the
 * address it tells nothing.
 */
export const toBounceType = (category: BounceCategory): 'hard' | 'soft' =>
  isRecipientCategory(category) ? 'hard' : 'soft'
