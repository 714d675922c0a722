/**
 * @module Mails the users of an account about DNS records that its verified domains lost: immediately, then daily for
 * the 72 hours in which the domains still send, at the end of that time, and when the records are back. One mail
 * lists all domains of an account that are due; an account gets at most one mail an hour. domains/notices stores
 * what is due.
 */
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { listOwnerEmails } from '#features/people/team/users.ts'
import { sendSystemMailAndMark } from '#features/sending/system-mail/send.ts'
import type { LossNotice } from '#features/setup/domains/domains.ts'
import {
  type DueNotice,
  listAccountsWithDueNotices,
  listDueNotices,
  markNoticeSent,
  postponeNotices,
} from '#features/setup/domains/notices.ts'
import type { Millis } from '#platform/clock.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { hours, minutes } from '#platform/units.ts'
import { findMailedAccount, type MailedAccount } from './account.ts'

/** Minimum time between two mails to one account. */
const ACCOUNT_INTERVAL_MS = hours(1)
/** Delay before the next attempt when no one could be mailed. */
const RETRY_DELAY_MS = hours(24)
const CHECK_INTERVAL_MS = minutes(1)
const BATCH_SIZE = 500
/** Maximum number of domains of each kind listed in one mail; the rest are counted. */
const MAX_NAMED = 20

/** Starts the loop, which checks every minute. */
export function startLossNotices(app: App): DueLoop {
  /** Time of the last mail, for accounts mailed within the last hour. */
  const mailedAt = new Map<number, Millis>()
  const step = async (ending: AbortSignal): Promise<Millis> => {
    const now = app.clock.now()
    // While restored mail waits, those due may have been sent before.
    if (readFence(app.db)) return now + CHECK_INTERVAL_MS
    for (const [accountId, at] of mailedAt) if (Math.abs(now - at) >= ACCOUNT_INTERVAL_MS) mailedAt.delete(accountId)
    const due = listAccountsWithDueNotices(app.db, now, BATCH_SIZE)
    for (const accountId of due) {
      if (ending.aborted) break
      const last = mailedAt.get(accountId)
      if (last !== undefined) {
        await postpone(app, accountId, last + ACCOUNT_INTERVAL_MS, now)
      } else if (await sendNotice(app, accountId, now)) mailedAt.set(accountId, now)
    }
    return due.length > 0 ? app.clock.now() : app.clock.now() + CHECK_INTERVAL_MS
  }
  return startDueLoop({ name: 'notices of lost DNS records', clock: app.clock, log: app.log, step })
}

const postpone = (app: App, accountId: number, until: Millis | null, now: Millis): Promise<unknown> =>
  app.commit.writeFromReserve((tx) => postponeNotices(tx, accountId, until, now))

/** Mails what is due for an account; false when nothing was due, or no one could be mailed. */
async function sendNotice(app: App, accountId: number, now: Millis): Promise<boolean> {
  const account = findMailedAccount(app.db, accountId)
  const rows = account ? listDueNotices(app.db, accountId, now, BATCH_SIZE) : []
  if (!account || rows.length === 0) {
    // The account was closed, or its domains were deleted.
    await postpone(app, accountId, null, now)
    return false
  }
  const lost = rows.filter((row) => row.notice === 'lost')
  if (lost.length > 0)
    app.log.warn(
      {
        account: findAccountLogId(app.db, accountId),
        accountName: account.name,
        domains: lost.slice(0, MAX_NAMED).map(describeDomain),
        domainCount: lost.length,
      },
      'verified domains lack DNS records; their mail is refused once they have lacked them for 72 hours',
    )
  const isSent = await sendSystemMailAndMark(
    app,
    [account.email, ...listOwnerEmails(app.db, accountId)],
    { about: [accountId], subject: formatSubject(rows), text: formatText(account, rows) },
    (tx) => {
      for (const row of rows) markNoticeSent(tx, row, now)
    },
  )
  if (!isSent) {
    app.log.error(
      {
        account: findAccountLogId(app.db, accountId),
        accountName: account.name,
        domains: rows.slice(0, MAX_NAMED).map(describeDomain),
        domainCount: rows.length,
      },
      'no one could be mailed about DNS records of verified domains; the next attempt is in 24 hours',
    )
    await postpone(app, accountId, now + RETRY_DELAY_MS, now)
  }
  return isSent
}

function formatSubject(rows: readonly DueNotice[]): string {
  const worst = (['ended', 'lost', 'restored'] as const).find((notice) => rows.some((row) => row.notice === notice))
  const about = rows.filter((row) => row.notice === worst)
  const name = about.length === 1 ? (about[0]?.domain ?? '') : `${about.length} domains`
  const are = about.length === 1 ? 'is' : 'are'
  if (worst === 'ended') return `Mail from ${name} ${are} refused: DNS records are missing`
  return worst === 'lost' ? `DNS records of ${name} are missing` : `The DNS records of ${name} are back`
}

function formatText({ name }: MailedAccount, rows: readonly DueNotice[]): string {
  const section = (notice: LossNotice, title: string, after: string): string[] => {
    const about = rows.filter((row) => row.notice === notice)
    if (about.length === 0) return []
    const more = about.length - MAX_NAMED
    const lines = about.slice(0, MAX_NAMED).map((row) => `- ${describeDomain(row)}`)
    return [title, [...lines, ...(more > 0 ? [`- and ${more} more`] : [])].join('\n'), after]
  }
  return [
    `This is about domains of the account ${name}.`,
    ...section(
      'ended',
      'The following domains have lacked DNS records for 72 hours. Mail to them is refused. New emails from them are refused with the error "domain_not_verified", unless another domain covers them:',
      'Emails that were accepted before are still sent.',
    ),
    ...section(
      'lost',
      'The following verified domains now lack DNS records that sending needs. Their mail is still sent for now, but receivers may reject it or treat it as spam:',
      'If the records are not back by then, new emails from these domains are refused with the error "domain_not_verified".',
    ),
    ...section(
      'restored',
      'The DNS records of the following domains are back. You need not do anything:',
      'Their mail is sent.',
    ),
    ...(rows.some((row) => row.notice !== 'restored')
      ? [
          'To see which records to publish, call GET /v1/domains/{id} (dns_records) or run `tassis domains records` on the server. The service checks automatically, every few minutes at first and every hour after a day; POST /v1/domains/{id}/verify checks immediately.',
        ]
      : []),
  ].join('\n\n')
}

function describeDomain({ domain, notice, lost, lostAt, sendsUntil, coveredBy }: DueNotice): string {
  if (lostAt === null || sendsUntil === null) return domain
  const end = notice === 'lost' ? `, sends until ${formatUtcMinute(sendsUntil)}` : ''
  const until = coveredBy === undefined ? end : `${end}; its mail is still sent under ${coveredBy}`
  return `${domain}: ${lost.join(', ')} missing since ${formatUtcMinute(lostAt)}${until}`
}

/** `2026-11-22 16:40 UTC` */
const formatUtcMinute = (at: Millis): string => `${isoTime(at).slice(0, 16).replace('T', ' ')} UTC`
