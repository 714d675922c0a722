/** @module The HTML of mail at URLs of its own, for frames of the dashboard: restricted, and for its account only. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type RouteService, startRouteService } from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { newList } from '#test/support/broadcasts.ts'
import { eventually } from '#test/support/browser.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

const POLICY =
  "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
const HTML = '<LINK rel=preconnect href=//x><meta name=a><base href=x><iframe srcdoc=x><linked>Secret'
const SHOWN =
  /^<basefont rel=preconnect href=\/\/x><basefont name=a><basefont href=x><basefont srcdoc=x><linked>Secret\s*<style>/

let service: RouteService
/** Paths of frames, and of what the account does not have or what has no HTML. */
let frames: readonly string[] = []
let missing: readonly string[] = []

beforeAll(async () => {
  service = await startRouteService({
    delivers: true,
    settings: { TASSIS_DELIVERY: 'capture', TASSIS_INBOUND_ADDR: '127.0.0.1:2525' },
  })
  const { app, actor, api, domainId } = service
  await createTestUser(app, actor, 'vera@people.test', 'viewer')
  await createTestUser(app, await service.newAccount(), 'eve@other.test', 'owner')
  const create = async (path: string, body: object): Promise<string> =>
    String(at((await api('POST', path, body)).body, 'data', 'id'))
  const send = async (body: object): Promise<string> => {
    const id = await create('/v1/emails', { from: 'ada@sender.test', to: 'bob@receiver.test', subject: 'Hi', ...body })
    await eventually(async () => (await api('GET', `/v1/captured-emails/${id}`)).status === 200)
    return id
  }
  const domain = app.db.query<{ id: number }, []>("SELECT id FROM domains WHERE domain = 'inbound.test'").get()?.id ?? 0
  const store = (given: object) => storeTestInbound(app, { accountId: actor.accountId, domainId: domain }, given)
  const list = await newList(service, 'News')
  const draft = (body: object) =>
    create('/v1/newsletters', { list_id: list, subject: 'Hi', from_address: 'ada@sender.test', ...body })
  const mailbox = await create('/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
  const message = await deliverMessage(app, getTestMailbox(app, actor.accountId, mailbox), { html: HTML })
  const [email, plain] = [await send({ html_body: HTML }), await send({ text_body: 'Hello' })]
  const letter = await draft({ html_body: HTML })
  frames = [
    `mail/${email}`,
    `captured/${email}`,
    `inbound/${await store({ html: HTML })}`,
    `inbound/mailboxes/${mailbox}/messages/${message}`,
    `newsletters/${letter}`,
  ].map((path) => `/app/${path}/html`)
  missing = [
    ...['mail', 'captured', 'inbound', 'newsletters', `inbound/mailboxes/${mailbox}/messages`].map(
      (path) => `/app/${path}/x/html`,
    ),
    ...[`mail/${plain}`, `captured/${plain}`, `inbound/${await store({ text: 'x' })}`].map(
      (path) => `/app/${path}/html`,
    ),
    `/app/newsletters/${await draft({ text_body: 'x' })}/html`,
    `/app/newsletters/${letter}/html?contact_email=%3Cscript%3E`,
  ]
})
afterAll(() => service[Symbol.asyncDispose]())

const read = (path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${service.url}${path}`, { headers })

// Proves: dash-4
// Proves: dash-5
// Proves: dash-6
// Proves: dash-7
test('mail is in a sandbox, and its pictures are blocked unless requested', async () => {
  const { headers } = await signIn(service, 'vera@people.test')
  for (const path of frames) {
    const response = await read(path, headers)
    expect([path, response.status, await response.text()]).toEqual([path, 200, expect.stringMatching(SHOWN)])
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'x-frame-options': 'SAMEORIGIN',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    const withPictures = await read(`${path}?images=1`, headers)
    expect(withPictures.headers.get('content-security-policy')).toContain('img-src data: https: http:;')
  }
})

test('mail is only for users of its account, and hidden under tracking hosts', async () => {
  const { headers } = await signIn(service, 'vera@people.test')
  const eve = await signIn(service, 'eve@other.test')
  for (const [paths, given, status] of [
    [frames, {}, 401],
    [frames, { authorization: `Bearer ${service.key}` }, 401],
    [frames, eve.headers, 404],
    [missing, headers, 404],
  ] as const)
    for (const path of paths) {
      const response = await read(path, given)
      expect([path, response.status]).toEqual([path, status])
      expect(response.headers.get('content-security-policy')).toStartWith('sandbox;')
      expect(await response.text()).not.toContain('Secret')
    }
  service.app.db.run("UPDATE domains SET tracking_domain = 'links.sender.test', tracking_verified_at = 1 WHERE id = 1")
  for (const path of frames) {
    expect((await read(path, { ...headers, host: 'links.sender.test' })).status).toBe(404)
    expect((await read(path, { ...headers, host: 'mail.tassis.test' })).status).toBe(200)
  }
})
