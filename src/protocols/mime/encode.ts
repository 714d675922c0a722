/**
 * @module Encodes outgoing parts with a Content-Transfer-Encoding (RFC 2045 §6), in linear time for any content. The
 * generators yield between chunks, so that a large part does not block the event loop. Deterministic: the encoding
 * depends only on the octets, so every attempt sends the same bytes.
 */
import { asBuffer } from './source.ts'

/** The body of a MIME part as sent on the wire. */
export interface EncodedPart {
  readonly encoding: '7bit' | '8bit' | 'quoted-printable' | 'base64'
  /** The encoded content in pieces. Base64 always ends in CRLF; other text ends as it did in the input. */
  readonly pieces: readonly Buffer[]
}

/** Octets scanned or encoded between two yields, which takes a fraction of a millisecond. */
const CHUNK_BYTES = 64 * 1024
/** Maximum length of a line: RFC 2045 §6.7 and §6.8. */
const MAX_LINE_LENGTH = 76
/** Maximum length of a line that is not encoded: RFC 5322 §2.1.1. */
const MAX_PLAIN_LINE_LENGTH = 998
/** Octets encoded in one line of base64. */
const LINE_OCTETS = 57
const BASE64_BLOCK_OCTETS = LINE_OCTETS * 1024

const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const EQUALS = 61
const UPPER_F = 70
const UNDERSCORE = 95
const UPPER_T = 84
const CRLF = Buffer.from('\r\n')
const FROM = Buffer.from('From ')
const HEX = Buffer.from('0123456789ABCDEF')

/**
 * What an octet is to quoted-printable. White space is a literal, and is escaped at a line end afterwards, because
 * telling every blank from other literals would double the time.
 */
const LITERAL = 1
const LINE_END = 2
/** "F" may begin a "From ". */
const CAPITAL_F = 3
const OCTET_KINDS = new Uint8Array(256)
OCTET_KINDS.fill(LITERAL, SPACE, 127)
OCTET_KINDS[TAB] = LITERAL
OCTET_KINDS[EQUALS] = 0
OCTET_KINDS[UPPER_F] = CAPITAL_F
OCTET_KINDS[CR] = OCTET_KINDS[LF] = LINE_END

/**
 * Encodes a text part: left unchanged if relays would not change it, else encoded in the shorter of quoted-printable
 * and base64. Converts all line breaks to CRLF.
 * @param utf8 well-formed text
 */
export function* encodeText(utf8: Uint8Array): Generator<void, EncodedPart> {
  const text = asBuffer(utf8)
  const survey = new EncodingSurvey()
  yield* forEachChunk(text, (from, to) => survey.scan(text, from, to))
  const { isSafe, escapedCount } = survey
  const sizeBytes = text.length + survey.missingOctets
  if (isSafe) return { encoding: '7bit', pieces: sizeBytes === 0 ? [] : [yield* normaliseLineEnds(text, sizeBytes)] }
  if (escapedCount * 2 > sizeBytes * BASE64_GROWTH)
    return yield* encodeBase64([yield* normaliseLineEnds(text, sizeBytes)])
  const writer = new QuotedPrintableWriter(sizeBytes, escapedCount)
  yield* forEachChunk(text, (from, to) => writer.write(text, from, to))
  return { encoding: 'quoted-printable', pieces: [writer.encoded] }
}

/** Returns text as it is, with CRLF at each line end; undefined if it has a NUL or a line that is too long to be sent. */
export function* encodeLines(content: Uint8Array): Generator<void, EncodedPart | undefined> {
  const text = asBuffer(content)
  const survey = new EncodingSurvey()
  yield* forEachChunk(text, (from, to) => survey.scan(text, from, to))
  const { isAscii, hasNul, maxLineLength, missingOctets } = survey
  if (hasNul || maxLineLength > MAX_PLAIN_LINE_LENGTH) return undefined
  const pieces = text.length === 0 ? [] : [yield* normaliseLineEnds(text, text.length + missingOctets)]
  return { encoding: isAscii ? '7bit' : '8bit', pieces }
}

/** How much longer base64 is than its input, line breaks included, as a fraction of the input. */
const BASE64_GROWTH = (4 * (MAX_LINE_LENGTH + 2)) / (3 * MAX_LINE_LENGTH) - 1

/**
 * Encodes a part in base64.
 * @param content pieces of any length, which are read one after the other
 */
