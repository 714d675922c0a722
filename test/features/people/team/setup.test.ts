/** @module The first start: the link that `serve` prints, and the page that creates the first account and its owner. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createUser } from '#features/people/team/operator-routes.ts'
import { createSetupLink } from '#features/people/team/setup.ts'
import { hours, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestApp, eventually, type TestApp, type TestAppOptions } from '#test/support/app.ts'
import {
  inspectOnScreens,
  isChromiumAvailable,
  NO_PROBLEMS,
  openPage,
  SCREENS,
  type Screen,
  startBrowser,
} from '#test/support/browser.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { ask, findToken, PASSWORD } from '#test/support/users.ts'
import { createDataFolder, runTassis, startServing } from '../../../app/process.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const ADA = 'ada@people.test'
const FIELDS = { account_name: 'Example Ltd', name: 'Ada', email: ADA, password: PASSWORD }

interface Fresh extends TestApp {
  readonly url: string
  readonly clock: ManualClock
}

/** A service without an account. */
async function createFresh(options: TestAppOptions = {}): Promise<Fresh> {
  const clock = new ManualClock()
  const service = await createTestApp({ clock, ...options })
  const http = createHttp(service.opened)
  const { port } = http.listen('127.0.0.1', 0)
  return {
    ...service,
    url: `http://127.0.0.1:${port}`,
    clock,
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await service[Symbol.asyncDispose]()
    },
  }
}

const newToken = async ({ app }: Pick<TestApp, 'app'>): Promise<string> => findToken((await createSetupLink(app)) ?? '')

const get = async ({ url }: Pick<Fresh, 'url'>, token: string) => {
  const response = await fetch(`${url}/setup?token=${token}`)
  return { status: response.status, text: await response.text(), headers: response.headers }
}

/** Posts the form as a browser on our page does. */
async function send(
  { url }: Pick<Fresh, 'url'>,
  token: string,
  fields: Record<string, string> = {},
  headers: Record<string, string> = {},
) {
  const response = await fetch(`${url}/setup`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: url, ...headers },
    body: new URLSearchParams({ token, ...FIELDS, ...fields }),
  })
  return {
    status: response.status,
    location: response.headers.get('location'),
    cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '',
    text: await response.text(),
  }
}

/** Numbers of accounts, users, members, sessions, streams. */
const rows = ({ app }: Pick<TestApp, 'app'>): number[] =>
  ['accounts', 'users', 'members', 'sessions', 'streams'].map(
    (table) => app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0,
  )

const NOTHING = [0, 0, 0, 0, 0]
const SET_UP = [1, 1, 1, 1, 1]
const DEAD = 'This link is no longer valid'

