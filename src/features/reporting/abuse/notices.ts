/**
 * @module Mails a notice about each pause: to the account's address, the owners of its team, and the parent's address
 * and owners. The transaction of the pause inserts the row in `pause_notices`, so a crash neither loses nor repeats a
 * notice. The only remover of these rows.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMailToEach } from '#features/sending/system-mail/send.ts'
import type { Millis } from '#platform/clock.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { minutes } from '#platform/units.ts'

interface Notice {
  readonly findingId: number
  readonly accountId: number
  readonly parentId: number | null
  readonly name: string | null
  readonly email: string | null
  readonly parentEmail: string | null
  readonly reason: string
  readonly at: Millis
}

const sql = prepareStatements((db) => ({
  // Outer joins, because the account may be deleted; its row of `pause_notices` is then deleted without a notice.
  due: db.prepare<Notice, [number]>(
    `SELECT finding_id AS findingId, pause_notices.account_id AS accountId, own.parent_id AS parentId, own.name, own.email,
       parent.email AS parentEmail, coalesce(reason, '') AS reason, coalesce(abuse_findings.created_at, 0) AS at
     FROM pause_notices LEFT JOIN abuse_findings ON abuse_findings.id = finding_id LEFT JOIN accounts own ON own.id = pause_notices.account_id
     LEFT JOIN accounts parent ON parent.id = own.parent_id ORDER BY finding_id LIMIT ?`,
  ),
  done: db.prepare('DELETE FROM pause_notices WHERE finding_id = ?'),
}))

const BATCH_SIZE = 10
const RESTORED_CHECK_INTERVAL_MS = minutes(1)

/** Starts the loop that sends due notices; `App.sendingChanged` wakes the loop. */
export function startPauseNotices(app: App): DueLoop {
  const step = async (ending: AbortSignal): Promise<Millis | undefined> => {
    // While restored mail waits, those due may have been sent before.
    if (readFence(app.db)) return app.clock.now() + RESTORED_CHECK_INTERVAL_MS
    const notices = sql(app.db).due.all(BATCH_SIZE)
    for (const notice of notices) {
      if (ending.aborted) return undefined
      await sendNotice(app, notice)
      await app.commit.writeFromReserve((tx) => sql(tx.db).done.run(notice.findingId))
    }
    return notices.length === BATCH_SIZE ? app.clock.now() : undefined
  }
  const { clock, log, sendingChanged } = app
  return startDueLoop({ name: 'notices of pauses', clock, log, wokenBy: [sendingChanged], step })
}

/** Idempotency key: one mail per pause and address. */
export const noticeKey = (findingId: number, to: string): string => `pause ${findingId} ${to}`

const sendNotice = (app: App, notice: Notice): Promise<unknown> =>
  sendSystemMailToEach(
    app,
    listAddresses(app.db, notice),
    { about: [notice.accountId], subject: 'Sending is paused on your account', text: formatText(notice) },
    (to) => noticeKey(notice.findingId, to),
  )

function listAddresses(db: Database, { accountId, parentId, email, parentEmail }: Notice): string[] {
  if (email === null) return []
  const parents = parentId === null ? [] : listOwnerEmails(db, parentId)
  return [email, ...listOwnerEmails(db, accountId), ...(parentEmail === null ? [] : [parentEmail]), ...parents]
}

const formatText = ({ name, reason, at }: Notice): string =>
  [
    `Sending was paused on the account ${name} on ${isoTime(at).slice(0, 10)} at ${isoTime(at).slice(11, 16)} UTC.`,
    `Reason: ${reason}`,
    'Until sending is resumed, new emails are rejected with the error "account_paused". Emails accepted before are held and sent when sending is resumed.',
    'Receiving, reading and your data are not affected. To resume sending, contact the operator of the service.',
  ].join('\n\n')
