/** @module Attachments of messages in a mailbox: what is told of them, and their content. */
import type { App } from '#features/app.ts'
import { notFound } from '#platform/errors.ts'
import { KiB } from '#platform/units.ts'

/** An attachment as the message's row holds it, in JSON with these names. */
export interface KeptAttachment {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
  readonly content_id?: string | null
  readonly disposition?: 'attachment' | 'inline'
  /** In the content store. */
  readonly ref: number
}

/** Bytes of JSON that a message in a list may have of its attachments. Strangers attach up to 1,000, and a list has 100 messages. */
const MOST_LISTED_BYTES = 32 * KiB
/** Of those whose JSON is longer. */
export const MOST_LISTED = 20

/** SQL of a column of attachments as a list shows it: of many the first ones, cut out before they come to us. */
export const listedAttachments = (column: string): string =>
  `CASE WHEN octet_length(${column}) <= ${MOST_LISTED_BYTES} THEN ${column}
   ELSE (SELECT json_group_array(json(value)) FROM (SELECT value FROM json_each(${column}) LIMIT ${MOST_LISTED})) END`

/** Types that run nothing wherever they are opened; anything else, HTML and SVG among it, is handed out as bytes of no kind. */
const HARMLESS: ReadonlySet<string> = new Set([
  'application/gzip',
  'application/json',
  'application/msword',
  'application/pdf',
  'application/vnd.ms-excel',
  'application/vnd.ms-powerpoint',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  'application/zip',
  'audio/mpeg',
  'audio/ogg',
  'audio/wav',
  'image/bmp',
  'image/gif',
  'image/jpeg',
  'image/png',
  'image/tiff',
  'image/webp',
  'message/rfc822',
  'text/calendar',
  'text/csv',
  'text/plain',
  'text/vcard',
  'video/mp4',
  'video/webm',
])

/** The type with which an attachment is handed out, whatever its sender says of it. */
export const servedType = (contentType: string): string =>
  HARMLESS.has(contentType) ? contentType : 'application/octet-stream'

const POSITION = /^(?:0|[1-9]\d{0,5})$/

/** Attachment number `position`, from 0, with its content. Throws 404. */
export function attachmentContent(
  app: Pick<App, 'content'>,
  attachments: readonly KeptAttachment[],
  position: string,
): KeptAttachment & { readonly content: Uint8Array } {
  const attachment = POSITION.test(position) ? attachments[Number(position)] : undefined
  if (!attachment)
    throw notFound('attachment_not_found', 'The message has no attachment with this number; they are numbered from 0.')
  return { ...attachment, content: app.content.get(attachment.ref) }
}
