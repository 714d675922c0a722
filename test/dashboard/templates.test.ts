import { expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually, narrowOverflowPx } from '#test/support/browser.ts'
import { describeInBrowser, findAxeViolations, heading } from '#test/support/dashboard.ts'
import { startRspamdStub } from '#test/support/rspamd.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const BOB = 'bob@people.test'
const HOSTILE = '<script>window.ran = 1</script><img src="https://evil.test/x.png" onerror="window.ran = 1">\u202e'
const LOOP = '{% for a in range(100000) %}{% for b in range(100000) %}{{ a * b }}{% endfor %}{% endfor %}'

async function startService(settings: Record<string, string> = {}): Promise<TestApi> {
  const service = await createTestApi({ settings })
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  await createTestUser(app, actor, BOB, 'developer')
  return service
}

async function addTemplate({ api }: TestApi, change: Record<string, unknown> = {}): Promise<string> {
  const answer = await api('POST', '/v1/templates', {
    alias: 'welcome',
    name: 'Welcome',
    subject: 'Hello {{ user.name }}',
    html_body: '<p>Hello</p>\n<p>{{ user.name }}</p>',
    text_body: 'Hello {{ user.name }}',
    ...change,
  })
  return String(at(answer.body, 'data', 'id'))
}

const source = (page: Page, tab: 'HTML' | 'Text') => page.getByRole('textbox', { name: `${tab} of the template` })
/** Replaces the text of an editor, as a user does. */
async function write(editor: Locator, text: string): Promise<void> {
  await editor.focus()
  await editor.press('Control+a')
  await editor.page().keyboard.insertText(text)
}
const save = (page: Page) => page.getByRole('button', { name: 'Save', exact: true }).click()
const frame = (page: Page) => page.frameLocator('iframe[title="HTML of the email"]')

