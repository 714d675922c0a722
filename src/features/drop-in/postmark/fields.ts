/**
 * @module Reads the fields of a JSON object as Postmark does: without regard to the case of their names. Unknown fields
 * are ignored, and the response names them in `Tassis-Ignored`.
 */
import { Elysia } from 'elysia'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import type { JsonObject } from '#platform/json-object.ts'

/** Gives handlers the set `ignored`; the response names what they add to it. */
export const namesIgnored = new Elysia({ name: 'postmark-ignored' })
  .derive({ as: 'scoped' }, () => ({ ignored: new Set<string>() }))
  .onAfterHandle({ as: 'scoped' }, ({ ignored, set }) => setIgnored(set.headers as Record<string, string>, ignored))

/**
 * Reads known fields of an object, and adds the names of the others to `ignored`.
 * @param parent put before each name, such as `Attachments.`
 */
export type ReadFields = (value: JsonObject, ignored: Set<string>, parent?: string) => Record<string, unknown>

/** Creates a reader of objects with these fields. Null counts as left out. */
export function createFieldReader(names: readonly string[]): ReadFields {
  const byLowerCase = new Map(names.map((name) => [name.toLowerCase(), name]))
  return (value, ignored, parent = '') => {
    const fields: Record<string, unknown> = {}
    for (const [given, content] of Object.entries(value)) {
      const name = byLowerCase.get(given.toLowerCase())
      if (name === undefined) ignored.add(parent + given)
      else if (content !== null) fields[name] = content
    }
    return fields
  }
}
