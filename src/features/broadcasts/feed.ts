/**
 * @module Hands broadcasts to delivery, some recipients at a time: a recipient's row goes in the transaction that makes their email, so whatever
 * happens in between, nobody is left out and nobody gets two. Never delivers; never hands over more than wait to be tried already.
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { isStorageTrouble, type Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { seconds } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { giveQuotaBack } from '../accounts/accounts.ts'
import { contactById } from '../contacts/find.ts'
import { namedList } from '../contacts/lists.ts'
import { insertEmail, type Placement, requireDiskSpace, requireSendable } from '../emails/accept.ts'
import { type BroadcastContact, broadcastDataJson, isPlain, oneLine, subjectFault } from '../emails/broadcast-data.ts'
import type { Draft, DraftExtra } from '../emails/draft.ts'
import { begunMetric, cancelWaiting } from '../emails/status.ts'
import { suppressionOf } from '../suppressions/check.ts'
import { restoredActor } from './actor.ts'
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

interface Row {
  readonly contactId: number
  readonly contactUuid: Uint8Array
  readonly email: string
  readonly metadata: string | null
}

/** Recipients that are handed over in one transaction: some 15 ms. */
const SLICE = 100
/** How soon it is looked again whether delivery has tried what it was handed. */
const LOOK_MS = 100
/** How soon a broadcast that cannot go on is tried again. */
const TROUBLE_MS = seconds(15)
/** Accounts whose broadcasts are worked at the same time. */
const MOST_ACCOUNTS = 16
/** Rows and emails that are taken back in one transaction. */
const TAKE_BACK_SLICE = 200

const sql = prepared((db) => ({
  rows: db.prepare<Row, [number, number]>(
    `SELECT contact_id AS contactId, contact_uuid AS contactUuid, email, metadata FROM broadcast_recipients WHERE broadcast_id = ?
     ORDER BY contact_id LIMIT ?`,
  ),
  remove: db.prepare('DELETE FROM broadcast_recipients WHERE broadcast_id = ? AND contact_id = ?'),
  removeSome: db.prepare(
    'DELETE FROM broadcast_recipients WHERE broadcast_id = ?1 AND contact_id IN (SELECT contact_id FROM broadcast_recipients WHERE broadcast_id = ?1 LIMIT ?2)',
  ),
  begun: db.prepare<{ value: number }, [number, string]>(
    'SELECT value FROM counters WHERE account_id = ? AND metric = ? AND hour = 0',
  ),
  account: db.prepare<{ uuid: Uint8Array }, [number]>('SELECT uuid FROM accounts WHERE id = ?'),
  stream: db.prepare<{ slug: string }, [number]>('SELECT slug FROM streams WHERE id = ?'),
  untried: db.prepare<{ recipientId: number; emailId: number; quotaMonth: number | null }, [number, number]>(
    `SELECT recipients.id AS recipientId, emails.id AS emailId, quota_month AS quotaMonth FROM emails JOIN recipients ON email_id = emails.id
     WHERE broadcast_id = ? AND emails.status = 0 AND recipients.status = 0 AND attempts = 0 LIMIT ?`,
  ),
}))

/**
 * Starts to hand over what is due, and ends what was cancelled. Accounts go on side by side, so that one whose templates take long holds nobody else up;
 * of one account the oldest that can go on does.
 * @param onMoved tells the newsletter, in the transaction of the move
 */
export function startFeeder(app: App, onMoved: OnMoved): DueLoop {
  const { clock } = app
  /** When it is looked at each again, of those that cannot go on now. */
  let resting = new Map<number, Millis>()
  /** Accounts of which a step is under way. */
  const busy = new Map<number, Promise<void>>()
  let isFirst = true

  const run = async (id: number): Promise<void> => {
    const broadcast = broadcastById(app.db, id)
    if (!broadcast) return
    try {
      resting.set(id, await stepOf(app, broadcast, onMoved))
    } catch (error) {
      resting.set(id, clock.now() + TROUBLE_MS)
      await onTrouble(app, broadcast, error, onMoved)
    }
  }

  const step = async (ending: AbortSignal): Promise<Millis | undefined> => {
    if (isFirst) await discardLeftovers(app)
    isFirst = false
    const now = clock.now()
    const ready = readyBroadcasts(app.db, now)
    resting = new Map(ready.flatMap(({ id }) => (resting.has(id) ? [[id, resting.get(id) ?? 0]] : [])))
    let next = nextBroadcastDue(app.db)
    for (const { id, accountId } of ready) {
      if (ending.aborted || busy.size >= MOST_ACCOUNTS) break
      if (busy.has(accountId)) continue
      const restsUntil = resting.get(id) ?? 0
      if (restsUntil > now) {
        next = Math.min(next ?? restsUntil, restsUntil)
        continue
      }
      const running = run(id).finally(() => {
        busy.delete(accountId)
        loop.wake()
      })
      busy.set(accountId, running)
    }
    return next
  }

  const loop = startDueLoop({ name: 'broadcasts', clock, log: app.log, step })
  const stopListening = app.broadcastChanged.listen(() => {
    // Whoever resumes one has mended what it waited for.
    resting.clear()
    loop.wake()
  })
  return {
    wake: loop.wake,
    async stop() {
      stopListening()
      await loop.stop()
      await Promise.all(busy.values())
    },
  }
}

