/** @module The settings in Chromium, with the real service: what owners, admins and viewers can do and see there. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Secret, TOTP } from 'otpauth'
import type { Page } from 'playwright-core'
import { renderSVG } from 'uqr'
import type { Actor, TeamRole } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { systemClock } from '#platform/time/clock.ts'
import { drawLogo } from '#test/features/setup/wording/logos.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { createBillingApi } from '#test/support/billing.ts'
import { eventually } from '#test/support/browser.ts'
import {
  type DashboardOptions,
  type DashboardPage,
  describeInBrowser,
  heading,
  type OpenDashboard,
} from '#test/support/dashboard.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createTestUser, PASSWORD, signIn } from '#test/support/users.ts'

const HOSTILE = `<script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202ejavascript:window.ran=1 ${'🎉'.repeat(20)}`
const OTHER = 'violin carpet thunder mug'

let service: EmailApi
let openWindow: OpenDashboard
let count = 0

interface Team {
  readonly actor: Actor
  readonly key: string
  /** Creates a member of the account. */
  add(name: string, role: TeamRole): Promise<string>
  open(email: string, options?: DashboardOptions): Promise<DashboardPage>
  api(method: string, path: string, body?: unknown): Promise<unknown>
}

/** An account of its own, with an owner `ada{n}@people.test`. */
async function createTeam(name = 'Team'): Promise<Team & { readonly ada: string }> {
  const n = ++count
  const actor = toOperatorActor(
    await createAccount(service.app, { name, email: `team${n}@people.test`, plan: 'unlimited' }),
  )
  const key = await service.newKey([], actor)
  const add = async (person: string, role: TeamRole) => {
    const email = `${person}${n}@people.test`
    await createTestUser(service.app, actor, email, role)
    return email
  }
  return {
    actor,
    key,
    add,
    ada: await add('ada', 'owner'),
    open: (email, options) => openWindow(service, email, options),
    async api(method, path, body) {
      const response = await service.api(method, path, body, { key })
      if (response.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(response.body)}`)
      return response.body
    },
  }
}

const dialog = (page: Page) => page.getByRole('dialog')
const confirm = (page: Page, name: string) => dialog(page).getByRole('button', { name, exact: true }).click()
const isClosed = (page: Page) => dialog(page).waitFor({ state: 'detached' })

describeInBrowser('the settings in the dashboard', (open) => {
  openWindow = open
  beforeAll(async () => {
    service = await createEmailApi({
      settings: { TASSIS_LOGINS_PER_MINUTE: '1000', TASSIS_DELIVERY: 'capture' },
      clock: systemClock,
      delivers: true,
    })
  })
  afterAll(() => service?.[Symbol.asyncDispose]())

  test('the account is renamed and its defaults change; what somebody else changed stays', async () => {
    const { ada, open, api } = await createTeam('Before')
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings')
    const name = page.getByRole('textbox', { name: 'Name' })
    await name.fill('  ')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The name must have 1 to 200 characters.').first().waitFor()
    await name.fill('After')
    await api('PATCH', '/v1/account', { tracking_privacy: true })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    await page.context().setOffline(true)
    await name.fill('Offline')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The server cannot be reached.').first().waitFor()
    expect(await name.inputValue()).toBe('Offline')
    await page.context().setOffline(false)
    await name.fill('After all')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    await page.getByRole('banner').getByText('After all').waitFor()
    expect(await page.getByLabel('Track without IP address').isChecked()).toBe(true)
    await page.getByRole('switch', { name: 'Track opens and clicks by default' }).click()
    await page.keyboard.press('Tab')
    await page.getByRole('button', { name: 'Save' }).click()
    await eventually(async () => at(await api('GET', '/v1/account'), 'data', 'tracking_default') === true)
    expect(at(await api('GET', '/v1/account'), 'data')).toMatchObject({ name: 'After all', tracking_privacy: true })
  })

  test('a team: invited by mail, sent again, revoked, changed, removed; hostile names are only text', async () => {
    const { ada, open, add } = await createTeam(HOSTILE)
    const ben = await add('ben', 'developer')
    service.app.db.run('UPDATE users SET name = ? WHERE email = ?', [HOSTILE, ben])
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/team')
    await page.getByRole('button', { name: 'Invite somebody' }).click()
    await page.getByLabel('Email address').fill('no address')
    await confirm(page, 'Invite')
    await dialog(page).getByText('it has no @').waitFor()
    expect(await page.getByLabel('Email address').inputValue()).toBe('no address')
    await page.getByLabel('Email address').fill('cleo@people.test')
    await page.getByRole('radio', { name: 'support' }).check()
    await confirm(page, 'Invite')
    await page.getByText('A mail with the link goes to cleo@people.test').waitFor()
    await page.getByRole('button', { name: 'Send again to cleo@people.test' }).click()
    await page.getByText('A mail with the link goes to cleo@people.test').waitFor()
    await page.getByRole('button', { name: 'Remove the invitation of cleo@people.test' }).click()
    await confirm(page, 'Remove')
    await page.getByText('Nobody is invited at the moment.').waitFor()

    expect(await page.getByRole('table', { name: 'Members' }).textContent()).toContain('<script>')
    await page.getByRole('button', { name: `Change role of ${ben}` }).click()
    await page.getByRole('radio', { name: 'admin' }).check()
    await confirm(page, 'Save')
    await page.getByRole('row').filter({ hasText: ben }).getByText('Admin', { exact: true }).waitFor()
    // The only owner stays: what /v1 says is shown.
    expect(await page.getByRole('button', { name: 'Leave the team' }).count()).toBe(0)
    await page.getByRole('button', { name: `Change role of ${ada}` }).click()
    await page.getByRole('radio', { name: 'viewer' }).check()
    await page.getByText('This is you').waitFor()
    await confirm(page, 'Save')
    await dialog(page).getByText('only owner').waitFor()
    await confirm(page, 'Back')
    await page.getByRole('button', { name: `Remove ${ben}` }).click()
    await dialog(page).getByText('Invitations that they sent are no longer valid.').waitFor()
    await confirm(page, 'Remove')
    await page.getByRole('row').filter({ hasText: ben }).waitFor({ state: 'detached' })
    await dashboard.expectHarmless()
  })

  test('an invitation that could not be mailed says so, and what the operator can do', async () => {
    await using plain = await createTestApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' }, clock: systemClock })
    await createTestUser(plain.app, plain.actor, 'ada@people.test', 'owner')
    await using dashboard = await open(plain, 'ada@people.test')
    const { page } = dashboard
    await dashboard.goTo('/settings/team')
    await page.getByRole('button', { name: 'Invite somebody' }).click()
    await page.getByLabel('Email address').fill("o'hara@people.test")
    await confirm(page, 'Invite')
    await page.getByText('has no verified domain from which it could send').waitFor()
    const command = `tassis users create 'o'\\''hara@people.test' --role developer --account ${plain.actor.accountUuid}`
    await page.getByText(command).waitFor()
    await page.getByRole('row').filter({ hasText: "o'hara@people.test" }).waitFor()
  })

  test('the own password changes; other browsers are signed out, one or all', async () => {
    const { ada, open } = await createTeam()
    await using dashboard = await open(ada)
    await using other = await open(ada)
    await signIn(service, ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/profile')
    const rows = page.getByRole('table', { name: 'Browsers' }).locator('tbody tr')
    await eventually(async () => (await rows.count()) === 3)
    expect(await rows.filter({ hasText: 'This browser' }).getByRole('button').count()).toBe(0)
    await rows.filter({ hasNotText: 'This browser' }).first().getByRole('button').click()
    await confirm(page, 'Sign out')
    await eventually(async () => (await rows.count()) === 2)
    await page.getByRole('button', { name: 'Sign out all other browsers' }).click()
    await confirm(page, 'Sign out')
    await eventually(async () => (await rows.count()) === 1)
    await other.page.goto(`${service.url}/app/settings`)
    await other.page.waitForURL(/\/login/)

    await page.getByLabel('Current password').fill('wrong')
    await page.getByLabel('New password').fill(OTHER)
    await page.keyboard.press('Enter')
    await page.getByText('This is not your password.').waitFor()
    await page.getByLabel('Current password').fill(PASSWORD)
    await page.getByLabel('New password').fill('password123')
    await page.keyboard.press('Enter')
    await page.getByText(/attackers try first/).waitFor()
    expect(await page.getByLabel('Current password').inputValue()).toBe(PASSWORD)
    await page.getByLabel('New password').fill(OTHER)
    await page.keyboard.press('Enter')
    await page.getByText('The password was changed.').waitFor()
    expect(await page.getByLabel('Current password').inputValue()).toBe('')
    await signIn(service, ada, { password: OTHER })
  })

  test('an authenticator app is set up by its QR code, its recovery codes are renewed, and it is turned off', async () => {
    const { ada, open } = await createTeam()
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/profile')
    await page.getByRole('button', { name: 'Set up an authenticator app' }).click()
    await dialog(page).getByRole('textbox', { name: 'Password' }).fill('wrong')
    await page.keyboard.press('Enter')
    await dialog(page).getByText('This is not your password.').waitFor()
    await dialog(page).getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
    await page.keyboard.press('Enter')
    const code = page.getByRole('img', { name: 'QR code with the secret for the app' })
    await code.waitFor()
    const uri = (await dialog(page).getByRole('link').getAttribute('href')) ?? ''
    const secret = new URL(uri).searchParams.get('secret') ?? ''
    expect(await dialog(page).locator('code').textContent()).toBe(secret)
    const drawn = decodeURIComponent((await code.getAttribute('src')) ?? '')
    expect(drawn).toEndWith(renderSVG(uri, { border: 4, ecc: 'M' }))
    const totp = new TOTP({ secret: Secret.fromBase32(secret) })
    await dialog(page).getByLabel('Six digits').fill('000000')
    await page.keyboard.press('Enter')
    await dialog(page).getByText('This code is wrong').waitFor()
    await dialog(page).getByLabel('Six digits').fill(totp.generate())
    await page.keyboard.press('Enter')
    const codes = await readRecoveryCodes(page)
    expect(codes).toHaveLength(10)
    await page.keyboard.press('Escape')
    await confirm(page, 'I have kept it')
    await page.getByText('10 recovery codes are left.').waitFor()

    await page.getByRole('button', { name: 'Renew the recovery codes' }).click()
    await dialog(page).getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
    await dialog(page)
      .getByLabel('Code')
      .fill(codes[0] ?? '')
    await page.keyboard.press('Enter')
    const renewed = await readRecoveryCodes(page)
    expect(renewed.filter((text) => codes.includes(text))).toEqual([])
    await confirm(page, 'I have kept it')
    await isClosed(page)
    await page.getByRole('button', { name: 'Turn it off' }).click()
    await dialog(page).getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
    await dialog(page)
      .getByLabel('Code')
      .fill(codes[1] ?? '')
    await confirm(page, 'Turn it off')
    await dialog(page).getByText('This code is wrong').waitFor()
    await dialog(page)
      .getByLabel('Code')
      .fill(renewed[0] ?? '')
    await confirm(page, 'Turn it off')
    await page.getByRole('button', { name: 'Set up an authenticator app' }).waitFor()
    await dashboard.expectHarmless()
  })

  test('streams are created, renamed and deleted by keyboard; a conflict is said and the text stays', async () => {
    const { ada, open, api } = await createTeam()
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/streams')
    await page.getByRole('button', { name: 'Create a stream' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('Transactional')
    expect(await page.getByRole('textbox', { name: 'Slug' }).inputValue()).toBe('transactional')
    await page.keyboard.press('Enter')
    await dialog(page).getByText('already has a stream').waitFor()
    await page.getByRole('textbox', { name: 'Name' }).fill(HOSTILE)
    await page.getByRole('textbox', { name: 'Slug' }).fill('Weekly!')
    await page.keyboard.press('Enter')
    await dialog(page).getByText('The slug must have').waitFor()
    await page.getByRole('textbox', { name: 'Slug' }).fill('weekly')
    await page.keyboard.press('Enter')
    await heading(page, HOSTILE)
    await page.getByRole('textbox', { name: 'Name' }).fill('Weekly')
    // Somebody else changes the slug meanwhile: only what was typed here is sent.
    const id = new URL(page.url()).pathname.split('/').at(-1) ?? ''
    await api('PUT', `/v1/streams/${id}`, { slug: 'monthly' })
    await page.keyboard.press('Enter')
    await heading(page, 'Weekly')
    await eventually(async () => (await page.getByRole('textbox', { name: 'Slug' }).inputValue()) === 'monthly')
    const expiry = page.getByRole('textbox', { name: 'Mail expires after (seconds)' })
    const stored = async () => at(await api('GET', `/v1/streams/${id}`), 'data', 'expires_in')
    await expiry.fill('5')
    await page.keyboard.press('Enter')
    await page.locator('input[aria-invalid=true]').waitFor()
    expect(await stored()).toBeNull()
    await expiry.fill('600')
    await page.keyboard.press('Enter')
    await page.getByText('Saved.').waitFor()
    expect(await stored()).toBe(600)
    await expiry.fill('')
    await page.getByText('Saved.').waitFor({ state: 'detached' })
    await page.keyboard.press('Enter')
    await page.getByText('Saved.').waitFor()
    expect(await stored()).toBeNull()
    await page.getByRole('button', { name: 'Delete this stream' }).click()
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('weekly')
    await page.keyboard.press('Enter')
    await dialog(page).getByLabel('Type monthly to confirm').fill('monthly')
    await page.keyboard.press('Enter')
    await heading(page, 'Streams')
    const links = page.getByRole('table').getByRole('link')
    await eventually(async () => (await links.allTextContents()).join() === 'Transactional')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await heading(page, 'Transactional')
    const remove = page.getByRole('button', { name: 'Delete this stream' })
    expect(await remove.getAttribute('aria-description')).toContain('Every send without a stream')
    // The tooltip of a button under the pointer would use the key.
    await page.mouse.move(0, 0)
    await page.getByRole('tooltip').waitFor({ state: 'hidden' })
    await page.keyboard.press('Escape')
    await heading(page, 'Streams')
    await dashboard.expectHarmless()
  })

  test('own texts, a name and a logo are saved, previewed as readers see them, and replaced by ours again', async () => {
    const { ada, open, api } = await createTeam()
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/wording')
    const button = (name: string) => page.getByRole('button', { name, exact: true }).click()
    const place = async (name: string) => {
      await page.getByLabel('Mail or page').selectOption(name)
      return page.getByRole('group', { name, exact: true })
    }
    const preview = page.frameLocator('iframe[title=Preview]')
    await page.getByRole('textbox', { name: 'Name' }).fill('Ada & Co')
    await page.getByRole('form', { name: 'Name', exact: true }).getByRole('button', { name: 'Save' }).click()
    await preview.getByText('Ada & Co').first().waitFor()
    const upload = (name: string, buffer: Uint8Array) =>
      page.locator('input[type=file]').setInputFiles({ name, mimeType: 'image/png', buffer: Buffer.from(buffer) })
    await upload('logo.png', new TextEncoder().encode('<svg/>'))
    await page.getByText('save an SVG, PDF or GIF as PNG first').first().waitFor()
    await upload('logo.png', await drawLogo('png', 480, 20))
    await page.getByText('The logo is saved.').waitFor()
    await preview.getByRole('img', { name: 'Ada & Co' }).waitFor()
    await page.getByLabel('Language').selectOption('de')
    expect(await (await place('Page behind its link')).getByLabel('Button').getAttribute('placeholder')).toBe(
      'Bestätigen',
    )
    await (await place('Confirmation mail')).getByLabel('Beginning').fill('Hallo {{vorname}}')
    await page.getByRole('form', { name: 'Texts in German' }).getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('{{vorname}} is not a placeholder').first().waitFor()
    await (await place('Confirmation mail'))
      .getByLabel('Beginning')
      .fill(`Hallo von {{name}}\n${HOSTILE.replace('\u202e', '')}`)
    await (await place('Page behind its link')).getByLabel('Button').fill('Ja, gern')
    await page.getByRole('form', { name: 'Texts in German' }).getByRole('button', { name: 'Save' }).click()
    await place('Confirmation mail')
    await preview.getByText('Hallo von Ada & Co').waitFor()
    await place('Page behind its link')
    await preview.getByRole('button', { name: 'Ja, gern', exact: true }).waitFor()
    await (await place('Page behind its link')).getByLabel('Button').fill('')
    await page.getByRole('form', { name: 'Texts in German' }).getByRole('button', { name: 'Save' }).click()
    await preview.getByRole('button', { name: 'Bestätigen', exact: true }).waitFor()
    await button('Remove the logo')
    await page.locator('.logo-preview').waitFor({ state: 'detached' })
    expect(at(await api('GET', '/v1/account/wording'), 'data')).toMatchObject({
      name: 'Ada & Co',
      logo: null,
    })
    await (await place('Unsubscribe page')).getByLabel('Heading').fill('Nicht gespeichert')
    await page.getByLabel('Language').selectOption('fr')
    await page.getByLabel('Language').selectOption('de')
    expect(await (await place('Unsubscribe page')).getByLabel('Heading').inputValue()).toBe('Nicht gespeichert')
    await page.getByRole('link', { name: 'Streams' }).first().click()
    await dialog(page).getByText('The texts that you changed are lost.').waitFor()
    await confirm(page, 'Leave')
    await dashboard.expectHarmless()
  })

  test('a sub-account is created, gets a key that is shown once, is disabled, enabled, changed and deleted', async () => {
    const { ada, open } = await createTeam()
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/accounts')
    await page.getByText('Your sub-accounts will appear here').waitFor()
    await page.getByRole('button', { name: 'Create a sub-account' }).click()
    await page.getByRole('textbox', { name: 'Name' }).fill('Shop')
    await page.getByLabel('Address of its owner').fill(`shop${count}@people.test`)
    await page.getByLabel('Password of its owner').fill('short')
    await confirm(page, 'Create')
    await dialog(page)
      .getByText(/10 to 200 characters|at least 10|10 characters/)
      .last()
      .waitFor()
    await page.getByLabel('Password of its owner').fill(OTHER)
    await page.getByLabel('Recipients a month').fill('500')
    await confirm(page, 'Create')
    await heading(page, 'Shop')
    await page.getByText('0 of 500').waitFor()
    await page.getByRole('button', { name: 'Create an API key for it' }).click()
    await page.getByLabel('What it is for').fill('Till')
    await confirm(page, 'Create')
    const key = (await dialog(page).locator('pre').textContent()) ?? ''
    await page.keyboard.press('Escape')
    expect(await dialog(page).locator('pre').textContent()).toBe(key)
    const asShop = () => service.api('GET', '/v1/emails', undefined, { key })
    expect((await asShop()).status).toBe(200)
    expect((await service.api('GET', '/v1/domains', undefined, { key })).status).toBe(403)
    await confirm(page, 'I have kept it')
    await page.getByRole('button', { name: 'Disable' }).click()
    await confirm(page, 'Disable')
    await page.getByText('its waiting mail is held').first().waitFor()
    await page.getByRole('button', { name: 'Enable' }).waitFor()
    expect((await asShop()).status).toBe(401)
    await page.getByRole('button', { name: 'Enable' }).click()
    await confirm(page, 'Enable')
    await page.getByRole('button', { name: 'Disable' }).waitFor()
    expect((await asShop()).status).toBe(200)
    await page.getByLabel('Recipients a month').fill('')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Recipients this month').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await dialog(page).getByLabel('Type Shop to confirm').fill('Shop')
    await confirm(page, 'Delete it with all its data')
    await page.getByText('Your sub-accounts will appear here').waitFor()
    expect((await asShop()).status).toBe(401)
    await dashboard.expectHarmless()
  })

  test('the audit log says who, what, when and from where; its filters are in the URL', async () => {
    const { ada, open, api } = await createTeam()
    await api('POST', '/v1/templates', { alias: 'hello', name: HOSTILE, subject: 'x', html_body: 'x' })
    for (let i = 0; i < 55; i++) await api('PATCH', '/v1/account', { name: `Name ${i}` })
    await using dashboard = await open(ada)
    const { page } = dashboard
    await page.clock.install()
    await dashboard.goTo('/settings/audit')
    const rows = page.getByRole('table').locator('tbody tr')
    await page.getByText('Signed in').first().waitFor()
    const first = rows.first()
    expect(await first.textContent()).toContain(ada.split('@')[0] ?? '')
    expect(await first.textContent()).toContain('127.0.0.1')
    await first.getByText('Signed in').click()
    await first.getByText('password', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByText('Member added').first().waitFor()
    expect(await page.getByRole('table').textContent()).toContain('Operator')
    await page.getByRole('button', { name: 'First page' }).click()
    await page.getByText('Signed in').first().waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('template.created')
    await page.keyboard.press('Enter')
    await page.waitForURL(/action=template\.created/)
    await eventually(async () => (await rows.count()) === 1)
    expect(await rows.textContent()).toContain('API key test')
    expect(await rows.textContent()).toContain('<script>')
    await page.getByRole('button', { name: 'Remove the filter Action' }).click()
    await page.getByRole('button', { name: 'Filters', exact: true }).click()
    await page.getByLabel('User or key').selectOption({ label: ada })
    await page.waitForURL(/actor_id=/)
    await page.getByLabel('Until day').fill('2020-01-01')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await page.getByText('No change matches these filters').waitFor()
    expect(new URL(page.url()).searchParams.get('to_date')).toBe('2020-01-01')
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await page.getByText('Signed in').first().waitFor()
    // New entries wait for a click.
    await api('POST', '/v1/templates', { alias: 'second', name: 'Second', subject: 'x', html_body: 'x' })
    // What was read is not read again for five seconds; then it is when the tab gets the focus.
    await page.clock.fastForward(5100)
    await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
    await page.getByRole('button', { name: '1 new', exact: true }).click()
    await rows.first().getByRole('link', { name: 'Second' }).waitFor()
    await dashboard.expectHarmless()
  })

  test("a person's data is downloaded and erased; the account is exported once an hour", async () => {
    const { actor, ada, open, api, key } = await createTeam()
    await service.addDomain(actor, `privacy${count}.test`)
    const email = { from: `ada@privacy${count}.test`, to: 'bob@receiver.test', subject: 'Hello', text_body: 'Hello' }
    await api('POST', '/v1/emails', email)
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/privacy')
    const field = page.getByLabel('Address of the person')
    await field.fill('bob')
    await page.getByRole('button', { name: 'Download person.json' }).click()
    await page.getByText('email must be one address').waitFor()
    expect(await field.inputValue()).toBe('bob')
    await field.fill('Bob@receiver.test')
    const person = await downloadJson(page, 'Download person.json')
    expect([person.name, at(person.json, 'data', 'email_address')]).toEqual(['person.json', 'bob@receiver.test'])
    const account = await downloadJson(page, 'Download account.json')
    expect([account.name, at(account.json, 'data', 'account', 'id')]).toEqual(['account.json', actor.accountUuid])
    await eventually(async () => (await service.api('HEAD', '/v1/account/export', undefined, { key })).status === 429)
    await page.getByRole('button', { name: 'Download account.json' }).click()
    await page.getByText('The account was exported within the last hour').waitFor()
    await page.getByText(/You can try again in (\d+ (s|minutes)|1 hour)/).waitFor()
    await page.getByRole('button', { name: 'Erase this person' }).click()
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('alice@receiver.test')
    await page.keyboard.press('Enter')
    await dialog(page).getByLabel('Type Bob@receiver.test to confirm').fill('bob@receiver.test')
    await confirm(page, 'Erase')
    await page.getByText(/The person is (being )?erased/).waitFor()
    await page.reload()
    await page.getByText(/The person is (being )?erased/).waitFor()
    await eventually(async () => {
      const body = await api('GET', '/v1/emails?to=bob%40receiver.test')
      return (at(body, 'data') as unknown[]).length === 0
    })
    await dashboard.expectHarmless()
  })

  test('the account is deleted after its name was typed, by an owner only', async () => {
    const { ada, open, add, key } = await createTeam('Short Lived')
    const admin = await add('alan', 'admin')
    await using other = await open(admin)
    await other.goTo('/settings/privacy')
    const forbidden = other.page.getByRole('button', { name: 'Delete this account' })
    expect(await forbidden.getAttribute('aria-description')).toContain('this needs the role owner')
    await using dashboard = await open(ada)
    const { page } = dashboard
    await dashboard.goTo('/settings/privacy')
    await page.getByRole('button', { name: 'Delete this account' }).click()
    await dialog(page).getByLabel('Type Short Lived to confirm').fill('Short')
    await page.keyboard.press('Enter')
    expect((await service.api('GET', '/v1/account', undefined, { key })).status).toBe(200)
    await dialog(page).getByLabel('Type Short Lived to confirm').fill('Short Lived')
    await confirm(page, 'Delete everything')
    await page.waitForURL(/\/login/)
    expect((await service.api('GET', '/v1/account', undefined, { key })).status).toBe(401)
  })

  test('the plan shows its use and limits, and plans are bought at the payment provider', async () => {
    await using billing = await createBillingApi({ TASSIS_LOGINS_PER_MINUTE: '1000' })
    await createTestUser(billing.service.app, billing.actor, 'pia@people.test', 'owner')
    await using buyer = await open(billing.service, 'pia@people.test')
    const { page } = buyer
    await page.route('https://pay.test/**', (route) =>
      route.fulfill({ contentType: 'text/html', body: '<h1>Pay</h1>' }),
    )
    await buyer.goTo('/settings/plan')
    await page.getByText('0 of 3,000 (0 %)').waitFor()
    await page.getByRole('button', { name: 'Buy the plan pro' }).click()
    await page.waitForURL('https://pay.test/**')
    await billing.buy()
    await billing.tell('customer.subscription.created')
    await buyer.load('/settings/plan?purchase=done')
    await page.getByText('Thank you').waitFor()
    await page.getByText('Your plan: pro').waitFor()
    await page.getByText('until the first invoice is paid').waitFor()
    await page.getByRole('button', { name: 'Invoices, card, change or cancel' }).click()
    await page.waitForURL('https://pay.test/portal')
  })
})

async function readRecoveryCodes(page: Page): Promise<string[]> {
  await dialog(page).getByText('They are not shown again.').waitFor()
  return ((await dialog(page).locator('pre').textContent()) ?? '').split('\n')
}

/** Clicks a button that has the browser save a file, and reads the file. */
async function downloadJson(page: Page, button: string): Promise<{ readonly name: string; readonly json: unknown }> {
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: button }).click()])
  return { name: file.suggestedFilename(), json: await Bun.file(await file.path()).json() }
}
