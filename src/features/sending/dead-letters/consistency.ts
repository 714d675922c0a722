/** @module Consistency rule of dead letters: each belongs to the recipient it was created for. */
import { formatStatus, statusCode } from '#features/sending/queue/status.ts'
import { queryRule } from '#platform/db/consistency.ts'

export const deadLetterRecipients = queryRule({
  rule: 'the reason of each dead letter matches the status of its recipient',
  sql: `SELECT d.id, d.reason, d.recipient_id AS recipient, r.status FROM dead_letters d
      LEFT JOIN recipients r ON r.id = d.recipient_id AND r.email_id = d.email_id
      LEFT JOIN emails e ON e.id = d.email_id AND e.account_id = d.account_id
    WHERE e.id IS NULL OR r.status IS NOT CASE d.reason WHEN 'expired' THEN ${statusCode('bounced')}
      WHEN 'failed' THEN ${statusCode('failed')} WHEN 'uncertain' THEN ${statusCode('uncertain')} END`,
  describe: (r) =>
    `dead letter ${r['id']} (${r['reason']}): its recipient ${r['recipient']} is ${r['status'] === null ? 'missing' : formatStatus(r['status'])}`,
})
