/**
 * @module Unpacks a report from gzip, or from a zip with one file, within a limit that a decompression bomb cannot exceed
 * in memory. Detects the format by the first octets, because names and types are often wrong. Never unpacks twice.
 */
import { gunzipSync } from 'node:zlib'
import { unzipSync } from 'fflate'
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

function gunzip(packed: Uint8Array): Uint8Array {
  try {
    return gunzipSync(packed, { maxOutputLength: MAX_REPORT_BYTES })
  } catch (error) {
    throw error instanceof RangeError ? createTooLargeError() : createCorruptError()
  }
}

/** The library writes no more of a file than the archive says that it has. */
function unzip(packed: Uint8Array): Uint8Array {
  let files = 0
  const requireOneFile = ({ originalSize }: { readonly originalSize: number }): true => {
    if (++files > 1) throw new UnreadableReportError('The archive has more than one file.')
    if (originalSize > MAX_REPORT_BYTES) throw createTooLargeError()
    return true
  }
  let unpacked: Record<string, Uint8Array>
  try {
    unpacked = unzipSync(packed, { filter: requireOneFile })
  } catch (error) {
    throw error instanceof UnreadableReportError ? error : createCorruptError()
  }
  const [content] = Object.values(unpacked)
  if (!content) throw new UnreadableReportError('The archive has no file.')
  return content
}
