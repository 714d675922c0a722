/**
 * @module Tokens in links that say what they are about, sealed: only this service can make or read one, and the same facts
 * give the same token. The first octet is the form of what follows. Knows no facts and asks no database.
 */
import type { KeyRing } from './crypto.ts'
import { base64urlLength, decodeBase64url, decodeVarint } from './token-bytes.ts'

/** The only form so far. */
const FORMAT_VERSION = 1
/** Octets that sealing adds at most. */
const SEALING_BYTES = 32

/** Characters of the longest token of so many octets of facts. */
export const sealedTokenLength = (octets: number): number => base64urlLength(SEALING_BYTES + 1 + octets)

export function sealToken(keys: KeyRing, context: string, facts: readonly Uint8Array[]): string {
  return Buffer.from(
    keys.sealDeterministically(Buffer.concat([Buffer.of(FORMAT_VERSION), ...facts]), context),
  ).toString('base64url')
}

/** The facts of a token; undefined when we did not make it, or it was changed on its way. Takes any text. */
export function openSealedToken(
  keys: KeyRing,
  context: string,
  text: string,
  maxLength: number,
): FactReader | undefined {
  const sealed = decodeBase64url(text, maxLength)
  if (!sealed || sealed.length < SEALING_BYTES) return undefined
  let plain: Uint8Array
  try {
    plain = keys.unseal(sealed, context)
  } catch {
    return undefined
  }
  return plain[0] === FORMAT_VERSION ? new FactReader(Buffer.from(plain.subarray(1))) : undefined
}

/** Reads facts in the order in which they were sealed. Only `sealToken` makes them, so nothing is missing. */
export class FactReader {
  readonly #octets: Buffer
  #position = 0

  constructor(octets: Buffer) {
    this.#octets = octets
  }

  take(count: number): Buffer {
    this.#position += count
    return this.#octets.subarray(this.#position - count, this.#position)
  }

  takeInteger(): number {
    const { value, end } = decodeVarint(this.#octets, this.#position)
    this.#position = end
    return value
  }

  takeRest(): Buffer {
    return this.take(this.#octets.length - this.#position)
  }
}
