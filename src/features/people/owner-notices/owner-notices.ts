/**
 * @module Mails notices to the owners of an account: to the account's address and to the owners of its team. One
 * transaction stores the mail and deletes its notices. A mail that no one can get is tried again, after a day or sooner.
 */
import type { Database } from 'bun:sqlite'
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { deleteNotice, type NoticeKind, type OwnerNotice, postponeNotice } from '#features/core/notices/notices.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days } from '#platform/units.ts'

const sql = prepareStatements((db) => ({
  account: db.prepare<{ accountUuid: UuidBytes; name: string; email: string; parentId: number | null }, [number]>(
    `SELECT uuid AS accountUuid, name, email, parent_id AS parentId FROM accounts
     WHERE id = ? AND deleted_at IS NULL AND disabled_at IS NULL`,
  ),
}))

/** An account with the addresses of its owners, its own first; undefined if it is closed. */
export function findOwned(db: Database, accountId: number) {
  const account = sql(db).account.get(accountId)
  return account && { ...account, accountId, owners: [account.email, ...listOwnerEmails(db, accountId)] }
}

const BATCH_SIZE = 500

/** The kind that `core/notices/notices.ts` sends. */
export const createOwnerKind = (app: App, notice: OwnerNotice): NoticeKind => ({
  kind: notice.kind,
  batchSize: BATCH_SIZE,
  aheadMs: notice.aheadMs ?? 0,
  async send(notices) {
    const { clock, commit, db, log } = app
    const accountId = notices[0]?.accountId ?? 0
    const account = findOwned(db, accountId)
    const mail = account && notice.compose(app, account, notices)
    if (!mail) {
      // The account was closed, or the cause is over.
      await commit.writeFromReserve((tx) => {
        for (const due of notices) deleteNotice(tx, due)
      })
      return undefined
    }
    const parent = notice.isForParent && account.parentId !== null ? findOwned(db, account.parentId) : undefined
    const to = [...account.owners, ...(parent?.owners ?? [])]
    const { subject, text, onSent } = mail
    const isSent = await sendSystemMail(app, { to, about: [accountId], subject, text }, (tx) => {
      for (const due of notices) if (deleteNotice(tx, due)) onSent?.(tx, due)
    })
    if (isSent) return clock.now() + notice.intervalMs
    log.error(
      { account: findAccountLogId(db, accountId), kind: notice.kind, subject },
      'no one could be mailed about an account; it is tried again later',
    )
    await commit.writeFromReserve((tx) => {
      for (const due of notices) postponeNotice(tx, due, clock.now() + (notice.retryMs ?? days(1)))
    })
    return undefined
  },
})
