/**
 * @module Starts a broadcast: checks it, stores what its emails share, takes a snapshot of its recipients, and responds
 * once everything is on disk. Until then the broadcast is invisible, and a crash leaves nothing that would be sent.
 * Never sends.
 */
import type { Database } from 'bun:sqlite'
import { consumeQuota, getSendingAccount, requireSendingAllowed } from '#features/core/accounts/accounts.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { dropContentOnFailure } from '#features/core/content-gc/garbage.ts'
import { insertOperation } from '#features/core/operations/operations.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { findStoredResponse, type ResponseKey, storeResponse } from '#features/sending/accept/idempotency.ts'
import { requireDiskSpace, requireQuota, requireSendable } from '#features/sending/accept/sendable.ts'
import { refsOf, storeContent } from '#features/sending/queue/insert.ts'
import { type ContactList, namedList } from '#features/setup/contact-store/lists.ts'
import { toContactStatusCode } from '#features/setup/contact-store/status.ts'
import { findStreamId, insertStream } from '#features/setup/streams/streams.ts'
import { toSuppressionScopeCode } from '#features/setup/suppression-store/check.ts'
import { formatSharedData, hasNoTemplateSyntax } from '#features/setup/templates/broadcast-data.ts'
import { requireValidSource } from '#features/setup/templates/render.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { KiB, MiB, type Millis } from '#platform/units.ts'
import { removeSnapshotRows } from './erase.ts'
import { BROADCAST_STREAM, type BroadcastStarted } from './model.ts'
import { preflightBroadcast } from './preflight.ts'
import { type BroadcastState, IS_OPEN, OPERATION_STATUS, stateCode, toOperationMetadata } from './states.ts'

/** What a broadcast is made from. Subject and bodies are always templates. */
export interface BroadcastInput {
  readonly type: 'broadcast' | 'newsletter_send'
  readonly list: ContactList
  readonly from: string
  readonly subject: string | undefined
  readonly html: string | undefined
  readonly text: string | undefined
  /** The template that supplies some of the parts. */
  readonly template: { readonly id: number; readonly version: number } | undefined
  readonly templateData: Readonly<Record<string, unknown>> | undefined
  readonly replyTo?: string | undefined
  readonly headers?: unknown
  readonly tags?: readonly string[] | undefined
  /** Date and time with a zone; undefined means now. */
  readonly sendAt?: string | undefined
  /** Slug of the stream; undefined means the stream `broadcast`, which is created when it does not exist. */
  readonly stream?: string | undefined
  readonly newsletterId?: number | undefined
  /** From the header Idempotency-Key. */
  readonly replyKey?: ResponseKey | undefined
}

/** The started operation, as `writeRelated` gets it. */
export interface StartedOperation {
  /** Row id. */
  readonly id: number
  readonly uuid: string
  readonly total: number
  readonly state: BroadcastState
  /** Undefined when the broadcast starts immediately. */
  readonly scheduledAt: Millis | undefined
}

type WriteRelated = (tx: Tx, operation: StartedOperation) => void

const MAX_TEMPLATE_DATA_BYTES = 64 * KiB
const MAX_BODY_BYTES = 1 * MiB
/** Contacts copied in one transaction; this takes some 5 ms. */
const BATCH_SIZE = 1000
/** Open broadcasts of one account: waiting, sending or paused. */
const MAX_OPEN_BROADCASTS = 200
/** Rows that a discarded broadcast loses in one transaction. */
const DISCARD_BATCH_SIZE = 5000

/** SQL: whether a contact of list ?2 is suppressed for broadcasts of stream ?7; ?6 is the code of the scope `all`. */
export const IS_SUPPRESSED = `EXISTS (SELECT 1 FROM suppressions s WHERE s.account_id = contacts.account_id AND s.address = address_key
  AND (s.covers = ?6 OR (s.stream_id IN (0, ?7) AND s.list_id IN (0, ?2) AND (opted_in_at IS NULL OR s.stream_id <> 0 OR s.list_id <> 0))))`

