/**
 * @module Requests whose body arrives late: what counts are the sender's rights when the body arrives, not those when
 * the request started.
 */
import { expect, test } from 'bun:test'
import { formatUuid } from '#platform/ids.ts'
import { openRawConnection, parseStatuses } from '#test/platform/http/raw-client.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { type BrowserSession, createTestUser, signIn, type TestUser } from '#test/support/users.ts'

/** Begins a request, runs `meanwhile`, then sends its body; resolves with the status of the response. */
async function askSlowly(
  { url }: TestApi,
  request: {
    readonly path: string
    readonly body: unknown
    readonly headers: Readonly<Record<string, string>>
  },
  meanwhile: () => Promise<number>,
): Promise<{ meanwhile: number; status: number | undefined }> {
  using connection = await openRawConnection(Number(new URL(url).port))
  const body = JSON.stringify(request.body)
  const headers = { host: 'x', 'content-type': 'application/json', 'content-length': body.length, ...request.headers }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  connection.send(`POST ${request.path} HTTP/1.1\r\n${lines.join('')}expect: 100-continue\r\n\r\n${body.slice(0, 3)}`)
  // The server sends this when it reads the body, so the request has begun.
  await connection.until((received) => received.includes('100 Continue'))
  const status = await meanwhile()
  connection.send(body.slice(3))
  const received = await connection.until((text) => parseStatuses(text).some((answer) => answer !== 100))
  return { meanwhile: status, status: parseStatuses(received).find((answer) => answer !== 100) }
}

const idOf = ({ user }: TestUser): string => formatUuid(user.uuid)

async function createTeam(
  service: TestApi,
): Promise<{ eve: TestUser; evesSession: BrowserSession; owner: BrowserSession }> {
  const { app, actor } = service
  await createTestUser(app, actor, 'ada@people.test', 'owner')
  const eve = await createTestUser(app, actor, 'eve@people.test', 'owner')
  return { eve, evesSession: await signIn(service, eve.email), owner: await signIn(service, 'ada@people.test') }
}

test('a member who is removed while the body arrives cannot create a key that would outlive the membership', async () => {
  await using service = await createTestApi()
  const { eve, evesSession, owner } = await createTeam(service)
  const asked = { path: '/v1/api-keys', body: { name: 'kept' }, headers: evesSession.headers }
  const removed = async () => (await owner.ask('DELETE', `/v1/team/members/${idOf(eve)}`)).status
  expect(await askSlowly(service, asked, removed)).toEqual({ meanwhile: 204, status: 401 })
})

test('an owner who becomes a developer or an admin meanwhile has the new role when the body arrives', async () => {
  await using service = await createTestApi()
  const { eve, evesSession, owner } = await createTeam(service)
  const become = (role: string) => async () =>
    (await owner.ask('PATCH', `/v1/team/members/${idOf(eve)}`, { role })).status
  const { headers } = evesSession
  const invitation = { path: '/v1/team/invitations', body: { email: 'x@people.test', role: 'owner' }, headers }
  expect(await askSlowly(service, invitation, become('admin'))).toEqual({ meanwhile: 200, status: 403 })
  const key = { path: '/v1/api-keys', body: { name: 'kept' }, headers }
  expect(await askSlowly(service, key, become('developer'))).toEqual({ meanwhile: 200, status: 403 })
})

test('a key that is deleted while the body arrives cannot create another', async () => {
  await using service = await createTestApi()
  const { body } = await service.api('POST', '/v1/api-keys', { name: 'leaked' })
  const headers = { authorization: `Bearer ${String(at(body, 'data', 'key'))}` }
  const deleted = async () => (await service.api('DELETE', `/v1/api-keys/${String(at(body, 'data', 'id'))}`)).status
  const asked = { path: '/v1/api-keys', body: { name: 'kept' }, headers }
  expect(await askSlowly(service, asked, deleted)).toEqual({ meanwhile: 204, status: 401 })
})

test('a contact file is not imported if its key is deleted while it arrives', async () => {
  await using service = await createTestApi()
  const list = await service.api('POST', '/v1/contact-lists', { name: 'News' })
  const { body } = await service.api('POST', '/v1/api-keys', { name: 'leaked' })
  const headers = { authorization: `Bearer ${String(at(body, 'data', 'key'))}`, 'content-type': 'text/csv' }
  const deleted = async () => (await service.api('DELETE', `/v1/api-keys/${String(at(body, 'data', 'id'))}`)).status
  const path = `/v1/contact-lists/${at(list.body, 'data', 'id')}/contacts/import`
  const asked = { path, body: 'ada@receiver.test', headers }
  expect(await askSlowly(service, asked, deleted)).toEqual({ meanwhile: 204, status: 401 })
  expect(at((await service.api('GET', '/v1/operations')).body, 'data')).toEqual([])
})
