/**
 * @module The order in which a start wakes the lanes of its backlog: by class, and accounts in turn, so that neither a
 * password reset nor another account waits until 100,000 lanes have been woken. Reads one index entry of each lane.
 */

import type { App } from '#features/core/app/app.ts'
import { classOfLane, prefixOfLane, rankOfClass } from '#features/sending/queue/lanes.ts'
import { listLanesAfter, type OpenLane } from '#features/sending/queue/queue.ts'

const LANES_PER_TURN = 5

type DueLane = Pick<OpenLane, 'lane' | 'firstAt'>

/** Where the lanes of an account and class continue. */
interface Place {
  readonly prefix: string
  readonly after: string
}

/** All lanes with open mail, a few in each step; a step may have none. */
export function* listOpenLanes(db: App['db']): Generator<readonly DueLane[]> {
  let places: Place[] = []
  for (let next = listLanesAfter(db, '', 1)[0]; next; ) {
    const prefix = prefixOfLane(next.lane)
    places.push({ prefix, after: prefix })
    yield []
    next = listLanesAfter(db, endOfPrefix(prefix), 1)[0]
  }
  const rankOf = ({ prefix }: Place) => rankOfClass(classOfLane(prefix))
  const ranks = Map.groupBy(places, rankOf)
  for (const rank of [...ranks.keys()].sort()) {
    places = ranks.get(rank) ?? []
    while (places.length > 0) {
      const unfinished: Place[] = []
      for (const { prefix, after } of places) {
        const lanes = listLanesAfter(db, after, LANES_PER_TURN).filter(({ lane }) => lane.startsWith(prefix))
        yield lanes
        const last = lanes[LANES_PER_TURN - 1]
        if (last) unfinished.push({ prefix, after: last.lane })
      }
      places = unfinished
    }
  }
}

/** A name after all that begin with the prefix, and before those of the next one: `;` comes after `:`. */
const endOfPrefix = (prefix: string): string => `${prefix.slice(0, -1)};`
