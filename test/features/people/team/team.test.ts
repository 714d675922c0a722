import { describe, expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { listInvitations, MAX_INVITATIONS } from '#features/people/team/invitations.ts'
import type { SessionState } from '#features/people/team/model.ts'
import { findUserByEmail, listMembers, listOwnerEmails, removeTeam } from '#features/people/team/users.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import {
  type BrowserSession,
  CAPTURE_OPTIONS,
  createTestUser,
  findToken,
  type HttpResponse,
  PASSWORD,
  postForm,
  readMailText,
  signIn,
} from '#test/support/users.ts'

const BOB = 'bob@people.test'
const MANY_LOGINS = { TASSIS_LOGINS_PER_MINUTE: '1000' }

async function createService(options: TestAppOptions = {}): Promise<EmailApi & { owner: BrowserSession }> {
  const service = await createEmailApi({ ...options, settings: { ...MANY_LOGINS, ...options.settings } })
  await createTestUser(service.app, service.actor, 'ada@people.test', 'owner')
  return { ...service, owner: await signIn(service, 'ada@people.test') }
}

const createMailService = () => createService(CAPTURE_OPTIONS)

const otherAccount = async ({ app }: EmailApi): Promise<Actor> =>
  toOperatorActor(await createAccount(app, { name: 'Other', email: 'x@people.test', plan: 'unlimited' }))

/** The session that a response opened. */
const sessionOf = async (url: string, { headers }: HttpResponse): Promise<{ data: SessionState }> => {
  const cookie = headers.get('set-cookie')?.split(';')[0] ?? ''
  return (await fetch(`${url}/v1/auth/session`, { headers: { cookie } })).json() as Promise<{ data: SessionState }>
}

const team = ({ app, actor }: EmailApi) =>
  listMembers(app.db, actor.accountId).map(({ email, role }) => `${email} ${role}`)

