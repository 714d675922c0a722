/** @module Signing in by an identity provider: who is let in as whom, and with which role. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import {
  CLIENT_ID,
  CLIENT_SECRET,
  createJar,
  type IdentityProvider,
  signOnBy,
  startIdentityProvider,
  startRealProvider,
} from '#test/support/identity-provider.ts'
import { setUpTotp, signInAsOperator } from '#test/support/operator.ts'
import { ask, createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

const ADA = {
  sub: 'ada-1',
  email: 'Ada@example.com',
  email_verified: true,
  name: 'Ada',
  groups: ['developer', 'viewer'],
}

const createService = (provider: IdentityProvider, settings: Record<string, string> = {}): Promise<EmailApi> =>
  createEmailApi({ settings: { ...provider.settings, ...settings } })

/** What the session of a browser says; undefined: it has none. */
async function readSession({ url }: EmailApi, { jar }: { jar: ReturnType<typeof createJar> }) {
  const { status, body } = await jar.get('/v1/auth/session')
  if (status !== 200) return undefined
  return {
    url,
    email: at(body, 'data', 'user', 'email'),
    role: at(body, 'data', 'role'),
    id: at(body, 'data', 'user', 'id'),
  }
}

const listActions = async ({ api }: EmailApi): Promise<unknown[]> =>
  (at((await api('GET', '/v1/audit-logs?per_page=100')).body, 'data') as object[]).map((entry) => at(entry, 'action'))

// Proves: user-21
test('a person of oidc-provider signs in with PKCE and a secret, and gets the highest role of the claim', async () => {
  await using real = await startRealProvider(
    { email: 'ada@example.com', email_verified: true, groups: ['viewer', 'admin'], name: 'Ada' },
    'http://127.0.0.1:8080/login/callback',
  )
  await using service = await createEmailApi({
    settings: {
      TASSIS_OIDC_ISSUER: real.issuer,
      TASSIS_OIDC_CLIENT_ID: CLIENT_ID,
      TASSIS_OIDC_CLIENT_SECRET: CLIENT_SECRET,
      TASSIS_OIDC_ROLE_CLAIM: 'groups',
    },
  })
  const jar = createJar(service.url)
  const begun = await jar.get('/login/single-sign-on?next=/app/emails')
  const query = await real.authorize(begun.headers.get('location') ?? '', 'ada')
  const ended = await jar.get(`/login/callback${query}`)
  expect([ended.status, ended.headers.get('location')]).toEqual([303, '/app/emails'])
  expect(await readSession(service, { jar })).toMatchObject({ email: 'ada@example.com', role: 'admin' })
  // The code, and what the browser carried, work once.
  expect((await jar.get(`/login/callback${query}`)).status).toBe(401)
})

// Proves: user-22
test('the subject is who somebody is: a changed address is taken over if it is free, and a recycled one opens nothing', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  provider.person = ADA
  const first = await readSession(service, await signOnBy(service, provider))
  provider.person = { ...ADA, email: 'ada.new@example.com' }
  const renamed = await readSession(service, await signOnBy(service, provider))
  await createTestUser(service.app, service.actor, 'taken@example.com', 'viewer')
  provider.person = { ...ADA, email: 'taken@example.com' }
  const kept = await readSession(service, await signOnBy(service, provider))
  expect([renamed, kept]).toEqual([
    { ...first, email: 'ada.new@example.com' },
    { ...first, email: 'ada.new@example.com' },
  ] as (typeof renamed)[])
  provider.person = { ...ADA, sub: 'ada-2', email: 'ada.new@example.com' }
  const recycled = await signOnBy(service, provider)
  expect([recycled.status, String(recycled.body)]).toEqual([
    403,
    expect.stringContaining('somebody else at Example ID'),
  ])
  expect(await readSession(service, recycled)).toBeUndefined()
})

test('the verified address finds a user at the first time, whose role of here stays; an unverified one finds nobody', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const { user } = await createTestUser(service.app, service.actor, 'ada@example.com', 'owner')
  for (const [email_verified, status] of [
    [false, 403],
    [undefined, 403],
    [true, 303],
    [false, 303],
  ] as const) {
    provider.person = { ...ADA, email_verified, groups: ['viewer'] }
    const ended = await signOnBy(service, provider)
    expect([email_verified, ended.status]).toEqual([email_verified, status])
    if (status === 303) expect(await readSession(service, ended)).toMatchObject({ role: 'owner' })
  }
  expect(user.email).toBe('ada@example.com')
  expect((await listActions(service)).filter((action) => String(action).startsWith('user.'))).toEqual([
    'user.identity_linked',
    'user.credentials_removed',
    'user.sign_on_refused',
    'user.created',
  ])
})