export function* encodeBase64(content: Iterable<Uint8Array>): Generator<void, EncodedPart> {
  const pieces: Buffer[] = []
  let block = Buffer.allocUnsafe(BASE64_BLOCK_OCTETS)
  let filled = 0
  for (const bytes of content) {
    for (let from = 0; from < bytes.length; ) {
      const taken = Math.min(bytes.length - from, block.length - filled)
      block.set(bytes.subarray(from, from + taken), filled)
      filled += taken
      from += taken
      if (filled < block.length) continue
      pieces.push(formatBase64Lines(block))
      filled = 0
      yield
    }
  }
  block = block.subarray(0, filled)
  if (filled > 0 || pieces.length === 0) pieces.push(formatBase64Lines(block))
  return { encoding: 'base64', pieces }
}

/**
 * Writes lines of 76 characters, each with its CRLF; the last line may be shorter. For empty input, writes a lone line
 * break.
 */
function formatBase64Lines(block: Buffer): Buffer {
  const digits = Buffer.from(block.toString('base64'), 'latin1')
  const lineCount = Math.max(1, Math.ceil(digits.length / MAX_LINE_LENGTH))
  const lines = Buffer.allocUnsafe(digits.length + lineCount * CRLF.length)
  let at = 0
  for (let line = 0; line < lineCount; line++) {
    at += digits.copy(lines, at, line * MAX_LINE_LENGTH, (line + 1) * MAX_LINE_LENGTH)
    lines[at++] = CR
    lines[at++] = LF
  }
  return lines
}

/**
 * Calls a function for each chunk, and yields between the chunks. Loops over octets stay in the called function,
 * because they are slow inside of generators.
 */
function* forEachChunk(text: Buffer, run: (from: number, to: number) => void): Generator<void, void> {
  for (let from = 0; from < text.length; from += CHUNK_BYTES) {
    if (from > 0) yield
    run(from, Math.min(from + CHUNK_BYTES, text.length))
  }
}

/**
 * Converts every CR, LF and CRLF to CRLF; returns the text itself when nothing changes.
 * @param sizeBytes size of the result
 */
function* normaliseLineEnds(text: Buffer, sizeBytes: number): Generator<void, Buffer> {
  if (sizeBytes === text.length) return text
  const normalised = Buffer.allocUnsafe(sizeBytes)
  let at = 0
  yield* forEachChunk(text, (from, to) => {
    at = copyWithCrlf(text, from, to, normalised, at)
  })
  return normalised
}

function copyWithCrlf(text: Buffer, from: number, to: number, out: Buffer, outFrom: number): number {
  let at = outFrom
  let last = text[from - 1]
  for (let i = from; i < to; i++) {
    const octet = text[i] ?? 0
    if (octet === LF && last !== CR) out[at++] = CR
    out[at++] = octet
    if (octet === CR && text[i + 1] !== LF) out[at++] = LF
    last = octet
  }
  return at
}

/** Collects the facts that decide the encoding of a text. Any of CR, LF and CRLF ends a line. */
class EncodingSurvey {
  /**
   * Whether the text can be sent unchanged. Not all ASCII text can: relays drop white space at line ends, mbox writers
   * escape "From ", a body must not contain a boundary (`=_T`), and lines must be short enough for any reader.
   */
  isSafe = true
  isAscii = true
  hasNul = false
  maxLineLength = 0
  /** Number of octets that quoted-printable writes as three octets. */
  escapedCount = 0
  /** Number of octets that are missing for each line to end in CRLF. */
  missingOctets = 0
  #lineStart = 0

  scan(text: Buffer, from: number, to: number): void {
    let { isSafe, escapedCount, missingOctets } = this
    let lineStart = this.#lineStart
    for (let i = from; i < to; i++) {
      const octet = text[i] ?? 0
      const kind = OCTET_KINDS[octet]
      if (kind === LITERAL) continue
      if (kind === LINE_END) {
        if (octet === LF ? text[i - 1] !== CR : text[i + 1] !== LF) missingOctets++
        if (isBlank(text[i - 1])) escapedCount++
        const length = i - lineStart
        isSafe &&= length <= MAX_LINE_LENGTH && !isBlank(text[i - 1])
        if (length > this.maxLineLength) this.maxLineLength = length
        lineStart = i + 1
      } else if (octet === EQUALS) {
        escapedCount++
        if (text[i + 1] === UNDERSCORE && text[i + 2] === UPPER_T) isSafe = false
      } else if (kind !== CAPITAL_F || (i === lineStart && isFromLine(text, i))) {
        escapedCount++
        isSafe = false
        if (octet > 127) this.isAscii = false
        else if (octet === 0) this.hasNul = true
      }
    }
    if (to === text.length && to > lineStart) {
      this.maxLineLength = Math.max(this.maxLineLength, to - lineStart)
      if (isBlank(text[to - 1])) escapedCount++
      isSafe &&= to - lineStart <= MAX_LINE_LENGTH && !isBlank(text[to - 1])
    }
    this.isSafe = isSafe
    this.escapedCount = escapedCount
    this.missingOctets = missingOctets
    this.#lineStart = lineStart
  }
}

