/**
 * @module Signs with RSA by the faster of two implementations: the system's libcrypto (OpenSSL 3), which on processors
 * with AVX-512 IFMA takes half the time, if it gives the signatures of node:crypto and is measured to be faster, else
 * node:crypto. Never fails because of the library. Opens it only by absolute path, because the loader would otherwise
 * also look in the working directory. Linux only: macOS ends processes that load its libcrypto.
 */

import { dlopen, ptr } from 'bun:ffi'
import { type KeyObject, sign, verify } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { type Clock, systemClock } from '#platform/time/clock.ts'

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

/** An RSA private key that is ready to sign. */
interface RsaSigner {
  /** A signature of RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 §8.2). Throws when the library fails. */
  sign(data: Uint8Array): Buffer
  /** Frees the memory of the key, which must not be used any more. */
  free(): void
}

export interface NativeLibrary {
  /** Throws when the library cannot read the key. */
  loadRsaKey(key: KeyObject): RsaSigner
}

/** Where distributions have the library. */
const LIBRARY_PATHS = [
  `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/libcrypto.so.3`,
  '/usr/lib64/libcrypto.so.3',
  '/usr/lib/libcrypto.so.3',
  '/lib/libcrypto.so.3',
]

/**
 * Opens the library; undefined when there is none that can be used.
 * @param paths tried in this order
 */
export function openLibcrypto(paths: readonly string[] = LIBRARY_PATHS): NativeLibrary | undefined {
  if (process.platform !== 'linux') return undefined
  const path = paths.find((each) => existsSync(each))
  if (path === undefined) return undefined
  try {
    preferAvx2(readFileSync('/proc/cpuinfo', 'utf8'))
    const { symbols } = dlopen(path, SYMBOLS)
    if (symbols.OPENSSL_version_major() !== OPENSSL_MAJOR) return undefined
    if (symbols.OPENSSL_init_crypto(NO_CONFIG | NO_ATEXIT, null) !== 1) return undefined
    return { loadRsaKey: (key) => new LibcryptoKey(symbols, key) }
  } catch {
    return undefined
  }
}

/**
 * Hides ADX from the library, which reads this variable when it is loaded, unless the processor has AVX-512 IFMA: the
 * library prefers its ADX code to its AVX2 code, which takes 15 to 20 % less time for RSA on such processors of AMD.
 * Where it does not, `RsaSigners` finds node:crypto faster, which uses ADX too. A variable that is set stays.
 * @param cpuinfo content of /proc/cpuinfo
 */
export function preferAvx2(cpuinfo: string): void {
  if (!/\badx\b/.test(cpuinfo) || /\bavx512ifma\b/.test(cpuinfo)) return
  const { symbols } = dlopen('libc.so.6', { setenv: { args: ['cstring', 'cstring', 'i32'], returns: 'i32' } })
  symbols.setenv(Buffer.from('OPENSSL_ia32cap\0'), Buffer.from(`:~${ADX_BIT}\0`), 0)
}
/** Of the feature bits in EBX of CPUID leaf 7. */
const ADX_BIT = '0x80000'

const OPENSSL_MAJOR = 3
/** OPENSSL_INIT_NO_LOAD_CONFIG: no file of the system adds other implementations. */
const NO_CONFIG = 0x80n
/** OPENSSL_INIT_NO_ATEXIT: the library is not torn down under a Worker that still signs when the process ends. */
const NO_ATEXIT = 0x80000n

/** Functions by name, with their types in C. OpenSSL 1.1 lacks the first, so it is not opened at all. */
const SYMBOLS = {
  OPENSSL_version_major: { args: [], returns: 'u32' },
  OPENSSL_init_crypto: { args: ['u64', 'ptr'], returns: 'i32' },
  d2i_AutoPrivateKey: { args: ['ptr', 'ptr', 'i64'], returns: 'ptr' },
  EVP_PKEY_get_size: { args: ['ptr'], returns: 'i32' },
  EVP_PKEY_free: { args: ['ptr'], returns: 'void' },
  EVP_MD_CTX_new: { args: [], returns: 'ptr' },
  EVP_MD_CTX_free: { args: ['ptr'], returns: 'void' },
  EVP_sha256: { args: [], returns: 'ptr' },
  EVP_DigestSignInit: { args: ['ptr', 'ptr', 'ptr', 'ptr', 'ptr'], returns: 'i32' },
  EVP_DigestSign: { args: ['ptr', 'ptr', 'ptr', 'ptr', 'u64'], returns: 'i32' },
} as const

type Symbols = ReturnType<typeof dlopen<typeof SYMBOLS>>['symbols']

/** Size of a signature: that of an RSA key of 16,384 bits. */
const MAX_SIGNATURE_BYTES = 2048

class LibcryptoKey implements RsaSigner {
  readonly #symbols: Symbols
  readonly #size: number
  /** Undefined once freed. */
  #key: NonNullable<ReturnType<Symbols['d2i_AutoPrivateKey']>> | undefined

  constructor(symbols: Symbols, privateKey: KeyObject) {
    this.#symbols = symbols
    if (privateKey.asymmetricKeyType !== 'rsa') throw new Error('the key is not an RSA key')
    const der = privateKey.export({ type: 'pkcs8', format: 'der' })
    // The library advances this pointer to the end of what it has read.
    const position = new BigUint64Array([BigInt(ptr(der))])
    const key = symbols.d2i_AutoPrivateKey(null, position, der.length)
    der.fill(0)
    if (!key) throw new Error('libcrypto cannot read the key')
    this.#key = key
    this.#size = symbols.EVP_PKEY_get_size(key)
    if (this.#size > 0 && this.#size <= MAX_SIGNATURE_BYTES) return
    this.free()
    throw new Error('libcrypto reports an impossible size of the key')
  }

  sign(data: Uint8Array): Buffer {
    const key = this.#key
    if (key === undefined) throw new Error('the key was freed')
    const { EVP_MD_CTX_new, EVP_MD_CTX_free, EVP_sha256, EVP_DigestSignInit, EVP_DigestSign } = this.#symbols
    const context = EVP_MD_CTX_new()
    if (!context) throw new Error('libcrypto has no memory')
    try {
      const signature = Buffer.alloc(this.#size)
      const length = new BigUint64Array([BigInt(this.#size)])
      const isSigned =
        EVP_DigestSignInit(context, null, EVP_sha256(), null, key) === 1 &&
        EVP_DigestSign(context, signature, length, data, data.length) === 1
      if (!isSigned || length[0] !== BigInt(this.#size)) throw new Error('libcrypto did not sign')
      return signature
    } finally {
      EVP_MD_CTX_free(context)
    }
  }

  free(): void {
    if (this.#key !== undefined) this.#symbols.EVP_PKEY_free(this.#key)
    this.#key = undefined
  }
}
