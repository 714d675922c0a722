/** @module How a simulated receiver reacts at the steps of an SMTP session. Types only. */

/** `body`: in the middle of a message. `dot`: the reply to the end of a message. */
export type Step =
  | 'banner'
  | 'ehlo'
  | 'starttls'
  | 'handshake'
  | 'mail'
  | 'rcpt'
  | 'data'
  | 'body'
  | 'dot'
  | 'rset'
  | 'quit'

/** What is sent instead of the polite reply, and what follows. A string is a reply, without the last CRLF. */
export type Reaction =
  | string
  | {
      /** A reply, or octets that are sent as they are. Without `reply` and `end`, the polite reply is sent. */
      readonly reply?: string | Uint8Array
      /** Delay before anything is sent, in milliseconds. */
      readonly delayMs?: number
      /**
       * `close`: ends the connection with FIN. `reset`: ends it with RST. `silence`: reads and says nothing more.
       * `endless`: repeats `reply` until the client closes the connection, or up to `MAX_ENDLESS_BYTES`.
       */
      readonly end?: 'close' | 'reset' | 'silence' | 'endless'
    }

/** Where a session is. */
export interface StepContext {
  readonly step: Step
  /** Number of the connection, from 1. */
  readonly connection: number
  /** Number of the transaction within the connection, from 1; 0 before the first MAIL. */
  readonly transaction: number
  readonly isSecure: boolean
  /** Address of MAIL, without angle brackets; '' before MAIL. */
  readonly mailFrom: string
  /** Address of RCPT, without angle brackets; '' before RCPT. */
  readonly rcptTo: string
  /** How often this pair of sender and recipient came to RCPT, with this time; 0 before RCPT. */
  readonly attempts: number
}

/** The reaction at a step; undefined for the polite reply. */
export type React = (at: StepContext) => Reaction | undefined

/** A message of which the final dot was received. */
export interface SeenMessage {
  readonly mailFrom: string
  readonly rcptTo: string
  /** Value of the Message-ID field; '' if there is none in the first octets. */
  readonly messageId: string
  /** Octets received after the 354, with the final dot. */
  readonly sizeBytes: number
  readonly connection: number
  /** Whether the reply to the final dot was a 2xx. */
  readonly isAccepted: boolean
}
