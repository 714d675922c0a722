/**
 * @module The DKIM keys of a delivery Worker, as PEM until first used: parsing a key costs more than a signature, and an
 * unreadable key fails only its own messages.
 */
import { createPrivateKey } from 'node:crypto'
import { type RsaSigner, RsaSigners } from '#platform/rsa-signer.ts'
import { createDkimSigner, type DkimSigner } from '#protocols/dkim/sign.ts'

/** Parsed keys in memory, of about 10 KB each. */
const MAX_PARSED_KEYS = 1000

interface ParsedKey {
  readonly signer: DkimSigner
  free(): void
}

export class SigningKeys {
  readonly #rsa: RsaSigners
  readonly #maxParsed: number
  readonly #pems = new Map<number, string>()
  /** Least recently used first. */
  readonly #parsed = new Map<number, ParsedKey>()

  constructor(rsa = new RsaSigners(), maxParsed = MAX_PARSED_KEYS) {
    this.#rsa = rsa
    this.#maxParsed = maxParsed
  }

  /** Adds the key of a domain, or replaces it. */
  add(domainId: number, privateKeyPem: string): void {
    this.#pems.set(domainId, privateKeyPem)
    this.#evict(domainId)
  }

  /** Throws when the key is missing or cannot be read. */
  get(domainId: number): DkimSigner {
    const pem = this.#pems.get(domainId)
    if (pem === undefined) throw new Error('the DKIM key of the sending domain is missing')
    const parsed = this.#parsed.get(domainId) ?? this.#parse(pem)
    this.#parsed.delete(domainId)
    this.#parsed.set(domainId, parsed)
    for (const oldest of this.#parsed.keys()) {
      if (this.#parsed.size <= this.#maxParsed) break
      this.#evict(oldest)
    }
    return parsed.signer
  }

  #parse(pem: string): ParsedKey {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'rsa') return { signer: createDkimSigner(key), free: () => {} }
    const rsa: RsaSigner = this.#rsa.create(key)
    return { signer: { algorithm: 'rsa-sha256', sign: (data) => rsa.sign(data) }, free: () => rsa.free() }
  }

  #evict(domainId: number): void {
    this.#parsed.get(domainId)?.free()
    this.#parsed.delete(domainId)
  }
}
