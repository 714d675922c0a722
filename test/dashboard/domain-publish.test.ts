import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Domain, DomainDns, CreateDomainPublishResult as Plan } from '#client/api.ts'
import { describePlan, listNotes, listRows, toPublishLabel, toState } from '#dashboard/screens/domains/publish-state.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { narrowOverflowPx } from '#test/support/browser.ts'
import { describeInBrowser, findAxeViolations, heading } from '#test/support/dashboard.ts'
import { areDaemonsAvailable, type DnsDaemon, SECRET, startDaemon } from '#test/support/dns-daemons.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const VIEWER = 'vera@people.test'

const PLAN = { provider: 'desec', zone: 'example.com', dry_run: true, is_kept: false, records: [], summary: 'Done.' }
const DKIM = { key: 'dkim', type: 'TXT' as const, name: 'a._domainkey.example.com' }

test('what a provider did not accept is listed with the reason, and not called done', () => {
  const published = { ...DKIM, action: 'create' as const, before: [], after: ['v=DKIM1'], reason: 'New.' }
  const toPlan = (state: 'published' | 'failed', error: string | null): Plan => ({
    ...PLAN,
    dry_run: false,
    records: [{ ...published, state, error }],
  })
  const planned = { ...published, state: 'planned' as const, error: null, before: ['a'], after: ['a', 'x'.repeat(200)] }
  expect(listNotes(planned).map(({ word, value }) => [word, value.length])).toEqual([
    ['TXT', DKIM.name.length],
    ['New:', 121],
  ])
  const domain = { domain: 'example.com', status: 'verified', dkim_verified: true } as Domain
  const dns = { records: { dkim: { status: 'verified' } } } as DomainDns
  const failed = toPlan('failed', 'Too long.')
  expect(listRows(failed).map((row) => [toState(row).word, ...listNotes(row).map(({ word }) => word)])).toEqual([
    ['Not published', 'TXT', 'Too long.'],
  ])
  expect(describePlan(domain, dns, failed)).toEqual({ tone: 'bad', word: 'Done. example.com sends its mail.' })
  const done = toPlan('published', null)
  expect(describePlan({ ...domain, status: 'pending' }, dns, done)).toEqual({ tone: 'waiting', word: 'Done.' })
  expect(describePlan(domain, dns, done).word).toBe('All records are there. example.com sends its mail.')
})

test('the button of a plan counts what it changes, and is left out when it would do nothing', () => {
  const toPlan = (action: 'create' | 'change' | 'leave' | 'conflict'): Plan => ({
    ...PLAN,
    records: [{ ...DKIM, action, before: [], after: [], reason: '', state: 'planned', error: null }],
  })
  const credentials = { token: 'x' }
  expect(toPublishLabel(toPlan('change'), {})).toBe('Publish 1 record')
  expect(toPublishLabel(toPlan('leave'), { credentials, keep: true })).toBe('Keep the token')
  expect(toPublishLabel(toPlan('conflict'), { credentials, keep: false })).toBeUndefined()
})

interface PublishService extends TestApi {
  readonly bind: DnsDaemon
  readonly id: string
}

/** A service whose DNS is a BIND with the zone example.com, and that domain, not verified. */
async function startService(records: readonly string[] = []): Promise<PublishService> {
  const bind = await startDaemon('bind', { zone: 'example.com', records: ['@ A 192.0.2.80', ...records] })
  const service = await createTestApi({
    settings: {
      TASSIS_DNS_SERVERS: bind.address,
      TASSIS_OUTBOUND_IPS: '127.0.0.1',
      TASSIS_PUBLIC_URL: 'http://mail.tassis.test',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
    },
  })
  const { app, actor, api } = service
  await createTestUser(app, actor, ADA, 'owner')
  await createTestUser(app, actor, VIEWER, 'viewer')
  const { body } = await api('POST', '/v1/domains', { domain: 'example.com' })
  return {
    ...service,
    bind,
    id: (body as { data: { id: string } }).data.id,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await bind[Symbol.asyncDispose]()
    },
  }
}

async function askForPlan(page: Page, { bind }: PublishService, secret = SECRET): Promise<void> {
  if ((await page.getByLabel('DNS provider of').count()) === 0) {
    await page.getByRole('button', { name: 'Publish with a token' }).click()
    await page.getByLabel('DNS provider of example.com').selectOption('rfc2136')
    await page.getByText('Needed: a TSIG key that may').waitFor()
    await page.getByLabel('Server').fill(bind.address)
    await page.getByLabel('Name of the TSIG key').fill('full')
  }
  await page.getByLabel('Secret of the TSIG key').fill(secret)
  await page.getByRole('button', { name: 'Show the plan' }).click()
}

const planned = (page: Page, key: string, action: string) =>
  page.locator(`[data-planned=${key}][data-action=${action}]`)

