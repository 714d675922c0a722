/** @module The suppression list in the dashboard, in Chromium and with the real service. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { describeScope, listWarnings } from '#dashboard/screens/suppressions/reasons.ts'
import { record } from '#features/core/events/record.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { at } from '#test/support/api.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const HOSTILE = `<script>window.ran = 1</script>\u202e<img src=x onerror="window.ran = 1">${'😀'.repeat(40)}`

describe('filters and words', () => {
  test('a suppression says what it stops, and what warns against its removal', () => {
    const row = { stream: null, list_id: null }
    expect(describeScope({ ...row, reason: 'hard_bounce' })).toBe('All mail')
    expect(describeScope({ ...row, reason: 'unsubscribe' })).toBe('All but transactional mail')
    expect(describeScope({ ...row, reason: 'unsubscribe', stream: 'news' })).toBe('Mail of the stream news')
    expect(describeScope({ ...row, reason: 'unsubscribe', list_id: 'x' })).toBe('Mail to one contact list')
    expect(listWarnings([{ reason: 'manual' }, { reason: 'asked by phone' }])).toEqual([])
    expect(listWarnings([{ reason: 'complaint' }, { reason: 'hard_bounce' }, { reason: 'complaint' }]).length).toBe(2)
  })
})

describeInBrowser('the suppression list in the dashboard', (open) => {
  let service: EmailApi
  beforeEach(async () => {
    service = await createEmailApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
    await createTestUser(service.app, service.actor, ADA, 'owner')
  })
  afterEach(() => service[Symbol.asyncDispose]())

  const read = async (query = '') => {
    const { body } = await service.api('GET', `/v1/suppressions${query}`)
    return at(body, 'data') as { email_address: string; reason: string }[]
  }
  const dialog = (page: Page) => page.getByRole('dialog')

  test('an address is added, found, and removed after a warning; bad input stays in its field', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/suppressions')
    await heading(page, 'Addresses that get no mail will appear here')
    await page.getByRole('button', { name: 'Add an address' }).click()
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('no address')
    await page.keyboard.press('Enter')
    await dialog(page).locator('[aria-invalid=true]').waitFor()
    const field = dialog(page).getByLabel('Address')
    expect(await field.inputValue()).toBe('no address')
    await field.fill('Bob@Example.com')
    await dialog(page).getByLabel('Reason').selectOption('complaint')
    await dialog(page).getByRole('button', { name: 'Add' }).click()
    await page.getByText('bob@example.com is on the suppression list.').waitFor()
    await page.getByRole('link', { name: 'bob@example.com' }).waitFor()
    await page.locator('[data-row]').getByText('Spam complaint').waitFor()
    expect(await read()).toMatchObject([{ email_address: 'bob@example.com', reason: 'complaint' }])

    await page.keyboard.press('/')
    await page.keyboard.type('eve@example.com')
    await page.keyboard.press('Enter')
    await heading(page, 'No suppression matches these filters')
    expect(new URL(page.url()).search).toBe('?email=eve%40example.com')
    await page.getByRole('button', { name: 'Remove the filter Address' }).click()
    await page.getByLabel('Reason').selectOption('Unsubscribed')
    await page.waitForURL(/reason=unsubscribe/)
    await heading(page, 'No suppression matches these filters')
    await page.goBack()
    await page.getByRole('button', { name: 'Remove bob@example.com' }).click()
    await dialog(page).getByText('This person reported your mail as spam.').waitFor()
    await page.keyboard.press('Escape')
    await dialog(page).waitFor({ state: 'detached' })
    expect((await read()).length).toBe(1)
    await page.getByRole('button', { name: 'Remove bob@example.com' }).click()
    await page.getByRole('button', { name: 'Remove suppression' }).click()
    await page.getByText('bob@example.com may get mail again.').waitFor()
    expect(await read()).toEqual([])
    await dashboard.expectHarmless()
  })

  test('a pasted list is imported, line by line, and can be imported again', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/suppressions/import')
    const list = `email,reason,notes\none@example.com,bounced,${HOSTILE}\nno address,,\ntwo@example.com,,`
    await page.getByLabel('Or paste the addresses').fill(list)
    await page.getByLabel('Reason of lines without one').selectOption('unsubscribe')
    await page.getByRole('button', { name: 'Import the list' }).click()
    await page.getByText('3 lines: 2 new, 0 already on the list, 1 refused.').waitFor()
    await page.getByText('Line 3:').waitFor()
    await page.getByText('Ignored columns: notes').waitFor()
    expect((await read()).map(({ email_address: address, reason }) => [address, reason])).toEqual([
      ['two@example.com', 'unsubscribe'],
      ['one@example.com', 'hard_bounce'],
    ])
    await page.getByRole('button', { name: 'Import another list' }).click()
    expect(await page.getByLabel('Or paste the addresses').inputValue()).toBe(list)
    await page.getByRole('button', { name: 'Import the list' }).click()
    await page.getByText('3 lines: 0 new, 2 already on the list, 1 refused.').waitFor()
    await dashboard.expectHarmless()
  })

  test('the beginning of a file is shown, then it is imported as a whole; one that cannot be read is refused', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/suppressions/import')
    const choose = (name: string, buffer: Buffer) =>
      page.setInputFiles('input[type=file]', { name, mimeType: 'text/csv', buffer })
    await choose('latin1.csv', Buffer.from('email\nb\u00fc@example.com', 'latin1'))
    await page.getByRole('button', { name: 'Import the list' }).click()
    await page.getByRole('alert').getByText('UTF-8').first().waitFor()
    const addresses = Array.from({ length: 3500 }, (_, index) => `file${index}@example.com`)
    await choose('list.csv', Buffer.from(addresses.join('\r\n')))
    await page.getByLabel('The beginning of the file').getByText('file0@example.com').waitFor()
    await page.getByRole('button', { name: 'Import the list' }).click()
    await page.getByText('3,500 lines: 3,500 new, 0 already on the list, 0 refused.').waitFor()
    await dashboard.goTo('/suppressions')
    await page.getByRole('link', { name: 'file3499@example.com' }).waitFor()
    await page.getByRole('button', { name: 'Next' }).click()
    await page.getByRole('link', { name: 'file3449@example.com', exact: true }).waitFor()
    await page.getByRole('button', { name: 'First page' }).click()
    await page.getByRole('link', { name: 'file3499@example.com' }).waitFor()
  })

  test('rows that strangers caused are text, link to their email, and new ones wait for a click', async () => {
    const { app, actor } = service
    const email = await service.accepted({ to: 'gone@receiver.test' })
    const row = app.db.query<{ id: number }, []>('SELECT max(id) AS id FROM emails').get()
    const add = (address: string, reason: string) =>
      app.commit.write((tx) => {
        const { accountId } = actor
        record(tx, { accountId, type: 'complained', at: app.eventTime() })
        return suppress(app, tx, { accountId, address, reason, covers: 'all', sourceEmailId: row?.id })
      })
    await add('gone@receiver.test', 'hard_bounce')
    await add('"<script>window.ran=1</script>"@receiver.test', HOSTILE.slice(0, 190))
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo('/suppressions')
    await page.getByRole('link', { name: 'gone@receiver.test' }).waitFor()
    await page.getByText('<img src=x').first().waitFor()
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    await add('new@receiver.test', 'complaint')
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect(await page.getByRole('link', { name: 'new@receiver.test' }).count()).toBe(0)
    await page.getByRole('button', { name: '1 new' }).click()
    await page.getByRole('link', { name: 'new@receiver.test' }).waitFor()
    await page.getByRole('button', { name: 'Remove "<script>' }).click()
    await dialog(page).getByText('<img src=x').waitFor()
    await page.getByRole('button', { name: 'Remove suppression' }).click()
    await page.getByText('may get mail again').waitFor()
    await page.getByRole('link', { name: 'See the email', exact: true }).last().click()
    await page.waitForURL(new RegExp(`/emails/${email.id}`))
    await dashboard.expectHarmless()
  })
})
