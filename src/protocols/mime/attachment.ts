/**
 * @module Sanitises names and types of attachments for a MIME header. Accepts any text and always returns a valid
 * value. Does not decide which attachments are allowed.
 */
import { basename, extname } from 'node:path/posix'
import type { EncodedPart } from './encode.ts'

export interface Attachment {
  readonly filename: string
  readonly contentType: string
  /** Makes it a part of the HTML (multipart/related, RFC 2387): its Content-ID, without angle brackets. */
  readonly contentId?: string
  /** In base64. */
  readonly content: EncodedPart
}

/** `cid:` URLs of HTML, up to the character that ends the attribute, the CSS function or the text. RFC 2392. */
const CID_URL = /\bcid:([^\s"'<>()]{1,1000})/gi

/** The Content-IDs to which the HTML refers. */
export const findContentIds = (html: string): Set<string> =>
  new Set(Array.from(html.matchAll(CID_URL), ([, id = '']) => decodeContentId(id)))

/** The id without the percent-encoding of a URL; as it is if the encoding is broken. */
function decodeContentId(id: string): string {
  const decoded = id.replaceAll('&amp;', '&')
  try {
    return decodeURIComponent(decoded)
  } catch {
    return decoded
  }
}

const FALLBACK_TYPE = 'application/octet-stream'
const FALLBACK_NAME = 'attachment'
const MAX_FILENAME_LENGTH = 255
const MAX_CONTENT_TYPE_LENGTH = 256

/** Restricted names of RFC 6838 §4.2, each part with at most 127 characters. */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&\-^_.+]{0,126}\/[a-z0-9][a-z0-9!#$&\-^_.+]{0,126}$/
// The only parameters that describe a file. Any other parameter could rename the file or start a boundary.
const KEPT_PARAMETER = /^(charset|method)\s*=\s*"?([A-Za-z0-9!#$&\-^_.+]{1,64})"?$/i

/**
 * Returns `type/subtype` in lower case, with the charset and method parameters. Returns `application/octet-stream` for
 * a text that is not a media type. Does so for message/* and multipart/* too: these must not be sent in base64 (RFC
 * 2045 §6.4), and without base64 they would not arrive unchanged.
 */
export function sanitiseContentType(text: string): string {
  const [type = '', ...parameters] = text.slice(0, MAX_CONTENT_TYPE_LENGTH).split(';')
  const mediaType = type.trim().toLowerCase()
  if (!MEDIA_TYPE.test(mediaType) || /^(?:message|multipart)\//.test(mediaType)) return FALLBACK_TYPE
  const kept = parameters.flatMap((parameter) => {
    const [, name, value] = KEPT_PARAMETER.exec(parameter.trim()) ?? []
    return name === undefined || value === undefined ? [] : [`; ${name.toLowerCase()}=${value}`]
  })
  return mediaType + kept.join('')
}

/**
 * Returns the last part of a path, without control characters, at most 255 characters including the extension;
 * `attachment` when nothing is left.
 */
export function sanitiseFilename(text: string): string {
  const name = basename(
    text
      .slice(-4_096)
      .replaceAll('\\', '/')
      .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]/g, ''),
  )
    .toWellFormed()
    .trim()
  if (name === '' || name === '.' || name === '..') return FALLBACK_NAME
  if (name.length <= MAX_FILENAME_LENGTH) return name
  const extension = extname(name).slice(0, 20)
  return name.slice(0, MAX_FILENAME_LENGTH - extension.length).toWellFormed() + extension
}
