/**
 * @module Computes the body hashes of signatures (RFC 6376 §3.4.3, §3.4.4), piece by piece. Canonicalises the body once
 * per canonicalisation, for any number of signatures, in one pass whose time does not depend on the content. Lines that
 * are canonical already, such as base64 and most prose, are hashed without a copy, at the speed of SHA-256.
 */
import { createHash, type Hash } from 'node:crypto'
import { asBuffer } from '../mime/source.ts'

export type Canonicalisation = 'simple' | 'relaxed'

const CR = 0x0d
const LF = 0x0a
const SPACE = 0x20
const TAB = 0x09
const CRLF = Buffer.from([CR, LF])
const BLANK = Buffer.from([SPACE])
const TWO_SPACES = Buffer.from('  ')
const SPACE_AT_LINE_END = Buffer.from(' \r')
const BUFFER_BYTES = 16 * 1024
/** Canonical octets on their way to the hashes. All bodies share it, because it is used only during a call. */
const canonicalOctets = new Uint8Array(BUFFER_BYTES)
const LONG_RUN_BYTES = 64

/** Hashes a canonicalised body, or its first `maxBytes`. */
export class BodyHash {
  canonicalizedLength = 0
  bodyHashedBytes = 0
  readonly #body: CanonicalBody
  readonly #hash: Hash
  readonly #maxBytes: number

  constructor(body: CanonicalBody, algorithm: string, maxBytes: number) {
    this.#body = body
    this.#hash = createHash(algorithm)
    this.#maxBytes = maxBytes
  }

  /** Octets of the body as received. */
  get byteLength(): number {
    return this.#body.receivedBytes
  }

  update(canonical: Uint8Array): void {
    this.canonicalizedLength += canonical.length
    const left = this.#maxBytes - this.bodyHashedBytes
    if (left <= 0) return
    const hashed = canonical.subarray(0, left)
    this.bodyHashedBytes += hashed.length
    this.#hash.update(hashed)
  }

  /** Ends the body and returns the hash. */
  digest(encoding: 'base64'): string {
    this.#body.end()
    return this.#hash.digest(encoding)
  }

  // The verifier calls these to find the MIME structure, which we do not need.
  setContentType(): void {}
  getMimeStructureStart(): number {
    return 0
  }
}

/** Canonicalises a body as it arrives, and passes the result to the hashes of the body. */
export class CanonicalBody {
  receivedBytes = 0
  readonly #isRelaxed: boolean
  readonly #hashes: BodyHash[] = []
  #isEmpty = true
  #hasEnded = false
  #isAtLineStart = true
  /** Number of line ends that are written only when something follows them. */
  #pendingLineEnds = 0
  /** Whether there is white space that is written only when something follows it on its line. */
  #hasPendingSpace = false
  /** Whether the last octet is a carriage return, which is content unless a line feed follows. */
  #hasPendingReturn = false
  #filledBytes = 0

  constructor(canonicalisation: Canonicalisation) {
    this.#isRelaxed = canonicalisation === 'relaxed'
  }

  /**
   * Adds a hash; call it before the body begins.
   * @param maxBytes limit for the octets of the canonical body that are hashed, from `l=`
   */
  addHash(algorithm: string, maxBytes = Number.POSITIVE_INFINITY): BodyHash {
    const hash = new BodyHash(this, algorithm, maxBytes)
    this.#hashes.push(hash)
    return hash
  }

  /** @param piece of a body with CRLF line ends; the piece may begin and end anywhere in the body */
  update(piece: Uint8Array): void {
    this.receivedBytes += piece.length
    const bytes = asBuffer(piece)
    const start = this.#isAtLineStart ? 0 : bytes.indexOf(LF) + 1 || bytes.length
    const lastLineEnd = bytes.lastIndexOf(CRLF)
    const end = lastLineEnd < start ? start : lastLineEnd + CRLF.length
    this.#canonicalise(bytes.subarray(0, start))
    this.#addLines(bytes.subarray(start, end))
    this.#canonicalise(bytes.subarray(end))
    this.#flush()
    if (bytes.length > 0) this.#isAtLineStart = bytes.at(-1) === LF
  }

