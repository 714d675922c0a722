/** @module DMARC and TLS reports in wire form: for `tassis reports` and the operator's routes. */
import type { App } from '#features/core/app/app.ts'
import { findReport, type StoredReport } from '#features/receiving/domain-reports/store.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import type { DomainReport } from './model.ts'

export const toReportView = (stored: StoredReport): DomainReport => ({
  id: formatUuid(stored.uuid),
  kind: stored.kind,
  account: stored.account,
  domain: stored.domain,
  organisation: stored.organisation,
  report_id: stored.reportId,
  period_start: isoTimeOrNull(stored.beginAt),
  period_end: isoTimeOrNull(stored.endAt),
  size_bytes: stored.sizeBytes,
  received_at: isoTime(stored.createdAt),
})

/** A domain in A-labels. Throws 422 for an invalid one. */
export function parseDomainName(text: string): string {
  const parsed = parseDomain(text)
  if (parsed.kind === 'invalid') throw invalid('domain', parsed.reason)
  return parsed.domain
}

/** A report with its content. Throws 404 for an unknown id, and when the content is no longer stored. */
export function readReport(app: App, id: string): DomainReport & { readonly content: Uint8Array } {
  const stored = findReport(app.db, id)
  try {
    return { ...toReportView(stored), content: app.content.get(stored.contentRef) }
  } catch (error) {
    app.log.warn({ err: error, report: id }, 'cannot read report content')
    throw notFound('report_content_gone', 'The report is no longer stored; only its entry in the list is left.')
  }
}
