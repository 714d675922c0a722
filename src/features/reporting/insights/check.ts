/**
 * @module Validates a model's report against the stats that the model was given. A finding stays only if it cites stats
 * by name with their values (rounding aside), if every number in its text is a cited stat, a guideline or the period,
 * and if its text is plain (text-check.ts): no address, unknown host, link or markup. Never edits a text.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { readMember } from '#platform/net/llm.ts'
import { AREAS, type GroundedFinding, isCritical, MAX_FINDINGS, SEVERITIES } from './findings.ts'
import { type AllowedNumbers, createTextCheck, isSameNumber, type TextCheck, toPlainText } from './text-check.ts'

export interface CheckedAnswer {
  /** Undefined if the model's summary failed the check. */
  readonly summary: string | undefined
  readonly findings: readonly GroundedFinding[]
  /** Number of findings that failed the check. */
  readonly dropped: number
}

const MAX_SUMMARY_LENGTH = 1200
const MAX_TEXT_LENGTH = 600

const literalUnion = (values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)))

const Evidence = Type.Object({ metric: Type.String({ maxLength: 200 }), value: Type.Number() })
const RawFindingSchema = Type.Object({
  severity: literalUnion(SEVERITIES),
  area: literalUnion(AREAS),
  observation: Type.String({ minLength: 1, maxLength: MAX_TEXT_LENGTH }),
  recommendation: Type.String({ minLength: 1, maxLength: MAX_TEXT_LENGTH }),
  evidence: Type.Array(Evidence, { minItems: 1, maxItems: 20 }),
})

interface RawFinding {
  readonly severity: GroundedFinding['severity']
  readonly area: GroundedFinding['area']
  readonly observation: string
  readonly recommendation: string
  readonly evidence: readonly { readonly metric: string; readonly value: number }[]
}

const isRawFinding = (value: unknown): value is RawFinding => Value.Check(RawFindingSchema, value)

/**
 * The schema sent to the endpoint. It contains no limits, because not every endpoint supports them; the answer is
 * checked for them here.
 */
export const ANSWER_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  required: ['summary', 'findings'],
  properties: {
    summary: { type: 'string' },
    findings: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['severity', 'area', 'observation', 'recommendation', 'evidence'],
        properties: {
          severity: { type: 'string', enum: [...SEVERITIES] },
          area: { type: 'string', enum: [...AREAS] },
          observation: { type: 'string' },
          recommendation: { type: 'string' },
          evidence: {
            type: 'array',
            items: {
              type: 'object',
              additionalProperties: false,
              required: ['metric', 'value'],
              properties: { metric: { type: 'string' }, value: { type: 'number' } },
            },
          },
        },
      },
    },
  },
} as const

/** The parts of an answer that pass the check; undefined when the answer is not a report. */
export function checkAnswer(answer: unknown, metrics: ReadonlyMap<string, number>): CheckedAnswer | undefined {
  const summary = readMember(answer, 'summary')
  const rawFindings = readMember(answer, 'findings')
  if (typeof summary !== 'string' || !Array.isArray(rawFindings)) return undefined
  const text = createTextCheck(metrics)
  const findings: GroundedFinding[] = []
  for (const finding of rawFindings.slice(0, MAX_FINDINGS)) {
    const grounded = isRawFinding(finding) ? groundFinding(finding, metrics, text) : undefined
    if (grounded) findings.push(grounded)
  }
  const plainSummary = toPlainText(summary)
  const cited = new Set(findings.flatMap(({ metrics: names }) => names))
  const summaryNumbers: AllowedNumbers = {
    figures: selectMetrics(metrics, (name) => name.startsWith('total.') || cited.has(name)),
    guidelines: 'named',
  }
  return {
    summary:
      plainSummary.length > 0 && plainSummary.length <= MAX_SUMMARY_LENGTH && text(plainSummary, summaryNumbers)
        ? plainSummary
        : undefined,
    findings,
    dropped: rawFindings.length - findings.length,
  }
}

function groundFinding(
  { severity, area, observation, recommendation, evidence }: RawFinding,
  metrics: ReadonlyMap<string, number>,
  text: TextCheck,
): GroundedFinding | undefined {
  for (const { metric, value } of evidence) {
    const stat = metrics.get(metric)
    if (stat === undefined || !isSameNumber(String(value), stat)) return undefined
  }
  const names = [...new Set(evidence.map(({ metric }) => metric))]
  const stats = selectMetrics(metrics, (name) => names.includes(name))
  // A finding that cites only guidelines is not about the account.
  if (stats.size === 0) return undefined
  const texts = [toPlainText(observation), toPlainText(recommendation)] as const
  // The length is checked again: normalisation can expand a character into several.
  if (!texts.every((one) => one !== '' && one.length <= MAX_TEXT_LENGTH)) return undefined
  if (
    !text(texts[0], { figures: stats, guidelines: 'named' }) ||
    !text(texts[1], { figures: stats, guidelines: 'wished' })
  )
    return undefined
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
