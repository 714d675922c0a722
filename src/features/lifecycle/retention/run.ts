/**
 * @module Runs retention: removes data beyond its maximum age, and what an account has beyond its share of a budget.
 * Removes the oldest data first, a few rows per transaction, so that requests run in between. Never removes open
 * mail; removes unread mailbox messages only for their age. If a crash or a full disk ends a run, the next run
 * continues it.
 * Also deletes what is kept for a fixed time: rows of tables that state it (`kept`), and received messages as they came
 * in. Stores the time by which it measures ages.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { TABLE_FACTS } from '#features/core/app/table-facts.ts'
import { purgeAuditLog } from '#features/core/audit-logs/erase.ts'
import {
  COUNTER_RETENTION_DAYS,
  findAccountWithEventsAfter,
  findCounterAfter,
  hasOldCounter,
  hasOldEvents,
  purgeCounter,
  purgeEvents,
  readHorizon,
} from '#features/core/events/purge.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { findOldestWaitingRef } from '#features/receiving/inbound/process/queue.ts'
import { findAccountWithLogAfter, purgeRequestLog } from '#features/reporting/logs/request-log.ts'
import { findFirstNeededSeq } from '#features/webhooks/webhooks/manage/pending.ts'
import { monthOfRef } from '#platform/content/read.ts'
import type { Committer } from '#platform/db/commit.ts'
import { releasePages } from '#platform/db/scrub.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { perOwner } from '#platform/per-owner.ts'
import { askWorker } from '#platform/process/workers.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { type BudgetedKind, computeAgeCutoffs, mapKinds } from './budgets.ts'
import type { Cut } from './cuts.ts'
import { readPragma } from './measure.ts'
import type { MeasureRequest } from './measure-worker.ts'
import { type OldRow, removeInBatches, retireByIds, type Scan, scanRows } from './scan.ts'
import {
  broadcastContentScan,
  broadcastScan,
  contentScan,
  emailScan,
  inboundScan,
  mailboxScan,
  operationScan,
} from './scans.ts'

/** Rows removed, or stripped of their content, by kind. */
export type RemovedCounts = Readonly<Record<BudgetedKind | 'audit', number>>

/** Events not yet delivered to a webhook are kept longer by this factor. */
const PENDING_EVENT_FACTOR = 1.1
/** This fraction of a file stays free for later writes. */
const FREE_FRACTION = 0.05

const runOf = perOwner((app: App) => shareRun((signal: AbortSignal) => runOnce(app, signal)))

/**
 * Removes what is due; resolves with what was removed. A call during a run gets the result of that run.
 * @param signal once aborted, no further step begins
 */
export const runRetention = (app: App, signal = new AbortController().signal): Promise<RemovedCounts> =>
  runOf(app)(signal)

async function runOnce(app: App, signal: AbortSignal): Promise<RemovedCounts> {
  const now = await recordConfirmedTime(app)
  const aged = await removeAged(app, now, signal)
  // Removal by size comes second, so that budgets are measured without the rows removed for their age.
  const oversized = await removeOversized(app, now, signal)
  await purgeCounters(app, now, signal)
  if (!signal.aborted) await releaseSpace(app)
  const removed = {
    ...aged,
    ...mapKinds((kind) => aged[kind] + oversized[kind]),
  }
  if (Object.values(removed).some((count) => count > 0)) app.log.info(removed, 'retention removed old or excess data')
  return removed
}

async function removeAged(app: App, now: Millis, signal: AbortSignal): Promise<RemovedCounts> {
  const before = computeAgeCutoffs(app.config, now)
  const pass = <Row extends OldRow>(scan: Scan<Row>, cutoff: Millis): Promise<number> =>
    scanRows(app, scan, cutoff, signal)
  const removed = {
    content: (await pass(contentScan, before.content)) + (await pass(broadcastContentScan, before.content)),
    events: await purgeAllEvents(app, before.events, now, signal),
    inbound: (await pass(inboundScan, before.inbound)) + (await pass(mailboxScan, before.inbound)),
    logs: await pass(emailScan, before.logs),
    audit: await purgeAuditLog(app, now - days(app.config.auditDays)),
  }
  await pass(broadcastScan, before.logs)
  await pass(operationScan, before.logs)
  await purgeRequestLogs(app, now - days(app.config.requestLogDays), signal)
  return removed
}

