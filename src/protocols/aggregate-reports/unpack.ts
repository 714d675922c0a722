/**
 * @module Unpacks what a report travels in: gzip, or a zip with one file, as a stream that ends at a bound, so that no bomb is ever whole in memory.
 * Goes by the first octets, since names and types are often wrong. Never unpacks twice.
 */
import { Gunzip, Unzip, UnzipInflate } from 'fflate'

export type Unpacked =
  | { readonly kind: 'ok'; readonly content: Uint8Array }
  /** One sentence that says why. */
  | { readonly kind: 'refused'; readonly reason: string }

export const MAX_REPORT_BYTES = 10 * 1024 * 1024
/** Real reports shrink to a tenth or a fiftieth; deflate can do a thousandth. */
const MAX_RATIO = 200
/** Up to here the ratio says nothing: a short report of equal lines. */
const RATIO_COUNTS_FROM_BYTES = 1024 * 1024
/** Given to the unpacker at once: what comes out of it, at most a thousand times as much, is in memory before it can be counted. */
const PIECE_BYTES = 4 * 1024

/** Why the unpacking ended, in the one form that passes through the unpacker's callbacks. */
class Refused extends Error {}

/** What is in a gzip or a zip, or the bytes themselves when they are neither. */
export function unpack(packed: Uint8Array): Unpacked {
  try {
    const content = isGzip(packed) ? gunzip(packed) : isZip(packed) ? unzip(packed) : within(packed)
    if (isGzip(content) || isZip(content)) return refused('The report is packed twice.')
    return { kind: 'ok', content }
  } catch (error) {
    return refused(error instanceof Refused ? error.message : 'The packed report is damaged.')
  }
}

const refused = (reason: string): Unpacked => ({ kind: 'refused', reason })

const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b
/** A local file header, or the end of an archive without a file. */
const isZip = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x50 && bytes[1] === 0x4b && (bytes[2] === 0x03 || bytes[2] === 0x05)

function within(bytes: Uint8Array): Uint8Array {
  if (bytes.length > MAX_REPORT_BYTES) throw tooLarge()
  return bytes
}

const tooLarge = (): Refused => new Refused('The report is larger than 10 MiB.')

function gunzip(packed: Uint8Array): Uint8Array {
  const gathered = gather(packed.length)
  const stream = new Gunzip(gathered.add)
  for (const { piece, isLast } of piecesOf(packed)) stream.push(piece, isLast)
  return gathered.whole()
}

function unzip(packed: Uint8Array): Uint8Array {
  const gathered = gather(packed.length)
  let files = 0
  const stream = new Unzip((file) => {
    if (++files > 1) throw new Refused('The archive has more than one file.')
    file.ondata = (error, part) => {
      if (error) throw error
      gathered.add(part)
    }
    file.start()
  })
  stream.register(UnzipInflate)
  for (const { piece, isLast } of piecesOf(packed)) stream.push(piece, isLast)
  if (files === 0) throw new Refused('The archive has no file.')
  return gathered.whole()
}

function* piecesOf(bytes: Uint8Array): Generator<{ readonly piece: Uint8Array; readonly isLast: boolean }> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    // A copy: the unpacker keeps what it could not use yet, and lets nobody's buffer go.
    yield { piece: bytes.slice(at, at + PIECE_BYTES), isLast: at + PIECE_BYTES >= bytes.length }
  }
}

function gather(packedBytes: number): { add(part: Uint8Array): void; whole(): Uint8Array } {
  const parts: Uint8Array[] = []
  let sizeBytes = 0
  return {
    add(part) {
      sizeBytes += part.length
      if (sizeBytes > MAX_REPORT_BYTES) throw tooLarge()
      if (sizeBytes > RATIO_COUNTS_FROM_BYTES && sizeBytes > packedBytes * MAX_RATIO)
        throw new Refused('The report unpacks to more than 200 times its size.')
      if (part.length > 0) parts.push(part)
    },
    whole: () => Buffer.concat(parts),
  }
}
