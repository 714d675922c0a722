/** @module Findings and complaints in wire form: for `tassis accounts findings` and the operator's routes. */
import type { Database } from 'bun:sqlite'
import type { StoredComplaint } from '#features/receiving/complaints/rate.ts'
import type { AbuseFinding } from '#features/reporting/abuse/findings.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Finding, OperatorComplaint } from './model.ts'

export const toFindingWire = (finding: AbuseFinding): Finding => ({
  id: String(finding.id),
  account_id: formatUuid(finding.accountUuid),
  account: finding.accountName,
  source: finding.source,
  reason: finding.reason,
  paused: finding.paused === 1,
  email_id: finding.emailUuid && formatUuid(finding.emailUuid),
  detail: finding.detail === null ? null : JSON.parse(finding.detail),
  created_at: isoTime(finding.createdAt),
})

const sql = prepareStatements((db) => ({
  account: db.prepare<{ uuid: Uint8Array; name: string }, [number]>('SELECT uuid, name FROM accounts WHERE id = ?'),
}))

export function toComplaintWire(db: Database, complaint: StoredComplaint): OperatorComplaint {
  const account = sql(db).account.get(complaint.accountId)
  return {
    id: String(complaint.id),
    account_id: account && formatUuid(account.uuid),
    account: account?.name ?? null,
    email_id: complaint.emailUuid && formatUuid(complaint.emailUuid),
    complainer: complaint.address,
    feedback_type: complaint.feedbackType,
    feedback_loop: complaint.feedbackLoop,
    reporter: complaint.reporter,
    created_at: isoTime(complaint.createdAt),
  }
}
