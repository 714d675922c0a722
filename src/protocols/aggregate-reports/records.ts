/**
 * @module What a report counts: the records of a DMARC aggregate (RFC 9990, RFC 7489 appendix C) and the sessions of a
 * TLS report (RFC 8460 §4.4), added up and limited. Values that are no address, domain or count are left out.
 */
import { isIP } from 'node:net'
import { cleanText, type DmarcRow, type ReportRecords, sanitiseDomain, type TlsRow, toRecord } from './report.ts'

export const MAX_RECORDS = 25_000
const MAX_RECORD_LENGTH = 64 * 1024
/** Of a record, and of a TLS report. */
const MAX_RESULTS = 8
const MAX_POLICIES = 20
const MAX_DETAILS = 1000
/** More than any receiver counts within the days of a report. */
const MAX_COUNT = 1_000_000_000

export const NO_RECORDS: ReportRecords = { rows: [], sessions: [], policy: {}, skipped: 0 }

/** Reads the members of an element as the XML parser returns them. */
export interface XmlReader {
  parse(text: string): Readonly<Record<string, unknown>>
  text(value: unknown): string
  first(value: unknown): Readonly<Record<string, unknown>>
}

/**
 * Reads the records of well-formed XML one at a time, because the tree of all takes many times the memory of the text.
 * @param domain the domain of the policy, at or below which the From domain of each record must be
 */
export function readDmarcRecords(xml: string, domain: string, published: unknown, reader: XmlReader): ReportRecords {
  const groups = new Map<string, DmarcRow>()
  const end = /<\/(?:[\w.-]+:)?record\s*>/g
  let skipped = 0
  let records = 0
  for (const { index } of xml.matchAll(/<(?:[\w.-]+:)?record[\s>]/g)) {
    // A record in a record is read once.
    if (index < end.lastIndex) continue
    end.lastIndex = index
    if (!end.test(xml)) break
    if (++records > MAX_RECORDS)
      return { ...NO_RECORDS, problem: `The report has more than ${MAX_RECORDS} records, so none is counted.` }
    const isShort = end.lastIndex - index <= MAX_RECORD_LENGTH
    const row = isShort ? readRecord(xml.slice(index, end.lastIndex), domain, reader) : undefined
    if (row) addRow(groups, row)
    else skipped++
  }
  const tags = 'p sp np adkim aspf pct fo testing t'.split(' ')
  const texts = tags.map((tag) => [tag === 'testing' ? 't' : tag, reader.text(toRecord(published)[tag]).toLowerCase()])
  const policy = Object.fromEntries(texts.filter(([, text]) => /^[a-z0-9:]{1,10}$/.test(text ?? '')))
  return { ...NO_RECORDS, rows: [...groups.values()], policy, skipped }
}

function addRow(groups: Map<string, DmarcRow>, row: DmarcRow): void {
  const key = JSON.stringify({ ...row, count: 0 })
  groups.set(key, { ...row, count: row.count + (groups.get(key)?.count ?? 0) })
}

function readRecord(xml: string, domain: string, { parse, text, first }: XmlReader): DmarcRow | undefined {
  const record = first(Object.values(parse(xml))[0])
  const row = first(record['row'])
  const evaluated = first(row['policy_evaluated'])
  const [identifiers, results] = [first(record['identifiers']), first(record['auth_results'])]
  const sourceIp = normaliseIp(text(row['source_ip']))
  const count = parseCount(text(row['count']))
  const from = sanitiseDomain(text(identifiers['header_from'])) ?? domain
  if (sourceIp === undefined || count === undefined || !`.${from}`.endsWith(`.${domain}`)) return undefined
  const disposition = text(evaluated['disposition']).toLowerCase()
  const get = (value: unknown, name: string) => text(first(value)[name]).toLowerCase()
  return {
    sourceIp,
    count,
    disposition: disposition === 'reject' || disposition === 'quarantine' ? disposition : 'none',
    isDkimAligned: get(evaluated, 'dkim') === 'pass',
    isSpfAligned: get(evaluated, 'spf') === 'pass',
    reasons: toList(evaluated['reason']).map((reason) => get(reason, 'type')),
    envelopeFrom: sanitiseDomain(text(identifiers['envelope_from'])) ?? '',
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

/** An address in the one form by which rows are compared; undefined: it is none. */
export function normaliseIp(text: string): string | undefined {
  const ip = text.trim().replace(/^::ffff:(?=[\d.]+$)/i, '')
  if (isIP(ip) !== 6) return isIP(ip) === 4 ? ip : undefined
  return URL.parse(`http://[${ip.replace(/%.*/, '')}]`)?.hostname.slice(1, -1)
}

function parseCount(text: string): number | undefined {
  const count = /^\d{1,10}$/.test(text) ? Number(text) : 0
  return count > 0 && count <= MAX_COUNT ? count : undefined
}

/** @param policies of the report; those for other domains are left out */
export function readTlsSessions(policies: unknown, domain: string): ReportRecords {
  const sessions: TlsRow[] = []
  let skipped = 0
  for (const each of toList(policies, MAX_POLICIES).map(toRecord)) {
    const summary = toRecord(each['summary'])
    const [good, bad] = ['successful', 'failure'].map((kind) => summary[`total-${kind}-session-count`])
    const isOurs = (sanitiseDomain(toRecord(each['policy'])['policy-domain']) ?? domain) === domain
    if (!isOurs || !isCount(good ?? 0) || !isCount(bad ?? 0)) {
      skipped++
      continue
    }
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
  return { ...NO_RECORDS, sessions, skipped }
}

const isCount = (value: unknown): boolean =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MAX_COUNT
