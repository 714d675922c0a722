import { describe, expect, spyOn, test } from 'bun:test'
import { Secret, TOTP } from 'otpauth'
import { purgeExpired } from '#features/lifecycle/retention/run.ts'
import { createUserResetLink } from '#features/people/team/operator-routes.ts'
import { MAX_WAITING_HASHES, requireStrongPassword, verifyPassword } from '#features/people/team/passwords.ts'
import { hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import {
  type BrowserSession,
  CAPTURE_OPTIONS,
  createTestUser,
  findToken,
  PASSWORD,
  post,
  postForm,
  readMailText,
  signIn,
} from '#test/support/users.ts'

const ADA = 'ada@people.test'
const OTHER = 'violin carpet thunder mug'
const MANY_LOGINS = { TASSIS_LOGINS_PER_MINUTE: '1000' }
/** Longer than the longest wait after wrong passwords. */
const WAIT_MS = minutes(2)

async function createService(options: TestAppOptions = {}): Promise<EmailApi> {
  const service = await createEmailApi({ settings: MANY_LOGINS, ...options })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return service
}

const login = ({ url }: EmailApi, given: object) =>
  post(url, '/v1/auth/login', { email: ADA, password: PASSWORD, ...given })

/** Actions of the audit log about the user, in order; asserts that none of them holds a secret. */
function auditedActions({ app }: EmailApi, ...secrets: string[]): string[] {
  const rows = app.db
    .query<{ action: string }, []>("SELECT * FROM audit_logs WHERE action LIKE 'user.%' ORDER BY id")
    .all()
  const text = JSON.stringify(app.db.query('SELECT * FROM audit_logs').all())
  for (const secret of secrets) expect(text).not.toContain(secret)
  return rows.map(({ action }) => action)
}

/** Client addresses in the entries of an action, or of those with its prefix. */
const listAuditAddresses = ({ app }: EmailApi, action: string) =>
  app.db
    .query<{ ip: string | null }, [string]>('SELECT ip_address AS ip FROM audit_logs WHERE action LIKE ? ORDER BY id')
    .all(action)
    .map(({ ip }) => ip)

describe('a password', () => {
  // Proves: user-7
  test("that is short, long, the user's address or well known is rejected with a hint", () => {
    const refused = [
      'short',
      'x'.repeat(201),
      'ADA.LOVELACE@people.test',
      'Ada.Lovelace',
      'password123',
      '1234567890',
      'aaaaaaaaaaaa',
    ]
    for (const password of refused)
      expect(() => requireStrongPassword(password, 'ada.lovelace@people.test')).toThrow(/characters|address|attackers/)
    for (const password of ['x'.repeat(10).replace(/xxxx/g, 'abcd'), PASSWORD, '密码密码马马虎虎天气好'])
      expect(() => requireStrongPassword(password, ADA)).not.toThrow()
  })

  test('is hashed a few at a time: requests beyond the queue get a 503', async () => {
    using _ = spyOn(Bun.password, 'verify').mockResolvedValue(false)
    const many = Array.from({ length: MAX_WAITING_HASHES + 10 }, (_, i) =>
      verifyPassword('x', undefined, { isKnown: false, owner: `192.0.2.${i}` }),
    )
    const outcomes = await Promise.allSettled(many)
    const refused = outcomes.filter(({ status }) => status === 'rejected')
    expect(refused.length).toBeGreaterThan(0)
    expect(refused.length).toBeLessThanOrEqual(9)
    for (const outcome of refused) expect(outcome).toMatchObject({ reason: { status: 503, code: 'busy' } })
  })

  // Proves: user-7
  test('can be changed by a user who knows it; all other sessions end', async () => {
    await using service = await createService()
    const [mine, other] = [await signIn(service, ADA), await signIn(service, ADA)]
    const change = (current_password: string, password: string) =>
      mine.ask('PUT', '/v1/auth/password', { current_password, password })
    expectError(await change('wrong', OTHER), 422, 'wrong_password', 'current_password')
    expectError(await change(PASSWORD, 'password123'), 422, 'weak_password', 'password')
    expect((await change(PASSWORD, OTHER)).status).toBe(204)
    expect((await mine.ask('GET', '/v1/account')).status).toBe(200)
    expect((await other.ask('GET', '/v1/account')).status).toBe(401)
    expect((await login(service, {})).status).toBe(401)
    expect((await login(service, { password: OTHER })).status).toBe(200)
    expect(auditedActions(service, PASSWORD, OTHER)).toContain('user.password_changed')
  })
})

describe('a link for a new password', () => {
  const ask = ({ url }: EmailApi, email: string) => postForm(url, '/reset-password', { email })
  const confirm = ({ url }: EmailApi, token: string, password = OTHER) =>
    postForm(url, '/reset-password', { token, password })

  // Proves: user-8, user-9
  test('is sent by mail through our own pipeline, only to users, and the response does not show whether the user exists', async () => {
    await using service = await createService({
      ...CAPTURE_OPTIONS,
      settings: { ...CAPTURE_OPTIONS.settings, ...MANY_LOGINS },
    })
    const answers = [await ask(service, 'nobody@people.test'), await ask(service, ADA.toUpperCase())]
    expect(new Set(answers.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1)
    expect(answers[0]?.status).toBe(202)
    const text = await readMailText(service, 1)
    expect(text).toContain(`To: ${ADA}`)
    const token = findToken(text)
    const session = await signIn(service, ADA)
    const done = await confirm(service, token)
    // The link signs no one in.
    expect([done.status, done.headers.get('set-cookie')]).toEqual([200, null])
    expect((await session.ask('GET', '/v1/account')).status).toBe(401)
    expect((await login(service, { password: OTHER })).status).toBe(200)
    expect((await confirm(service, token)).status).toBe(422)
    expect(service.app.db.query('SELECT id FROM emails').all()).toHaveLength(1)
    expect(auditedActions(service, token, OTHER)).toEqual([
      'user.created',
      'user.password_reset_requested',
      'user.password_reset',
    ])
    expect(listAuditAddresses(service, 'user.password_reset%')).toEqual(['127.0.0.1', '127.0.0.1'])
  })

  // Proves: user-9
  test('is valid for an hour, and invalid once another link has set the password', async () => {
    await using service = await createService()
    const link = async () => findToken(await createUserResetLink(service.app, ADA))
    const [first, second] = [await link(), await link()]
    expect([(await confirm(service, first)).status, (await confirm(service, second)).status]).toEqual([200, 422])
    await ask(service, ADA)
    const rows = () =>
      service.app.db.query<{ expires: number }, []>('SELECT expires_at AS expires FROM password_resets').all()
    await eventually(() => rows().length === 1)
    expect(rows()).toEqual([{ expires: service.clock.now() + hours(1) }])
    service.clock.advance(hours(1))
    await purgeExpired(service.app)
    expect(rows()).toEqual([])
  })

  // Proves: user-9
  test('that is used many times at the same time sets one password', async () => {
    await using service = await createService()
    const token = findToken(await createUserResetLink(service.app, ADA))
    const passwords = Array.from({ length: 8 }, (_, i) => `${OTHER} ${i}`)
    const statuses = (await Promise.all(passwords.map((password) => confirm(service, token, password)))).map(
      ({ status }) => status,
    )
    expect(statuses.toSorted()).toEqual([200, ...Array(7).fill(422)])
    const winner = passwords[statuses.indexOf(200)]
    expect((await login(service, { password: winner })).status).toBe(200)
  })

  // Proves: user-8
  test('is limited like sign-in attempts, and to five mails an hour to one address', async () => {
    await using service = await createService({ settings: { TASSIS_LOGINS_PER_MINUTE: '10' } })
    const statuses: number[] = []
    for (let i = 0; i < 11; i++) statuses.push((await ask(service, ADA)).status)
    expect(statuses).toEqual([...Array(10).fill(202), 429])
    await eventually(() => auditedActions(service).length === 6)
    await service.app.commit.barrier()
    expect(auditedActions(service).filter((action) => action === 'user.password_reset_requested')).toHaveLength(5)
  })
})

interface Factor extends AsyncDisposable {
  readonly service: EmailApi
  readonly session: BrowserSession
  readonly secret: string
  readonly recoveryCodes: readonly string[]
  /** The current code, or that of a step before or after it. */
  code(offsetSteps?: number): string
}

const codeAt = (secret: string, when: Millis): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: when })

