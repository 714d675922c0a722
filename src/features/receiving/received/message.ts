/** @module A message that came in, as the features that it concerns get it. Types only. */
import type { Millis } from '#platform/clock.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { FeedbackReport } from '#protocols/arf/report.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import type { Dsn } from '#protocols/dsn/report.ts'
import type { ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'

/** What the SMTP session said. */
export interface Envelope {
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly receivedAt: Millis
  /** In the store of raw messages. */
  readonly rawRef: number
  readonly sizeBytes: number
}

/** An attachment whose content is in the content store. */
export interface StoredAttachment extends Omit<ParsedAttachment, 'content' | 'file'> {
  readonly sizeBytes: number
  readonly ref: number
}

/** A message with its larger parts stored. */
export interface StoredMessage extends Omit<ParsedMessage, 'attachments'> {
  /** References into the content store; null: there is none. */
  readonly headersRef: number | null
  readonly textRef: number | null
  readonly htmlRef: number | null
  /** Text without quoted replies; null: nothing was quoted. */
  readonly strippedText: string | null
  readonly strippedRef: number | null
  readonly attachments: readonly StoredAttachment[]
}

/** What a message turned out to be, beside a message. */
export type ParsedReport =
  | { readonly kind: 'delivery'; readonly report: Dsn }
  | { readonly kind: 'feedback'; readonly report: FeedbackReport }
  | { readonly kind: 'aggregate'; readonly report: AggregateReport }

export interface ReceivedMail {
  readonly envelope: Envelope
  /** Of one that cannot be parsed only the header, as far as it can be read. */
  readonly message: StoredMessage
  /** Why it cannot be parsed, a sentence; undefined: it was. */
  readonly problem: string | undefined
  readonly authentication: AuthenticationResult
  readonly report: ParsedReport | undefined
}

/** Who a message is for, as decided at RCPT. */
export type Destination =
  /** The return path of a recipient of ours, by its MAC: bounces. */
  | { readonly kind: 'bounce'; readonly address: string; readonly recipientId: number }
  /** The mailto of List-Unsubscribe, by its MAC. */
  | { readonly kind: 'unsubscribe'; readonly address: string; readonly recipientId: number }
  /** postmaster, abuse, fbl and the like of this host. */
  | { readonly kind: 'host'; readonly address: string }
  /** An address of a tenant's inbound domain. */
  | { readonly kind: 'domain'; readonly address: string; readonly accountId: number; readonly domainId: number }

/** What the listener hands over: a whole message, and how the session that brought it stands. */
export interface CompleteMessage {
  readonly mailFrom: string
  readonly destinations: readonly Destination[]
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly sizeBytes: number
  /** Small ones as they are; large ones in a file, compressed with zstd, with the first 16 bytes of the SHA-256 of what is in it. */
  readonly content:
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
    | { readonly kind: 'file'; readonly path: string; readonly hash: Uint8Array }
}

/** A reply that refuses; the enhanced status code (RFC 3463) stands at the start of the text. */
export interface Rejection {
  readonly code: number
  readonly text: string
}

/** What the SMTP listener asks of the rest. */
export interface ListenerHandlers {
  /** At RCPT: who the address is, or why it is refused. Never throws for what a client says. */
  decide(address: string, sourceIp: string): Destination | Rejection
  /** After the final dot: resolves when the message is on disk and may be answered with 250; rejects with an AppError 507 when there is no room. */
  receive(message: CompleteMessage): Promise<void>
}
