/**
 * @module Checks that a model's text is plain and that each number in it is a given stat, a guideline or one of the
 * period. Never edits a text. A correct number does not make its sentence true.
 */
import { GUIDELINES } from './stats.ts'

/** @param figures the stats, by name, that the text may contain */
export type TextCheck = (text: string, figures: ReadonlyMap<string, number>) => boolean

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

/** @param metrics all stats; a text may contain their names */
export function createTextCheck(metrics: ReadonlyMap<string, number>): TextCheck {
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
