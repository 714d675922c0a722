import { expect, test } from 'bun:test'
import {
  type ConfirmFacts,
  MAX_CONFIRM_TOKEN_LENGTH,
  openConfirmToken,
  sealConfirmToken,
} from '#features/audience/contact-lists/confirm-token.ts'
import { KeyRing } from '#platform/crypto/crypto.ts'
import { newUuid, randomBytes } from '#platform/ids.ts'

const keys = new KeyRing(randomBytes(32))
const FACTS: ConfirmFacts = {
  accountUuid: newUuid(),
  listId: 7,
  contactId: 300,
  since: 1_773_577_800_000,
  madeAt: 1_773_577_800_123,
  senderDomain: 'sender.test',
}

test('opening a token returns its facts, and the same facts give the same token', () => {
  const token = sealConfirmToken(keys, FACTS)
  expect(openConfirmToken(keys, token)).toEqual(FACTS)
  expect(sealConfirmToken(keys, FACTS)).toBe(token)
  expect(token).toMatch(/^[\w-]{90,140}$/)
})

test('the largest facts fit the longest token; a longer domain is left out', () => {
  const most = Number.MAX_SAFE_INTEGER
  const facts = { ...FACTS, listId: most, contactId: most, since: most, madeAt: most, senderDomain: 'd'.repeat(100) }
  const token = sealConfirmToken(keys, facts)
  expect([token.length, openConfirmToken(keys, token)]).toEqual([MAX_CONFIRM_TOKEN_LENGTH, facts])
  const long = sealConfirmToken(keys, { ...FACTS, senderDomain: 'd'.repeat(101) })
  expect(openConfirmToken(keys, long)).toEqual({ ...FACTS, senderDomain: '' })
})

test('a token with a changed or missing character, or of another key or purpose, does not open', () => {
  const token = sealConfirmToken(keys, FACTS)
  const changed = [...token].map(
    (character, at) => `${token.slice(0, at)}${character === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`,
  )
  const cut = [...token].map((_, length) => token.slice(0, length))
  const sealed = Buffer.from(keys.sealDeterministically(Buffer.from([1, 2, 3]), 'unsubscribe')).toString('base64url')
  for (const bad of [...changed, ...cut, `${token}A`, `${token}=`, ` ${token}`, sealed, 'é'])
    expect(openConfirmToken(keys, bad)).toBeUndefined()
  expect(openConfirmToken(new KeyRing(randomBytes(32)), token)).toBeUndefined()
})