describe('the link of the first start', () => {
  // Proves: user-19
  test('creates the first account with its owner, who is signed in, and works once', async () => {
    await using service = await createFresh()
    const token = await newToken(service)
    for (let visit = 0; visit < 3; visit++) expect((await get(service, token)).status).toBe(200)
    const done = await send(service, token)
    expect([done.status, done.location, rows(service)]).toEqual([303, '/app', SET_UP])
    const me = await ask(service.url, 'GET', '/v1/auth/session', undefined, { cookie: done.cookie })
    expect(at(me.body, 'data')).toMatchObject({
      user: { email: ADA, name: 'Ada', totp_enabled: false },
      account: { name: 'Example Ltd', role: 'owner' },
    })
    const account = await ask(service.url, 'GET', '/v1/account', undefined, { cookie: done.cookie })
    expect(at(account.body, 'data')).toMatchObject({ name: 'Example Ltd', plan: 'unlimited' })
    const audit = service.app.db
      .query<{ entry: string }, []>("SELECT action || ' ' || actor_type AS entry FROM audit_logs ORDER BY id")
      .all()
    expect(audit.map(({ entry }) => entry)).toEqual([
      'account.created user',
      'user.created user',
      'member.added user',
      'session.created user',
    ])
    const [page, again] = [await get(service, token), await send(service, token, { email: 'eve@people.test' })]
    expect([page.status, again.status, rows(service)]).toEqual([410, 422, SET_UP])
    for (const { text } of [page, again]) expect(text).toContain(DEAD)
    expect(await createSetupLink(service.app)).toBeUndefined()
  })

  // Proves: user-19
  test('used several times at the same time creates one account and one owner', async () => {
    await using service = await createFresh({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
    const token = await newToken(service)
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, index) => send(service, token, { email: `user${index}@people.test` })),
    )
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 422, 422, 422, 422, 422])
    expect(answers.filter(({ cookie }) => cookie !== '')).toHaveLength(1)
    expect(rows(service)).toEqual(SET_UP)
  })

  // Proves: user-19
  test('creates nothing when the last step fails, and works after that', async () => {
    await using service = await createFresh()
    const token = await newToken(service)
    service.app.db.run("CREATE TRIGGER fail BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END")
    expect((await send(service, token)).status).toBe(500)
    expect(rows(service)).toEqual(NOTHING)
    service.app.db.run('DROP TRIGGER fail')
    expect((await send(service, token)).status).toBe(303)
    expect(rows(service)).toEqual(SET_UP)
  })

  // Proves: user-19
  test('is dead once a user or a second account was created on the command line, after an hour, and after a restart', async () => {
    await using service = await createFresh()
    const replaced = await newToken(service)
    const late = await newToken(service)
    expect([(await get(service, replaced)).status, (await get(service, late)).status]).toEqual([410, 200])
    service.clock.advance(hours(1) - seconds(1))
    expect((await get(service, late)).status).toBe(200)
    service.clock.advance(seconds(1))
    expect([(await get(service, late)).status, (await send(service, late)).status]).toEqual([410, 422])
    const token = await newToken(service)
    const account = await createAccount(service.app, { name: 'By command', email: ADA, plan: 'unlimited' })
    expect((await get(service, token)).text).toContain('By command')
    await createUser(service.app, toOperatorActor(account), { email: ADA, role: 'owner', password: PASSWORD })
    expect((await send(service, token, { email: 'eve@people.test' })).text).toContain(DEAD)
    expect(service.app.db.query('SELECT email FROM users').all()).toEqual([{ email: ADA }])
  })

  // Proves: user-19
  test('makes the first user the owner of the only account, and of none when there are two', async () => {
    await using service = await createFresh()
    const account = await createAccount(service.app, { name: 'By command', email: ADA, plan: 'unlimited' })
    const token = await newToken(service)
    const second = await createAccount(service.app, { name: 'Second', email: ADA, plan: 'unlimited' })
    expect([(await get(service, token)).status, (await send(service, token)).status]).toEqual([410, 422])
    service.app.db.run('UPDATE accounts SET deleted_at = 1 WHERE id = ?', [second.id])
    expect((await get(service, token)).text).not.toContain('name="account_name"')
    expect((await send(service, token, { account_name: '' })).status).toBe(303)
    expect(service.app.db.query('SELECT account_id AS id, role FROM members').all()).toMatchObject([{ id: account.id }])
    expect((await get(service, token)).status).toBe(410)
  })

  test.each(['', 'x', 'A'.repeat(43), `${'A'.repeat(42)}%00`])('%j is no link', async (token) => {
    await using service = await createFresh()
    expect((await get(service, token)).status).toBe(410)
    await newToken(service)
    expect((await get(service, token)).status).toBe(410)
    expect((await send(service, token)).status).toBe(422)
    expect((await fetch(`${service.url}/setup`)).status).toBe(410)
  })

  test('is stored as a hash', async () => {
    await using service = await createFresh()
    const token = await newToken(service)
    expect(JSON.stringify(service.app.db.query('SELECT * FROM meta').all())).not.toContain(token)
  })
})

describe('the page of the first start', () => {
  test.each([
    [{ password: 'short' }, 'A password must have'],
    [{ password: ADA }, 'must not be your address'],
    [{ email: 'nobody' }, 'email: '],
    [{ account_name: ' ' }, 'The name must have 1 to 200 characters.'],
    [{ account_name: 'x'.repeat(201) }, 'The name must have 1 to 200 characters.'],
  ])('with %j says what is wrong, and keeps what was entered, apart from the password', async (fields, message) => {
    await using service = await createFresh()
    const token = await newToken(service)
    const answer = await send(service, token, { name: '<b>"Ada"</b>', ...fields })
    expect([answer.status, rows(service)]).toEqual([422, NOTHING])
    expect(answer.text).toContain(message)
    expect(answer.text).toContain('value="&lt;b&gt;&quot;Ada&quot;&lt;/b&gt;"')
    expect(answer.text).toContain(`value="${{ ...FIELDS, ...fields }.email}"`)
    expect(answer.text).not.toContain({ ...FIELDS, ...fields }.password === ADA ? `password" value` : PASSWORD)
    expect((await send(service, token)).status).toBe(303)
  })

  test('is limited like signing in', async () => {
    await using service = await createFresh({ settings: { TASSIS_LOGINS_PER_MINUTE: '3' } })
    const token = await newToken(service)
    const statuses: number[] = []
    for (let attempt = 0; attempt < 4; attempt++)
      statuses.push((await send(service, attempt === 3 ? token : 'x')).status)
    expect(statuses).toEqual([422, 422, 422, 429])
    expect((await get(service, token)).status).toBe(200)
  })
})

