/**
 * @module Checks of the state of the service: readiness, queue, received mail, domains, webhooks, backups, what waits as
 * restored, operator mail.
 */
import type { Database } from 'bun:sqlite'
import { listQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { listAlerts } from '#features/sending/delivery/control/operator-providers.ts'
import { describeLanes, readLanes } from '#features/sending/delivery/control/queue-view.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { hours } from '#platform/units.ts'
import { findBackupProblems, isBackupScheduled, readBackupState } from '../../backup/state.ts'
import { formatCount, toPrintable } from '../../cli/output.ts'
import { findFenceProblem } from '../../fence/release.ts'
import { type DoctorContext, type Found, failure, type NewFinding, ok, skipped, warning, withData } from '../context.ts'

interface LostDomain {
  readonly domain: string
  readonly account: string
  readonly lostAt: number
  readonly isVerified: number
}

interface DeactivatedWebhook {
  readonly uuid: UuidBytes
  readonly account: string
  readonly url: string
  readonly since: number | null
}

const sql = prepareStatements((db) => ({
  lostDomains: db.prepare<LostDomain, [number]>(
    `SELECT domain, accounts.name AS account, records_lost_at AS lostAt, verified_at IS NOT NULL AS isVerified
     FROM domains JOIN accounts ON accounts.id = account_id
     WHERE records_lost_at IS NOT NULL AND domains.deleted_at IS NULL AND accounts.deleted_at IS NULL ORDER BY domains.id LIMIT ?`,
  ),
  deactivated: db.prepare<DeactivatedWebhook, [number]>(
    `SELECT webhooks.uuid, accounts.name AS account, url, last_failure_at AS since
     FROM webhooks JOIN accounts ON accounts.id = account_id
     WHERE off_by_failures = 1 AND webhooks.deleted_at IS NULL AND accounts.deleted_at IS NULL ORDER BY webhooks.id LIMIT ?`,
  ),
  unchecked: db.prepare<{ domain: string; account: string }, [number]>(
    `SELECT domain, accounts.name AS account FROM domains JOIN accounts ON accounts.id = account_id
     WHERE verified_at IS NOT NULL AND checked_at IS NULL AND domains.deleted_at IS NULL AND accounts.deleted_at IS NULL ORDER BY domains.id LIMIT ?`,
  ),
  verified: db.prepare<{ n: number }, []>(
    'SELECT COUNT(*) AS n FROM domains WHERE deleted_at IS NULL AND (verified_at IS NOT NULL OR records_lost_at IS NOT NULL)',
  ),
}))

/** Things of one kind that are named; further ones are only mentioned. */
const MAX_NAMED = 20
const MAX_TEXT_LENGTH = 200

const plain = (text: string): string => truncate(toPrintable(text), MAX_TEXT_LENGTH)

/** Names the first findings, in an order that does not change, and mentions the rest. */
function limit(found: readonly NewFinding[], noun: string, fix: string): NewFinding[] {
  return found.length <= MAX_NAMED
    ? [...found]
    : [...found.slice(0, MAX_NAMED), warning(`More than ${MAX_NAMED} ${noun}.`, fix, 'others')]
}

export async function checkService({ service }: DoctorContext): Promise<Found> {
  if (!service) return warning('The service is not running.', 'Start it: `systemctl start tassis`, or `tassis serve`.')
  const problems = await createReadiness(service.app, () => false)()
  if (problems.length > 0)
    return problems.map(({ field, message }) =>
      failure(`The service takes no mail: the ${field} ${message}.`, 'Look at its log and at `tassis disk`.', field),
    )
  return service.delivery
    ? ok('The service takes and delivers mail.')
    : failure('The service delivers no mail.', 'Look at its log, and restart it.')
}

/** Mail that has been due for longer is not delivered for some reason that is not the receiver's. */
const MAX_OVERDUE_MS = hours(1)

export const checkQueue = withData(async ({ db, clock, config, resolver, service }) => {
  const lanes = await readLanes({ db })
  const now = clock.now()
  const waiting = lanes.reduce((sum, lane) => sum + lane.waiting, 0)
  const overdue = lanes.filter(({ firstAt }) => firstAt < now - MAX_OVERDUE_MS)
  const [oldest] = overdue
  if (!oldest) return ok(`${formatCount(waiting, 'recipient')} wait in the queue, none too long.`)
  const [reason = ''] = await describeLanes({ db, clock, config, resolver }, service?.delivery?.scheduler, [oldest])
  return warning(
    `Mail of ${formatCount(overdue.length, 'destination')} has been due for more than an hour. The oldest, due ${formatRelativeTime(oldest.firstAt, now)}: ${plain(oldest.lane)}, ${plain(reason)}.`,
    '`tassis queue` shows why each waits; it also retries, releases or bounces mail.',
    'overdue',
  )
})

export const checkReceived = withData(({ db, clock }) => {
  const [oldest] = listQueueEntries(db, { limit: 1, offset: 0 })
  const now = clock.now()
  return oldest && oldest.receivedAt < now - MAX_OVERDUE_MS
    ? warning(
        `Received mail has not been processed for more than an hour; the oldest came ${formatRelativeTime(oldest.receivedAt, now)}.`,
        'Look at the log of the service; `tassis queue` shows how much waits.',
      )
    : ok('Received mail is processed.')
})

/** Domains that lack DNS records, or for which nobody looked. */
export const checkDomains = withData(({ db, config }) => {
  const found = sql(db)
    .lostDomains.all(MAX_NAMED + 1)
    .map(({ domain, account, lostAt, isVerified }) => {
      const since = isoTime(lostAt).slice(0, 10)
      const fix = `\`tassis domains records ${domain}\` shows what to publish. The owners of the account have been mailed.`
      return isVerified === 1
        ? warning(`The domain ${domain} of ${plain(account)} has lacked DNS records since ${since}.`, fix, domain)
        : failure(
            `The domain ${domain} of ${plain(account)} has lacked DNS records since ${since}, and its mail is refused.`,
            fix,
            domain,
          )
    })
  // In this mode no mail leaves the machine, so DNS does not matter.
  const unchecked = (config.delivery === 'capture' ? [] : sql(db).unchecked.all(MAX_NAMED + 1)).map(
    ({ domain, account }) =>
      warning(
        `The domain ${domain} of ${plain(account)} was marked verified without a DNS check, so receivers may reject its mail.`,
        `\`tassis domains records ${domain}\` shows what to publish, \`tassis domains verify ${domain}\` looks it up.`,
        domain,
      ),
  )
  return found.length + unchecked.length > 0
    ? limit([...found, ...unchecked], 'domains lack DNS records', '`tassis domains list` shows all.')
    : ok('No domain has lost its DNS records.')
})

export const checkWebhooks = withData(({ db }) => {
  const found = sql(db)
    .deactivated.all(MAX_NAMED + 1)
    .map(({ uuid, account, url, since }) => {
      const id = formatUuid(uuid)
      const time = since === null ? '' : ` on ${isoTime(since).slice(0, 10)} at ${isoTime(since).slice(11, 16)} UTC`
      return warning(
        // Path and query of a URL may contain a secret.
        `A webhook of ${plain(account)} to ${new URL(url).host} was deactivated by failures${time}.`,
        `\`tassis webhooks deliveries ${id} --status undeliverable\` shows why. When its server responds again, its users activate it again, and replay what it missed.`,
        id,
      )
    })
  return found.length > 0
    ? limit(found, 'webhooks are deactivated', '`tassis webhooks list` shows all.')
    : ok('No webhook is deactivated by failures.')
})

/** Scheduled backups that failed, are late or found problems. */
export const checkBackups = withData(({ config, clock }) => {
  if (!isBackupScheduled(config))
    return warning(
      'No backups are scheduled.',
      'Set TASSIS_BACKUP_DIR to a folder on another disk, or TASSIS_BACKUP_S3_URL (docs/backup.md); ignore this if something else makes copies.',
    )
  const problems = findBackupProblems(config, clock.now())
  if (problems.length > 0)
    return warning(problems.join(' '), 'Mend the cause, then run `tassis backup`; docs/backup.md.')
  const { succeeded_at: succeededAt } = readBackupState(config.dataDir)
  return ok(
    succeededAt === undefined
      ? 'None was written yet: the service writes the first a few minutes after its start.'
      : `The last is of ${succeededAt}.`,
  )
})

export const checkRestored = withData(({ db }) => {
  const problem = findFenceProblem({ db })
  return problem ? warning(problem.message, problem.fix) : ok('Nothing waits as restored.')
})

/** Replies of receivers that blame our addresses or set-up. */
export function checkDeliveryAlerts({ service }: DoctorContext): Found {
  if (!service?.delivery) return skipped('Not known: the service is not running.')
  const found = listAlerts(service.delivery.scheduler).map(({ provider, source, rule, reply, advice }) => {
    const from = source === null ? '' : ` from ${source}`
    return warning(
      `${plain(provider)} rejects or defers mail${from}, by rule ${rule}: ${plain(reply)}`,
      advice,
      `${plain(provider)} ${source ?? ''} ${rule}`,
    )
  })
  return found.length > 0
    ? limit(found, 'alerts', '`tassis providers` shows all.')
    : ok('No receiver blames our addresses or set-up.')
}

/** Whether somebody is told when a check turns bad. */
export function checkOperatorMail({ config, db }: DoctorContext): Found {
  if (config.delivery === 'capture') return skipped('Not checked: no mail leaves this machine.')
  if (config.operatorEmail === '')
    return warning(
      'TASSIS_OPERATOR_EMAIL is not set, so nobody gets a mail when one of these checks turns bad.',
      'Set it to an address that you read, best one whose mail does not depend on this server.',
    )
  if (db && !hasSender(db))
    return warning(
      `No domain is verified, so no mail can be sent to ${config.operatorEmail}.`,
      'Verify a domain: `tassis domains records` shows what to publish.',
    )
  return ok(`What turns bad is mailed to ${config.operatorEmail}.`)
}

const hasSender = (db: Database): boolean => (sql(db).verified.get()?.n ?? 0) > 0
