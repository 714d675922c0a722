/** @module What is used of mailauth's verifier, which has no types of its own. */
declare module 'mailauth/lib/dkim/dkim-verifier' {
  import type { Writable } from 'node:stream'
  import type { DKIMVerifyOptions, DKIMVerifyResult } from 'mailauth'

  export interface BodyHasher {
    /** Of the body as it came. */
    readonly byteLength: number
    /** Of the body as it is signed, without regard to `l=`. */
    readonly canonicalizedLength: number
    /** What was hashed of it. */
    readonly bodyHashedBytes: number
    setContentType(): void
    digest(encoding: 'base64'): string
    getMimeStructureStart(): number
  }

  type VerificationResult = Pick<DKIMVerifyResult, 'headerFrom' | 'fromFields' | 'results' | 'arc'>

  /** A message is written to it; what it found is there when it has finished. */
  export interface DkimVerifier extends Writable, VerificationResult {}
  export class DkimVerifier {
    constructor(options: DKIMVerifyOptions)
    protected readonly bodyHashes: Map<string, BodyHasher>
    /** Registers a hash of the body, and gives its key. @param length `l=`; `''`: all of it */
    protected addBodyHash(canonicalisation: string, algorithm: string, length: number | ''): string
    /** A piece of the body. */
    protected nextChunk(chunk: Buffer): Promise<void>
    protected ensureLinebreaks(chunk: Buffer): Iterable<Buffer>
  }
}
