/** @module The send-email hook: requests signed by the reference library of Standard Webhooks, as Supabase sends them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Webhook } from 'standardwebhooks'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError, NOW, VERIFIED } from '#test/support/email-api.ts'

const FROM = `Ada <ada@${VERIFIED}>`
const VARIABLES = [
  ...['action', 'token', 'token_hash', 'confirmation_url', 'redirect_to', 'site_url', 'email', 'new_email'],
  ...['old_email', 'old_phone', 'provider', 'factor_type', 'user_metadata.locale'],
]

let service: EmailApi
let hook: Hook

interface Hook {
  readonly url: string
  readonly secret: string
  readonly missing: readonly string[]
}

beforeAll(async () => {
  service = await createEmailApi()
  for (const action of ['signup', 'recovery', 'email-change', 'email-changed-notification', 'reauthentication'])
    await service.api('POST', '/v1/templates', {
      alias: `supabase-${action}`,
      name: action,
      subject: 'Your code',
      text_body: VARIABLES.map((name) => `${name}={{ ${name} }}`).join('\n'),
    })
  hook = await getHook(service.key)
})
afterAll(() => service[Symbol.asyncDispose]())

const askForHook = (key: string | null, from: string | undefined = FROM): Promise<ApiResponse> =>
  service.api('GET', `/hooks/supabase${from === '' ? '' : `?${new URLSearchParams({ from })}`}`, undefined, { key })

async function getHook(key: string): Promise<Hook> {
  const { body } = await askForHook(key)
  const url = new URL(String(at(body, 'data', 'url')))
  return {
    url: `${service.url}${url.pathname}${url.search}`,
    secret: String(at(body, 'data', 'secret')),
    missing: at(body, 'data', 'missing_templates') as string[],
  }
}

/** A body in the form of Supabase's documentation; each has another user, and so other octets. */
let counter = 0
const createBody = (data: object = {}, user: object = {}): string => {
  counter++
  return JSON.stringify({
    user: { id: `user-${counter}`, email: 'bob@receiver.test', user_metadata: { locale: 'de' }, ...user },
    email_data: {
      token: '305805',
      token_hash: `hash-${counter}`,
      redirect_to: 'https://app.example.com/home?a=1&b=2',
      email_action_type: 'signup',
      site_url: 'https://abc.supabase.co/auth/v1',
      token_new: '',
      token_hash_new: '',
      ...data,
    },
  })
}

interface Signing {
  readonly secret?: string
  readonly id?: string
  /** Milliseconds. */
  readonly at?: number
}

function sign(body: string, { secret = hook.secret, id = `msg_${counter}`, at: time = NOW }: Signing = {}) {
  // GoTrue, too, takes off the version.
  const signature = new Webhook(secret.replace('v1,', '')).sign(id, new Date(time), body)
  return { 'webhook-id': id, 'webhook-timestamp': String(Math.floor(time / 1000)), 'webhook-signature': signature }
}

async function post(body: string, headers: Record<string, string> = sign(body), url = hook.url): Promise<ApiResponse> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

const countEmails = (): number => service.stored()['emails'] ?? 0

/** Newest first: recipient and the values that the template saw. */
async function readSent(count: number): Promise<{ to: unknown; values: Record<string, string>; email: object }[]> {
  const { body } = await service.api('GET', `/v1/emails?per_page=${count}`)
  return Promise.all(
    (at(body, 'data') as { id: string }[]).map(async ({ id }) => {
      const email = await service.detail(id)
      const lines = String(email['text_body']).split('\n')
      const values = Object.fromEntries(
        lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      )
      return { to: email['to'], values, email }
    }),
  )
}

