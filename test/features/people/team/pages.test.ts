import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { BrowserContext } from 'playwright-core'
import { createUserResetLink } from '#features/people/team/operator-routes.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
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
import { createEmailApi } from '#test/support/email-api.ts'
import {
  CAPTURE_OPTIONS,
  createTestUser,
  findToken,
  PASSWORD,
  postForm,
  readMailText,
  signIn,
} from '#test/support/users.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const ADA = 'ada@people.test'
const NEW_PASSWORD = 'violin carpet thunder mug'

async function createService(options: TestAppOptions = {}): Promise<TestApi> {
  const service = await createTestApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' }, ...options })
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return service
}

const sessions = ({ app }: TestApi): number => app.db.query('SELECT id FROM sessions').all().length

describe('the pages of users', () => {
  // Proves: user-15
  test('have no script and no external resources, and are not cached', async () => {
    await using service = await createService()
    const token = findToken(await createUserResetLink(service.app, ADA))
    for (const [path, status] of [
      ['/login', 200],
      ['/reset-password', 200],
      [`/reset-password?token=${token}`, 200],
      ['/reset-password?token=x', 410],
      ['/reset-password?token=', 200],
      ['/join', 410],
      ['/join?token=x', 410],
      ['/setup?token=x', 410],
    ] as const) {
      const response = await fetch(`${service.url}${path}`)
      const text = await response.text()
      expect([path, response.status]).toEqual([path, status])
      expect(text).not.toMatch(/<script|https?:|\son\w+=/i)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy':
          "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        'referrer-policy': 'same-origin',
        'x-robots-tag': 'noindex, nofollow',
      })
    }
  })

  test('show user input as text', async () => {
    await using service = await createService()
    const response = await postForm(service.url, '/login', { email: '"><script>alert(1)</script>', password: 'x' })
    const text = String(response.body)
    expect(response.status).toBe(401)
    expect(text).toContain('&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;')
    expect(text).not.toContain('<script>')
  })

  // Proves: user-15
  test('act for our own pages only', async () => {
    await using service = await createService()
    const fields = { email: ADA, password: PASSWORD }
    for (const headers of [
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
    ] as Record<string, string>[])
      for (const path of ['/login', '/logout', '/reset-password', '/join', '/setup'])
        expect((await postForm(service.url, path, fields, headers)).status).toBe(403)
    expect(sessions(service)).toBe(0)
    const signedIn = await postForm(service.url, '/login', fields)
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/app'])
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
    // A post without the page's token signs no one out.
    const forged = await postForm(service.url, '/logout', {}, { cookie })
    expect([forged.status, forged.headers.get('set-cookie'), sessions(service)]).toEqual([303, null, 1])
  })

  test('lead after signing in to a screen of the dashboard only', async () => {
    await using service = await createService()
    const next = async (path: string) => {
      const page = await fetch(`${service.url}/login?next=${encodeURIComponent(path)}`)
      return /name="next" value="([^"]+)"/.exec(await page.text())?.[1]
    }
    expect(await next('/app/webhooks')).toBe('/app/webhooks')
    const ways = ['https://evil.test/', '//evil.test', '\\evil.test', '/webhooks', '/application', '/app//evil.test']
    for (const path of [...ways, '/app/../t/c/x', '/app/./x', '/app/..//evil.test'])
      expect([path, await next(path)]).toEqual([path, undefined])
    const fields = { email: ADA, password: PASSWORD }
    const answer = await postForm(service.url, '/login', { ...fields, next: '//evil.test' })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/app'])
    // After a wrong password, the form still has the target page.
    const wrong = await postForm(service.url, '/login', { ...fields, password: 'wrong', next: '/app/webhooks' })
    expect(wrong.body).toContain('name="next" value="/app/webhooks"')
  })

  // Proves: user-15
  test('do not exist under the tracking host of an account', async () => {
    await using service = await createEmailApi()
    service.app.db.run(
      "UPDATE domains SET tracking_domain = 'links.sender.test', tracking_verified_at = 1 WHERE verified_at IS NOT NULL",
    )
    const at = (host: string, path: string, method = 'GET') =>
      fetch(`${service.url}${path}`, { method, redirect: 'manual', headers: { host } }).then(({ status }) => status)
    for (const path of ['/login', '/reset-password', '/join', '/setup']) {
      expect(await at('links.sender.test', path)).toBe(404)
      expect(await at('links.sender.test', path, 'POST')).toBe(404)
    }
    expect(await at('mail.tassis.test', '/login')).toBe(200)
  })
})