const FIELDS =
  'accountId newsletterId listId streamId templateId templateVersion fromAddress subject htmlRef textRef sizeBytes templateData extra state sandbox total handedOver leftOut dueAt actor createdAt updatedAt'

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, [Record<string, string | number | Uint8Array | null>]>(
    `${insertSql('broadcasts', FIELDS)} RETURNING id`,
  ),
  newestContact: db.prepare<{ id: number | null }, [number]>('SELECT MAX(id) AS id FROM contacts WHERE list_id = ?'),
  // Recipients who are already suppressed are skipped here; those suppressed later are skipped when they are enqueued.
  // The size of a batch counts all active contacts, not only the copied ones: otherwise one batch would scan a whole
  // list whose contacts are all suppressed.
  piece: db.prepare<{ last: number | null; n: number }, [number, number, number, number, number]>(
    `SELECT MAX(id) AS last, COUNT(*) AS n FROM (SELECT id FROM contacts WHERE list_id = ? AND status = ? AND id > ? AND id <= ? ORDER BY id LIMIT ?)`,
  ),
  fix: db.prepare<never, [number, number, number, number, number, number, number]>(
    `INSERT INTO broadcast_recipients (broadcast_id, contact_id, contact_uuid, email, metadata)
     SELECT ?1, id, uuid, coalesce(email, address_key), metadata FROM contacts
     WHERE list_id = ?2 AND status = ?3 AND id > ?4 AND id <= ?5 AND NOT ${IS_SUPPRESSED} ORDER BY id`,
  ),
  openOf: db.prepare<{ n: number }, [number]>(
    `SELECT COUNT(*) AS n FROM broadcasts INDEXED BY broadcasts_open WHERE ${IS_OPEN} AND account_id = ?`,
  ),
  begin: db.prepare(
    `UPDATE broadcasts SET ${setSql('operationId state sandbox total quotaMonth updatedAt')} WHERE id = $id AND state = ${stateCode('fixing')}`,
  ),
  discard: db.prepare('DELETE FROM broadcasts WHERE id = ? AND state = ?'),
  leftovers: db.prepare<{ id: number }, [number]>('SELECT id FROM broadcasts WHERE state = ?'),
}))

/**
 * Starts a broadcast. Throws 422 for invalid input, 403 while the account is paused, 429 when the list exceeds the
 * remaining quota; nothing is stored then.
 * @param writeRelated writes related rows in the transaction that starts the broadcast
 */
export async function startBroadcast(
  app: App,
  actor: Actor,
  input: BroadcastInput,
  writeRelated: WriteRelated = () => undefined,
): Promise<BroadcastStarted> {
  requireSendingAllowed(getSendingAccount(app.config, app.db, actor.accountId))
  const draft = toBroadcastDraft(app, input)
  // Rejects sources that can never be rendered. Data missing for one contact fails for that contact only.
  const source = { subject: input.subject, html: input.html, text: input.text }
  await requireValidSource(app, actor.accountId, source)
  await requireDiskSpace(app)
  await ensureStream(app, actor, draft.stream)
  const { account, sandbox, streamId } = requireSendable(app, actor, draft)
  requireOpenCapacity(app.db, actor)
  const broadcastId = await insertBroadcast(app, actor, input, draft, streamId)
  try {
    const total = await snapshotRecipients(
      app,
      broadcastId,
      { listId: input.list.id, streamId, owner: getTenantId(app.db, actor.accountId) },
      (count) => requireQuota(app, account, sandbox ? 0 : count, () => count),
    )
    const shared = formatSharedData(input.templateData, input.list)
    const warning = await preflightBroadcast(app, actor.accountId, broadcastId, source, shared)
    return await app.commit.write((tx) =>
      commitStart(app, tx, actor, input, draft, { broadcastId, total, warning, writeRelated }),
    )
  } catch (error) {
    await tryDiscardBroadcast(app, broadcastId)
    throw error
  } finally {
    getRunningSnapshots(app).delete(broadcastId)
    app.broadcastChanged.emit()
  }
}

/** Throws 409 when the account has its maximum of open broadcasts: each keeps a copy of its recipients. */
function requireOpenCapacity(db: Database, { accountId }: Actor): void {
  if ((sql(db).openOf.get(accountId)?.n ?? 0) < MAX_OPEN_BROADCASTS) return
  throw conflict(
    'too_many_broadcasts',
    `There are ${MAX_OPEN_BROADCASTS} broadcasts in progress or scheduled on this account; wait until one of them has ended, or cancel one.`,
  )
}

