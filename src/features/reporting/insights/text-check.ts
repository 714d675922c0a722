/**
 * @module Checks that a model's text is plain and contains only permitted numbers. A number is permitted if it is a
 * given stat in its unit, or if words next to it name it as a number of the period or a guideline. Never edits a
 * text. A correct number does not make its sentence true.
 */
import { GUIDELINES } from './stats.ts'

/** The numbers that a text may contain in addition to the period's: stats by name, and guidelines. */
export interface AllowedNumbers {
  readonly figures: ReadonlyMap<string, number>
  /**
   * `named`: a guideline is permitted only next to a word such as "guideline", because it is no stat of the account.
   * `wished`: the text is advice, which may contain any guideline percentage.
   */
  readonly guidelines: 'named' | 'wished'
}

export type TextCheck = (text: string, sayable: AllowedNumbers) => boolean

/** Text on one line, without invisible characters. */
export const toPlainText = (text: string): string =>
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
/** Numbers in words, which cannot be checked. "One" is omitted: it is rarely a number. */
const NUMBER_WORD =
  /\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|dozens?|half|halved|thirds?|quarters?|twice|thrice|doubled?|doubling|tripled?|tripling|quadrupled?|\w+fold)\b/i
const OTHER_DIGIT = /(?![0-9])\p{N}|[\u2030\u2031]/u
/**
 * Digits that readers would take for another number than this check reads: `2 000`, `1/2`, `100k`, `1.000.000`, `2,5`,
 * `007`, `-5`.
 */
const OTHER_NUMBER = new RegExp(
  [
    String.raw`\d[\s'\u2019\u00b4_/*^\u00d7\u00b7:]+\d`,
    String.raw`\d(?:\p{L}|\s(?:k|m|mn|mln|mio|mrd|bn|tsd)(?!\p{L}))`,
    String.raw`\d\.\d+\.\d`,
    String.raw`\d,(?!\d{3}(?!\d))\d`,
    String.raw`(?<![\d.,])0\d`,
    String.raw`(?<![\p{L}\p{N}%)])[-+\u2212\u00b1]\d`,
  ].join('|'),
  'iu',
)

/** Matches a percent sign after a number, also after the first number of `2-5%`. */
const PERCENT = /^(?:\s?[-\u2013]\s?\d+(?:\.\d+)?)?\s?(?:%|per ?cent)/i
const GUIDELINE_BEFORE = /\b(?:guideline|threshold|limit)s?\b[^.;\d]{0,30}$/i
const GUIDELINE_AFTER = /^\s?(?:%|per ?cent)\s(?:\p{L}+\s){0,2}(?:guideline|threshold|limit)/iu

/** @param metrics all stats; a text may contain their names */
export function createTextCheck(metrics: ReadonlyMap<string, number>): TextCheck {
  const names = buildNamePattern(metrics)
  const guidelines: readonly number[] = Object.values(GUIDELINES)
  const periods = [
    { value: metrics.get('period.days'), unit: /^[\s-]?days?\b/i },
    { value: metrics.get('period.weeks'), unit: /^[\s-]?weeks?\b/i },
  ]
  return (text, { figures, guidelines: how }) => {
    // Names are replaced by a character that neither joins nor ends a number.
    const rest = text.replace(names, ' \u2022 ')
    if ([MARKUP, HOST, OTHER_DIGIT, OTHER_NUMBER, NUMBER_WORD].some((wrong) => wrong.test(rest))) return false
    return [...rest.matchAll(NUMBER)].every(({ 0: number, index }) => {
      const written = number.replaceAll(',', '')
      const after = rest.slice(index + number.length)
      const isPercent = PERCENT.test(after)
      for (const [name, value] of figures)
        if (isSameNumber(written, value) && (!isPercent || name.endsWith('_pct'))) return true
      if (!isPercent) return periods.some(({ value, unit }) => Number(written) === value && unit.test(after))
      const isAllowed = how === 'wished' || GUIDELINE_BEFORE.test(rest.slice(0, index)) || GUIDELINE_AFTER.test(after)
      return isAllowed && guidelines.includes(Number(written))
    })
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
