/** @module Wire shapes of insights. */
import { type Static, Type } from '@sinclair/typebox'
import { Count, StringEnum, Text, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import { AREAS, type InsightFinding, SEVERITIES } from './findings.ts'
import type { Insight } from './insights.ts'

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