/** Validates like a send request to one recipient, so both report the same errors. */
function toBroadcastDraft(app: App, input: BroadcastInput): Draft {
  for (const [field, body] of [
    ['html_body', input.html],
    ['text_body', input.text],
  ] as const)
    if (body !== undefined && Buffer.byteLength(body) > MAX_BODY_BYTES)
      throw invalid(field, `${field} must have at most ${MAX_BODY_BYTES} bytes.`)
  if (Buffer.byteLength(JSON.stringify(input.templateData ?? {})) > MAX_TEMPLATE_DATA_BYTES)
    throw invalid('template_data', `template_data must have at most ${MAX_TEMPLATE_DATA_BYTES} bytes of JSON.`)
  const draft = createDraft(app, {
    from: input.from,
    to: 'contact@list.invalid',
    // The source of a subject may contain line breaks; a subject has none.
    subject: input.subject?.replace(/[\r\n]+/g, ' ') ?? null,
    html_body: input.html ?? null,
    text_body: input.text ?? null,
    reply_to: input.replyTo ?? null,
    headers: input.headers,
    tags: [...(input.tags ?? [])],
    send_at: input.sendAt ?? null,
    stream: input.stream ?? BROADCAST_STREAM,
    transactional: false,
  })
  const { subject = '' } = input
  if (subject.trim() === '') throw invalid('subject', 'A subject is required unless the template has one.')
  return {
    ...draft,
    subject: hasNoTemplateSyntax(subject) ? draft.subject.trim() : subject,
    listId: input.list.id,
    templateId: input.template?.id,
  }
}

async function ensureStream(app: App, actor: Actor, slug: string): Promise<void> {
  if (slug !== BROADCAST_STREAM || findStreamId(app.db, actor.accountId, slug) !== undefined) return
  await app.commit.write((tx) => {
    if (findStreamId(tx.db, actor.accountId, slug) !== undefined) return
    const id = insertStream(tx, actor.accountId, { slug, name: 'Broadcasts' }, app.eventTime())
    auditChange(app, tx, actor, 'stream.created', id)
  })
}

async function insertBroadcast(
  app: App,
  actor: Actor,
  input: BroadcastInput,
  draft: Draft,
  streamId: number,
): Promise<number> {
  const content = await storeContent(app, draft)
  const { htmlRef, textRef, sizeBytes } = content
  const { newsletterId = null, list, template, templateData } = input
  const write = (tx: Tx): number => {
    const now = app.eventTime()
    const row = sql(tx.db).insert.get({
      ...{ accountId: actor.accountId, newsletterId, listId: list.id, streamId, htmlRef, textRef, sizeBytes },
      ...{ templateId: template?.id ?? null, templateVersion: template?.version ?? null },
      ...{ fromAddress: draft.from, subject: draft.subject, templateData: formatSharedData(templateData, list) },
      extra: Object.keys(draft.extra).length > 0 ? JSON.stringify(draft.extra) : null,
      ...{ state: stateCode('fixing'), sandbox: 0, total: 0, handedOver: 0, leftOut: 0 },
      dueAt: draft.scheduledAt ?? app.clock.now(),
      ...{ actor: formatStoredActor(actor), createdAt: now, updatedAt: now },
    })
    if (!row) throw new Error('the broadcast was not stored')
    getRunningSnapshots(app).add(row.id)
    return row.id
  }
  return dropContentOnFailure(app, { content: refsOf(content) }, () => app.commit.write(write))
}

/**
 * Copies the active contacts in batches and returns the number of copied ones. Contacts added after the copying began
 * are not included.
 * @param requireQuotaCapacity throws 429 when that number exceeds the remaining quota
 */
async function snapshotRecipients(
  app: App,
  broadcastId: number,
  { listId, streamId, owner }: { readonly listId: number; readonly streamId: number; readonly owner: number },
  requireQuotaCapacity: (total: number) => Promise<void>,
): Promise<number> {
  const newest = sql(app.db).newestContact.get(listId)?.id ?? 0
  const active = toContactStatusCode('active')
  let total = 0
  for (let after = 0; ; ) {
    const from = after
    const batch = sql(app.db).piece.get(listId, active, from, newest, BATCH_SIZE)
    const last = batch?.last ?? undefined
    if (!batch || last === undefined) return total
    total += await app.commit.write(
      (tx) =>
        sql(tx.db).fix.run(broadcastId, listId, active, from, last, toSuppressionScopeCode('all'), streamId).changes,
      { owner },
    )
    await requireQuotaCapacity(total)
    if (batch.n < BATCH_SIZE) return total
    after = last
    await yieldToEventLoop()
  }
}

