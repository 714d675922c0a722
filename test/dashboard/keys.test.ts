/** @module API keys in the dashboard, in Chromium and with the real service. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ALL_SCOPES, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, summariseScopes } from '#dashboard/parts/scopes.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { callMcp, connectClient, createOauthApi } from '#test/features/people/team/oauth/fixture.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const DEV = 'dev@people.test'

describe('scopes', () => {
  test('are described, each in one group', () => {
    const useful: readonly string[] = SCOPES.filter((scope) => scope !== 'analytics:write').toSorted()
    expect([...ALL_SCOPES].map(String).toSorted()).toEqual([...useful])
    expect(SCOPE_GROUPS.flatMap(({ scopes }) => scopes.map(String)).toSorted()).toEqual([...useful])
  })

  test('are summarised by preset or by name', () => {
    expect(SCOPE_PRESETS.map(({ scopes }) => findPreset(scopes)?.label)).toEqual(['Sending', 'Full access'])
    expect(summariseScopes(['account:admin'])).toBe('Full access')
    expect(summariseScopes(['emails:send', 'emails:read'])).toBe('emails:send, emails:read')
    expect(summariseScopes(['a:read', 'b:read', 'c:read', 'd:read'])).toBe('a:read, b:read, c:read and 1 more')
    expect(summariseScopes([])).toBe('Nothing')
  })
})

describeInBrowser('API keys in the dashboard', (open) => {
  let service: TestApi
  beforeAll(async () => {
    service = await createOauthApi()
    await createTestUser(service.app, service.actor, DEV, 'developer')
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
  })

  const listKeys = async () => {
    const { body } = await service.api('GET', '/v1/api-keys')
    return at(body, 'data') as { id: string; name: string; scopes: string[]; last_used_at: string | null }[]
  }

  test('a key is created, shown once, used by its command, and revoked', async () => {
    await service.api('POST', '/v1/domains', { domain: 'shop.test' })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    await heading(page, 'Create an API key')
    await page.keyboard.press('Enter')
    await page.locator('input:invalid:focus').waitFor()
    await page.getByLabel('Name').fill('web shop')
    await page.getByRole('radio', { name: 'Full access' }).check()
    await page.getByText('This key can do everything').waitFor()
    await page.getByRole('radio', { name: 'Sending' }).check()
    expect(await page.getByRole('checkbox', { name: 'emails:send' }).count()).toBe(0)
    await page.getByRole('radio', { name: 'Custom' }).check()
    expect(await page.getByRole('checkbox', { name: 'emails:send' }).isChecked()).toBe(true)
    await page.getByRole('checkbox', { name: 'domains:read' }).check()
    await page.getByRole('checkbox', { name: 'domains:write' }).check()
    await page.getByLabel('Expires').fill('2099-12-31T23:30')
    await page.getByLabel('Domain', { exact: true }).selectOption('shop.test')
    await page.getByLabel('Allowed networks').fill('everywhere')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('A network must be an address or a range').first().waitFor()
    await page.getByLabel('Allowed networks').fill('127.0.0.0/8')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('Copy it now').waitFor()
    const key = (await page.locator('[data-secret]').textContent()) ?? ''
    expect(key).toMatch(/^tassis_live_\w{32}$/)
    expect(await page.locator('pre').textContent()).toContain(`Authorization: Bearer ${key}`)
    const [created] = await listKeys()
    expect(created).toMatchObject({
      name: 'web shop',
      domains: ['shop.test'],
      networks: ['127.0.0.0/8'],
    })
    expect(created?.scopes).toContain('domains:write')
    const response = await fetch(`${service.url}/v1/domains`, { headers: { authorization: `Bearer ${key}` } })
    expect(response.status).toBe(200)
    expect((await fetch(`${service.url}/v1/api-keys`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(
      403,
    )
    // Shown once: neither in the list, nor after going back.
    await page.getByRole('link', { name: 'I have copied it' }).click()
    await page.getByRole('link', { name: 'web shop' }).waitFor()
    expect(await page.content()).not.toContain(key)
    await page.goBack()
    await heading(page, 'Create an API key')
    expect(await page.content()).not.toContain(key)
    expect(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')).not.toContain(key)

    await dashboard.goTo('/keys')
    await page.getByRole('link', { name: 'web shop' }).click()
    await heading(page, 'web shop')
    await page.getByText('Add, verify, change and delete domains').waitFor()
    expect(await page.getByLabel('Domain', { exact: true }).inputValue()).toBe('shop.test')
    expect(await page.getByLabel('Allowed networks').inputValue()).toBe('127.0.0.0/8')
    await page.getByRole('button', { name: 'Delete this key' }).click()
    await page.getByRole('dialog').getByText('It has never been used.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Delete this key' }).click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await heading(page, 'API keys')
    await page.getByRole('link', { name: 'web shop' }).waitFor({ state: 'detached' })
    const after = await fetch(`${service.url}/v1/domains`, { headers: { authorization: `Bearer ${key}` } })
    expect(after.status).toBe(401)
    await page.goBack()
    await page.getByText('It may have been deleted, or belong to another account.').waitFor()
    await dashboard.expectHarmless()
  })

  test('a key is changed, and only what was changed is sent', async () => {
    const made = await service.api('POST', '/v1/api-keys', {
      name: 'old name',
      scopes: ['emails:send', 'emails:read'],
      expires_at: '2099-06-01T10:20:30.456Z',
      domains: ['shop.test'],
    })
    const { id, key } = at(made.body, 'data') as { readonly id: string; readonly key: string }
    const stored = async () => (await listKeys()).find((one) => one.id === id)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    const save = page.getByRole('button', { name: 'Save' })
    await dashboard.goTo(`/keys/${id}`)
    expect(await page.getByLabel('Domain', { exact: true }).inputValue()).toBe('shop.test')
    expect(await page.getByLabel('Expires').inputValue()).toMatch(/^2099-06-01T\d\d:20$/)
    await page.getByLabel('Name').fill('new name')
    await page.getByLabel('Domain', { exact: true }).selectOption('All domains')
    await page.getByLabel('Allowed networks').fill('everywhere')
    await page.getByRole('checkbox', { name: 'domains:read' }).check()
    await save.click()
    await page.getByText('A network must be an address or a range').first().waitFor()
    expect(await stored()).toMatchObject({ name: 'old name' })
    await page.getByLabel('Allowed networks').fill('127.0.0.0/8 ::1')
    await save.click()
    await page.getByText('Saved.').waitFor()
    await heading(page, 'new name')
    await page.getByText('See domains and their DNS records').waitFor()
    const changed = await stored()
    expect(changed).toMatchObject({
      name: 'new name',
      domains: null,
      networks: ['127.0.0.0/8', '::1'],
      // Its field has minutes only.
      expires_at: '2099-06-01T10:20:30.456Z',
    })
    expect(changed?.scopes.toSorted()).toEqual(['domains:read', 'emails:read', 'emails:send'])
    const used = await fetch(`${service.url}/v1/domains`, { headers: { authorization: `Bearer ${key}` } })
    expect(used.status).toBe(200)
    await page.getByLabel('Name').fill(' ')
    await save.click()
    await page.locator('[aria-invalid=true]').waitFor()
    await page.getByLabel('Name').fill('new name')
    await page.getByLabel('Expires').fill('')
    await save.click()
    await page.getByText('Saved.').waitFor()
    expect(await stored()).toMatchObject({ name: 'new name', expires_at: null })
    expect(dashboard.errors).toEqual([])
    await service.api('DELETE', `/v1/api-keys/${id}`)
  })

  test('a key for an agent is restricted, and its drafts are released and discarded', async () => {
    const { app, api } = service
    await api('POST', '/v1/domains', { domain: 'agents.test' })
    app.db.run("UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE domain = 'agents.test'")
    const mailbox = at((await api('POST', '/v1/agent-mailboxes', { local_part: 'helper' })).body, 'data', 'id')
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/keys/new')
    await page.getByLabel('Name').fill('helper')
    await page.getByLabel('Emails wait until a person releases them').check()
    await page.getByLabel('Allowed recipients').fill('@receiver.test nobody')
    await page.getByLabel('Emails a day').fill('5')
    await page.getByLabel('Mailbox').selectOption('helper@agents.test')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('Allowed recipient 2: "nobody" is not an address').waitFor()
    await page.getByLabel('Allowed recipients').fill('@receiver.test')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByText('Copy it now').waitFor()
    const key = (await page.locator('[data-secret]').textContent()) ?? ''
    expect((await listKeys())[0]).toMatchObject({
      drafts: true,
      allowed_recipients: ['@receiver.test'],
      daily_limit: 5,
      mailbox_id: mailbox,
    })
    const statusOf = async (id: string) => at((await api('GET', `/v1/emails/${id}`)).body, 'data', 'status')
    for (const [button, confirm, status] of [
      ['Release', 'Release', 'queued'],
      ['Discard', 'Discard it', 'cancelled'],
    ] as const) {
      const email = { from: 'helper@agents.test', to: 'bob@receiver.test', subject: 'An offer', text_body: 'Hello Bob' }
      const id = String(at((await api('POST', '/v1/emails', email, { key })).body, 'data', 'id'))
      await dashboard.goTo(`/emails/${id}`)
      await page.getByText('It waits until a person releases it').first().waitFor()
      await page.getByRole('button', { name: button, exact: true }).click()
      await page.getByRole('dialog').getByRole('button', { name: confirm, exact: true }).click()
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(await statusOf(id)).toBe(status)
      await page.getByRole('button', { name: 'Release', exact: true }).waitFor({ state: 'detached' })
    }
    expect(dashboard.errors).toEqual([])
  })

  test('a connected app is shown as such, by whom, and disconnected', async () => {
    const { tokens } = await connectClient(service, { 'emails:send': 'yes' })
    expect((await callMcp(service, tokens.access_token)).status).toBe(200)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/keys')
    await page.getByText('Connected app').waitFor()
    await page.getByText(`by ${ADA}`).waitFor()
    await page.getByRole('link', { name: 'Helper', exact: true }).click()
    await heading(page, 'Helper')
    for (const text of ['Connected app', 'Connected by', 'Last use', 'Send emails'])
      await page.getByText(text).first().waitFor()
    await page.getByRole('button', { name: 'Disconnect' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Disconnect' }).click()
    await heading(page, 'API keys')
    expect((await callMcp(service, tokens.access_token)).status).toBe(401)
    await dashboard.expectHarmless()
  })

  test('what was typed stays when the server cannot be reached, is busy or refuses', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/keys/new')
    await page.getByLabel('Name').fill('kept')
    const create = page.getByRole('button', { name: 'Create the key' })
    await page.route('**/v1/api-keys', (route) => route.abort())
    await create.click()
    await page.getByText('The server cannot be reached.').waitFor()
    await page.unroute('**/v1/api-keys')
    await page.route('**/v1/api-keys', (route) =>
      route.fulfill({ status: 429, json: { code: 'rate_limited', message: 'Too many requests.', retry_after: 7 } }),
    )
    await create.click()
    await page.getByText('You can try again in 7 s.').waitFor()
    await page.unroute('**/v1/api-keys')
    await page.route('**/v1/api-keys', (route) =>
      route.fulfill({
        status: 422,
        json: { code: 'validation_error', message: 'x', details: [{ field: 'name', message: 'The name is taken.' }] },
      }),
    )
    await create.click()
    await page.getByText('The name is taken.').waitFor()
    expect(await page.getByLabel('Name').inputValue()).toBe('kept')
    expect(await page.getByRole('radio', { name: 'Sending' }).isChecked()).toBe(true)
  })
})
