/**
 * @module Moves broadcast recipients into the mail queue, one batch at a time. One transaction deletes the recipient
 * row and inserts the email, so a crash neither loses nor duplicates a recipient. Never delivers, and limits how many
 * emails of a broadcast wait for their first attempt.
 */

import { findAccountUuid, giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { domainOfAddress } from '#features/core/events/daily-stats.ts'
import { readCounter } from '#features/core/events/record.ts'
import { isBroadcastRestored, RESTORED_REASON, readFence } from '#features/core/fence/restored.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { requireDiskSpace, requireSendable } from '#features/sending/accept/sendable.ts'
import type { DraftExtra } from '#features/sending/queue/email.ts'
import { insertEmail, type Placement } from '#features/sending/queue/insert.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { begunMetric } from '#features/sending/queue/settle.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { cancelWaiting } from '#features/sending/queue/waiting-transitions.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { namedList } from '#features/setup/contact-store/lists.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import {
  findSubjectProblem,
  formatBroadcastData,
  hasNoTemplateSyntax,
} from '#features/setup/templates/broadcast-data.ts'
import { joinSubjectLines, toOneLine } from '#features/setup/templates/render.ts'
import type { WriteOptions } from '#platform/db/commit.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { isStorageFailure } from '#platform/disk/storage-errors.ts'
import { AppError } from '#platform/errors.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { skipWaiting } from './erase.ts'
import { readFirstRecipients, type SnapshotRecipient, toBroadcastContact } from './preflight.ts'
import { discardLeftovers, parseStoredActor } from './start.ts'
import {
  advanceBroadcast,
  type Broadcast,
  findBroadcastById,
  findNextDueTime,
  findReadyBroadcasts,
  type OnTransition,
  recordDelayReason,
  stateName,
  transitionBroadcast,
} from './states.ts'

/**
 * Emails of one broadcast that wait in the mail queue for their first attempt; the others wait outside it. One that is
 * deferred counts no more, also if its site or provider accepts nothing for a minute.
 */
const MAX_AHEAD = 8000
/** Recipients enqueued in one transaction; this takes some 15 ms. */
const BATCH_SIZE = 100
/** How often to check whether delivery has attempted the enqueued emails. */
const DELIVERY_CHECK_INTERVAL_MS = 100
const RETRY_DELAY_MS = seconds(15)
/** Accounts whose broadcasts are processed at the same time. */
const MAX_CONCURRENT_ACCOUNTS = 16
/** How often to check for capacity when no more emails of a broadcast may be enqueued. */
const CAPACITY_CHECK_INTERVAL_MS = 500
/** How often a broadcast that waits as restored is looked at; a release wakes it earlier. */
const RESTORED_CHECK_INTERVAL_MS = minutes(1)
/** Emails examined, and rows removed, in one transaction when a broadcast is withdrawn. */
const WITHDRAWN_EMAILS_PER_BATCH = 300
const WITHDRAWN_ROWS_PER_BATCH = 2000
/** How often to check whether attempts that were in flight at a cancellation have ended. */
const IN_FLIGHT_CHECK_INTERVAL_MS = 1000

/** One scan over all emails of a broadcast that is being withdrawn, from the first to the last. */
interface WithdrawalScan {
  readonly lastEmailId: number
  /**
   * Whether this scan is the last: nothing was in flight when it began, so no email can return unattempted behind its
   * position. After any other scan, another one follows.
   */
  readonly isLast: boolean
}

interface QueuedEmail {
  readonly emailId: number
  readonly recipientId: number
  readonly quotaMonth: number | null
  readonly isUntried: number
}

const QUEUED = statusCode('queued')

