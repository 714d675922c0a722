/** @module Decodes a message between 354 and its final dot, or in chunks, into a spool entry, and counts its octets. */
import { DataDecoder } from './data.ts'
import type { SpoolEntry } from './spool.ts'

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

  get contentBytes(): number {
    return this.#contentBytes
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
