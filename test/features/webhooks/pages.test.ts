/** @module People see and replace the signing secrets of webhooks on a page, if their role allows it, and nobody else does. */
import { describe, expect, test } from 'bun:test'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { isChromiumAvailable, openPage, overflowPx, SCREENS, startBrowser } from '#test/support/browser.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/people.ts'

const SECRET = /whsec_[A-Za-z0-9]{32}/

async function createService(): Promise<TestApi & { webhookId: string; secret: string }> {
  const service = await createTestApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
  for (const role of ['owner', 'developer', 'viewer'] as const)
    await createTestUser(service.app, service.actor, `${role}@people.test`, role)
  const { body } = await service.api('POST', '/v1/webhooks', { url: 'https://127.0.0.1/hooks', events: ['sent'] })
  const secret = String(at(body, 'data', 'secret'))
  expect(secret).toMatch(SECRET)
  return { ...service, webhookId: String(at(body, 'data', 'id')), secret }
}

const get = ({ url }: TestApi, cookie = '') => fetch(`${url}/webhooks`, { redirect: 'manual', headers: { cookie } })

async function tokenOn(service: TestApi, cookie: string): Promise<string> {
  const page = await (await get(service, cookie)).text()
  return /name="csrf_token" value="([^"]+)"/.exec(page)?.[1] ?? 'none'
}

const post = ({ url }: TestApi, cookie: string, fields: Record<string, string>, origin = url) =>
  fetch(`${url}/webhooks`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie, origin },
    body: new URLSearchParams(fields),
  })

describe('the page of signing secrets', () => {
  test('shows and replaces the secret of a webhook, each noted in the audit log as by the user', async () => {
    await using service = await createService()
    const { cookie } = await signIn(service, 'developer@people.test')
    expect(await (await get(service, cookie)).text()).not.toMatch(SECRET)
    const fields = { id: service.webhookId, csrf_token: await tokenOn(service, cookie) }
    const revealed = await (await post(service, cookie, { ...fields, action: 'reveal' })).text()
    expect(SECRET.exec(revealed)?.[0]).toBe(service.secret)
    const rotated = SECRET.exec(await (await post(service, cookie, { ...fields, action: 'rotate' })).text())?.[0]
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

  test('shows no secret to a viewer, to nobody who is not signed in, and to no page elsewhere', async () => {
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

  test('knows only the webhooks of the account', async () => {
    await using service = await createService()
    const other = await service.newAccount()
    await createTestUser(service.app, other, 'owner@other.test', 'owner')
    const { cookie } = await signIn(service, 'owner@other.test')
    expect(await (await get(service, cookie)).text()).not.toContain('127.0.0.1/hooks')
    const fields = { id: service.webhookId, action: 'rotate', csrf_token: await tokenOn(service, cookie) }
    expect((await post(service, cookie, fields)).status).not.toBe(200)
  })
})

test.skipIf(!isChromiumAvailable())('the page works by hand, on a phone and on a desktop', async () => {
  await using service = await createService()
  const browser = await startBrowser()
  try {
    for (const screen of SCREENS) {
      await using opened = await openPage(browser, screen)
      const { page } = opened
      await page.goto(`${service.url}/login`)
      await page.fill('#email', 'owner@people.test')
      await page.fill('#password', PASSWORD)
      await page.click('button')
      await page.click('text=Signing secrets of webhooks')
      await page.click('text=Show the secret')
      expect([await page.textContent('code'), await overflowPx(page)]).toEqual([service.secret, 0])
      await opened.picture('webhooks')
    }
  } finally {
    await browser.close()
  }
})