/** Removes the oldest rows of accounts above their share of a budget. */
async function removeOversized(app: App, now: Millis, signal: AbortSignal): Promise<Record<BudgetedKind, number>> {
  const removed: Record<BudgetedKind, number> = { content: 0, events: 0, inbound: 0, logs: 0 }
  const cuts = signal.aborted ? [] : await findCutsNow(app, getMeasures(app))
  for (const [kind, kindCuts] of Map.groupBy(cuts, (cut) => cut.kind))
    app.log.warn(
      {
        kind,
        maxBytes: kindCuts[0]?.budgetBytes,
        accounts: kindCuts.length,
        first: kindCuts.slice(0, 5).map(toLogFields),
      },
      'data budget exceeded; accounts above their share lose their oldest data',
    )
  for (const cut of cuts) removed[cut.kind] += await removeCut(app, cut, now, signal)
  return removed
}

/** Measurements take at most this fraction of the time. */
const MAX_MEASURE_FRACTION = 0.02

const getMeasures = perOwner((_: App): { nextAtMs: Millis } => ({ nextAtMs: Number.NEGATIVE_INFINITY }))

/** What to remove for the budgets now; empty if measured recently or if no budget is exceeded. Never rejects. */
async function findCutsNow({ clock, config, log }: App, measures: { nextAtMs: Millis }): Promise<readonly Cut[]> {
  const startedAtMs = clock.monotonicMs()
  if (startedAtMs < measures.nextAtMs) return []
  try {
    const request: MeasureRequest = { wanted: 'cuts', config, now: clock.now() }
    return await askWorker<readonly Cut[]>('measure', request)
  } catch (error) {
    log.warn({ err: error }, 'data use not measured; budgets are checked later')
    return []
  } finally {
    const now = clock.monotonicMs()
    measures.nextAtMs = now + (now - startedAtMs) / MAX_MEASURE_FRACTION
  }
}

const toLogFields = ({ accountId, usedBytes, shareBytes, before }: Cut) => ({
  accountId,
  usedBytes: Math.round(usedBytes),
  shareBytes: Math.round(shareBytes),
  before: isoTimeOrNull(before ?? null),
})

async function removeCut(app: App, { kind, accountId, before, ids }: Cut, now: Millis, signal: AbortSignal) {
  if (before === undefined) return 0
  if (kind === 'events') return await purgeAccountEvents(app, accountId, toEventTimes(app, before, now), signal)
  const pass = async <Row extends OldRow>(scan: Scan<Row>): Promise<number> => {
    const rows = ids.get(scan.name)
    return rows ? await retireByIds(app, scan, { ids: rows, before }, signal) : 0
  }
  // A broadcast is removed after its emails.
  if (kind === 'content') return (await pass(contentScan)) + (await pass(broadcastContentScan))
  if (kind === 'inbound') return (await pass(inboundScan)) + (await pass(mailboxScan))
  const emails = await pass(emailScan)
  await pass(broadcastScan)
  return emails
}

const toEventTimes = (app: App, before: Millis, now: Millis) => ({
  before,
  anyBefore: now - days(app.config.eventsDays * PENDING_EVENT_FACTOR),
})

/** Removes old events of each account, oldest first. */
async function purgeAllEvents(app: App, before: Millis, now: Millis, signal: AbortSignal): Promise<number> {
  let removed = 0
  for (const accountId of listAccounts(app)) {
    if (signal.aborted) break
    removed += await purgeAccountEvents(app, accountId, toEventTimes(app, before, now), signal)
    await yieldToEventLoop()
  }
  return removed
}

/** Removes old rows from the request log of each account. */
async function purgeRequestLogs(app: App, before: Millis, signal: AbortSignal): Promise<void> {
  for (let id = findAccountWithLogAfter(app.db, 0); id !== undefined; id = findAccountWithLogAfter(app.db, id)) {
    const accountId = id
    await removeInBatches(app, signal, (tx, limit) => {
      const done = purgeRequestLog(tx, accountId, before, limit)
      return { done, next: done === limit ? 0 : undefined }
    })
  }
}

/** The accounts that ever had an event, also those that get their first meanwhile. */
function* listAccounts({ db }: App): Generator<number> {
  for (let accountId = findAccountWithEventsAfter(db, 0); accountId !== undefined; ) {
    yield accountId
    accountId = findAccountWithEventsAfter(db, accountId)
  }
}

