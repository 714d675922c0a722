/**
 * @module Validates a model's report against the stats that the model was given. A finding stays only if it cites stats
 * by name with their values (rounding aside), if every number in its text is a cited stat, a guideline or the period,
 * and if its text is plain: no address, unknown host, link or markup. Never edits a text. A correct number does not make
 * its sentence true.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { StrictObject } from '#platform/http/schemas.ts'
import { readMember } from '#platform/net/llm.ts'
import { AREAS, type GroundedFinding, GUIDELINES, isCritical, MAX_FINDINGS, SEVERITIES } from './stats.ts'

export interface CheckedAnswer {
  /** Undefined if the model's summary failed the check. */
  readonly summary: string | undefined
  readonly findings: readonly GroundedFinding[]
  /** Number of findings that failed the check. */
  readonly dropped: number
}

const MAX_SUMMARY_LENGTH = 1200
const MAX_TEXT_LENGTH = 600

const MAX_EVIDENCE = 20

const Finding = StrictObject({
  severity: Type.String({ enum: SEVERITIES }),
  area: Type.String({ enum: AREAS }),
  observation: Type.String(),
  recommendation: Type.String(),
  evidence: Type.Array(StrictObject({ metric: Type.String(), value: Type.Number() })),
})

/**
 * The schema sent to the endpoint. It contains no limits, because not every endpoint supports them; `groundFinding`
 * checks them.
 */
export const ANSWER_SCHEMA = StrictObject({ summary: Type.String(), findings: Type.Array(Finding) })

/** The parts of an answer that pass the check; undefined when the answer is not a report. */
export function checkAnswer(answer: unknown, metrics: ReadonlyMap<string, number>): CheckedAnswer | undefined {
  const summary = readMember(answer, 'summary')
  const rawFindings = readMember(answer, 'findings')
  if (typeof summary !== 'string' || !Array.isArray(rawFindings)) return undefined
  const text = createTextCheck(metrics)
  const findings: GroundedFinding[] = []
  for (const finding of rawFindings.slice(0, MAX_FINDINGS)) {
    const written: unknown = Value.Clean(Finding, finding)
    const grounded = Value.Check(Finding, written) ? groundFinding(written, metrics, text) : undefined
    if (grounded) findings.push(grounded)
  }
  const plainSummary = toPlainText(summary)
  const cited = new Set(findings.flatMap(({ metrics: names }) => names))
  const summaryStats = selectMetrics(metrics, (name) => name.startsWith('total.') || cited.has(name))
  return {
    summary:
      plainSummary.length > 0 && plainSummary.length <= MAX_SUMMARY_LENGTH && text(plainSummary, summaryStats)
        ? plainSummary
        : undefined,
    findings,
    dropped: rawFindings.length - findings.length,
  }
}

function groundFinding(
  { observation, recommendation, evidence, ...written }: Static<typeof Finding>,
  metrics: ReadonlyMap<string, number>,
  text: TextCheck,
): GroundedFinding | undefined {
  const severity = SEVERITIES.find((one) => one === written.severity)
  const area = AREAS.find((one) => one === written.area)
  if (!severity || !area || evidence.length > MAX_EVIDENCE) return undefined
  for (const { metric, value } of evidence) {
    const stat = metrics.get(metric)
    if (stat === undefined || !isSameNumber(String(value), stat)) return undefined
  }
  const names = [...new Set(evidence.map(({ metric }) => metric))]
  const stats = selectMetrics(metrics, (name) => names.includes(name))
  // A finding that cites only guidelines is not about the account.
  if (stats.size === 0) return undefined
  const texts = [toPlainText(observation), toPlainText(recommendation)] as const
  if (!texts.every((one) => one !== '' && one.length <= MAX_TEXT_LENGTH && text(one, stats))) return undefined
  return {
    severity: severity === 'critical' && !names.some((name) => isCritical(metrics, name)) ? 'warn' : severity,
    area,
    observation: texts[0],
    recommendation: texts[1],
    metrics: names,
  }
}

/** Selects stats of the account, without guidelines and the period, which are equal for every account. */
const selectMetrics = (
  metrics: ReadonlyMap<string, number>,
  isWanted: (name: string) => boolean,
): Map<string, number> =>
  new Map([...metrics].filter(([name]) => !/^(?:guideline|period)\./.test(name) && isWanted(name)))

/** @param figures the stats, by name, that the text may contain */
type TextCheck = (text: string, figures: ReadonlyMap<string, number>) => boolean

/** Text on one line, without invisible characters. */
const toPlainText = (text: string): string =>
  text
    .toWellFormed()
    .normalize('NFKC')
    .replace(/[\p{Z}\s]+/gu, ' ')
    .replace(/\p{C}/gu, '')
    .trim()

const NUMBER = /\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?/g
// Some programs treat an ideographic full stop as a dot.
const HOST = /[\p{L}\p{N}_-][.\u3002]\p{L}{2}|\s\.\p{L}/u
const MARKUP = /[<>@`|\\[\]{}]|:\/\/|\bwww\.|\b(?:javascript|data|mailto|vbscript|file|https?):/i

/** @param metrics all stats; a text may contain their names */
function createTextCheck(metrics: ReadonlyMap<string, number>): TextCheck {
  const names = buildNamePattern(metrics)
  const common = [...Object.values(GUIDELINES), metrics.get('period.days') ?? 0, metrics.get('period.weeks') ?? 0]
  return (text, figures) => {
    // Names are replaced by a character that neither joins nor ends a number.
    const rest = text.replace(names, ' \u2022 ')
    if (MARKUP.test(rest) || HOST.test(rest)) return false
    const values = [...figures.values(), ...common]
    return [...rest.matchAll(NUMBER)].every(([number]) =>
      values.some((value) => isSameNumber(number.replaceAll(',', ''), value)),
    )
  }
}

/** A pattern of the names of stats and their groups: `total.sent`, `gmail.com`, `stream 2`, `week_1`. */
function buildNamePattern(metrics: ReadonlyMap<string, number>): RegExp {
  const names = new Set<string>()
  for (const metric of metrics.keys()) {
    const group = metric.slice(0, metric.lastIndexOf('.'))
    for (const name of [metric, group, group.replace(/^recipients\./, '')]) {
      if (/[\d.]/.test(name)) names.add(name).add(name.replaceAll('_', ' '))
    }
  }
  const longestFirst = [...names].sort((a, b) => b.length - a.length)
  return new RegExp(
    `(?<![\\p{L}\\p{N}.@_-])(?:${longestFirst.map(RegExp.escape).join('|')})(?![\\p{L}\\p{N}_-]|\\.\\p{L})`,
    'giu',
  )
}

/**
 * Whether a written number equals a value, or the value rounded to as many decimals as are written. Integer values must
 * match exactly; other values below 10 must be written with at least one decimal.
 */
export function isSameNumber(written: string, figure: number): boolean {
  const value = Number(written)
  if (!Number.isFinite(value)) return false
  if (value === figure) return true
  if (Number.isInteger(figure)) return false
  const decimals = written.includes('.') ? written.length - written.indexOf('.') - 1 : 0
  if (decimals === 0 && Math.abs(figure) < 10) return false
  return Math.abs(value - figure) <= 0.5 / 10 ** decimals + 1e-9
}
