/** @module The filters of lists: in the URL, and as `/v1` takes them. */

import { keep, parseCursor, readText, type Search } from './search.ts'
import { toInstant } from './zone.ts'

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
