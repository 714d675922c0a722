/** @module Stores, lists and acknowledges reports. The only writer of `insights`. */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { record } from '#features/core/events/record.ts'
import { belowTimeAndId, insertSql, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { toWire } from '#platform/http/envelope.ts'
import { Count, notFoundById, StringEnum, Text, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { AREAS, type InsightFinding, SEVERITIES } from './stats.ts'
import type { insights } from './tables.ts'

export type Insight = Readonly<Omit<typeof insights.$inferSelect, 'accountId'>>

export type NewInsight = Omit<Insight, 'id' | 'uuid' | 'generatedAt' | 'acknowledgedAt'>

const COLUMNS = `id, uuid, generated_at AS generatedAt, period_start AS periodStart, period_end AS periodEnd, model, input_tokens AS inputTokens,
  output_tokens AS outputTokens, summary, findings, raw_markdown AS rawMarkdown, acknowledged_at AS acknowledgedAt`

const sql = prepareStatements((db) => ({
  byUuid: db.prepare<Insight, [Uint8Array, number]>(
    `SELECT ${COLUMNS} FROM insights WHERE uuid = ? AND account_id = ?`,
  ),
  page: db.prepare<Insight, [number, number, number, number, number]>(
    `SELECT ${COLUMNS} FROM insights WHERE account_id = ? AND (generated_at, id) < (?, ?) ORDER BY generated_at DESC, id DESC LIMIT ? OFFSET ?`,
  ),
  count: db.prepare<{ n: number }, [number]>('SELECT count(*) AS n FROM insights WHERE account_id = ?'),
  last: db.prepare<{ at: number | null }, [number]>(
    'SELECT max(generated_at) AS at FROM insights WHERE account_id = ?',
  ),
  insert: db.prepare<unknown, [Omit<typeof insights.$inferSelect, 'id' | 'acknowledgedAt'>]>(
    insertSql(
      'insights',
      'uuid accountId generatedAt periodStart periodEnd model inputTokens outputTokens summary findings rawMarkdown',
    ),
  ),
  acknowledge: db.prepare('UPDATE insights SET acknowledged_at = ? WHERE id = ?'),
}))

/** When the account's newest report was generated; undefined if there is none. */
export const findLastGeneratedAt = (db: Database, accountId: number): Millis | undefined =>
  sql(db).last.get(accountId)?.at ?? undefined

/** Stores a report and emits its event; returns its public id. */
export function storeInsight(app: App, tx: Tx, actor: Actor, insight: NewInsight): string {
  const now = app.eventTime()
  const uuid = newUuid()
  const id = formatUuid(uuid)
  sql(tx.db).insert.run({ ...insight, uuid, accountId: actor.accountId, generatedAt: now })
  record(tx, { accountId: actor.accountId, type: 'insights.generated', at: now, data: { insight_id: id } })
  auditChange(app, tx, actor, 'insight.generated', id, { model: insight.model })
  return id
}

/** Returns a report. Throws 404 when the account has no such report. */
export function getInsight(db: Database, accountId: number, id: string): Insight {
  const uuid = parseUuid(id)
  const insight = uuid && sql(db).byUuid.get(uuid, accountId)
  if (!insight) throw notFoundById('insight_not_found', 'report')
  return insight
}

/** Newest first. */
export const listInsights = (db: Database, accountId: number, page: RowWindow) => ({
  insights: sql(db).page.all(accountId, ...belowTimeAndId(page), page.limit, page.offset),
  total: sql(db).count.get(accountId)?.n ?? 0,
})

/** Records that a user has read the report; later calls change nothing. Throws 404 when there is none. */
export function acknowledgeInsight(app: App, actor: Actor, id: string): Promise<Insight> {
  return app.commit.write((tx) => {
    const insight = getInsight(tx.db, actor.accountId, id)
    if (insight.acknowledgedAt !== null) return insight
    const acknowledgedAt = app.eventTime()
    sql(tx.db).acknowledge.run(acknowledgedAt, insight.id)
    auditChange(app, tx, actor, 'insight.acknowledged', insight.uuid)
    return { ...insight, acknowledgedAt }
  })
}

const FindingRecord = Type.Object({
  severity: StringEnum(SEVERITIES, { description: 'info, warn or critical.' }),
  area: StringEnum(AREAS, { description: 'deliverability, reputation, performance or security.' }),
  observation: Text('What the stats show. Plain text.'),
  recommendation: Text('What to do about it. Plain text.'),
})

export const InsightRecord = Type.Object({
  id: Uuid({ description: 'Id of the report.' }),
  account_id: Uuid({ description: 'Account that the report covers.' }),
  generated_at: Timestamp({ description: 'When it was generated.' }),
  period_start: Timestamp({ description: 'Start of the period that the report covers.' }),
  period_end: Timestamp({ description: 'End of the period that the report covers.' }),
  model: Text('Language model that was asked.'),
  input_tokens: Count('Tokens of the prompt, as counted by the endpoint; 0 if not counted.'),
  output_tokens: Count('Tokens of the answer; 0 if not counted.'),
  summary: Text('The report in a few sentences. Plain text.'),
  findings: Type.Array(FindingRecord, { description: 'At most 20.' }),
  raw_markdown: Text('The whole report as Markdown, with the stats that each finding cites.'),
  acknowledged_at: TimeOrNull('When it was first acknowledged; null if it was not.'),
})
export type InsightRecord = Static<typeof InsightRecord>

export const insightWire = (insight: Insight, account_id: string): InsightRecord =>
  toWire(InsightRecord, insight, { account_id, findings: JSON.parse(insight.findings) as InsightFinding[] })