// Proves: user-22
test('roles follow the claim: raised, lowered and taken away at the next sign-in; one that an owner gave stays', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const owner = (await createTestUser(service.app, service.actor, 'olga@people.test', 'owner')).email
  const signOnAs = async (groups: unknown) => {
    provider.person = { ...ADA, groups }
    const ended = await signOnBy(service, provider)
    return (await readSession(service, ended))?.role ?? ended.status
  }
  expect([await signOnAs(['viewer']), await signOnAs('admin'), await signOnAs(['developer'])]).toEqual([
    'viewer',
    'admin',
    'developer',
  ])
  const refused = [await signOnAs([]), await signOnAs(['unknown']), await signOnAs({ admin: true })]
  expect([refused, await signOnAs(['viewer'])]).toEqual([[403, 403, 403], 'viewer'])
  const session = await signIn(service, owner)
  const team = (await session.ask('GET', '/v1/team')).body
  await session.ask('PATCH', `/v1/team/members/${at(team, 'data', 0, 'id')}`, { role: 'admin' })
  expect([await signOnAs(['viewer']), await signOnAs([])]).toEqual(['admin', 'admin'])
  expect(await listActions(service)).toEqual(
    expect.arrayContaining(['member.removed', 'member.role_changed', 'user.sign_on_refused']),
  )
})

test('rules give roles by group and by domain, in the account that they name; the only owner stays one', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider, {
    TASSIS_OIDC_ROLE_CLAIM: 'realm_access.roles',
    TASSIS_OIDC_ROLES: 'mail-admins=owner,@example.com=viewer',
  })
  const signOnAs = async (roles: readonly string[], email: string, more = {}) => {
    provider.person = { sub: email, email, email_verified: 'true', realm_access: { roles }, ...more }
    return (await readSession(service, await signOnBy(service, provider)))?.role
  }
  expect([
    await signOnAs(['mail-admins'], 'ada@example.com'),
    await signOnAs([], 'ben@example.com'),
    await signOnAs(['viewer'], 'eve@example.net'),
    await signOnAs([], 'eve@notexample.com'),
    await signOnAs([], 'ada@example.com'),
    // Without a word about the address, its domain says nothing.
    await signOnAs([], 'ben@example.com', { email_verified: false }),
  ]).toEqual(['owner', 'viewer', undefined, undefined, 'owner', undefined])
})

test('claims of the userinfo endpoint count, and an account is named where there are several', async () => {
  await using provider = startIdentityProvider()
  await using first = await createService(provider)
  const other = await first.newAccount()
  provider.person = { sub: 'ada-1' }
  provider.userinfo = ADA
  expect((await signOnBy(first, provider)).status).toBe(403)
  Object.assign(first.app.config, { oidcAccount: other.accountUuid })
  const session = await signOnBy(first, provider)
  expect(at((await session.jar.get('/v1/auth/session')).body, 'data', 'account', 'id')).toBe(other.accountUuid)
})

// Proves: user-22
test('a user who is found by address loses what somebody else may know; one who is signed in keeps it', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const email = 'ada@example.com'
  await createTestUser(service.app, service.actor, email, 'viewer')
  const waiting = await signIn(service, email)
  await setUpTotp(service, waiting)
  service.app.db.run(
    "INSERT INTO password_resets (user_id, token_hash, expires_at, created_at) SELECT id, x'00', 9e15, 1 FROM users",
  )
  provider.person = ADA
  const ended = await signOnBy(service, provider)
  const { body } = await ended.jar.get('/v1/auth/session')
  expect(at(body, 'data', 'user')).toMatchObject({ email, has_password: false, totp_enabled: false, passkeys: 0 })
  const login = await ask(service.url, 'POST', '/v1/auth/login', { email, password: PASSWORD })
  expect([(await waiting.ask('GET', '/v1/auth/session')).status, login.status]).toEqual([401, 401])
  expect(service.app.db.query('SELECT 1 FROM password_resets').all()).toEqual([])
  // An operator has to prove to be one; then nothing is lost.
  const operator = await signInAsOperator(service)
  provider.person = { ...ADA, sub: 'olga-1', email: 'olga@people.test' }
  const refused = await signOnBy(service, provider)
  expect([refused.status, String(refused.body)]).toEqual([403, expect.stringContaining('sign in as before')])
  const jar = createJar(service.url)
  jar.cookies.set(...(operator.cookie.split('=') as [string, string]))
  const linked = await signOnBy(service, provider, { jar })
  const user = at((await linked.jar.get('/v1/auth/session')).body, 'data', 'user')
  expect(user).toMatchObject({ email: 'olga@people.test', has_password: true, totp_enabled: true })
})

