/**
 * @module Removes parts of the content stores that no row refers to any more: those that rows let go of (`garbage.ts`), and once a month all others, such as
 * parts whose email was refused after they were stored. A part is removed only when one look at all rows, made after it was let go of, finds it nowhere, and
 * nobody was given it again meanwhile.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import { monthOfRef } from '#platform/content/read.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { perOwner } from '#platform/per-owner.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { STORES, type StoreName } from './garbage.ts'
import { scanForUnreferenced } from './scan.ts'

interface GarbageEntry {
  readonly ref: number
  readonly times: number
}

const sql = prepareStatements((db) => ({
  garbage: db.prepare<GarbageEntry, [number, number]>(
    'SELECT ref, times FROM content_garbage WHERE store = ? ORDER BY ref LIMIT ?',
  ),
  // One that was let go of again meanwhile stays noted.
  remove: db.prepare('DELETE FROM content_garbage WHERE store = ? AND ref = ? AND times = ?'),
  any: db.prepare<{ n: number }, []>('SELECT count(*) AS n FROM (SELECT 1 FROM content_garbage LIMIT 1)'),
}))

/** References looked up in one scan, and parts removed in one transaction of a store. */
const MAX_REFS_PER_SCAN = 200_000
const BATCH_SIZE = 200
/** What rows let go of is collected, so that one scan serves many. */
const COLLECT_DELAY_MS = minutes(10)
/** When parts stay because they were given out again. */
const RETRY_DELAY_MS = minutes(5)
/** Each month of a store is looked through as a whole this often, from this age on. */
const MONTH_SCAN_INTERVAL_MS = days(30)
const MIN_MONTH_AGE_MS = days(2)
const MAX_INTERVAL_MS = hours(1)

const toStoreFolder = (app: App, store: StoreName): string =>
  join(app.config.dataDir, store === 'content' ? 'content' : 'raw-mail')

/** Whether anything is noted that may be removed. */
export const hasGarbage = (db: Database): boolean => (sql(db).any.get()?.n ?? 0) > 0

/** Runs now for whoever asks at the same time. */
const getSweepState = perOwner((_: App): { running?: Promise<number> | undefined } => ({}))

/** Removes what was let go of before the call, as far as it may go. Resolves with how many parts stay for some minutes more. */
export async function sweep(app: App, signal?: AbortSignal): Promise<number> {
  // One that runs may have looked before.
  const state = getSweepState(app)
  await state.running?.catch(() => undefined)
  state.running ??= sweepAll(app, signal).finally(() => {
    state.running = undefined
  })
  return state.running
}

async function sweepAll(app: App, signal: AbortSignal | undefined): Promise<number> {
  let left = 0
  for (const store of STORES) {
    await app[store].removeOrphanFiles(signal)
    left += await sweepStore(app, store, signal)
  }
  return left
}

async function sweepStore(app: App, store: StoreName, signal: AbortSignal | undefined): Promise<number> {
  const code = STORES.indexOf(store)
  let stay = 0
  for (;;) {
    const entries = sql(app.db).garbage.all(code, MAX_REFS_PER_SCAN + stay)
    if (entries.length <= stay || signal?.aborted) return stay
    // What the rows say is read after this: a row that lets go later notes it anew.
    await app.commit.barrier()
    const unreferenced = await scanForUnreferenced({
      databasePath: join(app.config.dataDir, 'tassis.db'),
      store,
      candidates: Float64Array.from(entries, ({ ref }) => ref),
    })
    // What let go of them is on disk as well, before they go.
    await app.commit.barrier()
    const kept = await deleteBlobs(app, store, unreferenced, signal)
    if (signal?.aborted) return stay
    const staying = new Set(kept)
    const settled = entries.filter(({ ref }) => !staying.has(ref))
    for (const batch of splitIntoBatches(settled))
      await app.commit.writeFromReserve((tx) => {
        for (const { ref, times } of batch) sql(tx.db).remove.run(code, ref, times)
      })
    stay = kept.length
    if (settled.length === 0) return stay
  }
}

/** Removes parts in slices; gives those that stay. */
async function deleteBlobs(
  app: App,
  store: StoreName,
  refs: Float64Array,
  signal: AbortSignal | undefined,
): Promise<number[]> {
  const kept: number[] = []
  for (const batch of splitIntoBatches(refs)) {
    if (signal?.aborted) return [...refs]
    kept.push(...(await app[store].deleteBlobs([...batch], app.clock.now())))
  }
  return kept
}

function* splitIntoBatches<T extends readonly unknown[] | Float64Array>(all: T): Generator<T> {
  for (let from = 0; from < all.length; from += BATCH_SIZE) yield all.slice(from, from + BATCH_SIZE) as T
}

const toMonthScanKey = (store: StoreName, month: number): string => `content:whole:${store}:${month}`

/** Looks through one month that is due as a whole. False when none is. */
async function sweepMonth(app: App, signal: AbortSignal): Promise<boolean> {
  const now = app.clock.now()
  for (const store of STORES) {
    const current = app[store].monthOf(now - MIN_MONTH_AGE_MS)
    for (const { month, first } of app[store].ranges()) {
      const key = toMonthScanKey(store, month)
      // One of the future is of a clock that was wrong.
      const sinceMs = now - Number(getMeta(app.db, key) ?? 0)
      if (month >= current || (sinceMs >= 0 && sinceMs < MONTH_SCAN_INTERVAL_MS)) continue
      // Of newer ones the row may not be written yet.
      const below = app[store].settledBelow(month)
      await app.commit.barrier()
      const unreferenced = await scanForUnreferenced({
        databasePath: join(app.config.dataDir, 'tassis.db'),
        store,
        candidates: { folder: toStoreFolder(app, store), month: monthOfRef(first), below },
      })
      await app.commit.barrier()
      await deleteBlobs(app, store, unreferenced, signal)
      if (!signal.aborted) await app.commit.writeFromReserve((tx) => setMeta(tx.db, key, String(now)))
      if (unreferenced.length > 0)
        app.log.info({ store, month, parts: unreferenced.length }, 'parts that nothing refers to were removed')
      return true
    }
  }
  return false
}

/** Starts the loop that sweeps. */
export function startSweeper(app: App): DueLoop {
  // The first one also for the files that a crash left.
  let isFirst = true
  let dueAt: Millis = app.clock.now() + RETRY_DELAY_MS
  const loop = startDueLoop({
    name: 'sweep content',
    clock: app.clock,
    log: app.log,
    step: async (signal) => {
      const now = app.clock.now()
      if (now < dueAt) return dueAt
      const left = isFirst || hasGarbage(app.db) ? await sweep(app, signal) : 0
      isFirst = false
      const isBusy = left === 0 && (await sweepMonth(app, signal))
      dueAt = app.clock.now() + (left > 0 ? RETRY_DELAY_MS : isBusy ? 0 : MAX_INTERVAL_MS)
      return dueAt
    },
  })
  const stopListening = app.contentDropped.listen(() => {
    const wanted = app.clock.now() + COLLECT_DELAY_MS
    if (wanted < dueAt) {
      dueAt = wanted
      loop.wake()
    }
  })
  return {
    wake: () => loop.wake(),
    async stop() {
      stopListening()
      await loop.stop()
    },
  }
}
