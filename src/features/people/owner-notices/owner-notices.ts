/**
 * @module Mails notices to the owners of an account: to the account's address and to the owners of its team. One
 * transaction stores the mail and deletes its notices. A mail that no one can get is tried again after a day.
 */
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { deleteNotice, type NoticeKind, type OwnerNotice, postponeNotice } from '#features/core/notices/notices.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { hours } from '#platform/units.ts'

const sql = prepareStatements((db) => ({
  account: db.prepare<{ name: string; email: string; parentId: number | null; parentEmail: string | null }, [number]>(
    `SELECT own.name, own.email, own.parent_id AS parentId, parent.email AS parentEmail
     FROM accounts own LEFT JOIN accounts parent ON parent.id = own.parent_id
     WHERE own.id = ? AND own.deleted_at IS NULL AND own.disabled_at IS NULL`,
  ),
}))

const BATCH_SIZE = 500
/** Delay before the next attempt when no one could be mailed. */
const RETRY_DELAY_MS = hours(24)

/** The kind that `core/notices/notices.ts` sends. */
export const createOwnerKind = (app: App, notice: OwnerNotice): NoticeKind => ({
  kind: notice.kind,
  batchSize: BATCH_SIZE,
  aheadMs: notice.aheadMs ?? 0,
  async send(notices) {
    const { clock, commit, db, log } = app
    const accountId = notices[0]?.accountId ?? 0
    const account = sql(db).account.get(accountId)
    const mail = account && notice.compose(app, account, notices)
    if (!mail) {
      // The account was closed, or the cause is over.
      await commit.writeFromReserve((tx) => {
        for (const due of notices) deleteNotice(tx, due)
      })
      return undefined
    }
    const to = [account.email, ...listOwnerEmails(db, accountId)]
    if (notice.isForParent && account.parentId !== null)
      to.push(...(account.parentEmail ? [account.parentEmail] : []), ...listOwnerEmails(db, account.parentId))
    const { subject, text, onSent } = mail
    const isSent = await sendSystemMail(app, { to, about: [accountId], subject, text }, (tx) => {
      for (const due of notices) if (deleteNotice(tx, due)) onSent?.(tx, due)
    })
    if (isSent) return clock.now() + notice.intervalMs
    log.error(
      { account: findAccountLogId(db, accountId), kind: notice.kind, subject },
      'no one could be mailed about an account; the next attempt is in 24 hours',
    )
    await commit.writeFromReserve((tx) => {
      for (const due of notices) postponeNotice(tx, due, clock.now() + RETRY_DELAY_MS)
    })
    return undefined
  },
})
