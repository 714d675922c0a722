/** @module What a parsed message is (RFC 5322, RFC 2045). Types only; `parse.ts` makes it. */

/** An attachment, or an inline part that the HTML refers to. */
export interface ParsedAttachment {
  /** As the sender named it, without any folder; null: it had no name. */
  readonly filename: string | null
  /** Lower case, without parameters: `application/pdf`. */
  readonly contentType: string
  /** Without angle brackets. */
  readonly contentId: string | null
  readonly disposition: 'attachment' | 'inline'
  /** Decoded; nothing else lies in its buffer. */
  readonly content: Uint8Array
}

/** Header fields and bodies of a message, decoded to Unicode. Bounded by `parse.ts`. */
export interface ParsedMessage {
  /** Every header field in the order of the message: name as written, value unfolded and decoded. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Header form, decoded; null: there is no such field. */
  readonly from: string | null
  readonly to: string | null
  readonly cc: string | null
  readonly replyTo: string | null
  /** Addresses only, domains as they were written. */
  readonly fromAddresses: readonly string[]
  readonly toAddresses: readonly string[]
  /** `''` when there is none. */
  readonly subject: string
  /** With angle brackets. */
  readonly messageId: string | null
  readonly inReplyTo: string | null
  readonly references: readonly string[]
  /** Milliseconds since the epoch; null: none, or none that can be read. */
  readonly dateMs: number | null
  readonly text: string | null
  readonly html: string | null
  readonly attachments: readonly ParsedAttachment[]
  /**
   * Made by a program, so that no program should answer it (RFC 3834 §2, §5): Auto-Submitted other than `no`, Precedence bulk, list or junk, a
   * List-Id, X-Auto-Response-Suppress, or a null reverse-path.
   */
  readonly isAutomatic: boolean
}
