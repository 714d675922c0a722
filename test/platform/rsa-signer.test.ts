import { describe, expect, test } from 'bun:test'
import { createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { type NativeLibrary, openLibcrypto, RsaSigners } from '#platform/crypto/rsa-signer.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const createKey = (modulusLength = 2048) => generateKeyPairSync('rsa', { modulusLength }).privateKey
const key = createKey()
const DATA = Buffer.from('from:a@example.com\r\n')

const createLibrary = (
  signData: (data: Uint8Array, privateKey: KeyObject) => Buffer,
): NativeLibrary & { readonly freed: number[]; readonly signed: Uint8Array[] } => {
  const freed: number[] = []
  const signed: Uint8Array[] = []
  let loaded = 0
  return {
    freed,
    signed,
    loadRsaKey(privateKey) {
      const number = ++loaded
      const signWith = (data: Uint8Array) => {
        signed.push(data)
        return signData(data, privateKey)
      }
      return { sign: signWith, free: () => void freed.push(number) }
    },
  }
}

/** A clock on which node:crypto appears to take 2 ms a signature and the library the given time. */
class MeasuringClock extends ManualClock {
  #reads = 0
  readonly #libraryMs: number

  constructor(libraryMs: number) {
    super()
    this.#libraryMs = libraryMs
  }

  /** Called before and after each measured signature, first for node:crypto and then for the library. */
  override monotonicMs(): number {
    const round = Math.floor(this.#reads / 4)
    const times = [0, 2, 2, 2 + this.#libraryMs]
    return round * (2 + this.#libraryMs) + (times[this.#reads++ % 4] ?? 0)
  }
}

const good = (data: Uint8Array, privateKey: KeyObject) => sign('sha256', data, privateKey)
const FAST = 1
const SLOW = 3

describe('signatures', () => {
  test('by the system library without its ADX code are those of node:crypto; a variable that is set stays', () => {
    const program = `
      import { dlopen } from 'bun:ffi'
      import { generateKeyPairSync, sign } from 'node:crypto'
      import { openLibcrypto, preferAvx2 } from '#platform/crypto/rsa-signer.ts'
      preferAvx2('flags: adx avx2 avx512ifma')
      const { symbols } = dlopen('libc.so.6', { getenv: { args: ['cstring'], returns: 'cstring' } })
      const read = () => String(symbols.getenv(Buffer.from('OPENSSL_ia32cap\\0')))
      const withIfma = read()
      preferAvx2('flags: adx avx2')
      const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
      const [data, library] = [Buffer.from('a'), openLibcrypto()]
      const isEqual = !library || library.loadRsaKey(privateKey).sign(data).equals(sign('sha256', data, privateKey))
      console.log(JSON.stringify([withIfma, read(), isEqual]))`
    const run = (env: Record<string, string>) => {
      const { stdout } = Bun.spawnSync([process.execPath, '-e', program], { env: { ...process.env, ...env } })
      return JSON.parse(stdout.toString())
    }
    expect(run({})).toEqual([expect.any(String), ':~0x80000', true])
    expect(run({ OPENSSL_ia32cap: ':~0x1' })).toEqual([':~0x1', ':~0x1', true])
  })

  test('by the system library are those of node:crypto, for keys of 1024 to 4096 bits', () => {
    const library = openLibcrypto()
    if (!library) return
    for (const privateKey of [1024, 2048, 3072, 4096].map(createKey)) {
      const native = library.loadRsaKey(privateKey)
      for (const data of [DATA, Buffer.alloc(0), Buffer.alloc(100_000, 'x')]) {
        expect(native.sign(data).equals(sign('sha256', data, privateKey))).toBe(true)
        expect(verify('sha256', data, createPublicKey(privateKey), native.sign(data))).toBe(true)
      }
      native.free()
      native.free()
      expect(() => native.sign(DATA)).toThrow('freed')
    }
    expect(() => library.loadRsaKey(generateKeyPairSync('ed25519').privateKey)).toThrow('RSA')
  })

  test('of 2,000 messages in turn by 50 keys are valid', () => {
    const signers = new RsaSigners()
    const keys = Array.from({ length: 50 }, () => createKey(1024))
    const made = keys.map((privateKey) => signers.create(privateKey))
    for (let i = 0; i < 2_000; i++) {
      const data = Buffer.from(`message ${i}`)
      const signature = made[i % 50]?.sign(data)
      expect(signature?.equals(sign('sha256', data, keys[i % 50] as KeyObject))).toBe(true)
      if (i % 100 !== 99) continue
      made[i % 50]?.free()
      made[i % 50] = signers.create(keys[i % 50] as KeyObject)
    }
  })

  test('are made by a library that is right and faster', () => {
    const clock = new MeasuringClock(FAST)
    const library = createLibrary(good)
    const signers = new RsaSigners(() => library, clock)
    const signer = signers.create(key)
    expect(signer.sign(DATA)).toEqual(sign('sha256', DATA, key))
    expect(library.signed.at(-1)).toBe(DATA)
    signer.free()
    expect(library.freed).toEqual([1])
  })

  test.each([
    ['that is slower', SLOW, good],
    ['whose signatures are wrong', FAST, () => Buffer.alloc(256)],
    [
      'that throws',
      FAST,
      () => {
        throw new Error('broken')
      },
    ],
  ])('are made by node:crypto with a library %s', (_, libraryMs, signData) => {
    const clock = new MeasuringClock(libraryMs)
    const library = createLibrary(signData)
    const signers = new RsaSigners(() => library, clock)
    for (let number = 0; number < 3; number++) expect(signers.create(key).sign(DATA)).toEqual(sign('sha256', DATA, key))
    expect(library.signed).not.toContain(DATA)
    expect(library.freed).toEqual([1])
  })

  test('are made by node:crypto when the library fails later', () => {
    const clock = new MeasuringClock(FAST)
    let isBroken = false
    const library = createLibrary((data, privateKey) => {
      if (isBroken) throw new Error('broken')
      return good(data, privateKey)
    })
    const signers = new RsaSigners(() => library, clock)
    const signer = signers.create(key)
    isBroken = true
    expect(signer.sign(DATA)).toEqual(sign('sha256', DATA, key))
    expect(signers.create(createKey()).sign(DATA)).toHaveLength(256)
    isBroken = false
    const before = library.signed.length
    signers.create(key).sign(DATA)
    expect(library.signed).toHaveLength(before)
  })
})

test.each([
  ['does not exist', '/nonexistent/libcrypto.so.3'],
  ['is not a library', import.meta.path],
  ['lacks the functions of OpenSSL 3', '/lib/x86_64-linux-gnu/libm.so.6'],
])('a library is not used if it %s', (_, path) => {
  expect(openLibcrypto([path])).toBeUndefined()
})
