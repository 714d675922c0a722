/** @module What a parsed message is (RFC 5322, RFC 2045), and the error of one that cannot be parsed; `parse.ts` makes both. */

/** A message that cannot be parsed; `message` is one sentence that says why. */
export class UnparseableError extends Error {
  override readonly name = 'Unparseable'
}

/** An attachment, or an inline part that the HTML refers to. */
export interface ParsedAttachment {
  /** As the sender named it, without any folder; null: it had no name. */
  readonly filename: string | null
  /** Lower case, without parameters: `application/pdf`. */
  readonly contentType: string
  /** Without angle brackets. */
  readonly contentId: string | null
  readonly disposition: 'attachment' | 'inline'
  /** Decoded; nothing else lies in its buffer. Of what has a `file`, only the first 256 KiB. */
  readonly content: Uint8Array
  /** All of it, when it is large and whoever parsed it wanted files; left out: `content` is all of it. */
  readonly file?: AttachmentFile
}

/** A large attachment, decoded, in a file of its own; who parsed says in what form. */
export interface AttachmentFile {
  readonly path: string
  /** The first 16 bytes of the SHA-256 of the attachment. */
  readonly hash: Uint8Array
  /** Of the attachment. */
  readonly sizeBytes: number
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
  /** The first 2 MiB of it; a part that goes beyond is an attachment as well, with all of it. */
  readonly text: string | null
  /** The same holds for it. */
  readonly html: string | null
  readonly attachments: readonly ParsedAttachment[]
  /**
   * Made by a program, so that no program should answer it (RFC 3834 §2, §5): Auto-Submitted other than `no`, Precedence bulk, list or junk, a
   * List-Id, X-Auto-Response-Suppress, or a null reverse-path.
   */
  readonly isAutomatic: boolean
}