// Proves: email-37
test('a signed request sends the template of its action to the user', async () => {
  const body = createBody()
  const answer = await post(body)
  expect({ status: answer.status, type: answer.headers.get('content-type'), body: answer.body }).toEqual({
    status: 200,
    type: expect.stringContaining('application/json'),
    body: {},
  })
  const [sent] = await readSent(1)
  expect(sent?.email).toMatchObject({ from_address: FROM, tags: ['supabase', 'signup'], tracking_override: false })
  expect(sent?.to).toBe('bob@receiver.test')
  const url = new URL(sent?.values['confirmation_url'] ?? '')
  expect(`${url.origin}${url.pathname}`).toBe('https://abc.supabase.co/auth/v1/verify')
  expect(Object.fromEntries(url.searchParams)).toEqual({
    token: sent?.values['token_hash'] ?? '',
    type: 'signup',
    redirect_to: 'https://app.example.com/home?a=1&b=2',
  })
  expect(sent?.values).toMatchObject({ token: '305805', email: 'bob@receiver.test', 'user_metadata.locale': 'de' })
})

test('the template in the language of the user is taken, and the default one for what is no language', async () => {
  const german = { alias: 'supabase-signup', locale: 'de', name: 'signup', subject: 'Dein Code', text_body: 'x' }
  const { body } = await service.api('POST', '/v1/templates', german)
  for (const locale of ['de_AT', '', 17, 'not a tag']) await post(createBody({}, { user_metadata: { locale } }))
  const subjects = (await readSent(4)).map(({ email }) => at(email, 'subject'))
  expect(subjects).toEqual(['Your code', 'Your code', 'Your code', 'Dein Code'])
  await service.api('DELETE', `/v1/templates/${at(body, 'data', 'id')}`)
})

test.each([
  ['https://abc.supabase.co', 'https://abc.supabase.co/auth/v1/verify'],
  ['http://127.0.0.1:8000/', 'http://127.0.0.1:8000/auth/v1/verify'],
  ['https://auth.example.com/base/', 'https://auth.example.com/base/verify'],
])('with the site_url %s, the link begins with %s', async (siteUrl, start) => {
  expect((await post(createBody({ site_url: siteUrl }))).status).toBe(200)
  const [sent] = await readSent(1)
  expect(sent?.values['confirmation_url']).toStartWith(`${start}?token=`)
})

test.each(['javascript:alert(1)', 'abc.supabase.co', ''])(
  'with the site_url "%s" there is no link',
  async (siteUrl) => {
    expect((await post(createBody({ site_url: siteUrl }))).status).toBe(200)
    const [sent] = await readSent(1)
    expect(sent?.values['confirmation_url']).toBe('')
  },
)

test('a code without a hash, and a notice, have no link', async () => {
  expect((await post(createBody({ email_action_type: 'reauthentication', token_hash: '' }))).status).toBe(200)
  const [sent] = await readSent(1)
  expect(sent?.values).toMatchObject({ token: '305805', confirmation_url: '' })
})

describe('a change of address', () => {
  const change = { email_action_type: 'email_change' }

  test('that both addresses confirm is two emails, each with its own code and hash', async () => {
    const tokens = { token: '111111', token_new: '222222', token_hash: 'of-new', token_hash_new: 'of-current' }
    expect((await post(createBody({ ...change, ...tokens }, { new_email: 'new@receiver.test' }))).status).toBe(200)
    const sent = await readSent(2)
    expect(sent.map(({ to, values }) => [to, values['token'], values['token_hash']]).toSorted()).toEqual([
      ['bob@receiver.test', '111111', 'of-current'],
      ['new@receiver.test', '222222', 'of-new'],
    ])
  })

  test('that only the new address confirms is one', async () => {
    const before = countEmails()
    expect((await post(createBody(change, { new_email: 'new@receiver.test' }))).status).toBe(200)
    const [sent] = await readSent(1)
    expect([countEmails() - before, sent?.to, sent?.values['token']]).toEqual([1, 'new@receiver.test', '305805'])
  })

  test('of which one email is refused is completed by the next attempt', async () => {
    const tokens = { token_new: '2', token_hash_new: 'c' }
    const body = createBody({ ...change, ...tokens }, { new_email: 'new@receiver.test' })
    const refused = createBody({ ...change, ...tokens }, { new_email: 'not an address' })
    const before = countEmails()
    expectError(await post(refused), 422, 'invalid_address', 'to')
    expect((await post(body)).status).toBe(200)
    expect((await post(body, sign(body, { id: 'another' }))).status).toBe(200)
    // The first half of the refused one, and both of the other.
    expect(countEmails() - before).toBe(3)
  })

  test('is told to the former address', async () => {
    const notice = {
      email_action_type: 'email_changed_notification',
      token: '',
      token_hash: '',
      old_email: 'old@receiver.test',
    }
    expect((await post(createBody(notice))).status).toBe(200)
    const [sent] = await readSent(1)
    expect([sent?.to, sent?.values['confirmation_url']]).toEqual(['old@receiver.test', ''])
  })
})