async function purgeAccountEvents(
  app: App,
  accountId: number,
  times: { readonly before: Millis; readonly anyBefore: Millis },
  signal: AbortSignal,
): Promise<number> {
  if (!hasOldEvents(app.db, accountId, times.before)) return 0
  return await removeInBatches(app, signal, (tx, limit) => {
    const needed = findFirstNeededSeq(tx.db, accountId)
    const upTo = needed === undefined ? Number.MAX_SAFE_INTEGER : needed - 1
    const done = purgeEvents(tx, accountId, { ...times, upTo }, limit)
    return { done, next: done === limit ? 0 : undefined }
  })
}

/** Removes hourly counters that no query reads any more. Totals used for counting lists are removed only when zero. */
async function purgeCounters(app: App, now: Millis, signal: AbortSignal): Promise<void> {
  const horizon = Math.min(readHorizon(app.db, 'events'), now - days(COUNTER_RETENTION_DAYS))
  const hour = Math.floor(horizon / hours(1))
  if (hour <= 0) return
  for (const accountId of listAccounts(app))
    for (let metric = findCounterAfter(app.db, accountId, ''); metric !== undefined && !signal.aborted; ) {
      const name = metric
      if (hasOldCounter(app.db, accountId, name, hour))
        await removeInBatches(app, signal, (tx, limit) => {
          purgeCounter(tx, accountId, name, hour, limit)
          return { done: 0, next: hasOldCounter(tx.db, accountId, name, hour) ? 0 : undefined }
        })
      await yieldToEventLoop()
      metric = findCounterAfter(app.db, accountId, name)
    }
}

/** Returns free pages to the file system, except for a reserve. */
async function releaseSpace(app: App): Promise<void> {
  for (const committer of [app.commit, ...app.content.committers(), ...app.rawMail.committers()])
    await releaseFreePages(committer)
}

async function releaseFreePages(committer: Committer): Promise<void> {
  const { db } = committer
  const spare = readPragma(db, 'freelist_count') - Math.ceil(readPragma(db, 'page_count') * FREE_FRACTION)
  if (spare > 0) await releasePages(committer, spare)
}

/** Resolves with the number of rows deleted. Call it about every hour, one run at a time. */
export async function purgeExpired(app: App, signal: AbortSignal = new AbortController().signal): Promise<number> {
  let removed = 0
  for (const [table, { kept }] of TABLE_FACTS) {
    if (!kept) continue
    const until = Math.floor((app.confirmedNow() - days(kept.days)) / (kept.unitMs ?? 1))
    removed += await removeInBatches(app, signal, ({ db }, limit) => {
      const done = db.query(`DELETE FROM ${table} WHERE ${kept.since} <= ? LIMIT ?`).run(until, limit).changes
      return { done, next: done === limit ? 0 : undefined }
    })
  }
  return removed
}

/**
 * Drops the original form of received messages, by month; the parsed data stays. Never drops a month with an
 * unprocessed message. Resolves with the number of dropped months.
 */
export async function dropRawMail(app: App): Promise<number> {
  const before = (await recordConfirmedTime(app)) - days(app.config.inboundRawDays)
  const waiting = findOldestWaitingRef(app.db)
  // Months are counted from the year 0.
  const firstKept =
    waiting === undefined ? before : Date.UTC(Math.floor(monthOfRef(waiting) / 12), monthOfRef(waiting) % 12)
  return app.rawMail.dropMonthsBefore(Math.min(before, firstKept))
}

/** Shortest interval between two writes. */
const RECORD_INTERVAL_MS = minutes(10)
/** The next start compares the time with the clock; nothing else shows that a clock is days ahead. */
const KEY = 'retention:looked_at'

/** Returns `App.confirmedNow()` and stores it. Must be called at least hourly. */
export async function recordConfirmedTime(app: App): Promise<Millis> {
  const now = app.confirmedNow()
  if (Math.abs(now - (readConfirmedTime(app.db) ?? 0)) >= RECORD_INTERVAL_MS)
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, KEY, String(now)))
  return now
}

/** The time stored last; undefined in a new data directory. */
export function readConfirmedTime(db: Database): Millis | undefined {
  const noted = getMeta(db, KEY)
  return noted === undefined ? undefined : Number(noted)
}
