/**
 * @module The books: what must be true of the database at every commit, as queries that find what is not. All of them read the same snapshot; none
 * writes. The totals that lists and quotas answer with are recounted from the rows that they sum up.
 */
import type { Database } from 'bun:sqlite'
import { type HorizonKind, horizonKey } from '#features/core/events/horizon.ts'
import { EVENT_TYPES, eventCode } from '#features/core/events/record.ts'
import { complaintMetric, NOT_SPAM } from '#features/receiving/complaints/apply.ts'
import { INBOUND_METRIC } from '#features/receiving/inbound/inbound-emails.ts'
import { BROADCAST_STATES } from '#features/sending/broadcasts/states.ts'
import { NEVER_TRIED } from '#features/sending/emails/settle.ts'
import { emailStatus, isOpen, STATUSES, type Status, statusCode } from '#features/sending/emails/status.ts'
import {
  CONTACT_STATUSES,
  CONTACTS,
  contactStatusCode,
  contactStatusName,
} from '#features/setup/contact-store/status.ts'
import { STREAM_METRIC } from '#features/setup/streams/figures.ts'
import { COMPLAINT, HARD_BOUNCE } from '#features/setup/suppressions/check.ts'
import { TOTAL_METRIC } from '#features/setup/suppressions/suppress.ts'
import { deliveryStatusCode, deliveryStatusName } from '#features/webhooks/webhooks/event-names.ts'
import { hours } from '#platform/units.ts'
import { examineFigures } from './books-figures.ts'
import { type Finding, MOST_DIFFERENCES, told } from './findings.ts'

const HOUR_MS = hours(1)

/** A query whose rows are the exceptions to a rule. */
interface Rule {
  readonly rule: string
  readonly sql: string
  readonly tell: (row: Readonly<Record<string, string | number | null>>) => string
}

const codes = (statuses: readonly Status[]): string => statuses.map(statusCode).join(', ')
const OPEN = codes(STATUSES.filter(isOpen))
const names = (list: readonly string[]): string => list.map((name, code) => `(${code}, '${name}')`).join(', ')
const ID = (column: string): string => `lower(hex(${column}))`

/** Statuses that a recipient ends in, and the event that tells of it. */
const FINAL_EVENTS = ['sent', 'bounced', 'failed', 'rejected', 'uncertain'] as const

/** What a deleted mailbox has left goes slice by slice. */
const IN_LIVING_MAILBOX = 'mailbox_id IN (SELECT id FROM agent_mailboxes WHERE deleted_at IS NULL)'

/** Rows of a kind are all there from this time on; what is older may have been removed by age or by budget. */
const FROM = (kind: HorizonKind): string =>
  `coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = '${horizonKey(kind)}'), 0)`
const EVENTS_FROM = FROM('events')
const LOGS_FROM = FROM('logs')
/** For what is counted by rows of both. */
export const BOTH_FROM = `max(${EVENTS_FROM}, ${LOGS_FROM})`

/** The year and month of a time in ms, as `usage` has it. */
const monthOf = (time: string): string =>
  `(strftime('%Y', ${time} / 1000, 'unixepoch') * 12 + strftime('%m', ${time} / 1000, 'unixepoch') - 1)`

/** Leaves out hours of which rows may have been removed. */
const inHoursFrom = (time: string): string => `hour * ${HOUR_MS} >= ${time}`

