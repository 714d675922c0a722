/**
 * @module DKIM keys for domains in tests, stored in dkim-keys.pem, because creating two for a service takes longer than
 * most tests. Not secret; the service creates its own.
 */
import { createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DkimKey } from '#protocols/dkim/keys.ts'

const keys = readFileSync(join(import.meta.dir, 'dkim-keys.pem'), 'utf8')
  .split(/(?<=-----END PRIVATE KEY-----\n)/)
  .map((privateKeyPem): DkimKey => {
    const der = createPublicKey(privateKeyPem).export({ type: 'spki', format: 'der' })
    return { privateKeyPem, publicKey: der.toString('base64') }
  })
let issued = 0

/** The next stored key. Up to eight domains of one test have different ones. */
export async function dkimKeyFromFile(): Promise<DkimKey> {
  const key = keys[issued++ % keys.length]
  if (!key) throw new Error('dkim-keys.pem has no keys')
  return key
}
