/**
 * @module Recognises and reads reports about a domain's mail from other hosts: DMARC aggregate (RFC 9990, RFC 7489
 * §7.2) and TLS-RPT (RFC 8460). Values that are no address, domain or count are left out. Does not check the sender: a
 * report is unverified.
 */
import { gunzipSync, inflateRawSync } from 'node:zlib'
import { type X2jOptions, XMLParser, XMLValidator } from 'fast-xml-parser'
import type { AttachmentFile, ParsedAttachment, ParsedMessage } from '#protocols/mime/parsed.ts'
import {
  type AggregateReport,
  cleanText,
  type DmarcRow,
  normaliseIp,
  type ReportRecords,
  sanitiseDomain,
  sanitiseTime,
  type TlsRow,
  toRecord,
  UnreadableReportError,
} from './report.ts'

/** Maximum number of attachments unpacked and read; each costs up to 10 MiB of memory. */
const MAX_ATTACHMENTS_READ = 3
/**
 * After an unreadable report above this size no other attachment is tried, because reading a report takes many times
 * its size in memory.
 */
const MAX_UNREADABLE_BYTES = 1024 * 1024

const MAX_RECORDS = 25_000
const MAX_RECORD_LENGTH = 64 * 1024
/** Of a record, and of a TLS report. */
const MAX_RESULTS = 8
const MAX_POLICIES = 20
const MAX_DETAILS = 1000
/** More than any receiver counts within the days of a report. */
const MAX_COUNT = 1_000_000_000

const NO_RECORDS: ReportRecords = { rows: [], sessions: [] }

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

const MAX_REPORT_BYTES = 10 * 1024 * 1024

const createTooLargeError = () => new UnreadableReportError('The report is larger than 10 MiB.')
const createCorruptError = () => new UnreadableReportError('The packed report is corrupt.')

/**
 * Returns the content of a gzip, of a zip with one file, or the bytes themselves when they are neither, within a limit
 * that a decompression bomb cannot exceed in memory. The first octets tell, because names and types are often wrong.
 */
function unpack(packed: Uint8Array): Uint8Array {
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

/**
 * Reads a TLS report (RFC 8460 §4.4).
 * @param namedDomain from the TLS-Report-Domain header field, for a report without policies
 */
function readTlsReport(content: Uint8Array, namedDomain: string | undefined): AggregateReport {
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder().decode(content))
  } catch {
    throw new UnreadableReportError('The JSON is not well-formed.')
  }
  const report = toRecord(json)
  const period = toRecord(report['date-range'])
  const policies: unknown = report['policies']
  const policy = toRecord(toRecord(Array.isArray(policies) ? policies[0] : undefined)['policy'])
  const domain = sanitiseDomain(policy['policy-domain']) ?? sanitiseDomain(namedDomain)
  const reportId = cleanText(report['report-id'])
  const organisation = cleanText(report['organization-name']) || cleanText(report['contact-info'])
  if (domain === undefined) throw new UnreadableReportError('The JSON names no policy-domain.')
  if (reportId === '' || organisation === '')
    throw new UnreadableReportError('The JSON has no organization-name or no report-id.')
  return {
    kind: 'tls',
    domain,
    organisation,
    reportId,
    beginMs: parseDateTime(period['start-datetime']),
    endMs: parseDateTime(period['end-datetime']),
    content,
    records: readTlsSessions(policies, domain),
  }
}

/** @param policies of the report; those for other domains are left out */
function readTlsSessions(policies: unknown, domain: string): ReportRecords {
  const sessions: TlsRow[] = []
  for (const each of toList(policies, MAX_POLICIES).map(toRecord)) {
    const summary = toRecord(each['summary'])
    const [good, bad] = ['successful', 'failure'].map((kind) => summary[`total-${kind}-session-count`])
    const isOurs = (sanitiseDomain(toRecord(each['policy'])['policy-domain']) ?? domain) === domain
    if (!isOurs || !isCount(good ?? 0) || !isCount(bad ?? 0)) continue
    if (Number(good) > 0) sessions.push({ count: Number(good), failure: '', receiver: '' })
    let unspecified = Number(bad ?? 0)
    for (const detail of toList(each['failure-details'], MAX_DETAILS).map(toRecord)) {
      const stated = detail['failed-session-count']
      const count = Math.min(isCount(stated) ? Number(stated) : 0, unspecified)
      if (count === 0) continue
      const failure = /^[a-z-]{1,40}$/.exec(cleanText(detail['result-type']).toLowerCase())?.[0] ?? 'unspecified'
      const host = cleanText(detail['receiving-mx-hostname']) || cleanText(detail['receiving-ip'])
      sessions.push({ count, failure, receiver: sanitiseDomain(host) ?? normaliseIp(host) ?? '' })
      unspecified -= count
    }
    if (unspecified > 0) sessions.push({ count: unspecified, failure: 'unspecified', receiver: '' })
  }
  return { ...NO_RECORDS, sessions }
}

