/**
 * @module Holds mail whose bodies or attachments are missing in the content store, after corruption or a partial
 * restore, until they are back. Retries every hour, and immediately after a start or `tassis queue release`.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { holdForContent, releaseForContent } from '#features/sending/queue/content-transitions.ts'
import { type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Millis } from '#platform/time/clock.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'

/** How often to check whether the content is back. */
export const CONTENT_HOLD_MS = hours(1)
/** Open recipients read at once; those to release are released in one transaction. */
const BATCH_SIZE = 500

/** Whether mail may be waiting for its content; the queue is scanned only then. */
const META_KEY = 'held_without_content'
const NONE = '0'
const SOME = '1'
/** A release is running: only recipients that the release has not reached yet may still wait. */
const RELEASING = '2'

/** What the operator must do about mail that may wait for its content; undefined when none does. */
export const findContentProblem = (db: Database): string | undefined =>
  (getMeta(db, META_KEY) ?? NONE) === NONE
    ? undefined
    : 'Mail waits because stored content is missing or damaged: `tassis check --content` names it. Bring it back as docs/backup.md describes, then run `tassis queue release`.'

/** Holds a recipient whose content is missing. Returns the end of the hold; undefined when it was not held. */
export function holdWithoutContent(
  app: App,
  tx: Tx,
  { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
): Millis | undefined {
  const until = app.clock.now() + CONTENT_HOLD_MS
  if (!holdForContent(tx, { recipientId, emailId, until, now: app.eventTime() })) return undefined
  setMeta(tx.db, META_KEY, SOME)
  return until
}

/**
 * Makes all mail that waits for its content due now. Resolves with the number of recipients. Mail whose content is
 * still missing is held again.
 */
export async function releaseWithoutContent(app: App): Promise<number> {
  if ((getMeta(app.db, META_KEY) ?? NONE) === NONE) return 0
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, META_KEY, RELEASING))
  // Mail that is held again during this release is due later than this, so it is not released twice.
  const lastAt = app.clock.now() + CONTENT_HOLD_MS
  let released = 0
  let place: QueuePosition | undefined = { lane: '', nextAt: 0, id: 0 }
  while (place) {
    const now = app.clock.now()
    const batch = readDistant(app.db, { limitAt: now, place, limit: BATCH_SIZE })
    const held = batch.late.filter(({ isWithoutContent, nextAt }) => isWithoutContent && nextAt <= lastAt)
    if (held.length > 0) {
      released += await app.commit.writeFromReserve((tx) => releaseForContent(tx, held, now))
      for (const lane of new Set(held.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    }
    await yieldToEventLoop()
    place = batch.place
  }
  await app.commit.writeFromReserve((tx) => {
    if (getMeta(tx.db, META_KEY) === RELEASING) setMeta(tx.db, META_KEY, NONE)
  })
  return released
}
