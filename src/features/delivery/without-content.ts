/**
 * @module Mail whose bodies or attachments are not in the content store, after damage or a backup that was put back in part: it waits, and goes once they
 * are back. Looked at again every hour, and at once after a start or `tassis queue release`.
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { giveWay } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { hours } from '#platform/units.ts'
import { holdForContent, releaseForContent } from '../emails/content-moves.ts'
import { getMeta, setMeta } from '../events/record.ts'

/** How soon it is tried whether the content is back. */
export const CONTENT_HOLD_MS = hours(1)
/** Recipients released in one transaction. */
const BATCH_SIZE = 1000

/** Set while mail may wait for its content, so that nobody looks through the queue for none. */
const META_KEY = 'held_without_content'

/** Puts a recipient off whose content is missing; gives until when. Undefined: it does not wait. */
export function holdWithoutContent(
  app: App,
  tx: Tx,
  { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
): Millis | undefined {
  const until = app.clock.now() + CONTENT_HOLD_MS
  if (!holdForContent(tx, { recipientId, emailId, until, now: app.eventTime() })) return undefined
  setMeta(tx.db, META_KEY, '1')
  return until
}

/** Makes all that waits for its content due; resolves with how many recipients that are. What is still without it is held again. */
export async function releaseWithoutContent(app: App): Promise<number> {
  let released = 0
  while (getMeta(app.db, META_KEY) === '1') {
    const lanes = await app.commit.writeFromReserve((tx) => {
      const now = app.clock.now()
      const batch = releaseForContent(tx, { now, limit: BATCH_SIZE })
      if (batch.length < BATCH_SIZE) setMeta(tx.db, META_KEY, '0')
      tx.afterCommit(() => {
        for (const lane of new Set(batch)) app.mailDue.emit({ lane, at: now })
      })
      return batch
    })
    released += lanes.length
    await giveWay()
  }
  return released
}
