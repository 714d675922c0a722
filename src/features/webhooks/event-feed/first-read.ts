/** @module Notes that an account reads its event feed: a step of setting up that only the service can see. */

import { recordEventsRead } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'

const MAX_REMEMBERED_ACCOUNTS = 10_000

/** Returns a function that stores when an API key of an account first read the feed; people who only look do not count. */
export function createFirstReadNote(app: App): (actor: Actor) => void {
  const noted = new Set<number>()
  return ({ accountId, type }) => {
    if (type !== 'api_key' || noted.has(accountId)) return
    if (noted.size >= MAX_REMEMBERED_ACCOUNTS) noted.clear()
    noted.add(accountId)
    app.commit
      .writeFromReserve((tx) => recordEventsRead(tx, accountId, app.clock.now()))
      .catch((error: unknown) => {
        noted.delete(accountId)
        app.log.warn({ err: error }, 'the first use of the event feed was not stored')
      })
  }
}
