/** @module What a feedback report says (RFC 5965, RFC 6591). Types only; `parse.ts` makes it. */

export type FeedbackType = 'abuse' | 'fraud' | 'virus' | 'not-spam' | 'other'

export interface FeedbackReport {
  readonly feedbackType: FeedbackType
  readonly userAgent: string | null
  /** Source-IP of what was reported. */
  readonly sourceIp: string | null
  /** Original-Mail-From, and Return-Path of the returned headers: addresses without brackets. */
  readonly originalMailFrom: string | null
  /** Original-Rcpt-To of the report and To, Delivered-To and such of the returned headers, in that order; null entries left out, redacted ones too. */
  readonly originalRcptTo: readonly string[]
  /** Addresses of the To and Cc headers of what was reported. */
  readonly originalTo: readonly string[]
  /** With angle brackets, as the returned message or headers have it. */
  readonly originalMessageId: string | null
  /** All that might be one of our own tokens: header values of what was reported (List-Unsubscribe, Return-Path, Message-ID…); bounded. */
  readonly originalListUnsubscribe: string | null
}
