/**
 * @module Retention: removes what is older than its age, and what an account has beyond its share of a budget; the
 * oldest first, a few rows in each transaction, so that requests get in between. Never touches open mail, and unread
 * mailbox messages only for their age. A run that ends early, by a crash or a full disk, is continued by the next.
 */
import type { App } from '#features/core/app/app.ts'
import { purgeAuditLog } from '#features/core/audit-logs/purge.ts'
import { readHorizon } from '#features/core/events/horizon.ts'
import {
  findAccountWithEventsAfter,
  findCounterAfter,
  hasOldCounter,
  hasOldEvents,
  purgeCounter,
  purgeEvents,
} from '#features/core/events/purge.ts'
import { findFirstNeededSeq } from '#features/webhooks/webhooks/needed.ts'
import { type Millis, yieldToEventLoop } from '#platform/clock.ts'
import type { Committer } from '#platform/db/commit.ts'
import { releasePages } from '#platform/db/scrub.ts'
import { isoTimeOrNull } from '#platform/http/envelope.ts'
import { perOwner } from '#platform/per-owner.ts'
import { days, hours } from '#platform/units.ts'
import { BUDGETED, type Budgeted, type Cut } from './budgets.ts'
import { agedCutoffs, budgetCuts } from './cutoffs.ts'
import { createPace, type Pace } from './pace.ts'
import { provenTime } from './proven-time.ts'
import { goThrough, type OldRow, retireByIds, type Walk } from './walk.ts'
import {
  broadcastContentWalk,
  broadcastWalk,
  contentWalk,
  emailWalk,
  inboundWalk,
  mailboxWalk,
  operationWalk,
} from './walks.ts'

/** Rows that went, or lost their content, by kind. */
export type Removed = Readonly<Record<Budgeted | 'audit', number>>

/** An event that a webhook has not taken yet is kept so much longer than others. */
const WAITED_FOR_FACTOR = 1.1
/** Rates are of the last weeks, figures of a year: counters by hour are kept at least so long. */
const COUNTERS_DAYS = 400
/** Free pages up to this part of a file are left for what comes next. */
const FREE_PART = 0.05

/** Runs that are under way. */
const runOf = perOwner((_: App): { current?: Promise<Removed> | undefined } => ({}))

/** Removes what is due now; resolves with what went. Who asks while it runs gets the run that is there. @param signal no further step is begun once it is aborted */
export function runRetention(app: App, signal: AbortSignal = new AbortController().signal): Promise<Removed> {
  const run = runOf(app)
  run.current ??= runOnce(app, signal).finally(() => {
    run.current = undefined
  })
  return run.current
}

async function runOnce(app: App, signal: AbortSignal): Promise<Removed> {
  const now = await provenTime(app)
  const aged = await removeAged(app, now, signal)
  // Only then, or budgets would be measured with what goes for its age.
  const oversized = await removeOversized(app, now, signal)
  await passCounters(app, now, signal)
  if (!signal.aborted) await giveBackSpace(app)
  const removed = {
    ...aged,
    ...Object.fromEntries(BUDGETED.map((kind) => [kind, aged[kind] + oversized[kind]])),
  }
  if (Object.values(removed).some((count) => count > 0))
    app.log.info(removed, 'retention removed what was too old or too much')
  return removed
}

async function removeAged(app: App, now: Millis, signal: AbortSignal): Promise<Removed> {
  const before = agedCutoffs(app.config, now)
  const pass = <Row extends OldRow>(walk: Walk<Row>, cutoff: Millis): Promise<number> =>
    // Each kind of rows has a cost of its own.
    goThrough(app, walk, cutoff, { pace: createPace(app.clock), signal })
  const removed = {
    content: (await pass(contentWalk, before.content)) + (await pass(broadcastContentWalk, before.content)),
    events: await passEvents(app, before.events, now, signal),
    inbound: (await pass(inboundWalk, before.inbound)) + (await pass(mailboxWalk, before.inbound)),
    logs: await pass(emailWalk, before.logs),
    audit: await purgeAuditLog(app, now - days(app.config.auditDays)),
  }
  await pass(broadcastWalk, before.logs)
  await pass(operationWalk, before.logs)
  return removed
}

/** Removes the oldest of the accounts that are above their share of a budget. */
async function removeOversized(app: App, now: Millis, signal: AbortSignal): Promise<Record<Budgeted, number>> {
  const removed: Record<Budgeted, number> = { content: 0, events: 0, inbound: 0, logs: 0 }
  const cuts = signal.aborted ? [] : await budgetCuts(app)
  for (const [kind, ofKind] of Map.groupBy(cuts, (cut) => cut.kind))
    app.log.warn(
      { kind, maxBytes: ofKind[0]?.budgetBytes, accounts: ofKind.length, first: ofKind.slice(0, 5).map(cutFacts) },
      'a kind of data is over its budget; the accounts above their share lose their oldest',
    )
  for (const cut of cuts) removed[cut.kind] += await removeCut(app, cut, now, signal)
  return removed
}

