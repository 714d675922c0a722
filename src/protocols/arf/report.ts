/** @module The content of a feedback report (RFC 5965, RFC 6591). Types only; `parse.ts` creates them. */

export type FeedbackType = 'abuse' | 'fraud' | 'virus' | 'not-spam' | 'other'

/**
 * `parse.ts` limits lengths and counts. A value that the provider left out or redacted (RFC 6590) is null or missing
 * from the list.
 */
export interface FeedbackReport {
  readonly feedbackType: FeedbackType
  readonly userAgent: string | null
  /** Name of the reporting server, without its type. */
  readonly reportingMta: string | null
  /**
   * Recipients that the provider names: Original-Rcpt-To of the report, then Delivered-To and similar fields of the
   * returned headers. To is not used, because it is the same in every recipient's copy.
   */
  readonly originalRcptTo: readonly string[]
  /** With angle brackets, as in the returned message or headers. */
  readonly originalMessageId: string | null
  /** List-Unsubscribe of the reported message. */
  readonly originalListUnsubscribe: string | null
  /**
   * Local parts in the form of our own addresses (address/verp.ts), from any field of the report or of the reported
   * message's header: providers remove Return-Path but leave the same address in Received-SPF. The MACs in these local
   * parts are not verified yet.
   */
  readonly ownLocalParts: readonly string[]
}
