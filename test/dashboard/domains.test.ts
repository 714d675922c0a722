import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { RecordKey } from '#dashboard/screens/domains/state.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { type DnsServer, type NameEntry, startDnsServer } from '#test/support/dns-server.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const HOSTILE = '<script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e'

interface DomainService extends TestApi {
  readonly dns: DnsServer
  readonly sink: Sink
}

/** A service whose DNS is the fixture, and whose mail to people.test arrives in the sink. */
async function startService(): Promise<DomainService> {
  const sink = await startSink()
  const dns = await startDnsServer({
    'people.test': { MX: [{ preference: 10, exchange: 'mx.people.test' }] },
    'mx.people.test': { A: ['127.0.0.1'] },
    'example.com': { NS: ['hydrogen.ns.hetzner.com', 'oxygen.ns.hetzner.com'], A: ['192.0.2.80'] },
  })
  const service = await createTestApi({
    delivers: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_OUTBOUND_IPS: '127.0.0.1',
      TASSIS_SMTP_PORT: String(sink.port),
      TASSIS_PUBLIC_URL: 'http://mail.tassis.test',
    },
  })
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  return {
    ...service,
    dns,
    sink,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await sink[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

interface Created {
  readonly id: string
  readonly dns_records: Readonly<
    Record<string, { readonly type: string; readonly host: string; readonly value: string; readonly priority?: number }>
  >
}

async function addDomain({ api }: TestApi, domain: string): Promise<Created> {
  const { status, body } = await api('POST', '/v1/domains', { domain })
  if (status !== 201) throw new Error(`not added: ${JSON.stringify(body)}`)
  return (body as { data: Created }).data
}

/** Publishes records of a domain in the fixture, beside existing ones. */
function publish({ dns }: DomainService, { dns_records: records }: Created, ...keys: readonly RecordKey[]): void {
  for (const key of keys) {
    const record = records[key]
    if (!record) throw new Error(`no record ${key}`)
    const there = dns.zone[record.host]
    const entry: NameEntry = typeof there === 'object' ? there : {}
    dns.zone[record.host] = entry
    if (record.type === 'MX') entry.MX = [{ preference: record.priority ?? 0, exchange: record.value }]
    else if (record.type === 'CNAME') entry.CNAME = record.value
    else entry.TXT = [record.value]
  }
}

async function findDomain({ api }: TestApi, name: string): Promise<Created> {
  const { body } = await api('GET', '/v1/domains')
  const found = (body as { data: (Created & { domain: string })[] }).data.find(({ domain }) => domain === name)
  if (!found) throw new Error(`no domain ${name}`)
  return found
}

/** Lets the time of the page pass, so that its next check of DNS is due. */
async function passTime(page: Page): Promise<void> {
  await page.clock.fastForward(11_000)
}

const record = (page: Page, key: RecordKey, state: string) =>
  page.locator(`[data-record=${key}][data-state=${state}]`).waitFor()

describeInBrowser('the domains in the dashboard', (open) => {
  test('a domain below a verified one is shown as sent, signed by that one', async () => {
    await using service = await startService()
    await addDomain(service, 'example.com')
    service.app.db.run('UPDATE domains SET verified_at = 1')
    const { id } = await addDomain(service, 'news.example.com')
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/domains')
    await page.getByTitle('Signed by example.com').waitFor()
    await dashboard.goTo(`/domains/${id}`)
    await page.getByText('Its mail is sent, signed by example.com.').waitFor()
    expect(await page.getByText('captured').count()).toBe(0)
  })

  test('a domain is added, its records turn green one by one, and a test email arrives', async () => {
    await using service = await startService()
    service.dns.zone['_dmarc.example.com'] = { TXT: ['v=DMARC1; p=reject; rua=mailto:dmarc@example.com'] }
    service.dns.zone['send.example.com'] = { TXT: ['v=spf1 include:_spf.other.test ~all'] }
    service.dns.zone['_spf.other.test'] = { TXT: ['v=spf1 ip4:192.0.2.7 -all'] }
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await page.clock.install()
    await dashboard.goTo('/domains')
    await heading(page, 'Your domains will appear here')
    await page.getByRole('button', { name: 'Add a domain' }).click()
    await heading(page, 'Add a domain')
    const field = page.getByLabel('Domain')
    await field.fill('exa_mple.com')
    await page.keyboard.press('Enter')
    await page.getByText('has an invalid character').waitFor()
    expect(await field.inputValue()).toBe('exa_mple.com')
    await field.fill('Example.com')
    await page.keyboard.press('Enter')
    await heading(page, 'example.com')
    await page.getByText(/is at Hetzner/).waitFor()
    await page.evaluate('window.isSamePage = true')
    await record(page, 'spf', 'wrong')
    await record(page, 'dkim', 'missing')
    await record(page, 'return_path', 'missing')
    await record(page, 'dmarc', 'verified')
    expect(await page.getByRole('row', { name: 'DKIM (Ed25519)' }).textContent()).toContain('Optional')
    expect(await page.locator('[data-record=dmarc]').textContent()).toContain('p=reject')
    expect(await page.locator('[data-record=dkim] code').first().textContent()).toMatch(/^ts\w{8}\._domainkey$/)
    await page.getByRole('switch', { name: 'Full names' }).click()
    expect(await page.locator('[data-record=spf] code').first().textContent()).toBe('send.example.com')
    expect(await page.locator('[aria-current=step]').textContent()).toContain('DNS records')

    const domain = await findDomain(service, 'example.com')
    publish(service, domain, 'dkim')
    await passTime(page)
    await record(page, 'dkim', 'verified')
    await page
      .getByRole('status')
      .getByText(/Verified records:.* DKIM/)
      .waitFor()
    publish(service, domain, 'return_path')
    await passTime(page)
    await record(page, 'return_path', 'verified')
    await record(page, 'spf', 'wrong')
    const merged = (await page.locator('[data-record=spf] code').nth(1).textContent()) ?? ''
    expect(merged).toContain('include:_spf.other.test')
    service.dns.zone['send.example.com'] = {
      ...(service.dns.zone['send.example.com'] as NameEntry),
      TXT: [merged],
    }
    await passTime(page)
    await record(page, 'spf', 'verified')
    await page.getByRole('status').getByText('example.com is verified.').waitFor()
    await page.getByText('All required records are verified').waitFor()
    expect(await page.locator('[aria-current=step]').textContent()).toContain('Test email')

    await page.getByRole('button', { name: 'Send a test email' }).click()
    await page.getByText(`The test email is on its way to ${ADA}.`).waitFor()
    const message = await eventually(() => service.sink.messages[0])
    expect(message.rcptTo).toEqual([ADA])
    expect(message.raw).toContain('Test email from example.com')
    expect(await page.evaluate('window.isSamePage')).toBe(true)
    await page.getByRole('link', { name: 'See what happens to it' }).click()
    await heading(page, 'Test email from example.com')
    await dashboard.expectHarmless()
  })

  test('setting up continues where it was left, and what strangers publish is only text', async () => {
    await using service = await startService()
    const domain = await addDomain(service, 'example.com')
    publish(service, domain, 'dkim')
    service.dns.zone[`send.example.com`] = { TXT: [`v=spf1 ${HOSTILE} -all`] }
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/domains')
    await page.getByRole('link', { name: 'example.com' }).click()
    await record(page, 'dkim', 'verified')
    await record(page, 'spf', 'wrong')
    expect(await page.locator('[aria-current=step]').textContent()).toContain('DNS records')
    expect(await page.locator('[data-record=spf]').textContent()).toContain('<script>')
    await dashboard.expectHarmless()
    // The page stored what it found.
    await eventually(async () => {
      const { body } = await service.api('GET', `/v1/domains/${domain.id}`)
      return (body as { data: { dkim_verified: boolean } }).data.dkim_verified
    })
    const zone = await page.evaluate<string>(
      `fetch(document.querySelector('a[download]').href).then((response) => response.text())`,
    )
    expect(zone).toContain('$ORIGIN')
  })

  test('inbound mail and a tracking host are switched on and show their records', async () => {
    await using service = await startService()
    const domain = await addDomain(service, 'example.com')
    publish(service, domain, 'spf', 'dkim', 'return_path', 'dmarc')
    await service.api('POST', `/v1/domains/${domain.id}/verify`)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await page.clock.install()
    await dashboard.goTo(`/domains/${domain.id}`)
    await page.getByText('All required records are verified').waitFor()
    await page.getByRole('switch', { name: 'Receive mail' }).click()
    await record(page, 'mx', 'missing')
    await page.getByRole('switch', { name: 'Own host for tracked links' }).click()
    await page.getByRole('textbox', { name: 'Host' }).fill('example.com')
    await page.getByRole('button', { name: 'Use this host' }).click()
    await page.getByText('itself cannot have a CNAME record').waitFor()
    await page.getByRole('textbox', { name: 'Host' }).fill('links.example.com')
    await page.keyboard.press('Enter')
    await record(page, 'tracking', 'missing')
    publish(service, await findDomain(service, 'example.com'), 'mx', 'tracking')
    await passTime(page)
    await record(page, 'mx', 'verified')
    await record(page, 'tracking', 'verified')
    await page.getByText('Links in tracked mail lead through links.example.com.').waitFor()
    await page.getByRole('switch', { name: 'Own host for tracked links' }).click()
    await page.getByRole('button', { name: 'Stop using it' }).click()
    await page.locator('[data-record=tracking]').waitFor({ state: 'detached' })
  })

  test('a lost record is shown with the time until which the domain sends', async () => {
    await using service = await startService()
    const domain = await addDomain(service, 'example.com')
    publish(service, domain, 'spf', 'dkim', 'return_path', 'dmarc')
    await service.api('POST', `/v1/domains/${domain.id}/verify`)
    service.dns.zone[domain.dns_records['dkim']?.host ?? ''] = 'NXDOMAIN'
    const sending = service.dns.zone['send.example.com'] as NameEntry
    service.dns.zone['send.example.com'] = { TXT: sending.TXT ?? [] }
    await service.api('POST', `/v1/domains/${domain.id}/verify`)
    // As a rotation leaves it.
    service.app.db.run(
      "INSERT INTO dkim_keys (domain_id, selector, dkim_public_key, created_at, retired_at) SELECT id, 'former', 'x', 1, ? FROM domains",
      [service.app.clock.now()],
    )
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/domains')
    await page.getByText(/Lost .*DKIM.*: sends until/).waitFor()
    await page.getByRole('link', { name: 'example.com' }).click()
    await page.getByText('Missing in DNS: DKIM, Return path').waitFor()
    await record(page, 'dkim', 'missing')
    expect(await page.locator('[data-record=dkim]').textContent()).toContain('Lost')
    const status = page.getByRole('status').filter({ hasText: 'Verified records: ' })
    expect(await status.textContent()).toBe('Verified records: SPF, DMARC')
    const former = page.getByRole('region', { name: 'Former DKIM keys' })
    await former.getByText('former._domainkey.example.com and formere._domainkey.example.com: keep until').waitFor()
  })

  test('works by keyboard: opens a domain and deletes it after its name was typed', async () => {
    await using service = await startService()
    await addDomain(service, 'first.example.com')
    await addDomain(service, 'second.example.com')
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/domains')
    await page.getByRole('link', { name: 'second.example.com' }).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await heading(page, 'second.example.com')
    await page.getByRole('button', { name: 'Delete this domain' }).focus()
    await page.keyboard.press('Enter')
    const field = page.getByLabel('Type second.example.com to confirm')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('first.example.com')
    await page.keyboard.press('Enter')
    await page.getByText('This is not second.example.com.').waitFor()
    await page.keyboard.press('Escape')
    await field.waitFor({ state: 'detached' })
    // The focus returns a moment after the dialog is gone.
    await page.locator('button:focus', { hasText: 'Delete this domain' }).waitFor()
    await page.keyboard.press('Enter')
    await field.waitFor()
    await field.fill('second.example.com')
    await page.keyboard.press('Enter')
    await heading(page, 'Domains')
    await page.getByRole('link', { name: 'second.example.com' }).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'first.example.com' }).waitFor()
  })
})
