import { expect, test } from 'bun:test'
import {
  createUnsubscribeToken,
  MAX_TOKEN_LENGTH,
  openUnsubscribeToken,
  type UnsubscribeFacts,
} from '#features/sending/unsubscribe/token.ts'
import { KeyRing } from '#platform/crypto/crypto.ts'

const keys = new KeyRing(new Uint8Array(32).fill(7))
const facts: UnsubscribeFacts = {
  accountUuid: new Uint8Array(16).fill(9),
  emailId: 1_234_567,
  recipientId: 7_654_321,
  address: 'bob@receiver.test',
  senderDomain: 'sender.test',
  streamId: 3,
  listId: 0,
}
const longest: UnsubscribeFacts = {
  accountUuid: new Uint8Array(16).fill(255),
  emailId: Number.MAX_SAFE_INTEGER,
  recipientId: Number.MAX_SAFE_INTEGER,
  address: `${'a'.repeat(64)}@${'b'.repeat(185)}.test`.slice(0, 254),
  senderDomain: `${'c'.repeat(95)}.test`,
  streamId: Number.MAX_SAFE_INTEGER,
  listId: Number.MAX_SAFE_INTEGER,
}

test('the smallest and largest values in a token are restored', () => {
  const smallest = {
    ...facts,
    emailId: 0,
    recipientId: 127,
    streamId: 128,
    listId: 16_384,
    senderDomain: '',
    address: '',
  }
  for (const each of [facts, longest, smallest, { ...facts, address: 'Zoë@bücher.test' }])
    expect(openUnsubscribeToken(keys, createUnsubscribeToken(keys, each))).toEqual(each)
})

test('the same data gives the same token, any other data another one', () => {
  const others: Partial<UnsubscribeFacts>[] = [
    { accountUuid: new Uint8Array(16).fill(8) },
    { emailId: 1 },
    { recipientId: 1 },
    { address: 'Bob@receiver.test' },
    { senderDomain: 'other.test' },
    { streamId: 0 },
    { listId: 1 },
  ]
  const tokens = [{}, {}, ...others].map((other) => createUnsubscribeToken(keys, { ...facts, ...other }))
  expect(tokens[0]).toBe(tokens[1])
  expect(new Set(tokens).size).toBe(others.length + 1)
})

test('every version creates the same token for the same data, so links in sent mail keep working', () => {
  expect(createUnsubscribeToken(keys, facts)).toBe(
    'wscAbokk_T569EYSDpI35LW7HOkr4U5e508YzX-8_BwvrC9EC3fjui5UOiczFAXvy-b_rvZEGsJABoPEco_PDBWRnrpq14C4i-k27Oq70-Pc97J9VuZu',
  )
})

test('a token is base64url of at most 582 characters and about 120 in practice; a sender domain over 100 characters is omitted', () => {
  expect(createUnsubscribeToken(keys, facts)).toMatch(/^[A-Za-z0-9_-]{110,130}$/)
  expect([createUnsubscribeToken(keys, longest).length, MAX_TOKEN_LENGTH]).toEqual([582, 582])
  const senderDomain = `${'c'.repeat(96)}.test`
  expect(openUnsubscribeToken(keys, createUnsubscribeToken(keys, { ...longest, senderDomain }))).toEqual({
    ...longest,
    senderDomain: '',
  })
})

test('a token that was changed, truncated or extended is invalid', () => {
  const token = createUnsubscribeToken(keys, facts)
  for (let i = 0; i < token.length; i++) {
    const other = token[i] === 'A' ? 'B' : 'A'
    expect(openUnsubscribeToken(keys, token.slice(0, i) + other + token.slice(i + 1))).toBeUndefined()
    expect(openUnsubscribeToken(keys, token.slice(0, i))).toBeUndefined()
    expect(openUnsubscribeToken(keys, token.slice(i + 1))).toBeUndefined()
  }
  for (const text of [
    `${token}A`,
    `${token}=`,
    ` ${token}`,
    `${token}\n`,
    `${token}>`,
    token.toUpperCase(),
    'A'.repeat(10_000),
  ])
    expect(openUnsubscribeToken(keys, text)).toBeUndefined()
})

test('a token whose last character differs only in unused bits is invalid', () => {
  // 436 octets leave four bits of the 582nd character unused.
  const token = createUnsubscribeToken(keys, longest)
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const opened = [...alphabet].filter((last) => openUnsubscribeToken(keys, token.slice(0, -1) + last))
  expect(opened).toEqual([token.slice(-1)])
})

test('a token of another master key, or sealed for another purpose or format, is invalid', () => {
  const other = new KeyRing(new Uint8Array(32).fill(8))
  expect(openUnsubscribeToken(other, createUnsubscribeToken(keys, facts))).toBeUndefined()
  const plain = keys.unseal(Buffer.from(createUnsubscribeToken(keys, facts), 'base64url'), 'unsubscribe')
  const sealedFor = (context: string, bytes: Uint8Array) =>
    Buffer.from(keys.sealDeterministically(bytes, context)).toString('base64url')
  expect(openUnsubscribeToken(keys, sealedFor('unsubscribe', plain))).toEqual(facts)
  expect(openUnsubscribeToken(keys, sealedFor('webhook', plain))).toBeUndefined()
  expect(openUnsubscribeToken(keys, sealedFor('unsubscribe', Buffer.of(2, ...plain.subarray(1))))).toBeUndefined()
  expect(openUnsubscribeToken(keys, sealedFor('unsubscribe', new Uint8Array()))).toBeUndefined()
})

test('an impossible address or row id throws', () => {
  expect(() => createUnsubscribeToken(keys, { ...facts, address: 'a'.repeat(255) })).toThrow(
    'address too long: 255 octets',
  )
  for (const emailId of [-1, 1.5, Number.NaN, 2 ** 53])
    expect(() => createUnsubscribeToken(keys, { ...facts, emailId })).toThrow('not a row id')
})