  #addLines(lines: Buffer): void {
    let from = 0
    while (lines[from] === CR && lines[from + 1] === LF) from += CRLF.length
    let to = lines.length
    while (to > from && lines[to - 1] === LF && lines[to - 2] === CR) to -= CRLF.length
    const content = lines.subarray(from, to)
    if (content.length <= LONG_RUN_BYTES || !this.#isCanonical(content)) {
      this.#canonicalise(lines)
      return
    }
    this.#pendingLineEnds += from / CRLF.length
    this.#writePending()
    this.#flush()
    for (const hash of this.#hashes) hash.update(content)
    this.#pendingLineEnds = (lines.length - to) / CRLF.length
  }

  /** Whether all white space is single spaces inside of lines. @param lines without the last line end */
  #isCanonical(lines: Buffer): boolean {
    if (!this.#isRelaxed) return true
    return !(
      lines.includes(TAB) ||
      lines.includes(TWO_SPACES) ||
      lines.includes(SPACE_AT_LINE_END) ||
      lines.at(-1) === SPACE
    )
  }

  #canonicalise(chunk: Buffer): void {
    const { length } = chunk
    for (let at = 0; at < length; ) {
      const octet = chunk[at] ?? 0
      if (octet === LF) {
        this.#hasPendingReturn = false
        this.#hasPendingSpace = false
        this.#pendingLineEnds++
        at++
        continue
      }
      if (this.#hasPendingReturn) this.#writePending()
      if (octet === CR) {
        this.#hasPendingReturn = true
        at++
      } else if (this.#isRelaxed && (octet === SPACE || octet === TAB)) {
        this.#hasPendingSpace = true
        at++
      } else {
        const end = this.#findContentEnd(chunk, at + 1)
        this.#writePending()
        this.#write(chunk, at, end)
        at = end
      }
    }
  }

  /** Ends the body. Further calls do nothing. */
  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    if (this.#hasPendingReturn) this.#writePending()
    // A body that consists of empty lines only becomes empty when it is relaxed, and a single line end when it is
    // simple.
    if (!this.#isEmpty || !this.#isRelaxed) this.#write(CRLF, 0, 2)
    this.#flush()
  }

  /** Returns the end of the octets that are written unchanged. */
  #findContentEnd(chunk: Uint8Array, start: number): number {
    let end = start
    for (; end < chunk.length; end++) {
      const octet = chunk[end] ?? 0
      if (octet === LF || octet === CR || (this.#isRelaxed && (octet === SPACE || octet === TAB))) break
    }
    return end
  }

  /** Writes the pending octets, because content follows. */
  #writePending(): void {
    this.#isEmpty = false
    for (; this.#pendingLineEnds > 0; this.#pendingLineEnds--) this.#write(CRLF, 0, 2)
    if (this.#hasPendingSpace) this.#write(BLANK, 0, 1)
    if (this.#hasPendingReturn) this.#write(CRLF, 0, 1)
    this.#hasPendingSpace = false
    this.#hasPendingReturn = false
  }

  #write(source: Uint8Array, start: number, end: number): void {
    for (let at = start; at < end; ) {
      if (this.#filledBytes === BUFFER_BYTES) this.#flush()
      const stop = Math.min(end, at + BUFFER_BYTES - this.#filledBytes)
      // For a few octets, creating a view costs more than copying them one by one.
      if (stop - at > LONG_RUN_BYTES) {
        canonicalOctets.set(source.subarray(at, stop), this.#filledBytes)
        this.#filledBytes += stop - at
        at = stop
      } else while (at < stop) canonicalOctets[this.#filledBytes++] = source[at++] ?? 0
    }
  }

  #flush(): void {
    if (this.#filledBytes === 0) return
    const canonical = canonicalOctets.subarray(0, this.#filledBytes)
    for (const hash of this.#hashes) hash.update(canonical)
    this.#filledBytes = 0
  }
}
