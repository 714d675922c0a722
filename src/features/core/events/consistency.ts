/** @module Consistency rules of events: sequence numbers without gaps, and counters. */
import { codeRows, queryRule } from '#platform/db/consistency.ts'
import { createCounterRule, EVENTS_HORIZON, hourSql, hoursFromSql } from './counter-rules.ts'
import { skippedSql } from './gaps.ts'
import { EVENT_TYPES } from './record.ts'

/** SQL: the data were restored, and the gap that this made matches. */
const isGapSql = (where: string): string => `EXISTS (SELECT 1 FROM event_gaps WHERE ${where})`

export const eventNumbers = queryRule({
  rule: 'the events of an account are numbered from 1 without a gap, except where the data were restored',
  sql: `SELECT coalesce(s.account_id, e.account_id) AS account, coalesce(s.last_seq, 0) AS last, coalesce(e.n, 0) AS n,
      e.first, e.newest
    FROM event_sequences s FULL JOIN (
      SELECT account_id, count(*) AS n, min(seq) AS first, max(seq) AS newest FROM events GROUP BY account_id) e
      ON e.account_id = s.account_id
    WHERE CASE WHEN e.n IS NULL
      THEN s.last_seq > 0 AND ${EVENTS_HORIZON} = 0 AND NOT ${isGapSql('account_id IN (0, s.account_id) AND until_seq = s.last_seq')}
      ELSE (e.newest IS NOT s.last_seq AND NOT ${isGapSql('account_id = s.account_id AND after_seq = e.newest AND until_seq = s.last_seq')})
        OR e.n <> e.newest - e.first + 1 - ${skippedSql('e.account_id', 'e.first', 'e.newest')}
        OR e.first <> 1 AND ${EVENTS_HORIZON} = 0 AND NOT ${isGapSql('account_id = 0 AND until_seq = e.first - 1')} END`,
  describe: (r) =>
    `account ${r['account']}: the last assigned number is ${r['last']}, but there are ${r['n']} events, from ${r['first']} to ${r['newest']}`,
})

export const eventCounters = createCounterRule({
  rule: 'the counters of events by type and hour equal a recount',
  prefix: 'event:',
  counted: `SELECT account_id, name, ${hourSql('at')} AS hour, count(*) AS n FROM events
    JOIN ${codeRows(EVENT_TYPES)} ON code = type GROUP BY 1, 2, 3`,
  where: hoursFromSql(EVENTS_HORIZON),
})
