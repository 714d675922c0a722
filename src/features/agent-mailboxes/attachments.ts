/** @module Attachments of messages in a mailbox: what is told of them, and their content. */
import type { App } from '#features/app.ts'
import { notFound } from '#platform/errors.ts'

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
