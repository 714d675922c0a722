/**
 * @module Accepts emails: REST, batch and later SMTP submission all come through here. Content first, durably; then, in one transaction, email,
 * recipients, event, counters and quota. The answer leaves only when that is on disk.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { equalBytes } from '#platform/crypto.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared, readTogether } from '#platform/db/open.ts'
import { AppError, insufficientStorage, invalid } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import {
  giveQuotaBack,
  quotaLeft,
  requireSending,
  type SendingAccount,
  sendingAccount,
  takeQuota,
} from '../accounts/accounts.ts'
import { hasTracking } from '../accounts/plans.ts'
import { dropContent, referTo } from '../content/garbage.ts'
import { findSendingDomain } from '../domains/sending.ts'
import { countDaily } from '../events/figures.ts'
import { type EventData, record } from '../events/record.ts'
import { countFigure } from '../streams/figures.ts'
import { findStream } from '../streams/streams.ts'
import { suppressionOf } from '../suppressions/check.ts'
import { startRendering } from '../templates/render.ts'
import { type Draft, draftOf } from './draft.ts'
import { type Idempotency, idempotencyOf } from './idempotency.ts'
import { laneOf } from './lanes.ts'
import type { SendRequest, SendResponse } from './model.ts'
import { countStatus } from './settle.ts'
import { emailStatus, RECIPIENT_KINDS, type Status, statusCode, statusName } from './status.ts'
import { suppressedOutcome } from './suppressed.ts'
import { renderedDraft } from './templated.ts'

const sql = prepared((db) => ({
  insertEmail: db.prepare<{ id: number }, (string | number | Uint8Array | null)[]>(
    `INSERT INTO emails (uuid, account_id, domain_id, stream_id, operation_id, template_id, broadcast_id, list_id, status, sandbox, transactional, tracking_override, tracked, from_address, subject,
     html_ref, text_ref, attachments, extra, recipient_count, size_bytes, quota_month, scheduled_at, created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
  ),
  insertRecipient: db.prepare(
    'INSERT INTO recipients (email_id, kind, address, mailbox, status, lane, next_at, last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  ),
  findKey: db.prepare<{ emailId: number; bodyHash: Uint8Array }, [number, Uint8Array]>(
    'SELECT email_id AS emailId, body_hash AS bodyHash FROM idempotency_keys WHERE account_id = ? AND key_hash = ?',
  ),
  insertKey: db.prepare('INSERT INTO idempotency_keys (account_id, key_hash, email_id, body_hash) VALUES (?, ?, ?, ?)'),
  email: db.prepare<
    { uuid: Uint8Array; from: string; status: number; sandbox: number; scheduledAt: number | null; createdAt: number },
    [number]
  >(
    'SELECT uuid, from_address AS "from", status, sandbox, scheduled_at AS scheduledAt, created_at AS createdAt FROM emails WHERE id = ?',
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    'SELECT address FROM recipients WHERE email_id = ? AND kind = 0 ORDER BY id',
  ),
}))

export interface Accepted {
  readonly response: SendResponse
  /** The key was seen before: `response` is that of the first email. */
  readonly replayed: boolean
  /** Replayed, and the request differed from the first. */
  readonly mismatch: boolean
}

/** Where a draft's parts lie once they are durable. */
export interface StoredContent {
  readonly htmlRef: number | null
  readonly textRef: number | null
  readonly attachments: readonly { filename: string; content_type: string; size: number; ref: number }[]
  readonly sizeBytes: number
}

/**
 * Accepts a send request; resolves when the email is on disk. Its idempotency key comes before everything that may have changed since it was first
 * seen: the rules (a `send_at` has passed meanwhile), the rate, the quota, the domain.
 * @param idempotencyHeader value of the header `Idempotency-Key`
 * @param admit throws when the account sends too fast
 */
export async function acceptRequest(
  app: App,
  actor: Actor,
  request: SendRequest,
  idempotencyHeader: string | undefined,
  admit: () => void,
): Promise<Accepted> {
  const replay = findReplay(app, actor, idempotencyOf(request, idempotencyHeader))
  if (replay) return durable(app, replay)
  return acceptEmail(app, actor, draftOf(app, request, idempotencyHeader), admit)
}

/**
 * Accepts one email; resolves when it is on disk. A template is rendered last of all that may refuse it, and for a new email only.
 * @param admit throws when the account sends too fast; asked after the look-up of the idempotency key
 * @param also writes what belongs to it in the same transaction, and throws when it must not be; not called for an idempotency key that was seen
 */
