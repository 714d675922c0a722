/** @module What a delivery report says (RFC 3464, RFC 6533), also one that is not in that form. Types only; `parse.ts` makes it. */

export interface DsnRecipient {
  /**
   * `failed`: it was not and will not be delivered. `none`: it says neither that it failed nor that it arrived; the address was only verified, or action and
   * status contradict each other.
   */
  readonly action: 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded' | 'none'
  /** Address that the report is about, without its type; null: it does not say. */
  readonly finalRecipient: string | null
  /** Address that the sender gave, without its type. */
  readonly originalRecipient: string | null
  /** Enhanced status code (RFC 3463): `5.1.1`; null: none. */
  readonly status: string | null
  /** What the refusing server said, without its type, unfolded. */
  readonly diagnostic: string | null
  /** Name of the server that refused, without its type. */
  readonly remoteMta: string | null
}

export interface Dsn {
  /** `standard`: RFC 3464; `heuristic`: made out from text. */
  readonly form: 'standard' | 'heuristic'
  readonly reportingMta: string | null
  /** One at least; bounded. */
  readonly recipients: readonly DsnRecipient[]
  /** Of what was sent: its Message-ID with angle brackets, as the returned message or headers have it; null: not returned. */
  readonly originalMessageId: string | null
  /** The address of ours that it was sent from, as the returned headers have it: Return-Path and such; bounded. */
  readonly originalReturnPath: string | null
}
