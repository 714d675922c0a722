/** @module What a feedback report says (RFC 5965, RFC 6591). Types only; `parse.ts` makes it. */

export type FeedbackType = 'abuse' | 'fraud' | 'virus' | 'not-spam' | 'other'

/** What is bounded is so by `parse.ts`; what the provider left out or redacted (RFC 6590) is null or not in the list. */
export interface FeedbackReport {
  readonly feedbackType: FeedbackType
  readonly userAgent: string | null
  /** Name of the server that reports, without its type. */
  readonly reportingMta: string | null
  /** Source-IP of what was reported. */
  readonly sourceIp: string | null
  /** Original-Mail-From, else Return-Path of the returned headers: an address without brackets. */
  readonly originalMailFrom: string | null
  /**
   * Whom the provider names as the recipient: Original-Rcpt-To of the report, then Delivered-To and such of the returned headers. Not To, which is the
   * same in the copies of all recipients.
   */
  readonly originalRcptTo: readonly string[]
  /** Addresses of the To and Cc headers of what was reported. */
  readonly originalTo: readonly string[]
  /** With angle brackets, as the returned message or headers have it. */
  readonly originalMessageId: string | null
  /** List-Unsubscribe of what was reported. */
  readonly originalListUnsubscribe: string | null
  /**
   * Local parts that have the form of addresses of ours (address/verp.ts), from whichever header field of what was reported: providers remove Return-Path
   * and leave the same address in Received-SPF. Whether we made them their MAC has to say.
   */
  readonly ownLocalParts: readonly string[]
}
