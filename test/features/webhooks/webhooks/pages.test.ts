/** @module Users see and replace the signing secrets of webhooks on a page, if their role allows it. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createWebhook } from '#features/webhooks/webhooks/change.ts'
import { minutes } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { isChromiumAvailable, openPage, overflowPx, SCREENS, startBrowser } from '#test/support/browser.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const SECRET = /whsec_[A-Za-z0-9]{32}/

async function createService(): Promise<TestApi & { clock: ManualClock; webhookId: string; secret: string }> {
  // The clock stands still: no change can be distinguished by its time.
  const clock = new ManualClock(Date.UTC(2026, 2, 15))
  const service = await createTestApi({
    clock,
    settings: { TASSIS_LOGINS_PER_MINUTE: '1000' },
  })
  for (const role of ['owner', 'developer', 'viewer'] as const)
    await createTestUser(service.app, service.actor, `${role}@people.test`, role)
  const { body } = await service.api('POST', '/v1/webhooks', { url: 'https://127.0.0.1/hooks', events: ['sent'] })
  const secret = String(at(body, 'data', 'secret'))
  expect(secret).toMatch(SECRET)
  return { ...service, clock, webhookId: String(at(body, 'data', 'id')), secret }
}

const get = ({ url }: TestApi, cookie = '', query = '') =>
  fetch(`${url}/webhooks${query}`, { redirect: 'manual', headers: { cookie } })

const hiddenIn = (page: string, name: string): string =>
  new RegExp(`name="${name}" value="([^"]+)"`).exec(page)?.[1] ?? 'none'

const hiddenOn = async (page: Response, name: string): Promise<string> => hiddenIn(await page.text(), name)

const tokenOn = async (service: TestApi, cookie: string): Promise<string> =>
  hiddenOn(await get(service, cookie), 'csrf_token')

/** The version of the webhook that the confirmation page showed. */
const versionOf = async (service: TestApi & { webhookId: string }, cookie: string): Promise<string> =>
  hiddenOn(await get(service, cookie, `?replace=${service.webhookId}`), 'version')

