/** @module Texts of headers that strangers wrote, as they are kept: within bounds. Pure. */
import { parseMailbox } from '#protocols/address/parse.ts'

/** Of one header field; a list of 1,000 addresses is not kept whole. The message as it came in has everything. */
const MOST_CHARACTERS = 10_000

/** The text within its bound, without half a character at its end. */
export const headerBound = (text: string): string =>
  (text.length <= MOST_CHARACTERS ? text : text.slice(0, MOST_CHARACTERS)).toWellFormed()

/** The name in a From header; null when there is none. */
export function nameOf(from: string): string | null {
  const parsed = parseMailbox(from)
  const name = parsed.kind === 'ok' ? parsed.name?.trim() : undefined
  return name === undefined || name === '' ? null : name
}
