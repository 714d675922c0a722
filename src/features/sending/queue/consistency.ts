/** @module Consistency rules of emails and recipients: counters, queue, statuses and events, search, references. */
import type { Database } from 'bun:sqlite'
import {
  COMMON_HORIZON,
  createCounterRule,
  describeCounter,
  EVENTS_HORIZON,
  hourSql,
  hoursFromSql,
  LOGS_HORIZON,
} from '#features/core/events/counter-rules.ts'
import {
  CAPTURED_PREFIX,
  CAPTURED_TYPES,
  EVENT_TYPES,
  toCapturedMetric,
  toEventCode,
} from '#features/core/events/record.ts'
import {
  type ConsistencyRule,
  codeRows,
  describeRows,
  hexUuid,
  queryRule,
  type Violation,
} from '#platform/db/consistency.ts'
import { ENGAGEMENTS, engagementBit } from './settle.ts'
import { deriveEmailStatus, formatStatus, isOpen, STATUSES, type Status, statusCode, statusCodes } from './status.ts'

export const emailCounters = createCounterRule({
  rule: 'the counters of emails by status and hour equal a recount',
  prefix: 'email:',
  counted: `SELECT account_id, name, ${hourSql('created_at')} AS hour, count(*) AS n FROM emails
    JOIN ${codeRows(STATUSES)} ON code = status GROUP BY 1, 2, 3`,
})

export const sandboxEmailCounters = createCounterRule({
  rule: 'the counters of sandbox emails by status and hour equal a recount',
  prefix: 'sandbox-email:',
  counted: `SELECT account_id, name, ${hourSql('created_at')} AS hour, count(*) AS n FROM emails
    JOIN ${codeRows(STATUSES)} ON code = status WHERE sandbox = 1 GROUP BY 1, 2, 3`,
})

export const sandboxCounters = createCounterRule({
  rule: 'the counters of delivered sandbox mail equal a recount',
  prefix: 'sandbox:',
  counted: `SELECT events.account_id, 'delivered' AS name, ${hourSql('at')} AS hour, count(*) AS n
    FROM events JOIN emails ON emails.id = email_id
    WHERE type = ${toEventCode('delivered')} AND sandbox = 1 GROUP BY 1, 2, 3`,
  where: hoursFromSql(COMMON_HORIZON),
})

/**
 * Counters of events of captured mail that stats by hour subtract. Events of readers do not extend the retention of an
 * email, so once emails were removed there may be more.
 */
export const capturedCounters = queryRule({
  rule: 'the counters of events of captured mail equal a recount',
  sql: `SELECT account, metric, hour, sum(stored) AS stored, sum(counted) AS counted FROM (
      SELECT account_id AS account, metric, hour, value AS stored, 0 AS counted FROM counters
        WHERE metric IN (${CAPTURED_TYPES.map((type) => `'${toCapturedMetric(type)}'`).join(', ')})
      UNION ALL SELECT events.account_id, '${CAPTURED_PREFIX}' || name, ${hourSql('at')}, 0, count(*)
        FROM emails JOIN events ON events.email_id = emails.id JOIN ${codeRows(EVENT_TYPES)} ON code = type
        WHERE sandbox = 1 AND name IN (${CAPTURED_TYPES.map((type) => `'${type}'`).join(', ')}) GROUP BY 1, 2, 3)
    WHERE ${hoursFromSql(COMMON_HORIZON)}
    GROUP BY 1, 2, 3 HAVING sum(stored) < sum(counted) OR (sum(stored) > sum(counted) AND ${LOGS_HORIZON} = 0)`,
  describe: describeCounter,
})

export const engagements = queryRule({
  rule: 'every email is marked with the engagements of its events',
  sql: `SELECT ${hexUuid('uuid')} AS email, engagement, (SELECT coalesce(${ENGAGEMENTS.map(
    (type) => `max(type = ${toEventCode(type)}) * ${engagementBit(type)}`,
  ).join(' + ')}, 0) FROM events WHERE email_id = emails.id) AS counted
    FROM emails WHERE created_at >= ${EVENTS_HORIZON} AND engagement <> counted`,
  describe: (r) => `email ${r['email']}: marked ${r['engagement']}, its events say ${r['counted']}`,
})

