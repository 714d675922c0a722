import { describe, expect, test } from 'bun:test'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { CanonicalBody } from '#protocols/dkim/body-hash.ts'
import { formatDkimRecord, generateDkimKey, generateEd25519DkimKey, parseDkimRecord } from '#protocols/dkim/keys.ts'
import { createDkimSigner, createSignatureFields, signMessage } from '#protocols/dkim/sign.ts'
import { composeToBuffer } from '#test/support/compose.ts'
import { createTrickyInput } from '../mime/sample.ts'
import { hasDkimpyEd25519, verifyEachWithDkimpy, verifyWithMailauth } from './verifiers.ts'

const rsa = await generateDkimKey()
const ed25519 = generateEd25519DkimKey()
const DOMAIN = 'example.com'
const records: Readonly<Record<string, string>> = {
  [`r._domainkey.${DOMAIN}`]: formatDkimRecord(rsa.publicKey),
  [`e._domainkey.${DOMAIN}`]: formatDkimRecord(ed25519.publicKey, 'ed25519'),
}
const messages = Array.from({ length: 40 }, (_, number) => composeToBuffer(createTrickyInput(number)))

const signatures = [
  { domain: DOMAIN, selector: 'r', signer: createDkimSigner(createPrivateKey(rsa.privateKeyPem)) },
  { domain: DOMAIN, selector: 'e', signer: createDkimSigner(createPrivateKey(ed25519.privateKeyPem)) },
]

/** As a delivery Worker does it: the header is read once for both signatures. */
function signTwice(message: Buffer): Buffer {
  const bodyStart = message.indexOf('\r\n\r\n') + 4
  const body = new CanonicalBody('relaxed')
  const hash = body.addHash('sha256')
  body.update(message.subarray(bodyStart))
  return Buffer.concat([
    createSignatureFields(message.subarray(0, bodyStart), hash.digest('base64'), signatures),
    message,
  ])
}

test('a key has the form of RFC 8463 §4.2: 32 octets in base64, without a SubjectPublicKeyInfo', () => {
  expect(Buffer.from(ed25519.publicKey, 'base64')).toHaveLength(32)
  const der = createPublicKey(createPrivateKey(ed25519.privateKeyPem)).export({ type: 'spki', format: 'der' })
  expect(der.subarray(-32).toString('base64')).toBe(ed25519.publicKey)
  const record = parseDkimRecord(formatDkimRecord(ed25519.publicKey, 'ed25519'))
  expect(record.kind === 'ok' && [...record.tags]).toEqual([
    ['v', 'DKIM1'],
    ['k', 'ed25519'],
    ['p', ed25519.publicKey],
  ])
  expect(formatDkimRecord(ed25519.publicKey, 'ed25519').length).toBeLessThan(255)
})

describe('two signatures', () => {
  test('verify with mailauth, and no longer when the message is changed', async () => {
    for (const message of messages) expect(await verifyWithMailauth(signTwice(message), records)).toBe('pass,pass')
    const signed = signTwice(messages[0] as Buffer)
    const changed = Buffer.concat([signed, Buffer.from('more\r\n')])
    expect(await verifyWithMailauth(changed, records)).not.toContain('pass')
    const text = signed.toString('latin1')
    const moved = Buffer.from(text.replace(/^Date: .*$/m, 'Date: Sat, 03 Jan 2026 03:04:05 +0000'), 'latin1')
    expect(await verifyWithMailauth(moved, records)).not.toContain('pass')
  })

  test.skipIf(!hasDkimpyEd25519)('verify with dkimpy, and no longer when the message is changed', () => {
    const changed = Buffer.from(signTwice(messages[0] as Buffer))
    changed[changed.length - 3] = 'X'.charCodeAt(0)
    const verdicts = verifyEachWithDkimpy([...messages.map(signTwice), changed], records)
    expect(verdicts).toEqual([...messages.map(() => [true, true]), [false, false]])
  })

  test('are independent: each verifies without the record of the other', async () => {
    const signed = signTwice(messages[1] as Buffer)
    const [rsaName = '', ed25519Name = ''] = Object.keys(records)
    expect(await verifyWithMailauth(signed, { [rsaName]: records[rsaName] ?? '' })).toStartWith('pass,')
    expect(await verifyWithMailauth(signed, { [ed25519Name]: records[ed25519Name] ?? '' })).toEndWith(',pass')
  })

  test('give the same bytes for the same message', () => {
    expect(signTwice(messages[2] as Buffer)).toEqual(signTwice(messages[2] as Buffer))
  })
})

test('a lone Ed25519 signature verifies', async () => {
  const privateKey = createPrivateKey(ed25519.privateKeyPem)
  const signed = signMessage(messages[3] as Buffer, { domain: DOMAIN, selector: 'e', privateKey })
  expect(Buffer.from(signed).toString('latin1')).toStartWith('DKIM-Signature: v=1; a=ed25519-sha256; ')
  expect(await verifyWithMailauth(signed, records)).toBe('pass')
})
