/**
 * @module Hashes a message body in relaxed canonicalization (RFC 6376 §3.4.4), piece by piece: drops white space at
 * line ends, reduces other runs of white space to one space and ignores empty lines at the end. Hashes pieces that are
 * canonical already, such as base64 and most prose, without a copy, at the speed of SHA-256.
 */
import { createHash } from 'node:crypto'

const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const CRLF = Buffer.from('\r\n')
const EMPTY_LINE = Buffer.from('\r\n\r\n')
const TWO_SPACES = Buffer.from('  ')
const SPACE_AT_LINE_END = Buffer.from(' \r')
/** A block of empty lines, so that many empty lines are hashed in one call. */
const EMPTY_LINES = Buffer.alloc(4096, CRLF)

export class RelaxedBodyHash {
  readonly #hash = createHash('sha256')
  #lineHasContent = false
  /** Whether there is white space that is hashed only if something follows it on its line. */
  #isBlankPending = false
  #isCrPending = false
  /** Number of empty lines that are hashed only if something follows them. */
  #emptyLineCount = 0

  /** @param piece of a body with CRLF line ends; the piece may begin and end anywhere in the body */
  update(piece: Buffer): void {
    let from = 0
    if (!this.#isAtLineStart) {
      from = piece.indexOf(LF) + 1 || piece.length
      this.#canonicalise(piece.subarray(0, from))
    }
    const to = piece.lastIndexOf(CRLF) + CRLF.length
    if (to - from > CRLF.length) this.#addLines(piece.subarray(from, to))
    else this.#canonicalise(piece.subarray(from, to))
    this.#canonicalise(piece.subarray(Math.max(from, to)))
  }

  /** Adds whole lines; those that are canonical already are not copied. */
  #addLines(lines: Buffer): void {
    let from = 0
    while (lines[from] === CR && lines[from + 1] === LF) from += CRLF.length
    this.#emptyLineCount += from / CRLF.length
    let to = lines.length
    while (to > from && lines.subarray(to - EMPTY_LINE.length, to).equals(EMPTY_LINE)) to -= CRLF.length
    const content = lines.subarray(from, to)
    if (!isCanonical(content)) {
      this.#canonicalise(lines.subarray(from))
      return
    }
    this.#addEmptyLines()
    this.#hash.update(content)
    this.#emptyLineCount += (lines.length - to) / CRLF.length
  }

  /** Ends the last line if it is open, and returns the value of bh=. */
  digest(): string {
    if (!this.#isAtLineStart) this.#canonicalise(CRLF)
    return this.#hash.digest('base64')
  }

  get #isAtLineStart(): boolean {
    return !this.#lineHasContent && !this.#isBlankPending && !this.#isCrPending
  }

  #canonicalise(piece: Buffer): void {
    // Each octet takes at most two octets, since a bare LF becomes CRLF. Two more are for a blank and a CR that are
    // pending from the last piece.
    const out = Buffer.allocUnsafe(piece.length * 2 + 2)
    let at = 0
    let lineHasContent = this.#lineHasContent
    let isBlankPending = this.#isBlankPending
    let isCrPending = this.#isCrPending
    for (let i = 0; i < piece.length; i++) {
      const octet = piece[i] ?? 0
      if (octet === LF) {
        if (lineHasContent) {
          out[at++] = CR
          out[at++] = LF
        } else this.#emptyLineCount++
        lineHasContent = isBlankPending = isCrPending = false
        continue
      }
      const isBlank = octet === SPACE || octet === TAB
      // A CR without its LF is content.
      if (isCrPending || !(isBlank || octet === CR)) {
        if (this.#emptyLineCount > 0) {
          this.#hash.update(out.subarray(0, at))
          at = 0
          this.#addEmptyLines()
        }
        if (isBlankPending) out[at++] = SPACE
        isBlankPending = false
        lineHasContent = true
        if (isCrPending) out[at++] = CR
        if (!(isBlank || octet === CR)) out[at++] = octet
      }
      isCrPending = octet === CR
      if (isBlank) isBlankPending = true
    }
    this.#lineHasContent = lineHasContent
    this.#isBlankPending = isBlankPending
    this.#isCrPending = isCrPending
    this.#hash.update(out.subarray(0, at))
  }

  #addEmptyLines(): void {
    while (this.#emptyLineCount > 0) {
      const count = Math.min(this.#emptyLineCount, EMPTY_LINES.length / CRLF.length)
      this.#hash.update(EMPTY_LINES.subarray(0, count * CRLF.length))
      this.#emptyLineCount -= count
    }
  }
}

/** Whether relaxed form leaves whole lines as they are: all white space is single spaces inside of lines. */
const isCanonical = (lines: Buffer): boolean =>
  lines.length > 0 && !lines.includes(TAB) && !lines.includes(TWO_SPACES) && !lines.includes(SPACE_AT_LINE_END)
