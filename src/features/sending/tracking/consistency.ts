/** @module Consistency rule of opens: each counted event exists. */
import { EVENTS_HORIZON } from '#features/core/events/counter-rules.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { queryRule } from '#platform/db/consistency.ts'

export const openEvents = queryRule({
  rule: 'every counted open event exists',
  sql: `SELECT recipient_id AS recipient, o.events, (
      SELECT count(*) FROM recipients r JOIN events e ON e.email_id = r.email_id AND e.recipient_id = r.id
        AND e.type = ${toEventCode('opened')} WHERE r.id = o.recipient_id) AS recorded
    FROM opens o JOIN recipients ON recipients.id = o.recipient_id
      JOIN emails ON emails.id = email_id AND emails.created_at >= ${EVENTS_HORIZON}
    WHERE o.events <> recorded`,
  describe: (r) =>
    `recipient ${r['recipient']}: ${r['events']} events of opens are counted, ${r['recorded']} are recorded`,
})
