/** @module Puts the pictures of a message (`cid:`, RFC 2392) into its HTML as data: URLs. Pure. */
import { decodeContentId } from './attachment.ts'

/** An image of the message that its HTML can refer to. */
export interface InlinePicture {
  /** Content-ID without angle brackets. */
  readonly contentId: string
  readonly contentType: string
  readonly content: Uint8Array
}

/** Length of all data: URLs in a document: one may be referred to many times. */
const MAX_URLS_LENGTH = 4 * 1024 * 1024
/** What fits of all pictures: base64 makes four characters of three octets. */
export const MAX_PICTURE_BYTES = (MAX_URLS_LENGTH / 4) * 3

/** What browsers show; anything else would be no picture. */
const PICTURE_TYPE = /^image\/(?:png|jpeg|gif|webp|avif|bmp|svg\+xml)(?=;|$)/
/** A URL at the beginning of an attribute, or in `url(…)`. */
const CID_URL = /(["'(=])cid:([^"'()\s<>]{1,998})/gi

/** The HTML with its pictures. A reference stays as it is when there is no such picture, or when there are too many. */
export function embedPictures(html: string, pictures: readonly InlinePicture[]): string {
  const urls = new Map<string, string>()
  for (const { contentId, contentType, content } of pictures) {
    const [type] = PICTURE_TYPE.exec(contentType) ?? []
    if (type) urls.set(contentId, `data:${type};base64,${Buffer.from(content).toString('base64')}`)
  }
  if (urls.size === 0) return html
  let length = 0
  return html.replace(CID_URL, (reference: string, before: string, id: string) => {
    const url = urls.get(decodeContentId(id))
    if (url === undefined || length + url.length > MAX_URLS_LENGTH) return reference
    length += url.length
    return `${before}${url}`
  })
}
