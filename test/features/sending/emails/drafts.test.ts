/**
 * Keys and mailboxes whose sends are drafts: whatever the way in, nothing leaves before a person releases it, and then
 * once. Mail goes to a real SMTP sink.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { createRoutes } from '#app/http.ts'
import { createDraftToken, DRAFT_NOTICE } from '#features/people/owner-notices/drafts.ts'
import { autoRespond } from '#features/receiving/agent-mailboxes/auto-responder.ts'
import { cancelOldDrafts } from '#features/sending/emails/scheduled.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, minutes } from '#platform/units.ts'
import { connect } from '#test/features/drop-in/mcp/clients.ts'
import {
  createMessage,
  idOf,
  type SubmissionFixture,
  sendMessage,
  startSubmissionFixture,
} from '#test/features/drop-in/submission/fixture.ts'
import { createReceived } from '#test/features/receiving/agent-mailboxes/reply-support.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { EMAIL, expectError, VERIFIED } from '#test/support/email-api.ts'
import { deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

setDefaultTimeout(60_000)

type Json = Record<string, unknown>

let sink: Sink
let dns: DnsServer
let service: SubmissionFixture
let mailboxId: string
/** Of a key with `drafts`, and all scopes that it may have. */
let agent: string

beforeAll(async () => {
  sink = await startSink()
  dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] }, 'example.com': { A: ['127.0.0.1'] } })
  service = await startSubmissionFixture({
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(sink.port) },
  })
  service.app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE domain = ?', [VERIFIED])
  mailboxId = (await post('/v1/agent-mailboxes', { local_part: 'support' })).id
  agent = (await newKey({ drafts: true })).key
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await dns.close()
  await sink[Symbol.asyncDispose]()
})

/** `data` of a response that is no error. */
async function post(path: string, body: unknown, key = service.key): Promise<Json & { id: string }> {
  const answer = await service.api('POST', path, body, { key })
  if (answer.status >= 300) throw new Error(JSON.stringify(answer.body))
  return at(answer.body, 'data') as Json & { id: string }
}
const newKey = (limits: Json) =>
  post('/v1/api-keys', { name: 'agent', ...limits }) as Promise<Json & { id: string; key: string }>
const release = (id: string, key = service.key) => service.api('POST', `/v1/emails/${id}/release`, undefined, { key })
const statusOf = async (id: string) => (await service.detail(id))['status']
const deliver = (given = {}) =>
  deliverMessage(service.app, getTestMailbox(service.app, service.actor.accountId, mailboxId), given)
/** Waits until an ordinary email arrives, so that anything that was due before it has left too. */
async function expectSent(subjects: readonly string[]): Promise<void> {
  const { id } = await service.accepted({ subject: 'Marker' })
  await eventually(async () => ((await statusOf(id)) === 'sent' ? true : undefined))
  const sent = sink.messages.map(({ raw }) => /^Subject: (.*)$/m.exec(raw)?.[1]?.trim()).filter((s) => s !== 'Marker')
  expect(sent.sort()).toEqual([...subjects].sort())
  sink.messages.length = 0
}

const countOf = async (status: string): Promise<number> =>
  Number(at((await service.api('GET', `/v1/emails?status=${status}`)).body, 'pagination', 'total'))

beforeEach(async () => {
  await eventually(async () => ((await countOf('queued')) + (await countOf('processing')) === 0 ? true : undefined))
  sink.messages.length = 0
})

const WHOLE = `From: ${EMAIL.from}\r\nTo: ${EMAIL.to}\r\nSubject: Hello\r\n\r\nHi`