/** Does the next thing of a broadcast; resolves with when it is to be looked at again. */
async function stepOf(app: App, broadcast: Broadcast, onMoved: OnMoved): Promise<Millis> {
  const now = app.clock.now()
  switch (stateName(broadcast.state)) {
    case 'waiting':
      await app.commit.write((tx) => moveBroadcast(app, tx, broadcast, { from: 'waiting', to: 'sending' }, onMoved))
      return now
    case 'sending':
      return feed(app, broadcast, onMoved)
    case 'cancelling':
      return takeBack(app, broadcast, 'cancelled', onMoved)
    case 'failing':
      return takeBack(app, broadcast, 'failed', onMoved)
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
    await app.commit.write((tx) => {
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

/** Hands over the next recipients, if delivery has room. */
async function feed(app: App, broadcast: Broadcast, onMoved: OnMoved): Promise<Millis> {
  const room = app.config.broadcastAhead - untriedOf(app, broadcast)
  if (room <= 0) return app.clock.now() + LOOK_MS
  const rows = sql(app.db).rows.all(broadcast.id, Math.min(SLICE, room))
  await requireDiskSpace(app)
  const subjects = await renderSubjects(app, broadcast, rows)
  const isOver = await app.commit.write((tx) => {
    const current = broadcastById(tx.db, broadcast.id)
    if (!current || stateName(current.state) !== 'sending') return false
    if (rows.length > 0) handOver(app, tx, current, rows, subjects)
    if (current.error !== null) noteTrouble(app, tx, broadcast.id, null)
    if (sql(tx.db).rows.get(broadcast.id, 1)) return false
    return moveBroadcast(app, tx, current, { from: 'sending', to: 'done' }, onMoved)
  })
  if (isOver) app.log.info({ broadcast: broadcast.id, recipients: broadcast.total }, 'broadcast handed over')
  return app.clock.now()
}

/** Makes the emails of some recipients, and leaves out who may not be sent to any more. */
function handOver(app: App, tx: Tx, broadcast: Broadcast, rows: readonly Row[], subjects: readonly string[]): void {
  const { accountId, listId, streamId, quotaMonth } = broadcast
  const accountUuid = sql(tx.db).account.get(accountId)?.uuid
  const stream = sql(tx.db).stream.get(streamId)?.slug
  if (!accountUuid || stream === undefined) throw new Error(`broadcast ${broadcast.id} has no account or no stream`)
  const actor = restoredActor(broadcast.actor, { accountId, accountUuid: new Uint8Array(accountUuid) })
  const shared = draftOfBroadcast(broadcast, stream)
  const placement: Placement = {
    ...requireSendable(app, actor, shared),
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

function draftFor(shared: Draft, row: Row, subject: string): Draft {
  return {
    ...shared,
    subject,
    recipients: [{ kind: 'to', address: row.email, domain: domainOf(row.email), mailbox: undefined }],
    extra: { ...shared.extra, contact: contactOf(row) },
  }
}

const contactOf = ({ contactUuid, email, metadata }: Row): BroadcastContact => ({
  id: formatUuid(contactUuid),
  email,
  metadata: JSON.parse(metadata ?? '{}') as Record<string, unknown>,
})

/** The subject of each, rendered. One that cannot be rendered stays as its source: delivery, which renders it again, tells why. */
async function renderSubjects(app: App, broadcast: Broadcast, rows: readonly Row[]): Promise<string[]> {
  const { accountId, subject, templateData: shared } = broadcast
  if (isPlain(subject)) return rows.map(() => subject)
  return Promise.all(
    rows.map(async (row) => {
      const dataJson = broadcastDataJson({ shared, contact: contactOf(row), unsubscribeUrl: '' })
      const outcome = await app.renderer.render({ accountId, urgency: 'bulk', source: { subject }, dataJson })
      const rendered = outcome.kind === 'rendered' ? oneLine(outcome.parts.subject ?? '') : ''
      return subjectFault(rendered) === undefined ? rendered : subject
    }),
  )
}

/** Of an address that was checked when it was stored. */
function domainOf(mailbox: string): string {
  const parsed = parseMailbox(mailbox)
  if (parsed.kind === 'invalid') throw new Error('a stored address cannot be read')
  return parsed.domain
}

/** Takes back what was not tried yet, a slice at a time; then the broadcast is over. */
async function takeBack(
  app: App,
  broadcast: Broadcast,
  to: Extract<BroadcastState, 'cancelled' | 'failed'>,
  onMoved: OnMoved,
): Promise<Millis> {
  await app.commit.write((tx) => {
    const { accountId, quotaMonth } = broadcast
    const waiting = sql(tx.db).untried.all(broadcast.id, TAKE_BACK_SLICE)
    for (const { recipientId, emailId, quotaMonth: month } of waiting)
      if (cancelWaiting(tx, { recipientId, emailId, now: app.eventTime() }) && month !== null)
        giveQuotaBack(tx, accountId, month, 1)
    if (waiting.length > 0) return
    const removed = sql(tx.db).removeSome.run(broadcast.id, TAKE_BACK_SLICE * 10).changes
    if (quotaMonth !== null && removed > 0) giveQuotaBack(tx, accountId, quotaMonth, removed)
    if (removed > 0) return
    const from = to === 'cancelled' ? 'cancelling' : 'failing'
    moveBroadcast(app, tx, broadcast, { from, to, error: broadcast.error ?? 'Cancelled.' }, onMoved)
  })
  return app.clock.now()
}
