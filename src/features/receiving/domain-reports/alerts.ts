/**
 * @module What reports show to turn bad: mailed to the owners once for each cause, and kept for `tassis doctor` and the
 * metrics until the reports of a week no longer show it.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { dayOf } from '#features/core/events/daily-stats.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import { findDomainById, findDomainByName } from '#features/setup/domains/domains.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours } from '#platform/units.ts'
import { summariseReports } from './findings.ts'

const KIND = 'domain_reports'
/** Reports of so many days are judged together. */
const PERIOD_DAYS = 7
/** Longer than between two runs. */
const NEW_REPORT_MS = hours(3)
const MAX_DOMAINS_PER_RUN = 500
const MAX_ALERTS_PER_DOMAIN = 20

export interface ReportAlert {
  readonly domain: string
  readonly cause: string
  readonly text: string
}

const sql = prepareStatements((db) => ({
  // Ids ascend with created_at.
  changed: db.prepare<{ accountId: number; domain: string }, [Millis]>(
    `SELECT DISTINCT account_id AS accountId, covered_by AS domain FROM (SELECT * FROM received_reports ORDER BY id DESC LIMIT 10000)
     WHERE created_at > ? AND counted IS NOT NULL LIMIT ${MAX_DOMAINS_PER_RUN}`,
  ),
  exists: db.prepare<{ id: number }, [number, string]>(
    'SELECT id FROM report_alerts WHERE domain_id = ? AND cause = ?',
  ),
  upsert: db.prepare(
    `INSERT INTO report_alerts (account_id, domain_id, cause, text, last_seen_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (domain_id, cause) DO UPDATE SET text = excluded.text, last_seen_at = excluded.last_seen_at`,
  ),
  all: db.prepare<ReportAlert, [Millis, number]>(
    `SELECT domain, cause, text FROM report_alerts JOIN domains ON domains.id = domain_id
     WHERE last_seen_at > ? AND deleted_at IS NULL ORDER BY report_alerts.id DESC LIMIT ?`,
  ),
  ofDomain: db.prepare<{ text: string }, [number]>(
    'SELECT text FROM report_alerts WHERE domain_id = ? ORDER BY id DESC',
  ),
}))

/** What was bad within the last days, newest first. */
export const listReportAlerts = (db: Database, now: Millis, limit: number): ReportAlert[] =>
  sql(db).all.all(now - days(PERIOD_DAYS), limit)

/** Judges the domains with new reports. */
export async function watchReports(app: App, signal: AbortSignal): Promise<void> {
  const now = app.clock.now()
  const toDay = dayOf(now)
  for (const { accountId, domain } of sql(app.db).changed.all(now - NEW_REPORT_MS)) {
    if (signal.aborted) return
    const found = findDomainByName(app.db, accountId, domain)
    if (!found) continue
    const period = { accountId, domain, fromDay: toDay - PERIOD_DAYS, toDay }
    const bad = summariseReports(app.db, period).findings.filter(({ level }) => level === 'bad')
    if (bad.length === 0) continue
    await app.commit.write((tx) => {
      const news = bad.slice(0, MAX_ALERTS_PER_DOMAIN).filter(({ key, text }) => {
        const isNew = sql(tx.db).exists.get(found.id, key) === null
        sql(tx.db).upsert.run(accountId, found.id, key, text, now)
        return isNew
      })
      if (news.length > 0) scheduleNotice(app, tx, { accountId, kind: KIND, topic: found.id, dueAt: now })
    })
  }
}

const MAX_NAMED = 10

export const REPORTS_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: hours(6),
  compose(app, { name }, notices) {
    const sections = notices.flatMap(({ topic }) => {
      const domain = findDomainById(app.db, topic)
      const texts = domain ? sql(app.db).ofDomain.all(topic).slice(0, MAX_NAMED) : []
      return domain && texts.length > 0 ? [{ domain: domain.domain, texts: texts.map(({ text }) => `- ${text}`) }] : []
    })
    const [first, second] = sections
    if (!first) return undefined
    return {
      subject: `Reports of receivers about ${second ? `${sections.length} domains` : first.domain} show a problem`,
      text: [
        `This is about domains of the account ${name}.`,
        ...sections.slice(0, MAX_NAMED).flatMap(({ domain, texts }) => [`${domain}:`, texts.join('\n')]),
        'GET /v1/domains/{id}/reports and the page of the domain show what receivers report. You get one mail for each cause.',
      ].join('\n\n'),
    }
  },
}
