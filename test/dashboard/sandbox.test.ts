import { expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser } from '#test/support/dashboard.ts'
import { CAPTURE_OPTIONS, createTestUser, signIn } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const VIEWER = 'vera@people.test'

async function createService(): Promise<TestApi> {
  const service = await createTestApi(CAPTURE_OPTIONS)
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  await createTestUser(app, actor, VIEWER, 'viewer')
  await createDomain(app, actor, 'sender.test')
  return service
}

/** Sends an email and waits until it is captured. */
async function capture({ api }: TestApi, request: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await api('POST', '/v1/emails', {
    from: 'Ada <ada@sender.test>',
    to: 'bob@x.test',
    subject: 'Hello',
    text_body: 'Hello, Bob.',
    ...request,
  })
  if (status !== 202) throw new Error(`not accepted: ${JSON.stringify(body)}`)
  const { id } = (body as { data: { id: string } }).data
  await eventually(async () => (await api('GET', `/v1/captured-emails/${id}`)).status === 200 || undefined)
  return id
}

const rows = (page: Page) => page.locator('[data-row]')
const row = (page: Page, text: string) => page.locator('[data-row]', { hasText: text })
const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true })
const tab = (page: Page, name: string) => page.getByRole('tab', { name }).click()

describeInBrowser('captured mail in the dashboard', (open) => {
  test('is an inbox: seen live, searched, opened and deleted by keyboard', async () => {
    await using service = await createService()
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/sandbox')
    await heading(page, 'No captured mail yet').waitFor()
    expect(await page.locator('pre, code').first().textContent()).toContain(`curl ${service.url}/v1/emails`)
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    await page.evaluate('window.isSamePage = true')

    await capture(service, { subject: 'The first' })
    await row(page, 'The first').waitFor()
    await capture(service, { subject: 'The second', to: ['carol@y.test', 'dave@y.test'] })
    await capture(service, { subject: 'The third' })
    // The list does not jump: later emails are offered.
    const offer = page.getByRole('button', { name: '2 new' })
    await offer.waitFor()
    expect(await rows(page).count()).toBe(1)
    await offer.click()
    await row(page, 'The third').waitFor()
    await page.getByText('3 unread').waitFor()
    expect(await row(page, 'The second').textContent()).toContain('carol@y.test +1')

    await page.locator('h1').click()
    for (const key of ['j', 'j', 'Enter']) await page.keyboard.press(key)
    await heading(page, 'The second').waitFor()
    await page.waitForURL(/\/sandbox\/[\w-]+/)
    await page.getByText('2 unread').waitFor()
    await page.locator('[data-row][data-unread=false]', { hasText: 'The second' }).waitFor()
    await page.getByRole('button', { name: 'Mark as unread' }).click()
    await page.getByText('3 unread').waitFor()
    await page.getByRole('button', { name: 'Mark as read' }).click()
    await page.getByText('2 unread').waitFor()

    await page.locator('h1').click()
    await page.keyboard.press('Delete')
    await page.getByRole('dialog', { name: 'Delete this captured email?' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await rows(page).count()).toBe(3)
    await page.keyboard.press('Delete')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await row(page, 'The second').waitFor({ state: 'detached' })
    // The focus is on the row beside it.
    await page.locator('[data-row] a:focus', { hasText: 'The first' }).waitFor()
    await page.getByText('Choose an email to read it').waitFor()

    await page.keyboard.press('/')
    await page.keyboard.type('first')
    await page.keyboard.press('Enter')
    await page.waitForURL(/q=first/)
    await row(page, 'The third').waitFor({ state: 'detached' })
    await page.getByLabel('Only unread').check()
    await page.waitForURL(/unread=/)
    await rows(page).first().locator('a').click()
    await heading(page, 'The first').waitFor()
    expect(page.url()).toContain('q=first')
    await page.getByText('1 unread').waitFor()
    // It stays until the list is shown again.
    await page.locator('[data-row][data-unread=false]', { hasText: 'The first' }).waitFor()
    await goTo('/sandbox?q=nothing')
    await heading(page, 'No captured email matches these filters').waitFor()
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await row(page, 'The third').waitFor()

    await page.getByRole('button', { name: 'Delete all' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete all' }).click()
    await heading(page, 'No captured mail yet').waitFor()
    await dashboard.expectHarmless()
  })

  test('that is opened while the list is being read again stays read', async () => {
    await using service = await createService()
    await capture(service, { subject: 'The first' })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/sandbox')
    await row(page, 'The first').waitFor()
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    const [fetched, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let reads = 0
    await page.route(/captured-emails\?per_page=50/, async (route) => {
      if (++reads > 1) return route.continue()
      const response = await route.fetch()
      fetched.resolve()
      await opened.promise
      // By then the page may have given it up.
      await route.fulfill({ response }).catch(() => undefined)
    })
    await capture(service, { subject: 'The second' })
    await fetched.promise
    await row(page, 'The first').locator('a').click()
    await page.locator('[data-row][data-unread=false]', { hasText: 'The first' }).waitFor()
    opened.resolve()
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect(await row(page, 'The first').getAttribute('data-unread')).toBe('false')
  })

  test('shows content, headers, source, attachments, and checks links', async () => {
    await using service = await createService()
    const links = ['http://127.0.0.2:1/closed', 'https://shop.test/unsubscribe?u=1']
    const id = await capture(service, {
      html_body: `<p>Hello <a href="${links[0]}">Shop</a> <a href="${links[1]}">Leave</a></p>`,
      headers: { 'X-Note': 'Zürich' },
      attachments: [{ filename: 'invoice.pdf', content: btoa('PDF'), content_type: 'application/pdf' }],
    })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/sandbox')
    await rows(page).first().locator('a').click()
    await page.waitForURL(/\/sandbox\/[\w-]+/)
    const frame = page.frameLocator('iframe')
    await frame.getByText('Hello').waitFor()
    await tab(page, 'Text')
    await page.getByText('Hello, Bob.').waitFor()
    await tab(page, 'Headers')
    await page.getByText('DKIM-Signature').waitFor()
    await page.getByText('Zürich').waitFor()
    await tab(page, 'Source')
    await page.getByText('Content-Type: multipart/mixed').waitFor()
    await tab(page, 'Attachments')
    await page.getByRole('link', { name: 'invoice.pdf' }).waitFor()
    expect(await page.getByRole('tab', { name: 'Attachments' }).and(page.locator(':focus')).count()).toBe(1)
    const download = page.waitForEvent('download')
    await page.getByRole('link', { name: 'invoice.pdf' }).click()
    expect((await download).suggestedFilename()).toBe('invoice.pdf')

    // From here on, the page requests nothing by itself.
    await page.getByText('0 unread').waitFor()
    // The message stays whole when it is marked as read.
    await page.getByRole('link', { name: 'invoice.pdf' }).waitFor()
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    const started: string[] = []
    page.on('request', (request) => started.push(request.url()))
    await tab(page, 'Links')
    await page.getByText('learn its address').waitFor()
    expect(page.url()).toContain('tab=links')
    // Code only: links are requested when the button asks for it.
    expect(started.filter((url) => !/\/app\/assets\/|\/icon\.svg$/.test(url))).toEqual([])
    await page.getByRole('button', { name: 'Check the links' }).click()
    await page.getByText('2 links').waitFor()
    const table = page.getByRole('table', { name: 'Links' })
    expect(await table.textContent()).toContain('It may unsubscribe the recipient')
    expect(await table.textContent()).toContain('Port 1 is not one of the web')
    await page.getByRole('link', { name: 'See the email' }).click()
    await page.waitForURL(`**/app/emails/${id}`)
    await dashboard.expectHarmless()
  })

  test('on a phone is a list, then a message; a lost message is explained', async () => {
    await using service = await createService()
    await capture(service, { subject: 'On a phone' })
    await using dashboard = await open(service, ADA, { width: 390 })
    const { page, goTo } = dashboard
    await goTo('/sandbox')
    await row(page, 'On a phone').locator('a').click()
    await heading(page, 'On a phone').waitFor()
    expect(await rows(page).count()).toBe(0)
    await page.getByRole('link', { name: 'All captured mail' }).click()
    await row(page, 'On a phone').waitFor()
    await row(page, 'On a phone').locator('a').click()
    await heading(page, 'On a phone').waitFor()
    await page.keyboard.press('Escape')
    await row(page, 'On a phone').waitFor()
    await page.locator('[data-row] a:focus', { hasText: 'On a phone' }).waitFor()
    await goTo('/sandbox/01900000-0000-7000-8000-000000000000')
    await page.getByText('it may have been deleted').waitFor()
    await page.getByRole('link', { name: 'All captured mail' }).waitFor()
  })
})

test('pictures beyond the first MiB of a message are shown whole', async () => {
  await using service = await createService()
  const logo = (size: number, fill: string) => Buffer.alloc(size, fill).toString('base64')
  const attachments = [
    { filename: 'a.png', content: logo(1_500_000, 'a'), content_type: 'image/png', content_id: 'a' },
    { filename: 'b.png', content: logo(1000, 'b'), content_type: 'image/png', content_id: 'b' },
    { filename: 'c.png', content: logo(2_000_000, 'c'), content_type: 'image/png', content_id: 'c' },
  ]
  const html = '<img src="cid:a"><img src="cid:b"><img src="cid:c">'
  const id = await capture(service, { html_body: html, attachments })
  const { headers } = await signIn(service, VIEWER)
  const text = await (await fetch(`${service.url}/app/captured/${id}/html`, { headers })).text()
  const sources = [...text.matchAll(/src="([^"]*)"/g)].map(([, source]) => source)
  const url = (content = '') => `data:image/png;base64,${content}`
  // The third does not fit the page any more.
  expect(sources).toEqual([url(attachments[0]?.content), url(attachments[1]?.content), 'cid:c'])
})