export async function acceptEmail(
  app: App,
  actor: Actor,
  given: Draft,
  admit: () => void = () => undefined,
  also: (tx: Tx, response: SendResponse) => void = () => undefined,
): Promise<Accepted> {
  const before = readTogether(app.db, () => {
    const replay = findReplay(app, actor, given.idempotency)
    if (replay) return { replay }
    admit()
    const sendable = requireSendable(app, actor, given)
    return { sendable, left: quotaLeft(app.db, sendable.account, app.clock.now()) }
  })
  if (before.replay) return durable(app, before.replay)
  const { account, sandbox, streamId } = before.sendable
  await requireDiskSpace(app)
  await requireQuota(
    app,
    account,
    sandbox ? 0 : given.recipients.length,
    () => unsuppressed({ suppressions: suppressionsOf(app.db, actor, given, streamId) }),
    before.left,
  )
  using rendering = startRendering(app)
  const draft = await renderedDraft(app, actor, given, rendering)
  const content = await storeContent(app, draft)
  const refs = { content: refsOf(content) }
  const write = (tx: Tx): Accepted => {
    const earlier = findReplay(app, actor, draft.idempotency)
    if (earlier) {
      dropContent(app, tx, refs)
      return earlier
    }
    const context = requireSendable(app, actor, draft)
    const suppressions = suppressionsOf(tx.db, actor, draft, context.streamId)
    const counted = context.sandbox ? 0 : unsuppressed({ suppressions })
    const quotaMonth = counted === 0 ? null : takeQuota(tx, context.account, counted, app.clock.now())
    const placement = { ...context, suppressions, quotaMonth, operationId: null }
    const response = insertEmail(app, tx, actor, draft, content, placement)
    also(tx, response)
    return { response, replayed: false, mismatch: false }
  }
  return referTo(app, refs, () => app.commit.write(write))
}

/** The first email of an idempotency key, if it was seen. It may not be on disk yet: see `durable`. */
export function findReplay(
  app: Pick<App, 'db'>,
  actor: Actor,
  idempotency: Idempotency | undefined,
): Accepted | undefined {
  if (!idempotency) return undefined
  const found = sql(app.db).findKey.get(actor.accountId, idempotency.keyHash)
  if (!found) return undefined
  return {
    response: responseOf(app, found.emailId),
    replayed: true,
    mismatch: !equalBytes(found.bodyHash, idempotency.bodyHash),
  }
}

/** Gives `value`, read from the database, once what it was read from is on disk: it may be of a group whose sync is still running. */
export const durable = <T extends object>(app: Pick<App, 'commit'>, value: T): Promise<T> =>
  app.commit.write<{ value: T }>(() => ({ value })).then((written) => written.value)

/** What the database decides about a draft; throws the refusal: paused account, unknown domain or stream. */
export function requireSendable(app: App, actor: Actor, draft: Draft) {
  const account = sendingAccount(app.config, app.db, actor.accountId)
  requireSending(account)
  const domain = findSendingDomain(app.db, actor.accountId, draft.fromDomain)
  if (!domain) {
    throw invalid(
      'from',
      `The domain ${draft.fromDomain} is not registered on this account; add it with POST /v1/domains.`,
      'domain_not_found',
    )
  }
  const sandbox = !domain.isVerified
  if (sandbox && app.config.sendingUnverified === 'reject') {
    throw invalid(
      'from',
      `The domain ${domain.domain} is not verified; publish its DNS records and verify it first.`,
      'domain_not_verified',
    )
  }
  const streamId = findStream(app.db, actor.accountId, draft.stream)
  if (streamId === undefined)
    throw invalid('stream', `There is no stream "${draft.stream}" on this account.`, 'stream_not_found')
  return { account, domainId: domain.id, sandbox, streamId, tracked: isTracked(app.config, account, draft) }
}

/** Only HTML can be tracked, and only on a plan that has tracking. */
const isTracked = (config: Config, account: SendingAccount, draft: Draft): boolean =>
  draft.html !== undefined && hasTracking(config, account.plan) && (draft.tracking ?? account.trackingDefault)

/** Why each recipient of a draft, in their order, may not be sent to; undefined for those who may. */
export const suppressionsOf = (db: Database, actor: Actor, draft: Draft, streamId: number): (string | undefined)[] =>
  draft.recipients.map(
    ({ address }) =>
      suppressionOf(db, {
        accountId: actor.accountId,
        address,
        transactional: draft.transactional,
        streamId,
        listId: draft.listId,
      })?.reason,
  )