const isCount = (value: unknown): boolean =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MAX_COUNT

/** RFC 3339, as RFC 8460 §4.4 requires. */
function parseDateTime(value: unknown): number | null {
  const text = cleanText(value)
  return /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d/.test(text) ? sanitiseTime(Date.parse(text)) : null
}

const MAX_LEVELS = 20
const LARGE_LENGTH = 1024 * 1024
/** Names of the elements to read, by depth; all others are parsed and dropped, and records are read one at a time. */
const READ_ELEMENTS: readonly ReadonlySet<string>[] = [
  new Set(['feedback']),
  new Set(['report_metadata', 'policy_published']),
  new Set(['org_name', 'email', 'report_id', 'date_range', 'domain']),
  new Set(['begin', 'end']),
]

/**
 * Reads a DMARC aggregate report (RFC 9990, RFC 7489 appendix C). Resolves only the five predefined XML entities and
 * rejects a document type, so the text cannot expand when it is read.
 */
function readDmarcReport(content: Uint8Array): AggregateReport {
  const xml = decodeXml(content)
  const root = firstElement(parseXml(xml)['feedback'])
  const metadata = firstElement(root['report_metadata'])
  const period = firstElement(metadata['date_range'])
  const published = firstElement(root['policy_published'])
  const domain = sanitiseDomain(readText(published['domain']))
  const reportId = readText(metadata['report_id'])
  const organisation = readText(metadata['org_name']) || readText(metadata['email'])
  if (domain === undefined) throw new UnreadableReportError('The XML names no domain in policy_published.')
  if (reportId === '' || organisation === '')
    throw new UnreadableReportError('The XML has no org_name or no report_id.')
  const [beginMs, endMs] = [parseSeconds(period['begin']), parseSeconds(period['end'])]
  const records = readDmarcRecords(xml, domain)
  return { kind: 'dmarc', domain, organisation, reportId, beginMs, endMs, content, records }
}

/**
 * Reads the records of well-formed XML one at a time, because the tree of all takes many times the memory of the text.
 * @param domain the domain of the policy, at or below which the From domain of each record must be
 */
function readDmarcRecords(xml: string, domain: string): ReportRecords {
  const parser = createParser(() => true)
  const rows: DmarcRow[] = []
  const end = /<\/(?:[\w.-]+:)?record\s*>/g
  let records = 0
  for (const { index } of xml.matchAll(/<(?:[\w.-]+:)?record[\s>]/g)) {
    // A record in a record is read once.
    if (index < end.lastIndex) continue
    end.lastIndex = index
    if (!end.test(xml)) break
    if (++records > MAX_RECORDS)
      return { ...NO_RECORDS, problem: `The report has more than ${MAX_RECORDS} records, so none is counted.` }
    const isShort = end.lastIndex - index <= MAX_RECORD_LENGTH
    const row = isShort ? readRecord(parser, xml.slice(index, end.lastIndex), domain) : undefined
    if (row) rows.push(row)
  }
  return { ...NO_RECORDS, rows }
}

