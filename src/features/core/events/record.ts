/**
 * @module The gate, the only writer of events: every change of state records its event here, in the same transaction.
 * It assigns the account's next sequence number, without gaps (`gaps.ts`), and adds to the counters. Feed, webhooks and analytics
 * read only what passed the gate.
 */
import type { Database } from 'bun:sqlite'
import { hmacSha256, type KeyRing } from '#platform/crypto/crypto.ts'
import { codesOf, prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Clock } from '#platform/time/clock.ts'
import { days, type Millis } from '#platform/units.ts'
import { flushDailyStats } from './daily-stats.ts'
import { readFirstNumber } from './gaps.ts'

export { type EventGap, listGaps } from './gaps.ts'

/** The position is the stored code: only append. */
export const EVENT_TYPES = [
  'queued',
  'scheduled',
  'cancelled',
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'failed',
  'rejected',
  'opened',
  'clicked',
  'complained',
  'unsubscribed',
  'uncertain',
  'email.inbound',
  'mailbox.message.received',
  'account.auto_paused',
  'insights.generated',
  'domain.records_lost',
  'domain.records_restored',
  'domain.unverified',
] as const

export type EventType = (typeof EVENT_TYPES)[number]

const TYPES = codesOf<EventType>('event type', EVENT_TYPES)
/** The stored code of a type. */
export const toEventCode = TYPES.codeOf
/** The type of a stored code; throws for a code that no version has stored. */
export const toEventType = TYPES.nameOf

/** Data of an event; the names are those of the API. */
export interface EventData {
  readonly smtp_response?: string | null
  readonly ip_address?: string | null
  readonly remote_mta?: string | null
  readonly diagnostic_code?: string | null
  readonly bounce_type?: string | null
  readonly bounce_category?: string | null
  /** For a `bounced` or `deferred` event: id of the rule that decided what the reply, or its lack, means. */
  readonly rule?: string | null
  readonly reason?: string | null
  /** For a `rejected` event with reason `suppressed`: why the address is on the suppression list. */
  readonly suppression?: string | null
  /** For a `bounced` event: the address was put on the suppression list. */
  readonly suppressed?: true
  readonly next_retry_at?: Millis | null
  /** Of an attempt: the reply is that of the operator's smarthost. */
  readonly relay?: true
  /** For a `delivered` event: the message was captured, not sent. */
  readonly captured?: true
  /** Target of a click. */
  readonly link_url?: string | null
  /** For an open or a click; null when the account does not store this value. */
  readonly user_agent?: string | null
  /** The address that complained, and the type of its report. */
  readonly complainer?: string | null
  readonly feedback_type?: string | null
  /** For an unsubscription: slug of the email's stream, and public id of the contact list, if any. */
  readonly stream?: string | null
  readonly list_id?: string | null
  /** What an unsubscription stops: mail of the stream, mail of the list, or all mail with `transactional: false`. */
  readonly scope?: 'stream' | 'list' | 'all'
  /** For `email.inbound`: public id of the inbound email. */
  readonly inbound_email_id?: string
  /** For `mailbox.message.received`: public ids of the mailbox and the message. */
  readonly mailbox_id?: string
  readonly mailbox_message_id?: string
  /** For `account.auto_paused`: what caused the pause; `reason` explains why. */
  readonly source?: 'reputation' | 'scam_classifier' | 'registration_burst' | 'admin'
  /** For `insights.generated`: public id of the report. */
  readonly insight_id?: string
  /**
   * For events of a domain: its public id and name, the records that it lacks or lacked, and the time until which it
   * sends (RFC 3339).
   */
  readonly domain_id?: string
  readonly domain?: string
  readonly lost_records?: readonly string[]
  readonly sends_until?: string
  /** TLS of the session, such as `TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified`, or why there was none. */
  readonly tls?: string | null
  /** Of an attempt: milliseconds by phase of its session with the last server; without `connect` in a reused session. */
  readonly timings?: Readonly<Record<string, number>>
}

export interface NewEvent {
  readonly accountId: number
  readonly type: EventType
  readonly at: Millis
  readonly emailId?: number
  readonly recipientId?: number
  readonly data?: EventData
}

/** The key in `meta` of the number of commits, by which a start recognises an old database. */
export const COMMITS_KEY = 'commits'

