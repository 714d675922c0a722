/** @module Cancels scheduled emails and refunds their quota. */

import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { readSendResponse } from '#features/sending/accept/send-response.ts'
import { EMAIL_ROW_COLUMNS, type EmailRow } from '#features/sending/queue/settle.ts'
import { cancelScheduled } from '#features/sending/queue/waiting-transitions.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'

interface CancellableRow extends EmailRow {
  readonly uuid: Uint8Array
  readonly quotaMonth: number | null
}

const COLUMNS = `${EMAIL_ROW_COLUMNS}, uuid, quota_month AS quotaMonth`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<CancellableRow, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM emails WHERE uuid = ? AND account_id = ?`,
  ),
}))

const createNotScheduledError = () =>
  notFound('email_not_found', 'Scheduled email not found; only scheduled emails can be cancelled.')

/** Cancels one email; throws a 404 if it is missing or not (or no longer) scheduled. */
export async function cancelEmail(app: App, actor: Actor, id: string): Promise<SendResponse> {
  const uuid = parseUuid(id)
  const emailId = await app.commit.writeFromReserve((tx) => {
    const email = uuid && sql(tx.db).byUuid.get(uuid, actor.accountId)
    if (!email || !cancelInTransaction(app, tx, actor, email)) throw createNotScheduledError()
    return email.id
  })
  return readSendResponse(app, emailId)
}

/** Like `cancelEmail`, inside the caller's transaction. Returns false if the email is not scheduled. */
export function cancelInTransaction(app: App, tx: Tx, actor: Actor, email: CancellableRow): boolean {
  const now = app.eventTime()
  const cancelled = cancelScheduled(tx, email, now)
  if (cancelled === 0) return false
  // Rejected recipients do not count against the quota.
  if (email.quotaMonth !== null) giveQuotaBack(tx, email.accountId, email.quotaMonth, cancelled)
  audit(app, tx, actor, { action: 'email.cancelled', resourceType: 'email', resourceId: formatUuid(email.uuid) })
  return true
}
