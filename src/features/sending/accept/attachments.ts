/**
 * @module Checks the attachments of a send request and decodes them; rejects header values that would end a header line.
 * Pure; throws AppError 422 with the field.
 */
import { detectMimeType } from 'nodemailer/lib/mime-funcs'
import type { DraftAttachment } from '#features/sending/queue/email.ts'
import { invalid } from '#platform/errors.ts'
import { isAlternativeType } from '#protocols/mime/attachment.ts'
import type { SendRequest } from './model.ts'

export const MAX_ATTACHMENTS = 100

/** Extensions that receivers reject outright; sending them would harm our reputation. */
const FORBIDDEN_EXTENSIONS = new Set(['exe', 'bat', 'cmd', 'scr', 'com', 'msi', 'js', 'vbs', 'ws', 'ps1'])

/** The characters of a Content-ID without its angle brackets, as far as every reader takes them. RFC 2392. */
const CONTENT_ID = /^[!-;=?-~]+$/

/** Decodes the attachments. @param maxBytes limit on their total size */
export function decodeAttachments(request: SendRequest, maxBytes: number): DraftAttachment[] {
  const attachments = request.attachments ?? []
  if (attachments.length > MAX_ATTACHMENTS)
    throw invalid('attachments', `There are ${attachments.length} attachments; at most ${MAX_ATTACHMENTS} are allowed.`)
  let total = 0
  const contentIds = new Set<string>()
  return attachments.map((attachment, index) => {
    const field = `attachments.${index}`
    requireHeaderSafe(`${field}.filename`, attachment.filename)
    const contentType = attachment.content_type || detectMimeType(attachment.filename)
    requireHeaderSafe(`${field}.content_type`, contentType)
    const contentId = readContentId(`${field}.content_id`, attachment.content_id, contentIds)
    if (isForbiddenFile(attachment.filename)) {
      throw invalid(
        `${field}.filename`,
        `Files of type .${readExtension(attachment.filename)} are not accepted, because receivers reject them; send a link or an archive.`,
        'attachment_type_forbidden',
      )
    }
    if (!isBase64(attachment.content))
      throw invalid(`${field}.content`, 'The content must be valid base64.', 'invalid_base64')
    const content = Buffer.from(attachment.content, 'base64')
    total += content.length
    if (total > maxBytes)
      throw invalid(
        'attachments',
        `The attachments must have at most ${maxBytes} bytes together.`,
        'attachments_too_large',
      )
    const isAlternative = attachment.alternative === true
    if (isAlternative && !isAlternativeType(contentType))
      throw invalid(
        `${field}.alternative`,
        'Only a text can be an alternative, such as text/calendar; text and HTML go into text_body and html_body.',
      )
    return {
      filename: attachment.filename,
      contentType,
      content,
      ...(contentId !== undefined && { contentId }),
      ...(isAlternative && { isAlternative }),
    }
  })
}

/** The id without angle brackets, which is added to those seen; undefined for an ordinary attachment. */
function readContentId(field: string, text: string | null | undefined, seen: Set<string>): string | undefined {
  const id = text?.replace(/^<(.*)>$/, '$1')
  if (!id) return undefined
  if (!CONTENT_ID.test(id))
    throw invalid(field, 'content_id must have ASCII characters without spaces and angle brackets, such as "logo".')
  if (seen.has(id)) throw invalid(field, `content_id "${id}" is used twice; give each file its own.`)
  seen.add(id)
  return id
}

export const isForbiddenFile = (filename: string): boolean => FORBIDDEN_EXTENSIONS.has(readExtension(filename))

/** The text after the last dot, without the trailing dots and spaces that Windows drops; empty without a dot. */
function readExtension(filename: string): string {
  const name = filename.replace(/(?<![.\s])[.\s]+$/, '')
  return name.includes('.') ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : ''
}

/**
 * Base64 of RFC 4648 §4, with the line breaks that MIME encoders insert. Runs in linear time: no two parts of the
 * pattern match the same characters.
 */
function isBase64(text: string): boolean {
  const content = text.trimEnd()
  const padding = content.endsWith('==') ? 2 : content.endsWith('=') ? 1 : 0
  if (/[^A-Za-z0-9+/\s]/.test(content.slice(0, content.length - padding))) return false
  const digits = /\s/.test(content) ? content.replace(/\s+/g, '') : content
  return digits.length % 4 === 0
}

const FORBIDDEN_CHARACTERS = /[\r\n\0]/

/** Throws a 422 on `field` if the value contains CR, LF or NUL. */
export function requireHeaderSafe(field: string, value: string): void {
  if (FORBIDDEN_CHARACTERS.test(value)) throw invalid(field, `${field} must not contain line breaks or NUL characters.`)
}
