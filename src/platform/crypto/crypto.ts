/**
 * @module Hashes, MACs and sealing under the master keys: an HKDF subkey per purpose (RFC 5869), and the key's id in
 * front of each ciphertext. Never decides where the master keys are stored.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname } from 'node:path'
import { syncFile } from '#platform/disk/replace-file.ts'
import { randomBytes } from '#platform/ids.ts'

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
  | 'erased-address'
  | 'supabase-hook'

/**
 * Purposes whose subkey never changes, because what is derived from it is compared for ever: the ids of events, and the
 * hashes of addresses in rows.
 */
const FIXED_PURPOSES = ['event-id', 'erased-address', 'form-asks'] as const satisfies readonly KeyPurpose[]
type FixedPurpose = (typeof FIXED_PURPOSES)[number]
const isFixed = (purpose: KeyPurpose): purpose is FixedPurpose => FIXED_PURPOSES.some((fixed) => fixed === purpose)
const FIXED_CONTEXT = 'fixed-subkeys'

const KEY_ID_BYTES = 4
const NONCE_BYTES = 12
const TAG_BYTES = 16
const SEALING_BYTES = KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES
const MASTER_KEY_BYTES = 32
/** Maximum number of keys in a ring: each token in received mail may be compared with all of them. */
export const MAX_MASTER_KEYS = 8

/** One master key and the subkeys derived from it. */
class MasterKey {
  readonly bytes: Uint8Array
  /** In front of the ciphertexts sealed under this key. */
  readonly id: Uint8Array
  readonly fingerprint: string
  readonly #subkeys = new Map<KeyPurpose, Uint8Array>()

  constructor(bytes: Uint8Array) {
    if (bytes.length !== MASTER_KEY_BYTES) throw new TypeError(`master key has ${bytes.length} bytes, not 32`)
    this.bytes = bytes
    this.id = this.subkey('check').slice(0, KEY_ID_BYTES)
    this.fingerprint = hmacSha256(this.subkey('check'), 'fingerprint').slice(0, 16).toHex()
  }

  subkey(purpose: KeyPurpose): Uint8Array {
    let key = this.#subkeys.get(purpose)
    if (!key) {
      key = new Uint8Array(hkdfSync('sha256', this.bytes, new Uint8Array(0), `tassis:${purpose}`, 32))
      this.#subkeys.set(purpose, key)
    }
    return key
  }
}

/**
 * The master keys, newest first. The newest seals and signs; former keys only open what they sealed and verify what
 * they signed.
 */
export class KeyRing {
  #keys: readonly [MasterKey, ...MasterKey[]]
  #fixed: ReadonlyMap<FixedPurpose, Uint8Array> | undefined

  /** @param masters 32 bytes each, newest first; a single key may stand alone */
  constructor(masters: Uint8Array | readonly Uint8Array[]) {
    const [newest, ...former] = (masters instanceof Uint8Array ? [masters] : masters).map((key) => new MasterKey(key))
    if (!newest) throw new TypeError('a key ring needs a master key')
    this.#keys = [newest, ...former]
  }

  /** 32 bytes for one purpose: of the newest key, or fixed. */
  subkey(purpose: KeyPurpose): Uint8Array {
    return (isFixed(purpose) ? this.#fixed?.get(purpose) : undefined) ?? this.#keys[0].subkey(purpose)
  }

  /** The subkeys with which something received may have been signed, newest first. Read it at each use. */
  subkeys(purpose: Exclude<KeyPurpose, FixedPurpose>): readonly Uint8Array[] {
    return this.#keys.map((key) => key.subkey(purpose))
  }

  /** Identifies the newest key without revealing it: a database stores it to detect a wrong key. */
  fingerprint(): string {
    return this.#keys[0].fingerprint
  }

  /** Of all keys, newest first. */
  fingerprints(): string[] {
    return this.#keys.map((key) => key.fingerprint)
  }

  /** All keys, newest first: the content of the key file. */
  masters(): Uint8Array[] {
    return this.#keys.map((key) => key.bytes)
  }

  /** Makes a key the newest. Requires `fixTo` or `openFixed`, because the fixed subkeys are those of an older key. */
  add(master: Uint8Array): void {
    if (!this.#fixed) throw new Error('the fixed subkeys are not known')
    this.#keys = [new MasterKey(master), ...this.#keys]
  }

  /** Takes the fixed subkeys from the key with this fingerprint. */
  fixTo(fingerprint: string): void {
    const key = this.#keys.find((each) => each.fingerprint === fingerprint)
    if (!key) throw new Error('the key with this fingerprint is missing')
    this.#fixed = new Map(FIXED_PURPOSES.map((purpose) => [purpose, key.subkey(purpose)]))
  }

  /** The fixed subkeys, sealed under the newest key: they outlive the key from which they were derived. */
  sealFixed(): Uint8Array {
    const fields = FIXED_PURPOSES.map((purpose) => [purpose, this.subkey(purpose).toHex()])
    return this.seal(JSON.stringify(Object.fromEntries(fields)), FIXED_CONTEXT)
  }

  /** Opens what `sealFixed` returned, and uses it. */
  openFixed(sealed: Uint8Array): void {
    const fields = JSON.parse(this.unsealText(sealed, FIXED_CONTEXT)) as Readonly<Record<FixedPurpose, string>>
    this.#fixed = new Map(FIXED_PURPOSES.map((purpose) => [purpose, Uint8Array.fromHex(fields[purpose])]))
  }

  /**
   * AES-256-GCM: key id | nonce | ciphertext | tag. `context` is authenticated, so a ciphertext copied to another row
   * cannot be opened there.
   */
  seal(plain: string | Uint8Array, context: string): Uint8Array {
    return this.#sealWith(randomBytes(NONCE_BYTES), plain, context)
  }

  /**
   * Returns the same ciphertext for the same plaintext, context and newest key. Tokens in messages need this: every
   * attempt must send the same bytes. The nonce is the first 96 bits of a MAC of plaintext and context, under a subkey
   * used only for nonces. Two plaintexts share a nonce no more often than with random nonces: a chance of 1 in 2^33
   * among 2^32 tokens. `unseal` opens the ciphertext.
   */
  sealDeterministically(plain: string | Uint8Array, context: string): Uint8Array {
    const nonce = hmacSha256(this.subkey('nonce'), Buffer.concat([Buffer.from(`${context}\0`), Buffer.from(plain)]))
    return this.#sealWith(nonce.slice(0, NONCE_BYTES), plain, context)
  }

  #sealWith(nonce: Uint8Array, plain: string | Uint8Array, context: string): Uint8Array {
    const [newest] = this.#keys
    const cipher = createCipheriv('aes-256-gcm', newest.subkey('seal'), nonce)
    cipher.setAAD(Buffer.from(context))
    const data = typeof plain === 'string' ? Buffer.from(plain) : plain
    return new Uint8Array(Buffer.concat([newest.id, nonce, cipher.update(data), cipher.final(), cipher.getAuthTag()]))
  }

  #findKeyOf(sealed: Uint8Array): MasterKey | undefined {
    const id = sealed.subarray(0, KEY_ID_BYTES)
    return sealed.length < SEALING_BYTES ? undefined : this.#keys.find((key) => equalBytes(id, key.id))
  }