const RULES: readonly Rule[] = [
  {
    rule: 'the events of an account are numbered from 1 without a gap',
    sql: `SELECT coalesce(s.account_id, e.account_id) AS account, coalesce(s.last_seq, 0) AS last, coalesce(e.n, 0) AS n, e.first, e.newest
      FROM event_sequences s FULL JOIN (SELECT account_id, count(*) AS n, min(seq) AS first, max(seq) AS newest FROM events GROUP BY account_id) e
      ON e.account_id = s.account_id
      WHERE CASE WHEN e.n IS NULL THEN s.last_seq > 0 AND ${EVENTS_FROM} = 0
        ELSE e.newest IS NOT s.last_seq OR e.n <> e.newest - e.first + 1 OR e.first <> 1 AND ${EVENTS_FROM} = 0 END`,
    tell: (r) =>
      `account ${r['account']}: the last number given is ${r['last']}, but there are ${r['n']} events, from ${r['first']} to ${r['newest']}`,
  },
  {
    rule: 'the counters of emails by status and hour are what a recount gives',
    sql: recount(
      'email:',
      `SELECT account_id, name, created_at / ${HOUR_MS} AS hour, count(*) AS n FROM emails JOIN status_names ON code = status GROUP BY 1, 2, 3`,
    ),
    tell: tellCounter,
  },
  {
    rule: 'the counters of events by type and hour are what a recount gives',
    sql: recount(
      'event:',
      `SELECT account_id, name, at / ${HOUR_MS} AS hour, count(*) AS n FROM events JOIN event_names ON code = type GROUP BY 1, 2, 3`,
      inHoursFrom(EVENTS_FROM),
    ),
    tell: tellCounter,
  },
  {
    rule: 'the counter of suppressions is what a recount gives',
    sql: `SELECT account_id AS account, sum(stored) AS stored, sum(counted) AS counted FROM (
        SELECT account_id, value AS stored, 0 AS counted FROM counters WHERE metric = '${TOTAL_METRIC}'
        UNION ALL SELECT account_id, 0, count(*) FROM suppressions GROUP BY 1)
      GROUP BY 1 HAVING sum(stored) <> sum(counted)`,
    tell: (r) => `account ${r['account']}: the counter says ${r['stored']}, there are ${r['counted']}`,
  },
  {
    rule: 'the counters of suppressions by reason are what a recount gives',
    sql: recount(
      `${TOTAL_METRIC}:`,
      `SELECT account_id, replace(replace(reason, '%', '%25'), '|', '%7C') AS name, 0 AS hour, count(*) AS n FROM suppressions GROUP BY 1, 2`,
    ),
    tell: tellCounter,
  },
  {
    rule: 'the counters of contacts by list and status are what a recount gives',
    sql: recount(
      CONTACTS,
      `SELECT account_id, list_id || ':' || column2 AS name, 0 AS hour, count(*) AS n FROM contacts JOIN (VALUES ${names(CONTACT_STATUSES)}) v
         ON column1 = status GROUP BY 1, 2`,
    ),
    tell: tellCounter,
  },
  {
    rule: 'an active contact waits for no confirmation, and a pending one never was active',
    sql: `SELECT id, status FROM contacts WHERE status = ${contactStatusCode('active')} AND (confirming_since IS NOT NULL OR confirmed_at IS NULL)
      OR status = ${contactStatusCode('pending')} AND confirmed_at IS NOT NULL`,
    tell: (r) => `contact ${r['id']} is ${contactStatusName(Number(r['status']))}`,
  },
  {
    rule: 'no active contact unsubscribed, bounced or complained',
    sql: `SELECT c.id, s.reason FROM contacts c JOIN suppressions s ON s.account_id = c.account_id AND s.address = c.address_key AND s.stream_id = 0
      WHERE c.status = ${contactStatusCode('active')} AND (s.covers = 0 AND s.reason IN ('${HARD_BOUNCE}', '${COMPLAINT}')
        OR s.covers = 1 AND (s.list_id = c.list_id OR s.list_id = 0 AND c.opted_in_at IS NULL))`,
    tell: (r) => `contact ${r['id']} is active, and its address is on the suppression list (${r['reason']})`,
  },
  {
    rule: 'only an active contact gets the mail of its list although its address left all lists',
    sql: `SELECT id, status FROM contacts WHERE opted_in_at IS NOT NULL AND status <> ${contactStatusCode('active')}`,
    tell: (r) => `contact ${r['id']} is ${contactStatusName(Number(r['status']))}`,
  },
  {
    rule: 'the counters of sandbox mail that was delivered are what a recount gives',
    sql: recount(
      'sandbox:',
      `SELECT events.account_id, 'delivered' AS name, at / ${HOUR_MS} AS hour, count(*) AS n FROM events JOIN emails ON emails.id = email_id
       WHERE type = ${eventCode('delivered')} AND sandbox = 1 GROUP BY 1, 2, 3`,
      inHoursFrom(BOTH_FROM),
    ),
    tell: tellCounter,
  },
  {
    rule: 'the figures of streams by hour are what a recount gives',
    sql: recount(
      STREAM_METRIC,
      `SELECT account_id, stream_id || ':' || figure AS name, at / ${HOUR_MS} AS hour, count(*) AS n FROM (
          SELECT account_id, stream_id, 'sent' AS figure, created_at AS at FROM emails JOIN recipients ON email_id = emails.id
            WHERE sandbox = 0 AND recipients.status NOT IN (${codes(['rejected', 'cancelled'])})
          UNION ALL SELECT account_id, stream_id, 'delivered', recipients.delivered_at FROM emails JOIN recipients ON email_id = emails.id
            WHERE sandbox = 0 AND recipients.delivered_at IS NOT NULL
          UNION ALL SELECT events.account_id, stream_id, 'bounced', at FROM events JOIN emails ON emails.id = email_id
            WHERE type = ${eventCode('bounced')} AND sandbox = 0 AND json_extract(data, '$.bounce_type') = 'hard'
          UNION ALL SELECT complaints.account_id, stream_id, 'complained', complaints.created_at FROM complaints JOIN emails ON emails.id = email_id
            WHERE feedback_type <> '${NOT_SPAM}')
        GROUP BY 1, 2, 3`,
      inHoursFrom(BOTH_FROM),
    ),
    tell: tellCounter,
  },
  {
    rule: 'the counters of recipients that each broadcast has begun with are what a recount gives',
    sql: recount(
      'broadcast:',
      `SELECT account_id, broadcast_id || ':begun' AS name, 0 AS hour, count(*) AS n FROM emails JOIN recipients ON email_id = emails.id
       WHERE broadcast_id IS NOT NULL AND NOT (${NEVER_TRIED}) GROUP BY 1, 2`,
      `metric NOT IN (SELECT 'broadcast:' || id || ':begun' FROM broadcasts WHERE created_at < ${LOGS_FROM})`,
    ),
    tell: tellCounter,
  },
  {
    rule: 'the counter of inbound emails is what a recount gives',
    sql: `SELECT account_id AS account, sum(stored) AS stored, sum(counted) AS counted FROM (
        SELECT account_id, value AS stored, 0 AS counted FROM counters WHERE metric = '${INBOUND_METRIC}'
        UNION ALL SELECT account_id, 0, count(*) FROM inbound_emails GROUP BY 1)
      GROUP BY 1 HAVING sum(stored) <> sum(counted)`,
    tell: (r) => `account ${r['account']}: the counter says ${r['stored']}, there are ${r['counted']}`,
  },
  {
    rule: 'an inbound email that fell to a route is told by its event, and no other is',
    sql: `SELECT ${ID('i.uuid')} AS email, i.event_seq AS seq FROM inbound_emails i
      LEFT JOIN events e ON e.account_id = i.account_id AND e.seq = i.event_seq AND e.type = ${eventCode('email.inbound')}
      WHERE i.created_at >= ${EVENTS_FROM} AND (i.route_id IS NOT NULL) <> (e.seq IS NOT NULL)`,
    tell: (r) => `inbound email ${r['email']}: its event is ${r['seq'] ?? 'none'}`,
  },
  {
    rule: 'the counters of complaints by type and hour are what a recount gives',
    sql: recount(
      complaintMetric(''),
      `SELECT account_id, feedback_type AS name, created_at / ${HOUR_MS} AS hour, count(*) AS n FROM complaints GROUP BY 1, 2, 3`,
      inHoursFrom(BOTH_FROM),
    ),
    tell: tellCounter,
  },
  {
    rule: 'an event tells of every complaint of a recipient, and of nothing else',
    sql: `SELECT recipient, sum(told) AS told, sum(stored) AS stored FROM (
        SELECT recipient_id AS recipient, 1 AS told, 0 AS stored FROM events WHERE type = ${eventCode('complained')} AND at >= ${BOTH_FROM}
        UNION ALL SELECT recipient_id, 0, 1 FROM complaints WHERE recipient_id IS NOT NULL AND feedback_type <> '${NOT_SPAM}' AND created_at >= ${BOTH_FROM})
      GROUP BY recipient HAVING sum(told) <> sum(stored) OR sum(told) > 1`,
    tell: (r) => `recipient ${r['recipient']}: ${r['stored']} complaints are stored, ${r['told']} are told`,
  },
  {
    rule: 'the quota used in a month is what a recount gives',
    sql: `SELECT account_id AS account, month, sum(stored) AS stored, sum(counted) AS counted FROM (
        SELECT account_id, month, recipients AS stored, 0 AS counted FROM usage
        UNION ALL SELECT account_id, quota_month, 0, count(*) FROM emails JOIN recipients ON email_id = emails.id
          WHERE quota_month IS NOT NULL AND recipients.status NOT IN (${codes(['rejected', 'cancelled'])}) GROUP BY 1, 2
        UNION ALL SELECT account_id, quota_month, 0, count(*) FROM broadcasts JOIN broadcast_recipients ON broadcast_id = broadcasts.id
          WHERE quota_month IS NOT NULL GROUP BY 1, 2)
      WHERE ${LOGS_FROM} = 0 OR month > ${monthOf(LOGS_FROM)}
      GROUP BY 1, 2 HAVING sum(stored) <> sum(counted)`,
    tell: (r) =>
      `account ${r['account']}, month ${monthText(Number(r['month']))}: ${r['stored']} recipients are noted, ${r['counted']} are to be counted`,
  },
  {
    // What a deleted sub-account has sent stays in the sum.
    rule: 'the quota used by sub-accounts is no less than what each of them has used',
    sql: `SELECT parent_id AS account, month, sum(recipients) AS counted, coalesce((SELECT u.recipients FROM usage_of_sub_accounts u
        WHERE u.account_id = parent_id AND u.month = usage.month), 0) AS stored
      FROM accounts JOIN usage ON usage.account_id = accounts.id WHERE parent_id IS NOT NULL AND deleted_at IS NULL GROUP BY 1, 2 HAVING stored < counted`,
    tell: (r) =>
      `account ${r['account']}, month ${monthText(Number(r['month']))}: ${r['stored']} recipients are noted for its sub-accounts, ${r['counted']} are to be counted`,
  },
  {
    rule: 'every recipient of a broadcast was handed to delivery, left out or waits, and an operation says so',
    sql: `SELECT broadcasts.id AS broadcast, total, handed_over AS handed, left_out AS out, (SELECT count(*) FROM broadcast_recipients r
        WHERE r.broadcast_id = broadcasts.id) AS waiting, operations.completed_items AS completed, operations.failed_items AS failed
      FROM broadcasts LEFT JOIN operations ON operations.id = operation_id WHERE state <> ${BROADCAST_STATES.indexOf('fixing')}
        AND (handed + out + waiting <> total
          OR completed IS NOT handed OR failed IS NOT out)`,
    tell: (r) =>
      `broadcast ${r['broadcast']}: of ${r['total']} recipients ${r['handed']} were handed over, ${r['out']} left out, ${r['waiting']} wait; its operation says ${r['completed']} and ${r['failed']}`,
  },
  {
    rule: 'a broadcast has as many emails as were handed over and not taken back',
    sql: `SELECT broadcasts.id AS broadcast, handed_over AS handed, count(emails.id) AS n FROM broadcasts
      LEFT JOIN emails ON broadcast_id = broadcasts.id AND emails.status <> ${statusCode('cancelled')}
      WHERE broadcasts.created_at >= ${LOGS_FROM} GROUP BY broadcasts.id HAVING n <> handed_over`,
    tell: (r) => `broadcast ${r['broadcast']}: ${r['handed']} were handed over, ${r['n']} emails are there`,
  },
  {
    rule: 'every email has as many recipients as were accepted',
    sql: `SELECT ${ID('uuid')} AS email, recipient_count AS accepted, count(recipients.id) AS n FROM emails LEFT JOIN recipients ON email_id = emails.id
      GROUP BY emails.id HAVING n <> recipient_count OR n = 0`,
    tell: (r) => `email ${r['email']}: ${r['accepted']} accepted, ${r['n']} there`,
  },
  {
    rule: 'a recipient is in the queue exactly while it is open',
    sql: `SELECT id, status, lane, next_at FROM recipients
      WHERE (status IN (${OPEN})) <> (next_at IS NOT NULL) OR (next_at IS NULL) <> (lane IS NULL)`,
    tell: (r) =>
      `recipient ${r['id']} is ${statusText(r['status'])}, with lane ${r['lane'] ?? 'none'} and next time ${r['next_at'] ?? 'none'}`,
  },
  {
    rule: 'only a recipient that is in delivery, sent or uncertain has a start of delivery, and only a sent one an end',
    sql: `SELECT id, status FROM recipients
      WHERE (delivery_started_at IS NOT NULL AND status NOT IN (${codes(['processing', 'sent', 'uncertain'])}))
        OR (delivered_at IS NOT NULL) <> (status = ${statusCode('sent')})`,
    tell: (r) => `recipient ${r['id']} is ${statusText(r['status'])}`,
  },
  {
    rule: 'an event tells how each final recipient ended',
    sql: `SELECT r.id, r.status FROM recipients r JOIN (VALUES ${FINAL_EVENTS.map((name) => `(${statusCode(name)}, ${eventCode(name)})`).join(', ')}) v
        ON v.column1 = r.status
      JOIN emails ON emails.id = r.email_id AND emails.created_at >= ${EVENTS_FROM}
      WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.email_id = r.email_id AND e.recipient_id = r.id AND e.type = v.column2)`,
    tell: (r) => `recipient ${r['id']} is ${statusText(r['status'])} without an event`,
  },
  {
    rule: 'no recipient is sent to twice',
    sql: `SELECT recipient_id AS id, count(*) AS n FROM events WHERE type = ${eventCode('sent')} GROUP BY recipient_id HAVING n > 1`,
    tell: (r) => `recipient ${r['id']} was sent to ${r['n']} times`,
  },
  {
    rule: 'a dead letter belongs to a recipient that ended as it says',
    sql: `SELECT d.id, d.reason, d.recipient_id AS recipient, r.status FROM dead_letters d
        LEFT JOIN recipients r ON r.id = d.recipient_id AND r.email_id = d.email_id
        LEFT JOIN emails e ON e.id = d.email_id AND e.account_id = d.account_id
      WHERE e.id IS NULL OR r.status IS NOT
        CASE d.reason WHEN 'expired' THEN ${statusCode('bounced')} WHEN 'failed' THEN ${statusCode('failed')} WHEN 'uncertain' THEN ${statusCode('uncertain')} END`,
    tell: (r) =>
      `dead letter ${r['id']} (${r['reason']}): its recipient ${r['recipient']} is ${r['status'] === null ? 'not there' : statusText(r['status'])}`,
  },
  {
    rule: 'a webhook delivery has a next time exactly while it is pending',
    sql: `SELECT id, webhook_id AS webhook, status, next_at FROM webhook_deliveries
      WHERE (status = ${deliveryStatusCode('pending')}) <> (next_at IS NOT NULL)`,
    tell: (r) =>
      `delivery ${r['id']} of webhook ${r['webhook']} is ${deliveryStatusName(Number(r['status']))}, with next time ${r['next_at'] ?? 'none'}`,
  },
  {
    rule: 'no webhook has come further than the events of its account',
    sql: `SELECT w.id, cursor_seq AS cursor, coalesce(last_seq, 0) AS last FROM webhooks w
      LEFT JOIN event_sequences s ON s.account_id = w.account_id WHERE cursor_seq > coalesce(last_seq, 0)`,
    tell: (r) => `webhook ${r['id']} has come to event ${r['cursor']}, the last one is ${r['last']}`,
  },
  {
    rule: 'every open that a recipient has an event of is recorded',
    sql: `SELECT recipient_id AS recipient, o.events, (SELECT count(*) FROM recipients r JOIN events e ON e.email_id = r.email_id
        AND e.recipient_id = r.id AND e.type = ${eventCode('opened')} WHERE r.id = o.recipient_id) AS recorded
      FROM opens o JOIN recipients ON recipients.id = o.recipient_id JOIN emails ON emails.id = email_id AND emails.created_at >= ${EVENTS_FROM}
      WHERE o.events <> recorded`,
    tell: (r) => `recipient ${r['recipient']}: ${r['events']} events of opens are noted, ${r['recorded']} are recorded`,
  },
  {
    rule: 'the counts of a mailbox are what a recount gives',
    sql: `SELECT b.id, message_count AS messages, unread_count AS unread, unread_bytes AS bytes, thread_count AS threads,
        coalesce(m.received, 0) AS received, coalesce(m.unread, 0) AS waiting, coalesce(m.bytes, 0) AS waitingBytes, coalesce(t.n, 0) AS conversations FROM agent_mailboxes b
      LEFT JOIN (SELECT mailbox_id, sum(email_id IS NULL) AS received, sum(email_id IS NULL AND read_at IS NULL) AS unread,
          sum(iif(email_id IS NULL AND read_at IS NULL, size_bytes, 0)) AS bytes
        FROM mailbox_messages GROUP BY 1) m ON m.mailbox_id = b.id
      LEFT JOIN (SELECT mailbox_id, count(*) AS n FROM mailbox_threads GROUP BY 1) t ON t.mailbox_id = b.id
      WHERE b.deleted_at IS NULL AND (messages <> received OR b.unread_count <> waiting OR b.unread_bytes <> waitingBytes OR threads <> conversations)`,
    tell: (r) =>
      `mailbox ${r['id']}: ${r['messages']} messages, ${r['unread']} unread of ${r['bytes']} octets and ${r['threads']} threads are noted, there are ${r['received']}, ${r['waiting']} of ${r['waitingBytes']} and ${r['conversations']}`,
  },
  {
    rule: 'the counts of threads and contacts of a mailbox are what a recount gives',
    sql: `SELECT 'thread ' || id AS what, message_count AS stored, (SELECT count(*) FROM mailbox_messages WHERE thread_id = t.id) AS counted
        FROM mailbox_threads t WHERE ${IN_LIVING_MAILBOX} AND stored <> counted
      UNION ALL SELECT 'contact ' || coalesce(c.address, m.address) || ' of mailbox ' || mailbox_id, coalesce(c.message_count, 0), coalesce(m.n, 0)
        FROM mailbox_contacts c FULL JOIN (SELECT mailbox_id, from_address AS address, count(*) AS n FROM mailbox_messages
          WHERE email_id IS NULL AND from_address <> '' GROUP BY 1, 2) m USING (mailbox_id, address)
        WHERE ${IN_LIVING_MAILBOX} AND c.message_count IS NOT m.n`,
    tell: (r) => `${r['what']}: ${r['stored']} messages are noted, there are ${r['counted']}`,
  },
  {
    rule: 'every message of a mailbox is in the search index, and nothing else is',
    sql: `SELECT coalesce(m.id, s.id) AS id, m.id IS NULL AS lost FROM main.mailbox_messages m FULL JOIN mailbox_search_docsize s ON s.id = m.id
      WHERE m.id IS NULL OR s.id IS NULL`,
    tell: (r) =>
      r['lost'] === 1 ? `message ${r['id']} is in the index, but not there` : `message ${r['id']} is not in the index`,
  },
  {
    // Emails above the highest in the index are pending.
    rule: 'every email is in the search index, and nothing else is',
    sql: `SELECT coalesce(e.id, s.id) AS id, e.id IS NULL AS lost
      FROM main.emails e FULL JOIN email_search_docsize s ON s.id = e.id
      WHERE e.id IS NULL OR (s.id IS NULL AND e.id < (SELECT max(id) FROM email_search_docsize))`,
    tell: (r) =>
      r['lost'] === 1 ? `email ${r['id']} is in the index, but not there` : `email ${r['id']} is not in the index`,
  },
  {
    rule: 'what an email or an idempotency key names is there',
    sql: `SELECT 'email ' || ${ID('uuid')} AS what, 'stream' AS missing FROM emails WHERE NOT EXISTS (SELECT 1 FROM streams WHERE streams.id = stream_id)
      UNION ALL SELECT 'email ' || ${ID('uuid')}, 'operation' FROM emails
        WHERE operation_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM operations WHERE operations.id = operation_id)
      UNION ALL SELECT 'an idempotency key of account ' || account_id, 'email' FROM idempotency_keys
        WHERE NOT EXISTS (SELECT 1 FROM emails WHERE emails.id = email_id)`,
    tell: (r) => `${r['what']} has lost its ${r['missing']}`,
  },
]

