/** @module A report as it is stored: from what holds of the model's answer, else from the figures alone. Its Markdown is ours, never the model's. */
import { isoTime } from '#platform/http/envelope.ts'
import type { Checked } from './check.ts'
import type { Figures } from './figures.ts'
import type { Finding, GroundedFinding } from './findings.ts'
import { findingsByRule, summaryByRule } from './rules.ts'

export interface Report {
  readonly summary: string
  readonly findings: readonly Finding[]
  readonly markdown: string
}

const BY_RULE =
  'What the model said did not agree with the figures and was left out; this was made of the figures alone.'

export function reportOf(checked: Checked, figures: Figures, model: string): Report {
  const { metrics } = figures
  const isByRule = checked.findings.length === 0 && (checked.dropped > 0 || checked.summary === undefined)
  const findings = checked.findings.length > 0 ? checked.findings : findingsByRule(metrics)
  const summary = isByRule ? `${summaryByRule(metrics)} ${BY_RULE}` : (checked.summary ?? summaryByRule(metrics))
  return {
    summary,
    findings: findings.map(({ severity, area, observation, recommendation }) => ({
      severity,
      area,
      observation,
      recommendation,
    })),
    markdown: markdownOf({ summary, findings }, figures, model),
  }
}

function markdownOf(
  { summary, findings }: { summary: string; findings: readonly GroundedFinding[] },
  { periodStart, periodEnd, metrics, names }: Figures,
  model: string,
): string {
  const day = (at: number): string => isoTime(at).slice(0, 10)
  const parts = [
    `# Insights, ${day(periodStart)} to ${day(periodEnd)}`,
    escaped(summary),
    ...findings.flatMap((finding) => [
      `## ${finding.severity}: ${finding.area}`,
      escaped(finding.observation),
      `**Recommendation:** ${escaped(finding.recommendation)}`,
      `**Figures:** ${finding.metrics.map((name) => escaped(`${name} ${metrics.get(name) ?? 0}`)).join(', ')}`,
    ]),
    ...namesUsed(findings, names).map(([label, name]) => `${escaped(label.replaceAll('_', ' '))}: ${escaped(name)}`),
    `Model: ${escaped(model)}. Every number was checked against the figures of the account.`,
  ]
  return `${parts.join('\n\n')}\n`
}

/** What the numbered streams and sending domains of the findings are. */
const namesUsed = (findings: readonly GroundedFinding[], names: Figures['names']): [string, string][] =>
  [...names].filter(([label]) =>
    findings.some(({ metrics }) => metrics.some((metric) => metric.slice(0, metric.lastIndexOf('.')) === label)),
  )

/** A text of one line without what Markdown could take for markup, at its beginning too. */
const escaped = (text: string): string =>
  text
    .replace(/[\\`*_[\]<>#|~!&]/g, '\\$&')
    .replace(/^[+=-]/, '\\$&')
    .replace(/^(\d+)(?=[.)]( |$))/, '$1\\')