// Proves: user-22
test('while it is not known in which account a role is, nobody is signed in and nobody loses one', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const signOnIn = async (oidcAccount: string) => {
    Object.assign(service.app.config, { oidcAccount })
    const ended = await signOnBy(service, provider)
    return (
      (await readSession(service, ended))?.role ?? [ended.status, String(ended.body).includes('TASSIS_OIDC_ACCOUNT')]
    )
  }
  provider.person = ADA
  const refused = [403, true]
  // A sub-account is no other account.
  const part = await service.newAccount()
  service.app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [service.actor.accountId, part.accountId])
  expect([await signOnIn(''), await signOnIn(crypto.randomUUID()), await signOnIn('mistyped')]).toEqual([
    'developer',
    refused,
    refused,
  ])
  await service.newAccount()
  expect(await signOnIn('')).toEqual(refused)
  expect(await listActions(service)).not.toContain('member.removed')
  const log = (await service.api('GET', '/v1/audit-logs?action=user.sign_on_refused')).body
  expect(at(log, 'data', 0, 'metadata')).toEqual({ reason: 'account_unknown' })
  expect(await signOnIn(service.actor.accountUuid)).toBe('developer')
})

// Proves: user-22
test('a full team is skipped, and what was taken away elsewhere stays so; an invitation waits for room', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const other = await service.newAccount()
  Object.assign(service.app.config, {
    oidcAccount: service.actor.accountUuid,
    oidcRoles: [
      'full=viewer',
      `other=viewer@${other.accountUuid}`,
      `third=viewer@${(await service.newAccount()).accountUuid}`,
    ],
  })
  const signOnAs = async (groups: readonly string[], query = '') => {
    provider.person = { ...ADA, groups }
    const { jar } = await signOnBy(service, provider, { query })
    const { body } = await jar.get('/v1/auth/session')
    return (at(body, 'data', 'accounts') as object[]).map((account) => [at(account, 'id'), at(account, 'role')])
  }
  expect((await signOnAs(['other', 'third'])).length).toBe(2)
  await service.api('POST', '/v1/team/invitations', { email: ADA.email, role: 'developer' })
  const token = 'x'.repeat(43)
  service.app.db.run('UPDATE invitations SET token_hash = ?', [createHash('sha256').update(token).digest()])
  service.app.db.run(`WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500)
    INSERT INTO users (uuid, email, name, created_at) SELECT randomblob(16), n || '@full.test', '', 1 FROM n`)
  service.app.db.run(
    "INSERT INTO members (account_id, user_id, role, is_provided, created_at) SELECT ?, id, 'viewer', 0, 1 FROM users WHERE email LIKE '%@full.test'",
    [service.actor.accountId],
  )
  const inOther = [other.accountUuid, 'viewer']
  expect(await signOnAs(['full', 'other'], `?invitation=${token}`)).toEqual([inOther])
  service.app.db.run("DELETE FROM members WHERE user_id = (SELECT id FROM users WHERE email = '7@full.test')")
  // The role that the provider gives counts more than that of the invitation, and is its to take away.
  expect(await signOnAs(['full', 'other'], `?invitation=${token}`)).toEqual([
    [service.actor.accountUuid, 'viewer'],
    inOther,
  ])
  expect(await signOnAs(['other'])).toEqual([inOther])
})

// Proves: user-22
test('an address and the word that it is verified come from one source; xms_edov is such a word', async () => {
  await using provider = startIdentityProvider()
  await using service = await createService(provider)
  const { email, email_verified, ...ada } = ADA
  const signOnAs = async (sub: string, token: object, userinfo: object) => {
    provider.person = { ...ada, sub, ...token }
    provider.userinfo = { ...userinfo }
    const ended = await signOnBy(service, provider)
    return (await readSession(service, ended))?.email ?? ended.status
  }
  expect([
    await signOnAs('a', { email: 'boss@example.com' }, { email_verified }),
    await signOnAs('b', { email_verified }, { email: 'boss@example.com' }),
    await signOnAs('c', { email: 'c@example.com', email_verified, groups: [] }, { email, groups: ['viewer'] }),
    await signOnAs('d', { email: 'd@example.com', xms_edov: '1' }, { email, email_verified }),
  ]).toEqual([403, 403, 'c@example.com', 'd@example.com'])
})
