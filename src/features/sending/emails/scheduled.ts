/**
 * @module Cancels and reschedules scheduled emails; releases and discards drafts, of which the content is fixed at
 * acceptance, so that what a person saw is what is sent.
 */
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, createSystemActor, describeChanges } from '#features/core/audit-logs/audit.ts'
import { readSendResponse } from '#features/sending/accept/accept.ts'
import { parseSendAt } from '#features/sending/accept/draft.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { EMAIL_ROW_COLUMNS, type EmailRow } from '#features/sending/queue/settle.ts'
import { statusCode, statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { cancelScheduled, releaseDraft, rescheduleScheduled } from '#features/sending/queue/waiting-transitions.ts'
import { isOwnSender, isRestricted } from '#features/setup/api-keys/limits.ts'
import type { WriteOptions } from '#platform/db/commit.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import type { EmailChange } from './model.ts'

export type ScheduledRow = EmailRow &
  Readonly<Pick<typeof emails.$inferSelect, 'uuid' | 'from' | 'quotaMonth' | 'scheduledAt' | 'domainId'>>

export const SCHEDULED_ROW_COLUMNS = `${EMAIL_ROW_COLUMNS}, uuid, from_address AS "from", quota_month AS quotaMonth, scheduled_at AS scheduledAt, domain_id AS domainId`

const DRAFT = statusCode('draft')
/** After that time nobody remembers what was asked. */
export const MAX_DRAFT_AGE_MS = days(14)
/** Emails per transaction; this takes some 10 ms. */
const BATCH_SIZE = 100

const sql = prepareStatements((db) => ({
  expired: db.prepare<ScheduledRow & { accountUuid: UuidBytes }, [Millis, number]>(
    `SELECT e.*, accounts.uuid AS accountUuid FROM (SELECT ${SCHEDULED_ROW_COLUMNS} FROM emails INDEXED BY emails_drafts
       WHERE status = ${DRAFT} AND created_at < ? LIMIT ?) AS e JOIN accounts ON accounts.id = accountId`,
  ),
  byUuid: db.prepare<ScheduledRow, [Uint8Array, number]>(
    `SELECT ${SCHEDULED_ROW_COLUMNS} FROM emails WHERE uuid = ? AND account_id = ?`,
  ),
}))

/** How a person decided by a link, for the audit log. */
type Audited = Readonly<Record<string, string>>

/** Changes an email of the actor's account; resolves when that is on disk. Throws 404. */
async function changeEmail(
  app: App,
  actor: Actor,
  id: string,
  change: (tx: Tx, email: ScheduledRow) => void,
  options?: WriteOptions,
): Promise<SendResponse> {
  const uuid = parseUuidParam(id, 'email_not_found', 'email')
  const emailId = await app.commit.write((tx) => {
    const email = sql(tx.db).byUuid.get(uuid, actor.accountId)
    if (!email) throw notFoundById('email_not_found', 'email')
    change(tx, email)
    return email.id
  }, options)
  return readSendResponse(app, emailId)
}

/**
 * Cancels one email; throws a 404 if it is missing or neither scheduled nor a draft (any more). Restricted keys, and
 * people by the link to a draft, may discard what waits for a person, not what is scheduled; a key for one mailbox, only
 * what waits from its address.
 */
export function cancelEmail(app: App, actor: Actor, id: string, audited?: Audited): Promise<SendResponse> {
  const isOfDrafts = audited !== undefined || isRestricted(actor.limits)
  const cancel = (tx: Tx, email: ScheduledRow) => {
    const isForbidden = (isOfDrafts && email.status !== DRAFT) || !isOwnSender(app, actor, email.from)
    if (isForbidden || !cancelInTransaction(app, tx, actor, email, audited))
      throw notFound('email_not_found', 'Scheduled email not found; only scheduled emails and drafts can be cancelled.')
  }
  return changeEmail(app, actor, id, cancel, { mayUseReserve: true })
}

/** Like `cancelEmail`, inside the caller's transaction. Returns false if the email is neither scheduled nor a draft. */
export function cancelInTransaction(app: App, tx: Tx, actor: Actor, email: ScheduledRow, audited?: Audited): boolean {
  const now = app.eventTime()
  const cancelled = cancelScheduled(tx, email, now)
  if (cancelled === 0) return false
  // Rejected recipients do not count against the quota.
  if (email.quotaMonth !== null) giveQuotaBack(tx, email.accountId, email.quotaMonth, cancelled)
  auditChange(app, tx, actor, 'email.cancelled', email.uuid, audited)
  return true
}

/**
 * Releases a draft; resolves when that is on disk. Throws 404, and 409 `email_not_draft` for an email that is no draft
 * (any more), so that of several decisions one counts.
 */
export const releaseEmail = (app: App, actor: Actor, id: string, audited?: Audited): Promise<SendResponse> =>
  changeEmail(app, actor, id, (tx, email) => {
    if (email.status !== DRAFT)
      throw conflict('email_not_draft', `Only a draft can be released; this email is ${statusName(email.status)}.`)
    const { lanes, at } = releaseDraft(tx, email, app.eventTime())
    auditChange(app, tx, actor, 'email.released', email.uuid, audited)
    announceDue(app, tx, lanes, at)
  })

const announceDue = (app: App, tx: Tx, lanes: ReadonlySet<string>, at: Millis): void =>
  tx.afterCommit(() => {
    for (const lane of lanes) app.mailDue.emit({ lane, at })
  })

/** Cancels drafts that are too old. Call it about every hour. */
export async function cancelOldDrafts(app: App, signal: AbortSignal): Promise<void> {
  for (let count = BATCH_SIZE; count === BATCH_SIZE && !signal.aborted; )
    count = await app.commit.writeFromReserve((tx) => {
      const old = sql(tx.db).expired.all(app.clock.now() - MAX_DRAFT_AGE_MS, BATCH_SIZE)
      for (const email of old)
        cancelInTransaction(app, tx, createSystemActor(email), email, { reason: 'draft_expired' })
      return old.length
    })
}

/**
 * Sets the time of a scheduled email; null, or a time that has just passed, sends it now. It stays `scheduled` until
 * delivery claims it. Resolves when the change is on disk. Throws 422 for the time, 404, and 409 `email_not_scheduled`.
 */
export function rescheduleEmail(app: App, actor: Actor, id: string, change: EmailChange): Promise<SendResponse> {
  const at = parseSendAt(change.send_at ?? undefined, app.clock.now()) ?? app.clock.now()
  return changeEmail(app, actor, id, (tx, email) => {
    const lanes = rescheduleScheduled(tx, email, at)
    if (lanes.size === 0)
      throw conflict(
        'email_not_scheduled',
        `Only a scheduled email can be rescheduled; this one is ${statusName(email.status)}.`,
      )
    const [from, to] = [isoTimeOrNull(email.scheduledAt), isoTime(at)]
    const changes = describeChanges({ scheduled_at: from }, { scheduled_at: to })
    auditChange(app, tx, actor, 'email.rescheduled', email.uuid, { from, to, ...changes })
    announceDue(app, tx, lanes, at)
  })
}
