import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Broadcast } from '#client/api.ts'
import {
  describeLeftOut,
  isDelayed,
  isOver,
  toBroadcastState,
  toPercent,
  toResults,
  toShare,
} from '#dashboard/screens/broadcasts/states.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { UNLIMITED_WORK } from '#test/support/app.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const FROM = 'Ada <ada@sender.test>'

interface BroadcastService extends TestApi {
  readonly sink: Sink
  /** Has the receiving server accept this many more messages, and let the others wait for the next call. */
  acceptOnly(count: number): void
}

/** A service whose mail to people.test arrives in the sink. */
async function createService(): Promise<BroadcastService> {
  let left = Number.POSITIVE_INFINITY
  let waiting: (() => void)[] = []
  const sink = await startSink({
    onMailFrom(_, __, accept) {
      if (left-- > 0) accept()
      else waiting.push(accept)
    },
  })
  const dns = await startDnsServer({
    'people.test': { MX: [{ preference: 10, exchange: 'mx.people.test' }] },
    'mx.people.test': { A: ['127.0.0.1'] },
  })
  const service = await createTestApi({
    delivers: true,
    runsTasks: true,
    workRate: UNLIMITED_WORK,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_OUTBOUND_IPS: '127.0.0.1',
      TASSIS_SMTP_PORT: String(sink.port),
    },
  })
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  const { domain } = await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  return {
    ...service,
    sink,
    acceptOnly(count) {
      const before = waiting
      left = count - before.length
      waiting = before.slice(count)
      for (const accept of before.slice(0, count)) accept()
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await sink[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

const createPeople = (count: number) =>
  Array.from({ length: count }, (_, index) => ({
    email: `person-${index + 1}@people.test`,
    metadata: { first_name: `Person ${index + 1}` },
  }))

async function newDraft({ api }: TestApi, list: string, fields: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await api('POST', '/v1/newsletters', {
    list_id: list,
    subject: 'Spring',
    from_address: FROM,
    text_body: 'Hello.',
    ...fields,
  })
  if (status !== 201) throw new Error(`no draft: ${JSON.stringify(body)}`)
  return String(at(body, 'data', 'id'))
}

const state = (page: Page, name: string) => page.locator(`[data-state=${name}]`).waitFor()

describeInBrowser('broadcasts in the dashboard', (open) => {
  test('one is written, tested, counted, confirmed by its number, paused, resumed and delivered once', async () => {
    await using service = await createService()
    const list = await newList(service, 'News')
    await addContacts(service.app, list, createPeople(200))
    await service.api('POST', '/v1/suppressions', { email_address: 'person-7@people.test' })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/broadcasts')
    await heading(page, 'Your broadcasts will appear here')
    await page.getByRole('button', { name: 'Create a broadcast' }).click()
    await page.getByRole('combobox', { name: 'List' }).selectOption({ label: 'News (200 contacts)' })
    await page.getByRole('button', { name: 'Continue' }).click()

    await page.getByRole('textbox', { name: 'Sender' }).fill('ada@elsewhere.test')
    await page.getByRole('textbox', { name: 'Subject' }).fill('Spring for {{ contact.first_name }}')
    await page.getByRole('textbox', { name: 'HTML' }).fill('<h1>Hello {{ contact.first_name }</h1>')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.locator('[aria-invalid=true]').first().waitFor()
    await page.getByRole('textbox', { name: 'Sender' }).fill(FROM)
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.locator('textarea[aria-invalid=true]').waitFor()

    // What was typed is not lost by a wrong click.
    await page.getByRole('link', { name: 'All broadcasts' }).click()
    await page.getByRole('dialog').getByText('is lost').waitFor()
    await page.getByRole('button', { name: 'Back' }).click()
    await page
      .getByRole('textbox', { name: 'HTML' })
      .fill('<h1>Hello {{ contact.first_name }}</h1><a href="{{ unsubscribe_url }}">Unsubscribe</a>')
    await page.getByRole('button', { name: 'Save and continue' }).click()

    await page.getByRole('button', { name: 'Send a test email' }).waitFor()
    await page.frameLocator('iframe').getByRole('heading', { name: 'Hello Person 200' }).waitFor()
    await page.getByLabel('Shown as this contact gets it').fill('person-3@people.test')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.frameLocator('iframe').getByRole('heading', { name: 'Hello Person 3', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Send a test email' }).click()
    await page.getByText(`The test email is on its way to ${ADA}.`).waitFor()
    const trial = await eventually(() => service.sink.messages[0])
    expect(trial.rcptTo).toEqual([ADA])
    expect(trial.raw).toContain('Subject: [Test] Spring for Person 3')
    await page.getByRole('button', { name: 'Continue' }).click()

    await page.getByText('199 recipients of 200 contacts get it.').waitFor()
    await page.getByText('1 on the suppression list').waitFor()
    service.acceptOnly(4)
    await page.getByRole('button', { name: 'Send to 199 recipients' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Type 199 to confirm').fill('200')
    await dialog.getByRole('button', { name: 'Send it' }).click()
    await dialog.getByText('This is not 199.').waitFor()
    expect(service.sink.messages.length).toBe(1)
    await dialog.getByLabel('Type 199 to confirm').fill('199')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/broadcasts\/[\da-f-]{36}$/)
    await state(page, 'sending')

    await eventually(() => service.sink.messages.length === 5)
    await page.getByRole('button', { name: 'Pause' }).click()
    await state(page, 'paused')
    await page.getByText('emails not attempted before are not sent until it is resumed').waitFor()
    // Attempts in progress finish.
    service.acceptOnly(Number.POSITIVE_INFINITY)
    await eventually(() => service.delivery?.scheduler.inFlight === 0)
    const count = service.sink.messages.length
    expect(count).toBeLessThan(200)
    // Other mail to the same server still passes.
    const other = { from: FROM, to: 'other@people.test', subject: 'Receipt', text_body: 'Paid.' }
    expect((await service.api('POST', '/v1/emails', other)).status).toBe(202)
    await eventually(() => service.sink.messages.find(({ rcptTo }) => rcptTo[0] === other.to))
    expect(service.sink.messages.length).toBe(count + 1)

    await page.getByRole('button', { name: 'Resume' }).click()
    await state(page, 'done')
    await page.getByText('To 199 recipients of').waitFor()
    await eventually(() => service.sink.messages.length === 201)
    expect(new Set(service.sink.messages.map(({ rcptTo }) => rcptTo.join())).size).toBe(201)
    await page.locator('.figures').first().getByText('199', { exact: true }).waitFor()
    await page.getByText('Unsubscribed', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'Delivered' }).click()
    await page.getByText('199 emails').waitFor()
    await page.getByRole('button', { name: 'Remove the filter Broadcast' }).waitFor()
    await dashboard.expectHarmless()
  })

  test('one is scheduled, and a draft again when it is cancelled; drafts are kept and deleted', async () => {
    await using service = await createService()
    const list = await newList(service, 'News')
    await addContacts(service.app, list, createPeople(3))
    const draft = await newDraft(service, list)
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/broadcasts')
    await page.locator('[data-row] a', { hasText: 'Spring' }).click()
    await page.getByRole('textbox', { name: 'Subject' }).fill('Summer')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await heading(page, 'Draft: Summer')
    await page.getByRole('link', { name: '4. Send', exact: true }).click()
    await page.getByText('3 recipients of 3 contacts get it.').waitFor()
    await page.getByRole('radio', { name: 'Later' }).click()
    expect(await page.getByRole('button', { name: 'Schedule to 3' }).getAttribute('aria-disabled')).toBe('true')
    const tomorrow = new Date(service.app.clock.now() + 86_400_000).toISOString().slice(0, 16)
    // Of the zone of the account menu, which is not that of the browser.
    await page.evaluate("localStorage.setItem('tassis-time-zone', 'Pacific/Kiritimati')")
    await page.reload()
    await page.getByRole('radio', { name: 'Later' }).click()
    await page.getByLabel('Begin at').fill(tomorrow)
    // Somebody joins in the meantime: more than were confirmed are not written to.
    await addContacts(service.app, list, [{ email: 'late@people.test' }])
    await page.getByRole('button', { name: 'Schedule to 3' }).click()
    await page.getByLabel('Type 3 to confirm').fill('3')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText('which is more than 3').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Schedule to 4' }).click()
    await page.getByLabel('Type 4 to confirm').fill('4')
    await page.keyboard.press('Enter')
    await state(page, 'waiting')
    expect(at((await service.api('GET', '/v1/broadcasts')).body, 'data', '0', 'begins_at')).toBe(
      new Date(`${tomorrow}+14:00`).toISOString(),
    )
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.getByRole('button', { name: 'Cancel the broadcast' }).click()
    await state(page, 'cancelled')
    await dashboard.load(`/broadcasts/drafts/${draft}`)
    await heading(page, 'Draft: Summer')
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await heading(page, 'Broadcasts')
    await page.locator('[data-row]', { hasText: 'Cancelled' }).waitFor()
    expect(service.sink.messages).toEqual([])
    await dashboard.expectHarmless()
  })

  test('a template is chosen, and what fails for a contact is said', async () => {
    await using service = await createService()
    const list = await newList(service, 'News')
    await addContacts(service.app, list, [{ email: 'nameless@people.test' }])
    await service.api('POST', '/v1/templates', {
      alias: 'spring',
      name: 'Spring mail',
      subject: 'Hello {{ contact.first_name }}',
      text_body: 'Hello {{ contact.first_name }}.',
    })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/broadcasts/new?list=${list}`)
    await page.getByRole('textbox', { name: 'Sender' }).fill(FROM)
    await page.getByRole('radio', { name: 'From a template' }).click()
    await page.getByLabel('Template', { exact: true }).selectOption({ label: 'Spring mail' })
    expect(await page.getByRole('textbox', { name: 'Subject' }).inputValue()).toBe('Hello {{ contact.first_name }}')
    await page.getByRole('button', { name: 'Save and continue' }).click()
    await page.getByText('missing in the metadata of the contact').first().waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('button', { name: 'Send to 1 recipient' }).click()
    await page.getByLabel('Type 1 to confirm').fill('1')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText('The templates fail for the only contact').waitFor()
    expect(await page.getByLabel('Type 1 to confirm').inputValue()).toBe('1')
  })
})

describe('a broadcast in words', () => {
  const broadcast = {
    state: 'sending',
    total_recipients: 10,
    enqueued: 4,
    skipped: 1,
    sandbox: false,
    emails: { sent: 3, queued: 1, bounced: 0, failed: 0 },
  } as unknown as Broadcast

  test('its progress counts the skipped, and empty results that nobody expects are left out', () => {
    expect(toPercent(broadcast)).toBe(50)
    expect(toPercent({ ...broadcast, total_recipients: 0, state: 'done' })).toBe(100)
    expect(toResults(broadcast)).toEqual([
      { label: 'Delivered', count: 3, status: 'sent' },
      { label: 'Bounced', count: 0, status: 'bounced' },
      { label: 'Waiting', count: 1 },
      { label: 'Skipped', count: 1 },
    ])
    expect([toShare(1, 3), toShare(0, 0)]).toEqual(['33.3 %', undefined])
    expect([isOver('done'), isOver('paused')]).toEqual([true, false])
    const delays = ['restored: it waits', null].map((message) => isDelayed({ state: 'sending', message }))
    expect([...delays, isDelayed({ state: 'failed', message: 'No list' })]).toEqual([true, false, false])
    expect(toBroadcastState('later than this version').word).toBe('later than this version')
    const leftOut = { suppressed: 0, pending: 2, unsubscribed: 1200, bounced: 0, complained: 0 }
    expect(describeLeftOut({ contacts: 0, recipients: 0, left_out: leftOut })).toEqual([
      '1,200 unsubscribed',
      '2 not confirmed yet',
    ])
  })
})
