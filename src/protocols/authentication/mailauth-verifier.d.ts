/** @module Types for the part of mailauth's verifier that we use, which ships without types. */
declare module 'mailauth/lib/dkim/dkim-verifier' {
  import type { Writable } from 'node:stream'
  import type { DKIMVerifyOptions, DKIMVerifyResult } from 'mailauth'

  export interface BodyHasher {
    /** Octets of the body as received. */
    readonly byteLength: number
    /** Octets of the canonical body, regardless of `l=`. */
    readonly canonicalizedLength: number
    /** Octets that were hashed. */
    readonly bodyHashedBytes: number
    setContentType(): void
    digest(encoding: 'base64'): string
    getMimeStructureStart(): number
  }

  type VerificationResult = Pick<DKIMVerifyResult, 'headerFrom' | 'fromFields' | 'results' | 'arc'>

  /** Write a message to it; the results are complete when the stream has finished. */
  export interface DkimVerifier extends Writable, VerificationResult {}
  export class DkimVerifier {
    constructor(options: DKIMVerifyOptions)
    protected readonly bodyHashes: Map<string, BodyHasher>
    /**
     * Registers a body hash and returns its key.
     * @param length `l=`; `''`: the whole body
     */
    protected addBodyHash(canonicalisation: string, algorithm: string, length: number | ''): string
    /** Handles a piece of the body. */
    protected nextChunk(chunk: Buffer): Promise<void>
    protected ensureLinebreaks(chunk: Buffer): Iterable<Buffer>
  }
}
