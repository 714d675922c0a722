/** @module Consistency rules of complaints and of the stream counters, which include complaints. */
import { COMMON_HORIZON, createCounterRule, hourSql, hoursFromSql } from '#features/core/events/counter-rules.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { statusCodes } from '#features/sending/queue/status.ts'
import { STREAM_METRIC_PREFIX } from '#features/setup/streams/reputation.ts'
import { queryRule } from '#platform/db/consistency.ts'
import { NOT_SPAM, toComplaintMetric } from './apply.ts'

export const streamCounters = createCounterRule({
  rule: 'hourly stream stats equal a recount',
  prefix: STREAM_METRIC_PREFIX,
  counted: `SELECT account_id, stream_id || ':' || figure AS name, ${hourSql('at')} AS hour, count(*) AS n FROM (
      SELECT account_id, stream_id, 'sent' AS figure, created_at AS at
        FROM emails JOIN recipients ON email_id = emails.id
        WHERE sandbox = 0 AND recipients.status NOT IN (${statusCodes(['rejected', 'cancelled'])})
      UNION ALL SELECT account_id, stream_id, 'delivered', recipients.delivered_at
        FROM emails JOIN recipients ON email_id = emails.id
        WHERE sandbox = 0 AND recipients.delivered_at IS NOT NULL
      UNION ALL SELECT events.account_id, stream_id, 'bounced', at
        FROM events JOIN emails ON emails.id = email_id
        WHERE type = ${toEventCode('bounced')} AND sandbox = 0 AND json_extract(data, '$.bounce_type') = 'hard'
      UNION ALL SELECT complaints.account_id, stream_id, 'complained', complaints.created_at
        FROM complaints JOIN emails ON emails.id = complaints.email_id
        WHERE feedback_type <> '${NOT_SPAM}')
    GROUP BY 1, 2, 3`,
  where: hoursFromSql(COMMON_HORIZON),
})

export const complaintCounters = createCounterRule({
  rule: 'complaint counters by type and hour equal a recount',
  prefix: toComplaintMetric(''),
  counted: `SELECT account_id, feedback_type AS name, ${hourSql('created_at')} AS hour, count(*) AS n
    FROM complaints GROUP BY 1, 2, 3`,
  where: hoursFromSql(COMMON_HORIZON),
})

export const complaintEvents = queryRule({
  rule: 'every complaint of a recipient has exactly one event',
  sql: `SELECT recipient, sum(told) AS told, sum(stored) AS stored FROM (
      SELECT recipient_id AS recipient, 1 AS told, 0 AS stored FROM events LEFT JOIN emails ON emails.id = email_id
        WHERE type = ${toEventCode('complained')} AND at >= ${COMMON_HORIZON} AND coalesce(sandbox, 0) = 0
      UNION ALL SELECT recipient_id, 0, 1 FROM complaints
        WHERE recipient_id IS NOT NULL AND feedback_type <> '${NOT_SPAM}' AND created_at >= ${COMMON_HORIZON})
    GROUP BY recipient HAVING sum(told) <> sum(stored) OR sum(told) > 1`,
  describe: (r) => `recipient ${r['recipient']}: ${r['stored']} complaints stored, ${r['told']} events`,
})
