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
  /** By lower-case name; the last of repeated ones. */
  readonly parameters: ReadonlyMap<string, ParameterValue>
}

export interface ParameterValue {
  /** One character per octet. */
  readonly octets: string
  /** As RFC 2231 declares it, `''` if it is left out; undefined: the parameter is not in that form. */
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
    const segments = extended.get(base)
    const segment = { number: Number(number ?? 0), octets, isPercentEncoded }
    if (segments) segments.push(segment)
    else extended.set(base, [segment])
  }
  // RFC 6266 §4.3: the plain form is for readers that do not support the extended one.
  for (const [name, segments] of extended) plain.set(name, joinSegments(segments))
  return { value, parameters: plain }
}

/**
 * Decodes a parameter to text.
 * @param bodyCharset as for `decodeHeaderText`
 */
export const decodeParameter = ({ octets, charset }: ParameterValue, bodyCharset: string | null): string =>
  charset === undefined ? decodeWords(decodeHeaderText(octets, bodyCharset)) : decodeText(toLatin1(octets), charset)

const toLatin1 = (octets: string): Buffer => Buffer.from(octets, 'latin1')

/** File names may contain parentheses: `report (1).pdf`. */
const FILE_NAME = /^(?:file)?name(?:\*|$)/
/** RFC 2231 §3 and §4: `name*`, `name*0`, `name*0*`. */
const SEGMENT = /^([^*]+)(?:\*(\d{1,9}))?(\*)?$/

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
   * Whether a comment that is never closed was found. Later parentheses are then literal, so that the search for an end
   * is not repeated.
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
   * @param isFileName keeps parentheses that are followed by more text outside of quotes, and the backslashes of a path
   */
  read(isFileName: boolean, end = ';'): string {
    const text = this.#text
    let out = ''
    /** Comments and white space read so far; they belong to the value if more of it follows. */
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
        // A name may begin with a parenthesis.
        out += (out === '' ? pending.trimStart() : pending) + char
        pending = ''
      }
    }
    return out
  }

  /** Reads from a quote up to the next one, and stops there, or up to the end. */
  #readQuoted(isFileName: boolean): string {
    const text = this.#text
    let out = ''
    for (this.#at++; this.#at < text.length && text[this.#at] !== '"'; this.#at++) {
      const next = text[this.#at + 1]
      // A backslash is also the second octet of characters in Shift_JIS, Big5 and GBK.
      const isEscape = next === '"' || next === '\\' || (next !== undefined && !isFileName)
      if (text[this.#at] === '\\' && isEscape) this.#at++
      out += text[this.#at]
    }
    return out
  }

  /** Comments can be nested. Returns undefined when the comment is not closed, so it is not one. */
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
