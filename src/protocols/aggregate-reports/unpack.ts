/**
 * @module Unpacks a report from gzip, or from a zip with one file. Works as a stream with a size limit, so that the
 * content of a decompression bomb is never completely in memory. Detects the format by the first octets, because
 * names and types are often wrong. Never unpacks twice.
 */
import { Gunzip, Unzip, UnzipInflate } from 'fflate'

export type UnpackResult =
  | { readonly kind: 'ok'; readonly content: Uint8Array }
  /** One sentence that says why the report was refused. */
  | { readonly kind: 'refused'; readonly reason: string }

export const MAX_REPORT_BYTES = 10 * 1024 * 1024
/** Maximum compression factor. Real reports compress by a factor of 10 to 50; deflate reaches 1,000. */
const MAX_RATIO = 200
/** Content shorter than this may exceed the maximum factor: a short report of similar lines can compress better. */
const MIN_BYTES_FOR_RATIO = 1024 * 1024
/**
 * Octets passed to the unpacker per call. The output of a call, up to a thousand times as much, is in memory before it
 * is counted.
 */
const PIECE_BYTES = 4 * 1024

/** Carries the reason for a refusal through the unpacker's callbacks. */
class UnpackError extends Error {}

/** Returns the content of a gzip or zip, or the bytes themselves when they are neither. */
export function unpack(packed: Uint8Array): UnpackResult {
  try {
    const content = isGzip(packed) ? gunzip(packed) : isZip(packed) ? unzip(packed) : requireWithinLimit(packed)
    if (isGzip(content) || isZip(content)) return refuse('The report is packed twice.')
    return { kind: 'ok', content }
  } catch (error) {
    return refuse(error instanceof UnpackError ? error.message : 'The packed report is corrupt.')
  }
}

const refuse = (reason: string): UnpackResult => ({ kind: 'refused', reason })

const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b
/** A zip begins with a local file header, or with the end of an archive without files. */
const isZip = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x50 && bytes[1] === 0x4b && (bytes[2] === 0x03 || bytes[2] === 0x05)

function requireWithinLimit(bytes: Uint8Array): Uint8Array {
  if (bytes.length > MAX_REPORT_BYTES) throw createTooLargeError()
  return bytes
}

const createTooLargeError = (): UnpackError => new UnpackError('The report is larger than 10 MiB.')

function gunzip(packed: Uint8Array): Uint8Array {
  const collector = createCollector(packed.length)
  const stream = new Gunzip(collector.add)
  for (const { piece, isLast } of splitIntoPieces(packed)) stream.push(piece, isLast)
  return collector.whole()
}

function unzip(packed: Uint8Array): Uint8Array {
  const collector = createCollector(packed.length)
  let files = 0
  const stream = new Unzip((file) => {
    if (++files > 1) throw new UnpackError('The archive has more than one file.')
    file.ondata = (error, part) => {
      if (error) throw error
      collector.add(part)
    }
    file.start()
  })
  stream.register(UnzipInflate)
  for (const { piece, isLast } of splitIntoPieces(packed)) stream.push(piece, isLast)
  if (files === 0) throw new UnpackError('The archive has no file.')
  return collector.whole()
}

function* splitIntoPieces(bytes: Uint8Array): Generator<{ readonly piece: Uint8Array; readonly isLast: boolean }> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    // A copy, because the unpacker retains input that it has not used yet; with a view it would retain the whole input
    // buffer.
    yield { piece: bytes.slice(at, at + PIECE_BYTES), isLast: at + PIECE_BYTES >= bytes.length }
  }
}

function createCollector(packedBytes: number): { add(part: Uint8Array): void; whole(): Uint8Array } {
  const parts: Uint8Array[] = []
  let sizeBytes = 0
  return {
    add(part) {
      sizeBytes += part.length
      if (sizeBytes > MAX_REPORT_BYTES) throw createTooLargeError()
      if (sizeBytes > MIN_BYTES_FOR_RATIO && sizeBytes > packedBytes * MAX_RATIO)
        throw new UnpackError('The report unpacks to more than 200 times its size.')
      if (part.length > 0) parts.push(part)
    },
    whole: () => Buffer.concat(parts),
  }
}
