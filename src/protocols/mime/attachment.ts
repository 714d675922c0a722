/**
 * @module Sanitises names and types of attachments for a MIME header. Accepts any text and always returns a valid
 * value. Does not decide which attachments are allowed.
 */
import { basename, extname } from 'node:path/posix'
import type { EncodedPart } from './encode.ts'
import { type ParameterValue, parseStructuredField } from './structured-field.ts'

export interface Attachment {
  readonly filename: string
  readonly contentType: string
  /** Makes it a part of the HTML (multipart/related, RFC 2387): its Content-ID, without angle brackets. */
  readonly contentId?: string
  /** Makes it another form of the text (RFC 2046 §5.1.4), such as an invitation, or, if sealed, the whole message. */
  readonly isAlternative?: boolean
  /** In base64. */
  readonly content: EncodedPart
}

/** `cid:` URLs of HTML, up to the character that ends the attribute, the CSS function or the text. RFC 2392. */
const CID_URL = /\bcid:([^\s"'<>()]{1,1000})/gi

/** The Content-IDs to which the HTML refers. */
export const findContentIds = (html: string): Set<string> =>
  new Set(Array.from(html.matchAll(CID_URL), ([, id = '']) => decodeContentId(id)))

/** The id of a `cid:` URL in HTML without its percent-encoding; as it is if the encoding is broken. */
export function decodeContentId(id: string): string {
  const decoded = id.replaceAll('&amp;', '&')
  try {
    return decodeURIComponent(decoded)
  } catch {
    return decoded
  }
}

const FALLBACK_TYPE = 'application/octet-stream'
const MAX_FILENAME_LENGTH = 255
/** Characters read of a path, from its end. */
const MAX_PATH_LENGTH = 4_096
const MAX_CONTENT_TYPE_LENGTH = 998
const MAX_PARAMETERS = 20

/** Restricted names of RFC 6838 §4.2, each part with at most 127 characters. */
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&\-^_.+]{0,126}\/[a-z0-9][a-z0-9!#$&\-^_.+]{0,126}$/
/** Must not be encoded (RFC 2045 §6.4), which RFC 6532 allows for message/global, or are read as they are (RFC 6522). */
const UNENCODED_TYPE = /^\s*(?:message\/(?!global)|text\/rfc822-headers)/i
/** A part in one of these forms is worthless unless it is the whole message, octet by octet. */
export const SEALED_TYPE = /^\s*(?:multipart\/(?:signed|encrypted)|application\/(?:x-)?pkcs7-mime)\b/i

/** Whether a part can be an alternative to text and HTML: a text that is neither. A sealed part replaces both. */
export const isAlternativeType = (text: string): boolean =>
  SEALED_TYPE.test(text) || (/^\s*text\//i.test(text) && !/^\s*text\/(?:plain|html)\b/i.test(text))

/** Whether the octets of a part are sent as they are, if their lines allow it. */
export const isUnencoded = ({ contentType, isAlternative = false }: Omit<Attachment, 'content'>): boolean =>
  UNENCODED_TYPE.test(contentType) || (isAlternative && /^\s*multipart\//i.test(contentType))

/** Whether an alternative is still one with the encoding that it got. */
export const isAlternativePart = (part: Attachment): boolean =>
  part.isAlternative === true && isAlternativeType(sanitiseContentType(part))

const PARAMETER_NAME = /^[a-z0-9!#$&\-^_.+]{1,60}$/
const PARAMETER_VALUE = /^[\x20-\x7e]{1,200}$/
const NEEDS_QUOTES = /[\s'"\\;:/=(),<>@[\]?]|^-/

/** The value of a parameter in ASCII, in quotes unless it is a token. */
export const quoteParameter = (value: string): string => (NEEDS_QUOTES.test(value) ? JSON.stringify(value) : value)

/** Joins a type and its parameters, without those that would rename the file or start a boundary. */
export function formatContentType(type: string, parameters: ReadonlyMap<string, ParameterValue>): string {
  const kept = [...parameters].slice(0, MAX_PARAMETERS).flatMap(([name, { octets: value }]) => {
    if (/^(?:file)?name$/.test(name) || (name === 'boundary' && !SEALED_TYPE.test(type))) return []
    if (!PARAMETER_NAME.test(name) || !PARAMETER_VALUE.test(value)) return []
    return [`; ${name}=${quoteParameter(value)}`]
  })
  return type + kept.join('')
}

/**
 * Returns `type/subtype` in lower case, with its parameters. Returns `application/octet-stream` for a text that is not a
 * media type, for a multipart that is not a sealed message, and for a type that must not be encoded if the content was.
 */
export function sanitiseContentType({ contentType, isAlternative = false, content }: Attachment): string {
  const { value, parameters } = parseStructuredField(contentType.slice(0, MAX_CONTENT_TYPE_LENGTH))
  const type = value.trim().toLowerCase()
  const isMisfit = /^(?:message\/(?!global)|multipart\/)/.test(type) && content.encoding === 'base64'
  const isMultipart = type.startsWith('multipart/') && !(isAlternative && SEALED_TYPE.test(type))
  return !MEDIA_TYPE.test(type) || isMisfit || isMultipart ? FALLBACK_TYPE : formatContentType(type, parameters)
}

/**
 * Returns the last part of a path, without control characters, line ends and characters that change the writing direction
 * (which show `txt.exe` as `exe.txt`); at most 255 characters including the extension. Null when nothing is left.
 */
export function cleanFilename(text: string): string | null {
  const name = basename(
    text
      .slice(-MAX_PATH_LENGTH)
      .replaceAll('\\', '/')
      .replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, ''),
  )
    .toWellFormed()
    .trim()
  if (/^\.*$/.test(name)) return null
  if (name.length <= MAX_FILENAME_LENGTH) return name
  const extension = extname(name).slice(0, 20)
  return name.slice(0, MAX_FILENAME_LENGTH - extension.length).toWellFormed() + extension
}
