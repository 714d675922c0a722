/**
 * @module Deletes blobs of the content stores to which no row refers: those whose reference a row dropped
 * (`garbage.ts`), and once a month all others, such as blobs of an email that was rejected after they were stored. A
 * blob is deleted only when a scan of all rows, begun after the reference was dropped, finds no reference to it, and
 * no write has reused it since then. Erasures and deletions also have it overwrite deleted data in the files, before
 * they report completion (`requestScrub`).
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { monthOf, monthOfRef } from '#platform/content/read.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { perOwner } from '#platform/per-owner.ts'
import { askWorker } from '#platform/process/workers.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { shareNextRun } from '#platform/queue/share-run.ts'
import { days, hours, type Millis, minutes } from '#platform/units.ts'
import { STORES, type StoreName } from './garbage.ts'
import type { ScanRequest } from './scan-worker.ts'

const sql = prepareStatements((db) => ({
  garbage: db.prepare<{ ref: number; times: number }, [number, number]>(
    'SELECT ref, times FROM content_garbage WHERE store = ? ORDER BY ref LIMIT ?',
  ),
  // Keeps an entry whose reference was dropped again during the scan.
  remove: db.prepare('DELETE FROM content_garbage WHERE store = ? AND ref = ? AND times = ?'),
  any: db.prepare<{ n: number }, []>('SELECT count(*) AS n FROM (SELECT 1 FROM content_garbage LIMIT 1)'),
}))

/** References per scan, and blobs deleted per transaction of a store. */
const MAX_REFS_PER_SCAN = 200_000
const BATCH_SIZE = 200
/** How long dropped references are collected, so that one scan serves many. */
const COLLECT_DELAY_MS = minutes(10)
/** Retry delay when blobs stay because they were reused. */
const RETRY_DELAY_MS = minutes(5)
/** Interval between full scans of the same month of a store. */
const MONTH_SCAN_INTERVAL_MS = days(30)
/** A month is first scanned in full this long after its end. */
const MIN_MONTH_AGE_MS = days(2)
const MAX_INTERVAL_MS = hours(1)

/**
 * Returns the candidates to which no row refers; throws when the scan fails. Each scan has a Worker of its own: scans are
 * rare, and ending it frees its memory.
 */
async function findUnreferenced(app: App, store: StoreName, candidates: ScanRequest['candidates']) {
  // The scan reads rows after this point: a row that drops its reference later records the reference again.
  await app.commit.barrier()
  const request: ScanRequest = { databasePath: join(app.config.dataDir, 'tassis.db'), store, candidates }
  const unreferenced = await askWorker<Float64Array>('scan', request)
  // The drops must be durable before the blobs are deleted.
  await app.commit.barrier()
  return unreferenced
}

const toStoreFolder = (app: App, store: StoreName): string =>
  join(app.config.dataDir, store === 'content' ? 'content' : 'raw-mail')

/** Whether any dropped reference is recorded. */
export const hasGarbage = (db: Database): boolean => (sql(db).any.get()?.n ?? 0) > 0

const getSweep = perOwner((app: App) => shareNextRun((signal?: AbortSignal) => sweepAll(app, signal)))

/**
 * Deletes the content that was dropped before the call, as far as possible. Resolves with the number of blobs that must
 * stay for some minutes more. A run in progress is waited for, because it may have scanned before this call.
 */
export const sweep = (app: App, signal?: AbortSignal): Promise<number> => getSweep(app)(signal)

async function sweepAll(app: App, signal: AbortSignal | undefined): Promise<number> {
  let stayingCount = 0
  for (const store of STORES) {
    await app[store].removeOrphanFiles(signal)
    stayingCount += await sweepStore(app, store, signal)
  }
  return stayingCount
}

async function sweepStore(app: App, store: StoreName, signal: AbortSignal | undefined): Promise<number> {
  const code = STORES.indexOf(store)
  let stayingCount = 0
  for (;;) {
    const entries = sql(app.db).garbage.all(code, MAX_REFS_PER_SCAN + stayingCount)
    if (entries.length <= stayingCount || signal?.aborted) return stayingCount
    const candidates = Float64Array.from(entries, ({ ref }) => ref)
    const unreferenced = await findUnreferenced(app, store, candidates)
    const stayingRefs = await deleteBlobs(app, store, unreferenced, signal)
    if (signal?.aborted) return stayingCount
    const stayingSet = new Set(stayingRefs)
    const settled = entries.filter(({ ref }) => !stayingSet.has(ref))
    for (const batch of splitIntoBatches(settled))
      await app.commit.writeFromReserve((tx) => {
        for (const { ref, times } of batch) sql(tx.db).remove.run(code, ref, times)
      })
    stayingCount = stayingRefs.length
    if (settled.length === 0) return stayingCount
  }
}