export const recipientCounts = queryRule({
  rule: 'every email has the number of recipients that was accepted',
  sql: `SELECT ${hexUuid('uuid')} AS email, recipient_count AS accepted, count(recipients.id) AS n
    FROM emails LEFT JOIN recipients ON email_id = emails.id
    GROUP BY emails.id HAVING n <> recipient_count OR n = 0`,
  describe: (r) => `email ${r['email']}: ${r['accepted']} accepted, ${r['n']} stored`,
})

export const queueEntries = queryRule({
  rule: 'a recipient is in the queue exactly while it is open and no draft',
  sql: `SELECT id, status, lane, next_at FROM recipients
    WHERE (status IN (${statusCodes(STATUSES.filter(isOpen))})) <> (lane IS NOT NULL)
      OR (next_at IS NULL) <> (lane IS NULL OR status = ${statusCode('draft')})`,
  describe: (r) =>
    `recipient ${r['id']} is ${formatStatus(r['status'])}, with lane ${r['lane'] ?? 'none'} and next time ${r['next_at'] ?? 'none'}`,
})

export const deliveryTimes = queryRule({
  rule: 'only recipients that are processing, sent or uncertain have a delivery start, and only sent ones a delivery end',
  sql: `SELECT id, status FROM recipients
    WHERE (delivery_started_at IS NOT NULL AND status NOT IN (${statusCodes(['processing', 'sent', 'uncertain'])}))
      OR (delivered_at IS NOT NULL) <> (status = ${statusCode('sent')})`,
  describe: (r) => `recipient ${r['id']} is ${formatStatus(r['status'])}`,
})

/** Final statuses of a recipient, each with an event of the same name. */
const FINAL_EVENTS = ['sent', 'bounced', 'failed', 'rejected', 'uncertain'] as const

export const finalEvents = queryRule({
  rule: 'each final recipient has an event of its final status',
  sql: `SELECT r.id, r.status FROM recipients r
    JOIN (VALUES ${FINAL_EVENTS.map((name) => `(${statusCode(name)}, ${toEventCode(name)})`).join(', ')}) v
      ON v.column1 = r.status
    JOIN emails ON emails.id = r.email_id AND emails.created_at >= ${EVENTS_HORIZON}
    WHERE NOT EXISTS (
      SELECT 1 FROM events e WHERE e.email_id = r.email_id AND e.recipient_id = r.id AND e.type = v.column2)`,
  describe: (r) => `recipient ${r['id']} is ${formatStatus(r['status'])} without an event`,
})

export const sentOnce = queryRule({
  rule: 'no recipient was sent to twice',
  sql: `SELECT recipient_id AS id, count(*) AS n FROM events WHERE type = ${toEventCode('sent')}
    GROUP BY recipient_id HAVING n > 1`,
  describe: (r) => `recipient ${r['id']} was sent to ${r['n']} times`,
})

export const emailSearchIndex = queryRule({
  rule: 'every email up to the last indexed one is in the search index, and nothing else is',
  // Reads `main.emails`: the view `emails` omits deleted accounts, whose emails are still in the index.
  sql: `SELECT coalesce(e.id, s.id) AS id, e.id IS NULL AS lost
    FROM main.emails e FULL JOIN email_search_docsize s ON s.id = e.id 
      WHERE e.id IS NULL OR (s.id IS NULL AND e.id < (SELECT max(id) FROM email_search_docsize))`,
  describe: (r) =>
    r['lost'] === 1 ? `email ${r['id']} is in the index, but does not exist` : `email ${r['id']} is not in the index`,
})

export const emailReferences = queryRule({
  rule: 'everything that emails and idempotency keys refer to exists',
  sql: `SELECT 'email ' || ${hexUuid('uuid')} AS what, 'stream' AS missing FROM emails
      WHERE NOT EXISTS (SELECT 1 FROM streams WHERE streams.id = stream_id)
    UNION ALL SELECT 'email ' || ${hexUuid('uuid')}, 'operation' FROM emails
      WHERE operation_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM operations WHERE operations.id = operation_id)
    UNION ALL SELECT 'an idempotency key of account ' || account_id, 'email' FROM idempotency_keys
      WHERE NOT EXISTS (SELECT 1 FROM emails WHERE emails.id = email_id)`,
  describe: (r) => `${r['what']} lacks its ${r['missing']}`,
})

