/**
 * @module Signs with RSA by the faster of two implementations: the system's libcrypto (`libcrypto.ts`) if it gives the
 * signatures of node:crypto and is measured to be faster, else node:crypto. Never fails because of the library.
 */
import { generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { type NativeLibrary, openLibcrypto, type RsaSigner } from './libcrypto.ts'

/** Which implementation signs, and why. */
export interface SignerChoice {
  readonly implementation: 'libcrypto' | 'node:crypto'
  readonly reason: string
}

/** Rounds of the measurement; the best of each implementation counts, because other load only slows. */
const MEASURED_ROUNDS = 5
/** A smaller gain is not worth a second implementation. */
const MIN_GAIN = 0.1
/** About as long as the fields that DKIM signs. */
const TEST_DATA = Buffer.alloc(1024, 'Tassis')

/** Makes signers. Tests and measures the library with the first key, and tests it with each further key. */
export class RsaSigners {
  readonly #open: () => NativeLibrary | { readonly reason: string }
  readonly #clock: Clock
  #library: NativeLibrary | undefined
  #choice: SignerChoice | undefined

  constructor(open: () => NativeLibrary | { readonly reason: string } = openLibcrypto, clock: Clock = systemClock) {
    this.#open = open
    this.#clock = clock
  }

  /** Undefined until the first signer is made. */
  get choice(): SignerChoice | undefined {
    return this.#choice
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
    if (!this.#choice) {
      const opened = this.#open()
      if ('reason' in opened) this.#refuse(opened.reason)
      else this.#library = opened
    }
    if (!this.#library) return undefined
    let native: RsaSigner | undefined
    try {
      native = this.#library.loadRsaKey(key)
      requireEqualSignatures(native, key)
      if (!this.#choice) this.#measure(native, key, this.#library)
      // A library that is not faster is not used for later keys either.
      if (this.#library) return native
    } catch (error) {
      this.#refuse(`${this.#library?.name} failed its test: ${error instanceof Error ? error.message : String(error)}`)
    }
    native?.free()
    return undefined
  }

  /** Nothing more is signed by the library: one that fails for one key is not trusted with others. */
  #refuse(reason: string): void {
    this.#library = undefined
    this.#choice = { implementation: 'node:crypto', reason }
  }

  #measure(native: RsaSigner, key: KeyObject, library: NativeLibrary): void {
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
    const reason = `a signature takes ${nativeMs.toFixed(2)} ms by ${library.name}, ${ownMs.toFixed(2)} ms by node:crypto`
    if (nativeMs < ownMs * (1 - MIN_GAIN)) this.#choice = { implementation: 'libcrypto', reason }
    else this.#refuse(reason)
  }
}

/** PKCS #1 v1.5 signatures are deterministic, so both implementations must give the same. */
function requireEqualSignatures(native: RsaSigner, key: KeyObject): void {
  const signature = native.sign(TEST_DATA)
  if (!signature.equals(sign('sha256', TEST_DATA, key)) || !verify('sha256', TEST_DATA, key, signature))
    throw new Error('its signature is not that of node:crypto')
}

/** What this machine would use, found with a key made for this purpose: takes about a tenth of a second. */
export function probeRsaSigner(signers = new RsaSigners()): SignerChoice {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  signers.create(privateKey).free()
  return signers.choice ?? { implementation: 'node:crypto', reason: 'not measured' }
}
