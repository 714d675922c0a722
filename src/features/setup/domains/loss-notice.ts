/**
 * @module The mail to owners about DNS records that their verified domains lost: immediately, then daily for the 72
 * hours in which the domains still send, at the end of that time, and when the records are back. A domain is reported as
 * lost at most once in 24 hours, however often its records change. One mail lists all domains of an account.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { cancelNotice, type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import { type Domain, findDomainById, type LossNotice } from './domains.ts'
import { findCoveringDomain } from './sending.ts'
import { getSendsUntil, listLostRecords, type VerificationChange } from './verification-state.ts'

const sql = prepareStatements((db) => ({
  setReported: db.prepare(
    'UPDATE domains SET loss_notice = ?, loss_notice_sent_at = coalesce(?, loss_notice_sent_at) WHERE id = ?',
  ),
}))

const KIND = 'domain_records'
const REPEAT_INTERVAL_MS = hours(24)
/** Maximum number of domains of each kind listed in one mail; the rest are counted. */
const MAX_NAMED = 20

/**
 * Schedules or cancels the mail about a change of a domain's verification.
 * @param before the domain before the change
 */
export function scheduleLossNotice(
  app: App,
  tx: Tx,
  before: Domain,
  change: Exclude<VerificationChange, 'verified'>,
): void {
  const { id: topic, accountId, lossNotice, lossNoticeSentAt } = before
  const now = app.clock.now()
  if (change === 'records_restored' && lossNotice !== 'lost' && lossNotice !== 'ended') {
    cancelNotice(tx, KIND, topic)
    return
  }
  // At most a day ahead, because the clock may have been ahead when the last mail was sent.
  const repeatedAt = Math.min((lossNoticeSentAt ?? 0) + REPEAT_INTERVAL_MS, now + REPEAT_INTERVAL_MS)
  const dueAt = change === 'records_lost' ? Math.max(now, repeatedAt) : now
  scheduleNotice(app, tx, { accountId, kind: KIND, topic, dueAt })
}

export const LOSS_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: hours(1),
  compose(app, { name }, notices) {
    const domains = notices.flatMap(({ topic }) => findDomainById(app.db, topic) ?? [])
    if (domains.length === 0) return undefined
    return {
      subject: formatSubject(domains),
      text: formatText(app.db, name, domains),
      onSent: (tx, { topic }) => recordSent(app, tx, topic),
    }
  },
}

const toLossNotice = ({ recordsLostAt, verifiedAt }: Domain): LossNotice =>
  recordsLostAt === null ? 'restored' : verifiedAt === null ? 'ended' : 'lost'

/** Records what was reported, and schedules the next mail. */
function recordSent(app: App, tx: Tx, topic: number): void {
  const domain = findDomainById(tx.db, topic)
  if (!domain) return
  const now = app.clock.now()
  const isLost = toLossNotice(domain) === 'lost'
  sql(tx.db).setReported.run(toLossNotice(domain), isLost ? now : null, topic)
  // On the last day, the mail about the end of sending replaces a further reminder.
  const dueAt = now + REPEAT_INTERVAL_MS
  if (isLost && dueAt < (getSendsUntil(domain) ?? 0))
    scheduleNotice(app, tx, { accountId: domain.accountId, kind: KIND, topic, dueAt })
}

function formatSubject(domains: readonly Domain[]): string {
  const worst = (['ended', 'lost', 'restored'] as const).find((notice) =>
    domains.some((domain) => toLossNotice(domain) === notice),
  )
  const about = domains.filter((domain) => toLossNotice(domain) === worst)
  const name = about.length === 1 ? (about[0]?.domain ?? '') : `${about.length} domains`
  const are = about.length === 1 ? 'is' : 'are'
  if (worst === 'ended') return `Mail from ${name} ${are} refused: DNS records are missing`
  return worst === 'lost' ? `DNS records of ${name} are missing` : `The DNS records of ${name} are back`
}

function formatText(db: Database, account: string, domains: readonly Domain[]): string {
  const section = (notice: LossNotice, title: string, after: string): string[] => {
    const about = domains.filter((domain) => toLossNotice(domain) === notice)
    if (about.length === 0) return []
    const more = about.length - MAX_NAMED
    const lines = about.slice(0, MAX_NAMED).map((domain) => `- ${describeDomain(db, domain)}`)
    return [title, [...lines, ...(more > 0 ? [`- and ${more} more`] : [])].join('\n'), after]
  }
  return [
    `This is about domains of the account ${account}.`,
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
    ...(domains.some(({ recordsLostAt }) => recordsLostAt !== null)
      ? [
          'To see which records to publish, call GET /v1/domains/{id} (dns_records) or run `tassis domains records` on the server. The service checks automatically, every few minutes at first and every hour after a day; POST /v1/domains/{id}/verify checks immediately.',
        ]
      : []),
  ].join('\n\n')
}

function describeDomain(db: Database, domain: Domain): string {
  const sendsUntil = getSendsUntil(domain)
  if (domain.recordsLostAt === null || sendsUntil === null) return domain.domain
  const coveredBy = findCoveringDomain(db, { ...domain, verifiedAt: null })
  const end = toLossNotice(domain) === 'lost' ? `, sends until ${formatUtcMinute(sendsUntil)}` : ''
  const until = coveredBy === undefined ? end : `${end}; its mail is still sent under ${coveredBy}`
  return `${domain.domain}: ${listLostRecords(domain).join(', ')} missing since ${formatUtcMinute(domain.recordsLostAt)}${until}`
}

/** `2026-11-22 16:40 UTC` */
const formatUtcMinute = (at: Millis): string => `${isoTime(at).slice(0, 16).replace('T', ' ')} UTC`
