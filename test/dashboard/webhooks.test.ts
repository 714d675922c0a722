import { expect, test } from 'bun:test'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser, heading } from '#test/support/dashboard.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'
import { startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

const ADA = 'ada@people.test'
const HOSTILE = `<script>window.ran = 1</script><img src=x onerror="window.ran = 1">javascript:alert(1)\u202e${'😀'.repeat(998)}`
const SECRET = /whsec_[0-9A-Za-z]{32}/

async function startService(): Promise<WebhookService> {
  const service = await startWebhookService()
  await createTestUser(service.app, service.actor, ADA, 'owner')
  return service
}

const readWebhook = async ({ api }: WebhookService, id: string) =>
  at((await api('GET', `/v1/webhooks/${id}`)).body, 'data') as Record<string, unknown>

/** Lets a webhook fail until it is deactivated. */
async function deactivate(service: WebhookService, id: string, count = 12): Promise<void> {
  const { tell, email, release, throughRests } = service
  const sent = await email()
  for (let i = 0; i < count; i++) await tell(sent, 'delivered', { smtp_response: '250 2.0.0 Ok' })
  release()
  await throughRests(async () => (await readWebhook(service, id))['is_active'] === false, 60_000)
}

describeInBrowser('the webhooks in the dashboard', (open) => {
  test('a webhook is added, fails, is explained, activated and replayed, and what was posted can be copied', async () => {
    await using service = await startService()
    const { receiver } = service
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await dashboard.goTo('/webhooks')
    await heading(page, 'No webhook yet')
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    await heading(page, 'Add a webhook')
    await page.getByRole('button', { name: 'Add the webhook' }).click()
    await page.locator('input:invalid:focus').waitFor()
    await page.getByLabel('URL').fill('http://hooks.test/hook')
    await page.getByRole('button', { name: 'None' }).click()
    await page.getByRole('button', { name: 'Add the webhook' }).click()
    await page.getByText('Name at least one event').first().waitFor()
    await page.getByLabel('delivered', { exact: true }).check()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Add the webhook' }).click()
    await page.getByText(/https/).nth(1).waitFor()
    await page.getByLabel('URL').and(page.locator(':focus')).waitFor()
    expect(await page.getByLabel('URL').inputValue()).toBe('http://hooks.test/hook')
    await page.getByLabel('URL').fill(receiver.url('hooks.test', '/hook?key=1'))
    await page.getByLabel('Description').fill('Billing')
    await page.getByRole('button', { name: 'Add the webhook' }).click()
    await heading(page, 'The webhook was added')
    expect(await page.locator('main code').first().textContent()).toMatch(SECRET)
    receiver.answer({ status: 200, body: 'thanks' })
    await page.getByRole('button', { name: 'Send a test event' }).click()
    await page.getByText(/Your server accepted the test event with 200/).waitFor()
    await page.getByRole('link', { name: 'Go to the webhook' }).click()
    await heading(page, 'Billing')
    await page.getByRole('link', { name: 'test', exact: true }).waitFor()

    const id = new URL(page.url()).pathname.split('/').at(-1) ?? ''
    receiver.answer({ status: 502, body: HOSTILE })
    await deactivate(service, id)
    await dashboard.load('/webhooks')
    await page.getByText('Deactivated').waitFor()
    await page.getByRole('link', { name: 'Billing' }).click()
    const notice = page.getByRole('group', { name: 'This webhook was deactivated, because it failed' })
    await notice.getByText('12 events were not delivered').waitFor()
    const text = (await notice.textContent()) ?? ''
    expect(text).toContain('10 attempts in a row failed, since ')
    expect(text).toContain('the last response was 502')
    expect(await page.evaluate('window.ran')).toBeUndefined()

    await page.getByLabel('Status').selectOption('undeliverable')
    await page.waitForURL(/status=undeliverable/)
    await page.getByRole('link', { name: 'test', exact: true }).waitFor({ state: 'detached' })
    await page.reload()
    expect(await page.getByLabel('Status', { exact: true }).inputValue()).toBe('undeliverable')
    await page.getByRole('link', { name: 'delivered', exact: true }).first().click()
    await heading(page, 'Delivery: delivered')
    const posted = receiver.requests.at(-1)?.text ?? ''
    // The button says for two seconds that it has copied.
    await page.clock.install()
    await page.clock.pauseAt(Date.now() + 60_000)
    await page.getByRole('button', { name: 'Copy: payload as posted' }).click()
    await page.getByRole('button', { name: 'Copied: payload as posted' }).waitFor()
    await page.clock.resume()
    const copied = await page.evaluate<string>('navigator.clipboard.readText()')
    expect(receiver.requests.map((request) => request.text)).toContain(copied)
    expect(JSON.parse(copied)).toMatchObject({ ...JSON.parse(posted), event_id: expect.any(String) })
    await page.getByRole('region', { name: 'Payload' }).getByText('"smtp_response": "250 2.0.0 Ok"').waitFor()
    expect(await page.getByRole('region', { name: 'Body of the response' }).textContent()).toContain('<script>')
    const replayOne = page.getByRole('button', { name: 'Replay this delivery' })
    expect(await replayOne.getAttribute('aria-description')).toContain('activate it first')

    await page.keyboard.press('Escape')
    receiver.answer({ status: 204 })
    await page.getByRole('button', { name: 'Activate' }).click()
    await page.getByLabel('Also replay 12 events that were not delivered').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Activate' }).click()
    await page.getByText('The webhook is active. 12 events will be sent again.').waitFor()
    await service.throughRests(
      () => service.deliveries({ id, secret: '' }).filter(({ statusCode }) => statusCode === 204).length === 12,
    )
    await dashboard.load(`/webhooks/${id}?status=delivered&event=delivered`)
    await page.getByRole('link', { name: 'delivered', exact: true }).first().click()
    await page.getByText(/Your server accepted it with 204/).waitFor()
    const before = receiver.requests.length
    await replayOne.click()
    await page.getByText('so it gets the event twice').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click()
    await page.getByRole('link', { name: 'a new delivery' }).waitFor()
    await eventually(() => receiver.requests.length === before + 1)
    await dashboard.expectHarmless()
  })

  test('a range is counted and replayed; new deliveries wait for a click', async () => {
    await using service = await startService()
    const { addWebhook, email, tell, release, settled } = service
    const hook = await addWebhook(['delivered', 'bounced'])
    const sent = await email()
    for (const type of ['delivered', 'delivered', 'bounced'] as const) await tell(sent, type)
    release()
    await settled(hook, 3)
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await page.clock.install({ time: service.clock.now() })
    await dashboard.goTo(`/webhooks/${hook.id}`)
    await page.getByRole('link', { name: 'bounced', exact: true }).waitFor()
    const rows = page.locator('tbody [data-row]')
    expect(await rows.count()).toBe(3)
    await page.getByRole('button', { name: 'Replay a range of time' }).click()
    const dialog = page.getByRole('dialog')
    await page.clock.runFor(1000)
    await dialog.getByText('There is no such event in this time.').waitFor()
    await dialog.getByLabel('Only events that were not delivered').uncheck()
    await page.clock.runFor(1000)
    await dialog.getByText('3 events will be sent again.').waitFor()
    await dialog.getByLabel('From').fill('2020-01-02T00:00')
    await dialog.getByLabel('To').fill('2020-01-01T00:00')
    await page.clock.runFor(1000)
    await dialog.getByText('to must not be before from.').first().waitFor()
    expect(await dialog.getByLabel('From').inputValue()).toBe('2020-01-02T00:00')
    await dialog.getByLabel('To').fill('')
    await dialog.getByLabel('Event', { exact: true }).selectOption('bounced')
    await page.clock.runFor(1000)
    await dialog.getByText('1 event will be sent again.').waitFor()
    await dialog.getByRole('button', { name: 'Send again' }).click()
    await page.getByText('1 event will be sent again.').waitFor()
    await settled(hook, 4)
    await page.clock.runFor(16_000)
    const more = page.getByRole('button', { name: '1 new' })
    await more.waitFor()
    expect(await rows.count()).toBe(3)
    await more.click()
    await rows.nth(3).waitFor()
    expect(await rows.first().getByRole('link').textContent()).toBe('bounced')
  })

  test('the secret is shown and replaced after the password was typed again', async () => {
    await using service = await startService()
    const hook = await service.addWebhook()
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/webhooks/${hook.id}?tab=settings`)
    const show = page.getByRole('button', { name: 'Show the secret' })
    await show.click()
    await page.getByText(hook.secret).waitFor()
    await page.getByRole('button', { name: 'I have kept it' }).click()
    service.clock.advance(minutes(10))
    await show.click()
    const asks = page.getByRole('dialog', { name: 'Enter your password' })
    await asks.waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('Nothing was done, because you did not confirm that it is you.').waitFor()
    await show.click()
    await asks.locator('input[type=password]').fill('not my password')
    await page.keyboard.press('Enter')
    await asks.getByText('This is not your password.').waitFor()
    await asks.locator('input[type=password]').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByText(hook.secret).waitFor()
    await page.getByRole('button', { name: 'I have kept it' }).click()
    service.clock.advance(minutes(11))
    await page.getByRole('button', { name: 'Replace the secret' }).click()
    await page.getByText('becomes invalid immediately').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Replace the secret' }).click()
    await asks.locator('input[type=password]').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByText('This is the new secret.').waitFor()
    const shown = (await page.getByRole('dialog').locator('pre').textContent()) ?? ''
    expect(shown).toMatch(SECRET)
    expect(shown).not.toBe(hook.secret)
    await page.getByText(hook.secret).waitFor({ state: 'detached' })
    expect(await page.evaluate(`JSON.stringify([localStorage, sessionStorage])`)).not.toContain('whsec_')
  })

  test('settings are changed; what somebody else changed stays; a webhook is deleted after its host was typed', async () => {
    await using service = await startService()
    const { api, addWebhook, receiver } = service
    const hook = await addWebhook(['sent'])
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    await dashboard.goTo(`/webhooks/${hook.id}?tab=settings`)
    const description = page.getByLabel('Description')
    await description.fill(HOSTILE.slice(0, 150))
    await page.getByLabel('bounced', { exact: true }).check()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The webhook was saved.').waitFor()
    expect(await readWebhook(service, hook.id)).toMatchObject({ events: ['sent', 'bounced'] })
    expect(await page.evaluate('window.ran')).toBeUndefined()
    await page.getByLabel('Format').selectOption('Postmark')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The format "postmark" has no payload for sent').first().waitFor()
    await page.getByLabel('sent', { exact: true }).uncheck()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The webhook was saved.').waitFor()
    expect(await readWebhook(service, hook.id)).toMatchObject({ events: ['bounced'], format: 'postmark' })
    await description.fill('Mine')
    const theirs = { url: receiver.url('hooks.test', '/theirs'), events: ['opened'], description: 'Theirs' }
    expect((await api('PUT', `/v1/webhooks/${hook.id}`, { ...theirs, is_active: true })).status).toBe(200)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The webhook was changed since you opened it, so nothing was stored').waitFor()
    await heading(page, 'Theirs')
    expect(await description.inputValue()).toBe('Mine')
    await page.getByRole('button', { name: 'Save' }).click()
    await heading(page, 'Mine')
    expect(await readWebhook(service, hook.id)).toMatchObject({ ...theirs, description: 'Mine' })
    await page.getByRole('switch', { name: 'Post events to this webhook' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('This webhook is off').waitFor()
    await page.getByRole('button', { name: 'Delete this webhook' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('[role=dialog] input:focus').waitFor()
    await page.keyboard.type('hooks.test')
    await page.keyboard.press('Enter')
    await heading(page, 'No webhook yet')
    expect((await api('GET', `/v1/webhooks/${hook.id}`)).status).toBe(404)
  })
})