describe('an invitation', () => {
  // Proves: user-11, user-12
  test('adds a new user to the team, signs them in, and cannot be used again', async () => {
    await using service = await createMailService()
    const { owner, url } = service
    const invited = await owner.ask('POST', '/v1/team/invitations', { email: ' Bob@People.test', role: 'developer' })
    const me = await owner.ask('GET', '/v1/auth/session')
    expect({ status: invited.status, body: invited.body }).toEqual({
      status: 201,
      body: {
        data: {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          email: BOB,
          role: 'developer',
          invited_by: String(at(me.body, 'data', 'user', 'id')),
          expires_at: '2026-03-22T12:30:00.000Z',
          created_at: '2026-03-15T12:30:00.000Z',
          email_sent: true,
        },
      },
    })
    const token = findToken(await readMailText(service, 1))
    expect(JSON.stringify((await owner.ask('GET', '/v1/team/invitations')).body)).not.toContain(token)
    const join = (fields: Record<string, string>) => postForm(url, '/join', { token, ...fields })
    expect((await join({ password: 'short' })).status).toBe(422)
    const joined = await join({ name: 'Bob', password: PASSWORD })
    expect(joined.status).toBe(303)
    expect((await sessionOf(url, joined)).data).toMatchObject({ user: { name: 'Bob' }, role: 'developer' })
    expect((await join({ password: PASSWORD })).status).toBe(422)
    expect(team(service)).toEqual(['ada@people.test owner', `${BOB} developer`])
    const audited = service.app.db
      .query<{ action: string; actor: string }, []>(
        "SELECT action, actor_id AS actor FROM audit_logs WHERE action IN ('invitation.created', 'member.added', 'session.created') ORDER BY id DESC LIMIT 3",
      )
      .all()
    const bob = formatUuid(findUserByEmail(service.app.db, BOB)?.uuid ?? new Uint8Array())
    expect(audited).toEqual([
      { action: 'session.created', actor: bob },
      { action: 'member.added', actor: bob },
      { action: 'invitation.created', actor: String(at(me.body, 'data', 'user', 'id')) },
    ])
  })

  // Proves: user-12
  test('of an existing user requires the password, or a browser in which that user is signed in', async () => {
    await using service = await createMailService()
    const { owner, url, app } = service
    await createTestUser(app, await otherAccount(service), BOB, 'owner')
    const bob = await signIn(service, BOB)
    const invite = async (mail: number) => {
      await owner.ask('POST', '/v1/team/invitations', { email: BOB, role: 'viewer' })
      return findToken(await readMailText(service, mail))
    }
    const token = await invite(1)
    const join = (fields: Record<string, string>, headers = {}) => postForm(url, '/join', { token, ...fields }, headers)
    const joinIn = ({ cookie, csrfToken }: BrowserSession, headers = {}) =>
      join({ csrf_token: csrfToken }, { cookie, ...headers })
    // Neither the cookie alone nor the session of another user is enough.
    const refused = [join({}), join({ password: 'wrong' }), join({}, { cookie: bob.cookie }), joinIn(owner)]
    expect((await Promise.all(refused)).map(({ status }) => status)).toEqual([401, 401, 401, 401])
    expect((await joinIn(bob, { origin: 'https://evil.test' })).status).toBe(403)
    const { data } = await sessionOf(url, await joinIn(bob))
    expect([data.account.id, data.accounts.length]).toEqual([service.actor.accountUuid, 2])
    // The password was not typed for this session.
    expect(app.db.query('SELECT password_at FROM sessions ORDER BY id DESC LIMIT 1').get()).toEqual({
      password_at: null,
    })
    expectError(await owner.ask('POST', '/v1/team/invitations', { email: BOB, role: 'viewer' }), 409, 'already_member')
  })

  // Proves: user-12
  test('is accepted once, even if it is used many times at the same time', async () => {
    await using service = await createMailService()
    await service.owner.ask('POST', '/v1/team/invitations', { email: BOB, role: 'viewer' })
    const token = findToken(await readMailText(service, 1))
    const joins = Array.from({ length: 8 }, () => postForm(service.url, '/join', { token, password: PASSWORD }))
    const statuses = (await Promise.all(joins)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual([303, ...Array(7).fill(422)])
    expect(team(service)).toHaveLength(2)
  })

  // Proves: user-11
  test('is replaced by the next one of its address, can be revoked, and expires after 7 days', async () => {
    await using service = await createMailService()
    const { owner, url, app, actor, clock } = service
    const invite = () => owner.ask('POST', '/v1/team/invitations', { email: BOB, role: 'viewer' })
    await invite()
    await invite()
    const [first, second] = [findToken(await readMailText(service, 1)), findToken(await readMailText(service, 2))]
    const join = async (token: string) => (await postForm(url, '/join', { token, password: PASSWORD })).status
    expect(await join(first)).toBe(422)
    const [open] = listInvitations(app.db, actor.accountId, clock.now())
    expect(
      (await owner.ask('DELETE', `/v1/team/invitations/${formatUuid(open?.uuid ?? new Uint8Array())}`)).status,
    ).toBe(204)
    expect(await join(second)).toBe(422)
    await invite()
    const third = findToken(await readMailText(service, 3))
    clock.advance(days(7))
    expect(await join(third)).toBe(422)
    await purgeExpired(app)
    expect(app.db.query('SELECT id FROM invitations').all()).toEqual([])
  })

  test('that a key created is invalid and no longer listed once the key is deleted', async () => {
    await using service = await createMailService()
    const { app, actor, clock, owner } = service
    const leaked = await owner.ask('POST', '/v1/api-keys', { name: 'leaked' })
    const key = String(at(leaked.body, 'data', 'key'))
    const invite = (email: string) => service.api('POST', '/v1/team/invitations', { email, role: 'admin' }, { key })
    await invite(BOB)
    const join = async (mail: number) =>
      postForm(service.url, '/join', { token: findToken(await readMailText(service, mail)), password: PASSWORD })
    expect((await join(1)).status).toBe(303)
    await invite('eve@people.test')
    expect((await owner.ask('DELETE', `/v1/api-keys/${String(at(leaked.body, 'data', 'id'))}`)).status).toBe(204)
    expect((await join(2)).status).toBe(422)
    expect(listInvitations(app.db, actor.accountId, clock.now())).toEqual([])
  })

  // Proves: user-11
  test('is limited: 50 can be open, and 5 mails an hour go to one address, 50 for one account', async () => {
    await using service = await createService()
    const { owner, clock } = service
    const invite = (email: string) => owner.ask('POST', '/v1/team/invitations', { email, role: 'viewer' })
    for (let i = 0; i < 5; i++) expect((await invite(BOB)).status).toBe(201)
    expectError(await invite(BOB), 429, 'rate_limited')
    for (let i = 5; i < MAX_INVITATIONS - 1; i++) expect((await invite(`no${i}@people.test`)).status).toBe(201)
    expectError(await invite('one@people.test'), 429, 'rate_limited')
    clock.advance(hours(1))
    for (let i = 0; i < 5; i++) expect((await invite(`more${i}@people.test`)).status).toBe(201)
    expectError(await invite('last@people.test'), 409, 'too_many_invitations')
  })

  // Proves: user-11
  test("contains no text that a mail program turns into a link, whatever the account's name, and reports when no mail can be sent", async () => {
    await using service = await createMailService()
    await service.owner.ask('PATCH', '/v1/account', { name: 'Win at https://evil.test/?a=1 now\n\nBuy' })
    await service.owner.ask('POST', '/v1/team/invitations', { email: BOB, role: 'viewer' })
    const text = await readMailText(service, 1)
    expect(text).not.toMatch(/evil\.test/)
    expect(text).toContain('the team of Win at https evil test a 1 now Buy at 127.0.0.1')
    service.app.db.run('UPDATE domains SET verified_at = NULL')
    const unsent = await service.owner.ask('POST', '/v1/team/invitations', { email: 'eve@people.test', role: 'viewer' })
    expect([unsent.status, at(unsent.body, 'data', 'email_sent')]).toEqual([201, false])
  })
})

describe('owners', () => {
  // Proves: auth-51, user-14
  test('are added and removed by signed-in owners, not by admins and not by keys', async () => {
    await using service = await createService()
    const { owner, app, actor, api } = service
    const { user: admin } = await createTestUser(app, actor, 'admin@people.test', 'admin')
    const asAdmin = await signIn(service, 'admin@people.test')
    const ada = findUserByEmail(app.db, 'ada@people.test')
    const idOf = (user: { uuid: Uint8Array } | undefined) => formatUuid(user?.uuid ?? new Uint8Array())
    const asKey = (method: string, path: string, body?: unknown) => api(method, path, body)
    for (const ask of [asAdmin.ask, asKey]) {
      for (const [method, path, body] of [
        ['POST', '/v1/team/invitations', { email: BOB, role: 'owner' }],
        ['PATCH', `/v1/team/members/${idOf(admin)}`, { role: 'owner' }],
        ['PATCH', `/v1/team/members/${idOf(ada)}`, { role: 'viewer' }],
        ['DELETE', `/v1/team/members/${idOf(ada)}`, undefined],
      ] as const)
        expectError(await ask(method, path, body), 403, 'insufficient_role')
    }
    expect((await owner.ask('PATCH', `/v1/team/members/${idOf(admin)}`, { role: 'owner' })).status).toBe(200)
    expect(listOwnerEmails(app.db, actor.accountId)).toEqual(['ada@people.test', 'admin@people.test'])
  })

  // Proves: user-13
  test('never run out: the last one can neither leave nor get another role', async () => {
    await using service = await createService()
    const { owner, app, actor } = service
    const ada = formatUuid(findUserByEmail(app.db, 'ada@people.test')?.uuid ?? new Uint8Array())
    expectError(await owner.ask('PATCH', `/v1/team/members/${ada}`, { role: 'admin' }), 409, 'last_owner')
    expectError(await owner.ask('DELETE', `/v1/team/members/${ada}`), 409, 'last_owner')
    const { user: second } = await createTestUser(app, actor, BOB, 'owner')
    const bob = await signIn(service, BOB)
    const both = await Promise.all([
      owner.ask('PATCH', `/v1/team/members/${formatUuid(second.uuid)}`, { role: 'viewer' }),
      bob.ask('PATCH', `/v1/team/members/${ada}`, { role: 'viewer' }),
    ])
    // The second one gets an error: no longer an owner, or the last one left.
    const [first, refusal] = both.map(({ status }) => status).toSorted()
    expect([first, [403, 409].includes(refusal ?? 0)]).toEqual([200, true])
    expect(listOwnerEmails(app.db, actor.accountId)).toHaveLength(1)
  })
})

describe('a member', () => {
  // Proves: user-13
  test('gets the rights of another role at the next request', async () => {
    await using service = await createService()
    const { user } = await createTestUser(service.app, service.actor, BOB, 'viewer')
    const bob = await signIn(service, BOB)
    const make = () => bob.ask('POST', '/v1/domains', { domain: 'new.test' })
    expectError(await make(), 403, 'insufficient_role')
    const path = `/v1/team/members/${formatUuid(user.uuid)}`
    expect(at((await service.owner.ask('PATCH', path, { role: 'developer' })).body, 'data', 'role')).toBe('developer')
    expect((await make()).status).toBe(201)
  })

  // Proves: user-13
  test('loses access immediately when removed, with their invitations; a user without another team is deleted', async () => {
    await using service = await createService()
    const { app, actor, owner } = service
    const { user } = await createTestUser(app, actor, BOB, 'admin')
    const bob = await signIn(service, BOB)
    await bob.ask('POST', '/v1/team/invitations', { email: 'friend@people.test', role: 'admin' })
    expect((await owner.ask('DELETE', `/v1/team/members/${formatUuid(user.uuid)}`)).status).toBe(204)
    expect((await bob.ask('GET', '/v1/account')).status).toBe(401)
    expect(listInvitations(app.db, actor.accountId, service.clock.now())).toEqual([])
    expect(findUserByEmail(app.db, BOB)).toBeUndefined()
  })

  test('who belongs to another account as well stays a user, signed in there', async () => {
    await using service = await createService()
    const { app, actor, owner } = service
    const { user } = await createTestUser(app, await otherAccount(service), BOB, 'owner')
    const there = await signIn(service, BOB)
    app.db.run("INSERT INTO members (account_id, user_id, role, created_at) VALUES (?, ?, 'viewer', 1)", [
      actor.accountId,
      user.id,
    ])
    await owner.ask('DELETE', `/v1/team/members/${formatUuid(user.uuid)}`)
    expect((await there.ask('GET', '/v1/account')).status).toBe(200)
  })
})

test('the team of an account is deleted with it, except for users who belong to another account', async () => {
  await using service = await createService()
  const { app, actor } = service
  const other = await otherAccount(service)
  const { user } = await createTestUser(app, other, BOB, 'owner')
  app.db.run("INSERT INTO members (account_id, user_id, role, created_at) VALUES (?, ?, 'viewer', 1)", [
    actor.accountId,
    user.id,
  ])
  await service.owner.ask('POST', '/v1/team/invitations', { email: 'eve@people.test', role: 'viewer' })
  await app.commit.write((tx) => removeTeam(tx, actor.accountId))
  const left = (table: string) => app.db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM ${table}`).get()?.n
  expect([left('users'), left('members'), left('sessions'), left('invitations')]).toEqual([1, 1, 0, 0])
  expect(listMembers(app.db, other.accountId).map(({ email }) => email)).toEqual([BOB])
})
