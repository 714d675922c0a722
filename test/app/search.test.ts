/** @module GET /v1/search: what one text finds of each kind, who may read it, and addresses that are spelled nearly so. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'

let emails: EmailApi
let firstAt = ''
beforeAll(async () => {
  emails = await createEmailApi()
  for (const to of [
    'Bobby Brown <bobby@example.com>',
    'eve@other.test',
    'Bobby <Bobby@example.com>',
    'a.lindqvist@big.test',
    'cem@münchen.test',
  ])
    await emails.accepted({ subject: `To ${to.split(' ')[0]?.split('@')[0]}`, to })
  const { body } = await emails.api('GET', '/v1/emails')
  firstAt = String((at(body, 'data') as { created_at: string }[]).at(-1)?.created_at)
  for (const [path, input] of [
    ['/v1/contact-lists', { name: 'Friends of Bobby' }],
    ['/v1/templates', { name: 'Receipt', alias: 'bobby-receipt', subject: 'S', text_body: 'T' }],
    ['/v1/webhooks', { url: 'https://1.1.1.1/in', description: 'for Bobby', events: ['sent'] }],
    ['/v1/suppressions', { email_address: 'bobo@nowhere.test' }],
    ['/v1/suppressions', { email_address: 'ida@münchen.test' }],
  ] as const)
    expect([path, (await emails.api('POST', path, input)).status]).toEqual([path, 201])
})
afterAll(() => emails[Symbol.asyncDispose]())

const search = async (q: string, key?: string) => {
  const { body } = await emails.api('GET', `/v1/search?${new URLSearchParams({ q })}`, undefined, key ? { key } : {})
  const data = at(body, 'data') as Record<string, unknown>
  const names = (kind: string) => (data[kind] as { name: string }[]).map(({ name }) => name)
  return {
    emails: (data['emails'] as { subject: string }[]).map(({ subject }) => subject),
    people: data['people'] as { address: string; name: string | null; last_email_at: string | null }[],
    ...{ lists: names('lists'), templates: names('templates'), webhooks: names('webhooks'), domains: names('domains') },
    ...{ closest: data['closest'] as string[], since: data['since'] },
  }
}

// Proves: email-43
test('one text finds emails, people and what has the word in its name', async () => {
  const found = await search('bob')
  expect(found).toMatchObject({
    emails: ['To Bobby', 'To Bobby'],
    people: [
      { address: 'Bobby@example.com', name: 'Bobby' },
      { address: 'bobo@nowhere.test', name: null, last_email_at: null },
    ],
    ...{ lists: ['Friends of Bobby'], templates: ['Receipt'], webhooks: ['https://1.1.1.1/in'] },
    ...{ domains: [], closest: [], since: firstAt },
  })
  expect(Date.parse(String(found.people[0]?.last_email_at))).toBeGreaterThanOrEqual(Date.parse(firstAt))
  expect((await search('brown bobby')).people.map(({ address }) => address)).toEqual(['bobby@example.com'])
  expect((await search('lindq big')).people.map(({ address }) => address)).toEqual(['a.lindqvist@big.test'])
  for (const q of ['cem@münchen.test', 'CEM@xn--mnchen-3ya.test', 'ida@münchen.test'])
    expect((await search(q)).people.map(({ address }) => address)).toEqual([
      `${q.slice(0, 3).toLowerCase()}@xn--mnchen-3ya.test`,
    ])
  expect((await search(VERIFIED)).domains).toEqual([VERIFIED])
})

// Proves: email-43
test.each([
  ['bob@example.com', ['Bobby@example.com']],
  ['bo@example.com', []],
  ['bobbie@example.com', ['Bobby@example.com']],
  ['bobyb@example.com', ['Bobby@example.com']],
  ['bobby@exmaple.com', ['Bobby@example.com']],
  ['vobby@example.con', ['Bobby@example.com']],
  ['obby@example.com', ['Bobby@example.com']],
  ['bbobby', ['Bobby@example.com']],
  ['evve@', ['eve@other.test']],
  ['a.lindqist', ['a.lindqvist@big.test']],
  ['billy@example.com', []],
  ['ada@sender.tests', []],
])('nearest to %s, which has no mail: %j', async (q, closest) => {
  const found = await search(q)
  expect([found.emails, found.closest]).toEqual([[], closest])
})

// Proves: email-43
test('what the caller may not read, and another account, is not found', async () => {
  const key = await emails.newKey(['emails:read'])
  expect(await search('bob', key)).toMatchObject({
    people: [{ address: 'Bobby@example.com' }],
    ...{ emails: ['To Bobby', 'To Bobby'], lists: [], templates: [], webhooks: [] },
  })
  const other = await emails.newKey([], await emails.newAccount())
  for (const q of ['bob', 'bobbie'])
    expect(await search(q, other)).toMatchObject({ emails: [], people: [], lists: [], closest: [], since: null })
  for (const q of ['', '%', 'x'.repeat(10_000), '\u202e'])
    expectError(await emails.api('GET', `/v1/search?${new URLSearchParams({ q })}`), 422, 'validation_failed', 'q')
  for (const q of ['"', 'a*', 'NEAR(a b)', '@@a', "'; DROP", 'a\u0000b', '🎉 b', 'مرحبا', '\u{d800}a'])
    expect([q, (await emails.api('GET', `/v1/search?${new URLSearchParams({ q })}`)).status]).toEqual([
      q,
      q === '"' ? 422 : 200,
    ])
})
