/** @module Moves a scheduled email to another time, or sends it now. */

import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { parseSendAt } from '#features/sending/accept/draft.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { readSendResponse } from '#features/sending/accept/send-response.ts'
import { EMAIL_ROW_COLUMNS, type EmailRow } from '#features/sending/queue/settle.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { rescheduleScheduled } from '#features/sending/queue/waiting-transitions.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { notFoundById, parseUuidParam } from '#platform/http/schemas.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { EmailChange } from './model.ts'

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<EmailRow & { scheduledAt: Millis | null }, [Uint8Array, number]>(
    `SELECT ${EMAIL_ROW_COLUMNS}, scheduled_at AS scheduledAt FROM emails WHERE uuid = ? AND account_id = ?`,
  ),
}))

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
    audit(app, tx, actor, {
      action: 'email.rescheduled',
      resourceType: 'email',
      resourceId: id.toLowerCase(),
      metadata: { from: isoTimeOrNull(email.scheduledAt), to: isoTime(at) },
    })
    tx.afterCommit(() => {
      for (const lane of lanes) app.mailDue.emit({ lane, at })
    })
    return email.id
  })
  return readSendResponse(app, emailId)
}