const sql = prepareStatements((db) => ({
  remove: db.prepare('DELETE FROM broadcast_recipients WHERE broadcast_id = ? AND contact_id = ?'),
  stream: db.prepare<{ slug: string }, [number]>('SELECT slug FROM streams WHERE id = ?'),
  // A broadcast that was deferred as a whole has as many queued emails as contacts, so they are read in batches.
  queued: db.prepare<QueuedEmail, [number, number, number]>(
    `SELECT emails.id AS emailId, recipients.id AS recipientId, quota_month AS quotaMonth, recipients.status = ${QUEUED} AND attempts = 0 AS isUntried
     FROM emails JOIN recipients ON email_id = emails.id WHERE operation_id = ? AND emails.status = ${QUEUED} AND emails.id > ? ORDER BY emails.id LIMIT ?`,
  ),
  processing: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM emails WHERE operation_id = ? AND status = ${statusCode('processing')} LIMIT 1`,
  ),
}))

/**
 * Enqueues due broadcasts until its loop is stopped, and completes cancellations. Accounts run concurrently, so an
 * account with slow templates delays no other account; within an account, the oldest broadcast that can proceed runs.
 */
class BroadcastEnqueuer {
  readonly #app: App
  readonly #onTransition: OnTransition
  readonly #maxAhead: number
  /** When to check again each broadcast that cannot proceed now. */
  #retryAt = new Map<number, Millis>()
  /** By account, the broadcast whose step runs or which waits, unless something has changed since the step began. */
  readonly #awaitingDelivery = new Map<number, number>()
  /** The scan of each broadcast that is being withdrawn. */
  readonly #withdrawals = new Map<number, WithdrawalScan>()
  readonly #runningSteps = new Map<number, Promise<void>>()
  #isFirstStep = true
  readonly loop: DueLoop

  constructor(app: App, onTransition: OnTransition, maxAhead: number) {
    this.#app = app
    this.#onTransition = onTransition
    this.#maxAhead = maxAhead
    this.loop = startDueLoop({
      name: 'broadcasts',
      clock: app.clock,
      log: app.log,
      step: (ending) => this.#step(ending),
      onEnded: () => {
        for (const stop of stopListening) stop()
        return Promise.all(this.#runningSteps.values())
      },
    })
    const stopListening = [
      app.clockSetBack.listen(() => {
        // The retry times may be too late: they were computed before the clock was set back.
        this.#retryAt.clear()
        this.loop.wake()
      }),
      app.broadcastChanged.listen(() => {
        // A resume often means that the cause of the delay was fixed.
        this.#retryAt.clear()
        this.#awaitingDelivery.clear()
        this.loop.wake()
      }),
      // An attempt frees capacity, and a broadcast ends once all its emails were attempted.
      app.eventsRecorded.listen(({ accountId }) => this.#wakeFor(accountId)),
    ]
  }

  #wakeFor(accountId: number): void {
    const waiting = this.#awaitingDelivery.get(accountId)
    if (waiting === undefined) return
    this.#awaitingDelivery.delete(accountId)
    this.#retryAt.delete(waiting)
    this.loop.wake()
  }

  async #advance(id: number): Promise<void> {
    const broadcast = findBroadcastById(this.#app.db, id)
    if (!broadcast) return
    try {
      this.#awaitingDelivery.set(broadcast.accountId, id)
      const next = await this.#runStep(broadcast)
      // If something changed during the step, the next step begins immediately, because there may be nothing left to
      // wait for.
      this.#retryAt.set(id, this.#awaitingDelivery.has(broadcast.accountId) ? next : this.#app.clock.now())
    } catch (error) {
      this.#awaitingDelivery.delete(broadcast.accountId)
      this.#retryAt.set(id, this.#app.clock.now() + RETRY_DELAY_MS)
      await this.#handleFailure(broadcast, error)
    }
  }

  async #step(ending: AbortSignal): Promise<Millis | undefined> {
    if (this.#isFirstStep) await discardLeftovers(this.#app)
    this.#isFirstStep = false
    const now = this.#app.clock.now()
    const ready = findReadyBroadcasts(this.#app.db, now)
    this.#retryAt = new Map(
      ready.flatMap(({ id }) => (this.#retryAt.has(id) ? [[id, this.#retryAt.get(id) ?? 0]] : [])),
    )
    let next = findNextDueTime(this.#app.db)
    for (const { id, accountId } of ready) {
      if (ending.aborted || this.#runningSteps.size >= MAX_CONCURRENT_ACCOUNTS) break
      if (this.#runningSteps.has(accountId)) continue
      const retryAt = this.#retryAt.get(id) ?? 0
      if (retryAt > now) {
        next = Math.min(next ?? retryAt, retryAt)
        continue
      }
      const running = this.#advance(id).finally(() => {
        this.#runningSteps.delete(accountId)
        this.loop.wake()
      })
      this.#runningSteps.set(accountId, running)
    }
    return next
  }

  /** Runs the next step of a broadcast; resolves with the time of the following step. */
  async #runStep(broadcast: Broadcast): Promise<Millis> {
    const app = this.#app
    const now = app.clock.now()
    switch (stateName(broadcast.state)) {
      case 'waiting':
        await app.commit.write((tx) => this.#transition(tx, broadcast, { from: 'waiting', to: 'sending' }))
        return now
      case 'sending':
        if (!isBroadcastRestored(readFence(app.db), broadcast)) return this.#enqueueBatch(broadcast)
        await app.commit.writeFromReserve((tx) => recordDelayReason(app, tx, broadcast.id, RESTORED_REASON))
        return now + RESTORED_CHECK_INTERVAL_MS
      case 'cancelling':
        return this.#withdraw(broadcast, 'cancelled')
      case 'failing':
        return this.#withdraw(broadcast, 'failed')
      default:
        return now
    }
  }

  /** Records why a broadcast is delayed. A permanent error ends it. */
  async #handleFailure(broadcast: Broadcast, error: unknown): Promise<void> {
    const app = this.#app
    const isPermanent = error instanceof AppError && error.status === 422
    if (!(error instanceof AppError) && !isStorageFailure(error))
      app.log.error({ err: error, broadcast: broadcast.id }, 'broadcast step failed; retrying')
    const reason =
      error instanceof AppError
        ? error.message
        : 'A temporary storage failure delays the broadcast; it will be retried.'
    try {
      await app.commit.writeFromReserve((tx) => {
        if (isPermanent) this.#transition(tx, broadcast, { from: 'sending', to: 'failing', error: reason })
        else recordDelayReason(app, tx, broadcast.id, reason)
      })
      if (isPermanent) app.broadcastChanged.emit()
    } catch (writeError) {
      app.log.error({ err: writeError, broadcast: broadcast.id }, 'broadcast delay reason not stored')
    }
  }

  /** Enqueues the next recipients, if there is capacity. */
  async #enqueueBatch(broadcast: Broadcast): Promise<Millis> {
    const app = this.#app
    const capacity = this.#maxAhead - countUnattempted(app, broadcast)
    if (capacity <= 0) return app.clock.now() + CAPACITY_CHECK_INTERVAL_MS
    const rows = readFirstRecipients(app.db, broadcast.id, Math.min(BATCH_SIZE, capacity))
    await requireDiskSpace(app)
    const subjects = await renderSubjects(app, broadcast, rows)
    const hasEnded = await app.commit.write(
      (tx) => {
        const current = findBroadcastById(tx.db, broadcast.id)
        if (!current || stateName(current.state) !== 'sending') return false
        if (rows.length > 0) enqueueRecipients(app, tx, current, rows, subjects)
        if (current.error !== null) recordDelayReason(app, tx, broadcast.id, null)
        // The broadcast does not end while an email waits for its first attempt, so that it can still be paused and
        // cancelled.
        if (rows.length > 0 || countUnattempted(app, current) > 0) return false
        return this.#transition(tx, current, { from: 'sending', to: 'done' })
      },
      toWriteOptions(app, broadcast),
    )
    if (hasEnded) app.log.info({ broadcast: broadcast.id, recipients: broadcast.total }, 'broadcast enqueued')
    return app.clock.now() + (rows.length > 0 ? 0 : DELIVERY_CHECK_INTERVAL_MS)
  }

  /** Withdraws unattempted emails in batches, then ends the broadcast. Attempts in flight may return unattempted. */
  async #withdraw(broadcast: Broadcast, to: 'cancelled' | 'failed'): Promise<Millis> {
    const app = this.#app
    const operationId = broadcast.operationId ?? 0
    const next = await app.commit.writeFromReserve(
      (tx): WithdrawalScan | 'tried' | undefined => {
        const isInFlight = () => sql(tx.db).processing.get(operationId) !== null
        const { lastEmailId, isLast } = this.#withdrawals.get(broadcast.id) ?? { lastEmailId: 0, isLast: !isInFlight() }
        const emails = sql(tx.db).queued.all(operationId, lastEmailId, WITHDRAWN_EMAILS_PER_BATCH)
        const last = emails.at(-1)
        withdrawEmails(app, tx, broadcast, emails)
        if (last) return { lastEmailId: last.emailId, isLast }
        if (skipWaiting(app, tx, broadcast, WITHDRAWN_ROWS_PER_BATCH) > 0) return { lastEmailId, isLast }
        if (isInFlight()) return 'tried'
        const from = to === 'cancelled' ? 'cancelling' : 'failing'
        if (isLast) this.#transition(tx, broadcast, { from, to, error: broadcast.error ?? 'Cancelled.' })
        return undefined
      },
      toWriteOptions(app, broadcast),
    )
    if (next === 'tried') return app.clock.now() + IN_FLIGHT_CHECK_INTERVAL_MS
    // The position moves only after the commit, so that a batch whose write failed is scanned again.
    if (next) this.#withdrawals.set(broadcast.id, next)
    else this.#withdrawals.delete(broadcast.id)
    return app.clock.now()
  }

  #transition(tx: Tx, broadcast: Broadcast, transition: Parameters<typeof transitionBroadcast>[3]): boolean {
    return transitionBroadcast(this.#app, tx, broadcast, transition, this.#onTransition)
  }
}

/**
 * Starts the loop that enqueues broadcasts.
 * @param onTransition updates the newsletter in the transaction of the transition
 * @param maxAhead another limit, for tests
 */
export const startEnqueuer = (app: App, onTransition: OnTransition, maxAhead = MAX_AHEAD): DueLoop =>
  new BroadcastEnqueuer(app, onTransition, maxAhead).loop

/** Number of enqueued emails that were not attempted yet. */
function countUnattempted(app: App, { id, accountId, handedOver }: Broadcast): number {
  return Math.max(0, handedOver - readCounter(app.db, accountId, begunMetric(id), 0))
}

/** Owners share the write budget fairly, and one write inserts many emails. */
const toWriteOptions = (app: App, { accountId }: Broadcast): WriteOptions => ({ owner: getTenantId(app.db, accountId) })

/** Inserts the emails of a batch and skips recipients who may no longer be sent to. */
function enqueueRecipients(
  app: App,
  tx: Tx,
  broadcast: Broadcast,
  rows: readonly SnapshotRecipient[],
  subjects: readonly string[],
): void {
  const { accountId, listId, streamId, quotaMonth } = broadcast
  const accountUuid = findAccountUuid(tx.db, accountId)
  const stream = sql(tx.db).stream.get(streamId)?.slug
  if (!accountUuid || stream === undefined) throw new Error(`broadcast ${broadcast.id} has no account or no stream`)
  const actor = parseStoredActor(broadcast.actor, { accountId, accountUuid })
  const shared = toSharedDraft(broadcast, stream)
  const placement: Placement = {
    ...requireSendable(app, actor, shared, { isAccepted: true }),
    // Keeps the decision made when the broadcast was accepted, because only real mail was counted against the quota
    // then.
    sandbox: broadcast.sandbox === 1,
    suppressions: [undefined],
    quotaMonth,
    operationId: broadcast.operationId,
    broadcastId: broadcast.id,
  }
  const content = { ...broadcast, attachments: [] }
  // A deleted list still has contacts until they are deleted in batches, but none of them may get its mail.
  const doesListExist = namedList(tx.db, accountId, listId)?.isDeleted === false
  let leftOut = 0
  for (const [index, row] of rows.entries()) {
    if (sql(tx.db).remove.run(broadcast.id, row.contactId).changes !== 1) throw new Error('the recipient was removed')
    const isSendable =
      doesListExist &&
      findContactById(tx.db, row.contactId)?.status === 'active' &&
      suppressionOf(tx.db, { accountId, address: row.email, transactional: false, streamId, listId }) === undefined
    if (!isSendable) {
      leftOut++
      if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, 1)
      continue
    }
    const draft = toRecipientDraft(shared, row, subjects[index] ?? broadcast.subject)
    const placed = isSimulated(app, row.email) ? toSimulated(tx, accountId, placement) : placement
    insertEmail(app, tx, actor, draft, content, placed)
  }
  advanceBroadcast(app, tx, broadcast.id, { handedOver: rows.length - leftOut, leftOut })
}

const isSimulated = ({ config }: Pick<App, 'config'>, address: string): boolean =>
  domainOfAddress(address) === simulatorDomain(config)

/** Mail to the simulator counts in no quota, so what the start of the broadcast counted is given back. */
function toSimulated(tx: Tx, accountId: number, placement: Placement): Placement {
  if (placement.quotaMonth !== null) giveQuotaBack(tx, accountId, placement.quotaMonth, 1)
  return { ...placement, sandbox: true, quotaMonth: null }
}

const PLACEHOLDER_BODY = new Uint8Array()

/** What all emails of a broadcast share. The bodies are placeholders: their sources are stored once. */
const toSharedDraft = (broadcast: Broadcast, stream: string): Draft => ({
  from: broadcast.from,
  fromDomain: domainOfMailbox(broadcast.from),
  recipients: [],
  subject: broadcast.subject,
  html: broadcast.htmlRef === null ? undefined : PLACEHOLDER_BODY,
  text: broadcast.textRef === null ? undefined : PLACEHOLDER_BODY,
  attachments: [],
  scheduledAt: undefined,
  stream,
  tracking: undefined,
  transactional: false,
  templateId: broadcast.templateId ?? undefined,
  listId: broadcast.listId,
  idempotency: undefined,
  extra: JSON.parse(broadcast.extra ?? '{}') as DraftExtra,
})

function toRecipientDraft(shared: Draft, row: SnapshotRecipient, subject: string): Draft {
  return {
    ...shared,
    subject,
    recipients: [{ kind: 'to', address: row.email, domain: domainOfMailbox(row.email), mailbox: undefined }],
    extra: { ...shared.extra, contact: toBroadcastContact(row) },
  }
}

/** Rendered for each recipient. One that fails stays as its source; delivery reports the error. */
async function renderSubjects(app: App, broadcast: Broadcast, rows: readonly SnapshotRecipient[]): Promise<string[]> {
  const { accountId, subject, templateData: shared } = broadcast
  if (hasNoTemplateSyntax(subject)) return rows.map(() => subject)
  return Promise.all(
    rows.map(async (row) => {
      const dataJson = formatBroadcastData({ shared, contact: toBroadcastContact(row), unsubscribeUrl: '' })
      const source = joinSubjectLines({ subject })
      const outcome = await app.renderer.render({ accountId, urgency: 'bulk', source, dataJson })
      const rendered = outcome.kind === 'rendered' ? (outcome.parts.subject ?? '') : ''
      return findSubjectProblem(rendered) === undefined ? toOneLine(rendered) : subject
    }),
  )
}

function withdrawEmails(app: App, tx: Tx, broadcast: Broadcast, emails: readonly QueuedEmail[]): void {
  let withdrawn = 0
  for (const { recipientId, emailId, quotaMonth, isUntried } of emails) {
    if (isUntried === 0 || !cancelWaiting(tx, { recipientId, emailId, now: app.eventTime() })) continue
    withdrawn++
    if (quotaMonth !== null) giveQuotaBack(tx, broadcast.accountId, quotaMonth, 1)
  }
  if (withdrawn > 0) advanceBroadcast(app, tx, broadcast.id, { handedOver: -withdrawn, leftOut: withdrawn })
}
