/** @module What the role support may do, of all routes, and that no response to it has the contents of mail. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { endAttempts } from '#test/features/lifecycle/retention/year.ts'
import { at } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'
import { type BrowserSession, createTestUser, signIn } from '#test/support/users.ts'
import { readDescriptions } from '../../scripts/client.ts'
import { type ContractApi, createContractApi, SUPPORT_ROUTES, unknownId } from './routes.ts'

/** About the session and the user itself. */
const OWN_ROUTES: readonly string[] = [
  'POST /v1/auth/logout',
  'GET /v1/auth/session',
  'PUT /v1/auth/session',
  'GET /v1/auth/sessions',
  'DELETE /v1/auth/sessions',
  'DELETE /v1/auth/sessions/{id}',
  'POST /v1/auth/session/password',
  'PUT /v1/auth/password',
  'POST /v1/auth/totp',
  'DELETE /v1/auth/totp',
  'POST /v1/auth/totp/confirm',
  'POST /v1/auth/totp/recovery-codes',
  'GET /v1/auth/passkeys',
  'POST /v1/auth/passkeys',
  'POST /v1/auth/passkeys/options',
  'DELETE /v1/auth/passkeys/{id}',
  'POST /v1/auth/session/code',
  'POST /v1/auth/session/passkey',
]

const EMAIL = 'support@people.test'
const SECRET = 'hunter2-resets-it'

let service: ContractApi
let support: BrowserSession
beforeAll(async () => {
  service = await createContractApi()
  await createTestUser(service.app, service.actor, EMAIL, 'support')
  support = await signIn(service, EMAIL)
})
afterAll(() => service[Symbol.asyncDispose]())

// Proves: user-27
test('of all described routes, those of the list are open to the role support', async () => {
  const open: string[] = []
  const { api, operators } = await readDescriptions()
  for (const { paths } of [api, operators])
    for (const [path, operations] of Object.entries(paths))
      for (const [verb, operation] of Object.entries(operations)) {
        if ((operation as { security?: readonly unknown[] }).security?.length === 0) continue
        const method = verb.toUpperCase()
        const url = path.replace(/\{(?:email|address)\}/g, 'bob@receiver.test').replace(/\{\w+\}/g, unknownId('email'))
        // With the token also for a GET, because some change something.
        const options = { key: null, headers: support.headers }
        const { status } = await service.api(method, url, method === 'GET' ? undefined : {}, options)
        if (status === 401) throw new Error(`${method} ${path} ended the session`)
        if (path === '/v1/auth/logout') support = await signIn(service, EMAIL)
        if (status !== 403) open.push(`${method} ${path}`)
      }
  expect(open.sort()).toEqual([...SUPPORT_ROUTES, ...OWN_ROUTES].sort())
})

/** Sends an email that has the secret wherever a client can put one; it is delivered, opened, and its link clicked. */
async function sendSecret(): Promise<string> {
  const { app, api } = service
  const link = `https://shop.test/reset?token=${SECRET}`
  const template = { alias: 'reset', name: 'Reset', subject: 'x', html_body: '<a href="{{ link }}">{{ link }}</a>' }
  const created = await api('POST', '/v1/templates', { ...template, text_body: '{{ link }}' })
  expect(created.status).toBe(201)
  const { id } = await service.accepted({
    to: 'Bob Brown <bob@secret.test>',
    subject: 'x',
    text_body: undefined,
    template_alias: 'reset',
    template_data: { link },
    headers: { 'X-Reset': link },
    metadata: { link },
    attachments: [{ filename: `${SECRET}.txt`, content: btoa(SECRET), content_type: 'text/plain' }],
    idempotency_key: SECRET,
    tracking: true,
  })
  await endAttempts(service, 'secret.test', [{ kind: 'sent', reply: '250 OK' }])
  await app.commit.write((tx) => {
    const row = tx.db.query<{ id: number }, []>('SELECT max(id) AS id FROM recipients').get()
    const recipient = readTrackedRecipient(tx.db, row?.id ?? 0)
    const visit = { recipient, visitor: 'human', ipAddress: null, userAgent: 'Firefox' } as const
    recordEngagement(app, tx, { ...visit, url: undefined })
    recordEngagement(app, tx, { ...visit, url: link })
  })
  await storeTestInbound(
    app,
    { accountId: service.actor.accountId, domainId: 1 },
    { text: SECRET, message: { subject: SECRET, fromAddresses: ['bob@secret.test'] } },
  )
  return id
}

// Proves: user-27, person-1
test('no response to the role support has a secret of a message', async () => {
  const id = await sendSecret()
  await service.api('POST', '/v1/suppressions', { email_address: 'bob@secret.test', reason: 'asked by phone' })
  const found = ['/v1/emails?to=bob@secret.test', '/v1/search?q=bob@secret.test']
  const paths = [...found, `/v1/emails/${id}`, '/v1/people/bob@secret.test']
  // The account itself reads it in each of them.
  for (const path of paths) expect(JSON.stringify((await service.api('GET', path)).body)).toContain(SECRET)
  const open = SUPPORT_ROUTES.flatMap((route) =>
    route.startsWith('GET ') && !/\{|search/.test(route) ? [route.slice(4)] : [],
  )
  for (const path of [...paths, ...open, `/v1/emails/${id}/attempts`]) {
    const { status, body } = await support.ask('GET', path)
    expect({ path, status }).toEqual({ path, status: 200 })
    expect(JSON.stringify(body)).not.toContain(SECRET)
  }
  const detail = at((await support.ask('GET', `/v1/emails/${id}`)).body, 'data')
  expect(detail).toMatchObject({
    subject: 'x',
    state: 'sent',
    content: 'hidden',
    html_body: null,
    text_body: null,
    template_data: null,
    metadata: {},
    headers: {},
    attachments: null,
    email: { html_body: null, text_body: null, template_data: null },
  })
  const types = (at(detail, 'events') as { type: string }[]).map(({ type }) => type)
  expect(types).toEqual(expect.arrayContaining(['delivered', 'opened', 'clicked']))
  expect(at((await support.ask('GET', '/v1/people/bob@secret.test')).body, 'data')).toMatchObject({
    display_names: ['Bob Brown'],
    lists: [],
    received: null,
    mailboxes: null,
  })
  for (const path of [
    `/v1/emails/${id}/source`,
    `/v1/emails/${id}/links`,
    '/v1/events',
    '/v1/gdpr/export?email=bob@secret.test',
  ])
    expectError(await support.ask('GET', path), 403, 'insufficient_role')
  const frame = await support.ask('GET', `/app/mail/${id}/html`)
  expect([frame.status, frame.body]).toEqual([403, expect.not.stringContaining(SECRET)])
})

// Proves: user-27
test('the role support removes a suppression, and adds none', async () => {
  const body = { email_address: 'eve@secret.test' }
  await service.api('POST', '/v1/suppressions', body)
  expectError(await support.ask('POST', '/v1/suppressions', body), 403, 'insufficient_role')
  const found = at((await support.ask('GET', '/v1/search?q=eve@se')).body, 'data', 'people')
  expect(found).toMatchObject([{ address: 'eve@secret.test', last_email_at: null }])
  expect((await support.ask('DELETE', '/v1/suppressions/eve@secret.test')).status).toBe(204)
  expect(at((await support.ask('GET', '/v1/people/eve@secret.test')).body, 'data', 'can_receive')).toBe(true)
  const entries = at((await service.api('GET', '/v1/audit-logs?action=suppression.deleted')).body, 'data')
  expect(entries).toMatchObject([{ actor_type: 'user', resource_id: 'eve@secret.test' }])
})