function readRecord(parser: XMLParser, xml: string, domain: string): DmarcRow | undefined {
  let record: Readonly<Record<string, unknown>>
  try {
    record = firstElement(Object.values(toRecord(parser.parse(xml)))[0])
  } catch {
    // A tag in CDATA, a comment or an attribute looked like its end.
    return undefined
  }
  const row = firstElement(record['row'])
  const evaluated = firstElement(row['policy_evaluated'])
  const [identifiers, results] = [firstElement(record['identifiers']), firstElement(record['auth_results'])]
  const sourceIp = normaliseIp(readText(row['source_ip']))
  const count = parseCount(readText(row['count']))
  const from = sanitiseDomain(readText(identifiers['header_from'])) ?? domain
  if (sourceIp === undefined || count === undefined || !`.${from}`.endsWith(`.${domain}`)) return undefined
  const disposition = readText(evaluated['disposition']).toLowerCase()
  const get = (value: unknown, name: string) => readText(firstElement(value)[name]).toLowerCase()
  return {
    sourceIp,
    count,
    from,
    disposition: disposition === 'reject' || disposition === 'quarantine' ? disposition : 'none',
    isDkimAligned: get(evaluated, 'dkim') === 'pass',
    isSpfAligned: get(evaluated, 'spf') === 'pass',
    reasons: toList(evaluated['reason']).map((reason) => get(reason, 'type')),
    envelopeFrom: sanitiseDomain(readText(identifiers['envelope_from'])) ?? '',
    dkim: toList(results['dkim']).map((result) => ({
      domain: sanitiseDomain(get(result, 'domain')) ?? '',
      selector: get(result, 'selector'),
      result: get(result, 'result'),
      isKeyMissing: /no key|key not found|not found/.test(get(result, 'human_result')),
    })),
    spf: toList(results['spf']).map((result) => ({
      domain: sanitiseDomain(get(result, 'domain')) ?? '',
      result: get(result, 'result'),
    })),
  }
}

const toList = (value: unknown, max = MAX_RESULTS): readonly unknown[] =>
  (value === undefined ? [] : Array.isArray(value) ? (value as unknown[]) : [value]).slice(0, max)

function parseCount(text: string): number | undefined {
  const count = /^\d{1,10}$/.test(text) ? Number(text) : 0
  return count > 0 && count <= MAX_COUNT ? count : undefined
}

/** Both are needed: the parser alone accepts much that is not XML, and the validator does not limit the depth. */
function parseXml(text: string): Readonly<Record<string, unknown>> {
  if (/<!(?:DOCTYPE|ENTITY)/i.test(text)) throw new UnreadableReportError('The XML must not have a document type.')
  try {
    const parsed = firstElement(createParser().parse(text))
    // Parser and validator each allocate many times the size of the text, so the garbage of the parser is freed before
    // the validator runs.
    if (text.length > LARGE_LENGTH) Bun.gc(true)
    if (XMLValidator.validate(text) === true) return parsed
  } catch {
    // Reported below, as other text that is not XML.
  }
  throw new UnreadableReportError(`The XML is not well-formed, or has more than ${MAX_LEVELS} levels.`)
}

const isRead: NonNullable<X2jOptions['updateTag']> = (name, path) =>
  typeof path === 'string' || READ_ELEMENTS[path.getDepth() - 1]?.has(name) === true

const createParser = (updateTag: X2jOptions['updateTag'] = isRead): XMLParser =>
  new XMLParser({
    processEntities: false,
    ignoreAttributes: true,
    ignoreDeclaration: true,
    ignorePiTags: true,
    parseTagValue: false,
    removeNSPrefix: true,
    maxNestedTags: MAX_LEVELS,
    jPath: false,
    updateTag,
  })

/** Returns the members of an element, or those of the first element when there are several. */
const firstElement = (value: unknown): Readonly<Record<string, unknown>> =>
  toRecord(Array.isArray(value) ? value[0] : value)

/** Returns the text of an element, or that of the first element when there are several. */
const readText = (value: unknown): string => {
  const one: unknown = Array.isArray(value) ? value[0] : value
  return cleanText(typeof one === 'string' ? decodeEntities(one) : one)
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

const decodeEntities = (text: string): string =>
  text.slice(0, 4096).replace(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => ENTITIES[name] ?? '')

function parseSeconds(value: unknown): number | null {
  const text = readText(value)
  return /^\d{1,12}$/.test(text) ? sanitiseTime(Number(text) * 1000) : null
}

/** Decodes by byte order mark, else by the XML declaration, else as UTF-8. */
function decodeXml(content: Uint8Array): string {
  const start = Buffer.from(content.subarray(0, 200)).toString('latin1')
  const declared = /^(?:\xef\xbb\xbf)?\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']/.exec(start)?.[1]
  const label = start.startsWith('\xff\xfe')
    ? 'utf-16le'
    : start.startsWith('\xfe\xff')
      ? 'utf-16be'
      : (declared ?? 'utf-8')
  try {
    // Removes the empty line with which some reports begin, because an XML declaration must come first.
    return new TextDecoder(label as Bun.Encoding).decode(content).trimStart()
  } catch {
    throw new UnreadableReportError('The XML uses an unknown character set.')
  }
}
