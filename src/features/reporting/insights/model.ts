/** @module Wire shapes of insights. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, StringEnum, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { AREAS, type InsightFinding, SEVERITIES } from './findings.ts'
import type { Insight } from './insights.ts'

const FindingRecord = Type.Object({
  severity: StringEnum(SEVERITIES, { description: 'info, warn or critical.' }),
  area: StringEnum(AREAS, { description: 'deliverability, reputation, performance or security.' }),
  observation: Type.String({ description: 'What the figures show. Plain text.' }),
  recommendation: Type.String({ description: 'What to do about it. Plain text.' }),
})

export const InsightRecord = Type.Object({
  id: Uuid({ description: 'Id of the report.' }),
  account_id: Uuid({ description: 'Account that it is about.' }),
  generated_at: Timestamp({ description: 'When it was made.' }),
  period_start: Timestamp({ description: 'First instant that its figures are of.' }),
  period_end: Timestamp({ description: 'Last instant that its figures are of.' }),
  model: Type.String({ description: 'Language model that was asked.' }),
  input_tokens: Type.Integer({
    description: 'Tokens of the question, as the endpoint counted them; 0 where it did not.',
  }),
  output_tokens: Type.Integer({ description: 'Tokens of the answer; 0 where they were not counted.' }),
  summary: Type.String({ description: 'The report in some sentences. Plain text.' }),
  findings: Type.Array(FindingRecord, { description: 'At most 20.' }),
  raw_markdown: Type.String({
    description: 'The whole report as Markdown, with the figures that each finding rests on.',
  }),
  acknowledged_at: Nullable(Timestamp(), { description: 'When it was first acknowledged; null: it was not.' }),
})
export type InsightRecord = Static<typeof InsightRecord>

export const insightWire = (insight: Insight, accountUuid: string): InsightRecord => ({
  id: formatUuid(insight.uuid),
  account_id: accountUuid,
  generated_at: isoTime(insight.generatedAt),
  period_start: isoTime(insight.periodStart),
  period_end: isoTime(insight.periodEnd),
  model: insight.model,
  input_tokens: insight.inputTokens,
  output_tokens: insight.outputTokens,
  summary: insight.summary,
  findings: JSON.parse(insight.findings) as InsightFinding[],
  raw_markdown: insight.rawMarkdown,
  acknowledged_at: isoTimeOrNull(insight.acknowledgedAt),
})
