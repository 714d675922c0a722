/**
 * @module Holds what a model said against the figures it was given. A finding stays only when it cites figures by name with their values, when every
 * number in its text is one of those, and when its text is plain: no address, no host but those in the figures, no link, no markup. Never mends a
 * text, and takes no number on trust.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { memberOf } from '#platform/llm.ts'
import { GUIDELINES } from './figures.ts'
import { AREAS, type GroundedFinding, isCritical, MOST_FINDINGS, SEVERITIES } from './findings.ts'

export interface Checked {
  /** Undefined where the one of the model does not hold. */
  readonly summary: string | undefined
  readonly findings: readonly GroundedFinding[]
  /** Findings that did not hold. */
  readonly dropped: number
}

const LONGEST_SUMMARY = 1200
const LONGEST_TEXT = 600

const oneOf = (values: readonly string[]) => Type.Union(values.map((value) => Type.Literal(value)))

const Evidence = Type.Object({ metric: Type.String({ maxLength: 200 }), value: Type.Number() })
const Said = Type.Object({
  severity: oneOf(SEVERITIES),
  area: oneOf(AREAS),
  observation: Type.String({ minLength: 1, maxLength: LONGEST_TEXT }),
  recommendation: Type.String({ minLength: 1, maxLength: LONGEST_TEXT }),
  evidence: Type.Array(Evidence, { minItems: 1, maxItems: 20 }),
})

interface SaidFinding {
  readonly severity: GroundedFinding['severity']
  readonly area: GroundedFinding['area']
  readonly observation: string
  readonly recommendation: string
  readonly evidence: readonly { readonly metric: string; readonly value: number }[]
}

const isSaidFinding = (value: unknown): value is SaidFinding => Value.Check(Said, value)

/** What the endpoint is asked to hold the model to. Bounds are checked here: not every endpoint knows them. */
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

/** What holds of an answer; undefined when it is no report at all. */
export function checkAnswer(answer: unknown, metrics: ReadonlyMap<string, number>): Checked | undefined {
  const summary = memberOf(answer, 'summary')
  const said = memberOf(answer, 'findings')
  if (typeof summary !== 'string' || !Array.isArray(said)) return undefined
  const text = createTextCheck(metrics)
  const findings: GroundedFinding[] = []
  for (const finding of said.slice(0, MOST_FINDINGS)) {
    const held = isSaidFinding(finding) ? holds(finding, metrics, text) : undefined
    if (held) findings.push(held)
  }
  const plainSummary = plain(summary)
  return {
    summary:
      plainSummary.length > 0 && plainSummary.length <= LONGEST_SUMMARY && text(plainSummary, [...metrics.values()])
        ? plainSummary
        : undefined,
    findings,
    dropped: said.length - findings.length,
  }
}

function holds(
  { severity, area, observation, recommendation, evidence }: SaidFinding,
  metrics: ReadonlyMap<string, number>,
  text: TextCheck,
): GroundedFinding | undefined {
  const values: number[] = []
  for (const { metric, value } of evidence) {
    const figure = metrics.get(metric)
    if (figure === undefined || !isSame(String(value), figure)) return undefined
    values.push(figure)
  }
  const texts = [plain(observation), plain(recommendation)] as const
  // Again, since some characters become several.
  if (!texts.every((one) => one !== '' && one.length <= LONGEST_TEXT && text(one, values))) return undefined
  const names = [...new Set(evidence.map(({ metric }) => metric))]
  return {
    severity: severity === 'critical' && !names.some((name) => isCritical(metrics, name)) ? 'warn' : severity,
    area,
    observation: texts[0],
    recommendation: texts[1],
    metrics: names,
  }
}

/** On one line, without characters that cannot be seen. */
const plain = (text: string): string =>
  text
    .toWellFormed()
    .normalize('NFKC')
    .replace(/[\p{Z}\s]+/gu, ' ')
    .replace(/\p{C}/gu, '')
    .trim()

/** Whether a text is plain, names nothing that is not in the figures, and has no number but these values, the period's and the guidelines'. */
type TextCheck = (text: string, values: readonly number[]) => boolean

const NUMBER = /\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?/g
const HOST = /[\p{L}\p{N}_-]+\.\p{L}{2,}/u
const MARKUP = /[<>@`|\\[\]{}]|:\/\/|\bwww\.|\b(?:javascript|data|mailto|vbscript|file|https?):/i
/** Numbers in words, of which nothing can be checked. One is left out: it is more often no number. */
const NUMBER_WORD =
  /\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?|half|halved|thirds?|quarters?|twice|thrice|doubled?|doubling|tripled?|tripling|quadrupled?|\w+fold)\b/i
const OTHER_DIGIT = /(?![0-9])\p{N}/u

function createTextCheck(metrics: ReadonlyMap<string, number>): TextCheck {
  const names = namesIn(metrics)
  const always = [...Object.values(GUIDELINES), metrics.get('period.days') ?? 0, metrics.get('period.weeks') ?? 0]
  return (text, values) => {
    const rest = text.replace(names, ' ')
    if (MARKUP.test(rest) || HOST.test(rest) || OTHER_DIGIT.test(rest) || NUMBER_WORD.test(rest)) return false
    const known = [...values, ...always]
    return (rest.match(NUMBER) ?? []).every((number) =>
      known.some((value) => isSame(number.replaceAll(',', ''), value)),
    )
  }
}

/** Names of figures, and of what they are of: `total.sent`, `gmail.com`, `stream 2`, `week_1`. */
function namesIn(metrics: ReadonlyMap<string, number>): RegExp {
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
 * Whether a number as it is written is a figure: the same, or the figure rounded to the decimals that are written. Whole numbers stay as they are, and
 * a percentage below 10 keeps a decimal at least.
 */
export function isSame(written: string, figure: number): boolean {
  const value = Number(written)
  if (!Number.isFinite(value)) return false
  if (value === figure) return true
  if (Number.isInteger(figure)) return false
  const decimals = written.includes('.') ? written.length - written.indexOf('.') - 1 : 0
  if (decimals === 0 && Math.abs(figure) < 10) return false
  return Math.abs(value - figure) <= 0.5 / 10 ** decimals + 1e-9
}
