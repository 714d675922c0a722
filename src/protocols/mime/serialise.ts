/**
 * @module Writes the tree that MailComposer compiled as bytes, in one go. MimeNode's own `build()` sends each part through a chain of streams, with
 * a turn of the event loop between the parts; that costs more than all the encoding. The bytes are the same, which the tests compare. Takes
 * strings and Buffers only, so there is nothing it could open or fetch.
 */
import { encode as encodeBase64, wrap as wrapBase64 } from 'nodemailer/lib/base64'
import type MimeNode from 'nodemailer/lib/mime-node'
import { encode as encodeQuotedPrintable, wrap as wrapQuotedPrintable } from 'nodemailer/lib/qp'

/** RFC 2045 §6.7 and §6.8. */
const ENCODED_LINE_LENGTH = 76
/** A multiple of 57, the octets of one base64 line, so that blocks join at line ends; large files are not held as one more string. */
const BASE64_BLOCK_OCTETS = 57 * 1_024

/** The message with CRLF at the end of its last line. Throws when a part is a stream or a reference to a file or URL. */
export function serialiseTree(root: MimeNode): Uint8Array {
  const chunks: string[] = []
  writeNode(root, chunks)
  const message = chunks.join('')
  return Buffer.from(message.endsWith('\r\n') ? message : `${message}\r\n`)
}

function writeNode(node: MimeNode, chunks: string[]): void {
  chunks.push(node.buildHeaders(), '\r\n\r\n')
  if (node.multipart) {
    for (const [index, child] of node.childNodes.entries()) {
      chunks.push(`${index > 0 ? '\r\n' : ''}--${node.boundary}\r\n`)
      writeNode(child, chunks)
    }
    chunks.push(`\r\n--${node.boundary}--\r\n`)
    return
  }
  const { content = '' } = node
  // Set by buildHeaders, from the content where the caller did not choose.
  const transferEncoding = node.getHeader('Content-Transfer-Encoding')
  if (typeof content !== 'string' && !Buffer.isBuffer(content)) throw new Error('a MIME part is neither text nor bytes')
  if (transferEncoding === 'base64') writeBase64(typeof content === 'string' ? Buffer.from(content) : content, chunks)
  else if (transferEncoding === 'quoted-printable')
    chunks.push(wrapQuotedPrintable(encodeQuotedPrintable(content), ENCODED_LINE_LENGTH))
  else chunks.push(content.toString())
}

function writeBase64(content: Buffer, chunks: string[]): void {
  for (let start = 0; start < content.length; start += BASE64_BLOCK_OCTETS) {
    if (start > 0) chunks.push('\r\n')
    chunks.push(wrapBase64(encodeBase64(content.subarray(start, start + BASE64_BLOCK_OCTETS)), ENCODED_LINE_LENGTH))
  }
}
