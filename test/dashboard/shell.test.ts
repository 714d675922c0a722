/** @module The frame of the dashboard in Chromium, with the real service: session, keyboard, live updates, security. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser, type OpenDashboard, pressInOneGo } from '#test/support/dashboard.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'

const ADA = 'ada@people.test'

let service: EmailApi
let openWindow: OpenDashboard

async function sendEmail(subject: string): Promise<void> {
  await service.api('POST', '/v1/emails', {
    from: 'ada@sender.test',
    to: 'bob@receiver.test',
    subject,
    text_body: 'Hello',
  })
}

/** Waits until the screen has its data. */
async function show(page: Page, path: string): Promise<void> {
  await page.goto(`${service.url}${path}`)
  await settle(page)
}

async function settle(page: Page): Promise<void> {
  await page.waitForSelector('h1')
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
}

/** The dashboard of a user, with the URLs of requests when they begin: a stream never finishes. */
async function openTabs(email = ADA, path = '/') {
  const dashboard = await openWindow(service, email)
  const begun: string[] = []
  const context = dashboard.page.context()
  context.on('request', (request) => begun.push(request.url()))
  await dashboard.load(path)
  return { ...dashboard, begun, openTab: () => context.newPage() }
}

describeInBrowser('the dashboard', (open, browser) => {
  openWindow = open
  beforeAll(async () => {
    service = await createEmailApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' }, clock: systemClock })
    await createTestUser(service.app, service.actor, ADA, 'owner')
    await sendEmail('Hello')
  })
  afterAll(() => service?.[Symbol.asyncDispose]())

  // Proves: dash-1
  test('leads a stranger to the sign-in page and back to the screen, whose policy allows own scripts only', async () => {
    await using context = await browser().newContext()
    const page = await context.newPage()
    await page.goto(`${service.url}/app/emails?to=bob%40receiver.test`)
    await page.waitForURL(/\/login/)
    await page.fill('#email', ADA)
    await page.fill('#password', PASSWORD)
    await page.click('main button')
    await page.waitForURL(/\/app\/emails\?to=bob/)
    const policy = (await fetch(`${service.url}/app`)).headers.get('content-security-policy') ?? ''
    expect(policy).toContain("script-src 'self';")
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
  })

  // Proves: dash-3
  test('has the icon of every page', async () => {
    const icon = await fetch(`${service.url}/icon.svg`)
    expect([icon.status, icon.headers.get('content-type')]).toEqual([200, 'image/svg+xml'])
    for (const path of ['/app', '/login', '/docs'])
      expect(await (await fetch(`${service.url}${path}`)).text()).toContain('href="/icon.svg"')
  })

  test('is used by keyboard: g e, /, j, k, Enter, Ctrl K, ?', async () => {
    await using tab = await openTabs()
    const { page } = tab
    await settle(page)
    await pressInOneGo(page, 'g', 'e')
    await page.waitForURL(/\/app\/emails$/)
    // The Overview, which may still be shown, has rows too, but no search.
    await page.waitForSelector('[data-search]')
    await page.waitForSelector('[data-row] a')
    // A list that is loaded again would take the focus away with its rows.
    await settle(page)
    await page.keyboard.press('/')
    expect(await page.evaluate('document.activeElement.hasAttribute("data-search")')).toBe(true)
    await page.keyboard.press('Escape')
    await page.evaluate('document.activeElement.blur()')
    await page.keyboard.press('j')
    await page.waitForFunction('document.activeElement.closest("[data-row]") !== null')
    await page.keyboard.press('k')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/app\/emails\/./)
    await settle(page)
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.keyboard.press('Control+k')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('bob')
    await page.getByRole('option', { name: 'bob@receiver.test', exact: true }).waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/app\/people\/bob/)
    await page.getByText('May get mail').waitFor()
    await page.keyboard.press('Control+k')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('bbo@receiver.test')
    await page.getByText('No mail to bbo@receiver.test since').waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/app\/emails\?q=bbo/)
    await page.getByRole('heading', { name: 'No mail to bbo@receiver.test since' }).waitFor()
    await page.locator('main').getByRole('link', { name: 'bob@receiver.test' }).waitFor()
    await page.getByText('Check the spelling.').waitFor()
    // Of a name and a surname with a typing error, those with the name.
    await show(page, '/app/emails?q=bob+brwon')
    await page.locator('main').getByRole('link', { name: 'bob@receiver.test' }).waitFor()
  })

  test('without scripts is one sentence and the links that work', async () => {
    const context = await browser().newContext({ javaScriptEnabled: false })
    const page = await context.newPage()
    await page.goto(`${service.url}/app`)
    expect(await page.locator('noscript p').textContent()).toStartWith('The dashboard needs JavaScript.')
    for (const path of ['/login', '/docs']) expect(await page.locator(`noscript a[href="${path}"]`).count()).toBe(1)
    await context.close()
  })

  test('a session that ends midway is renewed in place, and what was typed stays', async () => {
    await using tab = await openTabs()
    const { page } = tab
    await show(page, '/app/emails')
    await page.locator('[data-search]').fill('carol@receiver.test')
    service.app.db.run('DELETE FROM sessions')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.waitFor()
    await dialog.locator('input[type=password]').fill('wrong')
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    await dialog.getByRole('alert').waitFor()
    await dialog.locator('input[type=password]').fill(PASSWORD)
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await page.locator('[data-search]').inputValue()).toBe('carol@receiver.test')
    await settle(page)
  })

  test('a session of a user who loses a role shows why actions are disabled', async () => {
    const { user, email } = await createTestUser(service.app, service.actor, 'dev@people.test', 'developer')
    await using tab = await openTabs(email, '/suppressions')
    const add = tab.page.getByRole('button', { name: 'Add an address' })
    await add.click()
    await tab.page.getByRole('dialog').getByRole('textbox').first().fill('bob@a.example')
    service.app.db.run("UPDATE members SET role = 'viewer' WHERE user_id = ?", [user.id])
    await tab.page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
    await tab.page.getByText('Your role, viewer, does not allow this').waitFor()
    await tab.page.getByRole('button', { name: 'Back' }).click()
    await tab.page.locator('button[aria-disabled=true]', { hasText: 'Add an address' }).waitFor()
    // A user who is removed is out at the next request.
    service.app.db.run('DELETE FROM sessions WHERE user_id = ?', [user.id])
    service.app.db.run('DELETE FROM members WHERE user_id = ?', [user.id])
    await tab.page.reload()
    await tab.page.waitForURL(/\/login/)
  })

  test('a session that another tab switches to another account starts again there', async () => {
    const { user, email } = await createTestUser(service.app, service.actor, 'two@people.test', 'owner')
    const other = toOperatorActor(
      await createAccount(service.app, { name: 'Other', email: 'o@people.test', plan: 'free' }),
    )
    service.app.db.run(
      "INSERT INTO members (user_id, account_id, role, created_at) VALUES (?, ?, 'owner', 4102444800000)",
      [user.id, other.accountId],
    )
    await using tab = await openTabs(email, '/emails')
    await tab.page.waitForSelector('[data-row]')
    const second = await tab.openTab()
    await second.goto(`${service.url}/app`)
    await second.getByRole('button', { name: 'Test' }).click()
    await second.getByRole('button', { name: 'Other' }).click()
    await second.getByRole('button', { name: 'Other' }).waitFor()
    await tab.page.waitForURL(/\/app$/)
    await tab.page.getByRole('button', { name: 'Other' }).waitFor()
  })

  test('dates are in the time zone of the account once the reader chose it', async () => {
    // Its minutes are not those of other zones.
    const timezone = 'Asia/Kathmandu'
    await service.api('PATCH', '/v1/account', { timezone })
    await sendEmail('Zoned')
    await using tab = await openTabs(undefined, '/emails')
    const time = tab.page.locator('[data-row] time').first()
    const at = new Date((await time.getAttribute('datetime')) ?? '')
    await tab.page.getByRole('button', { name: 'Test' }).click()
    await tab.page.getByRole('option', { name: `Account (${timezone})` }).waitFor({ state: 'attached' })
    await tab.page.getByLabel('Time zone').selectOption('account')
    const minutes = new Date(at.getTime() + 45 * 60_000).toISOString().slice(14, 16)
    const there = tab.page.locator('[data-row] time', { hasText: `:${minutes}` }).first()
    await there.waitFor()
    await tab.page.reload()
    await there.waitFor()
    await service.api('PATCH', '/v1/account', { timezone: 'UTC' })
  })

  test('live updates need one stream for six tabs, and leave connections for requests', async () => {
    // An empty list shows the first event at once.
    await sendEmail('One')
    await using tab = await openTabs()
    await settle(tab.page)
    const pages = [tab.page]
    for (let i = 1; i < 6; i++) {
      const page = await tab.openTab()
      await show(page, '/app')
      pages.push(page)
    }
    for (const page of pages) {
      await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
      await page.getByText('queued').first().waitFor()
    }
    expect(tab.begun.filter((url) => url.includes('after=latest'))).toHaveLength(1)
    const statuses = await Promise.all(
      pages.map((page) => page.evaluate<number>("fetch('/v1/account').then(({ status }) => status)")),
    )
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200])
    await sendEmail('Six')
    for (const page of pages) {
      // A tab in the background reads again when it is looked at.
      await page.bringToFront()
      await page.getByRole('button', { name: /^\d+ new$/ }).waitFor()
    }
    // The next tab takes over when the one with the stream is closed.
    await tab.page.close()
    await eventually(() => tab.begun.filter((url) => url.includes('after=latest')).length === 2)
  })

  test('live updates are polled when a stream never opens', async () => {
    await using tab = await openTabs()
    // The request gets no response.
    await tab.page.route(/after=latest/, () => undefined)
    await tab.page.clock.install()
    await show(tab.page, '/app')
    await tab.page.clock.runFor(seconds(8))
    await tab.page.getByText('Not live').waitFor()
    const reads = () => tab.begun.filter((url) => url.endsWith('/v1/account')).length
    const before = reads()
    await tab.page.clock.runFor(seconds(15))
    await eventually(() => reads() > before)
  })

  test('an upgrade whose assets replaced those of an open page reloads it once', async () => {
    await using tab = await openTabs()
    const { page } = tab
    await settle(page)
    let isGone = true
    let loads = 0
    page.on('load', () => loads++)
    await page.route(/\/app\/assets\/part-/, (route) =>
      isGone ? route.fulfill({ status: 404, body: '' }) : route.continue(),
    )
    page.on('request', (request) => {
      if (request.isNavigationRequest()) isGone = false
    })
    await page.getByRole('link', { name: 'Domains' }).click()
    await eventually(() => loads === 1)
    await page.getByRole('heading', { name: 'Domains', level: 1 }).waitFor()
    expect(loads).toBe(1)
  })
})
