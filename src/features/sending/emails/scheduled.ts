/** @module Cancels and reschedules scheduled emails. */
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import { readSendResponse } from '#features/sending/accept/accept.ts'
import { parseSendAt } from '#features/sending/accept/draft.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { EMAIL_ROW_COLUMNS, type EmailRow } from '#features/sending/queue/settle.ts'
import { statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { cancelScheduled, rescheduleScheduled } from '#features/sending/queue/waiting-transitions.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import { parseUuid } from '#platform/ids.ts'
import type { EmailChange } from './model.ts'

export type ScheduledRow = EmailRow &
  Readonly<Pick<typeof emails.$inferSelect, 'uuid' | 'quotaMonth' | 'scheduledAt' | 'domainId'>>

export const SCHEDULED_ROW_COLUMNS = `${EMAIL_ROW_COLUMNS}, uuid, quota_month AS quotaMonth, scheduled_at AS scheduledAt, domain_id AS domainId`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<ScheduledRow, [Uint8Array, number]>(
    `SELECT ${SCHEDULED_ROW_COLUMNS} FROM emails WHERE uuid = ? AND account_id = ?`,
  ),
}))

/** Cancels one email; throws a 404 if it is missing or not (or no longer) scheduled. */
export async function cancelEmail(app: App, actor: Actor, id: string): Promise<SendResponse> {
  const uuid = parseUuid(id)
  const emailId = await app.commit.writeFromReserve((tx) => {
    const email = uuid && sql(tx.db).byUuid.get(uuid, actor.accountId)
    if (!email || !cancelInTransaction(app, tx, actor, email))
      throw notFound('email_not_found', 'Scheduled email not found; only scheduled emails can be cancelled.')
    return email.id
  })
  return readSendResponse(app, emailId)
}

/** Like `cancelEmail`, inside the caller's transaction. Returns false if the email is not scheduled. */
export function cancelInTransaction(app: App, tx: Tx, actor: Actor, email: ScheduledRow): boolean {
  const now = app.eventTime()
  const cancelled = cancelScheduled(tx, email, now)
  if (cancelled === 0) return false
  // Rejected recipients do not count against the quota.
  if (email.quotaMonth !== null) giveQuotaBack(tx, email.accountId, email.quotaMonth, cancelled)
  auditChange(app, tx, actor, 'email.cancelled', email.uuid)
  return true
}

/**
 * Sets the time of a scheduled email; null, or a time that has just passed, sends it now. It stays `scheduled` until
 * delivery claims it. Resolves when the change is on disk. Throws 422 for the time, 404, and 409 `email_not_scheduled`.
 */
export async function rescheduleEmail(
  app: App,
  actor: Actor,
  id: string,
  { send_at: sendAt }: EmailChange,
): Promise<SendResponse> {
  const uuid = parseUuidParam(id, 'email_not_found', 'email')
  const at = parseSendAt(sendAt ?? undefined, app.clock.now()) ?? app.clock.now()
  const emailId = await app.commit.write((tx) => {
    const email = sql(tx.db).byUuid.get(uuid, actor.accountId)
    if (!email) throw notFoundById('email_not_found', 'email')
    const lanes = rescheduleScheduled(tx, email, at)
    if (lanes.size === 0)
      throw conflict(
        'email_not_scheduled',
        `Only a scheduled email can be rescheduled; this one is ${statusName(email.status)}.`,
      )
    const [from, to] = [isoTimeOrNull(email.scheduledAt), isoTime(at)]
    const changes = describeChanges({ scheduled_at: from }, { scheduled_at: to })
    auditChange(app, tx, actor, 'email.rescheduled', email.uuid, { from, to, ...changes })
    tx.afterCommit(() => {
      for (const lane of lanes) app.mailDue.emit({ lane, at })
    })
    return email.id
  })
  return readSendResponse(app, emailId)
}