/** Recipients that may be sent to, which are those that the quota counts. */
export const unsuppressed = ({ suppressions }: Pick<Placement, 'suppressions'>): number =>
  suppressions.filter((reason) => reason === undefined).length

/** Throws 507 `insufficient_storage` when the disk is low: new mail is refused while accepted mail can still be finished. */
export async function requireDiskSpace(app: Pick<App, 'disk'>): Promise<void> {
  if (await app.disk.isLow()) throw insufficientStorage()
}

/**
 * Throws the 429 before anything is stored, so that what is refused cannot fill the disk. The transaction that inserts decides again; this one
 * runs only when there is something to refuse, and leaves the quota as it was.
 * @param most recipients that are counted at most; 0: none
 * @param count those that are counted, suppressed ones taken out; asked only when the most are too many
 * @param left recipients that the account can still send to
 */
export async function requireQuota(
  app: App,
  account: SendingAccount,
  most: number,
  count: () => number,
  left = quotaLeft(app.db, account, app.clock.now()),
): Promise<void> {
  if (most === 0 || most <= left) return
  const now = app.clock.now()
  const recipients = count()
  if (recipients === 0 || recipients <= left) return
  await app.commit.write((tx) => giveQuotaBack(tx, account.id, takeQuota(tx, account, recipients, now), recipients))
}

/** Puts bodies and attachments on disk. */
export async function storeContent(app: App, draft: Draft): Promise<StoredContent> {
  const bodies = [draft.html, draft.text].filter((part) => part !== undefined)
  const refs = await app.content.put([...bodies, ...draft.attachments.map((a) => a.content)], app.clock.now())
  let next = 0
  const take = () => refs[next++] ?? null
  return {
    htmlRef: draft.html ? take() : null,
    textRef: draft.text ? take() : null,
    attachments: draft.attachments.map(({ filename, contentType, content }) => ({
      filename,
      content_type: contentType,
      size: content.length,
      ref: take() ?? 0,
    })),
    sizeBytes: [...bodies, ...draft.attachments.map((a) => a.content)].reduce((sum, part) => sum + part.length, 0),
  }
}

/** References of what was stored. */
export const refsOf = ({ htmlRef, textRef, attachments }: StoredContent): (number | null)[] => [
  htmlRef,
  textRef,
  ...attachments.map(({ ref }) => ref),
]

export interface Placement {
  readonly domainId: number
  readonly streamId: number
  readonly sandbox: boolean
  readonly tracked: boolean
  /** As `suppressionsOf` gives them. */
  readonly suppressions: readonly (string | undefined)[]
  readonly quotaMonth: number | null
  readonly operationId: number | null
  /** The broadcast that it is of: it never goes ahead of other mail. */
  readonly broadcastId?: number
}

/** Writes an email and all that goes with it; wakes its lanes once it is durable. */
export function insertEmail(
  app: App,
  tx: Tx,
  actor: Actor,
  draft: Draft,
  content: StoredContent,
  placement: Placement,
): SendResponse {
  if (draft.template) throw new Error('the template of an email was not rendered')
  const uuid = newUuid()
  const now = app.eventTime()
  const dueAt = draft.scheduledAt ?? app.clock.now()
  const waiting = draft.scheduledAt === undefined ? 'queued' : 'scheduled'
  const status = emailStatus(placement.suppressions.map((reason) => (reason === undefined ? waiting : 'rejected')))
  const emailId = insertRow(tx, actor, draft, content, placement, { uuid, now, status })
  const { lanes, rejected } = insertRecipients(tx, emailId, draft, placement, {
    accountId: actor.accountId,
    waiting,
    dueAt,
  })
  if (draft.idempotency)
    sql(tx.db).insertKey.run(actor.accountId, draft.idempotency.keyHash, emailId, draft.idempotency.bodyHash)
  const event = { accountId: actor.accountId, at: now, emailId }
  record(tx, { ...event, type: waiting })
  for (const { recipientId, data } of rejected) record(tx, { ...event, type: 'rejected', recipientId, data })
  countStatus(tx, { accountId: actor.accountId, createdAt: now }, status, 1)
  if (!placement.sandbox) countSent(tx, actor.accountId, draft, placement, now)
  tx.afterCommit(() => {
    for (const lane of lanes) app.mailDue.emit({ lane, at: dueAt })
  })
  return sendResponse({
    uuid,
    from: draft.from,
    status,
    to: draft.recipients.filter(({ kind }) => kind === 'to'),
    sandbox: placement.sandbox,
    createdAt: now,
    scheduledAt: draft.scheduledAt ?? null,
  })
}

