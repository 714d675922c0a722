/**
 * @module Parts of received messages as mailboxes and inbound mail keep and show them: bodies, attachments, headers within bounds. Strangers wrote
 * all of it.
 */

import type { App } from '#features/core/app/app.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { notFound } from '#platform/errors.ts'
import { KiB } from '#platform/units.ts'
import type { StoredAttachment } from './message.ts'

/** Of one header field; a list of 1,000 addresses is not kept whole. The message as it came in has everything. */
const MAX_HEADER_LENGTH = 10_000

/** The text of a header within its bound, without half a character at its end. */
export const truncateHeader = (text: string): string =>
  (text.length <= MAX_HEADER_LENGTH ? text : text.slice(0, MAX_HEADER_LENGTH)).toWellFormed()

/** A body of the content store as text; null: there is none. Throws when it is no longer kept. */
export const readBodyText = (app: Pick<App, 'content'>, ref: number | null): string | null =>
  ref === null ? null : new TextDecoder().decode(app.content.get(ref))

export interface TruncatedText {
  readonly text: string | null
  readonly isTruncated: boolean
  readonly isMissing: boolean
}

/**
 * The first `maxBytes` of a body as text, without half a character at its end; of a long one no more is read. Null where it is missing from
 * the content store: a list must not fail for it.
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
    // As a stream it keeps an unfinished character back.
    text += decoder.decode(chunk.subarray(0, remainingBytes), { stream: true })
    if (chunk.length > remainingBytes) return { text, isTruncated: true, isMissing: false }
    remainingBytes -= chunk.length
  }
  return { text: text + decoder.decode(), isTruncated: false, isMissing: false }
}

/** An attachment as a message's row holds it, in JSON with these names. */
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

/** What is told of an attachment. */
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

/** Bytes of JSON that a message in a list may have of its attachments. Strangers attach up to 1,000, and a list has 100 messages. */
const MAX_LISTED_BYTES = 32 * KiB
/** Of those whose JSON is longer. */
export const MAX_LISTED_ATTACHMENTS = 20

/** SQL of a column of attachments as a list shows it: of many the first ones, cut out before they come to us. */
export const selectListedAttachments = (column: string): string =>
  `CASE WHEN octet_length(${column}) <= ${MAX_LISTED_BYTES} THEN ${column}
   ELSE (SELECT json_group_array(json(value)) FROM (SELECT value FROM json_each(${column}) LIMIT ${MAX_LISTED_ATTACHMENTS})) END`

const POSITION = /^(?:0|[1-9]\d{0,5})$/

/** Attachment number `position`, from 0, as the path says it. Throws 404. */
export function getAttachment(attachments: readonly AttachmentJson[], position: string): AttachmentJson {
  const attachment = POSITION.test(position) ? attachments[Number(position)] : undefined
  if (!attachment) throw notFound('attachment_not_found', 'There is no attachment with this number; the first is 0.')
  return attachment
}
