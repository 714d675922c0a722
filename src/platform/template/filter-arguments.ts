/** @module Helpers of filters: arguments named as in Jinja, conversions, and errors. */

/** An invalid filter input; the message says why, without a full stop. */
export class FilterError extends Error {
  override readonly name = 'FilterError'
}

/** Charges units for work outside of the WASM module; throws when they are used up. */
export type Charge = (units: number) => void

/** Maximum width or length; a larger one is a mistake. */
export const MAX_WIDTH = 10_000

/** Maximum length of a number or date in text form. */
export const MAX_NUMBER_LENGTH = 400

/** Total length of all texts in the values, including those in lists and mappings. */
export function countCharacters(values: readonly unknown[]): number {
  let characters = 0
  // Not recursive: lists may be nested to any depth.
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
  /** The argument with this name, passed by name or position; undefined: missing. */
  readonly get: (name: string) => unknown
}

/** @param given the arguments after the value: first the positional ones, then a Map of the named ones, if any */
export function parseArguments(given: readonly unknown[], names: readonly string[]): Arguments {
  const last = given.at(-1)
  const named = last instanceof Map ? (last as ReadonlyMap<unknown, unknown>) : undefined
  const positional = named ? given.slice(0, -1) : given
  if (positional.length > names.length) throw new FilterError('has too many arguments')
  for (const key of named?.keys() ?? [])
    if (!names.includes(String(key))) throw new FilterError(`has no argument "${String(key)}"`)
  return { get: (name) => named?.get(name) ?? positional[names.indexOf(name)] }
}

export function formatValue(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return 'none'
  if (typeof value === 'object') throw new FilterError('needs a text, not a list or mapping')
  return String(value)
}

export function toNumber(value: unknown, what?: string): number {
  const isText = typeof value === 'string' && value.length <= MAX_NUMBER_LENGTH && value.trim() !== ''
  const number = isText ? Number(value) : value
  if (typeof number === 'bigint') return Number(number)
  if (typeof number !== 'number' || !Number.isFinite(number))
    throw new FilterError(what === undefined ? 'needs a number' : `needs a number ${what}`)
  return number
}

/** A width or length: a whole number of at least `min`. */
export function toWidth(value: unknown, name: string, fallback: number, min = 0): number {
  if (value === undefined) return fallback
  const width = toNumber(value, `as ${name}`)
  if (!Number.isInteger(width) || width < min || width > MAX_WIDTH)
    throw new FilterError(`needs a ${name} from ${min} to ${MAX_WIDTH}`)
  return width
}

export const toFlag = (value: unknown, fallback: boolean): boolean =>
  value === undefined ? fallback : value !== false && value !== 0 && value !== '' && value !== null

/**
 * Returns the text itself if each UTF-16 unit is a character, otherwise the list of its characters, because widths and
 * lengths count characters.
 */
export const splitCharacters = (text: string): string | readonly string[] =>
  /[\ud800-\udbff]/.test(text) ? [...text] : text

export const sliceCharacters = (characters: string | readonly string[], from: number, until: number): string =>
  typeof characters === 'string' ? characters.slice(from, until) : characters.slice(from, until).join('')
