import { describe, expect, setDefaultTimeout, spyOn, test } from 'bun:test'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { removeUser, signUserOut } from '#features/people/team/operator-routes.ts'
import { hashPassword } from '#features/people/team/passwords.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { ask, createTestUser, PASSWORD, post, postForm, signIn } from '#test/support/users.ts'

// Dozens of hashes, one after the other, take long on a busy machine.
setDefaultTimeout(120_000)

const ADA = 'ada@people.test'

interface Service extends TestApi {
  readonly clock: ManualClock
}

async function createService(options: TestAppOptions = {}): Promise<Service> {
  const clock = new ManualClock()
  const service = await createTestApi({ clock, ...options })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return { ...service, clock }
}

/** Compares passwords without hashes, which take most of the time of a test that counts attempts. */
const skipHashes = () => spyOn(Bun.password, 'verify').mockImplementation(async (password) => password === PASSWORD)

const actions = ({ app }: TestApi): string[] =>
  app.db
    .query<{ action: string }, []>("SELECT action FROM audit_logs WHERE action NOT LIKE 'a%' ORDER BY id")
    .all()
    .map(({ action }) => action)

describe('signing in', () => {
  // Proves: user-1
  test('returns the signed-in user and sets a cookie that scripts and other sites do not get', async () => {
    await using service = await createService()
    const answer = await post(service.url, '/v1/auth/login', { email: ' ADA@people.test', password: PASSWORD })
    const account = { id: service.actor.accountUuid, name: 'Test', role: 'owner' }
    expect({ status: answer.status, body: answer.body, cookie: answer.headers.get('set-cookie') }).toEqual({
      status: 200,
      body: {
        data: {
          user: {
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            email: ADA,
            name: 'ada',
            totp_enabled: false,
            is_operator: false,
            recovery_codes_left: 0,
            has_password: true,
            passkeys: 0,
            last_login_at: null,
            created_at: '2026-01-01T00:00:00.000Z',
          },
          account,
          role: 'owner',
          accounts: [account],
          captures_mail: false,
          sign_on_name: null,
          local_sign_in: true,
          csrf_token: expect.stringMatching(/^[\w-]{43}$/),
        },
      },
      cookie: expect.stringMatching(/^tassis_session=[\w-]{43}; Path=\/; Max-Age=1209600; HttpOnly; SameSite=Lax$/),
    })
    expect(actions(service)).toEqual(['user.created', 'member.added', 'session.created'])
  })

  // Proves: user-1
  test('sets a cookie over https that is Secure and limited to this host', async () => {
    await using service = await createService({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } })
    const session = await signIn(service, ADA)
    expect(session.setCookie).toMatch(
      /^__Host-tassis_session=[\w-]{43}; Path=\/; Max-Age=1209600; HttpOnly; SameSite=Lax; Secure$/,
    )
    expect((await session.ask('GET', '/v1/account')).status).toBe(200)
    const plain = { cookie: session.cookie.replace('__Host-', '') }
    expect((await ask(service.url, 'GET', '/v1/account', undefined, plain)).status).toBe(401)
  })

  // Proves: user-2
  test('is a 431 with a reason for a Cookie header that is too long, before any other check', async () => {
    await using service = await createService()
    const { url } = service
    for (const path of ['/v1/account', '/login']) {
      const answer = await ask(url, 'GET', path, undefined, { cookie: `a${'\t'.repeat(12_000)}x` })
      expect([path, answer.status]).toEqual([path, 431])
      expect(JSON.stringify(answer.body)).toContain('The Cookie header must have at most 8192 characters')
    }
    expect((await ask(url, 'GET', '/healthz', undefined, { cookie: 'x'.repeat(12_000) })).status).toBe(200)
  })

  // Proves: user-1
  test('gives the same response whatever is wrong or missing', async () => {
    await using service = await createService({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
    const { app, actor } = service
    const stranger = toOperatorActor(
      await createAccount(app, { name: 'Gone', email: 'x@people.test', plan: 'unlimited' }),
    )
    await createTestUser(app, stranger, 'bob@people.test', 'owner')
    app.db.run('UPDATE accounts SET disabled_at = 1 WHERE id = ?', [stranger.accountId])
    const eve = await createTestUser(app, actor, 'eve@people.test', 'viewer')
    app.db.run('UPDATE users SET password_hash = NULL WHERE id = ?', [eve.user.id])
    const cases = {
      'unknown user': { email: 'nobody@people.test', password: PASSWORD },
      'no address': { email: 'nobody', password: PASSWORD },
      'wrong password': { email: ADA, password: `${PASSWORD}x` },
      'empty password': { email: ADA, password: '' },
      'no account any more': { email: 'bob@people.test', password: PASSWORD },
      'no password yet': { email: 'eve@people.test', password: PASSWORD },
    }
    const answers = await Promise.all(
      Object.values(cases).map(async (body) => {
        const { status, body: answer, headers } = await post(service.url, '/v1/auth/login', body)
        return { status, body: { ...Object(answer), request_id: '' }, cookie: headers.get('set-cookie') }
      }),
    )
    const [first] = answers
    expect(first).toMatchObject({ status: 401, body: { code: 'invalid_login' }, cookie: null })
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
  })

  // Proves: user-1
  test('takes the time of a hash whether or not the user exists', async () => {
    await using service = await createService()
    service.app.db.run('UPDATE users SET password_hash = ?', [await hashPassword(PASSWORD, 'test')])
    using verify = spyOn(Bun.password, 'verify')
    for (const email of [ADA, 'nobody@people.test'])
      expect((await post(service.url, '/v1/auth/login', { email, password: 'wrong' })).status).toBe(401)
    // A PHC string begins with the algorithm and its costs: memory, passes, lanes.
    const costs = verify.mock.calls.map(([, hash]) => String(hash).split('$').slice(1, 4))
    expect(costs).toEqual(Array(2).fill(['argon2id', 'v=19', 'm=19456,t=2,p=1']))
  })

  test("writes a wrong password to the account's audit log once a minute, and an unknown user nowhere", async () => {
    await using service = await createService({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
    const wrong = (email: string) => post(service.url, '/v1/auth/login', { email, password: 'wrong' })
    for (const email of [ADA, ADA, 'nobody@people.test']) await wrong(email)
    await eventually(() => actions(service).includes('user.login_failed'))
    service.clock.advance(minutes(1) + 1)
    await wrong(ADA)
    await eventually(() => actions(service).length === 4)
    expect(actions(service)).toEqual(['user.created', 'member.added', 'user.login_failed', 'user.login_failed'])
  })

  // Proves: user-3
  test('accepts JSON from our own pages and from programs, nothing from elsewhere', async () => {
    await using service = await createService()
    const { url } = service
    const body = { email: ADA, password: PASSWORD }
    for (const headers of [
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { origin: url.replace('http://', 'http://evil.') },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ])
      expectError(await post(url, '/v1/auth/login', body, headers), 403, 'csrf_failed')
    const form = await fetch(`${url}/v1/auth/login`, { method: 'POST', body: new URLSearchParams(body) })
    expect([form.status, form.headers.get('set-cookie')]).toEqual([415, null])
    const own = { origin: url, 'sec-fetch-site': 'same-origin' }
    expect((await post(url, '/v1/auth/login', body, own)).status).toBe(200)
  })

  // Proves: user-3
  test('starts a new session and ends the previous one', async () => {
    await using service = await createService()
    const before = await signIn(service, ADA)
    const body = { email: ADA, password: PASSWORD }
    const again = await post(service.url, '/v1/auth/login', body, { cookie: before.cookie })
    const planted = `tassis_session=${'A'.repeat(43)}`
    const other = await post(service.url, '/v1/auth/login', body, { cookie: planted })
    const cookies = [again, other].map(({ headers }) => headers.get('set-cookie')?.split(';')[0])
    expect(new Set([before.cookie, planted, ...cookies]).size).toBe(4)
    expect((await before.ask('GET', '/v1/account')).status).toBe(401)
    expect((await ask(service.url, 'GET', '/v1/account', undefined, { cookie: planted })).status).toBe(401)
  })
})

describe('rate limits', () => {
  // Proves: user-1
  test('one network may try as often as the setting says, an IPv6 /64 counting as one', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    const from = (ip: string, email: string) =>
      post(service.url, '/v1/auth/login', { email, password: PASSWORD }, { 'x-forwarded-for': ip })
    for (let i = 0; i < 10; i++) expect((await from(`2001:db8::${i + 1}`, `no${i}@people.test`)).status).toBe(401)
    expectError(await from('2001:db8::ffff', ADA), 429, 'rate_limited')
    expect((await from('2001:db8:0:1::1', ADA)).status).toBe(200)
    service.clock.advance(minutes(1))
    expect((await from('2001:db8::ffff', 'no@people.test')).status).toBe(401)
  })

  /** Tries a password for a user from an address. */
  const tryFrom = ({ url }: Service, ip: string, email: string, password: string) =>
    post(url, '/v1/auth/login', { email, password }, { 'x-forwarded-for': ip })

  // Proves: user-1
  test('one user, known or not, can be tried half as often from one network, an IPv6 /48 counting as one', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    for (const email of [ADA, 'nobody@people.test']) {
      const statuses: number[] = []
      for (let i = 1; i <= 7; i++) statuses.push((await tryFrom(service, `2001:db8:0:${i}::1`, email, 'wrong')).status)
      expect([email, statuses]).toEqual([email, [...Array(5).fill(401), 429, 429]])
    }
  })

  // Proves: user-1
  test('a remote client who uses up its limits keeps the user neither from signing in elsewhere nor from requesting a new password', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    const statuses = new Set<number>()
    for (let second = 0; second < 600; second += 5) {
      statuses.add((await tryFrom(service, '192.0.2.66', ADA, 'wrong')).status)
      service.clock.advance(5000)
    }
    expect(statuses).toEqual(new Set([401, 429]))
    expect((await tryFrom(service, '192.0.2.1', ADA, PASSWORD)).status).toBe(200)
    const asked = await postForm(service.url, '/reset-password', { email: ADA }, { 'x-forwarded-for': '192.0.2.2' })
    expect(asked.status).toBe(202)
  })

  // Proves: user-1
  test('one user, known or not, can be tried fifty times from all networks together; from a known network the user still gets in', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    expect((await tryFrom(service, '192.0.2.200', ADA, PASSWORD)).status).toBe(200)
    for (const email of [ADA, 'nobody@people.test']) {
      const statuses: number[] = []
      for (let i = 1; i <= 52; i++) statuses.push((await tryFrom(service, `192.0.2.${i}`, email, 'wrong')).status)
      const taken = email === ADA ? 49 : 50
      expect([email, statuses]).toEqual([email, [...Array(taken).fill(401), ...Array(52 - taken).fill(429)]])
    }
    expect((await tryFrom(service, '192.0.2.200', ADA, PASSWORD)).status).toBe(200)
  })

  // Proves: user-1
  test('one IPv6 /56 may try four times as often as a /64, a /48 sixteen times, and no other network is slowed by that', async () => {
    using _ = skipHashes()
    await using service = await createService({
      settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1', TASSIS_LOGINS_PER_MINUTE: '2' },
    })
    let n = 0
    const accepted = async (networks: readonly string[]): Promise<number> => {
      const statuses: number[] = []
      for (const network of networks)
        statuses.push((await tryFrom(service, `${network}::1`, `no${n++}@people.test`, 'wrong')).status)
      expect(statuses.filter((status) => status !== 401 && status !== 429)).toEqual([])
      return statuses.filter((status) => status === 401).length
    }
    const within = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, i) => `${prefix}${i.toString(16).padStart(2, '0')}`)
    expect(await accepted(Array(4).fill('2001:db8:0:aa00'))).toBe(2)
    expect(await accepted(within('2001:db8:0:aa', 20))).toBe(6)
    // The rejected attempts did not count against the limit of the /48.
    expect(await accepted(['bb', 'cc', 'dd', 'ee'].flatMap((part) => within(`2001:db8:0:${part}`, 10)))).toBe(24)
    expect(await accepted(['2001:db8:1:aa00'])).toBe(1)
    service.clock.advance(minutes(1))
    expect(await accepted(within('2001:db8:0:aa', 20))).toBe(8)
  })

  /** Limits so high that only the hash queue delays attempts. */
  const UNLIMITED = { TASSIS_TRUSTED_PROXIES: '127.0.0.1', TASSIS_LOGINS_PER_MINUTE: '100000' }

  /** Makes `count` attempts at the same time; some are rejected because the queue is full. */
  async function fillQueue(service: Service, count: number, address: (i: number) => string) {
    let isFull = false
    const attempts = Array.from({ length: count }, async (_, i) => {
      const { status } = await tryFrom(service, address(i), `no${i}@people.test`, 'wrong')
      isFull ||= status === 503
      return status
    })
    await eventually(() => isFull)
    return Promise.all(attempts)
  }

  // Proves: user-1
  test('many concurrent attempts from one IPv6 /56 keep no one elsewhere from signing in', async () => {
    await using service = await createService({ settings: UNLIMITED })
    const attack = fillQueue(service, 400, (i) => `2001:db8:0:aa${(i & 255).toString(16).padStart(2, '0')}::1`)
    await eventually(
      async () => (await tryFrom(service, '2001:db8:0:aaff::2', 'no@people.test', 'wrong')).status === 503,
    )
    expect((await tryFrom(service, '192.0.2.1', ADA, PASSWORD)).status).toBe(200)
    expect(new Set(await attack)).toEqual(new Set([401, 503]))
  })

  // Proves: user-1
  test('attempts from very many networks keep no user from signing in from a known network', async () => {
    await using service = await createService({ settings: UNLIMITED })
    const before = await tryFrom(service, '2001:db8:0:1::1', ADA, PASSWORD)
    const cookie = before.headers.get('set-cookie')?.split(';')[0] ?? ''
    const csrf = String(at(before.body, 'data', 'csrf_token'))
    await post(service.url, '/v1/auth/logout', undefined, { cookie, 'x-csrf-token': csrf })
    const attack = fillQueue(service, 400, (i) => `10.0.${i >> 8}.${i & 255}`)
    await eventually(async () => (await tryFrom(service, '192.0.2.1', ADA, PASSWORD)).status === 503)
    // Another address of the same /64.
    expect((await tryFrom(service, '2001:db8:0:1::2', ADA, PASSWORD)).status).toBe(200)
    expect(new Set(await attack)).toEqual(new Set([401, 503]))
  })

  // Proves: user-1
  test('a user signs in from a known network, within 90 days, even when others there have used up the limits', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    const { app, clock } = service
    const signInAndOut = async () => {
      const answer = await tryFrom(service, '192.0.2.7', ADA, PASSWORD)
      await signUserOut(app, ADA)
      return answer.status
    }
    const useUp = async () => {
      const statuses: number[] = []
      for (let i = 0; i < 11; i++)
        statuses.push((await tryFrom(service, '192.0.2.7', `no${i}@people.test`, 'x')).status)
      expect(statuses.at(-1)).toBe(429)
    }
    expect(await signInAndOut()).toBe(200)
    clock.advance(days(89))
    await purgeExpired(app)
    await useUp()
    expect(await signInAndOut()).toBe(200)
    clock.advance(days(90))
    await useUp()
    expect(await signInAndOut()).toBe(429)
    await purgeExpired(app)
    expect(app.db.query('SELECT * FROM known_networks').all()).toEqual([])
  })

  test('networks of a user who leaves the last team are deleted; the fifty seen last of each user are kept', async () => {
    await using service = await createService({ settings: UNLIMITED })
    const { app, actor, clock } = service
    for (let i = 0; i < 52; i++) {
      clock.advance(1)
      expect((await tryFrom(service, `192.0.2.${i}`, ADA, PASSWORD)).status).toBe(200)
    }
    const networks = () => app.db.query<{ network: string }, []>('SELECT network FROM known_networks').all()
    expect(networks()).toHaveLength(50)
    expect(networks()).not.toContainEqual({ network: '192.0.2.1' })
    await removeUser(app, actor, ADA)
    expect(networks()).toEqual([])
  })

  // Proves: user-1
  test('after five failures each further attempt has to wait longer, up to a minute', async () => {
    using _ = skipHashes()
    await using service = await createService({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
    const { url, clock } = service
    const body = { email: 'nobody@people.test', password: 'wrong' }
    const waits: number[] = []
    for (let i = 0; i < 13; i++) {
      expect((await post(url, '/v1/auth/login', body)).status).toBe(401)
      const next = await post(url, '/v1/auth/login', body)
      if (next.status === 401) continue
      expectError(next, 429, 'rate_limited')
      const wait = Number(next.headers.get('retry-after'))
      waits.push(wait)
      clock.advance(wait * 1000)
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60])
  })

  // Proves: user-1
  test('1,000 concurrent sign-ins all get a response, and other requests are served meanwhile', async () => {
    await using service = await createService({
      settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1', TASSIS_LOGINS_PER_MINUTE: '1000' },
    })
    const released = Promise.withResolvers<void>()
    const { verify } = Bun.password
    using _ = spyOn(Bun.password, 'verify').mockImplementation(async (password, hash) => {
      await released.promise
      return verify(password, hash)
    })
    const counts = { 401: 0, 503: 0 }
    const logins = Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        const { status } = await post(
          service.url,
          '/v1/auth/login',
          { email: `no${i}@people.test`, password: PASSWORD },
          { 'x-forwarded-for': `10.0.${i >> 8}.${i & 255}` },
        )
        if (status === 401 || status === 503) counts[status]++
        return status
      }),
    )
    await eventually(() => counts[503] > 900)
    // No hash has ended, and others do not wait for one.
    expect([(await fetch(`${service.url}/healthz`)).status, counts[401]]).toEqual([200, 0])
    released.resolve()
    expect(new Set(await logins)).toEqual(new Set([401, 503]))
    expect(counts[401]).toBeGreaterThanOrEqual(40)
  })
})

