/** @module The two steps of the sign-in page: the code is asked for after a right password only. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Secret, TOTP } from 'otpauth'
import { createUserResetLink, disableUserTotp } from '#features/people/team/operator-routes.ts'
import { minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import {
  inspectOnScreens,
  isChromiumAvailable,
  NO_PROBLEMS,
  openPage,
  SCREENS,
  type Screen,
  startBrowser,
} from '#test/support/browser.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createTestUser, findToken, PASSWORD, postForm, signIn } from '#test/support/users.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const ADA = 'ada@people.test'
const BEN = 'ben@people.test'
const CODE_HEADING = '<h1>Enter your code</h1>'
const LOGIN_HEADING = '<h1>Sign in</h1>'

interface Factor extends AsyncDisposable {
  readonly service: EmailApi
  readonly recoveryCodes: readonly string[]
  /** The current code, which is unused. */
  code(): string
}

/** Ada, who has an authenticator app, and Ben, who has none. */
async function createFactor(options: TestAppOptions = {}): Promise<Factor> {
  const service = await createEmailApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' }, ...options })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  await createTestUser(service.app, service.actor, BEN, 'developer')
  const session = await signIn(service, ADA)
  const begun = await session.ask('POST', '/v1/auth/totp', { password: PASSWORD })
  const totp = new TOTP({ secret: Secret.fromBase32(String(at(begun.body, 'data', 'secret'))) })
  const code = () => totp.generate({ timestamp: service.clock.now() })
  const confirmed = await session.ask('POST', '/v1/auth/totp/confirm', { code: code() })
  service.clock.advance(minutes(2))
  service.app.db.run('DELETE FROM sessions')
  return {
    service,
    recoveryCodes: at(confirmed.body, 'data', 'recovery_codes') as string[],
    code,
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

interface Shown {
  readonly status: number
  readonly text: string
  readonly location: string | null
  /** Whether the response signs the browser in. */
  readonly signsIn: boolean
  /** The hidden field of the second step; empty elsewhere. */
  readonly proof: string
}

/** Posts the sign-in form as a browser does. */
async function send(
  { url }: Pick<EmailApi, 'url'>,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Shown> {
  const response = await postForm(url, '/login', fields, headers)
  const text = String(response.body)
  return {
    status: response.status,
    text,
    location: response.headers.get('location'),
    signsIn: response.headers.has('set-cookie'),
    proof: /name="proof" value="([^"]+)"/.exec(text)?.[1] ?? '',
  }
}

const withPassword = (service: EmailApi, fields: Record<string, string> = {}) =>
  send(service, { email: ADA, password: PASSWORD, ...fields })

const failures = ({ app }: EmailApi): number =>
  app.db.query("SELECT id FROM audit_logs WHERE action = 'user.login_failed'").all().length

describe('the sign-in page', () => {
  // Proves: user-18
  test('asks for a code only after the right password of a user with an authenticator app', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    expect(await (await fetch(`${service.url}/login`)).text()).not.toContain('name="code"')
    const asked = await withPassword(service, { next: '/app/webhooks' })
    expect([asked.status, asked.signsIn, asked.proof.length > 0]).toEqual([200, false, true])
    expect(asked.text).toContain(CODE_HEADING)
    expect(asked.text).not.toContain(PASSWORD)
    const done = await send(service, { proof: asked.proof, code: code(), next: '/app/webhooks' })
    expect([done.status, done.location, done.signsIn]).toEqual([303, '/app/webhooks', true])
    const direct = await send(service, { email: BEN, password: PASSWORD })
    expect([direct.status, direct.location, direct.signsIn]).toEqual([303, '/app', true])
  })

  // Proves: user-18
  test('answers a wrong password the same for every address, and shows no code', async () => {
    await using factor = await createFactor()
    const shown = await Promise.all(
      [ADA, BEN, 'nobody@people.test'].map((email) => send(factor.service, { email, password: 'wrong password' })),
    )
    for (const [index, { status, text, signsIn, proof }] of shown.entries()) {
      expect([status, signsIn, proof]).toEqual([401, false, ''])
      expect(text.replaceAll([ADA, BEN, 'nobody@people.test'][index] ?? '', '')).toBe(
        String(shown[0]?.text).replaceAll(ADA, ''),
      )
    }
  })

  test('has no code step for a user whose account is disabled', async () => {
    await using factor = await createFactor()
    factor.service.app.db.run('UPDATE accounts SET disabled_at = 1')
    const refused = await withPassword(factor.service)
    expect([refused.status, refused.text.includes(LOGIN_HEADING), refused.proof]).toEqual([401, true, ''])
  })

  // Proves: user-18
  test('after a wrong code asks again, and each code works once', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    const asked = await withPassword(service)
    const wrong = await send(service, { proof: asked.proof, code: '000000' })
    expect([wrong.status, wrong.signsIn, wrong.text.includes(CODE_HEADING)]).toEqual([401, false, true])
    expect(wrong.text).toContain('The code is wrong')
    const right = await Promise.all(
      Array.from({ length: 6 }, () => send(service, { proof: wrong.proof, code: code() })),
    )
    expect(right.filter(({ signsIn }) => signsIn)).toHaveLength(1)
    expect(service.app.db.query('SELECT id FROM sessions').all()).toHaveLength(1)
  })

  test('takes a recovery code, once', async () => {
    await using factor = await createFactor()
    const [recovery = ''] = factor.recoveryCodes
    const login = async () => {
      const { proof } = await withPassword(factor.service)
      return (await send(factor.service, { proof, code: recovery })).status
    }
    expect([await login(), await login()]).toEqual([303, 401])
  })

  // Proves: user-18
  test('gives five minutes for the code, wrong ones included', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    const late = await withPassword(service)
    service.clock.advance(minutes(5))
    const refused = await send(service, { proof: late.proof, code: code() })
    expect([refused.status, refused.text.includes('Five minutes have passed')]).toEqual([401, true])
    const asked = await withPassword(service)
    service.clock.advance(minutes(5) - seconds(1))
    const wrong = await send(service, { proof: asked.proof, code: '000000' })
    expect(wrong.text).toContain(CODE_HEADING)
    service.clock.advance(seconds(1))
    expect((await send(service, { proof: wrong.proof, code: code() })).signsIn).toBe(false)
  })

  // Proves: user-18
  test('takes no proof that was changed, or of an earlier password', async () => {
    await using factor = await createFactor()
    const { service, code } = factor
    const { proof } = await withPassword(service)
    const changed = `${proof.slice(0, 40)}${proof[40] === 'A' ? 'B' : 'A'}${proof.slice(41)}`
    for (const forged of ['x', changed, proof.slice(0, -4)]) {
      const { status, signsIn } = await send(service, { proof: forged, code: code() })
      expect([forged, status, signsIn]).toEqual([forged, 401, false])
    }
    const token = findToken(await createUserResetLink(service.app, ADA))
    const set = await postForm(service.url, '/reset-password', { token, password: 'violin carpet thunder mug' })
    expect(set.status).toBe(200)
    expect((await send(service, { proof, code: code() })).signsIn).toBe(false)
  })

  test('signs in without a code when the authenticator app was turned off between the steps', async () => {
    await using factor = await createFactor()
    const { proof } = await withPassword(factor.service)
    await disableUserTotp(factor.service.app, ADA)
    expect((await send(factor.service, { proof, code: 'x' })).signsIn).toBe(true)
  })

  // Proves: user-18
  test('delays further codes after wrong ones, and writes them to the audit log once a minute', async () => {
    await using factor = await createFactor()
    const { service } = factor
    const before = failures(service)
    let { proof } = await withPassword(service)
    expect(failures(service)).toBe(before)
    const statuses: number[] = []
    for (let tries = 0; tries < 7; tries++) {
      const shown = await send(service, { proof, code: '000000' })
      statuses.push(shown.status)
      proof = shown.proof
    }
    // As with wrong passwords, the fifth failure delays the next attempt.
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429])
    await service.app.commit.barrier()
    expect(failures(service)).toBe(before + 1)
    service.clock.advance(minutes(1))
    expect((await send(service, { proof, code: '000000' })).status).toBe(401)
  })

  // Proves: user-18
  test('counts codes apart from passwords, with the same limit', async () => {
    await using factor = await createFactor({ settings: { TASSIS_LOGINS_PER_MINUTE: '6' } })
    const { service, recoveryCodes } = factor
    service.app.db.run('DELETE FROM known_networks')
    const results: (string | number)[] = []
    for (const code of recoveryCodes.slice(0, 4)) {
      const { status, proof } = await send(service, { email: ADA, password: PASSWORD })
      if (proof === '') results.push(status)
      else results.push((await send(service, { proof, code })).signsIn ? 'signed in' : 'refused')
      service.app.db.run('DELETE FROM known_networks')
    }
    expect(results).toEqual(['signed in', 'signed in', 'signed in', 429])
  })
})

describe.if(isChromiumAvailable())('in a browser', () => {
  // Proves: user-18
  test('a user with an authenticator app signs in, without scripts, on every screen', async () => {
    await using factor = await createFactor({
      settings: { TASSIS_LOGINS_PER_MINUTE: '1000', TASSIS_DASHBOARD: 'false' },
    })
    const { service, code } = factor
    await using browser = await startBrowser()
    await using open = await openPage(browser, SCREENS[0] as Screen)
    const { page } = open
    const look = async (name: string) =>
      expect(await inspectOnScreens(open, `login-${name}`)).toMatchObject(NO_PROBLEMS)
    await page.goto(`${service.url}/login`)
    await page.getByLabel('Email address').fill(ADA)
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Enter your code' }).waitFor()
    await look('code')
    await page.getByLabel('Code').fill('000000')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').waitFor()
    await look('code-wrong')
    await page.getByLabel('Code').fill(code())
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'You are signed in' }).waitFor()
  })
})