/** Submits the sign-in form. */
const signInOn = ({ url }: TestApi, fields: Record<string, string>) =>
  fetch(`${url}/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: url },
    body: new URLSearchParams({ email: 'owner@people.test', password: PASSWORD, ...fields }),
  })

const post = ({ url }: TestApi, cookie: string, fields: Record<string, string>, origin = url) =>
  fetch(`${url}/webhooks`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie, origin },
    body: new URLSearchParams(fields),
  })

describe('the page of signing secrets', () => {
  test('sends test events, five a minute including those of the API; the sixth gets an error page with the retry time', async () => {
    await using service = await createService()
    const { cookie } = await signIn(service, 'developer@people.test')
    const fields = { id: service.webhookId, csrf_token: await tokenOn(service, cookie), action: 'test' }
    expect((await service.api('POST', `/v1/webhooks/${service.webhookId}/test`)).status).toBe(200)
    const answers: [status: number, isTold: boolean][] = []
    for (let i = 0; i < 5; i++) {
      const answer = await post(service, cookie, fields)
      answers.push([answer.status, (await answer.text()).includes('A test event is queued.')])
    }
    expect(answers).toEqual([...Array(4).fill([200, true]), [429, false]])
    const { body } = await service.api('GET', `/v1/webhooks/${service.webhookId}/deliveries?event=test`)
    expect(at(body, 'pagination', 'total')).toBe(5)
    const viewer = await signIn(service, 'viewer@people.test')
    const asViewer = { ...fields, csrf_token: await tokenOn(service, viewer.cookie) }
    expect((await post(service, viewer.cookie, asViewer)).status).toBe(403)
  })

  // Proves: notify-13
  test('shows and replaces the secret of a webhook, each recorded in the audit log with the user', async () => {
    await using service = await createService()
    const { cookie } = await signIn(service, 'developer@people.test')
    expect(await (await get(service, cookie)).text()).not.toMatch(SECRET)
    const fields = { id: service.webhookId, csrf_token: await tokenOn(service, cookie) }
    const revealed = await (await post(service, cookie, { ...fields, action: 'reveal' })).text()
    expect(SECRET.exec(revealed)?.[0]).toBe(service.secret)
    const rotate = { ...fields, action: 'rotate', version: await versionOf(service, cookie) }
    const rotated = SECRET.exec(await (await post(service, cookie, rotate)).text())?.[0]
    expect(rotated).not.toBe(service.secret)
    const again = SECRET.exec(await (await post(service, cookie, { ...fields, action: 'reveal' })).text())?.[0]
    expect(again).toBe(rotated)
    const { body } = await service.api('GET', '/v1/audit-logs?resource_type=webhook')
    const entries = at(body, 'data') as { action: string; actor_type: string; actor_id: string }[]
    expect(entries.map(({ action, actor_type, actor_id }) => [action, actor_type, actor_id])).toEqual([
      ['webhook.secret_revealed', 'user', expect.any(String)],
      ['webhook.secret_rotated', 'user', expect.any(String)],
      ['webhook.secret_revealed', 'user', expect.any(String)],
      ['webhook.created', 'api_key', expect.any(String)],
    ])
  })

  // Proves: notify-13, user-20
  test('asks for the password again after ten minutes, and then does what was asked for', async () => {
    await using service = await createService()
    const { cookie } = await signIn(service, 'developer@people.test')
    const fields = { id: service.webhookId, csrf_token: await tokenOn(service, cookie) }
    const version = await versionOf(service, cookie)
    service.clock.advance(minutes(10))
    const asked = await post(service, cookie, { ...fields, action: 'reveal' })
    const text = await asked.text()
    expect([asked.status, text.includes('Enter your password'), SECRET.test(text)]).toEqual([200, true, false])
    expect(hiddenIn(text, 'action')).toBe('reveal')
    const wrong = await post(service, cookie, { ...fields, action: 'rotate', version, password: 'not this one' })
    const wrongText = await wrong.text()
    expect([wrong.status, wrongText.includes('This is not your password.')]).toEqual([422, true])
    expect([hiddenIn(wrongText, 'action'), hiddenIn(wrongText, 'version')]).toEqual(['rotate', version])
    const right = await post(service, cookie, { ...fields, action: 'rotate', version, password: PASSWORD })
    const rotated = SECRET.exec(await right.text())?.[0]
    expect([right.status, rotated === service.secret]).toEqual([200, false])
    const again = await (await post(service, cookie, { ...fields, action: 'reveal' })).text()
    expect(SECRET.exec(again)?.[0]).toBe(String(rotated))
    const unknown = { ...fields, id: '01234567-89ab-7def-8123-456789abcdef', action: 'reveal' }
    expect((await post(service, cookie, unknown)).status).toBe(404)
  })

  // Proves: notify-13
  test('asks before it replaces a secret, and then does so once, however often the form is sent', async () => {
    await using service = await createService()
    const { cookie } = await signIn(service, 'developer@people.test')
    const asked = await get(service, cookie, `?replace=${service.webhookId}`)
    const text = await asked.text()
    expect([asked.status, text.includes('Replace the secret?'), text.includes('https://127.0.0.1/hooks')]).toEqual([
      200,
      true,
      true,
    ])
    expect(text).not.toMatch(SECRET)
    const fields = { id: service.webhookId, action: 'rotate', csrf_token: hiddenIn(text, 'csrf_token') }
    const version = hiddenIn(text, 'version')
    const answers = []
    for (const given of [{}, { version: 'x' }, { version }, { version }])
      answers.push(await post(service, cookie, { ...fields, ...given }))
    expect(answers.map(({ status }) => status)).toEqual([409, 409, 200, 409])
    const shown = await Promise.all(answers.map(async (answer) => SECRET.exec(await answer.text())?.[0]))
    const [now] = SECRET.exec(await (await post(service, cookie, { ...fields, action: 'reveal' })).text()) ?? []
    expect(shown).toEqual([undefined, undefined, now, undefined])
    expect(now).not.toBe(service.secret)
  })

  test('is not available to roles that cannot replace secrets, nor for webhooks of other accounts', async () => {
    await using service = await createService()
    const other = await service.newAccount()
    await createTestUser(service.app, other, 'owner@other.test', 'owner')
    const query = `?replace=${service.webhookId}`
    const statusFor = async (email: string, asked: string) =>
      (await get(service, (await signIn(service, email)).cookie, asked)).status
    expect([
      (await get(service, '', query)).status,
      await statusFor('viewer@people.test', query),
      await statusFor('owner@other.test', query),
      await statusFor('owner@people.test', '?replace=%00'),
      await statusFor('owner@people.test', '?replace=1&replace=2'),
    ]).toEqual([303, 403, 404, 404, 404])
  })

  test('redirects signed-out users to the sign-in page, and back after signing in', async () => {
    await using service = await createService()
    const location = (await get(service)).headers.get('location')
    expect(location).toBe('/login?next=/webhooks')
    const next = await hiddenOn(await fetch(`${service.url}${location}`), 'next')
    expect(next).toBe('/webhooks')
    // After a wrong password, the form still has the target page.
    expect(await hiddenOn(await signInOn(service, { password: 'wrong', next }), 'next')).toBe('/webhooks')
    expect((await signInOn(service, { next })).headers.get('location')).toBe('/webhooks')
    const { cookie } = await signIn(service, 'owner@people.test')
    const signedIn = await fetch(`${service.url}${location}`, { redirect: 'manual', headers: { cookie } })
    expect([signedIn.status, signedIn.headers.get('location')]).toEqual([303, '/webhooks'])
  })

  test('and the dashboard are the only pages that a link can make the sign-in redirect to', async () => {
    await using service = await createService()
    const outside = ['/app/../t/c/x', '/app/./x', '/app/..//evil.test', '/application', '/app//evil.test']
    for (const next of [
      'https://evil.test/',
      '//evil.test',
      '/webhooks/../x',
      '/webhooks?replace=1',
      '\\evil.test',
      ...outside,
    ]) {
      const page = await fetch(`${service.url}/login?next=${encodeURIComponent(next)}`)
      expect([page.status, await hiddenOn(page, 'next')]).toEqual([200, 'none'])
    }
    const answer = await signInOn(service, { next: '//evil.test' })
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/app'])
  })

  // Proves: notify-13
  test('shows no secret to viewers, signed-out users and pages of other origins', async () => {
    await using service = await createService()
    const [developer, viewer] = [
      await signIn(service, 'developer@people.test'),
      await signIn(service, 'viewer@people.test'),
    ]
    const reveal = { id: service.webhookId, action: 'reveal' }
    const csrf_token = await tokenOn(service, developer.cookie)
    const answers = await Promise.all([
      get(service),
      post(service, '', { ...reveal, csrf_token }),
      post(service, viewer.cookie, { ...reveal, csrf_token }),
      post(service, developer.cookie, reveal),
      post(service, developer.cookie, { ...reveal, csrf_token: 'x' }),
      post(service, developer.cookie, { ...reveal, csrf_token }, 'https://evil.test'),
      post(service, developer.cookie, { ...reveal, csrf_token, id: '01234567-89ab-7def-8123-456789abcdef' }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 403, 403, 403, 403, 404])
    for (const answer of answers) expect(await answer.text()).not.toMatch(SECRET)
    expect(await (await get(service, viewer.cookie)).text()).not.toContain('name="action"')
  })

  test('shows only the webhooks of the account', async () => {
    await using service = await createService()
    const other = await service.newAccount()
    await createTestUser(service.app, other, 'owner@other.test', 'owner')
    // This account needs a webhook too, because a page without webhooks has no token.
    await createWebhook(service.app, other, { url: 'https://127.0.0.1/theirs', events: ['sent'] })
    const { cookie } = await signIn(service, 'owner@other.test')
    const page = await (await get(service, cookie)).text()
    expect([page.includes('127.0.0.1/theirs'), page.includes('127.0.0.1/hooks')]).toEqual([true, false])
    const fields = { id: service.webhookId, version: '1', csrf_token: await tokenOn(service, cookie) }
    for (const action of ['reveal', 'rotate'])
      expect((await post(service, cookie, { ...fields, action })).status).toBe(404)
  })
})

// Proves: notify-13
test.skipIf(!isChromiumAvailable())('the page works in a browser, on a phone and on a desktop', async () => {
  await using service = await createService()
  let secret: string | null = service.secret
  const browser = await startBrowser()
  try {
    for (const screen of SCREENS.filter(({ name }) => ['phone', 'desktop-dark'].includes(name))) {
      await using opened = await openPage(browser, screen)
      const { page } = opened
      await page.goto(`${service.url}/webhooks`)
      await page.fill('#email', 'owner@people.test')
      await page.fill('#password', PASSWORD)
      await page.click('button')
      await page.click('text=Show the secret')
      expect([await page.textContent('code'), await overflowPx(page)]).toEqual([secret, 0])
      await opened.picture('webhooks')
      await page.click('text=Replace the secret')
      expect([await page.textContent('h1'), await overflowPx(page)]).toEqual(['Replace the secret?', 0])
      await opened.picture('webhooks-replace')
      await page.click('text=Keep the secret')
      await page.click('text=Replace the secret')
      await page.click('button')
      const replaced = await page.textContent('code')
      expect(replaced).not.toBe(secret)
      await opened.picture('webhooks-replaced')
      secret = replaced
      expect(opened.complaints).toEqual([])
      // A reload posts the same form again.
      await page.reload()
      expect(await page.textContent('[role=alert]')).toStartWith('The webhook was changed since the page was opened')
      await page.click('text=Signing secrets')
      await page.click('text=Show the secret')
      expect(await page.textContent('code')).toBe(secret)
    }
  } finally {
    await browser.close()
  }
})
