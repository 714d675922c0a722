/** @module A message between 354 and its final dot: decodes what arrives into a draft, and counts it. */
import { DataDecoder } from './listener-data.ts'
import type { SpoolEntry } from './listener-spool.ts'

export interface MessageLimits {
  /** Largest message that is accepted. */
  readonly maxBytes: number
  /** Largest message that is read to its end, for the client to get a reply. */
  readonly maxReadBytes: number
}

export class ArrivingMessage {
  readonly spoolEntry: SpoolEntry
  readonly startedAtMs: number
  /** When octets of it last came. */
  lastOctetsAtMs: number
  /** Octets as they came. */
  receivedBytes = 0
  readonly #limits: MessageLimits
  readonly #decoder = new DataDecoder()
  /** Octets of content, also of what was not stored. */
  #contentBytes = 0

  constructor(draft: SpoolEntry, limits: MessageLimits, nowMs: number) {
    this.spoolEntry = draft
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

  /** The client does not stop: the message is not even read to its end. */
  get isFarTooLarge(): boolean {
    return this.#contentBytes > this.#limits.maxReadBytes
  }

  /** Takes the next octets. Returns those behind the final dot, or undefined: it has not come yet. */
  read(octets: Uint8Array, nowMs: number): Uint8Array | undefined {
    this.lastOctetsAtMs = nowMs
    this.receivedBytes += octets.length
    return this.#decoder.decode(octets, (content) => {
      this.#contentBytes += content.length
      // Nothing of a message that is too large is stored.
      if (this.isTooLarge) this.spoolEntry.drop()
      else this.spoolEntry.write(content)
    })
  }
}
