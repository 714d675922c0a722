/** @module Every way to sign in comes back to the request of the program; the page as people see it. */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { seconds } from '#platform/units.ts'
import {
  inspectTextPage,
  isChromiumAvailable,
  narrowOverflowPx,
  openPage,
  SCREENS,
  type Screen,
  showOn,
  startBrowser,
} from '#test/support/browser.ts'
import { createJar, signOnBy, startIdentityProvider } from '#test/support/identity-provider.ts'
import { createCode, setUpTotp } from '#test/support/operator.ts'
import { PASSWORD, signIn } from '#test/support/users.ts'
import { ADA, authorizeUrl, createOauthApi, register } from './fixture.ts'

setDefaultTimeout(120_000)
const REMOTE = 'https://assistant.example/callback'
const registerRemote = async (url: string, name: string): Promise<string> =>
  String((await register(url, [REMOTE], name)).body['client_id'])

test.skipIf(!isChromiumAvailable())('a person signs in with a code, reads who asks, and connects', async () => {
  await using service = await createOauthApi()
  const secret = await setUpTotp(service, await signIn(service, ADA))

  await using browser = await startBrowser()
  await using open = await openPage(browser, SCREENS[0] as Screen)
  const { page } = open
  // Another origin, where the policy of the page must let the answer to its form lead.
  await using program = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('Back') })
  const redirect_uri = `http://127.0.0.1:${program.port}/callback`
  const clientId = String((await register(service.url, [redirect_uri], 'Assistant')).body['client_id'])
  await page.goto(authorizeUrl(service.url, clientId, { redirect_uri }))
  await page.getByLabel('Email address').fill(ADA)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByLabel('Code').fill(createCode(secret, Date.now() + seconds(30)))
  await page.getByRole('button', { name: 'Sign in' }).click()

  for (const screen of SCREENS) {
    await showOn(page, screen)
    await open.picture(`oauth-consent-${screen.name}`)
    const { small: _, ...look } = await inspectTextPage(page)
    expect(look).toMatchObject({ title: 'Connect Assistant? · Tassis', overflowPx: 0, faint: [] })
    // Boxes are ticked by their whole line.
    const lines = await Promise.all((await page.locator('.box, button').all()).map((box) => box.boundingBox()))
    expect(lines.filter((box) => box === null || box.height < 44)).toEqual([])
  }
  expect(await narrowOverflowPx(page)).toBe(0)
  expect(await page.locator('input:checked').count()).toBe(8)
  expect(open.requested.filter((url) => !url.startsWith(service.url))).toEqual([])
  await page.getByLabel('Send emails').check()
  await page.getByRole('button', { name: 'Connect' }).click()
  await page.getByText('Back', { exact: true }).waitFor()
  expect(new URL(page.url()).searchParams.get('code')).toBeString()
  expect(open.complaints).toEqual([])
})

test('a person who signs in at an identity provider comes back to the request', async () => {
  await using provider = await startIdentityProvider()
  provider.person = { sub: 'a-1', email: 'a@example.com', email_verified: true }
  await using service = await createOauthApi({
    settings: { ...provider.settings, TASSIS_OIDC_ROLES: '@example.com=viewer' },
  })
  const jar = createJar(service.url)
  const { pathname, search } = new URL(
    authorizeUrl(service.url, await registerRemote(service.url, 'A'), { redirect_uri: REMOTE }),
  )
  const consentAt = (await jar.get(`${pathname}${search}`)).headers.get('location') ?? ''
  const loginAt = (await jar.get(consentAt)).headers.get('location') ?? ''
  expect(String((await jar.get(loginAt)).body)).toContain('href="/login/single-sign-on?next=/oauth/consent"')
  const back = await signOnBy(service, provider, { jar, query: '?next=/oauth/consent' })
  expect([back.status, back.headers.get('location')]).toEqual([303, '/oauth/consent'])
  expect(String((await jar.get('/oauth/consent')).body)).toContain('Connect A?')
})
