/** @module What the API returns of a row, by the schema of the response. */
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import { formatUuid } from '../ids.ts'
import { perOwner } from '../per-owner.ts'
import { isoTime } from './envelope.ts'

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name
type FieldOf<Name> = Name extends 'id' ? 'uuid' : Name extends string ? CamelCase<Name> : never

/** A row has times in milliseconds and ids as bytes where the response has texts, and null for what it leaves out. */
type ValueOf<T> = undefined extends T ? StoredAs<Exclude<T, undefined>> | null : StoredAs<T>
type StoredAs<T> = T extends readonly (infer Item)[]
  ? readonly Item[]
  : T | (string extends T ? number | Uint8Array : never)

type RowOf<Wire, Given> = { readonly [Name in Exclude<keyof Wire, keyof Given> as FieldOf<Name>]: ValueOf<Wire[Name]> }

const readFields = perOwner((schema: TObject) =>
  Object.entries(schema.properties).map(([name, { anyOf, ...field }]) => ({
    name,
    rowName: name === 'id' ? 'uuid' : name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    isOptional: !schema.required?.includes(name),
    isTime: ((anyOf?.[0] ?? field) as TSchema)['x-format'] === 'date-time',
  })),
)

/**
 * The fields of a schema: those that are given, and the others from the fields of the row with their names in camel
 * case, `created_at` from `createdAt` and `id` from `uuid`. Times and ids become texts; an optional field is left out
 * where the row has null or no such field.
 */
export function toWire<T extends TObject, Given extends Partial<Static<T>>>(
  schema: T,
  row: RowOf<Static<T>, Given>,
  given: Given,
): Static<T> {
  const values = row as Readonly<Record<string, unknown>>
  return {
    ...Object.fromEntries(
      readFields(schema).flatMap(({ name, rowName, isOptional, isTime }) => {
        const value = values[rowName]
        if (name in given || (isOptional && value == null)) return []
        if (value instanceof Uint8Array) return [[name, formatUuid(value)]]
        return [[name, isTime && typeof value === 'number' ? isoTime(value) : value]]
      }),
    ),
    ...given,
  } as Static<T>
}