/** Deletes blobs in batches; returns the blobs that must stay. */
async function deleteBlobs(
  app: App,
  store: StoreName,
  refs: Float64Array,
  signal: AbortSignal | undefined,
): Promise<number[]> {
  const stayingRefs: number[] = []
  for (const batch of splitIntoBatches(refs)) {
    if (signal?.aborted) return [...refs]
    stayingRefs.push(...(await app[store].deleteBlobs([...batch], app.clock.now())))
  }
  return stayingRefs
}

function* splitIntoBatches<T extends readonly unknown[] | Float64Array>(all: T): Generator<T> {
  for (let from = 0; from < all.length; from += BATCH_SIZE) yield all.slice(from, from + BATCH_SIZE) as T
}

const toMonthScanKey = (store: StoreName, month: number): string => `content:whole:${store}:${month}`

/** Scans one month that is due for a full scan. False when none is. */
async function sweepMonth(app: App, signal: AbortSignal): Promise<boolean> {
  const now = app.clock.now()
  for (const store of STORES) {
    const current = monthOf(now - MIN_MONTH_AGE_MS)
    for (const { month, first } of app[store].ranges()) {
      const key = toMonthScanKey(store, month)
      // Only a wrong clock stores a time in the future, so such a time does not count as a scan.
      const sinceMs = now - Number(getMeta(app.db, key) ?? 0)
      if (month >= current || (sinceMs >= 0 && sinceMs < MONTH_SCAN_INTERVAL_MS)) continue
      // Nothing would be deleted; the next run scans this month.
      if (app[store].isDeletionHeld) continue
      // Leaves out newer blobs, because the rows that refer to them may not be written yet.
      const below = app[store].settledBelow(month)
      const candidates = { folder: toStoreFolder(app, store), month: monthOfRef(first), below }
      const unreferenced = await findUnreferenced(app, store, candidates)
      await deleteBlobs(app, store, unreferenced, signal)
      if (!signal.aborted && !app[store].isDeletionHeld)
        await app.commit.writeFromReserve((tx) => setMeta(tx.db, key, String(now)))
      if (unreferenced.length > 0)
        app.log.info({ store, month, parts: unreferenced.length }, 'unreferenced blobs deleted')
      return true
    }
  }
  return false
}

/** Starts the sweep loop. */
export function startSweeper(app: App): DueLoop {
  // The first sweep also removes files that a crash left behind.
  let isFirst = true
  let dueAt: Millis = app.clock.now() + RETRY_DELAY_MS
  const loop = startDueLoop({
    name: 'sweep content',
    clock: app.clock,
    log: app.log,
    step: async (signal) => {
      const now = app.clock.now()
      if (now < dueAt) return dueAt
      const stayingCount = isFirst || hasGarbage(app.db) ? await sweep(app, signal) : 0
      isFirst = false
      const isBusy = stayingCount === 0 && (await sweepMonth(app, signal))
      dueAt = app.clock.now() + (stayingCount > 0 ? RETRY_DELAY_MS : isBusy ? 0 : MAX_INTERVAL_MS)
      return dueAt
    },
    onEnded: () => stopListening(),
  })
  const stopListening = app.contentDropped.listen(() => {
    const sweepAt = app.clock.now() + COLLECT_DELAY_MS
    if (sweepAt < dueAt) {
      dueAt = sweepAt
      loop.wake()
    }
  })
  return loop
}

const getScrub = perOwner((app: App) => shareNextRun(() => scrub(app)))

/**
 * Resolves with true once no database file contains data deleted before the call: unreferenced content is swept, free
 * pages are released, gaps in pages are zeroed, the WALs are empty. Resolves with false when content was reused within
 * the last minutes or a reader holds a database for long; the caller then tries again later. Concurrent calls share one
 * run that began after them.
 */
export const requestScrub = (app: App): Promise<boolean> => getScrub(app)()

async function scrub(app: App): Promise<boolean> {
  const stayingCount = await sweep(app)
  const isClean = await app.scrubFiles()
  return isClean && stayingCount === 0
}
