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

interface ParseRequest extends SessionFacts {
  readonly rawRef: number
  readonly submitted: CompleteMessage['content']
  readonly hostname: string
  readonly wantsReport: boolean
}

/** The parser of received mail, which belongs to a later feature. */
export interface ReportParser {
  parse(request: ParseRequest): Promise<{ readonly report?: ParsedReport; readonly reportProblem?: string }>
}

/** Throws 422 for a file without a readable report, and for one about a domain that is not ours. */
export async function importReport(app: App, parser: ReportParser, file: { name: string; content: string }) {
  const content = Buffer.from(file.content, 'base64')
  if (content.length > MAX_FILE_BYTES) throw invalid('content', `must be at most ${MAX_FILE_BYTES / MiB} MiB, decoded.`)
  const bytes = /\.eml$/i.test(file.name) || isMessage(content) ? content : wrap(content)
  const { report: parsed, reportProblem } = await parser.parse({
    submitted: { kind: 'bytes', bytes },
    rawRef: 0,
    sizeBytes: bytes.length,
    mailFrom: '',
    sourceIp: '',
    helo: '',
    tls: null,
    hostname: app.config.hostname,
    wantsReport: true,
  })
  const fail = (reason: string) => new AppError(422, 'report_refused', reason)
  if (parsed?.kind !== 'aggregate') throw fail(reportProblem ?? 'The file has no DMARC aggregate or TLS report.')
  const { report } = parsed
  const refusal = findReportRefusal(app, report, app.eventTime())
  if (refusal !== undefined) throw fail(refusal)
  const [contentRef] = await app.content.put([report.content], app.clock.now())
  if (contentRef === undefined) throw new Error('a report was not stored')
  const stored = await app.commit.write((tx) =>
    storeDomainReport(app, tx, { ...report, contentRef, origin: 'operator' }, app.eventTime()),
  )
  if (!stored) throw fail('The report is about a domain that no account here has.')
  const { kind, organisation, reportId: report_id, domain } = report
  return { kind, organisation, report_id, domain, is_new: stored.kind === 'stored', ...toOutcome(stored) }
}

const toOutcome = ({ counted, uncounted }: { counted: number; uncounted: string | null }) => ({ counted, uncounted })

/** A header field at its start, which no XML, JSON or packed file has. */
const isMessage = (content: Uint8Array): boolean =>
  /^[A-Za-z][A-Za-z0-9-]{0,70}:\s/.test(Buffer.from(content.subarray(0, 100)).toString('latin1'))

/** The file as the only attachment of a message. */
const wrap = (content: Buffer): Buffer =>
  Buffer.from(
    `Subject: Report Domain:\r\nMIME-Version: 1.0\r\nContent-Type: application/gzip; name=a.gz\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=a.gz\r\n\r\n${content.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`,
  )
