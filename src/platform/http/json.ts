/**
 * @module Parses untrusted JSON. JSON.parse alone would turn the 3 bytes of `{},` into 90 bytes of heap, would accept
 * nesting that later overflows the stack of code that visits the value, and takes half a microsecond for each name of a
 * member. So the text is measured first. Errors never contain parts of the text.
 */
import { AppError } from '../errors.ts'

/** Maximum nesting of arrays and objects. JSON.stringify of Bun 1.4.5 fails somewhere above 10,000. */
export const MAX_JSON_DEPTH = 64
/**
 * Maximum number of values in a body. 10,000 contacts with ten fields each have 130,000 values; 500 emails with
 * everything allowed (50 recipients, 50 headers, 20 tags, 150 values of their own) have 140,000.
 */
export const MAX_JSON_VALUES = 200_000
/**
 * Maximum number of names of members. So many different names take 6 to 16 ms to parse, during which nothing else runs.
 * Further names cost little if they repeat, as those of the rows of a table do.
 */
export const MAX_JSON_NAMES = 20_000
const MAX_REPEATED_NAMES = 1000
/** Heap per value, besides the value's text: the maximum measured in Bun 1.4.5, for empty objects. */
export const HEAP_BYTES_PER_JSON_VALUE = 96

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_BRACKET = 91
const BACKSLASH = 92
const CLOSE_BRACKET = 93
const OPEN_BRACE = 123
const CLOSE_BRACE = 125
/**
 * Up to this length the end of a string is searched character by character; indexOf is faster only for longer strings.
 */
const SHORT_STRING_LENGTH = 24

/**
 * Measures a JSON text without parsing it. Throws a 400 when the text is nested too deeply and a 413 when it has too
 * many values, more than `maxNames` names, or too many different names.
 * @returns the number of values; for a malformed text, an upper bound
 */
export function measureJson(text: string, maxNames = MAX_JSON_VALUES): number {
  let depth = 0
  let values = 1
  let names = 0
  /** Where the last string begins and ends. */
  let [start, end] = [0, 0]
  const repeated = new Set<string>()
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) {
      start = i
      end = findStringEnd(text, i + 1)
      i = end
    } else if (c === COLON) {
      if (++names > maxNames) throw tooMany(maxNames, 'field names', OR_LISTS)
      if (names > MAX_JSON_NAMES && repeated.add(text.slice(start, end)).size > MAX_REPEATED_NAMES)
        throw tooMany(MAX_JSON_NAMES, 'different field names', OR_LISTS)
    } else if (c === COMMA) values++
    else if (c === OPEN_BRACKET || c === OPEN_BRACE) {
      values++
      if (++depth > MAX_JSON_DEPTH) throw invalidJson(`it is nested deeper than ${MAX_JSON_DEPTH} levels`)
    } else if (c === CLOSE_BRACKET || c === CLOSE_BRACE) depth--
    if (values > MAX_JSON_VALUES) throw tooMany(MAX_JSON_VALUES, 'values')
  }
  return values
}

const OR_LISTS = ', or as lists instead of objects'

const tooMany = (limit: number, what: string, otherwise = ''): AppError =>
  new AppError(
    413,
    'payload_too_large',
    `The request body has more than ${limit} ${what}; send it in several requests${otherwise}.`,
  )

/** Index of the quote that ends the string starting at `start`; the text's length when there is none. */
function findStringEnd(text: string, start: number): number {
  const near = Math.min(start + SHORT_STRING_LENGTH, text.length)
  let i = start
  while (i < near) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) return i
    i += c === BACKSLASH ? 2 : 1
  }
  for (;;) {
    const quote = text.indexOf('"', i)
    if (quote === -1) return text.length
    let before = quote - 1
    while (before >= i && text.charCodeAt(before) === BACKSLASH) before--
    // An odd number of backslashes escapes the quote.
    if ((quote - before) % 2 === 1) return quote
    i = quote + 1
  }
}

/** Parses JSON text; throws a 400 `invalid_json` when the text is invalid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw invalidJson(toKnownReason(error))
  }
}

/** The parser's messages may quote the text, so only these beginnings of messages are passed on. */
const KNOWN_REASON =
  /(unterminated string|unexpected eof|unexpected identifier|property name must be a string literal|expected '[}\]:]'|single quotes \('\) are not allowed|invalid escape character)/i

const toKnownReason = (error: unknown): string =>
  (error instanceof Error && KNOWN_REASON.exec(error.message)?.[1]?.toLowerCase()) || 'syntax error'

export const invalidJson = (reason: string): AppError =>
  new AppError(400, 'invalid_json', `The request body is not valid JSON: ${reason}.`)
