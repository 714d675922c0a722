/** @module Reads what a TLS report (RFC 8460 §4.4) says of itself. Reads none of its failures. */
import { domainOf, membersOf, type ReadReport, refused, textOf, timeOf } from './facts.ts'

/** Never throws. `namedDomain` is that of the header field TLS-Report-Domain, for a report without policies. */
export function readTlsReport(content: Uint8Array, namedDomain: string | undefined): ReadReport {
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder().decode(content))
  } catch {
    return refused('The JSON is not well-formed.')
  }
  const report = membersOf(json)
  const period = membersOf(report['date-range'])
  const policies: unknown = report['policies']
  const policy = membersOf(membersOf(Array.isArray(policies) ? policies[0] : undefined)['policy'])
  const domain = domainOf(policy['policy-domain']) ?? domainOf(namedDomain)
  const reportId = textOf(report['report-id'])
  const organisation = textOf(report['organization-name']) || textOf(report['contact-info'])
  if (domain === undefined) return refused('The JSON names no policy-domain.')
  if (reportId === '' || organisation === '') return refused('The JSON has no organization-name or no report-id.')
  return {
    kind: 'ok',
    report: {
      kind: 'tls',
      domain,
      organisation,
      reportId,
      beginMs: dateTimeOf(period['start-datetime']),
      endMs: dateTimeOf(period['end-datetime']),
      content,
    },
  }
}

/** RFC 3339, as RFC 8460 §4.4 wants it. */
function dateTimeOf(value: unknown): number | null {
  const text = textOf(value)
  return /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d/.test(text) ? timeOf(Date.parse(text)) : null
}
