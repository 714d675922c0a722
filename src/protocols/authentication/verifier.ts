/**
 * @module Extends mailauth's DKIM verifier with our own body hashing: the original makes one pass per hash, allocates a
 * buffer per line and reads each octet four times. Accepts only messages from `prepareMessage`, because these have
 * CRLF line ends.
 */
import { DkimVerifier } from 'mailauth/lib/dkim/dkim-verifier'
import { CanonicalBody } from '../dkim/body-hash.ts'

/**
 * After a piece that is longer than this, other work may run. Hashing a shorter piece takes less time than a tick of
 * the event loop.
 */
const YIELD_BYTES = 16 * 1024

export class SignatureVerifier extends DkimVerifier {
  readonly #bodies = new Map<string, CanonicalBody>()

  /** Reads a message; resolves when its signatures are verified. */
  async verify(pieces: Iterable<Buffer>): Promise<void> {
    // Without a listener an error event would throw. The error also reaches the callback of `write` or `end` below,
    // which rejects.
    this.on('error', () => {})
    for (const piece of pieces) {
      await this.#awaitCallback((done) => this.write(piece, done))
      // Lets other work run between two pieces of a large message.
      if (piece.length > YIELD_BYTES) await new Promise<void>((resolve) => setImmediate(resolve))
    }
    await this.#awaitCallback((done) => this.end(done))
  }

  #awaitCallback(run: (done: (error?: Error | null) => void) => void): Promise<void> {
    return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())))
  }

  protected override addBodyHash(canonicalisation: string, algorithm: string, length: number | ''): string {
    const key = `${canonicalisation}:${algorithm}:${length}`
    this.bodyHashes.getOrInsertComputed(key, () =>
      this.#getBody(canonicalisation).addHash(algorithm, length === '' ? undefined : length),
    )
    return key
  }

  protected override nextChunk(chunk: Buffer): Promise<void> {
    for (const body of this.#bodies.values()) body.update(chunk)
    return Promise.resolve()
  }

  protected override ensureLinebreaks(chunk: Buffer): Iterable<Buffer> {
    return [chunk]
  }

  #getBody(canonicalisation: string): CanonicalBody {
    return this.#bodies.getOrInsertComputed(
      canonicalisation,
      () => new CanonicalBody(canonicalisation === 'relaxed' ? 'relaxed' : 'simple'),
    )
  }
}
