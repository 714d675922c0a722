/**
 * @module Imports a report from a file: XML, JSON, gzip, zip, or the message that carried it. The same Worker parses it
 * as received mail. An operator vouches for it, so it needs no authentication.
 */
import type { App } from '#features/core/app/app.ts'
import type { CompleteMessage, ParsedReport, SessionFacts } from '#features/receiving/received/message.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { MiB } from '#platform/units.ts'
import { findReportRefusal, storeDomainReport } from './store.ts'

/** A packed report may have 10 MiB; a message with it in base64 is larger. */
const MAX_FILE_BYTES = 15 * MiB
const SESSION = { rawRef: 0, mailFrom: '', sourceIp: '', helo: '', tls: null, wantsReport: true }

/** The parser of received mail, which belongs to a later feature. */
export interface ReportParser {
  parse(
    request: SessionFacts & typeof SESSION & { submitted: CompleteMessage['content']; hostname: string },
  ): Promise<{ readonly report?: ParsedReport; readonly reportProblem?: string }>
}

/** Throws 422 for a file without a readable report, and for one about a domain that is not ours. */
export async function importReport(app: App, parser: ReportParser, file: { name: string; content: string }) {
  const content = Buffer.from(file.content, 'base64')
  if (content.length > MAX_FILE_BYTES) throw invalid('content', `must be at most ${MAX_FILE_BYTES / MiB} MiB, decoded.`)
  const bytes = /\.eml$/i.test(file.name) ? content : wrap(content)
  const submitted = { kind: 'bytes' as const, bytes }
  const { hostname } = app.config
  const { report: parsed, reportProblem } = await parser.parse({
    ...SESSION,
    submitted,
    hostname,
    sizeBytes: bytes.length,
  })
  const fail = (reason: string) => new AppError(422, 'report_refused', reason)
  if (parsed?.kind !== 'aggregate') throw fail(reportProblem ?? 'The file has no DMARC aggregate or TLS report.')
  const { report } = parsed
  // An operator may import those of a year at once.
  const refusal = findReportRefusal(app, report, app.eventTime(), Number.POSITIVE_INFINITY)
  if (refusal !== undefined) throw fail(refusal)
  const [contentRef = 0] = await app.content.put([report.content], app.clock.now())
  const stored = await app.commit.write((tx) =>
    storeDomainReport(app, tx, { ...report, contentRef, origin: 'operator' }, app.eventTime()),
  )
  if (!stored) throw fail('The report is about a domain that no account here has.')
  const { kind, organisation, reportId: report_id, domain } = report
  const { kind: as, counted, uncounted } = stored
  return { kind, organisation, report_id, domain, is_new: as === 'stored', counted, uncounted }
}

/** The file as the only attachment of a message. */
const wrap = (content: Buffer): Buffer =>
  Buffer.from(
    `Subject: Report Domain:\r\nContent-Type: application/gzip; name=a.gz\r\nContent-Transfer-Encoding: base64\r\n\r\n${content.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`,
  )