test('attempts with new ids send one email', async () => {
  const body = createBody()
  const before = countEmails()
  for (const id of ['first', 'second']) expect((await post(body, sign(body, { id }))).status).toBe(200)
  await Promise.all(['third', 'fourth'].map((id) => post(body, sign(body, { id }))))
  expect(countEmails() - before).toBe(1)
})

test('one valid signature among several is enough, with commas as Supabase writes them', async () => {
  const body = createBody()
  const { 'webhook-signature': valid, ...headers } = sign(body)
  const other = sign(body, { secret: `v1,whsec_${btoa('another secret')}` })['webhook-signature']
  expect((await post(body, { ...headers, 'webhook-signature': `${other}, ${valid}` })).status).toBe(200)
})

describe('is a 401 and sends nothing:', () => {
  const body = createBody()
  test.each([
    ['no signature', () => ({})],
    ['a signature with another secret', () => sign(body, { secret: `v1,whsec_${btoa('another secret')}` })],
    ['a signature of another body', () => sign(`${body} `)],
    ['one under another id', () => ({ ...sign(body), 'webhook-id': 'x' })],
    ['one that is older than five minutes', () => sign(body, { at: NOW - 301_000 })],
    ['one from the future', () => sign(body, { at: NOW + 301_000 })],
    ['a time that is no number', () => ({ ...sign(body), 'webhook-timestamp': 'now' })],
    ['an empty signature', () => ({ ...sign(body), 'webhook-signature': '' })],
    ['a signature of 8,000 characters', () => ({ ...sign(body), 'webhook-signature': 'v1,'.repeat(2666) })],
  ])('%s', async (_, createHeaders) => {
    const before = countEmails()
    expect(await post(body, createHeaders())).toMatchObject({ status: 401, body: { code: 'invalid_signature' } })
    expect(countEmails()).toBe(before)
  })

  test('the secret of another key, and a path that names no key', async () => {
    const other = await getHook(await service.newKey())
    expect((await post(body, sign(body, { secret: other.secret }))).status).toBe(401)
    for (const key of ['x', '01234567-89ab-7def-8123-456789abcdef'])
      expect((await post(body, sign(body), `${service.url}/hooks/supabase/${key}`)).status).toBe(401)
  })

  test('a key that was deleted, and one that has expired', async () => {
    const { body: created } = await service.api('POST', '/v1/api-keys', { name: 'deleted' })
    const deleted = await getHook(String(at(created, 'data', 'key')))
    expect((await service.api('DELETE', `/v1/api-keys/${at(created, 'data', 'id')}`)).status).toBe(204)
    expect((await post(body, sign(body, deleted), deleted.url)).status).toBe(401)
    const expiresAt = new Date(NOW + 60_000).toISOString()
    const { body: short } = await service.api('POST', '/v1/api-keys', { name: 'short', expires_at: expiresAt })
    const expired = await getHook(String(at(short, 'data', 'key')))
    service.clock.advance(61_000)
    try {
      const answer = await post(body, sign(body, { ...expired, at: NOW + 61_000 }), expired.url)
      expect(answer).toMatchObject({ status: 401, body: { code: 'api_key_expired' } })
    } finally {
      service.clock.advance(-61_000)
    }
  })
})

