/** @module Refuses characters that end a header line in values that become headers. Pure. */
import { invalid } from '#platform/errors.ts'

const FORBIDDEN_CHARACTERS = /[\r\n\0]/

/** Throws a 422 on `field` when the value has CR, LF or NUL. */
export function requireHeaderSafe(field: string, value: string): void {
  if (FORBIDDEN_CHARACTERS.test(value)) throw invalid(field, `${field} must not contain line breaks or NUL characters.`)
}
