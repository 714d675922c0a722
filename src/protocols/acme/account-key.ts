/** @module The key of an ACME account: signed requests (RFC 8555 §6.2) and key authorisations (§8.1), with ES256. */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'

export type AccountKey = ReturnType<typeof toAccountKey>

/** Creates a key on P-256. */
export const generateAccountKey = (): AccountKey =>
  toAccountKey(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)

/** Throws when `pem` is no private key on P-256. */
export const parseAccountKey = (pem: string): AccountKey => toAccountKey(createPrivateKey(pem))

function toAccountKey(key: KeyObject) {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' })
  if (crv !== 'P-256' || kty !== 'EC' || x === undefined || y === undefined)
    throw new TypeError('the key of an ACME account must be on P-256')
  const jwk = { crv, kty, x, y }
  const thumbprint = createHash('sha256').update(JSON.stringify(jwk)).digest('base64url')
  return {
    /** PEM, PKCS #8. */
    pem: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    /** The public key as a JWK with its members in the order of RFC 7638 §3. */
    jwk,
    /** `token.thumbprint`, which proves that a challenge is answered by the owner of this key. */
    authorise: (token: string) => `${token}.${thumbprint}`,
    /** A request body: the flattened JWS JSON serialisation (RFC 7515 §7.2.2). @param payload '' for POST-as-GET */
    sign(header: Readonly<Record<string, unknown>>, payload: string): string {
      const protectedPart = encode(JSON.stringify({ alg: 'ES256', ...header }))
      const payloadPart = encode(payload)
      const signature = sign('sha256', Buffer.from(`${protectedPart}.${payloadPart}`), {
        key,
        dsaEncoding: 'ieee-p1363',
      }).toString('base64url')
      return JSON.stringify({ protected: protectedPart, payload: payloadPart, signature })
    },
  }
}

const encode = (text: string): string => Buffer.from(text).toString('base64url')
