/** @module Types of an email before `insert` stores it: its parts, recipients and rarely set fields. */
import type { BroadcastContact } from '#features/setup/templates/broadcast-data.ts'
import type { Millis } from '#platform/clock.ts'
import type { Idempotency } from './idempotency-key.ts'
import type { RecipientKind } from './status.ts'

export interface DraftAttachment {
  readonly filename: string
  readonly contentType: string
  readonly content: Uint8Array
}

export interface DraftRecipient {
  readonly kind: RecipientKind
  readonly address: string
  /** A-label, lower case: where it is routed. */
  readonly domain: string
  /** Header form when it says more than the address. */
  readonly mailbox: string | undefined
}

/** A checked email; where it had a template, that is rendered. */
export interface NewEmail {
  readonly from: string
  readonly recipients: readonly DraftRecipient[]
  readonly subject: string
  readonly html: Uint8Array | undefined
  readonly text: Uint8Array | undefined
  readonly attachments: readonly DraftAttachment[]
  /** Undefined: now. */
  readonly scheduledAt: Millis | undefined
  readonly tracking: boolean | undefined
  readonly transactional: boolean
  /** Row id of the template that it was made from. */
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
  /** Of a broadcast: the contact as it was when the recipients were fixed. */
  readonly contact?: BroadcastContact
  /** Mail of the service itself, such as a link that sets a password: the account that it leaves from never reads it. */
  readonly of_service?: true
  /** Of such mail: row ids of the accounts that it is about. It goes with the last of them. */
  readonly about?: readonly number[]
}
