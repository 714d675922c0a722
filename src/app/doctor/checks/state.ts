/**
 * @module Checks of the state of the service: readiness, queue, received mail, backups, what waits as restored, operator
 * mail. What is wrong with a domain or a webhook is mailed to the owners of its account.
 */
import type { Database } from 'bun:sqlite'
import { findReportGap, listReportAlerts } from '#features/receiving/domain-reports/alerts.ts'
import { listQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { findRateAlerts } from '#features/reporting/reputation/report.ts'
import { listReceiverProblems } from '#features/reporting/sender-rules/receiver-data.ts'
import { listAlerts } from '#features/sending/delivery/control/operator-providers.ts'
import { describeLanes, readLanes } from '#features/sending/delivery/control/queue-view.ts'
import { findContentProblem } from '#features/sending/delivery/verdict/held-mail.ts'
import { createReadiness } from '#features/setup/health/readiness.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { hours } from '#platform/units.ts'
import { findBackupProblems, isBackupScheduled, readBackupState } from '../../backup/state.ts'
import { formatCount, toPrintable } from '../../cli/output.ts'
import { findFenceProblem } from '../../fence/release.ts'
import {
  type DoctorContext,
  type Found,
  failure,
  failWithAdvice,
  type NewFinding,
  ok,
  skipped,
  warning,
  withData,
} from '../context.ts'

const sql = prepareStatements((db) => ({
  verified: db.prepare<{ n: number }, []>(
    'SELECT COUNT(*) AS n FROM domains WHERE deleted_at IS NULL AND (verified_at IS NOT NULL OR records_lost_at IS NOT NULL)',
  ),
}))

const MAX_ALERTS = 20
const MAX_TEXT_LENGTH = 200

const plain = (text: string): string => truncate(toPrintable(text), MAX_TEXT_LENGTH)

export async function checkService({ config, service }: DoctorContext): Promise<Found> {
  if (!service && config.replicate !== '') return skipped('Not checked: this node does not lead, or does not run.')
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
  const findings: NewFinding[] = []
  const contentProblem = findContentProblem(db)
  if (contentProblem !== undefined) findings.push(failWithAdvice(contentProblem, 'content'))
  const overdue = lanes.filter(({ firstAt }) => firstAt < now - MAX_OVERDUE_MS)
  const [oldest] = overdue
  if (oldest) {
    const [reason = ''] = await describeLanes({ db, clock, config, resolver }, service?.delivery?.scheduler, [oldest])
    findings.push(
      warning(
        `Mail of ${formatCount(overdue.length, 'destination')} has been due for more than an hour. The oldest, due ${formatRelativeTime(oldest.firstAt, now)}: ${plain(oldest.lane)}, ${plain(reason)}.`,
        '`tassis queue` shows why each waits; it also retries, releases or bounces mail.',
        'overdue',
      ),
    )
  }
  return findings.length > 0 ? findings : ok(`${formatCount(waiting, 'recipient')} wait in the queue, none too long.`)
})

export const checkReceived = withData(({ config, db, clock }) => {
  if (config.inboundAddr === '' && config.delivery !== 'capture')
    return warning(
      'TASSIS_INBOUND_ADDR is not set, so bounces and complaints that arrive by mail are lost.',
      'Set TASSIS_INBOUND_ADDR to 0.0.0.0:25, and open port 25 in the firewall.',
    )
  const [oldest] = listQueueEntries(db, { limit: 1, offset: 0 })
  const now = clock.now()
  return oldest && oldest.receivedAt < now - MAX_OVERDUE_MS
    ? warning(
        `Received mail has not been processed for more than an hour; the oldest came ${formatRelativeTime(oldest.receivedAt, now)}.`,
        'Look at the log of the service; `tassis queue` shows how much waits.',
      )
    : ok('Received mail is processed.')
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
  const alerts = listAlerts(service.delivery.scheduler).slice(0, MAX_ALERTS)
  const found = alerts.map(({ provider, source, rule, reply, advice }) => {
    const from = source === null ? '' : ` from ${source}`
    return warning(
      `${plain(provider)} rejects or defers mail${from}, by rule ${rule}: ${plain(reply)}`,
      advice,
      `${plain(provider)} ${source ?? ''} ${rule}`,
    )
  })
  const now = service.app.clock.now()
  for (const { message, advice, provider, source, kind } of findRateAlerts(service.app.db, now).slice(0, MAX_ALERTS))
    found.push(warning(plain(message), advice, `${provider} ${source} ${kind} rate`))
  return found.length > 0 ? found : ok('No receiver blames our addresses or set-up.')
}

/** What receivers report about the mail of domains, and about TLS sessions with this server. */
export const checkDomainReports = withData(({ config, db, clock }) => {
  const alerts = listReportAlerts(db, null, clock.now(), MAX_ALERTS).map(({ domain, cause, text }) =>
    warning(
      toPrintable(text),
      'The page of the domain and `GET /v1/domains/{id}/reports` show more.',
      `${domain} ${plain(cause)}`,
    ),
  )
  const silent = listReceiverProblems({ config, db }).map(({ receiver, message }) =>
    warning(plain(message), 'Look at its key and at docs/sender-rules.md.', receiver),
  )
  const gap = findReportGap(db, clock.now())
  const found = [...alerts, ...silent]
  if (gap !== undefined)
    found.push(warning(gap, 'docs/receiving.md, Reports: their address in the DMARC record, and what is counted.'))
  return found.length > 0 ? found : ok('No DMARC or TLS report of the last week shows a problem.')
})

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