const sql = prepareStatements((db) => ({
  setLastSeq: db.prepare(
    'INSERT INTO event_sequences (account_id, last_seq) VALUES (?, ?) ON CONFLICT DO UPDATE SET last_seq = excluded.last_seq',
  ),
  insert: db.prepare(
    'INSERT INTO events (account_id, seq, type, at, email_id, recipient_id, data) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ),
  lastSeq: db.prepare<{ last_seq: number }, [number]>('SELECT last_seq FROM event_sequences WHERE account_id = ?'),
  addCounter: db.prepare(
    'INSERT INTO counters (account_id, metric, hour, value) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value',
  ),
  counterAt: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT value FROM counters WHERE account_id = ? AND metric = ? AND hour = ?',
  ),
  counterSum: db.prepare<{ value: number }, [number, string, number]>(
    'SELECT coalesce(sum(value), 0) AS value FROM counters WHERE account_id = ? AND metric = ? AND hour >= ?',
  ),
  dropEmpty: db.prepare('DELETE FROM counters WHERE account_id = ? AND metric = ? AND hour = 0 AND value = 0'),
  setMeta: db.prepare('INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value'),
  countCommit: db.prepare(`UPDATE meta SET value = CAST(value + 1 AS TEXT) WHERE key = '${COMMITS_KEY}'`),
  getMeta: db.prepare<{ value: string }, [string]>('SELECT value FROM meta WHERE key = ?'),
}))

/** Records one event and counts it in its hour. Returns its sequence number in the account. */
export const record = (tx: Tx, event: NewEvent): number => recordAll(tx, event.accountId, [event])

/** Records events of one account in this order and counts each in its hour. Returns the sequence number of the last. */
export function recordAll(tx: Tx, accountId: number, events: readonly Omit<NewEvent, 'accountId'>[]): number {
  const { insert } = sql(tx.db)
  const last = advanceSeq(tx, accountId, events.length)
  for (const [index, { type, at, emailId, recipientId, data }] of events.entries()) {
    const seq = last - events.length + index + 1
    const json = data ? JSON.stringify(data) : null
    insert.run(accountId, seq, toEventCode(type), at, emailId ?? null, recipientId ?? null, json)
    count(tx, accountId, `event:${type}`, at, 1)
  }
  return last
}

/** `flushCounters` stores the number. */
const advanceSeq = (tx: Tx, accountId: number, by: number): number =>
  tx.advance(String(accountId), by, () => readLastSeq(tx.db, accountId))

/** `readLastSeq` inside a write, which includes the events of earlier writes of its group. */
export const readLastSeqIn = (tx: Tx, accountId: number): number => advanceSeq(tx, accountId, 0)

/**
 * The sequence number of an account's newest event; if it has none, that before its first: 0, unless the data were
 * restored. Outside of writes only.
 */
export const readLastSeq = (db: Database, accountId: number): number =>
  sql(db).lastSeq.get(accountId)?.last_seq ?? readFirstNumber(db)

const HOUR_MS = 3_600_000

export const hourOf = (at: Millis): number => Math.floor(at / HOUR_MS)

/** The time of counters that hold current totals, without an hour. */
export const NO_HOUR: Millis = 0

/** Counters of emails in the hour of their first open or click, without sandbox mail. */
export const FIRST_METRICS = { opened: 'first:opened', clicked: 'first:clicked' } as const

/** Counters of opens and clicks by scanners, prefetchers and proxies, for which no event is recorded. */
export const MACHINE_METRICS = { opened: 'machine:opened', clicked: 'machine:clicked' } as const

/** Adds to a counter of an account in the hour of `at`; `flushCounters` writes it once per group commit. */
export function count(tx: Tx, accountId: number, metric: string, at: Millis, delta: number): void {
  tx.add(`${accountId}|${metric}|${hourOf(at)}`, delta)
}

/** Events of captured mail that are counted by hour beside all events: what is left is mail that was really sent. */
export const CAPTURED_TYPES = ['bounced', 'opened', 'clicked', 'unsubscribed'] as const
export type CapturedType = (typeof CAPTURED_TYPES)[number]

/** Prefix of their counters. */
export const CAPTURED_PREFIX = 'captured:'

export const toCapturedMetric = (type: CapturedType): string => `${CAPTURED_PREFIX}${type}`

