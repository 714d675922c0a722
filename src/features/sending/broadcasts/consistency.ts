/** @module Consistency rules of broadcasts, and of the monthly quota, in which their waiting recipients count. */
import { createCounterRule, LOGS_HORIZON } from '#features/core/events/counter-rules.ts'
import { IS_NEVER_ATTEMPTED } from '#features/sending/queue/settle.ts'
import { statusCode, statusCodes } from '#features/sending/queue/status.ts'
import { formatMonth } from '#platform/content/read.ts'
import { queryRule } from '#platform/db/consistency.ts'
import { BROADCAST_STATES } from './states.ts'

export const begunCounters = createCounterRule({
  rule: 'the counter of attempted recipients of each broadcast equals a recount',
  prefix: 'broadcast:',
  counted: `SELECT account_id, broadcast_id || ':begun' AS name, 0 AS hour, count(*) AS n
    FROM emails JOIN recipients ON email_id = emails.id
    WHERE broadcast_id IS NOT NULL AND NOT (${IS_NEVER_ATTEMPTED}) GROUP BY 1, 2`,
  where: `metric NOT IN (SELECT 'broadcast:' || id || ':begun' FROM broadcasts WHERE created_at < ${LOGS_HORIZON})`,
})

/** SQL: the year and month of a time in ms, in the form of the `usage` table. */
const monthSql = (time: string): string =>
  `(strftime('%Y', ${time} / 1000, 'unixepoch') * 12 + strftime('%m', ${time} / 1000, 'unixepoch') - 1)`

export const monthlyQuota = queryRule({
  rule: 'the quota used in each month equals a recount',
  sql: `SELECT account_id AS account, month, sum(stored) AS stored, sum(counted) AS counted FROM (
      SELECT account_id, month, recipients AS stored, 0 AS counted FROM usage
      UNION ALL SELECT account_id, quota_month, 0, count(*) FROM emails JOIN recipients ON email_id = emails.id
        WHERE quota_month IS NOT NULL AND recipients.status NOT IN (${statusCodes(['rejected', 'cancelled'])})
        GROUP BY 1, 2
      UNION ALL SELECT account_id, quota_month, 0, count(*)
        FROM broadcasts JOIN broadcast_recipients ON broadcast_id = broadcasts.id
        WHERE quota_month IS NOT NULL GROUP BY 1, 2)
    WHERE ${LOGS_HORIZON} = 0 OR month > ${monthSql(LOGS_HORIZON)}
    GROUP BY 1, 2 HAVING sum(stored) <> sum(counted)`,
  describe: (r) =>
    `account ${r['account']}, month ${formatMonth(Number(r['month']))}: ${r['stored']} recipients are recorded, a recount finds ${r['counted']}`,
})

export const broadcastProgress = queryRule({
  rule: 'every recipient of a broadcast is enqueued, skipped or waiting, and its operation has the same numbers',
  sql: `SELECT broadcasts.id AS broadcast, total, handed_over AS handed, left_out AS out,
      (SELECT count(*) FROM broadcast_recipients r WHERE r.broadcast_id = broadcasts.id) AS waiting,
      operations.completed_items AS completed, operations.failed_items AS failed
    FROM broadcasts LEFT JOIN operations ON operations.id = operation_id
    WHERE state <> ${BROADCAST_STATES.indexOf('fixing')}
      AND (handed + out + waiting <> total OR completed IS NOT handed OR failed IS NOT out)`,
  describe: (r) =>
    `broadcast ${r['broadcast']}: of ${r['total']} recipients ${r['handed']} are enqueued, ${r['out']} skipped and ${r['waiting']} waiting; its operation has ${r['completed']} completed and ${r['failed']} failed`,
})

export const broadcastEmails = queryRule({
  rule: 'a broadcast has as many emails as were enqueued and not withdrawn',
  sql: `SELECT broadcasts.id AS broadcast, handed_over AS handed, count(emails.id) AS n FROM broadcasts
    LEFT JOIN emails ON broadcast_id = broadcasts.id AND emails.status <> ${statusCode('cancelled')}
    WHERE broadcasts.created_at >= ${LOGS_HORIZON} GROUP BY broadcasts.id HAVING n <> handed_over`,
  describe: (r) => `broadcast ${r['broadcast']}: ${r['handed']} were enqueued, ${r['n']} emails exist`,
})
