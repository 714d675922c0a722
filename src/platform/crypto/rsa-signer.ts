/**
 * @module Signs with RSA by the faster of two implementations: the system's libcrypto (`libcrypto.ts`) if it gives the
 * signatures of node:crypto and is measured to be faster, else node:crypto. Never fails because of the library.
 */
import { type KeyObject, sign, verify } from 'node:crypto'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { type NativeLibrary, openLibcrypto, type RsaSigner } from './libcrypto.ts'

/** Rounds of the measurement; the best of each implementation counts, because other load only slows. */
const MEASURED_ROUNDS = 5
/** A smaller gain is not worth a second implementation. */
const MIN_GAIN = 0.1
/** About as long as the fields that DKIM signs. */
const TEST_DATA = Buffer.alloc(1024, 'Tassis')

/** Makes signers. Tests and measures the library with the first key, and tests it with each further key. */
export class RsaSigners {
  readonly #open: () => NativeLibrary | undefined
  readonly #clock: Clock
  /** Undefined until the first signer is made; null: node:crypto signs. */
  #library: NativeLibrary | null | undefined
  #isFaster = false

  constructor(open: () => NativeLibrary | undefined = openLibcrypto, clock: Clock = systemClock) {
    this.#open = open
    this.#clock = clock
  }

  create(key: KeyObject): RsaSigner {
    const native = this.#createNative(key)
    if (!native) return { sign: (data) => sign('sha256', data, key), free: () => {} }
    return {
      sign(data) {
        try {
          return native.sign(data)
        } catch {
          return sign('sha256', data, key)
        }
      },
      free: () => native.free(),
    }
  }

  #createNative(key: KeyObject): RsaSigner | undefined {
    if (this.#library === undefined) this.#library = this.#open() ?? null
    if (this.#library === null) return undefined
    let native: RsaSigner | undefined
    try {
      native = this.#library.loadRsaKey(key)
      if (isRight(native, key) && (this.#isFaster || this.#measure(native, key))) return native
    } catch {
      // Refused below, as one whose signature is wrong.
    }
    // A library that fails for one key is not trusted with others.
    this.#library = null
    native?.free()
    return undefined
  }

  #measure(native: RsaSigner, key: KeyObject): boolean {
    const time = (run: () => void) => {
      const startedMs = this.#clock.monotonicMs()
      run()
      return this.#clock.monotonicMs() - startedMs
    }
    let nativeMs = Number.POSITIVE_INFINITY
    let ownMs = Number.POSITIVE_INFINITY
    for (let round = 0; round < MEASURED_ROUNDS; round++) {
      ownMs = Math.min(
        ownMs,
        time(() => sign('sha256', TEST_DATA, key)),
      )
      nativeMs = Math.min(
        nativeMs,
        time(() => native.sign(TEST_DATA)),
      )
    }
    this.#isFaster = nativeMs < ownMs * (1 - MIN_GAIN)
    return this.#isFaster
  }
}

/** PKCS #1 v1.5 signatures are deterministic, so both implementations must give the same. */
function isRight(native: RsaSigner, key: KeyObject): boolean {
  const signature = native.sign(TEST_DATA)
  return signature.equals(sign('sha256', TEST_DATA, key)) && verify('sha256', TEST_DATA, key, signature)
}
