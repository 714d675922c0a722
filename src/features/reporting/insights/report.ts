/**
 * @module Builds the stored report: from the valid parts of the model's answer; if there are none, from the stats
 * alone, by fixed rules. The Markdown is written here, never by the model.
 */
import { isoTime } from '#platform/http/envelope.ts'
import type { CheckedAnswer } from './check.ts'
import {
  type GroundedFinding,
  GUIDELINES,
  type InsightStats,
  isCritical,
  MAX_FINDINGS,
  MIN_RECIPIENTS,
} from './stats.ts'

const FALLBACK_NOTE =
  "The model's answer contradicted the stats and was discarded; this report was derived from the stats alone."

export function buildReport(checked: CheckedAnswer, stats: InsightStats, model: string) {
  const { metrics } = stats
  const isByRule = checked.findings.length === 0 && (checked.dropped > 0 || checked.summary === undefined)
  const findings = checked.findings.length > 0 ? checked.findings : findProblems(metrics)
  const summary = isByRule
    ? `${summariseStats(metrics)} ${FALLBACK_NOTE}`
    : (checked.summary ?? summariseStats(metrics))
  return {
    summary,
    findings: findings.map(({ metrics: _, ...finding }) => finding),
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

type Metrics = ReadonlyMap<string, number>

/** Worst first; at least one and at most 20. */
export function findProblems(metrics: Metrics): GroundedFinding[] {
  const findings = [
    ...findRateProblems(metrics),
    ...findProviderProblems(metrics),
    ...findDomainProblems(metrics),
    ...findWebhookProblems(metrics),
    ...findAccessProblems(metrics),
  ].sort((a, b) => SEVERITY_ORDER.indexOf(a.severity) - SEVERITY_ORDER.indexOf(b.severity))
  return findings.length > 0 ? findings.slice(0, MAX_FINDINGS) : [noProblemFinding(metrics)]
}

function summariseStats(metrics: Metrics): string {
  const read = (name: string): number => metrics.get(name) ?? 0
  if (read('total.sent') === 0) return `No mail was sent in the last ${read('period.days')} days.`
  return `In the last ${read('period.days')} days mail was sent to ${read('total.sent')} recipients: ${read('total.delivered')} accepted it, ${read('total.bounced')} bounced, and ${read('total.complaints')} complained.`
}

const SEVERITY_ORDER: readonly GroundedFinding['severity'][] = ['critical', 'warn', 'info']

const severityOf = (metrics: Metrics, name: string): 'critical' | 'warn' =>
  isCritical(metrics, name) ? 'critical' : 'warn'

function findRateProblems(metrics: Metrics): GroundedFinding[] {
  const found: GroundedFinding[] = []
  const bounce = metrics.get('total.bounce_pct') ?? 0
  if (bounce >= GUIDELINES.bounce_pct_warn) {
    found.push({
      severity: severityOf(metrics, 'total.bounce_pct'),
      area: 'deliverability',
      observation: `${bounce}% of the recipients bounced; the guideline is below ${GUIDELINES.bounce_pct_warn}%.`,
      recommendation:
        'See the categories of recent bounces. For addresses that do not exist, send only to confirmed ones, and remove those unused for a long time. For expired mail, receivers block or limit this host.',
      metrics: ['total.bounce_pct'],
    })
  }
  const complaints = metrics.get('total.complaint_pct') ?? 0
  if (complaints >= GUIDELINES.complaint_pct_warn) {
    found.push({
      severity: severityOf(metrics, 'total.complaint_pct'),
      area: 'reputation',
      observation: `${complaints}% of the delivered recipients complained; the guideline is below ${GUIDELINES.complaint_pct_warn}%.`,
      recommendation: 'Make unsubscribing easy, and send only to people who asked for the mail.',
      metrics: ['total.complaint_pct'],
    })
  }
  return found
}

function findProviderProblems(metrics: Metrics): GroundedFinding[] {
  return [...metrics].flatMap(([name, value]): GroundedFinding[] => {
    const label = /^recipients\.(.+)\.bounce_pct$/.exec(name)?.[1]
    if (label === undefined || value < 2 * GUIDELINES.bounce_pct_critical) return []
    const attempted =
      (metrics.get(`recipients.${label}.delivered`) ?? 0) + (metrics.get(`recipients.${label}.bounced`) ?? 0)
    if (attempted < MIN_RECIPIENTS) return []
    return [
      {
        severity: 'warn',
        area: 'deliverability',
        observation: `${label.replaceAll('_', ' ')} rejected the mail for ${value}% of its recipients.`,
        recommendation:
          'Check the replies in the events of these bounces: they show whether addresses are wrong or mail is blocked.',
        metrics: [name],
      },
    ]
  })
}

function findDomainProblems(metrics: Metrics): GroundedFinding[] {
  const missing = new Map<string, string[]>()
  for (const [name, value] of metrics) {
    const number = /^sending_domain_(\d+)\.(?:spf|dkim|dmarc)$/.exec(name)?.[1]
    if (number !== undefined && value === 0) missing.set(number, [...(missing.get(number) ?? []), name])
  }
  return [...missing].map(([number, names]) => ({
    severity: names.some((name) => isCritical(metrics, name)) ? 'critical' : 'warn',
    area: 'security',
    observation: `Unverified records of sending domain ${number}: ${names.map((name) => name.slice(name.indexOf('.') + 1).toUpperCase()).join(', ')}.`,
    recommendation: 'Publish the DNS records shown in its details, and verify the domain again.',
    metrics: names,
  }))
}

function findWebhookProblems(metrics: Metrics): GroundedFinding[] {
  const off = metrics.get('webhooks.switched_off_by_failures') ?? 0
  const failing = metrics.get('webhooks.failing') ?? 0
  if (off === 0 && failing === 0) return []
  const name = off > 0 ? 'webhooks.switched_off_by_failures' : 'webhooks.failing'
  return [
    {
      severity: severityOf(metrics, name),
      area: 'performance',
      observation:
        off > 0
          ? `Webhooks deactivated after repeated failures: ${off}.`
          : `Webhooks whose last attempt failed: ${failing}.`,
      recommendation: 'Fix the endpoint, reactivate the webhook, and replay the missed events.',
      metrics: [name],
    },
  ]
}

function findAccessProblems(metrics: Metrics): GroundedFinding[] {
  const single = metrics.get('access.users_without_second_factor') ?? 0
  if (single === 0) return []
  return [
    {
      severity: 'info',
      area: 'security',
      observation: `Users of the account without a second factor: ${single}.`,
      recommendation: 'Ask them to set up an authenticator app.',
      metrics: ['access.users_without_second_factor'],
    },
  ]
}

const noProblemFinding = (metrics: Metrics): GroundedFinding => ({
  severity: 'info',
  area: 'performance',
  observation: `All stats of the last ${metrics.get('period.days')} days are within the guidelines.`,
  recommendation: 'No action is needed.',
  metrics: ['total.sent'],
})
