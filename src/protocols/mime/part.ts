/**
 * @module Derives the properties of a part from its header and the headers of the parts that contain it (RFC 2045, RFC
 * 2046, RFC 2183, RFC 3676): its type, whether it is readable text, its Content-ID, and whether the HTML shows it.
 * Stores no content.
 */
import libmime from 'libmime'
import { formatContentType, isAlternativeType, SEALED_TYPE } from './attachment.ts'
import { decodeHeaderText, decodeHtml, decodeText } from './charset.ts'
import { decodeValue } from './header-fields.ts'
import type { PartForm } from './parsed.ts'
import type { PartNode } from './part-splitter.ts'

const MAX_CONTENT_ID_LENGTH = 998

/** A node of the message's tree, filled as the message is read. */
export interface Part {
  readonly node: PartNode
  readonly parent: Part | undefined
  readonly level: number
  hasChildren: boolean
}

const findRawValue = ({ rawFields }: PartNode, fieldName: string): string | undefined =>
  rawFields.find(([name]) => name.toLowerCase() === fieldName)?.[1]

const TYPE = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

export function resolveType({ node, parent, hasChildren }: Part): string {
  if (node.multipart !== false && !hasChildren) return 'text/plain'
  const isDeclared = findRawValue(node, 'content-type') !== undefined
  // RFC 2046 §5.1.5: the default type in a digest.
  if (!isDeclared && parent?.node.multipart === 'digest') return 'message/rfc822'
  const type = node.contentType || 'text/plain'
  if (TYPE.test(type)) return type
  // RFC 2045 §5.2: an invalid type means text, unless the part has a file name.
  return node.rawFilename === undefined ? 'text/plain' : 'application/octet-stream'
}

/** Whether the part is text to be read, not a file. RFC 2183 §2.8: an unknown disposition means `attachment`. */
export const isReadableText = ({ node }: Part, type: string): boolean =>
  (type === 'text/plain' || type === 'text/html') &&
  (node.disposition === false || node.disposition === '' || node.disposition === 'inline')

/** Decodes a text part to text with line feeds. RFC 3676: joins flowed lines. */
export function decodePart({ node }: Part, type: string, bytes: Uint8Array): string {
  const charset = node.charset === false ? null : node.charset
  const text = (type === 'text/html' ? decodeHtml(bytes, charset) : decodeText(bytes, charset))
    .replaceAll('\0', '')
    .replaceAll('\r\n', '\n')
  return node.flowed && type === 'text/plain' ? libmime.decodeFlowed(text, node.delSp) : text
}

/** Returns the Content-ID without angle brackets; null when there is none. */
export function readContentId({ node }: Part): string | null {
  const id = decodeValue(decodeHeaderText(findRawValue(node, 'content-id') ?? '', null))
    .replaceAll(/[<>\s]/g, '')
    .slice(0, MAX_CONTENT_ID_LENGTH)
    .toWellFormed()
  return id === '' ? null : id
}

/** The form of an attachment. Its parent decides whether it is an alternative; a message may also consist of it alone. */
export const readForm = ({ node, parent }: Part, type: string): PartForm => ({
  contentType: formatContentType(type, node.parameters),
  isAlternative: SEALED_TYPE.test(type)
    ? parent === undefined
    : isAlternativeType(type) &&
      node.disposition !== 'attachment' &&
      (parent === undefined || parent.node.multipart === 'alternative'),
})

/**
 * Whether the part is shown with the text: its disposition is `inline`, or it has no disposition, but a Content-ID, and
 * is inside a multipart/related.
 */
export function isInline(part: Part, contentId: string | null): boolean {
  if (part.node.disposition !== false && part.node.disposition !== '') return part.node.disposition === 'inline'
  if (contentId === null) return false
  for (let above = part.parent; above; above = above.parent) if (above.node.multipart === 'related') return true
  return false
}