/** Consumes quota, inserts the operation, sets the state, and stores the response for a repeated request. */
function commitStart(
  app: App,
  tx: Tx,
  actor: Actor,
  input: BroadcastInput,
  draft: Draft,
  snapshot: { broadcastId: number; total: number; warning: string | undefined; writeRelated: WriteRelated },
): BroadcastStarted {
  const { broadcastId, total, warning, writeRelated } = snapshot
  const earlier = input.replyKey && findStoredResponse<{ data: BroadcastStarted }>(tx.db, actor, input.replyKey)
  if (earlier) {
    // Another request with the same key was committed first, so the snapshot of this request is not used.
    tx.afterCommit(() => void tryDiscardBroadcast(app, broadcastId))
    return earlier.data
  }
  // The list may have been deleted while its contacts were copied.
  if (namedList(tx.db, actor.accountId, input.list.id)?.isDeleted !== false)
    throw invalid('contact_list_id', 'Contact list not found.', 'contact_list_not_found')
  const { account, sandbox } = requireSendable(app, actor, draft)
  const quotaMonth = sandbox || total === 0 ? null : consumeQuota(tx, account, total, app.clock.now())
  const state: BroadcastState = total === 0 ? 'done' : draft.scheduledAt === undefined ? 'sending' : 'waiting'
  const dueAt = draft.scheduledAt ?? app.clock.now()
  const contact_list_id = formatUuid(input.list.uuid)
  const operation = insertOperation(app, tx, actor, {
    type: input.type,
    status: OPERATION_STATUS[state],
    total,
    metadata: {
      contact_list_id,
      subject: draft.subject,
      sandbox,
      ...toOperationMetadata({ state: stateCode(state), dueAt, handedOver: 0, leftOut: 0 }),
    },
  })
  const now = app.eventTime()
  const updated = sql(tx.db).begin.run({
    ...{ id: broadcastId, operationId: operation.id, state: stateCode(state), sandbox: sandbox ? 1 : 0 },
    ...{ total, quotaMonth, updatedAt: now },
  })
  if (updated.changes !== 1) throw new Error(`broadcast ${broadcastId} has no running snapshot`)
  // For newsletters, `writeRelated` writes the audit entry.
  if (input.type === 'broadcast') {
    const metadata = { contact_list_id, total_recipients: total }
    auditChange(app, tx, actor, 'broadcast.created', operation.uuid, metadata, 'operation')
  }
  writeRelated(tx, { id: operation.id, uuid: operation.uuid, total, state, scheduledAt: draft.scheduledAt })
  const response = {
    operation_id: operation.uuid,
    total_recipients: total,
    message: formatMessage(total, state, sandbox ? draft.fromDomain : undefined, warning),
  }
  if (input.replyKey) storeResponse(app, tx, actor, input.replyKey, { data: response })
  return response
}

function formatMessage(
  total: number,
  state: BroadcastState,
  unverifiedDomain: string | undefined,
  warning: string | undefined,
): string {
  if (state === 'done') return 'No contact on the list can receive mail, so nothing is sent.'
  const contacts = total === 1 ? '1 contact' : `${total} contacts`
  const sentence =
    state === 'waiting' ? `It will be sent to ${contacts} at the scheduled time.` : `It is being sent to ${contacts}.`
  const captureNote =
    unverifiedDomain === undefined ? '' : ` It is only captured, because ${unverifiedDomain} is not verified.`
  return `${sentence}${captureNote}${warning === undefined ? '' : ` ${warning}`}`
}

/** A broadcast that cannot be removed now is removed at the next start. */
const tryDiscardBroadcast = (app: App, broadcastId: number): Promise<void> =>
  discardBroadcast(app, broadcastId).catch((error: unknown) =>
    app.log.error({ err: error, broadcast: broadcastId }, 'unstarted broadcast not removed'),
  )

/** Removes a broadcast that never started, with its snapshot. */
async function discardBroadcast(app: App, broadcastId: number): Promise<void> {
  for (;;) {
    const removed = await app.commit.writeFromReserve((tx) => removeSnapshotRows(tx, broadcastId, DISCARD_BATCH_SIZE))
    if (removed < DISCARD_BATCH_SIZE) break
    await yieldToEventLoop()
  }
  await app.commit.writeFromReserve((tx) => void sql(tx.db).discard.run(broadcastId, stateCode('fixing')))
}

/** Removes unfinished snapshots that a crash left; no client has got a response about them. */
export async function discardLeftovers(app: App): Promise<void> {
  for (const { id } of sql(app.db).leftovers.all(stateCode('fixing')))
    if (!getRunningSnapshots(app).has(id)) await discardBroadcast(app, id)
}

/** Snapshots that this process is taking. All other unfinished snapshots are leftovers of an earlier process. */
const getRunningSnapshots = perOwner((_: App) => new Set<number>())

const formatStoredActor = ({ type, id }: Actor): string => JSON.stringify({ type, id })

/** The actor that `formatStoredActor` stored, without scopes. */
export function parseStoredActor(
  stored: string,
  account: { readonly accountId: number; readonly accountUuid: UuidBytes },
): Actor {
  const { type, id } = JSON.parse(stored) as Pick<Actor, 'type' | 'id'>
  return { accountId: account.accountId, accountUuid: formatUuid(account.accountUuid), type, id, scopes: new Set() }
}
