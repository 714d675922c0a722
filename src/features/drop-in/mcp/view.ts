/**
 * @module What a tool shows of a response of the API: only the fields that its view names, so that no secret and no
 * body gets in by accident. Text that strangers wrote is marked as untrusted and cut.
 */
import { isJsonObject } from '#platform/json-object.ts'

/**
 * Returns what to show of a value; undefined: nothing.
 * @param maxLength limit for each text of a stranger, in characters
 */
export type View = (value: unknown, maxLength: number) => unknown

/** Maximum length of our own texts, such as advice. */
const MAX_OWN_LENGTH = 1000
const MAX_ITEMS = 50

const cut = (text: string, maxLength: number): string =>
  text.length > maxLength ? `${text.slice(0, maxLength)}… (${text.length - maxLength} more characters)` : text

/** A value that the service itself made: an id, a status, a time, a number, our advice. */
export const own: View = (value) =>
  typeof value === 'string'
    ? cut(value, MAX_OWN_LENGTH)
    : typeof value === 'number' || typeof value === 'boolean'
      ? value
      : undefined

/** A text that a stranger may have written: `{untrusted: "…"}`. */
export const strange: View = (value, maxLength) =>
  typeof value === 'string' && value !== '' ? { untrusted: cut(value, maxLength) } : undefined

const PLAIN_ADDRESS = /^[A-Za-z0-9._+=-]{1,64}@[A-Za-z0-9.-]{1,255}$/

/** An address; one that could hold a sentence is marked as untrusted. */
export const address: View = (value, maxLength) =>
  typeof value === 'string' && PLAIN_ADDRESS.test(value) ? value : strange(value, maxLength)

/** Only the named fields of an object. */
export const fields =
  (views: Readonly<Record<string, View>>): View =>
  (value, maxLength) => {
    if (!isJsonObject(value)) return undefined
    const shown: Record<string, unknown> = {}
    for (const [name, view] of Object.entries(views)) {
      const field = view(value[name], maxLength)
      if (field !== undefined) shown[name] = field
    }
    return shown
  }

/** Views of fields that the service itself made, by their names. */
export const owned = (names: string): Record<string, View> =>
  Object.fromEntries(names.split(' ').map((name) => [name, own]))

/** The first items of a list. */
export const list =
  (view: View): View =>
  (value, maxLength) =>
    Array.isArray(value) ? value.slice(0, MAX_ITEMS).map((item) => view(item, maxLength)) : undefined

/** A page of a list, with the cursor of the next one. */
export const pageOf = (row: Readonly<Record<string, View>>): View =>
  fields({ data: list(fields(row)), pagination: fields(owned('total next_cursor')) })

/** The same view for every value of an object with arbitrary names. */
export const values =
  (view: View): View =>
  (value, maxLength) =>
    isJsonObject(value)
      ? Object.fromEntries(
          Object.entries(value)
            .slice(0, MAX_ITEMS)
            .map(([name, item]) => [name, view(item, maxLength)]),
        )
      : undefined

/** Maximum length of a result. Models pay for each character, and clients cut results that are much longer. */
export const MAX_RESULT_LENGTH = 50_000
/** Lengths to which the texts of strangers are cut: the first that makes the result short enough. */
const TEXT_LENGTHS = [16_000, 4000, 1000, 200, 0]

/** The JSON text of what a view shows, at most MAX_RESULT_LENGTH long; undefined when it cannot be so short. */
export function showWithin(view: View, value: unknown): string | undefined {
  for (const maxLength of TEXT_LENGTHS) {
    const text = JSON.stringify(view(value, maxLength) ?? {})
    if (text.length <= MAX_RESULT_LENGTH) return text
  }
  return undefined
}
