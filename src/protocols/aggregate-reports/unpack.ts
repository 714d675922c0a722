/**
 * @module Unpacks a report from gzip, or from a zip with one file, within a limit that a decompression bomb cannot exceed
 * in memory. Detects the format by the first octets, because names and types are often wrong. Never unpacks twice.
 */
import { gunzipSync, inflateRawSync } from 'node:zlib'
import { UnreadableReportError } from './report.ts'

export const MAX_REPORT_BYTES = 10 * 1024 * 1024

export const createTooLargeError = () => new UnreadableReportError('The report is larger than 10 MiB.')
const createCorruptError = () => new UnreadableReportError('The packed report is corrupt.')

/** Returns the content of a gzip or zip, or the bytes themselves when they are neither. Throws UnreadableReportError. */
export function unpack(packed: Uint8Array): Uint8Array {
  const content = isGzip(packed) ? gunzip(packed) : isZip(packed) ? unzip(packed) : packed
  if (content.length > MAX_REPORT_BYTES) throw createTooLargeError()
  if (isGzip(content) || isZip(content)) throw new UnreadableReportError('The report is packed twice.')
  return content
}

const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b
/** A zip begins with a local file header, or with the end of an archive without files. */
const isZip = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x50 && bytes[1] === 0x4b && (bytes[2] === 0x03 || bytes[2] === 0x05)

function inflate(packed: Uint8Array, unpackSync: typeof gunzipSync): Uint8Array {
  try {
    return unpackSync(packed, { maxOutputLength: MAX_REPORT_BYTES })
  } catch (error) {
    throw error instanceof RangeError ? createTooLargeError() : createCorruptError()
  }
}

/** Some senders add a line break, which zlib refuses. The last octet of the trailer is 0, part of the size. */
const gunzip = (packed: Uint8Array): Uint8Array =>
  inflate(packed.subarray(0, packed.findLastIndex((byte) => byte !== 0x0d && byte !== 0x0a) + 1), gunzipSync)

/** Unpacks what follows the first header, without regard to the stated sizes: they are the sender's. */
function unzip(packed: Uint8Array): Uint8Array {
  const zip = Buffer.from(packed.buffer, packed.byteOffset, packed.length)
  if (zip[2] === 0x05) throw new UnreadableReportError('The archive has no file.')
  const directoryEnd = zip.lastIndexOf('PK\x05\x06')
  if (zip.length < 30 || (directoryEnd >= 0 && zip.length < directoryEnd + 12)) throw createCorruptError()
  if (directoryEnd >= 0 && zip.readUInt16LE(directoryEnd + 10) > 1)
    throw new UnreadableReportError('The archive has more than one file.')
  const content = zip.subarray(30 + zip.readUInt16LE(26) + zip.readUInt16LE(28))
  const isStored = zip.readUInt16LE(8) === 0
  return isStored ? content.subarray(0, zip.readUInt32LE(18)) : inflate(content, inflateRawSync)
}
