/**
 * @module Mails the users of an account whose domains got new DKIM keys by automatic rotation: which records to publish.
 * One mail lists all domains of an account. There is no reminder, because the present keys sign until the records are
 * there.
 */
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMailAndMark } from '#features/sending/system-mail/send.ts'
import {
  listAccountsWithRotationNotices,
  listRotationNotices,
  type RotationNotice,
  setRotationNoticeDueAt,
} from '#features/setup/domains/notices.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { hours, minutes } from '#platform/units.ts'
import { findMailedAccount, type MailedAccount } from './account.ts'

const CHECK_INTERVAL_MS = minutes(1)
/** Delay before the next attempt when no one could be mailed. */
const RETRY_DELAY_MS = hours(24)
const BATCH_SIZE = 500
/** Maximum number of domains whose records are in one mail; the rest are counted. */
const MAX_NAMED = 20

/** Starts the loop, which checks every minute. */
export function startRotationNotices(app: App): DueLoop {
  const step = async (ending: AbortSignal): Promise<Millis> => {
    const now = app.clock.now()
    // While restored mail waits, those due may have been sent before.
    if (readFence(app.db)) return now + CHECK_INTERVAL_MS
    const due = listAccountsWithRotationNotices(app.db, now, BATCH_SIZE)
    for (const accountId of due) {
      if (ending.aborted) break
      const notices = listRotationNotices(app, accountId, BATCH_SIZE)
      const isSent = await sendNotice(app, accountId, notices)
      if (!isSent) await app.commit.writeFromReserve((tx) => setRotationNoticeDueAt(tx, notices, now + RETRY_DELAY_MS))
    }
    return app.clock.now() + CHECK_INTERVAL_MS
  }
  return startDueLoop({ name: 'notices of new DKIM keys', clock: app.clock, log: app.log, step })
}

/** Mails about new keys and marks it; false when no one could be mailed. */
async function sendNotice(app: App, accountId: number, notices: readonly RotationNotice[]): Promise<boolean> {
  const account = findMailedAccount(app.db, accountId)
  const markDone = (tx: Tx) => setRotationNoticeDueAt(tx, notices, null)
  if (!account) {
    // The account was closed.
    await app.commit.writeFromReserve(markDone)
    return true
  }
  const isSent = await sendSystemMailAndMark(
    app,
    [account.email, ...listOwnerEmails(app.db, accountId)],
    { about: [accountId], subject: formatSubject(notices), text: formatText(account, notices) },
    markDone,
  )
  if (!isSent)
    app.log.error(
      {
        account: findAccountLogId(app.db, accountId),
        accountName: account.name,
        domains: notices.slice(0, MAX_NAMED).map(({ domain }) => domain),
        domainCount: notices.length,
      },
      'no one could be mailed about the records of new DKIM keys; the next attempt is in 24 hours',
    )
  return isSent
}

const formatSubject = ([first, ...more]: readonly RotationNotice[]): string =>
  `New DKIM records to publish for ${more.length === 0 ? first?.domain : `${more.length + 1} domains`}`

function formatText({ name }: MailedAccount, notices: readonly RotationNotice[]): string {
  const more = notices.length - MAX_NAMED
  return [
    `This is about domains of the account ${name}.`,
    'The DKIM keys of the following domains have reached the age at which this service replaces them. Please publish these TXT records in DNS, beside the present ones:',
    ...notices.slice(0, MAX_NAMED).map(formatRecords),
    ...(more > 0 ? [`And those of ${more} more domains.`] : []),
    'There is no deadline, and nothing breaks without them: mail is signed with the present keys until a check finds the new records. The service checks automatically, every few hours; POST /v1/domains/{id}/verify checks immediately.',
    'Leave the present records in DNS for seven days after that, for mail that is still on its way. GET /v1/domains/{id} (dns_records, former_dkim_selectors) and `tassis domains records` on the server show all records, and when the former ones may be removed.',
  ].join('\n\n')
}

const formatRecords = ({ domain, records }: RotationNotice): string =>
  [domain, ...records.map(({ host, value }) => `\n  Name:  ${host}\n  Value: ${value}`)].join('\n')
