/**
 * @module Hands broadcasts to delivery, some recipients at a time: a recipient's row goes in the transaction that makes their email, so whatever
 * happens in between, nobody is left out and nobody gets two. Never delivers; never hands over more than wait to be tried already.
 */

import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { requireDiskSpace, requireSendable } from '#features/sending/accept/sendable.ts'
import { cancelWaiting } from '#features/sending/queue/broadcast-transitions.ts'
import { insertEmail, type Placement } from '#features/sending/queue/insert.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { begunMetric } from '#features/sending/queue/settle.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { findContactById } from '#features/setup/contact-store/find.ts'
import { namedList } from '#features/setup/contact-store/lists.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import {
  findSubjectProblem,
  formatBroadcastData,
  hasNoTemplateSyntax,
} from '#features/setup/templates/broadcast-data.ts'
import { joinSubjectLines, toOneLine } from '#features/setup/templates/render.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx, WriteOptions } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { isStorageFailure } from '#platform/storage-errors.ts'
import { seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { parseStoredActor } from './actor.ts'
import { readFirstRecipients, type SnapshotRecipient, toBroadcastContact } from './recipients.ts'
import { discardLeftovers } from './start.ts'
import {
  advanceBroadcast,
  type Broadcast,
  type BroadcastState,
  findBroadcastById,
  findNextDueTime,
  findReadyBroadcasts,
  type OnTransition,
  recordDelayReason,
  stateName,
  transitionBroadcast,
} from './states.ts'

/** Recipients that are handed over in one transaction: some 15 ms. */
const BATCH_SIZE = 100
/** How soon it is looked again whether delivery has tried what it was handed. */
const DELIVERY_CHECK_INTERVAL_MS = 100
/** How soon a broadcast that cannot go on is tried again. */
const RETRY_DELAY_MS = seconds(15)
/** Accounts whose broadcasts are worked at the same time. */
const MAX_CONCURRENT_ACCOUNTS = 16
/** The same while one of its lanes holds the others up. */
const LANE_CHECK_INTERVAL_MS = 500
/** Part of what may wait that one lane fills by itself: behind a silent site others still get theirs. */
const LANE_FRACTION = 1 / 4
/** How many times as many may wait where some lanes hold theirs. */
const MAX_AHEAD_FACTOR = 8
/** Emails that are looked at, and rows that are removed, in one transaction when a broadcast is taken back. */
const WITHDRAWN_EMAILS_PER_BATCH = 300
const WITHDRAWN_ROWS_PER_BATCH = 2000
/** How soon it is looked again whether what was being tried at a cancellation is over. */
const IN_FLIGHT_CHECK_INTERVAL_MS = 1000

/** One look at all emails of a broadcast that is taken back, from the first on. */
interface WithdrawalScan {
  /** The last email that was looked at. */
  readonly lastEmailId: number
  /** Nothing was being tried when it began, so nothing comes back untried behind the place that was looked at; else there is another pass. */
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
  removeSome: db.prepare(
    'DELETE FROM broadcast_recipients WHERE broadcast_id = ?1 AND contact_id IN (SELECT contact_id FROM broadcast_recipients WHERE broadcast_id = ?1 LIMIT ?2)',
  ),
  begun: db.prepare<{ value: number }, [number, string]>(
    'SELECT value FROM counters WHERE account_id = ? AND metric = ? AND hour = 0',
  ),
  account: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
  stream: db.prepare<{ slug: string }, [number]>('SELECT slug FROM streams WHERE id = ?'),
  // Of a broadcast that was deferred as a whole there are as many as it has contacts, so they are looked at by pieces.
  queued: db.prepare<QueuedEmail, [number, number, number]>(
    `SELECT emails.id AS emailId, recipients.id AS recipientId, quota_month AS quotaMonth, recipients.status = ${QUEUED} AND attempts = 0 AS isUntried
     FROM emails JOIN recipients ON email_id = emails.id WHERE operation_id = ? AND emails.status = ${QUEUED} AND emails.id > ? ORDER BY emails.id LIMIT ?`,
  ),
  processing: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM emails WHERE operation_id = ? AND status = ${statusCode('processing')} LIMIT 1`,
  ),
  untriedByLane: db.prepare<{ n: number }, [number, number]>(
    `SELECT count(*) AS n FROM (SELECT id FROM emails WHERE operation_id = ? AND status = ${QUEUED} ORDER BY id DESC LIMIT ?) AS newest
     JOIN recipients ON email_id = newest.id WHERE status = ${QUEUED} AND attempts = 0 GROUP BY lane`,
  ),
}))

/**
 * Hands over what is due from its construction until `stop`, and ends what was cancelled. Accounts go on side by side, so that one whose templates take long holds nobody else up;
 * of one account the oldest that can go on does.
 */
export class BroadcastEnqueuer implements DueLoop {
  readonly #app: App
  readonly #onMoved: OnTransition
  /** When it is looked at each again, of those that cannot go on now. */
  #retryAt = new Map<number, Millis>()
  /** Accounts with a step under way of whom something happened since it began. */
  readonly #changedAccounts = new Set<number>()
  /** By account, the broadcast that waits for delivery. */
  readonly #awaitingDelivery = new Map<number, number>()
  /** Of those that are taken back: how far all emails were looked at. */
  readonly #withdrawals = new Map<number, WithdrawalScan>()
  /** Accounts of which a step is under way. */
  readonly #runningSteps = new Map<number, Promise<void>>()
  #isFirstStep = true
  readonly #loop: DueLoop
  readonly #stopListening: readonly (() => void)[]

  /** @param onTransition tells the newsletter, in the transaction of the move */
  constructor(app: App, onTransition: OnTransition) {
    this.#app = app
    this.#onMoved = onTransition
    this.#loop = startDueLoop({
      name: 'broadcasts',
      clock: app.clock,
      log: app.log,
      step: (ending) => this.#step(ending),
    })
    this.#stopListening = [
      app.clockSetBack.listen(() => {
        // They rest until a time of the wrong clock.
        this.#retryAt.clear()
        this.#loop.wake()
      }),
      app.broadcastChanged.listen(() => {
        // Whoever resumes one has mended what it waited for.
        this.#retryAt.clear()
        for (const accountId of this.#runningSteps.keys()) this.#changedAccounts.add(accountId)
        this.#loop.wake()
      }),
      // What delivery tried makes room, and is what the end of a broadcast waits for.
      app.eventsRecorded.listen(({ accountId }) => this.#wakeFor(accountId)),
    ]
  }

  #wakeFor(accountId: number): void {
    if (this.#runningSteps.has(accountId)) this.#changedAccounts.add(accountId)
    const waiting = this.#awaitingDelivery.get(accountId)
    if (waiting === undefined) return
    this.#awaitingDelivery.delete(accountId)
    this.#retryAt.delete(waiting)
    this.#loop.wake()
  }

  async #advance(id: number): Promise<void> {
    const broadcast = findBroadcastById(this.#app.db, id)
    if (!broadcast) return
    try {
      this.#changedAccounts.delete(broadcast.accountId)
      const next = await runBroadcastStep(this.#app, broadcast, this.#onMoved, this.#withdrawals)
      // What happened meanwhile may be what it would wait for.
      const hasChanged = this.#changedAccounts.delete(broadcast.accountId)
      this.#retryAt.set(id, hasChanged ? this.#app.clock.now() : next)
      if (next > this.#app.clock.now()) this.#awaitingDelivery.set(broadcast.accountId, id)
    } catch (error) {
      this.#retryAt.set(id, this.#app.clock.now() + RETRY_DELAY_MS)
      await handleFailure(this.#app, broadcast, error, this.#onMoved)
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
        this.#loop.wake()
      })
      this.#runningSteps.set(accountId, running)
    }
    return next
  }

  wake(): void {
    this.#loop.wake()
  }

  async stop(): Promise<void> {
    for (const stop of this.#stopListening) stop()
    await this.#loop.stop()
    await Promise.all(this.#runningSteps.values())
  }
}

/** Does the next thing of a broadcast; resolves with when it is to be looked at again. */
async function runBroadcastStep(
  app: App,
  broadcast: Broadcast,
  onTransition: OnTransition,
  withdrawals: Map<number, WithdrawalScan>,
): Promise<Millis> {
  const now = app.clock.now()
  switch (stateName(broadcast.state)) {
    case 'waiting':
      await app.commit.write((tx) =>
        transitionBroadcast(app, tx, broadcast, { from: 'waiting', to: 'sending' }, onTransition),
      )
      return now
    case 'sending':
      return enqueueBatch(app, broadcast, onTransition)
    case 'cancelling':
      return withdraw(app, broadcast, 'cancelled', onTransition, withdrawals)
    case 'failing':
      return withdraw(app, broadcast, 'failed', onTransition, withdrawals)
    default:
      return now
  }
}

/** Why a broadcast does not go on is told; what will not pass by itself ends it. */
async function handleFailure(
  app: App,
  broadcast: Broadcast,
  error: unknown,
  onTransition: OnTransition,
): Promise<void> {
  const isPermanent = error instanceof AppError && error.status === 422
  if (!(error instanceof AppError) && !isStorageFailure(error))
    app.log.error({ err: error, broadcast: broadcast.id }, 'a broadcast could not go on; it is tried again')
  const reason = error instanceof AppError ? error.message : 'It could not be stored just now; it is tried again.'
  try {
    await app.commit.writeFromReserve((tx) => {
      if (isPermanent)
        transitionBroadcast(app, tx, broadcast, { from: 'sending', to: 'failing', error: reason }, onTransition)
      else recordDelayReason(app, tx, broadcast.id, reason)
    })
    if (isPermanent) app.broadcastChanged.emit()
  } catch (writeError) {
    app.log.error({ err: writeError, broadcast: broadcast.id }, 'the trouble of a broadcast could not be stored')
  }
}

/** Emails that were handed to delivery and not tried yet. */
function countUnattempted(app: App, { id, accountId, handedOver }: Broadcast): number {
  const begun = sql(app.db).begun.get(accountId, begunMetric(id))?.value ?? 0
  return Math.max(0, handedOver - begun)
}

/** How many more may wait to be tried. Usually as many as the setting says; more when a few lanes hold all of them. */
function computeCapacity(app: App, broadcast: Broadcast): number {
  const max = app.config.broadcastAhead
  const unattempted = countUnattempted(app, broadcast)
  if (unattempted < max) return max - unattempted
  const maxPerLane = Math.max(1, Math.floor(max * LANE_FRACTION))
  const counted = sql(app.db)
    .untriedByLane.all(broadcast.operationId ?? 0, max * MAX_AHEAD_FACTOR)
    .reduce((sum, { n }) => sum + Math.min(n, maxPerLane), 0)
  return Math.min(max - counted, max * MAX_AHEAD_FACTOR - unattempted)
}

/** Many emails a write: it takes turns with those of other accounts. */
const toWriteOptions = (app: App, { accountId }: Broadcast): WriteOptions => ({ owner: getTenantId(app.db, accountId) })

/** Hands over the next recipients, if delivery has room. */
async function enqueueBatch(app: App, broadcast: Broadcast, onTransition: OnTransition): Promise<Millis> {
  const capacity = computeCapacity(app, broadcast)
  if (capacity <= 0) return app.clock.now() + LANE_CHECK_INTERVAL_MS
  const rows = readFirstRecipients(app.db, broadcast.id, Math.min(BATCH_SIZE, capacity))
  await requireDiskSpace(app)
  const subjects = await renderSubjects(app, broadcast, rows)
  const hasEnded = await app.commit.write(
    (tx) => {
      const current = findBroadcastById(tx.db, broadcast.id)
      if (!current || stateName(current.state) !== 'sending') return false
      if (rows.length > 0) enqueueRecipients(app, tx, current, rows, subjects)
      if (current.error !== null) recordDelayReason(app, tx, broadcast.id, null)
      // While any waits to be tried it can be paused and cancelled.
      if (rows.length > 0 || countUnattempted(app, current) > 0) return false
      return transitionBroadcast(app, tx, current, { from: 'sending', to: 'done' }, onTransition)
    },
    toWriteOptions(app, broadcast),
  )
  if (hasEnded) app.log.info({ broadcast: broadcast.id, recipients: broadcast.total }, 'broadcast handed over')
  return app.clock.now() + (rows.length > 0 ? 0 : DELIVERY_CHECK_INTERVAL_MS)
}

/** Makes the emails of some recipients, and leaves out who may not be sent to any more. */
function enqueueRecipients(
  app: App,
  tx: Tx,
  broadcast: Broadcast,
  rows: readonly SnapshotRecipient[],
  subjects: readonly string[],
): void {
  const { accountId, listId, streamId, quotaMonth } = broadcast
  const accountUuid = sql(tx.db).account.get(accountId)?.uuid
  const stream = sql(tx.db).stream.get(streamId)?.slug
  if (!accountUuid || stream === undefined) throw new Error(`broadcast ${broadcast.id} has no account or no stream`)
  const actor = parseStoredActor(broadcast.actor, { accountId, accountUuid: new Uint8Array(accountUuid) })
  const shared = toSharedDraft(broadcast, stream)
  const placement: Placement = {
    ...requireSendable(app, actor, shared, { isAccepted: true }),
    // As when it began: the quota was taken, or not, by that.
    sandbox: broadcast.sandbox === 1,
    suppressions: [undefined],
    quotaMonth,
    operationId: broadcast.operationId,
    broadcastId: broadcast.id,
  }
  const content = {
    htmlRef: broadcast.htmlRef,
    textRef: broadcast.textRef,
    attachments: [],
    sizeBytes: broadcast.sizeBytes,
  }
  // Its contacts go some time later: nobody may get mail of a list that was deleted.
  const doesListExist = namedList(tx.db, accountId, listId)?.isDeleted === false
  let leftOut = 0
  for (const [index, row] of rows.entries()) {
    if (sql(tx.db).remove.run(broadcast.id, row.contactId).changes !== 1) throw new Error('the recipient is gone')
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
    insertEmail(app, tx, actor, draft, content, placement)
  }
  advanceBroadcast(app, tx, broadcast.id, { handedOver: rows.length - leftOut, leftOut })
}

const PLACEHOLDER_BODY = new Uint8Array()

/** What the emails of a broadcast have in common. Its bodies say only that there are some: they are shared, as sources. */
const toSharedDraft = (broadcast: Broadcast, stream: string): Draft => ({
  from: broadcast.from,
  fromDomain: parseDomain(broadcast.from),
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
    recipients: [{ kind: 'to', address: row.email, domain: parseDomain(row.email), mailbox: undefined }],
    extra: { ...shared.extra, contact: toBroadcastContact(row) },
  }
}

/** The subject of each, rendered. One that cannot be rendered stays as its source: delivery, which renders it again, tells why. */
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

/** Of an address that was checked when it was stored. */
function parseDomain(mailbox: string): string {
  const parsed = parseMailbox(mailbox)
  if (parsed.kind === 'invalid') throw new Error('a stored address cannot be read')
  return parsed.domain
}

/**
 * Takes back what was not tried yet, a piece at a time; then the broadcast is over. What is being tried is waited for, because it may come back untried.
 */
async function withdraw(
  app: App,
  broadcast: Broadcast,
  to: Extract<BroadcastState, 'cancelled' | 'failed'>,
  onTransition: OnTransition,
  withdrawals: Map<number, WithdrawalScan>,
): Promise<Millis> {
  const operationId = broadcast.operationId ?? 0
  const next = await app.commit.writeFromReserve(
    (tx): WithdrawalScan | 'tried' | undefined => {
      const isInFlight = () => sql(tx.db).processing.get(operationId) !== null
      const { lastEmailId, isLast } = withdrawals.get(broadcast.id) ?? { lastEmailId: 0, isLast: !isInFlight() }
      const emails = sql(tx.db).queued.all(operationId, lastEmailId, WITHDRAWN_EMAILS_PER_BATCH)
      const last = emails.at(-1)
      withdrawEmails(app, tx, broadcast, emails)
      if (last) return { lastEmailId: last.emailId, isLast }
      if (withdrawRecipients(app, tx, broadcast) > 0) return { lastEmailId: lastEmailId, isLast }
      if (isInFlight()) return 'tried'
      const from = to === 'cancelled' ? 'cancelling' : 'failing'
      if (isLast)
        transitionBroadcast(app, tx, broadcast, { from, to, error: broadcast.error ?? 'Cancelled.' }, onTransition)
      return undefined
    },
    toWriteOptions(app, broadcast),
  )
  if (next === 'tried') return app.clock.now() + IN_FLIGHT_CHECK_INTERVAL_MS
  // Only now that it is on disk: what a write that failed took back is looked at again.
  if (next) withdrawals.set(broadcast.id, next)
  else withdrawals.delete(broadcast.id)
  return app.clock.now()
}

const isUnattempted = (email: QueuedEmail): boolean => email.isUntried === 1

function withdrawEmails(app: App, tx: Tx, broadcast: Broadcast, emails: readonly QueuedEmail[]): void {
  let withdrawn = 0
  for (const { recipientId, emailId, quotaMonth } of emails.filter(isUnattempted)) {
    if (!cancelWaiting(tx, { recipientId, emailId, now: app.eventTime() })) continue
    withdrawn++
    if (quotaMonth !== null) giveQuotaBack(tx, broadcast.accountId, quotaMonth, 1)
  }
  if (withdrawn > 0) advanceBroadcast(app, tx, broadcast.id, { handedOver: -withdrawn, leftOut: withdrawn })
}

/** Removes recipients that were not handed over; returns how many. */
function withdrawRecipients(app: App, tx: Tx, { id, accountId, quotaMonth }: Broadcast): number {
  const removed = sql(tx.db).removeSome.run(id, WITHDRAWN_ROWS_PER_BATCH).changes
  if (removed === 0) return 0
  if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, removed)
  advanceBroadcast(app, tx, id, { handedOver: 0, leftOut: removed })
  return removed
}