describe('serve', () => {
  // Proves: user-19
  test('prints a link of the public URL while there is no user, and a new one at each start', async () => {
    using data = createDataFolder()
    const settings = { ...data.settings, TASSIS_PUBLIC_URL: 'https://mail.example.test/' }
    const tokens: string[] = []
    const start = async () => {
      const service = await startServing(settings)
      const line = /https:\/\/mail\.example\.test\/setup\?token=([\w-]{43})"}\n/
      const [, token = ''] = await eventually(() => line.exec(service.output()) ?? undefined)
      tokens.push(token)
      return service
    }
    {
      await using service = await start()
      expect((await get(service, tokens[0] ?? '')).status).toBe(200)
    }
    await using service = await start()
    expect(new Set(tokens).size).toBe(2)
    const statuses = await Promise.all(tokens.map(async (token) => (await get(service, token)).status))
    expect(statuses).toEqual([410, 200])
    await runTassis(['accounts', 'create', '--name', 'Demo', '--email', ADA], settings)
    expect((await get(service, tokens[1] ?? '')).status).toBe(200)
    await runTassis(['users', 'create', ADA], settings)
    expect((await get(service, tokens[1] ?? '')).status).toBe(410)
    await service[Symbol.asyncDispose]()
    await using later = await startServing(settings)
    await Bun.sleep(500)
    expect(later.output()).not.toContain('token=')
    // Five programs start.
  }, 300_000)

  // Proves: user-19
  test('killed while the form is submitted has created everything or nothing', async () => {
    using data = createDataFolder()
    const outcomes: string[] = []
    for (let round = 0; round < 4 && !outcomes.includes('everything'); round++) {
      const service = await startServing(data.settings)
      await eventually(() => /token=[\w-]{43}"/.test(service.output()))
      const sent = send(service, findToken(service.output())).catch(() => undefined)
      await Bun.sleep(15 * (round + 1))
      await service[Symbol.asyncDispose]()
      await sent
      await using opened = await createTestApp({ dataDir: data.path, settings: data.settings })
      const found = rows(opened)
      expect([NOTHING, SET_UP]).toContainEqual(found)
      outcomes.push(found[0] === 0 ? 'nothing' : 'everything')
    }
    expect(outcomes.length).toBeGreaterThan(0)
  }, 300_000)
})

describe.if(isChromiumAvailable())('in a browser', () => {
  // Proves: user-19
  test('the first user creates the account, without scripts, on every screen', async () => {
    await using service = await createFresh({ settings: { TASSIS_DASHBOARD: 'false' } })
    await using browser = await startBrowser()
    await using open = await openPage(browser, SCREENS[0] as Screen)
    const { page } = open
    const look = async (name: string) =>
      expect(await inspectOnScreens(open, `setup-${name}`)).toMatchObject(NO_PROBLEMS)
    const link = `${service.url}/setup?token=${await newToken(service)}`
    await page.goto(link)
    await page.getByLabel('Account name').fill('Example Ltd')
    await page.getByLabel('Your name').fill('Ada')
    await page.getByLabel('Email address').fill(ADA)
    await page.getByLabel('Password').fill('password123')
    await look('form')
    await page.getByRole('button', { name: 'Create account' }).click()
    await page.getByRole('alert').waitFor()
    await look('form-wrong')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'You are signed in' }).waitFor()
    expect(await page.textContent('main')).toContain(`As ${ADA}, owner of Example Ltd.`)
    await page.goto(link)
    await page.getByRole('heading', { name: DEAD }).waitFor()
    await look('void')
    expect(open.requested.filter((url) => !url.startsWith(service.url) && !url.startsWith('data:'))).toEqual([])
  })
})
