/** @module Wire form of DMARC and TLS reports. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Bytes, Filter, PAGE_FIELDS, Text, TextOrNull, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import type { StoredReport } from './store.ts'

export const ReportsQuery = Type.Object({ ...PAGE_FIELDS, domain: Filter('Only reports about this domain.') })
const REPORT_FIELDS = {
  id: Uuid({ description: 'Id of the report.' }),
  kind: Text('`dmarc` or `tls`.'),
  account: TextOrNull('Name of the account that has the domain; null: none has.'),
  domain: Text('Domain that it is about.'),
  organisation: Text('Who reports.'),
  report_id: Text('Id that the reporter gave it.'),
  period_start: TimeOrNull('Start of its period.'),
  period_end: TimeOrNull('End of its period.'),
  size_bytes: Bytes('Size of its content'),
  received_at: Timestamp({ description: 'When it arrived.' }),
}
export const DomainReport = Type.Object(REPORT_FIELDS)
export type DomainReport = Static<typeof DomainReport>
export const DomainReportDetail = Type.Object({
  ...REPORT_FIELDS,
  content: Text('The unpacked XML or JSON; its first part when it is very long.'),
  is_truncated: Type.Boolean({ description: 'Whether `content` is only the first part.' }),
})
export type DomainReportDetail = Static<typeof DomainReportDetail>

export const toReportView = (stored: StoredReport): DomainReport =>
  toWire(DomainReport, stored, {
    period_start: isoTimeOrNull(stored.beginAt),
    period_end: isoTimeOrNull(stored.endAt),
    received_at: isoTime(stored.createdAt),
  })
