import { describe, expect, test } from 'bun:test'
import { toBody, toInput } from '#dashboard/parts/fields.ts'
import { startImporter } from '#features/audience/contact-lists/importer.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { parseUuid } from '#platform/ids.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { UNLIMITED_WORK } from '#test/support/app.ts'
import { newList } from '#test/support/broadcasts.ts'
import { cpuMs } from '#test/support/cpu-time.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { CAPTURE_OPTIONS, createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const HOSTILE = '<script>window.ran = 1</script><img src=x onerror="window.ran = 1">\u202e'

async function createService(): Promise<TestApi> {
  const service = await createTestApi({
    ...CAPTURE_OPTIONS,
    workRate: UNLIMITED_WORK,
  })
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  const { domain } = await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  return service
}

const add = ({ api }: TestApi, list: string, email: string, metadata: Record<string, unknown> = {}) =>
  api('POST', `/v1/contact-lists/${list}/contacts`, { email, metadata })

/** Adds many contacts `person-000001@people.test` directly to the tables, with their counter. */
function insertContacts({ app }: TestApi, list: string, count: number): void {
  const row = app.db
    .query<{ id: number; accountId: number }, [Uint8Array]>(
      'SELECT id, account_id AS accountId FROM contact_lists WHERE uuid = ?',
    )
    .get(parseUuid(list) ?? new Uint8Array())
  if (!row) throw new Error('no list')
  app.db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     INSERT INTO contacts (uuid, account_id, list_id, address_key, status, subscribed_at, confirmed_at, created_at)
     SELECT randomblob(16), ?2, ?3, printf('person-%07d@people.test', i), 0, 1000, 1000, 1000 FROM n`,
    [count, row.accountId, row.id],
  )
  app.db.run('INSERT INTO counters (account_id, metric, hour, value) VALUES (?, ?, 0, ?)', [
    row.accountId,
    `contacts:${row.id}:active`,
    count,
  ])
}

describeInBrowser('the audience in the dashboard', (open) => {
  test('a list is created, its contacts are added, found, changed and removed', async () => {
    await using service = await createService()
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/audience')
    await heading(page, 'Your contact lists will appear here')
    await page.getByRole('button', { name: 'Create a list' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('News')
    await page.keyboard.press('Enter')
    await heading(page, 'News')
    await heading(page, 'The contacts of this list will appear here')

    await page.getByRole('button', { name: 'Add a contact' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Address').fill('nobody')
    await dialog.getByLabel('Metadata').fill('{"first_name": ')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await dialog.getByText('This is not JSON').waitFor()
    await dialog.getByLabel('Metadata').fill('{"first_name": "Bob"}')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await dialog.locator('[aria-invalid=true]').waitFor()
    expect(await dialog.getByLabel('Address').inputValue()).toBe('nobody')
    await dialog.getByLabel('Address').fill('Bob@example.net')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await dialog.getByText('Bob@example.net was added').waitFor()
    expect(await dialog.getByLabel('Address').inputValue()).toBe('')
    expect(await dialog.getByLabel('Metadata').inputValue()).toContain('"Bob"')
    await dialog.getByLabel('Address').fill('bob@example.net')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await dialog.getByText('is already on this list').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('[data-row]', { hasText: 'first_name: Bob' }).waitFor()

    const list = String(at((await service.api('GET', '/v1/contact-lists')).body, 'data', 0, 'id'))
    await add(service, list, 'carol@example.net')
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.keyboard.type('car')
    await page.keyboard.press('Enter')
    await page.waitForURL(/starts_with=car/)
    await page.getByRole('navigation', { name: 'Pages' }).getByText('1 contact').waitFor()
    await page.getByLabel('Status').selectOption('bounced')
    await heading(page, 'No contact matches these filters')
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await page.locator('[data-row]', { hasText: 'Bob@example.net' }).waitFor()
    await page.reload()
    await page.locator('[data-row]', { hasText: 'carol@example.net' }).waitFor()

    await page.locator('h1').click()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await heading(page, 'Bob@example.net')
    await page.getByText('Subscribed', { exact: true }).first().waitFor()
    await page.getByLabel('JSON object').fill('[1]')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('This must be a JSON object').waitFor()
    await page.getByLabel('JSON object').fill('{"first_name": "Robert"}')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The metadata was saved.').waitFor()
    await page.getByRole('button', { name: 'Remove from the list' }).click()
    await page.getByRole('button', { name: 'Remove', exact: true }).click()
    await page.locator('[data-row]', { hasText: 'carol@example.net' }).waitFor()
    await page.getByText('Bob@example.net').waitFor({ state: 'detached' })

    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByLabel('Type News to confirm').fill('news')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await heading(page, 'Your contact lists will appear here')
    await dashboard.expectHarmless()
  })

  test('a CSV file is checked, imported and exported; formulas are text', async () => {
    await using service = await createService()
    const list = await newList(service, 'News')
    const importer = startImporter(service.app)
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/audience/lists/${list}/import`)
    const choose = (name: string, text: string) =>
      page.setInputFiles('input[type=file]', { name, mimeType: 'application/vnd.ms-excel', buffer: Buffer.from(text) })
    await choose('names.csv', 'name,phone\nBob,1\n')
    await page.getByText('There is no column email among').first().waitFor()
    await choose(
      'contacts.csv',
      `email;First name;created_at\nbob@example.net;=1+2;x\nnobody;Eve;\n"carol@example.net";"${HOSTILE.replaceAll('"', '""')}";\n`,
    )
    await page.getByText('2 contacts of 3 lines can be imported, 1 line would be left out.').waitFor()
    expect(await page.locator('[data-row]', { hasText: 'First name' }).first().textContent()).toContain(
      'Metadata: contact.First name',
    )
    await page.getByText('Line 3:').waitFor()
    await page.getByText('First name: =1+2').waitFor()
    await page.getByRole('button', { name: 'Import this file' }).click()
    await page.getByText('The import is complete. One line was left out.').waitFor()
    expect(await page.locator('.facts').first().textContent()).toContain('New contacts2')
    await page.getByText('Line 3:').waitFor()
    // The same file again does no harm.
    await page.getByRole('link', { name: 'Import another file' }).click()
    await choose('contacts.csv', 'bob@example.net\ndave@example.net\n')
    await page.getByText('Without a name').waitFor()
    await page.getByRole('button', { name: 'Import this file' }).click()
    await page.getByText('The import is complete.').waitFor()
    expect(await page.locator('.facts').first().textContent()).toContain('New contacts1On the list before1')
    await page.getByRole('link', { name: 'Show the list' }).click()
    await page.locator('[data-row]', { hasText: '=1+2' }).waitFor()
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menuitem', { name: 'Export' }).click()
    const file = await Bun.file(await (await download).path()).text()
    expect(file).toContain('"{""First name"":""=1+2""}"')
    await dashboard.expectHarmless()
    await importer.stop()
  })

  test('a file that may say who gets no mail, in words that are not known, is asked about', async () => {
    await using service = await createService()
    const list = await newList(service, 'News')
    const importer = startImporter(service.app)
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/audience/lists/${list}/import`)
    const file = 'email,status,Consent level\na@example.net,gold,1\nb@example.net,lapsed,1\n'
    await page.setInputFiles('input[type=file]', { name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from(file) })
    await page.getByText('Who gets no mail?').waitFor()
    await page.getByRole('button', { name: 'Import this file' }).click()
    await page.getByText('Nothing was imported, because').waitFor()
    const answer = (label: string, choice: string) => page.getByLabel(label).selectOption({ label: choice })
    await answer('“gold”', 'active')
    await answer('“lapsed”', 'unsubscribed')
    await answer('Column Consent level', 'Nothing about mail: keep it as metadata')
    await page.getByRole('button', { name: 'Import this file' }).click()
    await page.getByText('The import is complete.').waitFor()
    const { body } = await service.api('GET', `/v1/contact-lists/${list}/contacts`)
    expect(at(body, 'data')).toMatchObject([
      { email: 'b@example.net', status: 'unsubscribed', metadata: { 'Consent level': '1' } },
      { email: 'a@example.net', status: 'active', metadata: { 'Consent level': '1' } },
    ])
    await dashboard.expectHarmless()
    await importer.stop()
  })

  test('an import is found again on its list, and cancelled', async () => {
    // Nothing runs imports here, so this one waits.
    await using service = await createService()
    const list = await newList(service, 'News')
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/audience/lists/${list}/import`)
    await page.setInputFiles('input[type=file]', {
      name: 'a.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from('a@example.net\nb@example.net\n'),
    })
    await page.getByRole('button', { name: 'Import this file' }).click()
    await page.getByText('The import is about to begin.').waitFor()
    await goTo(`/audience/lists/${list}`)
    await page.getByText('An import is running').waitFor()
    await page.getByRole('link', { name: 'Show it' }).click()
    await page.getByRole('button', { name: 'Cancel the import' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel the import' }).click()
    await page.getByText('The import was cancelled').waitFor()
    expect(at((await service.api('GET', `/v1/contact-lists/${list}/imports`)).body, 'data')).toEqual([])
  })

  test('a sequence is made and started by its form, which says which step is wrong', async () => {
    await using service = await createService()
    await service.api('POST', '/v1/templates', { alias: 'welcome', name: 'Welcome', subject: 'Hi', text_body: 'Hi' })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/audience/sequences')
    await page.getByRole('button', { name: 'Create a sequence' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('Welcome')
    await dialog.getByLabel('Sender').fill('Ada <ada@sender.test>')
    await dialog.getByLabel('Event', { exact: true }).fill('signed_up')
    await dialog.getByLabel('Steps').fill('0 welcome\n\n3 days first-steps')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText('Step 2: delay must be a text such as 3d').waitFor()
    await dialog.getByLabel('Steps').fill('0 welcome')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await heading(page, 'Welcome')
    await page.getByLabel('Status').selectOption('Active')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved.').waitFor()
    const { body } = await service.api('GET', '/v1/sequences')
    expect(at(body, 'data', 0)).toMatchObject({ status: 'active', steps: [{ delay: '0', template_alias: 'welcome' }] })
    await dashboard.expectHarmless()
  })

  test('a form is created, previewed, changed, copied, turned off and deleted', async () => {
    await using service = await createService()
    await newList(service, 'News')
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/audience/forms')
    await page.getByRole('button', { name: 'Create a form' }).click()
    await page.getByRole('combobox', { name: 'List' }).selectOption({ label: 'News' })
    await page.getByRole('dialog').getByLabel('Title').fill('Our newsletter')
    await page.getByRole('button', { name: 'Create the form' }).click()
    const frame = page.frameLocator('iframe')
    await frame.getByRole('heading', { name: 'Our newsletter' }).waitFor()
    expect(await page.getByLabel('Code to embed').textContent()).toContain('<iframe src="')

    await page.getByRole('button', { name: 'Add a field' }).click()
    await page.getByRole('textbox', { name: 'Label', exact: true }).fill('First name')
    await page.getByLabel('Name in the metadata').fill('First name')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('custom_fields.0.name must have').first().waitFor()
    await page.getByLabel('Name in the metadata').fill('first_name')
    await page.getByRole('button', { name: 'Look' }).click()
    await page.getByLabel('Background').fill('red;} body{display:none')
    await page.getByRole('button', { name: 'Look' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('alert').getByText('theme.bg_color', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Look' }).click()
    await page.locator('[aria-invalid=true]').first().waitFor()
    await page.getByLabel('Background').fill('#fff0f0')
    await page.getByRole('textbox', { name: 'Title', exact: true }).fill(`News ${HOSTILE}`)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The form was saved.').waitFor()
    await frame.getByLabel('First name').waitFor()
    await frame.getByText('<script>').first().waitFor()
    // The preview sends nothing.
    await frame.getByLabel('Email address').fill('eve@example.net')
    const refusal = page.waitForEvent('console', (message) => message.text().includes('Blocked form submission'))
    await frame.getByRole('button').click()
    await refusal
    expect(at((await service.api('GET', '/v1/contact-lists')).body, 'data', 0, 'contact_count')).toBe(0)

    await page.getByRole('button', { name: 'Deactivate' }).click()
    await page.getByText('The form is off').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await heading(page, 'Your sign-up forms will appear here')
    await dashboard.expectHarmless()
  })
})

test('100,000 contacts are paged and searched as fast as ten', async () => {
  await using service = await createService()
  const list = await newList(service, 'Everybody')
  insertContacts(service, list, 100_000)
  const path = `/v1/contact-lists/${list}/contacts?per_page=50`
  for (const query of ['', '&starts_with=person', '&starts_with=person-0099&status=active', '&starts_with=zzz']) {
    const startMs = cpuMs()
    expect((await service.api('GET', path + query)).status).toBe(200)
    expect(cpuMs() - startMs).toBeLessThan(500)
  }
})

describe('the search of contacts', () => {
  test('metadata is text that is checked', () => {
    const field = { name: 'metadata', label: '', kind: 'json' } as const
    const parse = (metadata: string) => toBody([field], { metadata }, true)
    expect(parse(' ')).toEqual({ metadata: {} })
    expect(parse('{"a": 1}')).toEqual({ metadata: { a: 1 } })
    expect(() => parse('[]')).toThrow('This must be a JSON object')
    expect(() => parse('{')).toThrow('This is not JSON')
    expect(toInput(field, {})).toBe('')
  })
})