/** @param where which counters are compared */
function recount(prefix: string, counted: string, where = 'TRUE'): string {
  return `SELECT account_id AS account, metric, hour, sum(stored) AS stored, sum(counted) AS counted FROM (
      SELECT account_id, metric, hour, value AS stored, 0 AS counted FROM counters WHERE metric >= '${prefix}' AND metric < '${prefix.slice(0, -1)};'
      UNION ALL SELECT account_id, '${prefix}' || name, hour, 0, n FROM (${counted}))
    WHERE ${where} GROUP BY 1, 2, 3 HAVING sum(stored) <> sum(counted)`
}

function tellCounter(r: Readonly<Record<string, string | number | null>>): string {
  const hour = new Date(Number(r['hour']) * HOUR_MS).toISOString()
  return `account ${r['account']}, ${r['metric']}, hour ${hour}: the counter says ${r['stored']}, there are ${r['counted']}`
}

const monthText = (month: number): string => `${Math.floor(month / 12)}-${String((month % 12) + 1).padStart(2, '0')}`

const statusText = (code: string | number | null | undefined): string =>
  STATUSES[Number(code)] ?? `in the unknown status ${code}`

/** Examines all rules in the connection's read transaction. */
export function examineBooks(db: Database): Finding[] {
  db.run(`CREATE TEMP TABLE status_names AS SELECT column1 AS code, column2 AS name FROM (VALUES ${names(STATUSES)})`)
  db.run(`CREATE TEMP TABLE event_names AS SELECT column1 AS code, column2 AS name FROM (VALUES ${names(EVENT_TYPES)})`)
  return [
    ...RULES.map(({ rule, sql, tell }) => ({
      rule,
      differences: told(
        db.query<Record<string, string | number | null>, []>(`${sql} LIMIT ${MOST_DIFFERENCES + 1}`).all(),
        tell,
      ),
    })),
    emailStatuses(db),
    ...examineFigures(db),
  ]
}

/** An email's status depends only on which statuses its recipients have: every combination that occurs is judged once. */
function emailStatuses(db: Database): Finding {
  const combinations = db
    .query<{ status: number; mask: number; n: number; email: string }, []>(
      `SELECT status, mask, count(*) AS n, min(${ID('uuid')}) AS email FROM emails
       JOIN (SELECT email_id, sum(DISTINCT 1 << status) AS mask FROM recipients GROUP BY email_id) ON email_id = emails.id GROUP BY status, mask`,
    )
    .all()
  const wrong = combinations.filter(({ status, mask }) => {
    const present = STATUSES.filter((name) => (mask & (1 << statusCode(name))) !== 0)
    return emailStatus(present) !== STATUSES[status]
  })
  return {
    rule: 'the status of an email is that of its recipients',
    differences: told(
      wrong,
      ({ status, n, email }) =>
        `${n} emails, ${email} for one, are ${statusText(status)} while their recipients are not`,
    ),
  }
}
