import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createPrivateKey } from 'node:crypto'
import {
  createUnsubscribeHeaders,
  createUnsubscribeToken,
  decodeUnsubscribeAddress,
  MAX_TOKEN_LENGTH,
  openUnsubscribeToken,
  type UnsubscribeFacts,
} from '#features/sending/unsubscribe/headers.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { KeyRing } from '#platform/crypto/crypto.ts'
import { parseUuid } from '#platform/ids.ts'
import { computeVerpTag } from '#protocols/address/verp.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { hasDkimpy, verifyWithDkimpy, verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { plainInput } from '#test/protocols/mime/sample.ts'
import { composeToBuffer } from '#test/support/compose.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test/' } })
  await createStream(service.app, service.actor, { slug: 'news', name: 'News' })
})
afterAll(() => service[Symbol.asyncDispose]())

/** The fields of a new email's only recipient, with the ids of both. */
async function fieldsOf(request: Record<string, unknown> = {}) {
  const { id } = await service.accepted({ transactional: false, ...request })
  const row = service.app.db
    .query<
      { emailId: number; emailUuid: Uint8Array; recipientId: number; address: string; from: string; streamId: number },
      [Uint8Array]
    >(
      `SELECT emails.id AS emailId, uuid AS emailUuid, recipients.id AS recipientId, address, from_address AS "from", stream_id AS streamId
       FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = ?`,
    )
    .get(parseUuid(id) ?? new Uint8Array())
  if (!row) throw new Error('the email was not stored')
  return { row, fields: createUnsubscribeHeaders(service.app, { ...row, returnPathDomain: 'send.sender.test' }) }
}

const LIST_UNSUBSCRIBE =
  /^<https:\/\/mail\.tassis\.test\/u\/([\w-]+)>, <mailto:(u-[a-z2-7]{32})@send\.sender\.test\?subject=([\w-]+)>$/

describe('the fields of a message', () => {
  // Proves: send-45
  test('are an https URL and a mailto with one token, and the one-click field of RFC 8058', async () => {
    const { row, fields } = await fieldsOf()
    expect(fields.map(([name]) => name)).toEqual(['List-Unsubscribe', 'List-Unsubscribe-Post'])
    expect(fields[1]?.[1]).toBe('List-Unsubscribe=One-Click')
    const [, token = '', localPart = '', subject = ''] = LIST_UNSUBSCRIBE.exec(fields[0]?.[1] ?? '') ?? []
    expect(subject).toBe(token)
    expect(openUnsubscribeToken(service.app.keys, token)).toEqual({
      accountUuid: parseUuid(service.actor.accountUuid) ?? new Uint8Array(),
      emailId: row.emailId,
      recipientId: row.recipientId,
      address: 'bob@receiver.test',
      senderDomain: 'sender.test',
      streamId: 0,
      listId: 0,
    })
    expect(decodeUnsubscribeAddress(service.app, localPart)).toEqual({
      recipientId: row.recipientId,
      tag: computeVerpTag(row.emailUuid),
    })
  })

  // Proves: send-46
  test('omit the one-click field if the URL is not https', async () => {
    const { row } = await fieldsOf()
    const app = { ...service.app, config: { ...service.app.config, publicUrl: 'http://localhost:8080' } }
    const fields = createUnsubscribeHeaders(app, { ...row, returnPathDomain: 'send.sender.test' })
    expect(fields).toEqual([
      ['List-Unsubscribe', expect.stringMatching(/^<http:\/\/localhost:8080\/u\/[^>]+>, <mailto:/)],
    ])
  })

  test("contain a token with the stream and the sender's domain", async () => {
    const { row, fields } = await fieldsOf({ stream: 'news', from: 'Ada <ada@sender.test>' })
    const token = LIST_UNSUBSCRIBE.exec(fields[0]?.[1] ?? '')?.[1] ?? ''
    const { streamId, senderDomain } = openUnsubscribeToken(service.app.keys, token) ?? {}
    expect({ streamId, senderDomain }).toEqual({ streamId: row.streamId, senderDomain: 'sender.test' })
  })

  test('are the same at every attempt, even if the stream was renamed between, and differ for another recipient', async () => {
    const { row, fields } = await fieldsOf({ stream: 'news' })
    const again = () => createUnsubscribeHeaders(service.app, { ...row, returnPathDomain: 'send.sender.test' })
    service.app.db.run("UPDATE streams SET slug = 'letters' WHERE slug = 'news'")
    try {
      expect(again()).toEqual(fields)
    } finally {
      service.app.db.run("UPDATE streams SET slug = 'news' WHERE slug = 'letters'")
    }
    expect((await fieldsOf({ stream: 'news' })).fields[0]).not.toEqual(fields[0])
  })
})

test("neither the recipient's return path nor a forged address is an unsubscribe address", () => {
  for (const localPart of [`b-${'a'.repeat(32)}`, `u-${'a'.repeat(32)}`, '', 'postmaster'])
    expect(decodeUnsubscribeAddress(service.app, localPart)).toBeUndefined()
})

// Proves: send-45
test('composed and signed, the longest fields have lines of at most 998 octets, whole and unencoded, and both are in h=', async () => {
  const { domain } = await createDomain(service.app, service.actor, 'signed.test')
  const key = findSigningDomain(service.app.db, service.app.keys, domain.id)
  if (!key) throw new Error('there is no key')
  const token = 'A'.repeat(MAX_TOKEN_LENGTH)
  const mailbox = `u-${'a'.repeat(32)}@${'send.'.repeat(48)}signed.test`
  const host = `${'host.'.repeat(50)}test`
  const values = [`<mailto:${mailbox}?subject=${token}>, <https://${host}/u/${token}>`, 'List-Unsubscribe=One-Click']
  const message = composeToBuffer({
    ...plainInput,
    headers: [
      ['X-First', '1'],
      ['List-Unsubscribe', values[0] ?? ''],
      ['List-Unsubscribe-Post', values[1] ?? ''],
    ],
  })
  const signed = Buffer.from(
    signMessage(message, {
      domain: key.domain,
      selector: key.selector,
      privateKey: createPrivateKey(key.privateKeyPem),
    }),
  )
  const lines = signed.toString('latin1').split('\r\n')
  expect(lines.filter((line) => line.length > 998)).toEqual([])
  const unfolded = signed
    .toString('latin1')
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
  expect(unfolded.filter((line) => line.startsWith('List-Unsubscribe'))).toEqual([
    `List-Unsubscribe: ${values[0]}`,
    `List-Unsubscribe-Post: ${values[1]}`,
  ])
  const signedNames = /\bh=([^;]*);/
    .exec(unfolded[0] ?? '')?.[1]
    ?.replaceAll(' ', '')
    .split(':')
  expect(signedNames).toEqual(expect.arrayContaining(['list-unsubscribe', 'list-unsubscribe-post']))
  const record = formatDkimRecord(domain.dkimPublicKey)
  expect(await verifyWithMailauth(signed, record)).toBe('pass')
  const tampered = Buffer.from(signed.toString('latin1').replace('=One-Click', '=Two-Click'), 'latin1')
  expect(await verifyWithMailauth(tampered, record)).toBe('fail')
  if (hasDkimpy) expect(verifyWithDkimpy([signed, tampered], record)).toEqual([true, false])
})

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
