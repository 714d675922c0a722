/**
 * @module Parses MIME fields with parameters (RFC 2045 §5.1, RFC 2183, RFC 2231): value, comments, quoted strings,
 * continuations. Reads one character per octet, because a sender may split a character between two continuations. Takes
 * linear time; never throws.
 */
import { decodeHeaderText, decodeText } from './charset.ts'
import { decodeWords } from './encoded-words.ts'

export interface StructuredField {
  /** The text before the first semicolon, without comments. */
  readonly value: string
  /** Parameters by lower-case name; the last one if a name is repeated. */
  readonly parameters: ReadonlyMap<string, ParameterValue>
}

export interface ParameterValue {
  /** One character per octet. */
  readonly octets: string
  /**
   * The charset that the parameter declares in the form of RFC 2231, `''` if it leaves the charset out; undefined if
   * the parameter does not have that form.
   */
  readonly charset: string | undefined
}

/** Parses a field without its name, one character per octet. */
export function parseStructuredField(field: string): StructuredField {
  const scanner = new Scanner(field)
  const value = scanner.read(false)
  const plain = new Map<string, ParameterValue>()
  const extended = new Map<string, Segment[]>()
  while (scanner.skipSemicolon()) {
    const { text: name, isEqualsNext } = scanner.readName()
    if (name === '') continue
    const key = name.toLowerCase()
    const octets = isEqualsNext ? scanner.read(FILE_NAME.test(key)) : ''
    const [, base = key, number, star] = SEGMENT.exec(key) ?? []
    const isPercentEncoded = star === '*'
    if (number === undefined && !isPercentEncoded) {
      plain.set(key, { octets, charset: undefined })
      continue
    }
    extended.getOrInsert(base, []).push({ number: Number(number ?? 0), octets, isPercentEncoded })
  }
  // Replaces the plain form of a parameter, which RFC 6266 §4.3 intends for readers that do not support the extended
  // form.
  for (const [name, segments] of extended) plain.set(name, joinSegments(segments))
  return { value, parameters: plain }
}

/**
 * Decodes a parameter to text.
 * @param bodyCharset as in `decodeHeaderText`
 */
export const decodeParameter = ({ octets, charset }: ParameterValue, bodyCharset: string | null): string =>
  charset === undefined ? decodeWords(decodeHeaderText(octets, bodyCharset)) : decodeText(toLatin1(octets), charset)

const toLatin1 = (octets: string): Buffer => Buffer.from(octets, 'latin1')

/** Parameters with a file name, which may contain parentheses: `report (1).pdf`. */
const FILE_NAME = /^(?:file)?name(?:\*|$)/
/** Names in the forms of RFC 2231 §3 and §4: `name*`, `name*0`, `name*0*`. */
const SEGMENT = /^([^*]+)(?:\*(\d{1,9}))?(\*)?$/

/** Without an end, it extends to the end of the field. */
const QUOTED = /"([^"\\]*(?:\\[\s\S]?[^"\\]*)*)"?/y

interface Segment {
  readonly number: number
  readonly octets: string
  readonly isPercentEncoded: boolean
}

function joinSegments(segments: Segment[]): ParameterValue {
  segments.sort((one, other) => one.number - other.number)
  const [first] = segments
  const declared = first?.isPercentEncoded ? /^([^']*)'[^']*'/.exec(first.octets) : null
  const octets = segments.map((segment, index) => {
    const text = index === 0 && declared ? segment.octets.slice(declared[0].length) : segment.octets
    return segment.isPercentEncoded ? decodePercent(text) : text
  })
  const isExtended = segments.some(({ isPercentEncoded }) => isPercentEncoded)
  return { octets: octets.join(''), charset: isExtended ? (declared?.[1] ?? '') : undefined }
}

const decodePercent = (text: string): string =>
  text.replace(/%([\dA-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

/** Reads a field from left to right. */
class Scanner {
  readonly #text: string
  #at = 0
  /**
   * Whether a comment without an end was found. Later parentheses are then literal, so that the search for an end is
   * not repeated.
   */
  #hasOpenComment = false

  constructor(text: string) {
    this.#text = text
  }

  /** Skips a semicolon; returns false at the end of the field. */
  skipSemicolon(): boolean {
    return this.#text[this.#at++] === ';'
  }

  /** Reads a name up to and including its `=`, or up to the next semicolon. */
  readName(): { readonly text: string; readonly isEqualsNext: boolean } {
    const text = this.read(false, '=')
    const isEqualsNext = this.#text[this.#at] === '='
    if (isEqualsNext) this.#at++
    return { text, isEqualsNext }
  }

  /**
   * Reads up to the next semicolon or `end`, without comments, quotes and surrounding white space.
   * @param isFileName true: keeps parentheses that are followed by more text outside of quotes, and the backslashes of
   * a path
   */
  read(isFileName: boolean, end = ';'): string {
    const text = this.#text
    let out = ''
    /**
     * Comments and white space read since the last part of the value; they belong to the value only if more of it
     * follows.
     */
    let pending = ''
    let isQuoted = false
    for (; this.#at < text.length; this.#at++) {
      const char = text[this.#at] ?? ''
      if (char === ';' || char === end) break
      if (char === '"') {
        out += (out === '' ? '' : pending) + this.#readQuoted(isFileName)
        pending = ''
        isQuoted = true
        continue
      }
      const commentEnd = char === '(' ? this.#findCommentEnd() : undefined
      if (commentEnd !== undefined) {
        if (isFileName && !isQuoted) pending += text.slice(this.#at, commentEnd + 1)
        this.#at = commentEnd
      } else if (isSpace(char)) pending += char
      else {
        // White space before the value is dropped. A parenthesis before it is kept, because a file name may begin with
        // one.
        out += (out === '' ? pending.trimStart() : pending) + char
        pending = ''
      }
    }
    return out
  }

  /** Reads a quoted string from its first quote; stops at its last octet. */
  #readQuoted(isFileName: boolean): string {
    QUOTED.lastIndex = this.#at
    const [, inside = ''] = QUOTED.exec(this.#text) ?? []
    this.#at = QUOTED.lastIndex - 1
    // In a file name, most backslashes are literal: a backslash is also the second octet of characters in Shift_JIS,
    // Big5 and GBK.
    return inside.replace(isFileName ? /\\(["\\])/g : /\\([\s\S])/g, '$1')
  }

  /**
   * Returns the end of the comment that begins here; comments can be nested. Undefined when it is not closed and is
   * therefore not a comment.
   */
  #findCommentEnd(): number | undefined {
    if (this.#hasOpenComment) return undefined
    const text = this.#text
    let depth = 0
    for (let at = this.#at; at < text.length; at++) {
      const char = text[at]
      if (char === '\\') at++
      else if (char === '(') depth++
      else if (char === ')' && --depth === 0) return at
    }
    this.#hasOpenComment = true
    return undefined
  }
}

const isSpace = (char: string): boolean => char === ' ' || char === '\t' || char === '\r' || char === '\n'
