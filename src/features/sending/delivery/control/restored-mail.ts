/**
 * @module What the operator does with mail that waits as `restored` (`core/fence`): counts, releases and drops it, in
 * small transactions. Never fences.
 */
import type { App } from '#features/core/app/app.ts'
import {
  addReleasedScope,
  endFence,
  type Fence,
  isMailRestored,
  RESTORED_REASON,
  type ReleasedScope,
  readFence,
} from '#features/core/fence/restored.ts'
import { releaseHeldRecipient } from '#features/sending/queue/account-transitions.ts'
import { accountOfLane, domainOfLane } from '#features/sending/queue/lanes.ts'
import { QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import { readSelected, type SelectedRecipient } from '#features/sending/queue/selection.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type Millis, yieldToEventLoop } from '#platform/time/clock.ts'
import { dropSelected } from './queue-control.ts'

/** Restored mail of one account to one domain. */
export interface RestoredMail {
  readonly accountId: number
  readonly domain: string
  readonly recipients: number
  /** Row ids of its first and last email, which are in the order of acceptance. */
  readonly firstEmailId: number
  readonly lastEmailId: number
}

const sql = prepareStatements((db) => ({
  acceptedAt: db.prepare<{ at: Millis }, [number]>('SELECT created_at AS at FROM emails WHERE id = ?'),
  firstSince: db.prepare<{ id: number | null }, [number]>(
    `SELECT min(email_id) AS id FROM recipients INDEXED BY recipients_due JOIN emails ON emails.id = email_id
     WHERE next_at IS NOT NULL AND created_at >= ?`,
  ),
}))

/** Recipients read in one tick of the event loop; this takes some 5 ms. */
const READ_BATCH_SIZE = 1000
/** Recipients released in one transaction. */
const RELEASED_BATCH_SIZE = 200
/** Replaces the stored reason. It is not null, so broadcasts do not count the recipient as begun a second time. */
const RELEASED_REASON = 'The operator of the service has released it.'

const isRestored = (fence: Fence | undefined, { emailId, lane }: SelectedRecipient): boolean =>
  isMailRestored(fence, { emailId, accountId: accountOfLane(lane), domain: domainOfLane(lane) })

const isInScope = ({ fromEmailId }: ReleasedScope, { emailId }: SelectedRecipient): boolean => emailId >= fromEmailId

const toSelector = ({ accountId, domain }: ReleasedScope) => ({
  accountId: accountId ?? undefined,
  domain: domain ?? undefined,
})

/** Calls `use` with the restored recipients of a scope, in batches. */
async function forEachBatch(
  app: App,
  { fence, scope, limit }: { readonly fence: Fence | undefined; readonly scope: ReleasedScope; readonly limit: number },
  use: (recipients: readonly SelectedRecipient[]) => Promise<void> | void,
): Promise<void> {
  for (let place: QueuePosition | undefined = QUEUE_START; place; await yieldToEventLoop()) {
    const read = readSelected(app.db, toSelector(scope), place, limit)
    const restored = read.recipients.filter((recipient) => isRestored(fence, recipient) && isInScope(scope, recipient))
    if (restored.length > 0) await use(restored)
    place = read.place
  }
}

/** Counts the restored mail of a scope by account and domain, most first. Reads the queue in batches. */
export async function countRestored(app: App, scope: ReleasedScope): Promise<RestoredMail[]> {
  const found = new Map<string, { -readonly [K in keyof RestoredMail]: RestoredMail[K] }>()
  await forEachBatch(app, { fence: readFence(app.db), scope, limit: READ_BATCH_SIZE }, (recipients) => {
    for (const { emailId, lane } of recipients) {
      const [accountId, domain] = [accountOfLane(lane), domainOfLane(lane)]
      const key = `${accountId}:${domain}`
      const known = found.get(key)
      if (!known) found.set(key, { accountId, domain, recipients: 1, firstEmailId: emailId, lastEmailId: emailId })
      else {
        known.recipients++
        known.firstEmailId = Math.min(known.firstEmailId, emailId)
        known.lastEmailId = Math.max(known.lastEmailId, emailId)
      }
    }
  })
  return [...found.values()].sort((a, b) => b.recipients - a.recipients)
}

/** When an email was accepted; undefined if it was deleted. */
export const findAcceptedAt = (app: Pick<App, 'db'>, emailId: number): Millis | undefined =>
  sql(app.db).acceptedAt.get(emailId)?.at

/** The first open email that was accepted at a time or later; undefined if there is none. */
export const findFirstSince = (app: Pick<App, 'db'>, since: Millis): number | undefined =>
  sql(app.db).firstSince.get(since)?.id ?? undefined

/**
 * Releases restored mail: it is sent as if it had just been put into the queue again, with the full time until expiry;
 * what is scheduled keeps its time. If the process dies in between, mail that had been held already waits for at most a
 * day longer. Resolves with the number of recipients that became due.
 * @param alsoWrite called in the transaction that releases
 */
export async function releaseRestored(app: App, scope: ReleasedScope, alsoWrite: (tx: Tx) => void): Promise<number> {
  // The fence from before: afterwards, the mail is not restored any more.
  const fence = readFence(app.db)
  await app.commit.writeFromReserve((tx) => {
    if (isEverything(scope)) endFence(tx.db)
    else addReleasedScope(tx.db, scope)
    alsoWrite(tx)
  })
  let released = 0
  await forEachBatch(app, { fence, scope, limit: RELEASED_BATCH_SIZE }, async (recipients) => {
    const now = app.clock.now()
    const reasons = { reason: RESTORED_REASON, released: RELEASED_REASON, now }
    await app.commit.writeFromReserve((tx) => {
      for (const { id } of recipients) if (releaseHeldRecipient(tx, id, reasons)) released++
    })
    for (const lane of new Set(recipients.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
  })
  app.broadcastChanged.emit()
  app.noticeDue.emit()
  app.importDue.emit()
  return released
}

/** Whether a scope has no limits. */
export const isEverything = ({ accountId, domain, fromEmailId }: ReleasedScope): boolean =>
  accountId === null && domain === null && fromEmailId === 0

/** Drops restored mail of a scope, a limited number after a place, as `dropSelected` drops mail. */
export function dropRestored(app: App, scope: ReleasedScope, after = QUEUE_START) {
  const fence = readFence(app.db)
  return dropSelected(
    app,
    toSelector(scope),
    after,
    (recipient) => isRestored(fence, recipient) && isInScope(scope, recipient),
  )
}
