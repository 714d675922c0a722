/**
 * @module The types of a parsed message (RFC 5322, RFC 2045), which `parse.ts` creates, and the error for a message
 * that cannot be parsed.
 */

/** Thrown for a message that cannot be parsed; `message` is one sentence that says why. */
export class UnparseableError extends Error {
  override readonly name = 'Unparseable'
}

/** An attachment, or an inline part that the HTML refers to. */
export interface ParsedAttachment {
  /** The name that the sender gave the file, without any folder; null when there is none. */
  readonly filename: string | null
  /** In lower case, without parameters: `application/pdf`. */
  readonly contentType: string
  /** Without angle brackets. */
  readonly contentId: string | null
  readonly disposition: 'attachment' | 'inline'
  /** The decoded content, in a buffer of its own. If there is a `file`, only the first 256 KiB. */
  readonly content: Uint8Array
  /**
   * The whole content, when it is large and the caller of the parser provides files. If left out, `content` is
   * complete.
   */
  readonly file?: AttachmentFile
  /** Only in a message that is parsed to be sent again. */
  readonly form?: PartForm
}

/** What a part was in its message, as far as it shall be that again. */
export interface PartForm {
  /** With its parameters, but without the file name: `text/csv; charset=iso-8859-1`. */
  readonly contentType: string
  /** Whether it is the message in another form (RFC 2046 §5.1.4), or the whole message. */
  readonly isAlternative: boolean
}

/** A large attachment, decoded, in a file of its own; the parser's caller defines the file's form. */
export interface AttachmentFile {
  readonly path: string
  /** The first 16 bytes of the SHA-256 of the attachment. */
  readonly hash: Uint8Array
  /** Size of the decoded attachment. */
  readonly sizeBytes: number
}

/** Header fields and bodies of a message, decoded to Unicode; `parse.ts` limits them. */
export interface ParsedMessage {
  /** Every header field in the order of the message: name as written, value unfolded and decoded. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The decoded values as one list for display: `Name <address>, …`. Null: there is no such field. */
  readonly from: string | null
  readonly to: string | null
  readonly cc: string | null
  readonly replyTo: string | null
  /** Addresses only, with domains as written. */
  readonly fromAddresses: readonly string[]
  readonly toAddresses: readonly string[]
  /** Decoded; `''`: there is no subject. */
  readonly subject: string
  /** With angle brackets. */
  readonly messageId: string | null
  readonly inReplyTo: string | null
  readonly references: readonly string[]
  /** Milliseconds since the epoch; null: no readable date. */
  readonly dateMs: number | null
  /**
   * The first 2 MiB of the text parts. A part that exceeds this limit is also an attachment, with its whole content.
   */
  readonly text: string | null
  /** Limited like `text`. */
  readonly html: string | null
  readonly attachments: readonly ParsedAttachment[]
  /**
   * Whether a program sent the message, so that no program should answer it (RFC 3834 §2, §5). Signs of this are
   * Auto-Submitted other than `no`, Precedence bulk, list or junk, a List-Id, X-Auto-Response-Suppress, or a null
   * reverse-path.
   */
  readonly isAutomatic: boolean
}

/** Types of attachments in which reports return a message, or its header. */
export const RETURNED_TYPES: ReadonlySet<string> = new Set(
  'message/rfc822 message/global message/rfc822-headers text/rfc822-headers message/global-headers'.split(' '),
)
