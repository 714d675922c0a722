/**
 * @module Writes the tree that MailComposer laid out, with encoded parts in place of its leaves. MimeNode's own `build()`
 * sends each part through a chain of streams, with a tick of the event loop between the parts; that costs more than all
 * the encoding. Never encodes a part, nor copies a large one.
 */
import type MimeNode from 'nodemailer/lib/mime-node'
import type { EncodedPart } from './encode.ts'

export interface SerialisedMessage {
  /** With the empty line that ends it. */
  readonly header: Buffer
  /** In pieces, with CRLF at the end of its last line. */
  readonly body: readonly Buffer[]
}

type PartOf = (leaf: MimeNode) => EncodedPart | undefined

/** @param partOf the encoded content of a leaf; undefined for an empty one */
export function serialiseTree(root: MimeNode, partOf: PartOf): SerialisedMessage {
  const header = headerOf(root)
  const body: Buffer[] = []
  if (root.multipart) writeChildren(root, body, partOf)
  else body.push(...(partOf(root)?.pieces ?? []))
  if (body.at(-1)?.subarray(-CRLF.length).equals(CRLF) === false) body.push(CRLF)
  return { header, body: merged(body) }
}

const CRLF = Buffer.from('\r\n')

/** Many small pieces cost more, at each thing that is done with them, than to copy them once. */
const SMALL_PIECE_BYTES = 8 * 1024

function merged(pieces: readonly Buffer[]): Buffer[] {
  const result: Buffer[] = []
  let small: Buffer[] = []
  const flush = () => {
    if (small.length > 0) result.push(Buffer.concat(small))
    small = []
  }
  for (const piece of pieces) {
    if (piece.length <= SMALL_PIECE_BYTES) {
      small.push(piece)
      continue
    }
    flush()
    result.push(piece)
  }
  flush()
  return result
}

const headerOf = (node: MimeNode): Buffer => Buffer.from(`${node.buildHeaders()}\r\n\r\n`)

function writeChildren(node: MimeNode, body: Buffer[], partOf: PartOf): void {
  for (const child of node.childNodes) {
    body.push(Buffer.from(`--${node.boundary}\r\n`), headerOf(child))
    const part = child.multipart ? undefined : partOf(child)
    if (child.multipart) writeChildren(child, body, partOf)
    else body.push(...(part?.pieces ?? []))
    // The line break before a boundary belongs to the boundary (RFC 2046 §5.1.1); that of base64 serves as well.
    if (part?.encoding !== 'base64') body.push(CRLF)
  }
  body.push(Buffer.from(`--${node.boundary}--\r\n`))
}
