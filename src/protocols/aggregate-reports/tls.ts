/** @module Reads the metadata of a TLS report (RFC 8460 §4.4), not its failures. */
import {
  type AggregateReport,
  cleanText,
  sanitiseDomain,
  sanitiseTime,
  toRecord,
  UnreadableReportError,
} from './report.ts'

/**
 * Throws UnreadableReportError.
 * @param namedDomain from the TLS-Report-Domain header field, for a report without policies
 */
export function readTlsReport(content: Uint8Array, namedDomain: string | undefined): AggregateReport {
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
  }
}

/** RFC 3339, as RFC 8460 §4.4 requires. */
function parseDateTime(value: unknown): number | null {
  const text = cleanText(value)
  return /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d/.test(text) ? sanitiseTime(Date.parse(text)) : null
}
