/** @module What filters have in common: their arguments as Jinja names them, and what they complain about. */

/** What a filter was given cannot be used; the message says why, without a full stop. */
export class FilterProblem extends Error {
  override readonly name = 'FilterProblem'
}

/** The meter of the render: takes units for work that the module does not see, and throws when they are used up. */
export type Charge = (units: number) => void

/** Widths and lengths beyond it are mistakes. */
export const MOST_WIDTH = 10_000

/** A text that is longer is no number and no date. */
export const MOST_NUMBER_LENGTH = 400

/** Characters of all texts in some values, also those in lists and mappings. */
export function charactersIn(values: readonly unknown[]): number {
  let characters = 0
  // Not by recursion: lists may lie in each other as deep as they like.
  const open: unknown[] = [...values]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') characters += value.length
    else if (Array.isArray(value)) for (const item of value) open.push(item)
    else if (value instanceof Map) for (const [key, item] of value) open.push(key, item)
  }
  return characters
}

export interface Arguments {
  /** The argument by its name, given as such or at its place; undefined: left out. */
  readonly get: (name: string) => unknown
}

/** @param given after the value: positional ones, then a Map of the named ones */
export function argumentsOf(given: readonly unknown[], names: readonly string[]): Arguments {
  const last = given.at(-1)
  const named = last instanceof Map ? (last as ReadonlyMap<unknown, unknown>) : undefined
  const positional = named ? given.slice(0, -1) : given
  if (positional.length > names.length) throw new FilterProblem('has too many arguments')
  for (const key of named?.keys() ?? [])
    if (!names.includes(String(key))) throw new FilterProblem(`has no argument "${String(key)}"`)
  return { get: (name) => named?.get(name) ?? positional[names.indexOf(name)] }
}

/** A value as minijinja prints it. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return 'none'
  if (typeof value === 'object') throw new FilterProblem('needs a text, not a list or mapping')
  return String(value)
}

export function numberOf(value: unknown, what?: string): number {
  const isText = typeof value === 'string' && value.length <= MOST_NUMBER_LENGTH && value.trim() !== ''
  const number = isText ? Number(value) : value
  if (typeof number === 'bigint') return Number(number)
  if (typeof number !== 'number' || !Number.isFinite(number))
    throw new FilterProblem(what === undefined ? 'needs a number' : `needs a number ${what}`)
  return number
}

/** A width or length: a whole number from `least` on. */
export function widthOf(value: unknown, name: string, fallback: number, least = 0): number {
  if (value === undefined) return fallback
  const width = numberOf(value, `as ${name}`)
  if (!Number.isInteger(width) || width < least || width > MOST_WIDTH)
    throw new FilterProblem(`needs a ${name} from ${least} to ${MOST_WIDTH}`)
  return width
}

export const flagOf = (value: unknown, fallback: boolean): boolean =>
  value === undefined ? fallback : value !== false && value !== 0 && value !== '' && value !== null

/** The text itself where each unit of UTF-16 is a character, else its characters: lengths are in characters. */
export const charactersOf = (text: string): string | readonly string[] =>
  /[\ud800-\udbff]/.test(text) ? [...text] : text

export const sliceOf = (characters: string | readonly string[], from: number, until: number): string =>
  typeof characters === 'string' ? characters.slice(from, until) : characters.slice(from, until).join('')
