/**
 * @module Stores and reads the parts of received messages for mailboxes and inbound mail: bodies, attachments, headers.
 * Remote clients control all of it, so everything is truncated.
 */

import type { App } from '#features/core/app/app.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { notFound } from '#platform/errors.ts'
import { KiB } from '#platform/units.ts'
import type { StoredAttachment } from './message.ts'

/** Limit for one header field: a list of 1,000 addresses is truncated. The raw message has the complete field. */
const MAX_HEADER_LENGTH = 10_000

/** Truncates a header, never within a character. */
export const truncateHeader = (text: string): string =>
  (text.length <= MAX_HEADER_LENGTH ? text : text.slice(0, MAX_HEADER_LENGTH)).toWellFormed()

/** A body from the content store as text; null: no such body. Throws when it was deleted. */
export const readBodyText = (app: Pick<App, 'content'>, ref: number | null): string | null =>
  ref === null ? null : new TextDecoder().decode(app.content.get(ref))

export interface TruncatedText {
  readonly text: string | null
  readonly isTruncated: boolean
  readonly isMissing: boolean
}

/**
 * Reads the first `maxBytes` of a body as text, never ending within a character; the rest is not read. Text is null
 * when the blob is missing: a list must not fail because of one blob.
 */
export function readTruncatedText(app: Pick<App, 'content'>, ref: number | null, maxBytes: number): TruncatedText {
  if (ref === null) return { text: null, isTruncated: false, isMissing: false }
  try {
    return decodeTruncated(app.content.chunks(ref), maxBytes)
  } catch (error) {
    if (error instanceof MissingBlobError) return { text: null, isTruncated: false, isMissing: true }
    throw error
  }
}

function decodeTruncated(chunks: Iterable<Uint8Array>, maxBytes: number): TruncatedText {
  const decoder = new TextDecoder()
  let text = ''
  let remainingBytes = maxBytes
  for (const chunk of chunks) {
    // In stream mode the decoder holds back an incomplete character.
    text += decoder.decode(chunk.subarray(0, remainingBytes), { stream: true })
    if (chunk.length > remainingBytes) return { text, isTruncated: true, isMissing: false }
    remainingBytes -= chunk.length
  }
  return { text: text + decoder.decode(), isTruncated: false, isMissing: false }
}

/** An attachment in the JSON of a message's row, with these names. */
export interface AttachmentJson {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
  readonly content_id?: string | null
  readonly disposition?: 'attachment' | 'inline'
  /** In the content store. */
  readonly ref: number
}

export const toAttachmentJson = (attachment: StoredAttachment): AttachmentJson => ({
  filename: attachment.filename,
  content_type: attachment.contentType,
  size: attachment.sizeBytes,
  content_id: attachment.contentId,
  disposition: attachment.disposition,
  ref: attachment.ref,
})

/** An attachment in API responses. */
export interface AttachmentWire {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
  readonly content_id: string | null
  readonly disposition: 'attachment' | 'inline'
}

export const toAttachmentWire = (attachment: AttachmentJson): AttachmentWire => ({
  filename: attachment.filename,
  content_type: attachment.content_type,
  size: attachment.size,
  content_id: attachment.content_id ?? null,
  disposition: attachment.disposition ?? 'attachment',
})

/**
 * Limit for the attachment JSON of a listed message. Messages can have 1,000 attachments, and a list has 100 messages.
 */
const MAX_LISTED_BYTES = 32 * KiB
/** Number of attachments listed for a message above that limit. */
export const MAX_LISTED_ATTACHMENTS = 20

/** SQL for the attachments of a listed message: SQLite truncates long arrays before it returns them. */
export const selectListedAttachments = (column: string): string =>
  `CASE WHEN octet_length(${column}) <= ${MAX_LISTED_BYTES} THEN ${column}
   ELSE (SELECT json_group_array(json(value)) FROM (SELECT value FROM json_each(${column}) LIMIT ${MAX_LISTED_ATTACHMENTS})) END`

const POSITION = /^(?:0|[1-9]\d{0,5})$/

/** The attachment at `position`, counted from 0, as in the path. Throws 404. */
export function getAttachment(attachments: readonly AttachmentJson[], position: string): AttachmentJson {
  const attachment = POSITION.test(position) ? attachments[Number(position)] : undefined
  if (!attachment) throw notFound('attachment_not_found', 'Attachment not found; numbers start at 0.')
  return attachment
}
