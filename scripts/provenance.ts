/**
 * @module Where a release comes from: an in-toto statement (v1) with SLSA provenance (v1), and its DSSE envelope when a
 * key signs it. Without a key it is an unsigned claim, which shows what was built but not who built it.
 */
import { createPublicKey, type KeyObject, sign } from 'node:crypto'
import type { Release } from './sbom.ts'

export interface Subject {
  readonly name: string
  /** Hexadecimal. */
  readonly sha256: string
}

export interface BuildInputs extends Release {
  readonly targets: readonly string[]
  readonly lockSha256: string
  /** The packages of Bun by name, with their SHA-512 in base64. */
  readonly runtimes: Readonly<Record<string, string>>
}

const PAYLOAD_TYPE = 'application/vnd.in-toto+json'

/** Formats the statement. It has no time of the build and no name of a machine, so the same release gives the same text. */
export function formatStatement(subjects: readonly Subject[], build: BuildInputs): string {
  const { version, commit, epoch, bunVersion, targets, lockSha256, runtimes } = build
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects.map(({ name, sha256 }) => ({ name, digest: { sha256 } })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:tassis:scripts-release:v1',
        externalParameters: { version, commit, targets },
        internalParameters: { SOURCE_DATE_EPOCH: epoch },
        resolvedDependencies: [
          { name: 'source', digest: { gitCommit: commit } },
          { name: 'bun.lock', digest: { sha256: lockSha256 } },
          ...Object.entries(runtimes).map(([name, sha512]) => ({
            uri: `pkg:npm/${name.replace('@', '%40')}@${bunVersion}`,
            digest: { sha512: Buffer.from(sha512, 'base64').toString('hex') },
          })),
        ],
      },
      runDetails: { builder: { id: 'urn:tassis:scripts-release' } },
    },
  }
  return `${JSON.stringify(statement, null, 1)}\n`
}

/** Signs a statement as a DSSE envelope (v1.0.2). @param key Ed25519, ECDSA or RSA */
export function signStatement(statement: string, key: KeyObject): string {
  const isEdwards = key.asymmetricKeyType === 'ed25519'
  const signature = sign(isEdwards ? null : 'sha256', encodeForSignature(statement), key)
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'der' })
  const envelope = {
    payloadType: PAYLOAD_TYPE,
    payload: Buffer.from(statement).toString('base64'),
    signatures: [
      {
        keyid: new Bun.CryptoHasher('sha256').update(publicKey).digest('hex'),
        sig: signature.toString('base64'),
      },
    ],
  }
  return `${JSON.stringify(envelope)}\n`
}

/** The octets that DSSE signs: type and content with their lengths. */
export const encodeForSignature = (statement: string): Buffer =>
  Buffer.from(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${Buffer.byteLength(statement)} ${statement}`)
