import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { App } from '#features/core/app/app.ts'
import { minutes } from '#platform/units.ts'
import { INBOUND, type RouteService, startRouteService } from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser } from '#test/support/dashboard.ts'
import { storeTestInbound, type TestInbound } from '#test/support/inbound.ts'
import { deliverMessage, getTestMailbox, type TestMessage } from '#test/support/mailboxes.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'

const ADA = 'ada@people.test'

interface InboundService extends RouteService {
  /** Stores a message for no route; returns its id. */
  store(given?: TestInbound): Promise<string>
  /** Id of the mailbox agent@ of the domain, which is created when there is none. */
  addMailbox(): Promise<string>
  /** Stores a message in a mailbox. */
  deliver(mailboxId: string, given?: TestMessage): Promise<string>
}

async function createService(): Promise<InboundService> {
  const service = await startRouteService({ settings: { TASSIS_INBOUND_ADDR: '127.0.0.1:2525' } })
  const { app, actor, api, domainId } = service
  await createTestUser(app, actor, ADA, 'owner')
  return {
    ...service,
    store: (given) => storeTestInbound(app, { accountId: actor.accountId, domainId: findDomainRow(app) }, given),
    async addMailbox() {
      const existing = at((await api('GET', '/v1/agent-mailboxes')).body, 'data') as { id: string }[]
      if (existing[0]) return existing[0].id
      const answer = await api('POST', '/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
      return String(at(answer.body, 'data', 'id'))
    },
    deliver: (mailboxId, given) => deliverMessage(app, getTestMailbox(app, actor.accountId, mailboxId), given),
  }
}

function findDomainRow({ db }: App): number {
  const row = db.query<{ id: number }, [string]>('SELECT id FROM domains WHERE domain = ?').get(INBOUND)
  if (!row) throw new Error('there is no domain')
  return row.id
}

const HOSTILE = '"><script>parent.ran=1</script><img src=x onerror=ran=1>\u202E'

let service: InboundService
beforeEach(async () => {
  service = await createService()
})
afterEach(() => service[Symbol.asyncDispose]())

describeInBrowser('received mail in the dashboard', (open) => {
  test('shows what rspamd thinks of it, in the list, its filter and the email', async () => {
    const judged = {
      action: 'reject',
      score: 15,
      required: 15,
      symbols: [{ name: 'GTUBE', score: 0, description: null }],
    }
    await service.store({ message: { subject: 'Buy' }, spam: { verdict: 'spam', ...judged } })
    await service.store({ message: { subject: 'Hello' }, spam: { verdict: 'ham', ...judged } })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/inbound?spam=spam')
    await page.locator('[data-row]', { hasText: 'Buy' }).getByText('Spam', { exact: true }).waitFor()
    expect(await page.locator('[data-row]').count()).toBe(1)
    await page.locator('[data-row] a').first().click()
    await page.getByText('Spam: 15 of 15 (GTUBE 0)').waitFor()
    await dashboard.expectHarmless()
  })

  test('is seen live, opened by keyboard and explained, with its route, deliveries and source', async () => {
    const route = await service.addRoute()
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/inbound')
    await page.getByRole('heading', { name: 'Mail to your domains will appear here' }).waitFor()
    await page.getByText('TASSIS_INBOUND_ADDR').waitFor()
    await page.getByText(`${INBOUND} receives mail.`).waitFor()
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })

    const { id } = await service.arrive('support', { subject: 'The first', text: 'It burns.' })
    await page.getByText('The first').waitFor()
    // The list does not jump: later mail is offered.
    await service.arrive('support', { subject: 'The second' })
    const offer = page.getByRole('button', { name: '1 new' })
    await offer.waitFor()
    expect(await page.locator('[data-row]').count()).toBe(1)
    await offer.click()
    await page.locator('[data-row]', { hasText: 'The second' }).waitFor()

    await page.locator('h1').click()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'The first' }).waitFor()
    expect(await page.locator('[data-sentence]').textContent()).toBe('Sent by customer.test, proven by SPF and DMARC.')
    await page.getByText('Passed on').waitFor()
    await page.getByText('It burns.').waitFor()
    await page.getByRole('tab', { name: 'Source' }).click()
    await page.locator('.long-text', { hasText: 'Subject: The first' }).waitFor()
    await page.getByRole('tab', { name: 'Headers' }).click()
    await page.waitForURL(/tab=headers/)

    const deliveries = page.getByRole('region', { name: 'Route and deliveries' })
    await deliveries.getByText('Accepted').waitFor()
    await deliveries.getByRole('button', { name: 'Send again' }).click()
    await deliveries.getByText('A new delivery was created').waitFor()
    await eventually(() => service.receiver.requests.length === 3 || undefined)
    await eventually(async () => (await deliveries.locator('[data-row]').count()) === 2 || undefined)
    await deliveries.getByRole('link', { name: `support@${INBOUND}` }).click()
    await page.getByRole('heading', { name: `support@${INBOUND}` }).waitFor()
    expect(page.url()).toEndWith(`/inbound/routes/${route.id}`)

    await dashboard.load(`/inbound/${id}`)
    await page.getByRole('button', { name: 'Reply' }).click()
    await page.getByRole('dialog').getByLabel('Text').fill('Use water.')
    await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click()
    await page.getByText('The reply is on its way.').waitFor()
    expect(at((await service.api('GET', '/v1/emails')).body, 'data', 0)).toMatchObject({
      from_address: `support@${INBOUND}`,
      subject: 'Re: The first',
    })
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('The second').waitFor()
    await page.getByText('The first').waitFor({ state: 'detached' })
    await dashboard.load(`/inbound/${id}`)
    await page.getByText('It may have been deleted, or belong to another account.').waitFor()
    await dashboard.expectHarmless()
  })

  test('is filtered by the URL, and errors of a filter are shown at it', async () => {
    await service.store({ message: { subject: 'From Ada' } })
    await service.store({ message: { subject: 'From Bob', fromAddresses: ['bob@customer.test'] }, problem: 'No.' })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/inbound?from=BOB%40customer.test')
    await page.getByText('From Bob').waitFor()
    expect(await page.locator('[data-row]').count()).toBe(1)
    await page.getByRole('button', { name: 'Remove the filter Sender' }).click()
    await page.getByText('From Ada').waitFor()
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.keyboard.type('ada@customer.test')
    await page.keyboard.press('Enter')
    await page.waitForURL(/from=ada/)
    await page.getByText('From Bob').waitFor({ state: 'detached' })
    await page.getByLabel('Status').selectOption('failed')
    await page.getByRole('heading', { name: 'No message matches these filters' }).waitFor()
    await page.getByRole('button', { name: 'Remove the filters' }).click()
    await page.getByText('From Bob').waitFor()
    await dashboard.load('/inbound?from=ada')
    await page.getByText('from must be a whole address').first().waitFor()
    expect(await page.getByRole('searchbox', { name: 'Sender' }).inputValue()).toBe('ada')
  })

  test('has routes that are created, tested, changed, replayed and deleted', async () => {
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/inbound/routes')
    await page.getByRole('heading', { name: 'Your routes will appear here' }).waitFor()
    await page.getByRole('button', { name: 'Create a route' }).click()
    await page.getByRole('heading', { name: 'Create a route' }).waitFor()

    // What was typed stays when it is not accepted.
    const address = page.getByLabel('Address', { exact: true })
    await address.fill('sup*port')
    await page.getByLabel('URL').fill('ftp://nowhere')
    await page.getByRole('button', { name: 'Create the route' }).click()
    await page.getByText('Wildcards are not supported').waitFor()
    expect(await address.inputValue()).toBe('sup*port')
    await address.fill('support')
    await page.getByLabel('URL').fill(service.receiver.url('hooks.test', '/route'))
    await address.press('Enter')
    await page.getByRole('heading', { name: `support@${INBOUND}` }).waitFor()
    await page.getByText('Each message that is posted').waitFor()

    await service.arrive('support', { subject: 'Help' })
    await page.getByRole('table').getByText('Accepted').waitFor()
    await page.getByLabel('Priority').fill('7')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByText('The route was saved.').waitFor()
    await page.getByRole('button', { name: 'Replay a range of time' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('From').fill('2026-01-01T00:00')
    await dialog.getByText('There is no such message in this time.').waitFor()
    await dialog.getByLabel('Only mail that was not accepted').uncheck()
    await dialog.getByText('1 message will be sent again.').waitFor()
    await dialog.getByRole('button', { name: 'Send again' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('1 message will be sent again.').waitFor()
    await page.getByRole('button', { name: 'Deactivate' }).click()
    await page.getByText('The route is inactive; it gets no mail.').waitFor()

    await page.getByRole('link', { name: 'All routes' }).click()
    await page.locator('[data-row]', { hasText: 'Inactive' }).waitFor()
    expect(await page.locator('[data-row]').textContent()).toContain('7')
    const test = async (text: string, result: string) => {
      await page.getByRole('textbox', { name: 'Address' }).fill(text)
      await page.keyboard.press('Enter')
      await page.getByText(result).waitFor()
    }
    await test(`support@${INBOUND}`, 'no route matches, so it is only stored')
    await test('x@elsewhere.test', 'this account has no such domain')
    await test('nonsense', 'address must be an email address')
    await page.locator('[data-row] a').first().click()
    await page.getByRole('button', { name: 'Activate' }).click()
    await page.getByText('The route is active.').waitFor()
    await page.getByRole('link', { name: 'All routes' }).click()
    await test(`support+7@${INBOUND}`, `and it is posted to`)

    const secret = page.getByRole('dialog').locator('pre', { hasText: /^whsec_/ })
    await page.getByRole('button', { name: 'Show the secret' }).click()
    const before = await secret.textContent()
    await page.getByRole('button', { name: 'I have kept it' }).click()
    // Later the password is asked for again.
    service.clock.advance(minutes(11))
    await page.getByRole('button', { name: 'Replace the secret' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Replace the secret' }).click()
    await page.locator('input[type=password]').fill(PASSWORD)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('This is the new secret').waitFor()
    expect(await secret.textContent()).not.toBe(before)
    await page.getByRole('button', { name: 'I have kept it' }).click()

    await page.locator('[data-row] a').first().click()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { name: 'Your routes will appear here' }).waitFor()
    expect(dashboard.errors).toEqual([])
  })

  test('says why posting stopped, and starts it again', async () => {
    const { id } = await service.addRoute()
    service.app.db.run(
      "UPDATE webhooks SET is_active = 0, off_by_failures = 1, failure_count = 10, last_failure_at = 1, last_failure_reason = 'deactivated after 10 consecutive failures'",
    )
    await using dashboard = await open(service, ADA)
    await dashboard.goTo(`/inbound/routes/${id}`)
    await dashboard.page.getByText('deactivated after 10 consecutive failures').waitFor()
    await dashboard.page.getByRole('button', { name: 'Start posting again' }).click()
    await dashboard.page.getByText('The route is active.').waitFor()
    await dashboard.page.getByText('Posting stopped').waitFor({ state: 'detached' })
  })

  test('has mailboxes with threads that are read, searched, labelled and answered', async () => {
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/inbound/mailboxes')
    await page.getByRole('heading', { name: 'Your mailboxes will appear here' }).waitFor()
    await page.getByRole('button', { name: 'Create a mailbox' }).click()
    await page.getByLabel('Part before the @').fill('postmaster')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByText('"postmaster" is reserved').waitFor()
    await page.getByLabel('Part before the @').fill('agent')
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('heading', { name: `agent@${INBOUND}` }).waitFor()
    const mailbox = new URL(page.url()).pathname.split('/').at(-1) ?? ''
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })

    await service.deliver(mailbox, {
      subject: 'A question',
      text: 'How do I begin?\n\n> Earlier',
      strippedText: 'How do I begin?',
      messageId: '<q@example.com>',
    })
    await page.getByRole('link', { name: 'A question' }).click()
    await page.getByText('How do I begin?').waitFor()
    await page.locator('[data-sentence]', { hasText: 'Sent by example.com, proven by' }).waitFor()
    await page.getByRole('button', { name: 'Show quoted text' }).click()
    await page.getByText('> Earlier').waitFor()

    await page.getByRole('button', { name: 'Labels' }).click()
    await page.getByRole('dialog').getByLabel('Labels').fill('urgent <b>')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('dialog').getByText('Each label must have').waitFor()
    await page.getByRole('dialog').getByLabel('Labels').fill('urgent, invoice')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('listitem').getByText('invoice').waitFor()

    await page.getByLabel('To Ada Lovelace').fill('With the first step.')
    await page.getByRole('button', { name: 'Send the reply' }).click()
    await page.getByRole('link', { name: 'What happened to it' }).waitFor()
    await page.getByRole('listitem').filter({ hasText: 'Sent from here' }).getByText('With the first step.').waitFor()
    // The thread may be read again before the reply is answered.
    await eventually(async () => (await page.getByLabel('To Ada Lovelace').inputValue()) === '')
    expect(at((await service.api('GET', '/v1/emails')).body, 'pagination', 'total')).toBe(1)

    // A new message of the thread appears at its end.
    await service.deliver(mailbox, { subject: 'Re: A question', text: 'Thank you!', inReplyTo: '<q@example.com>' })
    await page.getByRole('listitem').getByText('Thank you!').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'A question' }).waitFor()
    await page.getByLabel('Search the messages').fill('nowhere')
    await page.keyboard.press('Enter')
    await page.getByText('No message has all of these words').waitFor()
    await page.getByRole('searchbox').fill('first step')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Re: A question' }).waitFor()

    await page.getByRole('button', { name: 'Delete' }).click()
    const confirm = page.getByRole('dialog').getByRole('button', { name: 'Delete' })
    await confirm.click()
    await page.getByText(`This is not agent@${INBOUND}.`).waitFor()
    await page.getByLabel(`Type agent@${INBOUND} to confirm`).fill(`agent@${INBOUND}`)
    await confirm.click()
    await page.getByRole('heading', { name: 'Your mailboxes will appear here' }).waitFor()
    await dashboard.expectHarmless()
  })

  test('shows headers and names of attachments that strangers chose as text, without what turns its direction', async () => {
    const id = await service.store({
      html: '<p>Hello</p>',
      headers: [
        ['X-Folded', 'one\r\n Authentication-Results: forged; dmarc=pass'],
        [`X-${HOSTILE}`, 'javascript:ran=1'],
      ],
      attachments: ['../../etc/passwd\u202Efdp.exe', '<svg onload=ran=1>.svg', 'CON\\..\\a\r\nb', ''].map(
        (filename) => ({
          filename,
          contentType: 'text/html"><script>ran=1</script>',
          content: Buffer.from('<script>ran=1</script>'),
        }),
      ),
      message: { from: `"${HOSTILE}" <eve@evil.test>`, to: HOSTILE, messageId: `<${HOSTILE}>` },
    })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/inbound/${id}`)
    await page.frameLocator('iframe').getByText('Hello').waitFor()
    await page.getByRole('tab', { name: 'Headers' }).click()
    const headers = (await page.locator('.long-text').textContent()) ?? ''
    expect(headers.split('\n')).toContain('x-folded: one Authentication-Results: forged; dmarc=pass')
    expect(headers).not.toContain('\u202E')
    const names = await page.getByRole('region', { name: 'Attachments' }).locator('[data-row] a').allTextContents()
    expect(names).toEqual([
      '../../etc/passwd[U+202E]fdp.exe',
      '<svg onload=ran=1>.svg',
      'CON\\..\\a[U+000D][U+000A]b',
      'attachment 4',
    ])
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: '../../etc/passwd' }).click(),
    ])
    expect(download.suggestedFilename()).not.toMatch(/[/\\\u202E]/)
    await dashboard.expectHarmless()
  })
})
