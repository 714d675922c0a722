/**
 * @module The mails to owners about DNS records; one mail lists all domains of an account.
 *
 * - Records that verified domains lost: immediately, then daily for the 72 hours in which the domains still send, at the
 *   end of that time, and when the records are back. A domain is reported as lost at most once in 24 hours, however
 *   often its records change.
 * - Records of new DKIM keys by automatic rotation. There is no reminder, because the present keys sign until the
 *   records are there.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { cancelNotice, type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { hours, type Millis } from '#platform/units.ts'
import type { DnsRecord } from './dns-records.ts'
import { type Domain, findDomainById, type LossNotice, listDnsRecords } from './domains.ts'
import { findCoveringDomain } from './sending.ts'
import { getSendsUntil, listLostRecords, type VerificationChange } from './verification-state.ts'

const sql = prepareStatements((db) => ({
  setReported: db.prepare(
    'UPDATE domains SET loss_notice = ?, loss_notice_sent_at = coalesce(?, loss_notice_sent_at) WHERE id = ?',
  ),
}))

const KIND = 'domain_records'
const REPEAT_INTERVAL_MS = hours(24)
/** Maximum number of domains of each kind in one mail; the rest are counted. */
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
    const sections = LOSS_TEXTS.flatMap((text) => {
      const about = domains.filter((domain) => toLossNotice(domain) === text.notice)
      return about.length > 0 ? [{ ...text, about }] : []
    })
    const [worst] = sections
    if (!worst) return undefined
    const [first, second] = worst.about
    return {
      subject: second
        ? worst.toSubject(`${worst.about.length} domains`, 'are')
        : worst.toSubject(first?.domain ?? '', 'is'),
      text: [
        `This is about domains of the account ${name}.`,
        ...sections.flatMap(({ title, about, after }) => [
          title,
          listSome(about, (domain) => `- ${describeDomain(app.db, domain)}`, '- and').join('\n'),
          after,
        ]),
        ...(domains.some(({ recordsLostAt }) => recordsLostAt !== null) ? [WHAT_TO_DO] : []),
      ].join('\n\n'),
      onSent: (tx, { topic }) => recordSent(app, tx, topic),
    }
  },
}

/** The first domains as text, and how many more there are. */
const listSome = (domains: readonly Domain[], format: (domain: Domain) => string, and: string): string[] => [
  ...domains.slice(0, MAX_NAMED).map(format),
  ...(domains.length > MAX_NAMED ? [`${and} ${domains.length - MAX_NAMED} more domains.`] : []),
]

/** The worst first. */
const LOSS_TEXTS: readonly {
  readonly notice: LossNotice
  readonly toSubject: (name: string, is: 'is' | 'are') => string
  readonly title: string
  readonly after: string
}[] = [
  {
    notice: 'ended',
    toSubject: (name, is) => `Mail from ${name} ${is} refused: DNS records are missing`,
    title:
      'The following domains have lacked DNS records for 72 hours. Mail to them is refused. New emails from them are refused with the error "domain_not_verified", unless another domain covers them:',
    after: 'Emails that were accepted before are still sent.',
  },
  {
    notice: 'lost',
    toSubject: (name) => `DNS records of ${name} are missing`,
    title:
      'The following verified domains now lack DNS records that sending needs. Their mail is still sent for now, but receivers may reject it or treat it as spam:',
    after:
      'If the records are not back by then, new emails from these domains are refused with the error "domain_not_verified".',
  },
  {
    notice: 'restored',
    toSubject: (name) => `The DNS records of ${name} are back`,
    title: 'The DNS records of the following domains are back. You need not do anything:',
    after: 'Their mail is sent.',
  },
]

const WHAT_TO_DO =
  'To see which records to publish, call GET /v1/domains/{id} (dns_records) or run `tassis domains records` on the server. The service checks automatically, every few minutes at first and every hour after a day; POST /v1/domains/{id}/verify checks immediately.'

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

const ROTATION_KIND = 'dkim_rotation'
/** So that one mail has all domains of an account whose keys are equally old: each is checked once in this time. */
const ROTATION_DELAY_MS = hours(6)

/** Schedules the mail about a domain's new keys. */
export const scheduleRotationNotice = (app: App, tx: Tx, { id: topic, accountId }: Domain): void =>
  scheduleNotice(app, tx, { accountId, kind: ROTATION_KIND, topic, dueAt: app.clock.now() + ROTATION_DELAY_MS })

export const ROTATION_NOTICE: OwnerNotice = {
  kind: ROTATION_KIND,
  intervalMs: 0,
  aheadMs: ROTATION_DELAY_MS,
  compose(app, { name }, notices) {
    const domains = notices.flatMap(({ topic }) => {
      const domain = findDomainById(app.db, topic)
      // Without next keys, the new ones sign already.
      return domain?.nextDkim ? [domain] : []
    })
    const [first, ...others] = domains
    if (!first) return undefined
    return {
      subject: `New DKIM records to publish for ${others.length === 0 ? first.domain : `${domains.length} domains`}`,
      text: [
        `This is about domains of the account ${name}.`,
        'The DKIM keys of the following domains have reached the age at which this service replaces them. Please publish these TXT records in DNS, beside the present ones:',
        ...listSome(domains, (domain) => formatRecords(domain, listNextRecords(app, domain)), 'And those of'),
        'There is no deadline, and nothing breaks without them: mail is signed with the present keys until a check finds the new records. The service checks automatically, every few hours; POST /v1/domains/{id}/verify checks immediately.',
        'Leave the present records in DNS for seven days after that, for mail that is still on its way. GET /v1/domains/{id} (dns_records, former_dkim_selectors) and `tassis domains records` on the server show all records, and when the former ones may be removed.',
      ].join('\n\n'),
    }
  },
}

/** What to publish so that the next keys can sign. A domain that does not sign twice needs no second record. */
function listNextRecords(app: App, domain: Domain): DnsRecord[] {
  const { dkim_next: rsa, dkim_ed25519_next: ed25519 } = listDnsRecords(app, domain)
  return [rsa, domain.isEd25519Verified ? ed25519 : undefined].filter((record) => record !== undefined)
}

const formatRecords = ({ domain }: Domain, records: readonly DnsRecord[]): string =>
  [domain, ...records.map(({ host, value }) => `\n  Name:  ${host}\n  Value: ${value}`)].join('\n')
