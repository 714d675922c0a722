/**
 * @module Serialises the tree that MailComposer created, with encoded parts in place of its leaves. MimeNode's own
 * `build()` is not used: it sends each part through a chain of streams, with a tick of the event loop between the
 * parts, which costs more than all the encoding. Never encodes a part, nor copies a large one.
 */
import type MimeNode from 'nodemailer/lib/mime-node'
import type { EncodedPart } from './encode.ts'

export interface SerialisedMessage {
  /** The header, with the empty line that ends it. */
  readonly header: Buffer
  /** The body in pieces; its last line ends with CRLF. */
  readonly body: readonly Buffer[]
}

type FindPart = (leaf: MimeNode) => EncodedPart | undefined

/** @param findPart returns the encoded content of a leaf; undefined when the leaf is empty */
export function serialiseTree(root: MimeNode, findPart: FindPart): SerialisedMessage {
  const header = buildHeader(root)
  const body: Buffer[] = []
  if (root.childNodes.length > 0) writeChildren(root, body, findPart)
  else body.push(...(findPart(root)?.pieces ?? []))
  if (body.at(-1)?.subarray(-CRLF.length).equals(CRLF) === false) body.push(CRLF)
  return { header, body: mergeSmallPieces(body) }
}

const CRLF = Buffer.from('\r\n')

/** Smaller pieces are merged: copying them once is cheaper than handling many pieces at every step. */
const SMALL_PIECE_BYTES = 8 * 1024

export function mergeSmallPieces(pieces: readonly Buffer[]): Buffer[] {
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

const buildHeader = (node: MimeNode): Buffer => Buffer.from(`${node.buildHeaders()}\r\n\r\n`)

function writeChildren(node: MimeNode, body: Buffer[], findPart: FindPart): void {
  for (const child of node.childNodes) {
    body.push(Buffer.from(`--${node.boundary}\r\n`), buildHeader(child))
    const part = child.multipart ? undefined : findPart(child)
    if (child.multipart) writeChildren(child, body, findPart)
    else body.push(...(part?.pieces ?? []))
    // The line break before a boundary belongs to the boundary (RFC 2046 §5.1.1). Base64 already ends with a line
    // break, which serves for this.
    if (part?.encoding !== 'base64') body.push(CRLF)
  }
  body.push(Buffer.from(`--${node.boundary}--\r\n`))
}
