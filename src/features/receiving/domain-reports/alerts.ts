/**
 * @module What reports show to turn bad: mailed to the owners once for each cause, and kept for `tassis doctor` and the
 * metrics until the reports of a week no longer show it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { findDomainByName } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours } from '#platform/units.ts'
import { summariseReports } from './findings.ts'

const KIND = 'domain_reports'
/** Reports of so many days are judged together. */
const PERIOD_DAYS = 7
/** Longer than between two runs. */
const NEW_REPORT_MS = hours(3)
const MAX_ALERTS_PER_DOMAIN = 10

const sql = prepareStatements((db) => ({
  // Ids ascend with created_at.
  changed: db.prepare<{ accountId: number; domain: string }, [Millis]>(
    `SELECT DISTINCT account_id AS accountId, covered_by AS domain FROM (SELECT * FROM received_reports ORDER BY id DESC LIMIT 10000)
     WHERE created_at > ? AND counted IS NOT NULL LIMIT 500`,
  ),
  put: db.prepare(
    `INSERT INTO report_alerts (account_id, domain_id, cause, text, last_seen_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET text = excluded.text, last_seen_at = excluded.last_seen_at`,
  ),
  list: db.prepare<{ domain: string; cause: string; text: string }, [number | null, Millis, number]>(
    `SELECT domain, cause, text FROM report_alerts JOIN domains ON domains.id = domain_id
     WHERE domain_id = coalesce(?, domain_id) AND last_seen_at > ? AND deleted_at IS NULL ORDER BY report_alerts.id DESC LIMIT ?`,
  ),
}))

/** What was bad within the last days, newest first. @param domainId null: all domains */
export const listReportAlerts = (db: Database, domainId: number | null, now: Millis, limit = 1000) =>
  sql(db).list.all(domainId, now - days(PERIOD_DAYS), limit)

/** Judges the domains with new reports. */
export async function watchReports(app: App, signal: AbortSignal): Promise<void> {
  const now = app.clock.now()
  for (const { accountId, domain } of sql(app.db).changed.all(now - NEW_REPORT_MS)) {
    const found = signal.aborted ? undefined : findDomainByName(app.db, accountId, domain)
    if (!found) continue
    const { findings } = summariseReports(app.db, accountId, domain, dayOf(now) - PERIOD_DAYS, dayOf(now))
    const bad = findings.filter(({ level }) => level === 'bad').slice(0, MAX_ALERTS_PER_DOMAIN)
    const known = new Set(listReportAlerts(app.db, found.id, now).map(({ cause }) => cause))
    await app.commit.write((tx) => {
      for (const { key, text } of bad) sql(tx.db).put.run(accountId, found.id, key, text, now)
      if (bad.some(({ key }) => !known.has(key)))
        scheduleNotice(app, tx, { accountId, kind: KIND, topic: found.id, dueAt: now })
    })
  }
}

export const REPORTS_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: hours(6),
  compose({ db, clock }, { name }, notices) {
    const alerts = notices.flatMap(({ topic }) => listReportAlerts(db, topic, clock.now(), MAX_ALERTS_PER_DOMAIN))
    const [first] = alerts
    if (!first) return undefined
    const list = alerts.map(({ domain, text }) => `${domain}: ${text}`).join('\n\n')
    return {
      subject: `Reports of receivers about ${first.domain} show a problem`,
      text: `This is about domains of the account ${name}. Receivers report:\n\n${list}\n\nGET /v1/domains/{id}/reports and the page of the domain show more. There is one mail for each cause.`,
    }
  },
}
