/**
 * @module The DKIM keys of a delivery Worker, as PEM until first used: parsing a key costs more than a signature, and
 * an unreadable key fails only its own messages.
 */
import { createPrivateKey } from 'node:crypto'
import { RsaSigners } from '#platform/crypto/rsa-signer.ts'
import { createDkimSigner, type DkimSigner } from '#protocols/dkim/sign.ts'
import type { DkimKeyPem } from '../model/protocol.ts'

/** Parsed keys in memory, of about 10 KB each. */
const MAX_PARSED_KEYS = 1000

interface ParsedKey {
  readonly signer: DkimSigner
  free(): void
}

export class SigningKeys {
  readonly #rsa: RsaSigners
  readonly #maxParsed: number
  readonly #pems = new Map<string, string>()
  /** Least recently used first. */
  readonly #parsed = new Map<string, ParsedKey>()

  constructor(rsa = new RsaSigners(), maxParsed = MAX_PARSED_KEYS) {
    this.#rsa = rsa
    this.#maxParsed = maxParsed
  }

  /** Adds a key, or replaces it. */
  add({ id, privateKeyPem }: DkimKeyPem): void {
    this.#pems.set(id, privateKeyPem)
    this.#evict(id)
  }

  /** Throws when the key is missing or cannot be read. */
  get(id: string): DkimSigner {
    const pem = this.#pems.get(id)
    if (pem === undefined) throw new Error('the DKIM key of the sending domain is missing')
    const parsed = this.#parsed.get(id) ?? this.#parse(pem)
    this.#parsed.delete(id)
    this.#parsed.set(id, parsed)
    for (const oldest of this.#parsed.keys()) {
      if (this.#parsed.size <= this.#maxParsed) break
      this.#evict(oldest)
    }
    return parsed.signer
  }

  #parse(pem: string): ParsedKey {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'rsa') return { signer: createDkimSigner(key), free: () => {} }
    const rsa = this.#rsa.create(key)
    return { signer: { algorithm: 'rsa-sha256', sign: (data) => rsa.sign(data) }, free: () => rsa.free() }
  }

  #evict(id: string): void {
    this.#parsed.get(id)?.free()
    this.#parsed.delete(id)
  }
}
