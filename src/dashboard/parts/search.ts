/** @module Reads what the query of a URL may have. For `validateSearch` of the routes. */

export type Search = Readonly<Record<string, unknown>>

const MAX_TEXT_LENGTH = 500

/** A text without spaces around it; undefined when it is empty. The router reads a value such as 42 as a number. */
export function readText(value: unknown, maxLength = MAX_TEXT_LENGTH): string | undefined {
  const isText = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  return (isText && String(value).trim().slice(0, maxLength)) || undefined
}

/** The value if it is one of `known`. */
export const readKnown = <Value extends string>(known: readonly Value[], value: unknown): Value | undefined =>
  known.find((name) => name === value)

/** A parameter, or nothing when it has no value. */
export const keep = <Name extends string, Value>(
  name: Name,
  value: Value | undefined,
): { readonly [K in Name]?: Value } =>
  (value === undefined ? {} : { [name]: value }) as { readonly [K in Name]?: Value }

const MAX_CURSOR_LENGTH = 1000

/** The cursor of a page after the first. */
export const parseCursor = ({ cursor }: Search) => keep('cursor', readText(cursor, MAX_CURSOR_LENGTH))

/** A whole number that is not below `min`. */
export function readCount(value: unknown, min: number): number | undefined {
  const count = Number(value)
  return Number.isSafeInteger(count) && count >= min ? count : undefined
}