describeInBrowser('publishing DNS records in the dashboard', (open) => {
  test.skipIf(!areDaemonsAvailable())('from a plan to all records green; then the token is forgotten', async () => {
    await using service = await startService(['send TXT "v=spf1 ip4:192.0.2.7 -all"'])
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/domains/${service.id}`)
    await page.locator('[data-record=dkim][data-state=missing]').waitFor()
    await askForPlan(page, service, Buffer.alloc(32).toString('base64'))
    await page.getByRole('alert').getByText('with another secret').waitFor()
    expect(await page.getByLabel('Secret of the TSIG key').getAttribute('type')).toBe('password')
    await askForPlan(page, service)
    await planned(page, 'dkim', 'create').waitFor()
    const change = (await planned(page, 'spf', 'change').textContent()) ?? ''
    expect(change).toContain('Before: v=spf1 ip4:192.0.2.7 -all')
    expect(change).toMatch(/After: v=spf1 ip4:127\.0\.0\.1 ip4:192\.0\.2\.7 -all/)
    expect(await findAxeViolations(page)).toEqual([])
    expect(await narrowOverflowPx(page)).toBe(0)
    expect((await service.bind.dump()).join('\n')).not.toContain('DKIM1')
    await page.getByRole('button', { name: 'Back' }).click()
    expect(await page.getByLabel('Name of the TSIG key').inputValue()).toBe('full')
    await askForPlan(page, service)
    await page.getByRole('button', { name: /^Publish \d records$/ }).click()
    await page.getByRole('status').getByText('All records are there. example.com sends its mail.').waitFor()
    for (const key of ['spf', 'dkim', 'return_path', 'dmarc', 'dkim_ed25519'])
      await page.locator(`[data-record=${key}][data-state=verified]`).waitFor()
    await page.getByText(/^Published by RFC 2136.* token kept since .* last publish /).waitFor()
    expect(await page.locator('[aria-current=step]').textContent()).toContain('Test email')
    await page.getByRole('button', { name: 'Publish again' }).click()
    await planned(page, 'dkim', 'leave').waitFor()
    await page.getByText('All records are there: nothing is to be changed.').waitFor()
    await page.getByRole('button', { name: 'Back' }).click()
    await page.getByRole('button', { name: 'Forget the token' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Forget the token' }).click()
    await page.getByText('The token was forgotten.').waitFor()
    await page.getByRole('button', { name: 'Publish with a token' }).waitFor()
    await dashboard.expectHarmless()
  })

  test.skipIf(!areDaemonsAvailable())('a conflict is named with what to do, and is not touched', async () => {
    await using service = await startService(['send CNAME mail.elsewhere.test.'])
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/domains/${service.id}`)
    await askForPlan(page, service)
    const conflict = planned(page, 'return_path', 'conflict')
    await conflict.waitFor()
    expect(await conflict.textContent()).toContain('Conflict, not touched')
    expect(await conflict.textContent()).toContain('Remove it first.')
    await page.getByLabel('Keep the token').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: /^Publish \d records$/ }).click()
    await page.getByRole('status').getByText('to settle by hand').waitFor()
    await page.locator('[data-record=dkim][data-state=verified]').waitFor()
    await conflict.waitFor()
    await planned(page, 'dkim', 'create').waitFor({ state: 'detached' })
    expect(await service.bind.dump()).toContain('send.example.com CNAME mail.elsewhere.test')
  })

  test('the page of a provider is offered to those who may publish, with its form open', async () => {
    await using service = await startService()
    const fields = [{ name: 'token', label: 'API token', is_secret: true, is_required: true, hint: null }]
    const cloudflare = { name: 'cloudflare', title: 'Cloudflare', rights: 'DNS, Edit.', token_url: null, fields }
    const data = {
      ...{ provider: null, zone: null, kept_at: null, published_at: null, error: null },
      ...{ suggested_provider: 'cloudflare', domain_connect_url: 'https://connect.test/', providers: [cloudflare] },
    }
    for (const email of [ADA, VIEWER]) {
      await using dashboard = await open(service, email)
      const { page } = dashboard
      await page.route('**/publish', (route) => route.fulfill({ json: { data } }))
      await dashboard.goTo(`/domains/${service.id}`)
      await heading(page, 'Publish for me')
      const isViewer = email === VIEWER
      const links = page.getByRole('link', { name: 'Add them at Cloudflare (new tab)' })
      const button = page.getByRole('button', { name: 'Publish with a token' })
      expect([await links.count(), await page.getByLabel('API token').count(), await button.count()]).toEqual(
        isViewer ? [0, 0, 1] : [1, 1, 0],
      )
      if (isViewer) expect(await button.getAttribute('aria-disabled')).toBe('true')
      else expect(await links.getAttribute('href')).toBe('https://connect.test/')
    }
  })
})
