/** @module A received message as the features that process it see it. Types only. */
import type { Millis } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { FeedbackReport } from '#protocols/arf/parse.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import type { Dsn } from '#protocols/dsn/fields.ts'
import type { ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'
import type { SpamVerdict } from './spam.ts'

export interface SessionFacts {
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  readonly sourceIp: string
  readonly helo: string
  readonly tls: string | null
  readonly sizeBytes: number
}

/** The facts about a message whose raw form is stored. */
export interface Envelope extends SessionFacts {
  readonly receivedAt: Millis
  readonly rawRef: number
}

/** An attachment whose content is in the content store. */
export interface StoredAttachment extends Omit<ParsedAttachment, 'content' | 'file'> {
  readonly sizeBytes: number
  readonly ref: number
}

/** A message whose larger parts are stored as blobs. */
export interface StoredMessage extends Omit<ParsedMessage, 'attachments'> {
  /** References into the content store; null: no such part. */
  readonly headersRef: number | null
  readonly textRef: number | null
  readonly htmlRef: number | null
  /** Text without quoted replies; null: nothing was quoted. */
  readonly strippedText: string | null
  readonly strippedRef: number | null
  readonly attachments: readonly StoredAttachment[]
}

export type ParsedReport =
  | { readonly kind: 'delivery'; readonly report: Dsn }
  | { readonly kind: 'feedback'; readonly report: FeedbackReport }
  | { readonly kind: 'aggregate'; readonly report: AggregateReport }

export interface ReceivedMail {
  readonly envelope: Envelope
  /** If the message cannot be parsed, only the readable part of its header. */
  readonly message: StoredMessage
  /** Why it cannot be parsed, a sentence; undefined: it was parsed. */
  readonly problem: string | undefined
  readonly authentication: AuthenticationResult
  readonly report: ParsedReport | undefined
  /** Only of mail to tenants. */
  readonly spam?: SpamVerdict | null
}

/** A recipient of a message, as decided at RCPT. */
export type Destination =
  /** The return path of one of our recipients, proven by its MAC: bounces. */
  | { readonly kind: 'bounce'; readonly address: string; readonly recipientId: number }
  /** The mailto address of List-Unsubscribe, proven by its MAC. */
  | { readonly kind: 'unsubscribe'; readonly address: string; readonly recipientId: number }
  /** A role mailbox of this host: postmaster, abuse, fbl and similar. */
  | { readonly kind: 'host'; readonly address: string }
  /** An address of a tenant's inbound domain. */
  | { readonly kind: 'domain'; readonly address: string; readonly accountId: number; readonly domainId: number }

export interface CompleteMessage extends SessionFacts {
  readonly destinations: readonly Destination[]
  /** Small ones in memory; large ones in a zstd file, with the start of the SHA-256 of their content. */
  readonly content:
    | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
    | { readonly kind: 'file'; readonly path: string; readonly hash: Uint8Array }
}

/** A reply that rejects; its text starts with the enhanced status code (RFC 3463). */
export interface Rejection {
  readonly code: number
  readonly text: string
}

/** What the SMTP listener needs from the main thread. */
export interface ListenerHandlers {
  /** Called at RCPT: the destination, or why the address is rejected. Client input never makes it throw. */
  decide(address: string, sourceIp: string): Destination | Rejection
  /** Called after the final dot. Resolves when 250 may be sent; rejects with a 507 when storage is full. */
  receive(message: CompleteMessage): Promise<void>
}
