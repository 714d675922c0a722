/**
 * @module Decodes the octets after DATA (RFC 5321 §4.5.2): finds the end of the message, removes dot-stuffing,
 * normalises line ends to CRLF, these also in the chunks of BDAT. Pure.
 *
 * Only CRLF, dot, CRLF ends a message, and a dot is removed only after CRLF. Everything else (`LF.LF`, `CR.CR`,
 * `CRLF.LF`, `LF.CRLF`) is content, so that no two servers see different messages in the same octets (SMTP smuggling).
 * A lone LF becomes CRLF: every later reader treats it as a line end, and signatures cover CRLF (RFC 6376 §5.3). A lone
 * CR and NUL stay.
 */
import { KiB } from '#platform/units.ts'

const CR = 13
const LF = 10
const DOT = 46

/** What precedes the next octet in its line. */
type LinePosition = 'line start' | 'dot' | 'dot, CR' | 'text' | 'CR'

/** Octets decoded at a time, so that the result fits the shared buffer. */
const STEP_BYTES = 64 * KiB
/**
 * Decoded octets. All messages share one buffer, because it is used only during a call, and a buffer per sender would
 * leave garbage for thousands of senders. The buffer has twice the size, because each LF becomes two octets, and one
 * more octet for a CR held back after a dot.
 */
const decodedOctets = new Uint8Array(2 * STEP_BYTES + 1)

export class DataDecoder {
  readonly #isDotStuffed: boolean
  #position: LinePosition = 'line start'

  /** @param options.isDotStuffed false for the chunks of BDAT, whose dots are content (RFC 3030 §2) */
  constructor({ isDotStuffed = true } = {}) {
    this.#isDotStuffed = isDotStuffed
  }

  /**
   * Decodes the next octets and passes the content to `write` in pieces, which are valid only during the call. Returns
   * the octets after the end of the message; undefined: it has not ended. Not callable after the end.
   */
  decode(chunk: Uint8Array, write: (content: Uint8Array) => void): Uint8Array | undefined {
    for (let from = 0; from < chunk.length; from += STEP_BYTES) {
      const end = this.#decodeStep(chunk, from, Math.min(from + STEP_BYTES, chunk.length), write)
      if (end !== -1) return chunk.subarray(end)
    }
    return undefined
  }

  /** Returns the index after the end of the message, or -1. */
  #decodeStep(chunk: Uint8Array, from: number, to: number, write: (content: Uint8Array) => void): number {
    let written = 0
    let position = this.#position
    let end = -1
    for (let i = from; i < to; i++) {
      const octet = chunk[i] as number
      if (position === 'line start' && octet === DOT && this.#isDotStuffed) {
        position = 'dot'
        continue
      }
      if (position === 'dot' && octet === CR) {
        position = 'dot, CR'
        continue
      }
      if (position === 'dot, CR') {
        if (octet === LF) {
          end = i + 1
          break
        }
        decodedOctets[written++] = CR
        position = 'CR'
      }
      if (octet === LF) {
        if (position !== 'CR') decodedOctets[written++] = CR
        decodedOctets[written++] = LF
        position = position === 'CR' ? 'line start' : 'text'
      } else {
        decodedOctets[written++] = octet
        position = octet === CR ? 'CR' : 'text'
      }
    }
    this.#position = position
    if (written > 0) write(decodedOctets.subarray(0, written))
    return end
  }
}
