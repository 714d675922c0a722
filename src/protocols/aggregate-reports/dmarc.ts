/**
 * @module Reads what a DMARC aggregate report (RFC 9990, RFC 7489 appendix C) says of itself. Reads none of its records, knows no entity but the five
 * of XML, and takes no document type, so nothing can grow in it.
 */
import { XMLParser, XMLValidator } from 'fast-xml-parser'
import { domainOf, membersOf, type ReadReport, refused, textOf, timeOf } from './facts.ts'

const MOST_LEVELS = 20
const LARGE_CHARACTERS = 1024 * 1024
/** What is read, by its depth; everything else is parsed and dropped. */
const WANTED: readonly ReadonlySet<string>[] = [
  new Set(['feedback']),
  new Set(['report_metadata', 'policy_published']),
  new Set(['org_name', 'email', 'report_id', 'date_range', 'domain']),
  new Set(['begin', 'end']),
]

/** Never throws. */
export function readDmarcReport(content: Uint8Array): ReadReport {
  const text = xmlText(content)
  if (text === undefined) return refused('The XML is in a character set that is not known.')
  if (/<!(?:DOCTYPE|ENTITY)/i.test(text)) return refused('The XML has a document type, which reports may not have.')
  try {
    // The parser alone passes over much that is no XML, and the validator does not count levels.
    const root = element(element(parser().parse(text))['feedback'])
    // Both make many times the text of garbage, of which half must not wait for the other half.
    if (text.length > LARGE_CHARACTERS) Bun.gc(true)
    if (XMLValidator.validate(text) !== true) return refused('The XML is not well-formed.')
    const metadata = element(root['report_metadata'])
    const period = element(metadata['date_range'])
    const domain = domainOf(firstText(element(root['policy_published'])['domain']))
    const reportId = firstText(metadata['report_id'])
    const organisation = firstText(metadata['org_name']) || firstText(metadata['email'])
    if (domain === undefined) return refused('The XML names no domain in policy_published.')
    if (reportId === '' || organisation === '') return refused('The XML has no org_name or no report_id.')
    const [beginMs, endMs] = [secondsOf(period['begin']), secondsOf(period['end'])]
    return { kind: 'ok', report: { kind: 'dmarc', domain, organisation, reportId, beginMs, endMs, content } }
  } catch (error) {
    return refused(
      error instanceof Error && /nested/i.test(error.message)
        ? `The XML has more than ${MOST_LEVELS} levels.`
        : 'The XML is not well-formed.',
    )
  }
}

const parser = (): XMLParser =>
  new XMLParser({
    processEntities: false,
    ignoreAttributes: true,
    ignoreDeclaration: true,
    ignorePiTags: true,
    parseTagValue: false,
    removeNSPrefix: true,
    maxNestedTags: MOST_LEVELS,
    jPath: false,
    updateTag: (name, path) => typeof path === 'string' || WANTED[path.getDepth() - 1]?.has(name) === true,
  })

/** An element, the first when there are several. */
const element = (value: unknown): Readonly<Record<string, unknown>> =>
  membersOf(Array.isArray(value) ? value[0] : value)

/** The text of an element, the first when there are several. */
const firstText = (value: unknown): string => {
  const one: unknown = Array.isArray(value) ? value[0] : value
  return textOf(typeof one === 'string' ? withoutEntities(one) : one)
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

const withoutEntities = (text: string): string =>
  text.slice(0, 4096).replace(/&(amp|lt|gt|quot|apos);/g, (_, name: string) => ENTITIES[name] ?? '')

function secondsOf(value: unknown): number | null {
  const text = firstText(value)
  return /^\d{1,12}$/.test(text) ? timeOf(Number(text) * 1000) : null
}

/** By its byte order mark or its declaration, else UTF-8. */
function xmlText(content: Uint8Array): string | undefined {
  const start = Buffer.from(content.subarray(0, 200)).toString('latin1')
  const declared = /^(?:\xef\xbb\xbf)?\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']/.exec(start)?.[1]
  const label = start.startsWith('\xff\xfe')
    ? 'utf-16le'
    : start.startsWith('\xfe\xff')
      ? 'utf-16be'
      : (declared ?? 'utf-8')
  try {
    // Some begin with an empty line, before which no declaration may stand.
    return new TextDecoder(label as Bun.Encoding).decode(content).trimStart()
  } catch {
    return undefined
  }
}
