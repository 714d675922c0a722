/**
 * @module When a waiting recipient is attempted next: when it is due, or later, while its host or its provider is not
 * tried. Delivery knows that; without it, the due time is all that is known.
 */
import type { Database } from 'bun:sqlite'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/time/clock.ts'

type FindRetryTime = (lane: string, due: Millis) => Millis

const finderOf = perOwner((_: Database): { find: FindRetryTime } => ({ find: (_lane, due) => due }))

/** Tells the readers of a database what delivery knows. */
export function setRetryTimes(db: Database, find: FindRetryTime): void {
  finderOf(db).find = find
}

/** @param due when the recipient is due */
export const findRetryTime = (db: Database, lane: string, due: Millis): Millis => finderOf(db).find(lane, due)