describeInBrowser('the screens of templates', (open) => {
  test('a user starts with the example, finds an error at its line, saves, tests, restores and deletes', async () => {
    await using service = await startService()
    await service.api('POST', '/v1/domains', { domain: 'example.com' })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/templates')
    await page.getByText('Your templates will appear here').waitFor()
    await page.getByRole('button', { name: 'Start with an example' }).click()
    await page.getByText('Rendered with the test data.').waitFor()
    await frame(page).getByText('Welcome, Ada').waitFor()
    await page.getByText('Welcome, Ada', { exact: true }).waitFor()
    await save(page)
    await heading(page, 'Welcome')
    await page.getByText('Saved as version 1').waitFor()
    await frame(page).getByText('Your account is ready.').waitFor()

    // A missing variable is marked at its line, and can be added to the data.
    await write(source(page, 'HTML'), '<h1>Hi</h1>\n<p>\n  {{ order.id }}\n</p>')
    await page.getByText('The variable "order.id" is missing in template_data.').waitFor()
    await page.getByRole('tab', { name: 'HTML, 1 problem' }).waitFor()
    await page.locator('.cm-lintRange-error').waitFor()
    expect(await page.locator('.cm-lintRange-error').textContent()).toBe('{{ order.id }}')
    await page.getByText('The HTML has an error. Below it is as it was before.').waitFor()
    await page.getByRole('button', { name: 'Line 3' }).click()
    await page.keyboard.press('Home')
    await page.keyboard.type('No. ')
    await page.getByRole('button', { name: 'Add order.id to the test data' }).click()
    await frame(page).getByText('No. id').waitFor()
    await page.getByText('Rendered with the test data.').waitFor()
    await page.keyboard.press('Control+s')
    await page.getByText('Saved as version 2').waitFor()

    await page.getByRole('button', { name: 'Send a test email' }).click()
    await page.getByText('is not verified yet').waitFor()
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByText('The test email is on its way.').waitFor()
    const { body } = await service.api('GET', '/v1/emails')
    expect(at(body, 'data', 0)).toMatchObject({
      to: ADA,
      from_address: 'Test <test@example.com>',
      subject: 'Welcome, Ada',
    })
    await page.getByRole('button', { name: 'Back' }).click()

    await page.getByRole('link', { name: 'Versions' }).click()
    await heading(page, 'Versions')
    await page.getByRole('link', { name: 'Version 1' }).click()
    await page.getByRole('heading', { level: 2, name: 'Version 1' }).waitFor()
    await page.locator('.diff-removed').first().waitFor()
    expect(await page.locator('.diff-removed').first().textContent()).toContain('Removed: <h1>Hi</h1>')
    expect(await page.getByRole('cell', { name: 'You' }).count()).toBe(2)
    await page.getByRole('button', { name: 'Restore this version' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click()
    await page.getByText('Current').waitFor()
    await page.getByRole('link', { name: 'Welcome' }).click()
    await page.getByText('Saved as version 3').waitFor()
    await frame(page).getByText('Your account is ready.').waitFor()

    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByLabel('Type welcome to confirm').fill('welcome')
    await page.keyboard.press('Enter')
    await heading(page, 'Templates')
    await page.getByText('Your templates will appear here').waitFor()
    await dashboard.expectHarmless()
  })

  test('hostile text never runs, and neither large text nor an endless loop stops the page', async () => {
    await using service = await startService()
    const id = await addTemplate(service, { name: HOSTILE, subject: HOSTILE, html_body: HOSTILE, text_body: HOSTILE })
    await service.api('PUT', `/v1/templates/${id}`, { subject: `${HOSTILE}2`, html_body: `<b>Bold</b>${HOSTILE}` })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/templates')
    await page.getByRole('link', { name: '<script>window.ran' }).click()
    await frame(page).getByText('Bold').waitFor()
    await page.getByText('Text', { exact: true }).last().click()
    await page.getByText('<script>window.ran').first().waitFor()
    await page.getByRole('link', { name: 'Versions' }).click()
    await page.getByRole('link', { name: 'Version 1' }).click()
    await page.locator('.diff').first().waitFor()
    await page.getByRole('tab', { name: 'HTML' }).click()
    await page.getByRole('textbox', { name: 'HTML of version 1' }).getByText('<script>').waitFor()
    expect(await page.evaluate('window.ran')).toBeUndefined()

    await dashboard.goTo(`/templates/${id}`)
    await frame(page).getByText('Bold').waitFor()
    await write(source(page, 'HTML'), LOOP)
    await page
      .getByText(/takes too much time or memory to render/i)
      .first()
      .waitFor()

    // 5 MB are refused with the reason; as much as is allowed is edited without a pause.
    await write(source(page, 'HTML'), '<i>Short</i>')
    await frame(page).getByText('Short').waitFor()
    await paste(page, 5_000_000)
    await save(page)
    await page.getByText('at most 1048576 are allowed').first().waitFor()
    await write(source(page, 'HTML'), '<i>Again</i>')
    await paste(page, 900_000)
    await page.getByText('Not saved', { exact: true }).waitFor()
    // Of 40,000 lines, the page has only those near the window: its work for a letter does not grow with the text.
    expect(await page.locator('.cm-line').count()).toBeLessThan(400)
    await dashboard.expectHarmless()
  })

  test('a language is added as a copy, and each is one click from the others', async () => {
    await using service = await startService()
    const id = await addTemplate(service)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/templates/${id}`)
    const languages = page.getByRole('navigation', { name: 'Languages' })
    expect(await languages.locator('[aria-current=page]').textContent()).toBe('All languages')
    await languages
      .getByRole('button', { name: 'Add a language' })
      .or(languages.getByRole('link', { name: 'Add a language' }))
      .click()
    await heading(page, 'Create a template')
    expect(await page.getByLabel('Alias').inputValue()).toBe('welcome')
    await page.getByLabel('Subject').fill('Hallo {{ user.name }}')
    await save(page)
    await page.getByText('already has a template with the alias').waitFor()
    await page.getByRole('textbox', { name: 'Language' }).fill('de AT')
    await save(page)
    await page.getByText('must be a language tag of BCP 47').first().waitFor()
    await page.getByRole('textbox', { name: 'Language' }).fill('DE-at')
    await save(page)
    await page.getByText('Saved as version 1').waitFor()
    expect(await page.getByRole('textbox', { name: 'Language' }).inputValue()).toBe('de-AT')
    expect(await languages.locator('[aria-current=page]').textContent()).toBe('de-AT')
    expect(await findAxeViolations(page)).toEqual([])
    // On a phone all of them are seen, in a few lines, and how to add one.
    for (const locale of ['es-419', 'fr', 'it', 'ja', 'pt-BR', 'zh-Hant']) await addTemplate(service, { locale })
    await page.setViewportSize({ width: 390, height: 844 })
    await dashboard.load(`/templates/${id}`)
    await languages.getByText('zh-Hant').waitFor()
    expect((await languages.boundingBox())?.height).toBeLessThan(100)
    expect((await languages.getByText('Add a language').boundingBox())?.x).toBeLessThan(280)
    await page.setViewportSize({ width: 1280, height: 800 })
    await languages.getByText('de-AT').click()
    await languages.locator('[aria-current=page]', { hasText: 'de-AT' }).waitFor()
    await languages.getByText('All languages').click()
    await languages.locator('[aria-current=page]', { hasText: 'All languages' }).waitFor()
    expect(await page.getByLabel('Subject').inputValue()).toBe('Hello {{ user.name }}')
    await dashboard.goTo('/templates')
    await page.getByRole('row', { name: 'de-AT' }).waitFor()
    await dashboard.expectHarmless()
  })

  test('of two editors, the second decides whose text stays, and neither is lost', async () => {
    await using service = await startService()
    const id = await addTemplate(service)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/templates/${id}`)
    await write(source(page, 'HTML'), '<p>Mine</p>')
    await service.api('PUT', `/v1/templates/${id}`, { html_body: '<p>Theirs</p>', text_body: 'Their text' })
    await save(page)
    await page.getByText('Somebody else saved version 2').waitFor()
    await page.getByRole('button', { name: 'Save mine over version 2' }).click()
    await page.getByText('Saved as version 3').waitFor()
    const stored = () => service.api('GET', `/v1/templates/${id}`)
    expect(at((await stored()).body, 'data')).toMatchObject({ html_body: '<p>Mine</p>', text_body: 'Their text' })

    await page.getByLabel('Subject').fill('Other')
    await service.api('PUT', `/v1/templates/${id}`, { subject: 'Saved' })
    await page.keyboard.press('Control+s')
    await page.getByRole('button', { name: 'Discard mine, take version 4' }).click()
    await page.getByText('Saved as version 4').waitFor()
    expect(await page.getByLabel('Subject').inputValue()).toBe('Saved')
  })

  test('unsaved text survives the end of the session and errors, and leaving asks first', async () => {
    await using service = await startService()
    const id = await addTemplate(service)
    await addTemplate(service, { alias: 'taken' })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/templates/${id}`)
    await frame(page).getByText('Ada').waitFor()
    await page.getByLabel('Alias').fill('taken')
    await save(page)
    await page.getByText('This account already has a template with the alias "taken".').waitFor()
    await page.getByLabel('Alias').fill('a b')
    await save(page)
    await page.getByText('The alias must have 1 to 100 characters').first().waitFor()
    await page.getByLabel('Alias').fill('welcome')

    // The preview is requested only once the session has ended, so that the dialog does not open while it is typed.
    const ended = Promise.withResolvers<void>()
    await page.route('**/v1/templates/render', async (route) => {
      await ended.promise
      await route.continue()
    })
    await write(source(page, 'HTML'), '<p>Typed</p>')
    service.app.db.run('DELETE FROM sessions')
    ended.resolve()
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.waitFor()
    await dialog.locator('input[type=password]').fill(PASSWORD)
    await dialog.getByRole('button', { name: 'Sign in', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await source(page, 'HTML').textContent()).toBe('<p>Typed</p>')

    await page.getByRole('link', { name: 'All templates' }).click()
    await page.getByText('Leave without saving?').waitFor()
    await page.getByRole('button', { name: 'Back' }).click()
    expect(await source(page, 'HTML').textContent()).toBe('<p>Typed</p>')
    await save(page)
    await page.getByText('Saved as version 2').waitFor()
    await page.getByRole('link', { name: 'All templates' }).click()
    await heading(page, 'Templates')

    // No network: what was typed stays.
    await page.getByRole('link', { name: 'Welcome' }).last().click()
    await write(source(page, 'HTML'), '<p>Again</p>')
    await page.context().setOffline(true)
    await save(page)
    await page.getByText('The server cannot be reached.').first().waitFor()
    await page.context().setOffline(false)
    await save(page)
    await page.getByText('Saved as version 3').waitFor()
  })

  test('works by keyboard: search, open, leave the editor with Tab', async () => {
    await using service = await startService()
    await addTemplate(service)
    await addTemplate(service, { alias: 'other', name: 'Receipt' })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/templates')
    await page.getByRole('link', { name: 'Receipt' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('welc')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Receipt' }).waitFor({ state: 'detached' })
    expect(new URL(page.url()).search).toBe('?search=welc')
    await page.getByRole('heading', { level: 1 }).click()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await heading(page, 'Welcome')
    const editor = source(page, 'HTML')
    await editor.focus()
    await page.keyboard.type('g e ? / j')
    await heading(page, 'Welcome')
    await page.keyboard.press('Tab')
    expect(await editor.and(page.locator(':focus')).count()).toBe(0)
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Control+f')
    await page.getByRole('textbox', { name: 'Find' }).waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+z')
    await eventually(async () => ((await editor.textContent())?.includes('g e') ? undefined : true))
    await dashboard.load('/templates?search=nothing')
    await heading(page, 'No template matches these filters')
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await page.getByRole('link', { name: 'Receipt' }).waitFor()
  })

  test('a text is checked before it is sent: findings, authentication and rules of rspamd, on every screen', async () => {
    await using rspamd = startRspamdStub(() => {
      const symbols = { HTTP_TO_IP: { score: 1, description: 'Anchor points to an IP address' } }
      return Response.json({ score: 7, required_score: 15, action: 'add header', symbols })
    })
    await using service = await startService({ TASSIS_RSPAMD_URL: rspamd.url })
    await service.api('POST', '/v1/domains', { domain: 'example.com' })
    const link = `https://192.0.2.1/${'x'.repeat(150)}`
    const id = await addTemplate(service, { html_body: `<p>Hello {{ user.name }}</p><a href="${link}">Go</a>` })
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/templates/${id}`)
    await page.getByText('Rendered with the test data.').waitFor()
    await page.getByRole('button', { name: 'Check before sending' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Check', exact: true }).click()
    await dialog.getByText('Receivers may reject it or mark it as spam.').waitFor()
    await dialog.getByText('A link leads to an IP address').waitFor()
    await dialog.getByText('example.com is not verified').waitFor()
    await dialog.getByText('Signed by example.com:').waitFor()
    await dialog.getByText('Rspamd scores it 7 of 15', { exact: true }).click()
    await dialog.getByText('1 · Anchor points to an IP address').waitFor()
    expect(await narrowOverflowPx(page)).toBe(0)
    expect(await findAxeViolations(page)).toEqual([])
    expect((await service.api('GET', '/v1/emails')).body).toMatchObject({ data: [] })
    await dashboard.expectHarmless()
  })
})

const paste = (page: Page, length: number) =>
  page.evaluate(`(() => {
    const clipboardData = new DataTransfer()
    clipboardData.setData('text/plain', '<p>A line of text</p>\\n'.repeat(${length} / 22))
    document.querySelector('.cm-content').dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }))
  })()`)