/** Counts those who are not suppressed. */
function countSent(
  tx: Tx,
  accountId: number,
  { recipients }: Draft,
  { streamId, suppressions }: Placement,
  at: Millis,
): void {
  for (const [index, { domain }] of recipients.entries()) {
    if (suppressions[index] !== undefined) continue
    countFigure(tx, { accountId, streamId }, 'sent', at, 1)
    countDaily(tx, { accountId, domain, at }, 'sent', 1)
  }
}

/** Gives the row id. */
function insertRow(
  tx: Tx,
  actor: Actor,
  draft: Draft,
  content: StoredContent,
  placement: Placement,
  { uuid, now, status }: { readonly uuid: UuidBytes; readonly now: Millis; readonly status: Status },
): number {
  const hasExtra = Object.keys(draft.extra).length > 0
  const row = sql(tx.db).insertEmail.get(
    uuid,
    actor.accountId,
    placement.domainId,
    placement.streamId,
    placement.operationId,
    draft.templateId ?? null,
    placement.broadcastId ?? null,
    draft.listId ?? null,
    statusCode(status),
    placement.sandbox ? 1 : 0,
    draft.transactional ? 1 : 0,
    draft.tracking === undefined ? null : draft.tracking ? 1 : 0,
    placement.tracked ? 1 : 0,
    draft.from,
    draft.subject,
    content.htmlRef,
    content.textRef,
    content.attachments.length > 0 ? JSON.stringify(content.attachments) : null,
    hasExtra ? JSON.stringify(draft.extra) : null,
    draft.recipients.length,
    content.sizeBytes,
    placement.quotaMonth,
    draft.scheduledAt ?? null,
    now,
    now,
  )
  if (!row) throw new Error('the email was not stored')
  return row.id
}

/** Gives the lanes of those that wait, and those that were rejected, because they are suppressed, with what their event says. */
function insertRecipients(
  tx: Tx,
  emailId: number,
  draft: Draft,
  { suppressions, sandbox, broadcastId }: Placement,
  {
    accountId,
    waiting,
    dueAt,
  }: { readonly accountId: number; readonly waiting: 'queued' | 'scheduled'; readonly dueAt: Millis },
): { lanes: ReadonlySet<string>; rejected: readonly { recipientId: number; data: EventData }[] } {
  const { insertRecipient } = sql(tx.db)
  const lanes = new Set<string>()
  const rejected: { recipientId: number; data: EventData }[] = []
  for (const [index, recipient] of draft.recipients.entries()) {
    const reason = suppressions[index]
    const outcome = reason === undefined ? undefined : suppressedOutcome(reason)
    const lane = laneOf({ accountId, domain: recipient.domain, sandbox, isBulk: broadcastId !== undefined })
    const { lastInsertRowid } = insertRecipient.run(
      emailId,
      RECIPIENT_KINDS.indexOf(recipient.kind),
      recipient.address,
      recipient.mailbox ?? null,
      statusCode(outcome ? 'rejected' : waiting),
      outcome ? null : lane,
      outcome ? null : dueAt,
      outcome?.lastError ?? null,
    )
    if (outcome) rejected.push({ recipientId: Number(lastInsertRowid), data: outcome.data })
    else lanes.add(lane)
  }
  return { lanes, rejected }
}

/** The Message-ID of an email, with angle brackets; derived, so that it costs no column. RFC 5322 §3.6.4. */
export const messageIdOf = (uuid: Uint8Array, from: string): string => `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`

/** The send response of a stored email. */
export function responseOf(app: Pick<App, 'db'>, emailId: number): SendResponse {
  const statements = sql(app.db)
  const email = statements.email.get(emailId)
  if (!email) throw new AppError(404, 'email_not_found', 'There is no email with this id.')
  return sendResponse({
    ...email,
    status: statusName(email.status),
    to: statements.toAddresses.all(emailId),
    sandbox: email.sandbox === 1,
  })
}

interface Answered {
  readonly uuid: Uint8Array
  readonly from: string
  readonly status: Status
  readonly to: readonly { readonly address: string }[]
  readonly sandbox: boolean
  readonly createdAt: Millis
  readonly scheduledAt: Millis | null
}

const sendResponse = ({ uuid, from, status, to, sandbox, createdAt, scheduledAt }: Answered): SendResponse => ({
  id: formatUuid(uuid),
  message_id: messageIdOf(uuid, from),
  status,
  to: to.map(({ address }) => address).join(', '),
  sandbox,
  created_at: isoTime(createdAt),
  ...(scheduledAt === null ? {} : { scheduled_at: isoTime(scheduledAt) }),
})
