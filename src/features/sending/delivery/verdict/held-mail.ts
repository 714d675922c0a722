/**
 * @module Holds due mail of blocked accounts, and mail whose stored content is missing, and releases it in batches:
 * when the account may send again, for any reason; when the content is back, every hour, at a start, and with `tassis
 * queue release`. The only writer of `held_accounts`. Never decides who may send.
 */

import type { Database } from 'bun:sqlite'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import {
  holdForAccount,
  holdForContent,
  releaseForAccount,
  releaseForContent,
} from '#features/sending/queue/hold-transitions.ts'
import { type DistantRecipient, QUEUE_START, type QueuePosition, readDistant } from '#features/sending/queue/queue.ts'
import { readSelected } from '#features/sending/queue/queue-rules.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { hours, type Millis } from '#platform/units.ts'

/** How long a recipient is held; the end of the block releases it earlier. */
const ACCOUNT_HOLD_MS = hours(24)
/** Examined in one transaction, and the pause after it: other mail of the same lanes is not delayed for long. */
const RELEASED_BATCH_SIZE = 250
const BATCH_PAUSE_MS = 250

const sql = prepareStatements((db) => ({
  note: db.prepare('INSERT OR IGNORE INTO held_accounts (account_id) VALUES (?)'),
  forget: db.prepare('DELETE FROM held_accounts WHERE account_id = ?'),
  all: db.prepare<{ accountId: number }, []>('SELECT account_id AS accountId FROM held_accounts ORDER BY account_id'),
}))

/** Holds a due recipient because its account is blocked. False when the recipient is not waiting. */
export function holdBlockedRecipient(
  app: App,
  tx: Tx,
  at: { readonly recipientId: number; readonly emailId: number; readonly accountId: number },
  sendingBlock: string,
): boolean {
  const { recipientId, emailId, accountId } = at
  const until = app.clock.now() + ACCOUNT_HOLD_MS
  if (!holdForAccount(tx, { recipientId, emailId, until, now: app.eventTime() }, sendingBlock)) return false
  sql(tx.db).note.run(accountId)
  return true
}

interface ReleaseScan {
  readonly place: QueuePosition
  readonly released: number
  /** Value of `changes` when the scan began. */
  readonly changes: number
}

/** Also releases mail that was held before this start. Woken by `App.sendingChanged`. */
export function startHeldMailReleaser(app: App): DueLoop {
  /** The scan of each account whose mail is being released. */
  const scans = new Map<number, ReleaseScan>()
  /** Counts blocks and unblocks. During a block, mail may have been held behind the position of a scan. */
  let changes = 0
  /**
   * Releases one batch. The account is done after a full scan that released nothing and during which no account was
   * blocked or unblocked: after any other scan, there may be held mail behind the position that the scan had reached.
   */
  const releaseHeldBatch = async (accountId: number): Promise<void> => {
    const scan = scans.get(accountId) ?? { place: QUEUE_START, released: 0, changes }
    const next = await app.commit.writeFromReserve((tx): ReleaseScan | undefined => {
      // The account is blocked again: recipients already released are held again when they are claimed.
      if (findSendingBlock(tx.db, accountId) !== undefined) return undefined
      const now = app.clock.now()
      const { recipients, place } = readSelected(tx.db, { accountId }, scan.place, RELEASED_BATCH_SIZE)
      const released = releaseForAccount(tx, recipients, now)
      tx.afterCommit(() => {
        if (released > 0)
          for (const lane of new Set(recipients.map(({ lane }) => lane))) app.mailDue.emit({ lane, at: now })
      })
      const sum = scan.released + released
      if (place) return { ...scan, place, released: sum }
      if (sum === 0 && scan.changes === changes) sql(tx.db).forget.run(accountId)
      return undefined
    })
    if (next) scans.set(accountId, next)
    else scans.delete(accountId)
  }
  const step = async (ending: AbortSignal): Promise<Millis | undefined> => {
    let isBusy = false
    for (const { accountId } of sql(app.db).all.all()) {
      if (ending.aborted) return undefined
      if (findSendingBlock(app.db, accountId) !== undefined) continue
      isBusy = true
      await releaseHeldBatch(accountId)
    }
    return isBusy ? app.clock.now() + BATCH_PAUSE_MS : undefined
  }
  const { clock, log, sendingChanged } = app
  const onEnded = sendingChanged.listen(() => {
    changes++
  })
  return startDueLoop({ name: 'held mail release', clock, log, wokenBy: [sendingChanged], step, onEnded })
}

/** How often to check whether the content is back. */
export const CONTENT_HOLD_MS = hours(1)
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

/** Makes mail that waits for its content due; what still lacks it is held again. Resolves with the number. */
export async function releaseWithoutContent(app: App): Promise<number> {
  if ((getMeta(app.db, META_KEY) ?? NONE) === NONE) return 0
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, META_KEY, RELEASING))
  // Mail that is held again during this release is due later than this, so it is not released twice.
  const lastAt = app.clock.now() + CONTENT_HOLD_MS
  const isReleased = ({ isWithoutContent, nextAt }: DistantRecipient) => isWithoutContent && nextAt <= lastAt
  const released = await releaseDistant(app, { aheadMs: 0, isReleased, release: releaseForContent })
  await app.commit.writeFromReserve((tx) => {
    if (getMeta(tx.db, META_KEY) === RELEASING) setMeta(tx.db, META_KEY, NONE)
  })
  return released
}

/** Open recipients read at once; those to release are released in one transaction. */
const READ_BATCH_SIZE = 500

/** Releases the matching recipients that are due more than `aheadMs` from now; resolves with their number. */
export async function releaseDistant(
  app: App,
  {
    aheadMs,
    isReleased,
    release,
    ending,
  }: {
    readonly aheadMs: number
    readonly isReleased: (recipient: DistantRecipient, now: Millis) => boolean
    readonly release: (tx: Tx, recipients: readonly DistantRecipient[], now: Millis) => number
    readonly ending?: AbortSignal
  },
): Promise<number> {
  let released = 0
  let place: QueuePosition | undefined = QUEUE_START
  while (place && !ending?.aborted) {
    const now = app.clock.now()
    const batch = readDistant(app.db, { limitAt: now + aheadMs, place, limit: READ_BATCH_SIZE })
    const found = batch.late.filter((recipient) => isReleased(recipient, now))
    if (found.length > 0) {
      released += await app.commit.writeFromReserve((tx) => release(tx, found, now))
      for (const lane of new Set(found.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
    } else await yieldToEventLoop()
    place = batch.place
  }
  return released
}