describe('a session', () => {
  // Proves: auth-52
  test('authenticates its user as API keys do; a key in a header takes precedence', async () => {
    await using service = await createService()
    const { url } = service
    const session = await signIn(service, ADA)
    expect((await session.ask('PATCH', '/v1/account', { name: 'Ours' })).status).toBe(200)
    const wrongKey = { cookie: session.cookie, authorization: 'Bearer wrong' }
    expectError(await ask(url, 'GET', '/v1/account', undefined, wrongKey), 401, 'invalid_api_key')
    const other = await service.newAccount()
    const key = await service.newKey([], other)
    const both = await ask(url, 'GET', '/v1/account', undefined, { cookie: session.cookie, 'x-service-api-key': key })
    expect(at(both.body, 'data', 'id')).toBe(other.accountUuid)
    const { db } = service.app
    const row = db
      .query<{ type: string; id: string; ip: string }, []>(
        "SELECT actor_type AS type, actor_id AS id, ip_address AS ip FROM audit_logs WHERE action = 'account.updated'",
      )
      .get()
    const me = await session.ask('GET', '/v1/auth/session')
    expect(row).toEqual({ type: 'user', id: String(at(me.body, 'data', 'user', 'id')), ip: '127.0.0.1' })
  })

  // Proves: user-4
  test("changes nothing without its token, with the token of another session, or from another site's page", async () => {
    await using service = await createService()
    const { url } = service
    const session = await signIn(service, ADA)
    const other = await signIn(service, ADA)
    const { cookie, csrfToken } = session
    const change = (headers: Record<string, string>) =>
      ask(url, 'PATCH', '/v1/account', { name: 'Theirs' }, { cookie, ...headers })
    for (const headers of [
      {},
      { 'x-csrf-token': '' },
      { 'x-csrf-token': `${csrfToken}x` },
      { 'x-csrf-token': other.csrfToken },
      { 'x-csrf-token': csrfToken, origin: 'https://evil.test' },
      { 'x-csrf-token': csrfToken, origin: 'null' },
      { 'x-csrf-token': csrfToken, 'sec-fetch-site': 'cross-site' },
    ])
      expectError(await change(headers as Record<string, string>), 403, 'csrf_failed')
    expect((await change({ 'x-csrf-token': csrfToken, origin: url, 'sec-fetch-site': 'same-origin' })).status).toBe(200)
  })

  // Proves: user-4
  test('also requires the token for a GET that changes something', async () => {
    await using service = await createService()
    const session = await signIn(service, ADA)
    const path = '/v1/agent-mailboxes/01234567-89ab-7def-8123-456789abcdef/messages/next'
    expectError(await session.ask('GET', path), 403, 'csrf_failed')
    expect((await ask(service.url, 'GET', path, undefined, session.headers)).status).toBe(404)
  })

  // Proves: user-5
  test('lasts as long as it is used, and its use is stored once an hour', async () => {
    await using service = await createService()
    const { app, clock } = service
    const session = await signIn(service, ADA)
    const seen = () =>
      app.db
        .query<{ seen: number; expires: number }, []>(
          'SELECT last_seen_at AS seen, expires_at AS expires FROM sessions',
        )
        .get()
    const start = clock.now()
    clock.advance(minutes(59))
    await session.ask('GET', '/v1/account')
    await app.commit.barrier()
    expect(seen()).toEqual({ seen: start, expires: start + days(14) })
    clock.advance(days(13))
    await session.ask('GET', '/v1/account')
    await app.commit.barrier()
    expect(seen()).toEqual({ seen: clock.now(), expires: clock.now() + days(14) })
    clock.advance(days(13) + hours(23))
    expect((await session.ask('GET', '/v1/account')).status).toBe(200)
    await app.commit.barrier()
    clock.advance(days(14))
    expect((await session.ask('GET', '/v1/account')).status).toBe(401)
  })

  // Proves: user-5
  test("is listed, and invalid immediately once ended; another user's session is a 404", async () => {
    await using service = await createService()
    await createTestUser(service.app, service.actor, 'bob@people.test', 'viewer')
    const bob = await signIn(service, 'bob@people.test')
    const [mine, other] = [await signIn(service, ADA), await signIn(service, ADA)]
    const listed = await mine.ask('GET', '/v1/auth/sessions')
    const rows = at(listed.body, 'data') as { id: string; is_current: boolean }[]
    expect(rows.map(({ is_current }) => is_current)).toEqual([false, true])
    expect(rows[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      is_current: false,
      ip_address: '127.0.0.1',
      user_agent: expect.stringContaining('Bun'),
      last_seen_at: '2026-01-01T00:00:00.000Z',
      expires_at: '2026-01-15T00:00:00.000Z',
      created_at: '2026-01-01T00:00:00.000Z',
    } as never)
    const path = `/v1/auth/sessions/${rows[0]?.id}`
    expectError(await bob.ask('DELETE', path), 404, 'session_not_found')
    expect((await mine.ask('DELETE', path)).status).toBe(204)
    expect((await other.ask('GET', '/v1/account')).status).toBe(401)
    expect((await mine.ask('GET', '/v1/account')).status).toBe(200)
    const out = await mine.ask('POST', '/v1/auth/logout')
    expect([out.status, out.headers.get('set-cookie')]).toEqual([
      204,
      'tassis_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax',
    ])
    expect((await mine.ask('GET', '/v1/account')).status).toBe(401)
  })

  // Proves: user-5
  test('stays when its user ends all others; those of other users stay too', async () => {
    await using service = await createService()
    await createTestUser(service.app, service.actor, 'bob@people.test', 'viewer')
    const bob = await signIn(service, 'bob@people.test')
    const [mine, other, third] = [await signIn(service, ADA), await signIn(service, ADA), await signIn(service, ADA)]
    const ended = await mine.ask('DELETE', '/v1/auth/sessions')
    expect([ended.status, ended.body]).toEqual([200, { data: { ended: 2 } }])
    const statuses = [mine, other, third, bob].map(async ({ ask }) => (await ask('GET', '/v1/account')).status)
    expect(await Promise.all(statuses)).toEqual([200, 401, 401, 200])
    expect((await mine.ask('DELETE', '/v1/auth/sessions')).body).toEqual({ data: { ended: 0 } })
    const audited = service.app.db.query("SELECT id FROM audit_logs WHERE action = 'user.signed_out_elsewhere'").all()
    expect(audited).toHaveLength(1)
  })

  // Proves: user-5
  test.each(['disabled_at', 'deleted_at'])('is invalid immediately when %s of the account is set', async (column) => {
    await using service = await createService()
    const session = await signIn(service, ADA)
    service.app.db.run(`UPDATE accounts SET ${column} = 1`)
    expect((await session.ask('GET', '/v1/account')).status).toBe(401)
    expect((await post(service.url, '/v1/auth/login', { email: ADA, password: PASSWORD })).status).toBe(401)
  })

  // Proves: user-5
  test('ends the event streams that were opened with it', async () => {
    await using service = await createService()
    const session = await signIn(service, ADA)
    const stream = await fetch(`${service.url}/v1/events`, {
      headers: { cookie: session.cookie, accept: 'text/event-stream' },
    })
    expect(stream.status).toBe(200)
    await session.ask('POST', '/v1/auth/logout')
    expect(await stream.text()).not.toContain('data:')
  })

  // Proves: user-6
  test('switches to another account of the user, and to no other account', async () => {
    await using service = await createService()
    const { app, actor } = service
    const second = toOperatorActor(
      await createAccount(app, { name: 'Second', email: 'x@people.test', plan: 'unlimited' }),
    )
    const foreign = await service.newAccount()
    const { user } = await createTestUser(app, second, 'bob@people.test', 'developer')
    app.db.run("INSERT INTO members (account_id, user_id, role, created_at) VALUES (?, ?, 'viewer', 1)", [
      actor.accountId,
      user.id,
    ])
    const session = await signIn(service, 'bob@people.test')
    const accountOf = async () => at((await session.ask('GET', '/v1/account')).body, 'data', 'id')
    expect(await accountOf()).toBe(actor.accountUuid)
    for (const account_id of [foreign.accountUuid, 'x'])
      expectError(await session.ask('PUT', '/v1/auth/session', { account_id }), 404, 'account_not_found')
    const moved = await session.ask('PUT', '/v1/auth/session', { account_id: second.accountUuid })
    expect(at(moved.body, 'data', 'account')).toEqual({ id: second.accountUuid, name: 'Second', role: 'developer' })
    expect(at(moved.body, 'data', 'accounts')).toHaveLength(2)
    expect(await accountOf()).toBe(second.accountUuid)
  })
})
