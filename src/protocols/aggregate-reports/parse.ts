/**
 * @module Recognises and reads reports about a domain's mail from other hosts: DMARC aggregate (RFC 9990, RFC 7489
 * §7.2) and TLS-RPT (RFC 8460). Does not check the sender: a report is unverified.
 */
import type { AttachmentFile, ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'
import { readDmarcReport } from './dmarc.ts'
import { type AggregateReport, UnreadableReportError } from './report.ts'
import { readTlsReport } from './tls.ts'
import { createTooLargeError, MAX_REPORT_BYTES, unpack } from './unpack.ts'

/** Maximum number of attachments unpacked and read; each costs up to 10 MiB of memory. */
const MAX_ATTACHMENTS_READ = 3
/**
 * After an unreadable report above this size no other attachment is tried, because reading a report takes many times
 * its size in memory.
 */
const MAX_UNREADABLE_BYTES = 1024 * 1024

/** `receiver!domain!begin!end`, with or without a unique id (RFC 7489 §7.2.1.1, RFC 8460 §5.1). */
const REPORT_NAME = /^[^!]+![^!]+!\d+!\d+(?:![^!]+)?\.(?:xml|json|zip|gz)(?:\.gz)?$/i
const PACKED_NAME = /\.(?:xml|json|zip|gz)$/i
const REPORT_TYPE = /^application\/tlsrpt\+/
const PACKED_TYPES: ReadonlySet<string> = new Set(
  `application/gzip application/x-gzip application/zip application/x-zip application/x-zip-compressed
  application/xml text/xml application/json`.split(/\s+/),
)
/** RFC 7489 §7.2.1.1 and RFC 8460 §5.3 prescribe the start of the subject. */
const REPORT_SUBJECT = /^\s*Report[\s-]+Domain:/i

/**
 * Returns the report that a message carries, or undefined when it carries none. `refused` says in one sentence why a
 * message that is clearly a report cannot be read. Throws only when `readFile` throws.
 * @param readFile returns the whole content of a large attachment; if left out, attachments in files are refused as too
 * large
 */
export function parseAggregateReport(
  message: ParsedMessage,
  readFile?: (file: AttachmentFile) => Uint8Array,
): AggregateReport | { readonly refused: string } | undefined {
  const namedDomain = message.headers.find(([name]) => name.toLowerCase() === 'tls-report-domain')?.[1]
  const isReport = namedDomain !== undefined || REPORT_SUBJECT.test(message.subject) || isTlsReport(message)
  // Attachments named as reports come first, so that other attachments cannot use up the attempts.
  const named = message.attachments.filter(isNamedReport)
  const others = message.attachments.filter((each) => !isNamedReport(each) && isPacked(each))
  let problem: string | undefined
  for (const attachment of [...named, ...others].slice(0, MAX_ATTACHMENTS_READ)) {
    let content: Uint8Array | undefined
    try {
      content = unpackAttachment(attachment, readFile)
      return readReport(content, namedDomain)
    } catch (error) {
      if (!(error instanceof UnreadableReportError)) throw error
      if (isReport || isNamedReport(attachment)) problem ??= error.message
      if (content && content.length > MAX_UNREADABLE_BYTES) break
    }
  }
  return problem === undefined ? undefined : { refused: problem }
}

/** RFC 8460 §5.3: multipart/report; report-type=tlsrpt. */
const isTlsReport = ({ headers }: ParsedMessage): boolean =>
  headers.some(
    ([name, value]) =>
      name.toLowerCase() === 'content-type' &&
      /^\s*multipart\/report\b[\s\S]*report-type\s*=\s*"?tlsrpt\b/i.test(value.slice(0, 2048)),
  )

const isNamedReport = ({ filename, contentType }: ParsedAttachment): boolean =>
  REPORT_TYPE.test(contentType) || REPORT_NAME.test(filename?.slice(-512) ?? '')

const isPacked = ({ filename, contentType }: ParsedAttachment): boolean =>
  PACKED_TYPES.has(contentType) || PACKED_NAME.test(filename ?? '')

function unpackAttachment(
  { content, file }: ParsedAttachment,
  readFile: ((file: AttachmentFile) => Uint8Array) | undefined,
): Uint8Array {
  if (!file) return unpack(content)
  // An attachment that exceeds the limit while packed also exceeds it when unpacked.
  if (!readFile || file.sizeBytes > MAX_REPORT_BYTES) throw createTooLargeError()
  return unpack(readFile(file))
}

function readReport(content: Uint8Array, namedDomain: string | undefined): AggregateReport {
  const start = Buffer.from(content.subarray(0, 100))
    .toString('latin1')
    // Removes byte order marks, and the zero octets of UTF-16.
    .replace(/^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)|\0/g, '')
    .trimStart()
  if (start.startsWith('<')) return readDmarcReport(content)
  if (start.startsWith('{')) return readTlsReport(content, namedDomain)
  throw new UnreadableReportError('The attachment is neither XML nor JSON.')
}
