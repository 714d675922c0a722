/** @module Consistency rules of suppressions: their counters, and that contacts of suppressed addresses are stopped. */

import { createCounterRule, createTotalRule } from '#features/core/events/counter-rules.ts'
import { toContactStatusCode } from '#features/setup/contact-store/status.ts'
import { COMPLAINT, HARD_BOUNCE } from '#features/setup/suppression-store/check.ts'
import { TOTAL_METRIC } from '#features/setup/suppression-store/suppress.ts'
import { queryRule } from '#platform/db/consistency.ts'

export const suppressionTotal = createTotalRule({
  rule: 'the counter of suppressions equals a recount',
  metric: TOTAL_METRIC,
  table: 'suppressions',
})

export const suppressionCounters = createCounterRule({
  rule: 'the counters of suppressions by reason equal a recount',
  prefix: `${TOTAL_METRIC}:`,
  counted: `SELECT account_id, replace(replace(reason, '%', '%25'), '|', '%7C') AS name, 0 AS hour, count(*) AS n
    FROM suppressions GROUP BY 1, 2`,
})

export const suppressedContacts = queryRule({
  rule: 'no active contact has a suppression for an unsubscription, bounce or complaint',
  sql: `SELECT c.id, s.reason FROM contacts c
      JOIN suppressions s ON s.account_id = c.account_id AND s.address = c.address_key AND s.stream_id = 0
    WHERE c.status = ${toContactStatusCode('active')} AND (s.covers = 0 AND s.reason IN ('${HARD_BOUNCE}', '${COMPLAINT}')
      OR s.covers = 1 AND (s.list_id = c.list_id OR s.list_id = 0 AND c.opted_in_at IS NULL))`,
  describe: (r) => `contact ${r['id']} is active, and its address is on the suppression list (${r['reason']})`,
})
