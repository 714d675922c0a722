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
import { perOwner } from '#platform/per-owner.ts'
import { days, type Millis } from '#platform/units.ts'
import { summariseReports } from './findings.ts'
import { areRowsFull } from './store.ts'

const KIND = 'domain_reports'
/** Reports of so many days are judged together. */
const PERIOD_DAYS = 7
const MAX_ALERTS_PER_DOMAIN = 10

const sql = prepareStatements((db) => ({
  changed: db.prepare<{ accountId: number; domain: string; lastId: number }, [number, number]>(
    `SELECT account_id AS accountId, domain, max(id) AS lastId FROM report_rows NOT INDEXED
     WHERE id > ? AND day >= ? GROUP BY 1, 2 ORDER BY lastId`,
  ),
  // On how many days mail was sent, if no report came since the first of them.
  silentDays: db.prepare<{ n: number }, [number, number]>(
    `SELECT count(DISTINCT day) AS n FROM accounts CROSS JOIN daily_figures ON account_id = accounts.id
     WHERE day BETWEEN ?1 AND ?2 AND domain = '' AND sent > 0 AND NOT EXISTS
       (SELECT 1 FROM received_reports WHERE kind = 'dmarc' AND counted > 0 AND created_at > ?1 * 86400000)`,
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

const MAX_SILENT_DAYS = 14

/** Why reports say nothing, a sentence; undefined: they do, or little was sent. */
export function findReportGap(db: Database, now: Millis): string | undefined {
  if (areRowsFull(db, false)) return 'So many rows of DMARC and TLS reports are stored that new ones are not counted.'
  const sendingDays = sql(db).silentDays.get(dayOf(now) - MAX_SILENT_DAYS, dayOf(now) - 1)?.n ?? 0
  return sendingDays < MAX_SILENT_DAYS / 2
    ? undefined
    : `No DMARC report came in the last ${MAX_SILENT_DAYS} days, though mail was sent on ${sendingDays} of them.`
}

/** The last row that was judged; after a start those of the period are judged again. */
const judgedOf = perOwner((_: Database) => ({ lastId: 0 }))

/** Judges the domains with new reports. */
export async function watchReports(app: App, signal: AbortSignal): Promise<void> {
  const now = app.clock.now()
  const judged = judgedOf(app.db)
  for (const { accountId, domain, lastId } of sql(app.db).changed.all(judged.lastId, dayOf(now) - PERIOD_DAYS)) {
    if (signal.aborted) return
    judged.lastId = lastId
    const found = findDomainByName(app.db, accountId, domain)
    if (!found) continue
    const { findings } = summariseReports(app.db, found, dayOf(now) - PERIOD_DAYS, dayOf(now))
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
  // Who sends us forged reports decides how often something turns bad.
  intervalMs: days(1),
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
