/**
 * @module Sealed tokens for links. Only this service can write or read the facts in a token, and the same facts give
 * the same token. The first octet is the format version. Does not know what the facts mean, and reads no database.
 */
import { attempt } from '#platform/errors.ts'
import type { KeyRing } from './crypto.ts'
import { base64urlLength, decodeBase64url, decodeVarint } from './token-bytes.ts'

/** The only version so far. */
const FORMAT_VERSION = 1
/** Octets that sealing adds, at most. */
const SEALING_BYTES = 32

/** Maximum length of a token with this many octets of facts. */
export const sealedTokenLength = (octets: number): number => base64urlLength(SEALING_BYTES + 1 + octets)

export function sealToken(keys: KeyRing, context: string, facts: readonly Uint8Array[]): string {
  return Buffer.from(
    keys.sealDeterministically(Buffer.concat([Buffer.of(FORMAT_VERSION), ...facts]), context),
  ).toString('base64url')
}

/** The facts of a token. Undefined when we did not create the token, or it was modified. Accepts any text. */
export function openSealedToken(
  keys: KeyRing,
  context: string,
  text: string,
  maxLength: number,
): FactReader | undefined {
  const sealed = decodeBase64url(text, maxLength)
  if (!sealed || sealed.length < SEALING_BYTES) return undefined
  const plain = attempt(() => keys.unseal(sealed, context))
  return plain?.[0] === FORMAT_VERSION ? new FactReader(Buffer.from(plain.subarray(1))) : undefined
}

/** Facts for a browser or a program to carry, which nobody else can read or change. @param context what they are for */
export const sealJson = (keys: KeyRing, facts: object, context: string): string =>
  Buffer.from(keys.seal(JSON.stringify(facts), context)).toString('base64url')

/** Facts that `sealJson` sealed for the same; undefined for any other text. */
export function openSealed<Facts>(keys: KeyRing, text: string, context: string): Facts | undefined {
  const opened = attempt(() => keys.unsealText(Buffer.from(text, 'base64url'), context))
  return opened === undefined ? undefined : (JSON.parse(opened) as Facts)
}

/** Reads facts in the order in which they were sealed. Only `sealToken` writes facts, so none of them is missing. */
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
