import { expect, test } from 'bun:test'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { formatDkimRecord, generateDkimKey, parseDkimRecord } from '#protocols/dkim/keys.ts'

test('a new key is RSA-2048, and its p= value belongs to its private key', async () => {
  const { privateKeyPem, publicKey } = await generateDkimKey()
  const privateKey = createPrivateKey(privateKeyPem)
  expect([privateKey.asymmetricKeyType, privateKey.asymmetricKeyDetails?.modulusLength]).toEqual(['rsa', 2048])
  expect(createPublicKey(privateKey).export({ type: 'spki', format: 'der' }).toString('base64')).toBe(publicKey)
  expect(publicKey).toHaveLength(392)
})

test('no two keys are the same', async () => {
  const [a, b] = await Promise.all([generateDkimKey(), generateDkimKey()])
  expect(a.publicKey).not.toBe(b.publicKey)
})

test('the published record is parsed again', () => {
  expect(formatDkimRecord('AbC+/=')).toBe('v=DKIM1; k=rsa; p=AbC+/=')
  expect(parseDkimRecord(formatDkimRecord('AbC+/='))).toEqual({
    kind: 'ok',
    tags: new Map([
      ['v', 'DKIM1'],
      ['k', 'rsa'],
      ['p', 'AbC+/='],
    ]),
  })
})

test.each([
  ['p=abc', [['p', 'abc']]],
  [
    '  v = DKIM1 ;p= a b\tc ; ',
    [
      ['v', 'DKIM1'],
      ['p', 'abc'],
    ],
  ],
  [
    'v=DKIM1; t=y:s; n=a note=x; p=',
    [
      ['v', 'DKIM1'],
      ['t', 'y:s'],
      ['n', 'a note=x'],
      ['p', ''],
    ],
  ],
] as [string, [string, string][]][])('%j is a record', (text, tags) => {
  expect(parseDkimRecord(text)).toEqual({ kind: 'ok', tags: new Map(tags) })
})

test.each([
  ['', 'The record has no p= tag with a public key.'],
  ['v=DKIM1; k=rsa', 'The record has no p= tag with a public key.'],
  ['v=spf1 -all', 'The tag v= must come first and be DKIM1.'],
  ['p=a; v=DKIM1', 'The tag v= must come first and be DKIM1.'],
  ['v=dkim1; p=a', 'The tag v= must come first and be DKIM1.'],
  ['p=a; p=b', 'The tag p= occurs twice.'],
  ['v=DKIM1; nonsense; p=a', '"nonsense" is not a tag of the form name=value.'],
  ['v=DKIM1;; p=a', '"" is not a tag of the form name=value.'],
])('%j is rejected with a reason', (text, reason) => {
  expect(parseDkimRecord(text)).toEqual({ kind: 'invalid', reason })
})

test('a record over 8,192 characters is rejected', () => {
  const reason = 'The record is longer than 8,192 characters.'
  expect(parseDkimRecord(`p=${'a'.repeat(8_191)}`)).toEqual({ kind: 'invalid', reason })
})