const cutFacts = ({ accountId, usedBytes, shareBytes, before }: Cut) => ({
  accountId,
  usedBytes: Math.round(usedBytes),
  shareBytes: Math.round(shareBytes),
  before: isoTimeOrNull(before ?? null),
})

async function removeCut(app: App, { kind, accountId, before, rows }: Cut, now: Millis, signal: AbortSignal) {
  if (before === undefined) return 0
  if (kind === 'events')
    return await passEventsOf(app, accountId, eventTimes(app, before, now), createPace(app.clock), signal)
  const pass = async <Row extends OldRow>(walk: Walk<Row>): Promise<number> => {
    const ids = rows.get(walk.name)
    return ids ? await retireByIds(app, walk, { ids, before }, { pace: createPace(app.clock), signal }) : 0
  }
  // A broadcast goes after its emails.
  if (kind === 'content') return (await pass(contentWalk)) + (await pass(broadcastContentWalk))
  if (kind === 'inbound') return (await pass(inboundWalk)) + (await pass(mailboxWalk))
  const emails = await pass(emailWalk)
  await pass(broadcastWalk)
  return emails
}

const eventTimes = (app: App, before: Millis, now: Millis) => ({
  before,
  anyBefore: now - days(app.config.eventsDays * WAITED_FOR_FACTOR),
})

/** The events of each account, from the oldest on. */
async function passEvents(app: App, before: Millis, now: Millis, signal: AbortSignal): Promise<number> {
  const times = eventTimes(app, before, now)
  const pace = createPace(app.clock)
  let removed = 0
  for (let accountId: number | undefined = 0; ; ) {
    accountId = findAccountWithEventsAfter(app.db, accountId)
    if (accountId === undefined || signal.aborted) return removed
    removed += await passEventsOf(app, accountId, times, pace, signal)
    await yieldToEventLoop()
  }
}

async function passEventsOf(
  app: App,
  accountId: number,
  times: { readonly before: Millis; readonly anyBefore: Millis },
  pace: Pace,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0
  if (!hasOldEvents(app.db, accountId, times.before)) return 0
  for (let isMore = true; isMore && !signal.aborted; ) {
    const went = await app.commit.writeFromReserve((tx) =>
      pace.run(() => {
        const needed = findFirstNeededSeq(tx.db, accountId)
        const upTo = needed === undefined ? Number.MAX_SAFE_INTEGER : needed - 1
        const limit = pace.rows
        return { limit, count: purgeEvents(tx, accountId, { ...times, upTo }, limit) }
      }),
    )
    removed += went.count
    isMore = went.count === went.limit
    await yieldToEventLoop()
  }
  return removed
}

/** Counters of hours that nobody asks about any more. Totals that a list is counted with go only when they are zero. */
async function passCounters(app: App, now: Millis, signal: AbortSignal): Promise<void> {
  const horizon = Math.min(readHorizon(app.db, 'events'), now - days(COUNTERS_DAYS))
  const hour = Math.floor(horizon / hours(1))
  if (hour <= 0) return
  const pace = createPace(app.clock)
  for (let accountId: number | undefined = 0; ; ) {
    accountId = findAccountWithEventsAfter(app.db, accountId)
    if (accountId === undefined) return
    const owner = accountId
    for (let metric: string | undefined = ''; ; ) {
      metric = findCounterAfter(app.db, owner, metric)
      if (metric === undefined || signal.aborted) break
      const name = metric
      while (hasOldCounter(app.db, owner, name, hour)) {
        if (signal.aborted) return
        await app.commit.writeFromReserve((tx) => pace.run(() => purgeCounter(tx, owner, name, hour, pace.rows)))
      }
      await yieldToEventLoop()
    }
  }
}

/** Free pages go back to the file system, but for some that are taken by what comes next. */
async function giveBackSpace(app: App): Promise<void> {
  for (const committer of [app.commit, ...app.content.committers(), ...app.rawMail.committers()])
    await release(committer)
}

async function release(committer: Committer): Promise<void> {
  const count = (name: string): number =>
    committer.db.query<Record<string, number>, []>(`PRAGMA ${name}`).get()?.[name] ?? 0
  const spare = count('freelist_count') - Math.ceil(count('page_count') * FREE_PART)
  if (spare > 0) await releasePages(committer, spare)
}
