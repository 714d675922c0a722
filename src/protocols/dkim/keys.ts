/**
 * @module Creates DKIM keys and reads and writes their DNS record (RFC 6376 §3.6.1, RFC 8463 §4). Creates RSA keys on a
 * thread of the crypto library, so the event loop is not blocked. Never stores a key, never queries DNS.
 */
import { createPrivateKey, createPublicKey, generateKeyPair, generateKeyPairSync } from 'node:crypto'
import { promisify } from 'node:util'

export interface DkimKey {
  /** PKCS #8 in PEM. Secret. */
  readonly privateKeyPem: string
  /**
   * Base64, as in the p= tag: of the SubjectPublicKeyInfo of an RSA key in DER, 392 characters; of the 32 octets of an
   * Ed25519 key, 44 characters.
   */
  readonly publicKey: string
}

export type DkimRecord =
  | {
      readonly kind: 'ok'
      /**
       * Every tag of the record by name. White space within p= is removed; an empty p= means that the key is revoked.
       */
      readonly tags: ReadonlyMap<string, string>
    }
  | { readonly kind: 'invalid'; readonly reason: string }

/**
 * RFC 8301 §3.2: signers should use at least 2048 bits. The record of a longer key would not fit into a UDP response.
 */
const MODULUS_BITS = 2048
const MAX_RECORD_LENGTH = 8_192
/** A tag-name as RFC 6376 §3.2 defines it. */
const TAG_NAME = /^[A-Za-z][A-Za-z0-9_]*$/

/** Creates an RSA-2048 key pair. */
export async function generateDkimKey(): Promise<DkimKey> {
  const { privateKey, publicKey } = await promisify(generateKeyPair)('rsa', {
    modulusLength: MODULUS_BITS,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
  return { privateKeyPem: privateKey, publicKey: publicKey.toString('base64') }
}

/** Creates an Ed25519 key pair, which takes a fraction of a millisecond. */
export function generateEd25519DkimKey(): DkimKey {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  return {
    privateKeyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: Buffer.from(x, 'base64url').toString('base64'),
  }
}

/** RFC 8301 §3.2: verifiers must treat shorter RSA keys as no signature, and need not support longer ones than 4,096. */
const [MIN_MODULUS_BITS, MAX_MODULUS_BITS] = [1024, 4096]

/** The size of a public RSA key as its p= tag has it; 0 if it cannot be read. */
export function readModulusBits(publicKey: string): number {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' })
    return key.asymmetricKeyDetails?.modulusLength ?? 0
  } catch {
    return 0
  }
}

/** Reads an existing private RSA key, PKCS #1 or PKCS #8 in PEM without a password. The library checks that its parts match. */
export function importDkimKey(pem: string) {
  try {
    const key = createPrivateKey(pem.trim())
    if (key.asymmetricKeyType !== 'rsa')
      return invalid(
        `The key is of the type ${key.asymmetricKeyType}, but it must be RSA; an Ed25519 key is created beside it.`,
      )
    const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
    if (bits < MIN_MODULUS_BITS || bits > MAX_MODULUS_BITS)
      return invalid(
        `The key has ${bits} bits; receivers verify RSA keys of ${MIN_MODULUS_BITS} to ${MAX_MODULUS_BITS} bits only. Leave it out, and a new key is created.`,
      )
    const publicKey = createPublicKey(key)
    return {
      kind: 'ok' as const,
      privateKeyPem: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
      publicKey: publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    }
  } catch {
    return invalid(
      'The key cannot be read: it must be a private RSA key in PEM, whole and without a password, with its lines BEGIN and END.',
    )
  }
}

/** The k= tag. */
export type DkimKeyType = 'rsa' | 'ed25519'

/**
 * Returns the TXT record for `selector._domainkey.domain` in one piece. That of an RSA key exceeds 255 octets, so DNS
 * carries it as two strings.
 */
export const formatDkimRecord = (publicKey: string, type: DkimKeyType = 'rsa'): string =>
  `v=DKIM1; k=${type}; p=${publicKey}`

/**
 * Parses a DKIM key record from the joined strings of one TXT record. Retains unknown tags, although they have no
 * meaning. The record is invalid if a tag occurs twice, if v= is not first or not DKIM1, or if p= is missing. RFC 6376
 * §3.2, §3.6.1. Never throws.
 */
export function parseDkimRecord(text: string): DkimRecord {
  if (text.length > MAX_RECORD_LENGTH) return invalid('The record is longer than 8,192 characters.')
  const tags = new Map<string, string>()
  const specs = text.split(';')
  if (specs.at(-1)?.trim() === '') specs.pop()
  for (const [index, spec] of specs.entries()) {
    const equals = spec.indexOf('=')
    const name = equals === -1 ? '' : spec.slice(0, equals).trim()
    if (!TAG_NAME.test(name))
      return invalid(`${JSON.stringify(spec.trim().slice(0, 40))} is not a tag of the form name=value.`)
    if (tags.has(name)) return invalid(`The tag ${name}= occurs twice.`)
    const value = spec.slice(equals + 1).trim()
    if (name === 'v' && (index > 0 || value !== 'DKIM1')) return invalid('The tag v= must come first and be DKIM1.')
    tags.set(name, name === 'p' ? value.replace(/\s+/g, '') : value)
  }
  return tags.has('p') ? { kind: 'ok', tags } : invalid('The record has no p= tag with a public key.')
}

const invalid = (reason: string): { readonly kind: 'invalid'; readonly reason: string } => ({ kind: 'invalid', reason })
