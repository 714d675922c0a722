/** @module Consistency rules of inbound emails: their counter and their events. */
import { createTotalRule, EVENTS_HORIZON } from '#features/core/events/counter-rules.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { hexUuid, queryRule } from '#platform/db/consistency.ts'
import { INBOUND_METRIC } from './inbound-emails.ts'

export const inboundTotal = createTotalRule({
  rule: 'the inbound email counter equals a recount',
  metric: INBOUND_METRIC,
  table: 'inbound_emails',
})

export const inboundEvents = queryRule({
  rule: 'exactly the inbound emails that matched a route have an event',
  sql: `SELECT ${hexUuid('i.uuid')} AS email, i.event_seq AS seq FROM inbound_emails i
    LEFT JOIN events e ON e.account_id = i.account_id AND e.seq = i.event_seq
      AND e.type = ${toEventCode('email.inbound')}
    WHERE i.created_at >= ${EVENTS_HORIZON} AND (i.route_id IS NOT NULL) <> (e.seq IS NOT NULL)`,
  describe: (r) => `inbound email ${r['email']}: its event is ${r['seq'] ?? 'none'}`,
})
