/**
 * @module What a client sends: command lines, and a message between 354 and its final dot or in chunks (BDAT), decoded
 * into a spool entry (RFC 5321 §4.5.2): finds the end of the message, removes dot-stuffing, normalises line ends to
 * CRLF.
 *
 * Only CRLF, dot, CRLF ends a message, and a dot is removed only after CRLF. Everything else (`LF.LF`, `CR.CR`,
 * `CRLF.LF`, `LF.CRLF`) is content, so that no two servers see different messages in the same octets (SMTP smuggling).
 * A lone LF becomes CRLF: every later reader treats it as a line end, and signatures cover CRLF (RFC 6376 §5.3). A lone
 * CR and NUL stay.
 */
import { KiB } from '#platform/units.ts'
import type { SpoolEntry } from './spool.ts'

const CR = 13
const LF = 10
const DOT = 46
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

export interface MessageLimits {
  /** Maximum size of an accepted message. */
  readonly maxBytes: number
  /** Maximum size that is read to the end, so that the client gets a reply. */
  readonly maxReadBytes: number
}

export class ArrivingMessage {
  readonly spoolEntry: SpoolEntry
  readonly startedAtMs: number
  /** When its last octets arrived. */
  lastOctetsAtMs: number
  /** Octets before decoding. */
  receivedBytes = 0
  readonly #limits: MessageLimits
  readonly #decoder: DataDecoder
  /** Decoded octets, including those not stored. */
  #contentBytes = 0

  /** @param decoder for the octets of DATA or of BDAT */
  constructor(spoolEntry: SpoolEntry, limits: MessageLimits, nowMs: number, decoder = new DataDecoder()) {
    this.#decoder = decoder
    this.spoolEntry = spoolEntry
    this.#limits = limits
    this.startedAtMs = nowMs
    this.lastOctetsAtMs = nowMs
  }

  get isTooLarge(): boolean {
    return this.#contentBytes > this.#limits.maxBytes
  }

  /** Whether the message is too large even to be read to its end. */
  get isFarTooLarge(): boolean {
    return this.#contentBytes > this.#limits.maxReadBytes
  }

  /** Processes the next octets. Returns those after the final dot; undefined: it has not arrived, or BDAT has none. */
  read(octets: Uint8Array, nowMs: number): Uint8Array | undefined {
    this.lastOctetsAtMs = nowMs
    this.receivedBytes += octets.length
    return this.#decoder.decode(octets, (content) => {
      this.#contentBytes += content.length
      // An oversized message is not stored at all.
      if (this.isTooLarge) this.spoolEntry.drop()
      else this.spoolEntry.write(content)
    })
  }
}