/** Depends only on the set of its recipients' statuses, so each existing combination is checked once. */
export const emailStatuses: ConsistencyRule = {
  rule: 'the status of each email follows from its recipients',
  findDifferences(db: Database) {
    const combinations = db
      .query<{ status: number; mask: number; n: number; email: string }, []>(
        `SELECT status, mask, count(*) AS n, min(${hexUuid('uuid')}) AS email FROM emails
         JOIN (SELECT email_id, sum(DISTINCT 1 << status) AS mask FROM recipients GROUP BY email_id)
           ON email_id = emails.id GROUP BY status, mask`,
      )
      .all()
    const wrong = combinations.filter(({ status, mask }) => {
      const present = STATUSES.filter((name) => (mask & (1 << statusCode(name))) !== 0)
      return deriveEmailStatus(present) !== STATUSES[status]
    })
    return describeRows(
      wrong,
      ({ status, n, email }) =>
        `${n} emails, such as ${email}, are ${formatStatus(status)}, which does not follow from their recipients`,
    )
  },
}

const COUNTED_STATUSES = ['sent', 'bounced', 'failed', 'rejected', 'cancelled', 'uncertain'] as const

export interface Balance extends Readonly<Record<(typeof COUNTED_STATUSES)[number], number>> {
  readonly account_id: number
  readonly account: string
  /** Counted from acceptance events. */
  readonly accepted: number
  /** A draft, queued, scheduled or processing. */
  readonly open: number
}

/** The balance of each account since the earliest time for which both its emails and its events are stored. */
export function readBalances(db: Database): Balance[] {
  const accepted = new Map(
    db
      .query<{ account: number; n: number }, []>(
        // DISTINCT, because a scheduled email has two of these events: one at acceptance, one when it is queued.
        `SELECT events.account_id AS account, count(DISTINCT email_id) AS n FROM events LEFT JOIN emails ON emails.id = email_id
         WHERE type IN (${toEventCode('queued')}, ${toEventCode('scheduled')}) AND recipient_id IS NULL
           AND at >= ${COMMON_HORIZON} AND coalesce(created_at, at) >= ${COMMON_HORIZON} GROUP BY events.account_id`,
      )
      .all()
      .map(({ account, n }) => [account, n]),
  )
  const rows = db
    .query<{ account: number; status: number; n: number }, []>(
      `SELECT account_id AS account, status, count(*) AS n FROM emails WHERE created_at >= ${COMMON_HORIZON} GROUP BY account_id, status`,
    )
    .all()
  const accounts = db.query<{ id: number; name: string }, []>('SELECT id, name FROM accounts ORDER BY id').all()
  return accounts.map(({ id, name }) => {
    const own = rows.filter((row) => row.account === id)
    const count = (isCounted: (status: Status) => boolean) =>
      own.reduce((sum, { status, n }) => {
        const counted = STATUSES[status]
        return counted !== undefined && isCounted(counted) ? sum + n : sum
      }, 0)
    const outcomes = COUNTED_STATUSES.map((status) => [status, count((other) => other === status)])
    return {
      account_id: id,
      account: name,
      accepted: accepted.get(id) ?? 0,
      ...(Object.fromEntries(outcomes) as Record<(typeof COUNTED_STATUSES)[number], number>),
      open: count(isOpen),
    }
  })
}

/** Checks that accepted = sent + bounced + failed + rejected + cancelled + uncertain + open. */
export const checkBalances = (all: readonly Balance[]): Violation => ({
  rule: 'accepted = sent + bounced + failed + rejected + cancelled + uncertain + open, in every account',
  differences: describeRows(
    all.filter((balance) => balance.accepted !== sumOutcomes(balance)),
    (balance) => `account ${balance.account_id}: ${balance.accepted} accepted, ${sumOutcomes(balance)} accounted for`,
  ),
})

const sumOutcomes = (balance: Balance): number =>
  COUNTED_STATUSES.reduce((sum, status) => sum + balance[status], balance.open)
