/**
 * @module Hashes a message body in relaxed canonicalization (RFC 6376 §3.4.4), piece by piece: drops white space at
 * line ends, reduces runs of it to one space and ignores empty lines at the end. Hashes pieces without white space,
 * such as base64, without a copy, at the speed of SHA-256.
 */
import { createHash } from 'node:crypto'

const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const CRLF = Buffer.from('\r\n')
const EMPTY_LINE = Buffer.from('\r\n\r\n')
/** A block of empty lines, so that many are hashed in one call. */
const EMPTY_LINES = Buffer.alloc(4096, CRLF)

export class RelaxedBodyHash {
  readonly #hash = createHash('sha256')
  #lineHasContent = false
  /** White space, hashed only if something follows it on its line. */
  #isBlankPending = false
  #isCrPending = false
  /** Hashed only if something follows them. */
  #emptyLineCount = 0

  /** @param piece of a body with CRLF line ends; it may begin and end anywhere */
  update(piece: Buffer): void {
    if (this.#isAtLineStart && isCanonical(piece)) {
      this.#addEmptyLines()
      this.#hash.update(piece)
    } else this.#canonicalise(piece)
  }

  /** Returns the bh= value and ends an open last line. */
  digest(): string {
    if (!this.#isAtLineStart) this.#canonicalise(CRLF)
    return this.#hash.digest('base64')
  }

  get #isAtLineStart(): boolean {
    return !this.#lineHasContent && !this.#isBlankPending && !this.#isCrPending
  }

  #canonicalise(piece: Buffer): void {
    // Each octet takes at most two, since a bare LF becomes CRLF; two more for a blank and a CR left from the last
    // piece.
    const out = Buffer.allocUnsafe(piece.length * 2 + 2)
    let at = 0
    for (let i = 0; i < piece.length; i++) {
      const octet = piece[i] ?? 0
      if (octet === LF) {
        if (this.#lineHasContent) {
          out[at++] = CR
          out[at++] = LF
        } else this.#emptyLineCount++
        this.#lineHasContent = this.#isBlankPending = this.#isCrPending = false
        continue
      }
      // A CR without its LF is content.
      if (this.#isCrPending) at = this.#addContent(out, at, CR)
      this.#isCrPending = octet === CR
      if (octet === SPACE || octet === TAB) this.#isBlankPending = true
      else if (octet !== CR) at = this.#addContent(out, at, octet)
    }
    this.#hash.update(out.subarray(0, at))
  }

  /** Writes an octet after any pending empty lines and white space; returns the next position. */
  #addContent(out: Buffer, from: number, octet: number): number {
    let at = from
    if (this.#emptyLineCount > 0) {
      this.#hash.update(out.subarray(0, at))
      at = 0
      this.#addEmptyLines()
    }
    if (this.#isBlankPending) out[at++] = SPACE
    this.#isBlankPending = false
    this.#lineHasContent = true
    out[at++] = octet
    return at
  }

  #addEmptyLines(): void {
    while (this.#emptyLineCount > 0) {
      const count = Math.min(this.#emptyLineCount, EMPTY_LINES.length / CRLF.length)
      this.#hash.update(EMPTY_LINES.subarray(0, count * CRLF.length))
      this.#emptyLineCount -= count
    }
  }
}

/** Whether a piece consists of whole, non-empty lines without white space. */
const isCanonical = (piece: Buffer): boolean =>
  piece.length > CRLF.length &&
  piece[0] !== CR &&
  piece[piece.length - 2] === CR &&
  piece[piece.length - 1] === LF &&
  !piece.includes(SPACE) &&
  !piece.includes(TAB) &&
  !piece.includes(EMPTY_LINE)
