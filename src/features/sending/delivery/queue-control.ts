/**
 * @module What an operator does with selected mail in the queue: makes it due, bounces it or drops it, in small
 * transactions, so that other work goes on and a crash leaves whole ones. Mail in delivery is left alone. A call
 * changes a limited number of recipients and returns where to continue. Never decides who may do so.
 */
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { addDeadLetter } from '#features/sending/dead-letters/add.ts'
import { makeDue, QUEUE_START, type QueuePosition } from '#features/sending/queue/queue.ts'
import {
  listSelectedLanes,
  type MailSelector,
  readSelected,
  type SelectedRecipient,
} from '#features/sending/queue/selection.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { bounceWaiting, cancelRecipient } from '#features/sending/queue/waiting-transitions.ts'
import { yieldToEventLoop } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { findEmailHold, findHold, type QueueRule, type QueueRuleKind, removeRules } from './queue-rules.ts'

/** Recipients changed in one transaction; this takes some 10 ms at most. */
export const CHANGED_BATCH_SIZE = 50
/** Recipients counted in one tick of the event loop; this takes some 5 ms. */
const COUNTED_BATCH_SIZE = 1000
/** Lanes woken in one tick of the event loop; this takes some 5 ms. */
const WOKEN_LANES = 25
/** Recipients examined by one call. */
const MAX_EXAMINED_PER_CALL = 10_000

const PROCESSING = statusCode('processing')
const QUEUED = statusCode('queued')

const sql = prepareStatements((db) => ({
  quota: db.prepare<{ accountId: number; month: number | null }, [number]>(
    'SELECT account_id AS accountId, quota_month AS month FROM emails WHERE id = ?',
  ),
}))

export interface SelectedCount {
  readonly waiting: number
  readonly inDelivery: number
}

/** Counts the open mail that is selected, in batches. */
export async function countSelected({ db }: Pick<App, 'db'>, selector: MailSelector): Promise<SelectedCount> {
  let waiting = 0
  let inDelivery = 0
  for (let place: QueuePosition | undefined = QUEUE_START; place; await yieldToEventLoop()) {
    const read = readSelected(db, selector, place, COUNTED_BATCH_SIZE)
    const processing = read.recipients.filter(({ status }) => status === PROCESSING).length
    inDelivery += processing
    waiting += read.recipients.length - processing
    place = read.place
  }
  return { waiting, inDelivery }
}

export interface ControlResult {
  readonly changed: number
  /** Recipients that were left alone, because they were in delivery. */
  readonly inDelivery: number
  /** Recipients that were left alone, because an operator holds them. */
  readonly held: number
  /** Where to continue with another call; undefined when all selected mail was examined. */
  readonly next: QueuePosition | undefined
}

/** Whether a recipient was changed, or why it was left alone. */
type Change = 'changed' | 'inDelivery' | 'held' | 'unchanged'

/** Calls `change` for each selected recipient after a place, a batch in a transaction. */
async function changeSelected(
  app: App,
  selector: MailSelector,
  after: QueuePosition,
  change: (tx: Tx, recipient: SelectedRecipient) => Change,
): Promise<ControlResult> {
  const counts = { changed: 0, inDelivery: 0, held: 0, unchanged: 0 }
  let place: QueuePosition | undefined = after
  for (let examined = 0; place && examined < MAX_EXAMINED_PER_CALL; ) {
    const { recipients, place: next } = readSelected(app.db, selector, place, CHANGED_BATCH_SIZE)
    if (recipients.length === 0) await yieldToEventLoop()
    else
      for (const done of await app.commit.writeFromReserve((tx) =>
        recipients.map((recipient) => (recipient.status === PROCESSING ? 'inDelivery' : change(tx, recipient))),
      ))
        counts[done]++
    examined += recipients.length
    place = next
  }
  const { unchanged: _, ...result } = counts
  return { ...result, next: place }
}

/**
 * Makes selected mail due now that waits for another attempt. Mail that an operator holds is left alone; so is
 * scheduled mail, and mail that is due already.
 */
export function retrySelected(app: App, selector: MailSelector, after = QUEUE_START): Promise<ControlResult> {
  return changeSelected(app, selector, after, (tx, recipient) => {
    const now = app.clock.now()
    const { lane, emailId, status, nextAt } = recipient
    if (findHold(tx.db, lane) || findEmailHold(tx.db, emailId)) return 'held'
    if (status !== QUEUED || nextAt <= now || makeDue(tx, [recipient], now) === 0) return 'unchanged'
    tx.afterCommit(() => app.mailDue.emit({ lane, at: now }))
    return 'changed'
  })
}

/** Ends selected mail as soft bounces, with dead letters, as if its time was over. */
export function bounceSelected(
  app: App,
  selector: MailSelector,
  reason: string,
  after = QUEUE_START,
): Promise<ControlResult> {
  const lastError = `Ended by the operator of the service: ${reason}`
  return changeSelected(app, selector, after, (tx, { id: recipientId, emailId }) => {
    const at = { recipientId, emailId, now: app.eventTime() }
    if (!bounceWaiting(tx, at, { reason: lastError, category: 'expired', rule: 'operator' })) return 'inDelivery'
    addDeadLetter(tx, { ...at, reason: 'expired', lastError, at: at.now })
    return 'changed'
  })
}

const DROPPED = {
  lastError: 'Dropped by the operator of the service.',
  data: { reason: 'dropped_by_operator' },
} as const

/** Cancels selected mail: no bounce, no dead letter, and its quota is given back. */
export function dropSelected(app: App, selector: MailSelector, after = QUEUE_START): Promise<ControlResult> {
  return changeSelected(app, selector, after, (tx, { id: recipientId, emailId }) => {
    if (!cancelRecipient(tx, { recipientId, emailId, now: app.eventTime() }, DROPPED)) return 'inDelivery'
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
  for (const rule of rules) await wakeSelected(app, toSelector(rule))
  return rules
}

/** Makes the waiting recipients of an email due. */
function releaseEmail(app: App, tx: Tx, emailId: number): void {
  const now = app.clock.now()
  const { recipients } = readSelected(tx.db, { emailId }, QUEUE_START, COUNTED_BATCH_SIZE)
  const waiting = recipients.filter(({ status, nextAt }) => status === QUEUED && nextAt > now)
  makeDue(tx, waiting, now)
  tx.afterCommit(() => {
    for (const { lane } of recipients) app.mailDue.emit({ lane, at: now })
  })
}

const toSelector = ({ accountId, domain, emailId }: QueueRule): MailSelector => ({
  accountId: accountId ?? undefined,
  domain: domain ?? undefined,
  emailId: emailId ?? undefined,
})

/** Wakes the lanes of selected mail, in batches, because their rules have changed. */
export async function wakeSelected(app: App, selector: MailSelector): Promise<void> {
  if (selector.emailId !== undefined) return
  for (let after: string | undefined = ''; after !== undefined; await yieldToEventLoop()) {
    const { lanes, next } = listSelectedLanes(app.db, selector, after)
    for (const [index, { lane, firstAt }] of lanes.entries()) {
      if (index % WOKEN_LANES === WOKEN_LANES - 1) await yieldToEventLoop()
      app.mailDue.emit({ lane, at: firstAt })
    }
    after = next
  }
}
