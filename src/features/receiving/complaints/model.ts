/** @module Wire form of spam complaints. */
import { type Static, Type } from '@sinclair/typebox'
import { findAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Count, Nullable, Text, TextOrNull, Timestamp, Uuid, UuidOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { StoredComplaint } from './rate.ts'

export const OperatorComplaint = Type.Object({
  id: Text('Id of the complaint.'),
  account_id: UuidOrNull('Id of the account; null: it is deleted.'),
  account: TextOrNull('Name of the account; null: it is deleted.'),
  email_id: UuidOrNull('Id of the email; null: it is deleted.'),
  complainer: TextOrNull('Address that complained; null: the report does not name it.'),
  feedback_type: Text('abuse, fraud, virus, not-spam or other.'),
  feedback_loop: TextOrNull('Provider that provably sent the report; null: no proof, so it pauses no account.'),
  reporter: TextOrNull('Program or server that sent the report.'),
  created_at: Timestamp({ description: 'When it arrived.' }),
})
export type OperatorComplaint = Static<typeof OperatorComplaint>

export const ComplaintRate = Type.Object({
  account_id: Uuid({ description: 'Id of the account.' }),
  account: Text('Name of the account.'),
  delivered: Count('Delivered recipients, without sandbox mail.'),
  complaints: Count('Complaints.'),
  rate: Nullable(Type.Number(), { description: 'Complaints per delivered recipient; null: none delivered.' }),
})

export function toComplaintWire(app: App, complaint: StoredComplaint): OperatorComplaint {
  const account = findAccount(app.config, app.db, complaint.accountId)
  return {
    id: String(complaint.id),
    account_id: account ? formatUuid(account.uuid) : null,
    account: account?.name ?? null,
    email_id: complaint.emailUuid && formatUuid(complaint.emailUuid),
    complainer: complaint.address,
    feedback_type: complaint.feedbackType,
    feedback_loop: complaint.feedbackLoop,
    reporter: complaint.reporter,
    created_at: isoTime(complaint.createdAt),
  }
}
