/** @module The content of a DSN (RFC 3464, RFC 6533), in standard form or not. Types only; `parse.ts` creates them. */

export interface DsnRecipient {
  /**
   * `failed`: permanently not delivered. `none`: neither failed nor delivered, because the address was only verified,
   * or because action and status contradict each other.
   */
  readonly action: 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded' | 'none'
  /** Address that the report is about, without its type; null: not stated. */
  readonly finalRecipient: string | null
  /** Address that the sender used, without its type. */
  readonly originalRecipient: string | null
  /** Enhanced status code (RFC 3463), such as `5.1.1`; null: none. */
  readonly status: string | null
  /** Reply of the rejecting server, without its type, unfolded. */
  readonly diagnostic: string | null
  /** Name of the rejecting server, without its type. */
  readonly remoteMta: string | null
}

export interface Dsn {
  /** At least one recipient; the number is limited. */
  readonly recipients: readonly DsnRecipient[]
  /**
   * Message-ID of the original message with angle brackets, as in the returned message or headers; null: not returned.
   */
  readonly originalMessageId: string | null
  /**
   * Our sender address of the original message, from the returned headers: Return-Path and the like; the length is
   * limited.
   */
  readonly originalReturnPath: string | null
}
