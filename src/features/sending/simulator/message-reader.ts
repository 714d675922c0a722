/** @module Finds the end of a message in a stream, and its Message-ID. Keeps only the first octets. */
import { KiB } from '#platform/units.ts'

const END = Buffer.from('\r\n.\r\n')
/** Octets of the header that are searched for the Message-ID. */
const MAX_HEADER_BYTES = 16 * KiB
const MESSAGE_ID = /^message-id:[ \t]*(\S{1,998})/im

export class MessageReader {
  /** The last octets before the next chunk. A message that is only a dot ends too, so a line break comes first. */
  #tail = Buffer.from('\r\n')
  #header = Buffer.alloc(0)
  #sizeBytes = 0

  /** Octets so far, with the final dot. */
  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** Value of the field; '' if there is none in the first octets. */
  get messageId(): string {
    return MESSAGE_ID.exec(this.#header.toString('latin1'))?.[1] ?? ''
  }

  /** Reads octets. Returns what follows the final dot; undefined when the message has not ended. */
  push(chunk: Buffer): Buffer | undefined {
    if (this.#header.length < MAX_HEADER_BYTES)
      this.#header = Buffer.concat([this.#header, chunk.subarray(0, MAX_HEADER_BYTES - this.#header.length)])
    const joined = Buffer.concat([this.#tail, chunk])
    const end = joined.indexOf(END)
    if (end === -1) {
      this.#sizeBytes += chunk.length
      this.#tail = joined.subarray(-(END.length - 1))
      return undefined
    }
    const rest = joined.subarray(end + END.length)
    this.#sizeBytes += chunk.length - rest.length
    return rest
  }
}
