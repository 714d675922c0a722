/**
 * @module Hands broadcasts to delivery, some recipients at a time: a recipient's row goes in the transaction that makes their email, so whatever
 * happens in between, nobody is left out and nobody gets two. Never delivers; never hands over more than wait to be tried already.
 */

import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { tenantOf } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import type { Draft } from '#features/sending/accept/draft.ts'
import { requireDiskSpace, requireSendable } from '#features/sending/accept/sendable.ts'
import { cancelWaiting } from '#features/sending/queue/broadcast-moves.ts'
import { insertEmail, type Placement } from '#features/sending/queue/insert.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { begunMetric } from '#features/sending/queue/settle.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { contactById } from '#features/setup/contact-store/find.ts'
import { namedList } from '#features/setup/contact-store/lists.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { broadcastDataJson, isPlain, subjectFault } from '#features/setup/templates/broadcast-data.ts'
import { oneLine, withSubjectInLine } from '#features/setup/templates/render.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx, WriteOptions } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { isStorageTrouble } from '#platform/storage-errors.ts'
import { seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { restoredActor } from './actor.ts'
import { contactOf, type FixedRecipient, firstRecipients } from './recipients.ts'
import { discardLeftovers } from './start.ts'
import {
  advanceBroadcast,
  type Broadcast,
  type BroadcastState,
  broadcastById,
  moveBroadcast,
  nextBroadcastDue,
  noteTrouble,
  type OnMoved,
  readyBroadcasts,
  stateName,
} from './states.ts'

/** Recipients that are handed over in one transaction: some 15 ms. */
const SLICE = 100
/** How soon it is looked again whether delivery has tried what it was handed. */
const LOOK_MS = 100
/** How soon a broadcast that cannot go on is tried again. */
const TROUBLE_MS = seconds(15)
/** Accounts whose broadcasts are worked at the same time. */
const MOST_ACCOUNTS = 16
/** The same while one of its lanes holds the others up. */
const LOOK_AT_LANES_MS = 500
/** Part of what may wait that one lane fills by itself: behind a silent site others still get theirs. */
const LANE_SHARE = 1 / 4
/** How many times as many may wait where some lanes hold theirs. */
const MOST_AHEAD = 8
/** Emails that are looked at, and rows that are removed, in one transaction when a broadcast is taken back. */
const TAKE_BACK_EMAILS = 300
const TAKE_BACK_ROWS = 2000
/** How soon it is looked again whether what was being tried at a cancellation is over. */
const LOOK_AT_TRIED_MS = 1000

/** One look at all emails of a broadcast that is taken back, from the first on. */
interface Pass {
  /** The last email that was looked at. */
  readonly lookedAt: number
  /** Nothing was being tried when it began, so nothing comes back untried behind the place that was looked at; else there is another pass. */
  readonly isLast: boolean
}

interface Queued {
  readonly emailId: number
  readonly recipientId: number
  readonly quotaMonth: number | null
  readonly isUntried: number
}

const QUEUED = statusCode('queued')

const sql = prepared((db) => ({
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
  queued: db.prepare<Queued, [number, number, number]>(
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
export class BroadcastFeeder implements DueLoop {
  readonly #app: App
  readonly #onMoved: OnMoved
  /** When it is looked at each again, of those that cannot go on now. */
  #resting = new Map<number, Millis>()
  /** Accounts with a step under way of whom something happened since it began. */
  readonly #poked = new Set<number>()
  /** By account, the broadcast that waits for delivery. */
  readonly #awaited = new Map<number, number>()
  /** Of those that are taken back: how far all emails were looked at. */
  readonly #passes = new Map<number, Pass>()
  /** Accounts of which a step is under way. */
  readonly #busy = new Map<number, Promise<void>>()
  #isFirst = true
  readonly #loop: DueLoop
  readonly #stopListening: readonly (() => void)[]

  /** @param onMoved tells the newsletter, in the transaction of the move */
  constructor(app: App, onMoved: OnMoved) {
    this.#app = app
    this.#onMoved = onMoved
    this.#loop = startDueLoop({
      name: 'broadcasts',
      clock: app.clock,
      log: app.log,
      step: (ending) => this.#step(ending),
    })
    this.#stopListening = [
      app.clockSetBack.listen(() => {
        // They rest until a time of the wrong clock.
        this.#resting.clear()
        this.#loop.wake()
      }),
      app.broadcastChanged.listen(() => {
        // Whoever resumes one has mended what it waited for.
        this.#resting.clear()
        for (const accountId of this.#busy.keys()) this.#poked.add(accountId)
        this.#loop.wake()
      }),
      // What delivery tried makes room, and is what the end of a broadcast waits for.
      app.eventsRecorded.listen(({ accountId }) => this.#wakeFor(accountId)),
    ]
  }

  #wakeFor(accountId: number): void {
    if (this.#busy.has(accountId)) this.#poked.add(accountId)
    const waiting = this.#awaited.get(accountId)
    if (waiting === undefined) return
    this.#awaited.delete(accountId)
    this.#resting.delete(waiting)
    this.#loop.wake()
  }

  async #run(id: number): Promise<void> {
    const broadcast = broadcastById(this.#app.db, id)
    if (!broadcast) return
    try {
      this.#poked.delete(broadcast.accountId)
      const next = await stepOf(this.#app, broadcast, this.#onMoved, this.#passes)
      // What happened meanwhile may be what it would wait for.
      const isPoked = this.#poked.delete(broadcast.accountId)
      this.#resting.set(id, isPoked ? this.#app.clock.now() : next)
      if (next > this.#app.clock.now()) this.#awaited.set(broadcast.accountId, id)
    } catch (error) {
      this.#resting.set(id, this.#app.clock.now() + TROUBLE_MS)
      await onTrouble(this.#app, broadcast, error, this.#onMoved)
    }
  }

  async #step(ending: AbortSignal): Promise<Millis | undefined> {
    if (this.#isFirst) await discardLeftovers(this.#app)
    this.#isFirst = false
    const now = this.#app.clock.now()
    const ready = readyBroadcasts(this.#app.db, now)
    this.#resting = new Map(
      ready.flatMap(({ id }) => (this.#resting.has(id) ? [[id, this.#resting.get(id) ?? 0]] : [])),
    )
    let next = nextBroadcastDue(this.#app.db)
    for (const { id, accountId } of ready) {
      if (ending.aborted || this.#busy.size >= MOST_ACCOUNTS) break
      if (this.#busy.has(accountId)) continue
      const restsUntil = this.#resting.get(id) ?? 0
      if (restsUntil > now) {
        next = Math.min(next ?? restsUntil, restsUntil)
        continue
      }
      const running = this.#run(id).finally(() => {
        this.#busy.delete(accountId)
        this.#loop.wake()
      })
      this.#busy.set(accountId, running)
    }
    return next
  }

  wake(): void {
    this.#loop.wake()
  }

  async stop(): Promise<void> {
    for (const stop of this.#stopListening) stop()
    await this.#loop.stop()
    await Promise.all(this.#busy.values())
  }
}

/** Does the next thing of a broadcast; resolves with when it is to be looked at again. */
async function stepOf(app: App, broadcast: Broadcast, onMoved: OnMoved, passes: Map<number, Pass>): Promise<Millis> {
  const now = app.clock.now()
  switch (stateName(broadcast.state)) {
    case 'waiting':
      await app.commit.write((tx) => moveBroadcast(app, tx, broadcast, { from: 'waiting', to: 'sending' }, onMoved))
      return now
    case 'sending':
      return feed(app, broadcast, onMoved)
    case 'cancelling':
      return takeBack(app, broadcast, 'cancelled', onMoved, passes)
    case 'failing':
      return takeBack(app, broadcast, 'failed', onMoved, passes)
    default:
      return now
  }
}

/** Why a broadcast does not go on is told; what will not pass by itself ends it. */
async function onTrouble(app: App, broadcast: Broadcast, error: unknown, onMoved: OnMoved): Promise<void> {
  const isForGood = error instanceof AppError && error.status === 422
  if (!(error instanceof AppError) && !isStorageTrouble(error))
    app.log.error({ err: error, broadcast: broadcast.id }, 'a broadcast could not go on; it is tried again')
  const reason = error instanceof AppError ? error.message : 'It could not be stored just now; it is tried again.'
  try {
    await app.commit.writeFromReserve((tx) => {
      if (isForGood) moveBroadcast(app, tx, broadcast, { from: 'sending', to: 'failing', error: reason }, onMoved)
      else noteTrouble(app, tx, broadcast.id, reason)
    })
    if (isForGood) app.broadcastChanged.emit()
  } catch (writeError) {
    app.log.error({ err: writeError, broadcast: broadcast.id }, 'the trouble of a broadcast could not be stored')
  }
}

/** Emails that were handed to delivery and not tried yet. */
function untriedOf(app: App, { id, accountId, handedOver }: Broadcast): number {
  const begun = sql(app.db).begun.get(accountId, begunMetric(id))?.value ?? 0
  return Math.max(0, handedOver - begun)
}

/** How many more may wait to be tried. Usually as many as the setting says; more when a few lanes hold all of them. */
function roomFor(app: App, broadcast: Broadcast): number {
  const most = app.config.broadcastAhead
  const untried = untriedOf(app, broadcast)
  if (untried < most) return most - untried
  const ofLane = Math.max(1, Math.floor(most * LANE_SHARE))
  const counted = sql(app.db)
    .untriedByLane.all(broadcast.operationId ?? 0, most * MOST_AHEAD)
    .reduce((sum, { n }) => sum + Math.min(n, ofLane), 0)
  return Math.min(most - counted, most * MOST_AHEAD - untried)
}

/** Many emails a write: it takes turns with those of other accounts. */
const ownerOf = (app: App, { accountId }: Broadcast): WriteOptions => ({ owner: tenantOf(app.db, accountId) })

/** Hands over the next recipients, if delivery has room. */
async function feed(app: App, broadcast: Broadcast, onMoved: OnMoved): Promise<Millis> {
  const room = roomFor(app, broadcast)
  if (room <= 0) return app.clock.now() + LOOK_AT_LANES_MS
  const rows = firstRecipients(app.db, broadcast.id, Math.min(SLICE, room))
  await requireDiskSpace(app)
  const subjects = await renderSubjects(app, broadcast, rows)
  const isOver = await app.commit.write(
    (tx) => {
      const current = broadcastById(tx.db, broadcast.id)
      if (!current || stateName(current.state) !== 'sending') return false
      if (rows.length > 0) handOver(app, tx, current, rows, subjects)
      if (current.error !== null) noteTrouble(app, tx, broadcast.id, null)
      // While any waits to be tried it can be paused and cancelled.
      if (rows.length > 0 || untriedOf(app, current) > 0) return false
      return moveBroadcast(app, tx, current, { from: 'sending', to: 'done' }, onMoved)
    },
    ownerOf(app, broadcast),
  )
  if (isOver) app.log.info({ broadcast: broadcast.id, recipients: broadcast.total }, 'broadcast handed over')
  return app.clock.now() + (rows.length > 0 ? 0 : LOOK_MS)
}

/** Makes the emails of some recipients, and leaves out who may not be sent to any more. */
function handOver(
  app: App,
  tx: Tx,
  broadcast: Broadcast,
  rows: readonly FixedRecipient[],
  subjects: readonly string[],
): void {
  const { accountId, listId, streamId, quotaMonth } = broadcast
  const accountUuid = sql(tx.db).account.get(accountId)?.uuid
  const stream = sql(tx.db).stream.get(streamId)?.slug
  if (!accountUuid || stream === undefined) throw new Error(`broadcast ${broadcast.id} has no account or no stream`)
  const actor = restoredActor(broadcast.actor, { accountId, accountUuid: new Uint8Array(accountUuid) })
  const shared = draftOfBroadcast(broadcast, stream)
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
  const isListThere = namedList(tx.db, accountId, listId)?.isDeleted === false
  let leftOut = 0
  for (const [index, row] of rows.entries()) {
    if (sql(tx.db).remove.run(broadcast.id, row.contactId).changes !== 1) throw new Error('the recipient is gone')
    const isWanted =
      isListThere &&
      contactById(tx.db, row.contactId)?.status === 'active' &&
      suppressionOf(tx.db, { accountId, address: row.email, transactional: false, streamId, listId }) === undefined
    if (!isWanted) {
      leftOut++
      if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, 1)
      continue
    }
    const draft = draftFor(shared, row, subjects[index] ?? broadcast.subject)
    insertEmail(app, tx, actor, draft, content, placement)
  }
  advanceBroadcast(app, tx, broadcast.id, { handedOver: rows.length - leftOut, leftOut })
}

const SOMETHING = new Uint8Array()

/** What the emails of a broadcast have in common. Its bodies say only that there are some: they are shared, as sources. */
const draftOfBroadcast = (broadcast: Broadcast, stream: string): Draft => ({
  from: broadcast.from,
  fromDomain: domainOf(broadcast.from),
  recipients: [],
  subject: broadcast.subject,
  html: broadcast.htmlRef === null ? undefined : SOMETHING,
  text: broadcast.textRef === null ? undefined : SOMETHING,
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

function draftFor(shared: Draft, row: FixedRecipient, subject: string): Draft {
  return {
    ...shared,
    subject,
    recipients: [{ kind: 'to', address: row.email, domain: domainOf(row.email), mailbox: undefined }],
    extra: { ...shared.extra, contact: contactOf(row) },
  }
}

/** The subject of each, rendered. One that cannot be rendered stays as its source: delivery, which renders it again, tells why. */
async function renderSubjects(app: App, broadcast: Broadcast, rows: readonly FixedRecipient[]): Promise<string[]> {
  const { accountId, subject, templateData: shared } = broadcast
  if (isPlain(subject)) return rows.map(() => subject)
  return Promise.all(
    rows.map(async (row) => {
      const dataJson = broadcastDataJson({ shared, contact: contactOf(row), unsubscribeUrl: '' })
      const source = withSubjectInLine({ subject })
      const outcome = await app.renderer.render({ accountId, urgency: 'bulk', source, dataJson })
      const rendered = outcome.kind === 'rendered' ? (outcome.parts.subject ?? '') : ''
      return subjectFault(rendered) === undefined ? oneLine(rendered) : subject
    }),
  )
}

/** Of an address that was checked when it was stored. */
function domainOf(mailbox: string): string {
  const parsed = parseMailbox(mailbox)
  if (parsed.kind === 'invalid') throw new Error('a stored address cannot be read')
  return parsed.domain
}

/**
 * Takes back what was not tried yet, a piece at a time; then the broadcast is over. What is being tried is waited for, because it may come back untried.
 */
async function takeBack(
  app: App,
  broadcast: Broadcast,
  to: Extract<BroadcastState, 'cancelled' | 'failed'>,
  onMoved: OnMoved,
  passes: Map<number, Pass>,
): Promise<Millis> {
  const operationId = broadcast.operationId ?? 0
  const next = await app.commit.writeFromReserve(
    (tx): Pass | 'tried' | undefined => {
      const isBeingTried = () => sql(tx.db).processing.get(operationId) !== null
      const { lookedAt, isLast } = passes.get(broadcast.id) ?? { lookedAt: 0, isLast: !isBeingTried() }
      const emails = sql(tx.db).queued.all(operationId, lookedAt, TAKE_BACK_EMAILS)
      const last = emails.at(-1)
      takeEmailsBack(app, tx, broadcast, emails)
      if (last) return { lookedAt: last.emailId, isLast }
      if (removeRows(app, tx, broadcast) > 0) return { lookedAt, isLast }
      if (isBeingTried()) return 'tried'
      const from = to === 'cancelled' ? 'cancelling' : 'failing'
      if (isLast) moveBroadcast(app, tx, broadcast, { from, to, error: broadcast.error ?? 'Cancelled.' }, onMoved)
      return undefined
    },
    ownerOf(app, broadcast),
  )
  if (next === 'tried') return app.clock.now() + LOOK_AT_TRIED_MS
  // Only now that it is on disk: what a write that failed took back is looked at again.
  if (next) passes.set(broadcast.id, next)
  else passes.delete(broadcast.id)
  return app.clock.now()
}

const isUntried = (email: Queued): boolean => email.isUntried === 1

function takeEmailsBack(app: App, tx: Tx, broadcast: Broadcast, emails: readonly Queued[]): void {
  let taken = 0
  for (const { recipientId, emailId, quotaMonth } of emails.filter(isUntried)) {
    if (!cancelWaiting(tx, { recipientId, emailId, now: app.eventTime() })) continue
    taken++
    if (quotaMonth !== null) giveQuotaBack(tx, broadcast.accountId, quotaMonth, 1)
  }
  if (taken > 0) advanceBroadcast(app, tx, broadcast.id, { handedOver: -taken, leftOut: taken })
}

/** Removes recipients that were not handed over; returns how many. */
function removeRows(app: App, tx: Tx, { id, accountId, quotaMonth }: Broadcast): number {
  const removed = sql(tx.db).removeSome.run(id, TAKE_BACK_ROWS).changes
  if (removed === 0) return 0
  if (quotaMonth !== null) giveQuotaBack(tx, accountId, quotaMonth, removed)
  advanceBroadcast(app, tx, id, { handedOver: 0, leftOut: removed })
  return removed
}
