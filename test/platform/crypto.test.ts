import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMasterKeyFile, KeyRing, parseMasterKeys, readMasterKeyFile } from '#platform/crypto/crypto.ts'

const ring = (fill: number) => new KeyRing(new Uint8Array(32).fill(fill))

describe('sealing', () => {
  test('sealed data opens under the same key and context', () => {
    expect(ring(1).unsealText(ring(1).seal('secret ✉', 'dkim:a'), 'dkim:a')).toBe('secret ✉')
  })

  test('the same text never gives the same ciphertext, which never contains it', () => {
    const [a, b] = [ring(1).seal('secret', 'x'), ring(1).seal('secret', 'x')]
    expect(Buffer.compare(a, b)).not.toBe(0)
    expect(Buffer.from(a).includes('secret')).toBe(false)
  })

  test('another context, another key and a changed octet do not open it', () => {
    const sealed = ring(1).seal('secret', 'dkim:a')
    expect(() => ring(1).unseal(sealed, 'dkim:b')).toThrow()
    expect(() => ring(2).unseal(sealed, 'dkim:a')).toThrow('sealed under another master key')
    const last = sealed.length - 1
    sealed[last] = (sealed[last] ?? 0) ^ 1
    expect(() => ring(1).unseal(sealed, 'dkim:a')).toThrow()
  })
})

test('each purpose has its own key, the same at every start', () => {
  expect(ring(1).subkey('verp')).toEqual(ring(1).subkey('verp'))
  expect(ring(1).subkey('verp')).not.toEqual(ring(1).subkey('seal'))
  expect(ring(1).subkey('verp')).not.toEqual(ring(2).subkey('verp'))
})

test('a master key file is private, holds 32 bytes and is never overwritten', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-key-'))
  const path = join(folder, 'master.key')
  expect(readMasterKeyFile(path)).toBeUndefined()
  const key = createMasterKeyFile(path)
  expect([key.length, statSync(path).mode & 0o777]).toEqual([32, 0o600])
  expect(readMasterKeyFile(path)).toEqual([key])
  expect(() => createMasterKeyFile(path)).toThrow()
  writeFileSync(path, 'not a key\n')
  expect(() => readMasterKeyFile(path)).toThrow('does not hold a master key')
  rmSync(folder, { recursive: true })
})

test('a master key is 32 bytes in base64 and nothing else', () => {
  expect(parseMasterKeys(`${Buffer.alloc(32, 7).toString('base64')}\n`)).toEqual([new Uint8Array(32).fill(7)])
  for (const text of [
    '',
    'x',
    Buffer.alloc(31).toString('base64'),
    Buffer.alloc(33).toString('base64'),
    '='.repeat(44),
  ])
    expect(parseMasterKeys(text)).toBeUndefined()
})
