/**
 * @module Sends the daily TLS reports (RFC 8460) to the domains that ask for them, by mail or by https, and deletes the
 * counts of which they were made. A report that cannot be sent is tried again hourly, and dropped after two days.
 */
import type { App } from '#features/core/app/app.ts'
import { readFence } from '#features/core/fence/restored.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { days, seconds } from '#platform/units.ts'
import type { ReportDestination } from '#protocols/aggregate-reports/tls-record.ts'
import { lookUpDestinations, toDay } from './session-counts.ts'

/** A report is dropped when its day ended this long ago. */
const MAX_AGE_DAYS = 2
const CONCURRENT_REPORTS = 8
/** Of one run to a destination; the records of thousands of domains may name somebody else's address. */
const MAX_REPORTS_PER_DESTINATION = 100
const POST_TIMEOUT_MS = seconds(20)

const sql = prepareStatements((db) => ({
  due: db.prepare<{ day: number; domain: string }, [number]>(
    'SELECT DISTINCT day, domain FROM tls_session_counts WHERE day < ? ORDER BY day, domain',
  ),
  counts: db.prepare<{ policy: string; failure: string; sessions: number }, [number, string]>(
    'SELECT policy, failure, sessions FROM tls_session_counts WHERE day = ? AND domain = ? ORDER BY policy, failure',
  ),
  remove: db.prepare<null, [number, string]>('DELETE FROM tls_session_counts WHERE day = ? AND domain = ?'),
  purge: db.prepare<null, [number, number]>('DELETE FROM tls_session_counts WHERE day < ? OR day > ?'),
}))

export async function sendTlsReports(app: App, ending: AbortSignal): Promise<void> {
  const today = toDay(app.clock.now())
  // Days that have not begun were counted under a wrong clock.
  await app.commit.write((tx) => sql(tx.db).purge.run(today - MAX_AGE_DAYS, today + 1))
  // While restored mail waits, those due may have been sent before.
  if (readFence(app.db)) return
  const due = sql(app.db).due.all(today)
  const sent = new Map<string, number>()
  for (let from = 0; from < due.length && !ending.aborted; from += CONCURRENT_REPORTS)
    await Promise.all(due.slice(from, from + CONCURRENT_REPORTS).map((report) => sendReport(app, report, sent)))
}

interface ReportKey {
  readonly day: number
  readonly domain: string
}

/** Sends a report to the destinations of its domain; one of them is enough. Never rejects, except when storage fails. */
async function sendReport(app: App, key: ReportKey, sent: Map<string, number>): Promise<void> {
  const { day, domain } = key
  const destinations = await lookUpDestinations(app.resolver, domain)
  if (destinations === 'unknown') return
  const report = buildReport(app, key)
  const packed = Bun.gzipSync(new TextEncoder().encode(JSON.stringify(report)))
  let isDone = destinations.length === 0
  for (const destination of destinations) {
    const name = destination.kind === 'mail' ? destination.address.toLowerCase() : new URL(destination.url).host
    const count = sent.get(name) ?? 0
    sent.set(name, count + 1)
    if (count >= MAX_REPORTS_PER_DESTINATION) {
      isDone = true
      continue
    }
    const problem = await sendTo(app, destination, { ...key, id: report['report-id'], packed })
    if (problem === undefined) isDone = true
    else app.log.info({ domain, day, destination, reason: problem }, 'TLS report not sent')
  }
  if (isDone) await app.commit.write((tx) => sql(tx.db).remove.run(day, domain))
}

/** RFC 8460 §4.4. */
function buildReport({ db, config: { hostname } }: App, { day, domain }: ReportKey) {
  const date = new Date(days(day)).toISOString().slice(0, 10)
  const policies = Map.groupBy(sql(db).counts.all(day, domain), ({ policy }) => policy)
  const sum = (counts: readonly { readonly sessions: number }[]) => counts.reduce((n, { sessions }) => n + sessions, 0)
  return {
    'organization-name': hostname,
    'date-range': { 'start-datetime': `${date}T00:00:00Z`, 'end-datetime': `${date}T23:59:59Z` },
    'contact-info': `postmaster@${hostname}`,
    'report-id': `${date}.${domain}@${hostname}`,
    policies: [...policies].map(([policy, counts]) => {
      const failed = counts.filter(({ failure }) => failure !== '')
      return {
        policy: JSON.parse(policy) as unknown,
        summary: {
          'total-successful-session-count': sum(counts) - sum(failed),
          'total-failure-session-count': sum(failed),
        },
        ...(failed.length > 0 && {
          'failure-details': failed.map(({ failure, sessions }) => ({
            ...(JSON.parse(failure) as object),
            'failed-session-count': sessions,
          })),
        }),
      }
    }),
  }
}

interface PackedReport extends ReportKey {
  readonly id: string
  /** Gzip of the JSON. */
  readonly packed: Uint8Array
}

const REPORT_TYPE = 'application/tlsrpt+gzip'

/** Returns why the report was not sent, in words; undefined when it was. */
async function sendTo(app: App, destination: ReportDestination, report: PackedReport): Promise<string | undefined> {
  if (destination.kind === 'mail') return mailReport(app, destination.address, report)
  const outcome = await app.fetch.post(destination.url, {
    headers: { 'content-type': REPORT_TYPE },
    body: report.packed,
    timeoutMs: POST_TIMEOUT_MS,
    maxResponseBytes: 1024,
  })
  if (outcome.kind === 'failed') return outcome.reason
  return outcome.status >= 200 && outcome.status < 300 ? undefined : `The server answered with ${outcome.status}.`
}

/** RFC 8460 §5.3. */
async function mailReport(
  app: App,
  to: string,
  { day, domain, id, packed }: PackedReport,
): Promise<string | undefined> {
  const { hostname } = app.config
  const begin = days(day) / 1000
  const isAccepted = await sendSystemMail(
    app,
    {
      to: [to],
      subject: `Report Domain: ${domain} Submitter: ${hostname} Report-ID: <${id}>`,
      text: `This is the daily report about TLS between ${hostname} and the mail servers of ${domain} (RFC 8460).\n`,
      headers: { 'TLS-Report-Domain': domain, 'TLS-Report-Submitter': hostname },
      attachments: [
        {
          filename: `${hostname}!${domain}!${begin}!${begin + days(1) / 1000 - 1}.json.gz`,
          contentType: REPORT_TYPE,
          content: packed,
        },
      ],
      reportType: 'tlsrpt',
      about: [],
    },
    (tx) => sql(tx.db).remove.run(day, domain),
  )
  return isAccepted ? undefined : 'The mail could not be sent; the log says why.'
}
