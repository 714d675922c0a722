/**
 * @module Builds the stored report: from the valid parts of the model's answer; if there are none, from the stats
 * alone. The Markdown is written here, never by the model.
 */
import { isoTime } from '#platform/http/envelope.ts'
import type { CheckedAnswer } from './check.ts'
import type { GroundedFinding, InsightFinding } from './findings.ts'
import { findProblems, summariseStats } from './rules.ts'
import type { InsightStats } from './stats.ts'

export interface Report {
  readonly summary: string
  readonly findings: readonly InsightFinding[]
  readonly markdown: string
}

const FALLBACK_NOTE =
  "The model's answer contradicted the stats and was discarded; this report was derived from the stats alone."

export function buildReport(checked: CheckedAnswer, stats: InsightStats, model: string): Report {
  const { metrics } = stats
  const isByRule = checked.findings.length === 0 && (checked.dropped > 0 || checked.summary === undefined)
  const findings = checked.findings.length > 0 ? checked.findings : findProblems(metrics)
  const summary = isByRule
    ? `${summariseStats(metrics)} ${FALLBACK_NOTE}`
    : (checked.summary ?? summariseStats(metrics))
  return {
    summary,
    findings: findings.map(({ severity, area, observation, recommendation }) => ({
      severity,
      area,
      observation,
      recommendation,
    })),
    markdown: formatMarkdown({ summary, findings }, stats, model),
  }
}

function formatMarkdown(
  { summary, findings }: { summary: string; findings: readonly GroundedFinding[] },
  { periodStart, periodEnd, metrics, names }: InsightStats,
  model: string,
): string {
  const day = (at: number): string => isoTime(at).slice(0, 10)
  const parts = [
    `# Insights, ${day(periodStart)} to ${day(periodEnd)}`,
    escapeMarkdown(summary),
    ...findings.flatMap((finding) => [
      `## ${finding.severity}: ${finding.area}`,
      escapeMarkdown(finding.observation),
      `**Recommendation:** ${escapeMarkdown(finding.recommendation)}`,
      `**Stats:** ${finding.metrics.map((name) => escapeMarkdown(`${name} ${metrics.get(name) ?? 0}`)).join(', ')}`,
    ]),
    ...findUsedNames(findings, names).map(
      ([label, name]) => `${escapeMarkdown(label.replaceAll('_', ' '))}: ${escapeMarkdown(name)}`,
    ),
    `Model: ${escapeMarkdown(model)}. Every number was checked against the stats of the account.`,
  ]
  return `${parts.join('\n\n')}\n`
}

/** The names of the numbered streams and sending domains in the findings. */
const findUsedNames = (findings: readonly GroundedFinding[], names: InsightStats['names']): [string, string][] =>
  [...names].filter(([label]) =>
    findings.some(({ metrics }) => metrics.some((metric) => metric.slice(0, metric.lastIndexOf('.')) === label)),
  )

/** Escapes one line of text for Markdown, at its beginning too. */
const escapeMarkdown = (text: string): string =>
  text
    .replace(/[\\`*_[\]<>#|~!&]/g, '\\$&')
    .replace(/^[+=-]/, '\\$&')
    .replace(/^(\d+)(?=[.)]( |$))/, '$1\\')
