/** @module Buffers the unprocessed octets of a session and returns them line by line. Pure. */

const CR = 13
const LF = 10
const EMPTY = Buffer.alloc(0)

export class CommandInput {
  readonly #maxLineBytes: number
  #octets: Buffer = EMPTY

  /** @param maxLineBytes maximum command line, without its line end */
  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes
  }

  get size(): number {
    return this.#octets.length
  }

  /** Adds octets; the caller must not change them afterwards. */
  add(octets: Buffer): void {
    this.#octets = this.#octets.length === 0 ? octets : Buffer.concat([this.#octets, octets])
  }

  /** The next line without its line end (CRLF or LF); undefined: it is incomplete. */
  takeLine(): string | 'too long' | undefined {
    const end = this.#octets.indexOf(LF)
    const line = this.#octets.subarray(0, end === -1 ? undefined : end)
    // A CR at the end of an incomplete line may belong to its line end.
    const length = line.at(-1) === CR ? line.length - 1 : line.length
    if (length > this.#maxLineBytes) return 'too long'
    if (end === -1) {
      // A copy, so that the buffer from which the octets came can be freed.
      if (this.#octets.length > 0) this.#octets = Buffer.from(this.#octets)
      return undefined
    }
    this.#octets = end + 1 === this.#octets.length ? EMPTY : this.#octets.subarray(end + 1)
    return line.toString('utf8', 0, length)
  }

  takeAll(): Buffer {
    const octets = this.#octets
    this.#octets = EMPTY
    return octets
  }
}
