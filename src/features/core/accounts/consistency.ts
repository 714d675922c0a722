/** @module Consistency rule of the quota that sub-accounts share with their parent. */
import { formatMonth } from '#platform/content/read.ts'
import { queryRule } from '#platform/db/consistency.ts'

/** "At least", not "equal": the sum still contains the usage of deleted sub-accounts. */
export const subAccountQuota = queryRule({
  rule: 'the quota used by sub-accounts is at least the sum of their usage',
  sql: `SELECT parent_id AS account, month, sum(recipients) AS counted, coalesce((
      SELECT u.recipients FROM usage_of_sub_accounts u
      WHERE u.account_id = parent_id AND u.month = usage.month), 0) AS stored
    FROM accounts JOIN usage ON usage.account_id = accounts.id
    WHERE parent_id IS NOT NULL AND deleted_at IS NULL GROUP BY 1, 2 HAVING stored < counted`,
  describe: (r) =>
    `account ${r['account']}, month ${formatMonth(Number(r['month']))}: ${r['stored']} recipients are recorded for its sub-accounts, their usage adds up to ${r['counted']}`,
})
