/**
 * @module Reads the metadata of a DMARC aggregate report (RFC 9990, RFC 7489 appendix C), not its records. Resolves
 * only the five predefined XML entities and rejects a document type, so the text cannot expand when it is read.
 */
import { XMLParser, XMLValidator } from 'fast-xml-parser'
import {
  type AggregateReport,
  cleanText,
  sanitiseDomain,
  sanitiseTime,
  toRecord,
  UnreadableReportError,
} from './report.ts'

const MAX_LEVELS = 20
const LARGE_LENGTH = 1024 * 1024
/** Names of the elements to read, by depth; all others are parsed and dropped. */
const READ_ELEMENTS: readonly ReadonlySet<string>[] = [
  new Set(['feedback']),
  new Set(['report_metadata', 'policy_published']),
  new Set(['org_name', 'email', 'report_id', 'date_range', 'domain']),
  new Set(['begin', 'end']),
]

/** Throws UnreadableReportError. */
export function readDmarcReport(content: Uint8Array): AggregateReport {
  const root = firstElement(parseXml(decodeXml(content))['feedback'])
  const metadata = firstElement(root['report_metadata'])
  const period = firstElement(metadata['date_range'])
  const domain = sanitiseDomain(readText(firstElement(root['policy_published'])['domain']))
  const reportId = readText(metadata['report_id'])
  const organisation = readText(metadata['org_name']) || readText(metadata['email'])
  if (domain === undefined) throw new UnreadableReportError('The XML names no domain in policy_published.')
  if (reportId === '' || organisation === '')
    throw new UnreadableReportError('The XML has no org_name or no report_id.')
  const [beginMs, endMs] = [parseSeconds(period['begin']), parseSeconds(period['end'])]
  return { kind: 'dmarc', domain, organisation, reportId, beginMs, endMs, content }
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

const createParser = (): XMLParser =>
  new XMLParser({
    processEntities: false,
    ignoreAttributes: true,
    ignoreDeclaration: true,
    ignorePiTags: true,
    parseTagValue: false,
    removeNSPrefix: true,
    maxNestedTags: MAX_LEVELS,
    jPath: false,
    updateTag: (name, path) => typeof path === 'string' || READ_ELEMENTS[path.getDepth() - 1]?.has(name) === true,
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