/** A signed-in user with an authenticator app. The current code is unused. */
async function createFactor(options: TestAppOptions = {}): Promise<Factor> {
  const service = await createService(options)
  const session = await signIn(service, ADA)
  const begun = await session.ask('POST', '/v1/auth/totp', { password: PASSWORD })
  const secret = String(at(begun.body, 'data', 'secret'))
  const code = (offsetSteps = 0) => codeAt(secret, service.clock.now() + seconds(30 * offsetSteps))
  const confirmed = await session.ask('POST', '/v1/auth/totp/confirm', { code: code() })
  const recoveryCodes = at(confirmed.body, 'data', 'recovery_codes') as string[]
  service.clock.advance(WAIT_MS)
  return {
    service,
    session,
    secret,
    recoveryCodes,
    code,
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

describe('the second factor', () => {
  // Proves: user-10
  test('is set up with the password and confirmed with a code, which is not accepted again', async () => {
    await using service = await createService()
    const session = await signIn(service, ADA)
    expectError(await session.ask('POST', '/v1/auth/totp/confirm', { code: '123456' }), 409, 'totp_not_begun')
    expectError(await session.ask('POST', '/v1/auth/totp', { password: 'x' }), 422, 'wrong_password', 'password')
    const begun = await session.ask('POST', '/v1/auth/totp', { password: PASSWORD })
    expect(begun.body).toEqual({
      data: {
        secret: expect.stringMatching(/^[A-Z2-7]{32}$/),
        otpauth_uri: expect.stringMatching(/^otpauth:\/\/totp\/Tassis:ada%40people\.test\?.*secret=/),
      },
    })
    const secret = String(at(begun.body, 'data', 'secret'))
    // Not in use yet.
    expect((await login(service, {})).status).toBe(200)
    const [now, later] = [codeAt(secret, service.clock.now()), codeAt(secret, service.clock.now() + minutes(3))]
    expectError(await session.ask('POST', '/v1/auth/totp/confirm', { code: later }), 422, 'wrong_code', 'code')
    const confirmed = await session.ask('POST', '/v1/auth/totp/confirm', { code: now })
    const recoveryCodes = at(confirmed.body, 'data', 'recovery_codes') as string[]
    expect(recoveryCodes).toEqual(Array(10).fill(expect.stringMatching(/^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)))
    expect(new Set(recoveryCodes).size).toBe(10)
    expectError(await session.ask('POST', '/v1/auth/totp', { password: PASSWORD }), 409, 'totp_enabled')
    for (const given of [{}, { code: null }, { code: '' }, { code: now }])
      expectError(await login(service, given), 401, 'invalid_login')
  })

  // Proves: user-10
  test('accepts each code once, from at most one time step before or after, and none older than the last accepted one', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    for (const wrong of [() => code(3), () => code(-3), () => '000000x', () => '٠١٢٣٤٥']) {
      expectError(await login(service, { code: wrong() }), 401, 'invalid_login')
      service.clock.advance(WAIT_MS)
    }
    const spelled = ` ${code().slice(0, 3)} ${code().slice(3)}`
    const logins = await Promise.all(Array.from({ length: 6 }, () => login(service, { code: spelled })))
    expect(logins.map(({ status }) => status).toSorted()).toEqual([200, 401, 401, 401, 401, 401])
    service.clock.advance(WAIT_MS)
    expect((await login(service, { code: code(1) })).status).toBe(200)
    expect((await login(service, { code: code() })).status).toBe(401)
  })

  // Proves: user-10
  test('accepts each recovery code once, also when it is used many times at the same time', async () => {
    await using factor = await createFactor()
    const { service, session, recoveryCodes } = factor
    const [used = ''] = recoveryCodes
    const spelled = used.toUpperCase().replaceAll('-', ' ')
    const logins = await Promise.all(Array.from({ length: 5 }, () => login(service, { code: spelled })))
    expect(logins.map(({ status }) => status).toSorted()).toEqual([200, 401, 401, 401, 401])
    service.clock.advance(WAIT_MS)
    expect((await login(service, { code: used })).status).toBe(401)
    const me = await session.ask('GET', '/v1/auth/session')
    expect(at(me.body, 'data', 'user', 'recovery_codes_left')).toBe(9)
    expect(auditedActions(service, used).filter((action) => action === 'user.recovery_code_used')).toHaveLength(1)
    expect(listAuditAddresses(service, 'user.recovery_code_used')).toEqual(['127.0.0.1'])
  })

  test('cannot be guessed by someone with the password who tries codes from many networks; a new password ends the wait', async () => {
    await using factor = await createFactor({ settings: { ...MANY_LOGINS, TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
    const { service, code } = factor
    const from = (ip: string, given: object) =>
      post(service.url, '/v1/auth/login', { email: ADA, password: PASSWORD, ...given }, { 'x-forwarded-for': ip })
    for (let i = 1; i <= 10; i++) {
      expect((await from(`198.51.100.${i}`, { code: '000000' })).status).toBe(401)
      service.clock.advance(minutes(1))
    }
    // The eleventh code is wrong like those before it. The next one is right, but it is not checked.
    const wrong = await from('198.51.100.77', { code: '000000' })
    const right = await from('198.51.100.78', { code: code() })
    const answers = [wrong, right].map(({ status, body }) => ({ status, code: at(body, 'code') }))
    expect(answers).toEqual(Array(2).fill({ status: 401, code: 'invalid_login' }))
    expect((await from('127.0.0.1', { code: code() })).status).toBe(200)
    const token = findToken(await createUserResetLink(service.app, ADA))
    await postForm(service.url, '/reset-password', { token, password: OTHER })
    expect((await from('198.51.100.79', { password: OTHER, code: code(1) })).status).toBe(200)
  })

  // Proves: user-9
  test('stays in use when a link sets the password', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    const token = findToken(await createUserResetLink(service.app, ADA))
    expect((await postForm(service.url, '/reset-password', { token, password: OTHER })).status).toBe(200)
    expect((await login(service, { password: OTHER })).status).toBe(401)
    expect((await login(service, { password: OTHER, code: code() })).status).toBe(200)
  })

  // Proves: user-10
  test('is stored sealed, and its recovery codes hashed', async () => {
    await using factor = await createFactor()
    const { service, secret, recoveryCodes } = factor
    const stored = Buffer.from(service.app.db.serialize()).toString('latin1')
    expect(stored).toContain(ADA)
    const secrets = [
      secret,
      Buffer.from(Secret.fromBase32(secret).bytes).toString('latin1'),
      ...recoveryCodes,
      ...recoveryCodes.map((code) => code.replaceAll('-', '')),
    ]
    expect(secrets.filter((text) => stored.includes(text))).toEqual([])
  })

  // Proves: user-10
  test('gets new recovery codes with password and code; those before are invalid', async () => {
    await using factor = await createFactor()
    const { service, session, code, recoveryCodes } = factor
    const renew = (given: object) =>
      session.ask('POST', '/v1/auth/totp/recovery-codes', { password: PASSWORD, code: code(), ...given })
    expectError(await renew({ password: 'x' }), 422, 'wrong_password', 'password')
    expectError(await renew({ code: '000000' }), 422, 'wrong_code', 'code')
    service.clock.advance(WAIT_MS)
    const used = recoveryCodes[0]
    const renewed = at((await renew({ code: used })).body, 'data', 'recovery_codes') as string[]
    expect(renewed).toEqual(Array(10).fill(expect.stringMatching(/^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)))
    expect(renewed.filter((text) => recoveryCodes.includes(text))).toEqual([])
    for (const old of [used, recoveryCodes[1]]) expectError(await login(service, { code: old }), 401, 'invalid_login')
    service.clock.advance(WAIT_MS)
    expect((await login(service, { code: renewed[0] })).status).toBe(200)
    const actions = auditedActions(service, ...recoveryCodes, ...renewed)
    expect(actions.filter((name) => name === 'user.recovery_codes_renewed')).toHaveLength(1)
    await session.ask('DELETE', '/v1/auth/totp', { password: PASSWORD, code: renewed[1] })
    expectError(await renew({}), 409, 'totp_not_enabled')
  })

  // Proves: user-10
  test('can be disabled with password and code', async () => {
    await using factor = await createFactor()
    const { service, session, secret, code, recoveryCodes } = factor
    const off = (given: object) =>
      session.ask('DELETE', '/v1/auth/totp', { password: PASSWORD, code: code(), ...given })
    expectError(await off({ password: 'x' }), 422, 'wrong_password', 'password')
    expectError(await off({ code: '000000' }), 422, 'wrong_code', 'code')
    expect((await off({})).status).toBe(204)
    expectError(await off({}), 409, 'totp_not_enabled')
    expect((await login(service, {})).status).toBe(200)
    const actions = auditedActions(service, secret, ...recoveryCodes)
    for (const action of ['user.totp_enabled', 'user.totp_disabled'])
      expect(actions.filter((name) => name === action)).toHaveLength(1)
  })
})