/** Each sends one email and returns its id. */
const WAYS: readonly (readonly [string, (key: string) => Promise<string>])[] = [
  ['POST /v1/emails', async (key) => (await post('/v1/emails', EMAIL, key)).id],
  [
    'a send at a time',
    async (key) =>
      (await post('/v1/emails', { ...EMAIL, send_at: new Date(service.clock.now() + minutes(5)).toISOString() }, key))
        .id,
  ],
  [
    'a batch',
    async (key) =>
      String(at((await service.api('POST', '/v1/emails/batch', { emails: [EMAIL] }, { key })).body, 'data', 0, 'id')),
  ],
  [
    'a template',
    async (key) => {
      const alias = `t${service.clock.now()}`
      await service.api('POST', '/v1/templates', { name: 't', alias, subject: 'Hello', text_body: 'Hi {{name}}' })
      const { id } = await post(
        '/v1/emails',
        { ...EMAIL, text_body: undefined, subject: undefined, template_alias: alias, template_data: { name: 'Bob' } },
        key,
      )
      // What was seen is what is sent, whatever the template becomes.
      const [template] = at((await service.api('GET', '/v1/templates')).body, 'data') as { id: string }[]
      await service.api('PUT', `/v1/templates/${template?.id}`, {
        name: 't',
        alias,
        subject: 'Changed',
        text_body: 'Changed',
      })
      return id
    },
  ],
  [
    'a resend of an email that was sent',
    async (key) => {
      const { id } = await service.accepted({ subject: 'Again' })
      await eventually(async () => ((await statusOf(id)) === 'sent' ? true : undefined))
      await expectSent(['Again'])
      return (await post(`/v1/emails/${id}/resend`, {}, key)).id
    },
  ],
  [
    'a reply',
    async (key) =>
      (await post(`/v1/agent-mailboxes/${mailboxId}/messages/${await deliver()}/reply`, { text_body: 'Yes.' }, key)).id,
  ],
  [
    'MCP',
    async (key) => {
      await using client = await connect(service.url, key)
      const { body } = await client.call('send_email', { ...EMAIL, to: [EMAIL.to] })
      expect(String(at(body, 'data', 'status'))).toContain('A person must release it')
      return String(at(body, 'data', 'id'))
    },
  ],
  [
    'a reply by MCP',
    async (key) => {
      await using client = await connect(service.url, key)
      const { body } = await client.call('reply_to_message', {
        mailbox_id: mailboxId,
        message_id: await deliver(),
        text_body: 'Yes.',
      })
      return String(at(body, 'data', 'id'))
    },
  ],
  [
    'SMTP',
    async (key) => {
      await using client = await service.connectLoggedIn(key)
      return idOf(await sendMessage(client, createMessage()))
    },
  ],
  [
    'Resend',
    async (key) =>
      String(
        at(
          (
            await service.api(
              'POST',
              '/emails',
              { from: EMAIL.from, to: EMAIL.to, subject: 'Hello', text: 'Hi' },
              { key },
            )
          ).body,
          'id',
        ),
      ),
  ],
  [
    'Postmark',
    async (key) => {
      const headers = { 'x-postmark-server-token': key }
      const body = { From: EMAIL.from, To: EMAIL.to, Subject: 'Hello', TextBody: 'Hi' }
      return String(at((await service.api('POST', '/email', body, { key: '', headers })).body, 'MessageID'))
    },
  ],
  ...['/v3', '/mailgun/v3'].flatMap((prefix) =>
    ['messages', 'messages.mime'].map(
      (name) =>
        [
          `Mailgun at ${prefix}, ${name}`,
          async (key: string) => {
            const body = new FormData()
            const fields = { from: EMAIL.from, to: EMAIL.to, subject: 'Hello', text: 'Hi', message: WHOLE }
            for (const [field, value] of Object.entries(fields)) body.set(field, value)
            const headers = { authorization: `Basic ${btoa(`api:${key}`)}` }
            const answer = await fetch(`${service.url}${prefix}/${VERIFIED}/${name}`, { method: 'POST', body, headers })
            return ((await answer.json()) as { id: string }).id.slice(1).split('@')[0] ?? ''
          },
        ] as const,
    ),
  ),
  ...['message', 'raw'].map(
    (name) =>
      [
        `Postal, ${name}`,
        async (key: string) => {
          const envelope = { mail_from: EMAIL.from, rcpt_to: [EMAIL.to], data: btoa(WHOLE) }
          const body = { from: EMAIL.from, to: [EMAIL.to], subject: 'Hello', plain_body: 'Hi', ...envelope }
          const headers = { 'x-server-api-key': key }
          const answer = await service.api('POST', `/api/v1/send/${name}`, body, { key: '', headers })
          return String(at(answer.body, 'data', 'messages', EMAIL.to, 'id'))
        },
      ] as const,
  ),
  [
    'the hook of Supabase',
    async (key) => {
      await service.api('POST', '/v1/templates', {
        name: 's',
        alias: 'supabase-signup',
        subject: 'Hello',
        text_body: 'Hi',
      })
      const hook = at(
        (await service.api('GET', `/hooks/supabase?from=${EMAIL.from}`, undefined, { key })).body,
        'data',
      ) as { url: string; secret: string }
      const { pathname, search } = new URL(hook.url)
      const body = JSON.stringify({
        user: { email: EMAIL.to },
        email_data: { email_action_type: 'signup', token: '1', token_hash: '1', redirect_to: '', site_url: '' },
      })
      const [id, time] = ['1', String(Math.floor(service.clock.now() / 1000))]
      const secret = Buffer.from(hook.secret.slice(hook.secret.lastIndexOf('_') + 1), 'base64')
      const signature = createHmac('sha256', secret).update(`${id}.${time}.${body}`).digest('base64')
      const headers = { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': `v1,${signature}` }
      const answer = await fetch(`${service.url}${pathname}${search}`, { method: 'POST', headers, body })
      expect([answer.status, await answer.text()]).toEqual([200, '{}'])
      return String(at((await service.api('GET', '/v1/emails')).body, 'data', 0, 'id'))
    },
  ],
]

describe('an email of a key with drafts', () => {
  // Proves: draft-1
  test.each(WAYS)('by %s waits, leaves once released, and not twice', async (name, send) => {
    const id = await send(agent)
    expect(await statusOf(id)).toBe('draft')
    const subject = String((await service.detail(id))['subject'])
    await expectSent([])
    expectError(await release(id, agent), 403, 'insufficient_scope')
    expect((await release(id)).status).toBe(200)
    expectError(await release(id), 409, 'email_not_draft')
    if (name === 'a send at a time') {
      expect(await statusOf(id)).toBe('scheduled')
      await service.api('PATCH', `/v1/emails/${id}`, { send_at: null })
    }
    await eventually(async () => ((await statusOf(id)) === 'sent' ? true : undefined))
    await expectSent([subject])
    expectBalanced(service)
  })

  test('is released once by 50 releases at once, with one event and one audit entry that says who', async () => {
    const { id } = await post('/v1/emails', { ...EMAIL, subject: 'Once' }, agent)
    const answers = await Promise.all(Array.from({ length: 50 }, () => release(id)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(49).fill(409)])
    await eventually(async () => ((await statusOf(id)) === 'sent' ? true : undefined))
    await expectSent(['Once'])
    const events = ((await service.detail(id))['events'] as Json[]).map(({ event_type: type }) => type)
    expect(events).toEqual(['scheduled', 'queued', 'sent', 'delivered'])
    const entries = at((await service.api('GET', '/v1/audit-logs?action=email.released')).body, 'data') as Json[]
    expect(entries.filter((entry) => entry['resource_id'] === id)).toMatchObject([{ actor_type: 'api_key' }])
  })

  // Proves: draft-2
  test('is discarded by its key or a person, or cancelled after 14 days; its quota is given back', async () => {
    // Drafts of other tests are cancelled with it.
    const used = service.used() - (await countOf('draft'))
    const [first, second, old] = await Promise.all([1, 2, 3].map(() => post('/v1/emails', EMAIL, agent)))
    expect((await service.api('POST', `/v1/emails/${first?.id}/cancel`, {}, { key: agent })).status).toBe(200)
    expect((await service.api('POST', `/v1/emails/${second?.id}/cancel`, {})).status).toBe(200)
    expectError(await release(String(first?.id)), 409, 'email_not_draft')
    const later = { ...service.app, clock: { ...service.app.clock, now: () => service.clock.now() + days(15) } }
    await cancelOldDrafts(later as typeof service.app, new AbortController().signal)
    expect(await statusOf(String(old?.id))).toBe('cancelled')
    expect(service.used()).toBe(used)
    expectBalanced(service)
  })

  // Proves: draft-4
  test('is not moved, retried or otherwise freed by any route that a key may call', async () => {
    const draft = (await post('/v1/emails', { ...EMAIL, subject: 'Attacked' }, agent)).id
    const scheduled = (await service.accepted({ send_at: new Date(service.clock.now() + days(1)).toISOString() })).id
    // As if the key had every scope: the routes alone must hold.
    const [strong, strongMailbox] = [await newKey({ drafts: true }), await newKey({ mailbox_id: mailboxId })]
    for (const { id } of [strong, strongMailbox])
      service.app.db.run(`UPDATE api_keys SET scopes = '["account:admin","drafts:release"]' WHERE uuid = ?`, [
        parseUuid(id) ?? '',
      ])
    const keys = at((await service.api('GET', '/v1/api-keys')).body, 'data') as Json[]
    const routes = createRoutes(service.opened).flatMap(({ routes }) => routes)
    const tried = routes.filter(
      ({ method, path }) =>
        !['GET', 'HEAD', 'OPTIONS'].includes(method) && !/^\/(mcp|login|u\/|release|subscribe|supabase)/.test(path),
    )
    expect(tried.length).toBeGreaterThan(120)
    const open = new Set<string>()
    for (const [{ key }, body] of [strong, strongMailbox].flatMap(
      (of) =>
        [
          [of, '{}'],
          [of, '{"drafts":false}'],
        ] as const,
    ))
      for (const { method, path } of tried) {
        // The agent may discard its draft, which the test before this one does.
        if (path.endsWith('/cancel') && (body === '{}' || path.startsWith('/resend/'))) continue
        const url = path.replace(/:(\w+)/g, (_, name) =>
          name === 'domain' ? VERIFIED : name === 'id' && path.includes('agent-mailboxes') ? mailboxId : draft,
        )
        const isMailgun = /^(\/mailgun)?\/v[34]\//.test(path)
        const headers = {
          authorization: isMailgun ? `Basic ${btoa(`api:${key}`)}` : `Bearer ${key}`,
          'content-type': isMailgun ? 'application/x-www-form-urlencoded' : 'application/json',
          'x-postmark-server-token': key,
          'x-server-api-key': key,
        }
        const answer = await fetch(`${service.url}${url}`, { method, body, headers })
        // Postmark's errors are all 422.
        const isRefused = (await answer.text()).includes('This API key is')
        if (!isRefused && ![401, 403, 404].includes(answer.status)) open.add(`${method} ${path}`)
      }
    const inMailbox = (path: string) => `/v1/agent-mailboxes/:id/messages/:mid${path}`
    // The others need no key: they ask for a password, or for the token of a link.
    expect(
      [...open].filter((name) => !/ \/(v1\/auth\/|join|reset-password|setup|logout|oauth\/)/.test(name)).sort(),
    ).toEqual(
      [
        ...['', '/postmark'].flatMap((prefix) =>
          ['', '/batch', '/batchWithTemplates', '/withTemplate'].map((name) => `POST ${prefix}/email${name}`),
        ),
        ...['/emails/', '/resend/emails/', '/v1/emails/'].flatMap((path) => [`POST ${path}`, `POST ${path}batch`]),
        ...['', '/mailgun'].flatMap((prefix) =>
          ['messages', 'messages.mime'].map((name) => `POST ${prefix}/v3/:domain/${name}`),
        ),
        ...['POST /api/v1/send/message', 'POST /api/v1/send/raw'],
        'POST /v1/emails/check',
        ...['POST /v1/emails/:id/cancel', 'POST /v1/emails/:id/resend', 'POST /v1/templates/:id/render'],
        ...['ack', 'nack', 'reply'].map((name) => `POST ${inMailbox(`/${name}`)}`),
        ...[`DELETE ${inMailbox('')}`, `PUT ${inMailbox('/labels')}`],
      ].sort(),
    )
    expect(await statusOf(draft)).toBe('draft')
    expect((await service.api('POST', `/v1/emails/${scheduled}/cancel`, {}, { key: agent })).status).toBe(404)
    expect(await statusOf(scheduled)).toBe('scheduled')
    expect(at((await service.api('GET', '/v1/api-keys')).body, 'data')).toMatchObject(
      keys.map(({ id, scopes }) => ({ id, scopes })),
    )
    await expectSent([])
  })
})

describe('a key with drafts', () => {
  test.each([
    'account:admin',
    'drafts:release',
    'inbound:write',
    'sub_accounts:manage',
    'webhooks:write',
    'contacts:write',
  ])('cannot have the scope %s, at its creation or later', async (scope) => {
    expectError(
      await service.api('POST', '/v1/api-keys', { name: 'x', drafts: true, scopes: [scope] }),
      422,
      'invalid_scope',
      'scopes',
    )
    const { id } = await newKey({ scopes: [scope] })
    expectError(await service.api('PATCH', `/v1/api-keys/${id}`, { drafts: true }), 422, 'invalid_scope', 'scopes')
    expect((await service.api('PATCH', `/v1/api-keys/${id}`, { drafts: true, scopes: ['emails:send'] })).status).toBe(
      200,
    )
    expectError(await service.api('PATCH', `/v1/api-keys/${id}`, { scopes: [scope] }), 422, 'invalid_scope', 'scopes')
  })
})

describe('allowed_recipients', () => {
  // Proves: draft-5
  test('refuse every other recipient, in to, cc and bcc, by every interface', async () => {
    const { key, allowed_recipients } = await newKey({ allowed_recipients: ['Bob@Receiver.test', '@example.com'] })
    expect(allowed_recipients).toEqual(['Bob@receiver.test'.toLowerCase(), '@example.com'])
    expect((await service.send({ to: ['BOB@receiver.test', 'any@example.com'] }, { key })).status).toBe(202)
    for (const request of [
      { to: 'eve@receiver.test' },
      { cc: ['eve@receiver.test'] },
      { bcc: 'eve@receiver.test' },
      { to: 'a@sub.example.com' },
    ]) {
      const answer = await service.send(request, { key })
      expectError(answer, 422, 'recipient_not_allowed', 'to')
      expect(JSON.stringify(answer.body)).toContain(request.to ?? 'eve@receiver.test')
    }
    await using client = await service.connectLoggedIn(key)
    expect(await sendMessage(client, createMessage(), { to: ['bob@receiver.test', 'eve@receiver.test'] })).toMatch(
      /^5\d\d .*eve@receiver\.test/,
    )
    const batch = await service.api(
      'POST',
      '/v1/emails/batch',
      { emails: [EMAIL, { ...EMAIL, to: 'eve@receiver.test' }] },
      { key },
    )
    expect(batch.body).toMatchObject({ data: [{}], errors: [{ index: 1 }] })
    for (const entries of [['nonsense'], ['@'], Array.from({ length: 101 }, (_, i) => `a${i}@example.com`)])
      expect((await service.api('POST', '/v1/api-keys', { name: 'x', allowed_recipients: entries })).status).toBe(422)
  })
})

// Proves: draft-6
test('daily_limit is exact for 50 sends at once, counts recipients, batches and drafts, and begins again the next day', async () => {
  const { key } = await newKey({ daily_limit: 12, drafts: true })
  const answers = await Promise.all(Array.from({ length: 50 }, () => service.send({}, { key })))
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(12)
  expectError(answers.find(({ status }) => status !== 202) as ApiResponse, 429, 'daily_limit')
  const batch = (key: string) => service.api('POST', '/v1/emails/batch', { emails: [EMAIL, EMAIL, EMAIL] }, { key })
  const other = (await newKey({ daily_limit: 4 })).key
  expect([
    (await batch(other)).status,
    (await batch(other)).status,
    (await service.send({}, { key: other })).status,
  ]).toEqual([202, 429, 202])
  // Each recipient counts, so that one email to many is no way around it.
  const many = (await newKey({ daily_limit: 3 })).key
  const to = (count: number) => ({ to: Array.from({ length: count }, (_, i) => `bob${i}@receiver.test`) })
  const refused = await service.send(to(4), { key: many })
  expectError(refused, 429, 'daily_limit')
  expect(JSON.stringify(refused.body)).toContain('3 left')
  expect((await service.send(to(2), { key: many })).status).toBe(202)
  expect((await service.send(to(2), { key: many })).status).toBe(429)
  // A repeated request is no new email.
  const repeated = { idempotency_key: 'again' }
  expect((await service.send(repeated, { key: many })).status).toBe(202)
  expect(at((await service.send(repeated, { key: many })).body, 'data', 'replayed')).toBe(true)
  service.clock.advance(days(1))
  expect((await service.send({}, { key: other })).status).toBe(202)
})

describe('a key for one mailbox', () => {
  // Proves: draft-7
  test('reads and answers its messages, sends from its address, and sees nothing else', async () => {
    const foreign = (await post('/v1/agent-mailboxes', { local_part: 'other' })).id
    const { key } = await newKey({ mailbox_id: mailboxId })
    const get = async (path: string) => (await service.api('GET', path, undefined, { key })).status
    const message = await deliver({ subject: 'Question' })
    expect(at((await service.api('GET', '/v1/agent-mailboxes', undefined, { key })).body, 'data')).toMatchObject([
      { id: mailboxId },
    ])
    expect(await get(`/v1/agent-mailboxes/${mailboxId}/messages/${message}`)).toBe(200)
    expect(await get(`/v1/agent-mailboxes/${mailboxId.toUpperCase()}/messages/next?timeout=1`)).toBe(200)
    for (const path of ['', '/messages', '/threads', '/messages/next?timeout=1'])
      expect(await get(`/v1/agent-mailboxes/${foreign}${path}`)).toBe(404)
    for (const path of ['/v1/emails', '/v1/domains', '/v1/api-keys', '/v1/templates', '/v1/account'])
      expect(await get(path)).toBe(403)
    expect((await service.send({ from: `Support <support@${VERIFIED}>` }, { key })).status).toBe(202)
    expectError(await service.send({}, { key }), 403, 'sender_not_allowed')
    const asks = (await newKey({ mailbox_id: mailboxId, drafts: true })).key
    const [draft, ofOther] = [
      await post('/v1/emails', { ...EMAIL, from: `support@${VERIFIED}` }, asks),
      await post('/v1/emails', EMAIL, agent),
    ]
    for (const action of ['cancel', 'resend'])
      expectError(await service.api('POST', `/v1/emails/${ofOther.id}/${action}`, {}, { key }), 404, 'email_not_found')
    expect(await statusOf(ofOther.id)).toBe('draft')
    expect(await post(`/v1/emails/${draft.id}/cancel`, {}, key)).toMatchObject({ status: 'cancelled' })
    await using smtp = await service.connectLoggedIn(key)
    expect(await sendMessage(smtp, createMessage())).toMatch(/^5\d\d .*support@/)
    await using client = await connect(service.url, key)
    expect((await client.names()).sort()).toEqual([
      'ack_message',
      'list_mailboxes',
      'next_message',
      'reply_to_message',
      'send_email',
    ])
    expect((await client.call('next_message', { mailbox_id: foreign, wait_seconds: 1 })).isError).toBe(true)
    expect(
      (await client.call('reply_to_message', { mailbox_id: mailboxId, message_id: message, text_body: 'Yes.' }))
        .isError,
    ).toBe(false)
    expectError(
      await service.api('POST', '/v1/api-keys', { name: 'x', mailbox_id: '019a0000-0000-7000-8000-000000000000' }),
      422,
      'mailbox_not_found',
      'mailbox_id',
    )
    // The mailbox must be one of the account of the key, which is here another one.
    const child = (await post('/v1/accounts', { name: 'Child', email: 'child@example.net', password: PASSWORD })).id
    expectError(
      await service.api('POST', `/v1/accounts/${child}/api-keys`, { name: 'x', mailbox_id: mailboxId }),
      422,
      'mailbox_not_found',
      'mailbox_id',
    )
    // With the mailbox, its keys end.
    const own = (await newKey({ mailbox_id: foreign })).key
    await service.api('DELETE', `/v1/agent-mailboxes/${foreign}`)
    expect((await service.api('GET', '/v1/agent-mailboxes', undefined, { key: own })).status).toBe(401)
  })
})

// Proves: draft-8
test('replies of a mailbox with drafts wait, whoever sends them but a person; only who may release turns it off', async () => {
  const { id } = await post('/v1/agent-mailboxes', { local_part: 'careful', drafts: true })
  const mailbox = getTestMailbox(service.app, service.actor.accountId, id)
  const message = await deliverMessage(service.app, mailbox)
  const path = `/v1/agent-mailboxes/${id}`
  expect(await post(`${path}/messages/${message}/reply`, { text_body: 'Yes.' })).toMatchObject({ status: 'draft' })
  const { key } = await newKey({ scopes: ['mailboxes:write', 'emails:send'] })
  expectError(await service.api('PATCH', path, { drafts: false }, { key }), 403, 'insufficient_scope')
  await service.api('PATCH', `${path}/auto-responder`, { enabled: true, rules: [{ reply: { text_body: 'Soon.' } }] })
  const received = createReceived({ toAddresses: [`careful@${VERIFIED}`] })
  await autoRespond(service.app, getTestMailbox(service.app, service.actor.accountId, id), received)
  expect(at((await service.api('GET', '/v1/emails')).body, 'data', 0)).toMatchObject({ status: 'draft' })
  await createTestUser(service.app, service.actor, 'paula@example.net', 'owner')
  const person = await signIn(service, 'paula@example.net')
  expect((await person.ask('POST', `${path}/messages/${message}/reply`, { text_body: 'Me.' })).body).toMatchObject({
    data: { status: 'queued' },
  })
  expect((await service.api('PATCH', path, { drafts: false })).body).toMatchObject({ data: { drafts: false } })
  expect(await post(`${path}/messages/${message}/reply`, { text_body: 'No.' })).toMatchObject({ status: 'queued' })
})

describe('the link in the mail to owners', () => {
  const visit = async (path: string, action?: string) => {
    const body = action === undefined ? {} : { method: 'POST', body: new URLSearchParams({ action }) }
    const answer = await fetch(`${service.url}${path}`, body)
    return { status: answer.status, text: await answer.text(), headers: answer.headers }
  }

  beforeAll(async () => {
    for (const address of ['olga@example.net', `me@${VERIFIED}`])
      await createTestUser(service.app, service.actor, address, 'owner')
  })

  // Proves: draft-3
  test('shows the email and asks; only its form releases, once, and the audit log has who', async () => {
    const { app } = service
    const draft = {
      ...EMAIL,
      subject: 'Offer <b>',
      html_body: '<script>x</script><p>Buy</p>',
      reply_to: 'boss@receiver.test',
    }
    const [{ id }, discarded] = [
      await post('/v1/emails', draft, agent),
      await post('/v1/emails', { ...EMAIL, subject: 'Bad' }, agent),
    ]
    service.clock.advance(minutes(20))
    const known = listServiceMail(app).length
    await createNoticeSender(app, DRAFT_NOTICE)()
    const mails = listServiceMail(app).slice(known)
    // One for the account and each owner, whatever the number of drafts.
    const [toOwner, toReceived] = ['olga@example.net', `me@${VERIFIED}`].map(
      (to) => mails.find((mail) => mail.to === to)?.text ?? '',
    )
    // A program with a key of this service could read what comes to this address.
    expect(toReceived).not.toContain('/release/')
    const pathOf = (subject: string) =>
      new URL(new RegExp(`"${subject}[^"]*"\\n.*\\n(\\S+)`).exec(toOwner ?? '')?.[1] ?? '').pathname
    const path = pathOf('Offer')
    for (const method of ['GET', 'HEAD', 'GET'])
      expect((await fetch(`${service.url}${path}`, { method })).status).toBe(200)
    const shown = await visit(path)
    expect(shown.text).toContain('bob@receiver.test')
    expect(shown.text).toContain('replies to: <bdi>boss@receiver.test')
    expect(shown.text).not.toContain('<script>')
    expect(shown.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect((await visit(path, 'other')).status).toBe(200)
    expect(await statusOf(id)).toBe('draft')
    // The mail cannot be read with the key.
    const listed = at(
      (await service.api('GET', '/v1/emails?q=olga@example.net', undefined, { key: agent })).body,
      'data',
    ) as Json[]
    for (const { id: own } of listed)
      for (const part of ['', '/source', '/captured', '/attempts'])
        expect(
          JSON.stringify((await service.api('GET', `/v1/emails/${own}${part}`, undefined, { key: agent })).body),
        ).not.toContain('/release/')
    const texts = await Promise.all(Array.from({ length: 5 }, async () => (await visit(path, 'release')).text))
    for (const text of texts) expect(text).toContain('Released')
    await eventually(async () => ((await statusOf(id)) === 'sent' ? true : undefined))
    expect(sink.messages.filter(({ raw }) => raw.includes('Offer'))).toHaveLength(1)
    expect((await visit(pathOf('Bad'), 'discard')).text).toContain('Discarded')
    expect(await statusOf(discarded.id)).toBe('cancelled')
    const [entry] = at((await service.api('GET', '/v1/audit-logs?action=email.released')).body, 'data') as Json[]
    expect(entry).toMatchObject({ resource_id: id, metadata: { via: 'link', address: 'olga@example.net' } })
  })

  test('discards no email that somebody has released, and releases none whose content is missing', async () => {
    const { app, clock } = service
    const linkOf = (id: string) =>
      `/release/${createDraftToken(app, { accountId: service.actor.accountId, id, expiresAt: clock.now() + days(1), address: 'olga@example.net' })}`
    const later = new Date(clock.now() + days(1)).toISOString()
    const { id } = await post('/v1/emails', { ...EMAIL, send_at: later }, agent)
    expect((await release(id)).status).toBe(200)
    expect((await visit(linkOf(id), 'discard')).text).toContain('scheduled')
    expect(await statusOf(id)).toBe('scheduled')
    await service.api('POST', `/v1/emails/${id}/cancel`)
    const lost = await post('/v1/emails', EMAIL, agent)
    app.db.run('UPDATE emails SET text_ref = 999999 WHERE uuid = ?', [parseUuid(lost.id) ?? ''])
    const { status, text } = await visit(linkOf(lost.id))
    expect([status, text.includes('is missing'), text.includes('value="release"')]).toEqual([200, true, false])
    expect((await visit(linkOf(lost.id), 'discard')).text).toContain('Discarded')
  })

  // Proves: draft-3
  test('is refused when it was changed, is old, or is for somebody who is no owner of the account', async () => {
    const { app, clock } = service
    const { id } = await post('/v1/emails', EMAIL, agent)
    const stranger = await service.newAccount()
    await createTestUser(app, stranger, 'foreign@example.net', 'owner')
    const tokenFor = (address: string, expiresAt = clock.now() + days(1)) =>
      createDraftToken(app, { accountId: service.actor.accountId, id, expiresAt, address })
    const good = tokenFor('olga@example.net')
    expect((await visit(`/release/${good}`)).status).toBe(200)
    const bad = [
      `${good.slice(0, -2)}AA`,
      good.slice(1),
      'x',
      'A'.repeat(3000),
      tokenFor('foreign@example.net'),
      tokenFor('olga@example.net', clock.now()),
    ]
    for (const token of bad) {
      expect((await visit(`/release/${token}`)).status).toBe(404)
      expect((await visit(`/release/${token}`, 'release')).status).toBe(404)
    }
    expect(await statusOf(id)).toBe('draft')
    expect((await release(id, await service.newKey([], stranger))).status).toBe(404)
  })
})
