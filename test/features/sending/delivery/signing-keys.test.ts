import { expect, test } from 'bun:test'
import { generateKeyPairSync, sign } from 'node:crypto'
import { SigningKeys } from '#features/sending/delivery/worker/signing-keys.ts'
import { RsaSigners } from '#platform/crypto/rsa-signer.ts'

const createPem = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 1024,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  }).privateKey
const DATA = Buffer.from('data')

/** Counts the keys in memory. */
class CountingSigners extends RsaSigners {
  inMemory = 0

  override create(key: Parameters<RsaSigners['create']>[0]) {
    this.inMemory++
    const signer = super.create(key)
    return {
      sign: signer.sign,
      free: () => {
        this.inMemory--
        signer.free()
      },
    }
  }
}

test('keys are parsed once, freed when replaced, and at most so many are in memory', () => {
  const rsa = new CountingSigners()
  const keys = new SigningKeys(rsa, 2)
  const pems = Array.from({ length: 4 }, createPem)
  for (const [id, privateKeyPem] of pems.entries()) keys.add({ id: String(id), privateKeyPem })
  expect(rsa.inMemory).toBe(0)
  for (const id of [0, 1, 2, 3, 0, 0, 3, 1])
    expect(keys.get(String(id)).sign(DATA)).toEqual(sign('sha256', DATA, pems[id] ?? ''))
  expect(rsa.inMemory).toBe(2)
  expect(keys.get('1')).toBe(keys.get('1'))
  const replacement = createPem()
  keys.add({ id: '1', privateKeyPem: replacement })
  expect(rsa.inMemory).toBe(1)
  expect(keys.get('1').sign(DATA)).toEqual(sign('sha256', DATA, replacement))
})

test('a message that was being composed when its key was freed is signed all the same', () => {
  const pem = createPem()
  const keys = new SigningKeys()
  keys.add({ id: '1', privateKeyPem: pem })
  const signer = keys.get('1')
  keys.add({ id: '1', privateKeyPem: createPem() })
  expect(signer.sign(DATA)).toEqual(sign('sha256', DATA, pem))
})

test('a missing or unreadable key fails only its own messages', () => {
  const keys = new SigningKeys()
  keys.add({ id: '1', privateKeyPem: 'no key' })
  keys.add({ id: '2', privateKeyPem: createPem() })
  expect(() => keys.get('1')).toThrow()
  expect(() => keys.get('3')).toThrow('missing')
  expect(keys.get('2').algorithm).toBe('rsa-sha256')
})