test('what the key may not do, its hook may not do', async () => {
  const reader = await service.api('POST', '/v1/api-keys', { name: 'reader', scopes: ['emails:send'] })
  const id = String(at(reader.body, 'data', 'id'))
  const restricted = await getHook(String(at(reader.body, 'data', 'key')))
  const body = createBody()
  const send = () => post(body, sign(body, restricted), restricted.url)
  await service.api('PATCH', `/v1/api-keys/${id}`, { domains: ['other.test'] })
  expectError(await send(), 403, 'domain_not_allowed')
  await service.api('PATCH', `/v1/api-keys/${id}`, { domains: null, networks: ['192.0.2.0/24'] })
  expectError(await send(), 403, 'network_not_allowed')
  await service.api('PATCH', `/v1/api-keys/${id}`, { networks: null, scopes: ['emails:read'] })
  expectError(await send(), 403, 'insufficient_scope')
  const logged = at((await service.api('GET', `/v1/logs?actor_id=${id}&status=403`)).body, 'data', 0)
  expect(logged).toMatchObject({ method: 'POST', error_code: 'insufficient_scope' })
  await service.api('PATCH', `/v1/api-keys/${id}`, { scopes: ['emails:send'] })
  expect((await send()).status).toBe(200)
})

describe('says what is wrong in a signed request:', () => {
  test.each([
    [
      'an action without a template',
      createBody({ email_action_type: 'magiclink' }),
      422,
      'template_not_found',
      ['template_alias'],
    ],
    [
      'an action that is no name',
      createBody({ email_action_type: '../x' }),
      422,
      'validation_failed',
      ['email_data.email_action_type'],
    ],
    [
      'no action',
      createBody({ email_action_type: undefined }),
      422,
      'validation_failed',
      ['email_data.email_action_type'],
    ],
    ['a user without an address', createBody({}, { email: '' }), 422, 'validation_failed', ['user.email']],
    ['an address of a wrong type', createBody({}, { email: ['a@b.test'] }), 422, 'validation_failed', ['email']],
    ['a token of a wrong type', createBody({ token: 305805 }), 422, 'validation_failed', ['token']],
    ['no user', '{"email_data":{}}', 422, 'validation_failed', ['user']],
    ['a list', '[]', 422, 'validation_failed', ['user']],
    ['nothing', '', 400, 'invalid_json', []],
    ['no JSON', '{', 400, 'invalid_json', []],
    ['deep nesting', '['.repeat(70), 400, 'invalid_json', []],
  ])('%s', async (_, body, status, code, fields) => {
    expectError(await post(body), status, code, ...fields)
  })

  test('a sender whose domain is not registered, and no sender', async () => {
    const body = createBody()
    const url = hook.url.replace(/from=.*/, '')
    expectError(await post(body, sign(body), `${url}from=a@other.test`), 422, 'domain_not_found', 'from')
    expectError(await post(body, sign(body), url), 422, 'validation_failed', 'from')
  })

  test('more than 64 KiB', async () => {
    expect((await post(createBody({}, { user_metadata: { a: 'a'.repeat(70_000) } }))).status).toBe(413)
  })
})

describe('GET /hooks/supabase', () => {
  // Proves: email-38
  test('returns URL, secret and the templates that are missing, always the same', async () => {
    expect(hook.secret).toMatch(/^v1,whsec_[A-Za-z0-9+/]{43}=$/)
    expect(hook.missing).toEqual(['supabase-invite', 'supabase-magiclink'])
    expect(await getHook(service.key)).toEqual(hook)
  })

  test('needs a key that may send, and a sender', async () => {
    expectError(await askForHook(null), 401, 'invalid_api_key')
    expectError(await askForHook('tassis_live_unknown'), 401, 'invalid_api_key')
    expectError(await askForHook(await service.newKey(['emails:read'])), 403, 'insufficient_scope')
    expectError(await askForHook(service.key, ''), 422, 'validation_failed', 'from')
  })
})