const isBlank = (octet: number | undefined): boolean => octet === SPACE || octet === TAB

const isFromLine = (text: Buffer, at: number): boolean =>
  text[at] === UPPER_F && text.compare(FROM, 0, FROM.length, at, Math.min(at + FROM.length, text.length)) === 0

/** Never puts a soft line break inside an escape or a character, because some readers decode line by line. */
class QuotedPrintableWriter {
  readonly #out: Buffer
  #at = 0
  #column = 0

  /** @param sizeBytes size of the text with CRLF at each line end */
  constructor(sizeBytes: number, escapedCount: number) {
    const encodedBytes = sizeBytes + escapedCount * 2
    // On every line, there is space for a soft line break and for the escape of a "From " after it. The number of lines
    // is the largest possible: each line may end early to keep a character of four octets whole.
    const softLineCount = Math.ceil(encodedBytes / (MAX_LINE_LENGTH - 1 - 3 * MAX_CHARACTER_OCTETS)) + 1
    this.#out = Buffer.allocUnsafe(encodedBytes + softLineCount * 5)
  }

  get encoded(): Buffer {
    return this.#out.subarray(0, this.#at)
  }

  write(text: Buffer, from: number, to: number): void {
    const out = this.#out
    let at = this.#at
    let column = this.#column
    for (let i = from; i < to; i++) {
      const octet = text[i] ?? 0
      const kind = OCTET_KINDS[octet]
      if (kind === LITERAL && column < MAX_LINE_LENGTH - 1) {
        out[at++] = octet
        column++
        continue
      }
      if (kind === LINE_END) {
        if (octet === LF && text[i - 1] === CR) continue
        at = this.#escapeLastBlank(at, column)
        out[at++] = CR
        out[at++] = LF
        column = 0
        continue
      }
      const isLiteral = kind === LITERAL || kind === CAPITAL_F
      if (column + (isLiteral ? 1 : 3 * countCharacterOctets(octet)) > MAX_LINE_LENGTH - 1) {
        at = this.#breakLine(at)
        column = 0
      }
      if (kind === LITERAL || (isLiteral && (column > 0 || !isFromLine(text, i)))) {
        out[at++] = octet
        column++
      } else {
        at = this.#escape(at, octet)
        column += 3
      }
    }
    if (to === text.length) at = this.#escapeLastBlank(at, column)
    this.#at = at
    this.#column = column
  }

  /** Escapes white space at the end of a line, which ends at `at`; returns the new end. */
  #escapeLastBlank(at: number, column: number): number {
    const last = this.#out[at - 1]
    if (column === 0 || last === undefined || !isBlank(last)) return at
    const needsBreak = column - 1 + 3 > MAX_LINE_LENGTH - 1
    return this.#escape(needsBreak ? this.#breakLine(at - 1) : at - 1, last)
  }

  #escape(at: number, octet: number): number {
    this.#out[at] = EQUALS
    this.#out[at + 1] = HEX[octet >> 4] ?? 0
    this.#out[at + 2] = HEX[octet & 15] ?? 0
    return at + 3
  }

  #breakLine(at: number): number {
    this.#out[at] = EQUALS
    this.#out[at + 1] = CR
    this.#out[at + 2] = LF
    return at + 3
  }
}

const MAX_CHARACTER_OCTETS = 4

/**
 * Returns the number of octets of the character that begins here (RFC 3629 §3); 1 inside a character, whose octets are
 * already counted.
 */
const countCharacterOctets = (octet: number): number =>
  octet < 0xc0 ? 1 : octet < 0xe0 ? 2 : octet < 0xf0 ? 3 : MAX_CHARACTER_OCTETS
