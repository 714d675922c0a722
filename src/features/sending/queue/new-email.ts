/** @module Types of an email before it is inserted: its parts, recipients and rarely set fields. */
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { Idempotency } from './idempotency-key.ts'
import type { RecipientKind } from './status.ts'
import type { TrackingChoice } from './tracking.ts'

export interface DraftAttachment {
  readonly filename: string
  readonly contentType: string
  /** By which the HTML may refer to it, without angle brackets. */
  readonly contentId?: string
  /** Another form of the text, such as an invitation, or, if it is sealed, the whole message. */
  readonly isAlternative?: boolean
  readonly content: Uint8Array
}

export interface DraftRecipient {
  readonly kind: RecipientKind
  readonly address: string
  /** A-label in lower case; determines the route. */
  readonly domain: string
  /** Header form, if it has more than the address. */
  readonly mailbox: string | undefined
}

/** A checked email, with its template rendered. */
export interface NewEmail {
  readonly from: string
  readonly recipients: readonly DraftRecipient[]
  readonly subject: string
  readonly html: Uint8Array | undefined
  readonly text: Uint8Array | undefined
  readonly attachments: readonly DraftAttachment[]
  /** Undefined: send now. */
  readonly scheduledAt: Millis | undefined
  readonly tracking: TrackingChoice | undefined
  readonly transactional: boolean
  /** Row id of its template. */
  readonly templateId?: number | undefined
  /** Row id of the contact list that it is sent to. */
  readonly listId?: number | undefined
  readonly idempotency: Idempotency | undefined
  readonly extra: DraftExtra
}

/** Rarely set fields, one JSON column. */
export interface DraftExtra {
  readonly reply_to?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly tags?: readonly string[]
  readonly idempotency_key?: string
  readonly template_data?: unknown
  /** Seconds after which an open recipient expires, from acceptance or `scheduled_at`. */
  readonly expires_in?: number
  /** Message-ID that the client of submitted mail set, with angle brackets. */
  readonly message_id?: string
  /** Date that the client of submitted mail set, in ms since the epoch. */
  readonly date?: number
  /** Mailboxes of submitted mail that its To names, but that get it from somebody else. */
  readonly also_to?: readonly string[]
  /** The same for Cc. */
  readonly also_cc?: readonly string[]
  /** Public id of the email that this one repeats. */
  readonly resend_of?: string
  /** In a broadcast: the contact as it was in the snapshot of the recipients. */
  readonly contact?: BroadcastContact
  /** System mail, such as a password reset link: the sending account must not read it. */
  readonly of_service?: true
  /** In system mail: row ids of the accounts that the mail is about. Its content is deleted with the last of them. */
  readonly about?: readonly number[]
  /** The type of a report (RFC 6522), which the mail is. */
  readonly report_type?: string
}
