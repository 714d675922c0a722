/** @module Defines the findings of a report, and the limits beyond which a finding may be critical. */
import { GUIDELINES } from './stats.ts'

export const SEVERITIES = ['info', 'warn', 'critical'] as const
export const AREAS = ['deliverability', 'reputation', 'performance', 'security'] as const

export interface InsightFinding {
  readonly severity: (typeof SEVERITIES)[number]
  readonly area: (typeof AREAS)[number]
  /** One or two sentences of plain text. */
  readonly observation: string
  readonly recommendation: string
}

/** A finding with the names of the stats that it cites. */
export interface GroundedFinding extends InsightFinding {
  readonly metrics: readonly string[]
}

/** Findings per report. */
export const MAX_FINDINGS = 20

type Metrics = ReadonlyMap<string, number>

/** Minimum number of recipients for a meaningful percentage. */
export const MIN_RECIPIENTS = 100

const DELIVERY_PCT_CRITICAL = 80

/** Whether the value of one stat alone requires action today. */
export function isCritical(metrics: Metrics, name: string): boolean {
  const value = metrics.get(name)
  if (value === undefined) return false
  const group = name.slice(0, name.lastIndexOf('.'))
  const read = (stat: string): number => metrics.get(`${group}.${stat}`) ?? 0
  if (name.startsWith('guideline.')) return false
  if (name.endsWith('.bounce_pct'))
    return value >= GUIDELINES.bounce_pct_critical && read('delivered') + read('bounced') >= MIN_RECIPIENTS
  if (name.endsWith('.complaint_pct'))
    return value >= GUIDELINES.complaint_pct_critical && read('delivered') >= MIN_RECIPIENTS
  if (name.endsWith('.delivery_pct')) return value < DELIVERY_PCT_CRITICAL && read('sent') >= MIN_RECIPIENTS
  if (/^sending_domain_\d+\.(spf|dkim)$/.test(name)) return value === 0
  return name === 'webhooks.switched_off_by_failures' && value > 0
}
