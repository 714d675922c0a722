/**
 * @module Hashes, MACs and sealing under the master key: an HKDF subkey per purpose (RFC 5869), and the key's id in
 * front of each ciphertext. Never decides where the master key is stored.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { chmodSync, closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { randomBytes } from './ids.ts'

export const sha256 = (data: string | Uint8Array): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher('sha256').update(data).digest())

export const hmacSha256 = (key: Uint8Array, data: string | Uint8Array): Uint8Array =>
  new Uint8Array(createHmac('sha256', key).update(data).digest())

/** Compares in constant time. */
export const equalBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b)

export type KeyPurpose =
  | 'seal'
  | 'verp'
  | 'tracking'
  | 'unsubscribe'
  | 'event-id'
  | 'form-asks'
  | 'check'
  | 'nonce'
  | 'csrf'
  | 'password-proof'
  | 'erased-address'
  | 'supabase-hook'

const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The master key and the subkeys derived from it. */
export class KeyRing {
  readonly #master: Uint8Array
  readonly #keyId: Uint8Array
  readonly #subkeys = new Map<KeyPurpose, Uint8Array>()

  /** @param master 32 bytes */
  constructor(master: Uint8Array) {
    if (master.length !== 32) throw new TypeError(`master key has ${master.length} bytes, not 32`)
    this.#master = master
    this.#keyId = this.subkey('check').slice(0, KEY_ID_BYTES)
  }

  /** 32 bytes for one purpose. */
  subkey(purpose: KeyPurpose): Uint8Array {
    let key = this.#subkeys.get(purpose)
    if (!key) {
      key = new Uint8Array(hkdfSync('sha256', this.#master, new Uint8Array(0), `tassis:${purpose}`, 32))
      this.#subkeys.set(purpose, key)
    }
    return key
  }

  /** Identifies the key without revealing it: a database stores it to detect a wrong key. */
  fingerprint(): string {
    return hmacSha256(this.subkey('check'), 'fingerprint').slice(0, 16).toHex()
  }

  /**
   * AES-256-GCM: key id | nonce | ciphertext | tag. `context` is authenticated, so a ciphertext copied to another row
   * cannot be opened there.
   */
  seal(plain: string | Uint8Array, context: string): Uint8Array {
    return this.#sealWith(randomBytes(NONCE_BYTES), plain, context)
  }

  /**
   * Returns the same ciphertext for the same plaintext and context. Tokens in messages need this: every attempt must
   * send the same bytes. The nonce is the first 96 bits of a MAC of plaintext and context, under a subkey used only for
   * nonces. Two plaintexts share a nonce no more often than with random nonces: a chance of 1 in 2^33 among 2^32
   * tokens. `unseal` opens the ciphertext.
   */
  sealDeterministically(plain: string | Uint8Array, context: string): Uint8Array {
    const nonce = hmacSha256(this.subkey('nonce'), Buffer.concat([Buffer.from(`${context}\0`), Buffer.from(plain)]))
    return this.#sealWith(nonce.slice(0, NONCE_BYTES), plain, context)
  }

  #sealWith(nonce: Uint8Array, plain: string | Uint8Array, context: string): Uint8Array {
    const cipher = createCipheriv('aes-256-gcm', this.subkey('seal'), nonce)
    cipher.setAAD(Buffer.from(context))
    const data = typeof plain === 'string' ? Buffer.from(plain) : plain
    return new Uint8Array(Buffer.concat([this.#keyId, nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()]))
  }

  /** Throws when the ciphertext was sealed under another key or with another context, or is corrupt. */
  unseal(sealed: Uint8Array, context: string): Uint8Array {
    if (!equalBytes(sealed.subarray(0, KEY_ID_BYTES), this.#keyId)) throw new Error('sealed under another master key')
    const nonce = sealed.subarray(KEY_ID_BYTES, KEY_ID_BYTES + NONCE_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', this.subkey('seal'), nonce)
    decipher.setAAD(Buffer.from(context))
    decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
    const body = sealed.subarray(KEY_ID_BYTES + NONCE_BYTES, sealed.length - TAG_BYTES)
    return new Uint8Array(Buffer.concat([decipher.update(body), decipher.final()]))
  }

  unsealText(sealed: Uint8Array, context: string): string {
    return Buffer.from(this.unseal(sealed, context)).toString('utf8')
  }
}

/** Parses 32 bytes of base64; undefined for any other text. */
export function parseMasterKey(text: string): Uint8Array | undefined {
  const trimmed = text.trim()
  if (!/^[A-Za-z0-9+/]{43}=$/.test(trimmed)) return undefined
  return new Uint8Array(Buffer.from(trimmed, 'base64'))
}

/** Reads a master key file; undefined when there is no file. Throws when the file holds anything but a key. */
export function readMasterKeyFile(path: string): Uint8Array | undefined {
  if (!existsSync(path)) return undefined
  const key = parseMasterKey(readFileSync(path, 'utf8'))
  if (!key) throw new Error(`${path} does not hold a master key (32 bytes in base64)`)
  return key
}

/** Creates a master key file with mode 0600 and syncs it to disk; throws when the file exists. */
export function createMasterKeyFile(path: string): Uint8Array {
  const key = randomBytes(32)
  const fd = openSync(path, 'wx', 0o600)
  try {
    writeSync(fd, `${Buffer.from(key).toString('base64')}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  chmodSync(path, 0o600)
  return key
}