  /** Fingerprint of the key under which something is sealed; undefined: not one of ours. */
  fingerprintOf(sealed: Uint8Array): string | undefined {
    return this.#findKeyOf(sealed)?.fingerprint
  }

  /** Throws when the ciphertext was sealed under another key or with another context, or is corrupt. */
  unseal(sealed: Uint8Array, context: string): Uint8Array {
    const key = this.#findKeyOf(sealed)
    if (!key) throw new Error('sealed under another master key')
    const nonce = sealed.subarray(KEY_ID_BYTES, KEY_ID_BYTES + NONCE_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', key.subkey('seal'), nonce)
    decipher.setAAD(Buffer.from(context))
    decipher.setAuthTag(sealed.subarray(sealed.length - TAG_BYTES))
    const body = sealed.subarray(KEY_ID_BYTES + NONCE_BYTES, sealed.length - TAG_BYTES)
    return new Uint8Array(Buffer.concat([decipher.update(body), decipher.final()]))
  }

  unsealText(sealed: Uint8Array, context: string): string {
    return Buffer.from(this.unseal(sealed, context)).toString('utf8')
  }
}

/**
 * Parses master keys, newest first: each 32 bytes of base64, separated by white space or commas. Undefined for any
 * other text, and for none or more than `MAX_MASTER_KEYS`.
 */
export function parseMasterKeys(text: string): Uint8Array[] | undefined {
  const parts = [...new Set(text.split(/[\s,]+/).filter((part) => part !== ''))]
  if (parts.length === 0 || parts.length > MAX_MASTER_KEYS) return undefined
  if (!parts.every((part) => /^[A-Za-z0-9+/]{43}=$/.test(part))) return undefined
  return parts.map((part) => new Uint8Array(Buffer.from(part, 'base64')))
}

/** Reads a file of master keys; undefined when there is no file. Throws when the file holds anything but keys. */
export function readMasterKeyFile(path: string): Uint8Array[] | undefined {
  if (!fs.existsSync(path)) return undefined
  const keys = parseMasterKeys(fs.readFileSync(path, 'utf8'))
  if (!keys) throw new Error(`${path} does not hold a master key (32 bytes in base64; the newest first if several)`)
  return keys
}

export const generateMasterKey = (): Uint8Array => randomBytes(MASTER_KEY_BYTES)

/** Creates a master key file with mode 0600 and syncs it to disk; throws when the file exists. */
export function createMasterKeyFile(path: string): Uint8Array {
  const key = generateMasterKey()
  writeKeys(path, [key])
  return key
}

/**
 * Replaces the keys in a file: after a crash at any moment it holds the old keys or the new ones. Keeps owner and mode, and a symbolic link to it.
 * Throws when the file or its folder cannot be written.
 * @param keys newest first
 */
export function replaceMasterKeyFile(file: string, keys: readonly Uint8Array[]): void {
  const path = fs.realpathSync(file)
  const { uid, gid, mode } = fs.statSync(path)
  const next = `${path}.next`
  fs.rmSync(next, { force: true })
  try {
    writeKeys(next, keys)
    fs.chownSync(next, uid, gid)
    fs.chmodSync(next, mode & 0o777)
    fs.renameSync(next, path)
  } catch (error) {
    fs.rmSync(next, { force: true })
    throw error
  }
  syncFile(dirname(path), 'r')
}

function writeKeys(path: string, keys: readonly Uint8Array[]): void {
  fs.writeFileSync(path, keys.map((key) => `${Buffer.from(key).toString('base64')}\n`).join(''), {
    flag: 'wx',
    mode: 0o600,
  })
  fs.chmodSync(path, 0o600)
  syncFile(path, 'r+')
}
