/** @module What the query of a URL may have, for `validateSearch` of the routes; the filters of lists there and in `/v1`. */
import { toInstant } from './zone.ts'

/** A screen, with what its URL has, as a value: `linkOptions({ to: '/emails/$id', params: { id } })`. */
export type { LinkOptions as Target } from '@tanstack/react-router'

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

/** A filter whose name ends with `_date` has a day in the reader's zone, such as 2026-11-21. */
export interface Filter {
  readonly label: string
  /** What it may be, in words; by default any text. With `true` alone it is switched on or off. */
  readonly words?: Readonly<Record<string, string>>
  readonly placeholder?: string
  readonly maxLength?: number
  /** Whether it comes from links only. */
  readonly isHidden?: true
  /** Another filter, beside which it is shown while that has this value. */
  readonly only?: readonly [name: string, value: string]
}

/** By the names that `/v1` has for them; the form has them in this order. */
export type Filters = Readonly<Record<string, Filter>>

export type FilterValues<Table extends Filters = Filters> = { readonly [Name in keyof Table]?: string }

const DAY = /^\d{4}-\d{2}-\d{2}$/

/** Reads the filters of a list from the query of a URL. */
export const readFilters =
  <const Table extends Filters>(filters: Table) =>
  (search: Search): FilterValues<Table> =>
    Object.fromEntries(
      Object.entries(filters).flatMap(([name, { words, maxLength }]) => {
        const text = readText(search[name], maxLength) ?? ''
        const isValid = words ? Object.hasOwn(words, text) : !name.endsWith('_date') || DAY.test(text)
        return text !== '' && isValid ? [[name, text]] : []
      }),
    ) as FilterValues<Table>

/** Reads the filters of a list, and the cursor of a page after the first. */
export const readList =
  <const Table extends Filters>(filters: Table) =>
  (search: Search): FilterValues<Table> & { readonly cursor?: string } => ({
    ...readFilters(filters)(search),
    ...parseCursor(search),
  })

/** As `/v1` takes them: a day covers its first to its last instant in the reader's zone. */
export const toQuery = (values: FilterValues): Readonly<Record<string, string | undefined>> => ({
  ...values,
  ...keep('from_date', toTimeOf(values['from_date'], 'T00:00:00.000')),
  ...keep('to_date', toTimeOf(values['to_date'], 'T23:59:59.999')),
})

const toTimeOf = (day: string | undefined, time: string): string | undefined => day && toInstant(day + time, day)
