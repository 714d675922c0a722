/** @module An authenticator of WebAuthn for tests, in software: one key on P-256, a counter, and what browsers send. */
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

const USER_PRESENT = 0x01
const USER_VERIFIED = 0x04
const HAS_KEY = 0x40

const toText = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
const sha256 = (bytes: string | Uint8Array): Buffer => createHash('sha256').update(bytes).digest()

/** CBOR of a map of integers and texts to integers, texts and bytes: what a key and an attestation need. */
function toCbor(value: unknown): Buffer {
  if (value instanceof Map)
    return Buffer.concat([head(5, value.size), ...[...value].flatMap(([key, item]) => [toCbor(key), toCbor(item)])])
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value)
  const bytes = Buffer.from(value as string | Uint8Array)
  return Buffer.concat([head(typeof value === 'string' ? 3 : 2, bytes.length), bytes])
}

const head = (type: number, n: number): Buffer =>
  n < 24
    ? Buffer.of((type << 5) | n)
    : n < 256
      ? Buffer.of((type << 5) | 24, n)
      : Buffer.of((type << 5) | 25, n >> 8, n & 255)

export interface AuthenticatorOptions {
  /** Origin of the page. */
  readonly origin: string
  /** Whether it verified its user. */
  readonly isVerified?: boolean
}

/** A new one, without a user. */
export function createAuthenticator() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const id = randomBytes(16)
  let userHandle = ''
  const self = { counter: 1, create, use }
  const toAuthData = (rpId: string, flags: number): Buffer => {
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(self.counter)
    return Buffer.concat([sha256(rpId), Buffer.of(flags), counter])
  }
  const toClientData = (type: string, challenge: string, origin: string): Buffer =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  const toFlags = ({ isVerified = true }: AuthenticatorOptions): number =>
    USER_PRESENT | (isVerified ? USER_VERIFIED : 0)
  const toCredential = <Response>(response: Response) => ({
    id: toText(id),
    rawId: toText(id),
    type: 'public-key',
    clientExtensionResults: {},
    response,
  })

  /** What `navigator.credentials.create` returns for these options. */
  function create(
    { challenge, rp, user }: { challenge: string; rp: { id: string }; user: { id: string } },
    options: AuthenticatorOptions,
  ) {
    userHandle = user.id
    const cose = new Map<number, unknown>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, Buffer.from(x, 'base64url')],
      [-3, Buffer.from(y, 'base64url')],
    ])
    const authData = Buffer.concat([
      toAuthData(rp.id, toFlags(options) | HAS_KEY),
      Buffer.alloc(16),
      Buffer.of(0, id.length),
      id,
      toCbor(cose),
    ])
    const attestation = new Map<string, unknown>([
      ['fmt', 'none'],
      ['attStmt', new Map()],
      ['authData', authData],
    ])
    return toCredential({
      clientDataJSON: toText(toClientData('webauthn.create', challenge, options.origin)),
      attestationObject: toText(toCbor(attestation)),
      transports: ['internal'],
    })
  }

  /** What `navigator.credentials.get` returns for these options. */
  function use({ challenge, rpId }: { challenge: string; rpId: string }, options: AuthenticatorOptions) {
    self.counter++
    const authData = toAuthData(rpId, toFlags(options))
    const clientData = toClientData('webauthn.get', challenge, options.origin)
    return toCredential({
      clientDataJSON: toText(clientData),
      authenticatorData: toText(authData),
      signature: toText(sign('sha256', Buffer.concat([authData, sha256(clientData)]), privateKey)),
      userHandle,
    })
  }
  return self
}

export type Authenticator = ReturnType<typeof createAuthenticator>
