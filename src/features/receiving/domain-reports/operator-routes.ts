/** @module /v1/operator/reports: DMARC and TLS reports that other hosts send. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import type { CompleteMessage, ParsedReport, SessionFacts } from '#features/receiving/received/message.ts'
import { AppError, invalid, notFound } from '#platform/errors.ts'
import { dataBody, isoTime, isoTimeOrNull, pageById, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB, MiB } from '#platform/units.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import { findReport, listReports, NO_OWNER, type StoredReport, storeDomainReport } from './store.ts'

const ReportsQuery = Type.Object({ ...S.PAGE_FIELDS, domain: S.Filter('Only reports about this domain.') })
const REPORT_FIELDS = {
  id: S.Uuid({ description: 'Id of the report.' }),
  kind: S.Text('`dmarc` or `tls`.'),
  account: S.TextOrNull('Name of the account that has the domain; null: none has.'),
  domain: S.Text('Domain that it is about.'),
  organisation: S.Text('Who reports, as it names itself.'),
  reporter: S.TextOrNull('Authenticated domain that sent it; null: none did, or it was imported.'),
  report_id: S.Text('Id that the reporter gave it.'),
  period_start: S.TimeOrNull('Start of its period.'),
  period_end: S.TimeOrNull('End of its period.'),
  size_bytes: S.Bytes('Size of its content'),
  received_at: S.Timestamp({ description: 'When it arrived.' }),
  counted: S.CountOrNull('Messages or TLS sessions that were counted; null: none.'),
  uncounted: S.TextOrNull('Why it was not counted, a sentence; null: it was.'),
}
const DomainReport = Type.Object(REPORT_FIELDS)
type DomainReport = Static<typeof DomainReport>
const DomainReportDetail = Type.Object({
  ...REPORT_FIELDS,
  content: S.Text('The unpacked XML or JSON; its first part when it is very long.'),
  is_truncated: Type.Boolean({ description: 'Whether `content` is only the first part.' }),
})

const toReportView = (stored: StoredReport): DomainReport =>
  toWire(DomainReport, stored, {
    period_start: isoTimeOrNull(stored.beginAt),
    period_end: isoTimeOrNull(stored.endAt),
    received_at: isoTime(stored.createdAt),
  })

const MAX_CONTENT_BYTES = 512 * KiB

const ReportFile = S.StrictObject({
  name: Type.String({ maxLength: 1024, description: 'Name of the file; `.eml`: a message with the report.' }),
  content: Type.String({ description: 'XML, JSON, gzip, zip or message, in base64; 15 MiB decoded.' }),
})
const ImportedReport = Type.Object({
  ...REPORT_FIELDS,
  is_new: Type.Boolean({ description: 'Whether it was stored now; else it is known and changes nothing.' }),
})

export const operatorReportRoutes = (app: App, { parser }: { readonly parser: ReportParser }) =>
  new Elysia({ prefix: '/v1/operator/reports' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'domain_reports' })
        const page = S.parsePage(query)
        const parsed = query.domain === undefined ? undefined : parseDomain(query.domain.trim())
        if (parsed?.kind === 'invalid') throw invalid('domain', parsed.reason)
        const { reports, total } = listReports(app.db, parsed?.domain, page)
        return pageById(reports, { ...page, total }, toReportView)
      },
      {
        query: ReportsQuery,
        response: S.PageBody(DomainReport),
        detail: operatorRoute(
          'List DMARC and TLS reports',
          'What other hosts report about domains of this service; newest first.',
        ),
      },
    )
    .post('/', async ({ body }) => dataBody(await importReport(app, parser, body)), {
      body: ReportFile,
      response: S.DataBody(ImportedReport),
      detail: commandRoute(
        'Import a DMARC or TLS report',
        'The same report again changes nothing. Counted without authentication of its sender: import only what you trust.',
        { 422: ['report_refused', 'The file has no readable report, or one about a domain that is not here.'] },
      ),
    })
    .get(
      '/:id',
      async ({ actor, params }) => {
        const { content, ...view } = readReport(app, params.id)
        await recordView(app, actor, { name: 'domain_report', id: view.id })
        return dataBody({
          ...view,
          content: new TextDecoder().decode(content.subarray(0, MAX_CONTENT_BYTES)),
          is_truncated: content.length > MAX_CONTENT_BYTES,
        })
      },
      {
        params: Type.Object({ id: S.Text('Id of the report.') }),
        response: S.DataBody(DomainReportDetail),
        detail: operatorRoute('Get a DMARC or TLS report', undefined, {
          404: ['report_not_found', 'No report has this id, or it is no longer stored.'],
        }),
      },
    )

/** A report with its content. Throws 404 for an unknown id, and when the content is no longer stored. */
function readReport(app: App, id: string): DomainReport & { readonly content: Uint8Array } {
  const stored = findReport(app.db, id)
  try {
    return { ...toReportView(stored), content: app.content.get(stored.contentRef) }
  } catch (error) {
    app.log.warn({ err: error, report: id }, 'cannot read report content')
    throw notFound('report_content_gone', 'The report is no longer stored; only its entry in the list is left.')
  }
}

/** A packed report may have 10 MiB; a message with it in base64 is larger. */
const MAX_FILE_BYTES = 15 * MiB
const SESSION = { rawRef: 0, mailFrom: '', sourceIp: '', helo: '', tls: null, wantsReport: true }

/** The parser of received mail, which belongs to a later feature. */
interface ReportParser {
  parse(
    request: SessionFacts & typeof SESSION & { submitted: CompleteMessage['content']; hostname: string },
  ): Promise<{ readonly report?: ParsedReport; readonly reportProblem?: string }>
}

/**
 * Imports a report from a file: XML, JSON, gzip, zip, or the message that carried it. The same Worker parses it as
 * received mail. An operator vouches for it, so it needs no authentication. Throws 422 for a file without a readable
 * report, and for one about a domain that is not ours.
 */
async function importReport(app: App, parser: ReportParser, file: { name: string; content: string }) {
  const content = Buffer.from(file.content, 'base64')
  if (content.length > MAX_FILE_BYTES) throw invalid('content', `must be at most ${MAX_FILE_BYTES / MiB} MiB, decoded.`)
  const bytes = /\.eml$/i.test(file.name) ? content : wrap(content)
  const submitted = { kind: 'bytes' as const, bytes }
  const { hostname } = app.config
  const request = { ...SESSION, submitted, hostname, sizeBytes: bytes.length }
  const { report: parsed, reportProblem } = await parser.parse(request)
  const fail = (reason: string) => new AppError(422, 'report_refused', reason)
  if (parsed?.kind !== 'aggregate') throw fail(reportProblem ?? 'The file has no DMARC aggregate or TLS report.')
  const { report } = parsed
  const [contentRef = 0] = await app.content.put([report.content], app.clock.now())
  const stored = await app.commit.write((tx) =>
    storeDomainReport(app, tx, { ...report, contentRef, origin: 'operator' }, app.eventTime()),
  )
  if (!stored) throw fail(NO_OWNER)
  return { ...toReportView(findReport(app.db, formatUuid(stored.uuid))), is_new: stored.isNew }
}

/** The file as the only attachment of a message. */
const wrap = (content: Buffer): Buffer =>
  Buffer.from(
    `Subject: Report Domain:\r\nContent-Type: application/gzip; name=a.gz\r\nContent-Transfer-Encoding: base64\r\n\r\n${content.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n`,
  )