describe.if(isChromiumAvailable())('in a browser', () => {
  // Proves: user-15
  test('people sign in, set a password and join a team, without scripts, on every screen', async () => {
    await using service = await createEmailApi({
      ...CAPTURE_OPTIONS,
      settings: { ...CAPTURE_OPTIONS.settings, TASSIS_LOGINS_PER_MINUTE: '1000', TASSIS_DASHBOARD: 'false' },
    })
    await createTestUser(service.app, service.actor, ADA, 'owner')
    await using browser = await startBrowser()
    await using open = await openPage(browser, SCREENS[0] as Screen)
    const { page } = open
    const look = async (name: string) =>
      expect(await inspectOnScreens(open, `people-${name}`)).toMatchObject(NO_PROBLEMS)
    /** Waits for the page with this heading. */
    const arrive = (name: string) => page.getByRole('heading', { name }).waitFor()
    const refused = () => page.getByRole('alert').waitFor()

    await page.goto(`${service.url}/login`)
    await look('login')
    await page.getByLabel('Email address').fill(ADA)
    await page.getByLabel('Password').fill('wrong password')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await refused()
    await look('login-wrong')
    expect(await page.getByRole('alert').textContent()).toContain('is wrong')
    expect(await page.getByLabel('Email address').inputValue()).toBe(ADA)
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await arrive('You are signed in')
    await look('signed-in')
    expect(await page.textContent('main')).toContain('As ada@people.test, owner of Test.')
    const links = await page.getByRole('link').all()
    expect(await Promise.all(links.map((link) => link.getAttribute('href')))).toEqual(['/docs'])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await arrive('Sign in')

    await page.getByRole('link', { name: 'Set a new password' }).click()
    await arrive('Set a new password')
    await page.getByLabel('Email address').fill(ADA)
    await look('ask')
    await page.getByRole('button', { name: 'Send the link' }).click()
    await arrive('Check your inbox')
    await look('asked')
    await page.goto(`${service.url}/reset-password?token=${findToken(await readMailText(service, 1))}`)
    await page.getByLabel('New password').fill('password123')
    await look('new-password')
    await page.getByRole('button', { name: 'Set the password' }).click()
    await refused()
    await look('new-password-wrong')
    expect(await page.getByRole('alert').textContent()).toContain('attackers')
    await page.getByLabel('New password').fill(NEW_PASSWORD)
    await page.getByRole('button', { name: 'Set the password' }).click()
    await arrive('Password set')
    await look('password-set')

    await service.api('POST', '/v1/team/invitations', { email: 'bob@people.test', role: 'viewer' })
    const invitation = `${service.url}/join?token=${findToken(await readMailText(service, 2))}`
    await page.goto(invitation)
    await page.getByLabel('Your name').fill('Bob')
    await page.getByLabel('Password').fill(PASSWORD)
    await look('join')
    await page.getByRole('button', { name: 'Join' }).click()
    await arrive('You are signed in')
    expect(await page.textContent('main')).toContain('As bob@people.test, viewer of Test.')
    await page.goto(invitation)
    await look('join-void')
    await arrive('This link is no longer valid')
    expect(open.requested.filter((url) => !url.startsWith(service.url) && !url.startsWith('data:'))).toEqual([])
  })

  // Proves: user-4
  test.each([
    ['of another site', '127.0.0.2'],
    // Browsers do send the cookie there.
    ['of another port of this host', '127.0.0.1'],
  ])(
    "a page %s changes nothing with its visitor's session, and cannot sign the visitor in",
    async (_, hostname) => {
      await using service = await createService()
      const { url, app, actor } = service
      await createTestUser(app, actor, 'eve@people.test', 'owner')
      const session = await signIn(service, ADA)
      const attacks = [
        `fetch('${url}/v1/account', { method: 'PATCH', mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' }, body: '{"name":"Pwned"}' })`,
        `fetch('${url}/v1/domains', { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' }, body: '{"domain":"pwned.test"}' })`,
        `fetch('${url}/v1/auth/login', { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'content-type': 'text/plain' }, body: '{"email":"eve@people.test","password":"${PASSWORD}"}' })`,
        `fetch('${url}/v1/account', { method: 'PATCH', credentials: 'include', headers: { 'content-type': 'application/json', 'x-csrf-token': '${session.csrfToken}' }, body: '{"name":"Pwned"}' })`,
      ]
      const forms = ['login', 'logout'].map(
        (path) =>
          `<form method="post" action="${url}/${path}"><input name="email" value="eve@people.test"><input name="password" value="${PASSWORD}"><button id="${path}">Go</button></form>`,
      )
      using evil = Bun.serve({
        hostname,
        port: 0,
        fetch: () =>
          new Response(
            `<!doctype html><title>Evil</title>${forms.join('')}<script>
          (async () => { ${attacks.map((attack) => `await ${attack}.catch(() => 0);`).join('\n')} document.title = 'Done' })()
        </script>`,
            { headers: { 'content-type': 'text/html' } },
          ),
      })
      await using browser = await startBrowser()
      const context: BrowserContext = await browser.newContext()
      const [name = '', value = ''] = session.cookie.split('=')
      await context.addCookies([{ name, value, url, httpOnly: true, sameSite: 'Lax' }])
      const page = await context.newPage()
      const visit = async () => {
        await page.goto(`http://${hostname}:${evil.port}/`)
        await page.waitForFunction("document.title === 'Done'")
      }
      await visit()
      for (const path of ['login', 'logout']) {
        await page.click(`#${path}`)
        await page.waitForURL(`${url}/${path}`)
        expect(await page.textContent('h1')).toBe('Something went wrong')
        await visit()
      }
      const account = app.db
        .query<{ name: string }, [number]>('SELECT name FROM accounts WHERE id = ?')
        .get(actor.accountId)
      expect([account?.name, app.db.query('SELECT id FROM domains').all().length, sessions(service)]).toEqual([
        'Test',
        0,
        1,
      ])
      const cookies = await context.cookies(url)
      expect(cookies.map((cookie) => `${cookie.name}=${cookie.value}`)).toEqual([session.cookie])
      await context.close()
    },
    60_000,
  )
})
