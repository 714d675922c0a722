/**
 * @module What an operator does with selected mail in the queue: makes it due, bounces it or drops it, in small
 * transactions, so that other work goes on and a crash leaves whole ones. Mail in delivery is left alone. A call
 * changes a limited number of recipients and returns where to continue. Never decides who may do so.
 */
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
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
import { addDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { releaseHeldRecipient } from '#features/sending/queue/hold-transitions.ts'
import { accountOfLane, domainOfLane } from '#features/sending/queue/lanes.ts'
import { makeDue, QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import {
  findEmailHold,
  findHold,
  hasProviderRules,
  type LaneProviders,
  listSelectedLanes,
  type MailSelector,
  type QueueRule,
  type QueueRuleKind,
  readSelected,
  removeRules,
  type SelectedRecipient,
} from '#features/sending/queue/queue-rules.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { bounceWaiting, cancelRecipient } from '#features/sending/queue/waiting-transitions.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { formatCursor, parseCursor } from '#platform/http/schemas.ts'
import { invalidFields } from '#platform/http/validation.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import type { Millis } from '#platform/units.ts'
import { findLaneProviders } from '../providers/lane-provider.ts'
import { listSuspendedProviders } from '../providers/pairs.ts'
import { WAKE_BATCH_SIZE } from '../schedule/lanes.ts'

/** Recipients changed in one transaction; this takes some 10 ms at most. */
export const CHANGED_BATCH_SIZE = 50
/** Recipients counted in one tick of the event loop; this takes some 5 ms. */
const COUNTED_BATCH_SIZE = 1000
/** Lanes whose providers are looked up at the same time. */
const LOOKED_UP_LANES = 50
const MAX_EXAMINED_PER_CALL = 10_000

const PROCESSING = statusCode('processing')
const QUEUED = statusCode('queued')

const sql = prepareStatements((db) => ({
  quota: db.prepare<{ accountId: number; month: number | null }, [number]>(
    'SELECT account_id AS accountId, quota_month AS month FROM emails WHERE id = ?',
  ),
  acceptedAt: db.prepare<{ at: Millis }, [number]>('SELECT created_at AS at FROM emails WHERE id = ?'),
  firstSince: db.prepare<{ id: number | null }, [number]>(
    `SELECT min(email_id) AS id FROM recipients INDEXED BY recipients_due JOIN emails ON emails.id = email_id
     WHERE next_at IS NOT NULL AND created_at >= ?`,
  ),
}))

/** Reads selected mail after a place; for a selector with a provider, those of the next lanes are looked up first. */
async function readBatch(
  app: ControlApp,
  selector: MailSelector,
  after: QueuePosition,
  limit: number,
): Promise<ReturnType<typeof readSelected>> {
  if (selector.provider == null) return readSelected(app.db, selector, after, limit)
  const { lanes } = listSelectedLanes(app.db, selector, after.lane, LOOKED_UP_LANES)
  const names = [...(after.lane === '' ? [] : [after.lane]), ...lanes.map(({ lane }) => lane)]
  return readSelected(app.db, selector, after, limit, await findLaneProviders(app, names))
}

type ControlApp = Pick<App, 'config' | 'db' | 'resolver'>

export async function countSelected(app: ControlApp, selector: MailSelector) {
  let waiting = 0
  let inDelivery = 0
  for (let place: QueuePosition | undefined = QUEUE_START; place; await yieldToEventLoop()) {
    const read = await readBatch(app, selector, place, COUNTED_BATCH_SIZE)
    const processing = read.recipients.filter(({ status }) => status === PROCESSING).length
    inDelivery += processing
    waiting += read.recipients.length - processing
    place = read.place
  }
  return { waiting, in_delivery: inDelivery }
}

/** Where to continue with another call; null when all selected mail was examined. */
const formatPlace = (place: QueuePosition | undefined): string | null =>
  place ? formatCursor(0, [place.lane, place.nextAt, place.id]) : null

/** The place in a `next_cursor`; undefined without one. Throws 422 for any other text. */
export function parsePlace(cursor: string | undefined): QueuePosition | undefined {
  if (cursor === undefined) return undefined
  const [lane, nextAt, id] = parseCursor(cursor).key ?? []
  if (typeof lane !== 'string' || typeof nextAt !== 'number' || typeof id !== 'number')
    throw invalidFields([{ field: 'cursor', message: 'must be the next_cursor of a response, unchanged' }])
  return { lane, nextAt, id }
}

/** Whether a recipient was changed, or why it was left alone. */
type Change = 'changed' | 'in_delivery' | 'held' | 'unchanged'

/** Calls `change` for each selected recipient after a place; `findProviders` looks up those of a batch of lanes. */
async function changeSelected(
  app: App,
  selector: MailSelector,
  after: QueuePosition,
  change: (tx: Tx, recipient: SelectedRecipient, provider: string | undefined) => Change,
  findProviders?: (lanes: ReadonlySet<string>) => Promise<LaneProviders>,
) {
  const counts = { changed: 0, in_delivery: 0, held: 0, unchanged: 0 }
  let place: QueuePosition | undefined = after
  for (let examined = 0; place && examined < MAX_EXAMINED_PER_CALL; ) {
    const { recipients, place: next } = await readBatch(app, selector, place, CHANGED_BATCH_SIZE)
    const providers = await findProviders?.(new Set(recipients.map(({ lane }) => lane)))
    const changeOne = (tx: Tx, recipient: SelectedRecipient): Change =>
      recipient.status === PROCESSING ? 'in_delivery' : change(tx, recipient, providers?.get(recipient.lane))
    if (recipients.length === 0) await yieldToEventLoop()
    else
      for (const done of await app.commit.writeFromReserve((tx) => recipients.map((each) => changeOne(tx, each))))
        counts[done]++
    examined += recipients.length
    place = next
  }
  const { unchanged: _, ...result } = counts
  // Filled for retried mail only: the names of its suspended providers.
  return { ...result, suspended: [] as string[], next_cursor: formatPlace(place) }
}

/**
 * Makes selected mail due now that waits for another attempt, and ends the backoff of its site. Mail that an operator
 * holds, or that waits as restored, is left alone; so is scheduled mail. A suspended provider stays suspended.
 */
export async function retrySelected(app: App, selector: MailSelector, after = QUEUE_START) {
  const suspended = new Set(listSuspendedProviders(app.db))
  const found = new Set<string>()
  const woken = new Set<string>()
  const result = await changeSelected(
    app,
    selector,
    after,
    (tx, recipient, provider) => {
      const now = app.clock.now()
      const { lane, emailId, status, nextAt } = recipient
      if (findHold(tx.db, lane, provider) || findEmailHold(tx.db, emailId)) return 'held'
      if (isRestored(readFence(tx.db), { lane, emailId })) return 'held'
      if (status !== QUEUED) return 'unchanged'
      if (provider !== undefined && suspended.has(provider)) found.add(provider)
      const isDue = nextAt <= now
      if (!isDue && makeDue(tx, [recipient], now) === 0) return 'unchanged'
      if (!woken.has(lane)) tx.afterCommit(() => app.mailDue.emit({ lane, at: now, isRetryAsked: true }))
      woken.add(lane)
      return isDue ? 'unchanged' : 'changed'
    },
    async (lanes) => (suspended.size > 0 || hasProviderRules(app.db) ? findLaneProviders(app, lanes) : new Map()),
  )
  return { ...result, suspended: [...found] }
}

/** Ends selected mail as soft bounces, with dead letters, as if its time was over. */
export function bounceSelected(app: App, selector: MailSelector, reason: string, after = QUEUE_START) {
  const lastError = `Ended by the operator of the service: ${reason}`
  return changeSelected(app, selector, after, (tx, { id: recipientId, emailId }) => {
    const at = { recipientId, emailId, now: app.eventTime() }
    if (!bounceWaiting(tx, at, { reason: lastError, category: 'expired', rule: 'operator' })) return 'in_delivery'
    addDeadLetter(tx, { ...at, reason: 'expired', lastError, at: at.now })
    return 'changed'
  })
}

const DROPPED = {
  lastError: 'Dropped by the operator of the service.',
  data: { reason: 'dropped_by_operator' },
} as const

/** Cancels selected mail: no bounce, no dead letter, and its quota is given back. @param isSelected selects further */
export function dropSelected(
  app: App,
  selector: MailSelector,
  after = QUEUE_START,
  isSelected: (recipient: SelectedRecipient) => boolean = () => true,
) {
  return changeSelected(app, selector, after, (tx, recipient) => {
    if (!isSelected(recipient)) return 'unchanged'
    const { id: recipientId, emailId } = recipient
    if (!cancelRecipient(tx, { recipientId, emailId, now: app.eventTime() }, DROPPED)) return 'in_delivery'
    const quota = sql(tx.db).quota.get(emailId)
    if (quota && quota.month !== null) giveQuotaBack(tx, quota.accountId, quota.month, 1)
    return 'changed'
  })
}

/**
 * Ends the holds and redirects (or one kind) that name at least what the selector names, and wakes their mail; returns
 * them.
 * @param alsoWrite called in the transaction with the rules
 */
export async function releaseSelected(
  app: App,
  selector: MailSelector,
  kind: QueueRuleKind | undefined,
  alsoWrite: (tx: Tx, rules: readonly QueueRule[]) => void,
): Promise<readonly QueueRule[]> {
  const rules = await app.commit.writeFromReserve((tx) => {
    const removed = removeRules(tx, selector, kind)
    for (const { emailId } of removed) if (emailId !== null) releaseEmail(app, tx, emailId)
    alsoWrite(tx, removed)
    return removed
  })
  for (const rule of rules) await wakeSelected(app, rule)
  return rules
}

function releaseEmail(app: App, tx: Tx, emailId: number): void {
  const now = app.clock.now()
  const { recipients } = readSelected(tx.db, { emailId }, QUEUE_START, COUNTED_BATCH_SIZE)
  const waiting = recipients.filter(({ status, nextAt }) => status === QUEUED && nextAt > now)
  makeDue(tx, waiting, now)
  tx.afterCommit(() => {
    for (const { lane } of recipients) app.mailDue.emit({ lane, at: now })
  })
}

/** Wakes the lanes of selected mail, whatever their provider, in batches, because their rules have changed. */
export async function wakeSelected(app: App, selector: MailSelector): Promise<void> {
  if (selector.emailId != null) return
  for (let after: string | undefined = ''; after !== undefined; await yieldToEventLoop()) {
    const { lanes, next } = listSelectedLanes(app.db, selector, after)
    for (const [index, { lane, firstAt }] of lanes.entries()) {
      if (index % WAKE_BATCH_SIZE === WAKE_BATCH_SIZE - 1) await yieldToEventLoop()
      app.mailDue.emit({ lane, at: firstAt })
    }
    after = next
  }
}

export interface RestoredMail {
  readonly accountId: number
  readonly domain: string
  readonly recipients: number
  /** Row ids of its first and last email, which are in the order of acceptance. */
  readonly firstEmailId: number
  readonly lastEmailId: number
}

/** Recipients read in one tick of the event loop; this takes some 5 ms. */
const READ_BATCH_SIZE = 1000
const RELEASED_BATCH_SIZE = 200
/** Replaces the stored reason. It is not null, so broadcasts do not count the recipient as begun a second time. */
const RELEASED_REASON = 'The operator of the service has released it.'

const isRestored = (
  fence: Fence | undefined,
  { emailId, lane }: Pick<SelectedRecipient, 'emailId' | 'lane'>,
): boolean => isMailRestored(fence, { emailId, accountId: accountOfLane(lane), domain: domainOfLane(lane) })

const isInScope = ({ fromEmailId }: ReleasedScope, { emailId }: SelectedRecipient): boolean => emailId >= fromEmailId

/** The restored recipients of a scope, in batches; a batch may be empty. */
async function* readRestored(app: App, fence: Fence | undefined, scope: ReleasedScope, limit: number) {
  for (let place: QueuePosition | undefined = QUEUE_START; place; await yieldToEventLoop()) {
    const read: ReturnType<typeof readSelected> = readSelected(app.db, scope, place, limit)
    yield read.recipients.filter((recipient) => isRestored(fence, recipient) && isInScope(scope, recipient))
    place = read.place
  }
}

/** Counts the restored mail of a scope by account and domain, most first. Reads the queue in batches. */
export async function countRestored(app: App, scope: ReleasedScope): Promise<RestoredMail[]> {
  const found = new Map<string, { -readonly [K in keyof RestoredMail]: RestoredMail[K] }>()
  for await (const recipients of readRestored(app, readFence(app.db), scope, READ_BATCH_SIZE))
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
  for await (const recipients of readRestored(app, fence, scope, RELEASED_BATCH_SIZE)) {
    if (recipients.length === 0) continue
    const now = app.clock.now()
    const reasons = { reason: RESTORED_REASON, released: RELEASED_REASON, now }
    await app.commit.writeFromReserve((tx) => {
      for (const { id } of recipients) if (releaseHeldRecipient(tx, id, reasons)) released++
    })
    for (const lane of new Set(recipients.map((recipient) => recipient.lane))) app.mailDue.emit({ lane, at: now })
  }
  app.broadcastChanged.emit()
  app.noticeDue.emit()
  app.importDue.emit()
  return released
}

export const isEverything = ({ accountId, domain, fromEmailId }: ReleasedScope): boolean =>
  accountId === null && domain === null && fromEmailId === 0

/** Drops restored mail of a scope, a limited number after a place, as `dropSelected` drops mail. */
export function dropRestored(app: App, scope: ReleasedScope, after = QUEUE_START) {
  const fence = readFence(app.db)
  const isSelected = (recipient: SelectedRecipient) => isRestored(fence, recipient) && isInScope(scope, recipient)
  return dropSelected(app, scope, after, isSelected)
}
