/** @module Rejects header values with characters that would end a header line. Pure. */
import { invalid } from '#platform/errors.ts'

const FORBIDDEN_CHARACTERS = /[\r\n\0]/

/** Throws a 422 on `field` if the value contains CR, LF or NUL. */
export function requireHeaderSafe(field: string, value: string): void {
  if (FORBIDDEN_CHARACTERS.test(value)) throw invalid(field, `${field} must not contain line breaks or NUL characters.`)
}