/** Counts an event of captured mail. */
export const countCaptured = (tx: Tx, accountId: number, type: CapturedType, at: Millis): void =>
  count(tx, accountId, toCapturedMetric(type), at, 1)

/**
 * Adds to a counter immediately. Used for limits, because later writes of the same group commit must see the new value.
 */
export const countNow = (tx: Tx, accountId: number, metric: string, at: Millis, delta: number): void =>
  void sql(tx.db).addCounter.run(accountId, metric, hourOf(at), delta)

/** The value of a counter in the hour of `at`. */
export const readCounter = (db: Database, accountId: number, metric: string, at: Millis): number =>
  sql(db).counterAt.get(accountId, metric, hourOf(at))?.value ?? 0

/** The sum of a counter from an hour on, as `hourOf` returns it. */
export const sumCounter = (db: Database, accountId: number, metric: string, fromHour: number): number =>
  sql(db).counterSum.get(accountId, metric, fromHour)?.value ?? 0

/**
 * The Committer's `flush`: writes the additions of `count` and `countDaily` in a group commit, the sequence numbers of
 * its events, and the newest event time.
 * @param lastSeqs by account
 */
export function flushCounters(
  db: Database,
  deltas: ReadonlyMap<string, number>,
  lastSeqs: ReadonlyMap<string, number>,
  newestTime: Millis,
): void {
  const { addCounter, dropEmpty, setLastSeq } = sql(db)
  for (const [accountId, lastSeq] of lastSeqs) setLastSeq.run(Number(accountId), lastSeq)
  setMeta(db, 'newest_time', String(newestTime))
  sql(db).countCommit.run()
  for (const [key, delta] of deltas) {
    if (delta === 0 || !/^\d/.test(key)) continue
    const [accountId, metric = '', hour] = key.split('|')
    addCounter.run(Number(accountId), metric, Number(hour), delta)
    // Hour 0 holds current totals. The names of some are free text, so rows that become zero are deleted.
    if (hour === '0' && delta < 0) dropEmpty.run(Number(accountId), metric)
  }
  flushDailyStats(db, deltas)
}

/** Calls `add` with the number of new events of each type and account, from the counter additions of a group. */
export function forEachEventCount(
  deltas: ReadonlyMap<string, number>,
  add: (accountId: number, type: string, count: number) => void,
): void {
  for (const [key, delta] of deltas) {
    const end = key.indexOf('|')
    if (!key.startsWith('event:', end + 1)) continue
    const typeStart = end + 1 + 'event:'.length
    add(Number(key.slice(0, end)), key.slice(typeStart, key.indexOf('|', typeStart)), delta)
  }
}

/**
 * The public id of an event, a UUIDv8 (RFC 9562 §5.8). It needs no column, because it is derived from account and
 * sequence number.
 */
export function deriveEventUuid(keys: KeyRing, accountId: number, seq: number): string {
  const mac = hmacSha256(keys.subkey('event-id'), `${accountId}:${seq}`).slice(0, 16)
  mac[6] = ((mac[6] ?? 0) & 0x0f) | 0x80
  mac[8] = ((mac[8] ?? 0) & 0x3f) | 0x80
  return formatUuid(mac)
}

export const setMeta = (db: Database, key: string, value: string): void => void sql(db).setMeta.run(key, value)

/**
 * Like `setMeta`, for a connection that is closed soon: it leaves no prepared statement, which would keep the connection,
 * and with it the WAL, until it is garbage-collected.
 */
export const setMetaOnce = (db: Database, key: string, value: string): void =>
  void db.run('INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value', [
    key,
    value,
  ])

export const getMeta = (db: Database, key: string): string | undefined => sql(db).getMeta.get(key)?.value

/**
 * If the clock is further behind the newest time than this, the newest time was wrong. Events then use the clock again,
 * instead of the wrong time until the clock catches up.
 */
const MAX_BEHIND_MS = days(3)

/**
 * Creates `App.eventTime`. It returns the clock; but if the clock is at most MAX_BEHIND_MS behind the newest time
 * returned before, it returns that time. The newest time survives restarts.
 */
export function createEventTime(clock: Clock, db: Database): () => Millis {
  let newest = Number(getMeta(db, 'newest_time') ?? 0)
  return () => {
    const now = clock.now()
    newest = newest - now > MAX_BEHIND_MS ? now : Math.max(newest, now)
    return newest
  }
}
