/**
 * @module The time by which things go for their age. A clock that is suddenly days ahead is wrong more often than the service was off for so long, and what
 * went by it does not come back with the right time. So it has to stand for a day before anything goes by it.
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { days, minutes } from '#platform/units.ts'
import { getMeta, setMeta } from '../events/record.ts'

/** How far the wall clock may run ahead of the monotonic one, or after a restart of the last look: that is an hour old at most while the service runs. */
const LARGEST_STEP_MS = days(2)
/** Of running time that a clock further ahead has to stand. */
const PROBATION_MS = days(1)
/** The last look is not noted more often. */
const NOTE_EVERY_MS = minutes(10)
const KEY = 'retention:looked_at'

interface Look {
  readonly at: Millis
  readonly atMs: number
}

const lastLooks = new WeakMap<App, Look>()
/** Since when the clock is too far ahead, by the monotonic one. */
const doubts = new WeakMap<App, number>()

/** The wall clock; the time of the last look while it is not believed. To be asked every hour or more often. */
export async function believedTime(app: App): Promise<Millis> {
  const look: Look = { at: app.clock.now(), atMs: app.clock.monotonicMs() }
  const noted = Number(getMeta(app.db, KEY) ?? look.at)
  const last = lastLooks.get(app)
  const aheadMs = last ? look.at - last.at - (look.atMs - last.atMs) : look.at - noted
  if (aheadMs > LARGEST_STEP_MS && !hasStood(app, look, aheadMs)) return last?.at ?? noted
  doubts.delete(app)
  lastLooks.set(app, look)
  if (!last || Math.abs(look.at - noted) >= NOTE_EVERY_MS)
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, KEY, String(look.at)))
  return look.at
}

function hasStood(app: App, { at, atMs }: Look, aheadMs: number): boolean {
  const sinceMs = doubts.get(app)
  if (sinceMs !== undefined) return atMs - sinceMs >= PROBATION_MS
  doubts.set(app, atMs)
  app.log.warn(
    { clock: new Date(at).toISOString(), aheadDays: Math.floor(aheadMs / days(1)) },
    'the clock is days ahead of when it was last looked at; until the service has run with it for a day, nothing is removed for its age',
  )
  return false
}
