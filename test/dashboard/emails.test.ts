import { expect, test } from 'bun:test'
import { statusCode } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/browser.ts'
import { describeInBrowser, letPageRun } from '#test/support/dashboard.ts'
import { CAPTURE_OPTIONS, createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const VIEWER = 'vera@people.test'
const SUPPORT = 'sue@people.test'
const FROM = 'ada@sender.test'

async function createService(): Promise<TestApi> {
  const service = await createTestApi(CAPTURE_OPTIONS)
  const { app, actor } = service
  await createTestUser(app, actor, ADA, 'owner')
  await createTestUser(app, actor, VIEWER, 'viewer')
  const { domain } = await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  return service
}

/** Sends an email over HTTP and returns its id. */
async function send({ api }: TestApi, request: Record<string, unknown> = {}): Promise<string> {
  const { status, body } = await api('POST', '/v1/emails', {
    from: FROM,
    to: 'bob@gmail.com',
    subject: 'Hello',
    text_body: 'Hello, Bob.',
    ...request,
  })
  if (status !== 202) throw new Error(`not accepted: ${JSON.stringify(body)}`)
  return (body as { data: { id: string } }).data.id
}

/** A day after today, in UTC: as the fields of a form have it, and in words. */
function inDays(days: number): { readonly date: string; readonly words: string } {
  const at = new Date(Date.now() + days * 86_400_000)
  const words = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' })
  return { date: at.toISOString().slice(0, 10), words: words.format(at) }
}

/** Waits until an email has a status. */
const settled = ({ api }: TestApi, id: string, status: string): Promise<unknown> =>
  eventually(async () => {
    const { body } = await api('GET', `/v1/emails/${id}`)
    return (body as { data: { status: string } }).data.status === status || undefined
  })

/** A server that no request must reach unless the reader asks for it. */
function startTrap() {
  const requests: { readonly path: string; readonly referer: string | null; readonly cookie: string | null }[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch({ url, headers }) {
      requests.push({ path: new URL(url).pathname, referer: headers.get('referer'), cookie: headers.get('cookie') })
      return new Response('', { headers: { 'content-type': 'image/png' } })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}

const hostileHtml = (trap: string) => `<!doctype html><html><head>
<base href="${trap}/"><meta http-equiv="refresh" content="0;url=${trap}/refresh"><meta name="referrer" content="unsafe-url">
<link rel="stylesheet" href="${trap}/style.css"><link rel="preconnect" href="${trap}"><link rel="dns-prefetch" href="${trap}">
<script src="${trap}/script.js"></script><script>parent.ran = 1; top.location = "${trap}/top"; fetch("${trap}/fetch")</script>
<style>@import "${trap}/import.css"; body { background: url(${trap}/background.png) } @font-face { font-family: x; src: url(${trap}/font) } p { font-family: x }</style>
</head><body onload="parent.ran = 1"><p>Hostile <img src="${trap}/picture.png" onerror="parent.ran = 1" srcset="${trap}/set.png 2x"></p>
<svg onload="parent.ran = 1"><image href="${trap}/svg.png"/><script>parent.ran = 1</script></svg>
<iframe src="${trap}/frame"></iframe><object data="${trap}/object"></object><embed src="${trap}/embed"><video src="${trap}/video" poster="${trap}/poster"></video>
<form action="${trap}/form" method="post"><input name="password"><button id="submit">Sign in</button></form>
<a id="top" href="${trap}/link" target="_top">Out</a> <a id="script" href="javascript:parent.ran=1">Run</a> <a id="blank" href="${trap}/blank" target="_blank" ping="${trap}/ping">New</a>
</body></html>`

const HOSTILE_SUBJECT = '"><script>parent.ran=1</script><img src=x onerror=ran=1>\u202E{{7*7}}'

describeInBrowser('the emails in the dashboard', (open) => {
  test('are seen live, opened by keyboard, and explained', async () => {
    await using service = await createService()
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/emails')
    await page.getByRole('heading', { name: 'No email yet' }).waitFor()
    expect(await page.locator('pre, code').first().textContent()).toContain(`curl ${service.url}/v1/emails`)
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    await page.evaluate('window.isSamePage = true')

    await send(service, { subject: 'The first' })
    await page.getByText('The first').waitFor()
    await page.locator('[data-row]', { hasText: 'Captured' }).waitFor()

    // The list does not jump: later emails are offered.
    await send(service, { subject: 'The second', to: ['carol@outlook.com', 'dave@example.test'] })
    const offer = page.getByRole('button', { name: '1 new' })
    await offer.waitFor()
    expect(await page.locator('[data-row]').count()).toBe(1)
    await offer.click()
    await page.locator('[data-row]', { hasText: 'The second' }).waitFor()
    expect(await page.locator('[data-row]').first().textContent()).toContain('carol@outlook.com')

    await page.locator('h1').click()
    await page.keyboard.press('j')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'The first' }).waitFor()
    expect(await page.locator('[data-sentence]').textContent()).toBe(
      'It was captured, not sent: the delivery mode of this service is `capture`.',
    )
    expect(await page.locator('.timeline').textContent()).toContain('250 2.6.0 Captured')
    await page.keyboard.press('Escape')
    await page.getByRole('heading', { name: 'Emails' }).waitFor()
    await page.locator('[data-row] a:focus', { hasText: 'bob@gmail.com' }).waitFor()
    expect(await page.evaluate('window.isSamePage')).toBe(true)
    await dashboard.expectHarmless()
  })

  test('are filtered by the URL, and each filter can be removed', async () => {
    await using service = await createService()
    await send(service, { subject: 'For Bob' })
    await send(service, { subject: 'For Carol', to: 'carol@outlook.com', tags: ['42'] })
    await using dashboard = await open(service, ADA)
    const { page, goTo, load } = dashboard
    await goTo('/emails?to=carol%40outlook.com')
    await page.getByText('For Carol').waitFor()
    expect(await page.locator('[data-row]').count()).toBe(1)
    await page.getByRole('button', { name: 'Remove the filter Recipient' }).click()
    await page.getByText('For Bob').waitFor()

    // A day applies when it is left; without "Custom days" it is gone.
    await page.getByLabel('Time', { exact: true }).selectOption('Custom days')
    await page.getByLabel('From day').fill('2025-01-01')
    expect(page.url()).not.toContain('from_date')
    await page.getByLabel('Until day').focus()
    await page.waitForURL(/from_date=2025-01-01/)
    await page.getByLabel('Time', { exact: true }).selectOption('Last 7 days')
    await page.waitForURL((url) => url.searchParams.get('range')?.includes('7') === true)
    expect(page.url()).not.toContain('from_date')
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.getByText('For Bob').waitFor()

    await page.keyboard.press('Escape')
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.keyboard.type('bob@gmail.com')
    await page.keyboard.press('Enter')
    await page.waitForURL(/q=bob/)
    await page.getByText('For Carol').waitFor({ state: 'detached' })

    await goTo('/emails?tag=42')
    await page.getByText('For Carol').waitFor()
    await load('/emails?stream=nowhere')
    await page.getByText('There is no stream "nowhere"').first().waitFor()
    expect(await page.getByLabel('Stream', { exact: true }).inputValue()).toBe('nowhere')
    await goTo('/emails?status=failed')
    await page.getByRole('heading', { name: 'No email matches these filters' }).waitFor()
  })

  test('opened directly lead to the mail before and after to the same person', async () => {
    await using service = await createService()
    await send(service, { subject: 'First' })
    await send(service, { subject: 'For Carol', to: 'carol@outlook.com' })
    const id = await send(service, { subject: 'Second' })
    await using dashboard = await open(service, ADA)
    const { page, load } = dashboard
    await load(`/emails/${id}`)
    await page.getByRole('link', { name: 'Next email' }).click()
    await page.getByRole('heading', { name: 'First', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Previous email' }).click()
    await page.getByRole('heading', { name: 'Second', exact: true }).waitFor()
  })

  test('run nothing of a hostile message and send no request', async () => {
    await using service = await createService()
    await using trap = startTrap()
    const id = await send(service, {
      subject: HOSTILE_SUBJECT,
      html_body: hostileHtml(trap.url),
      text_body: '<script>ran=1</script>',
      tags: ['<b>tag</b>'],
      headers: { 'X-Hostile': '<img src=x onerror=ran=1>' },
      attachments: [{ filename: '<svg onload=ran=1>.txt', content: 'eA==', content_type: 'text/plain' }],
    })
    await settled(service, id, 'sent')
    await using dashboard = await open(service, ADA)
    const { page, goTo, requested } = dashboard
    await goTo('/emails')
    await page.locator('[data-row]', { hasText: '<script>' }).waitFor()
    await page.locator('[data-row] a').first().click()
    const frame = page.frameLocator('iframe')
    await frame.getByText('Hostile').waitFor()
    for (const tab of ['Text', 'Headers', 'Source', 'Links', 'HTML']) await page.getByRole('tab', { name: tab }).click()
    await frame.getByText('Hostile').waitFor()
    await letPageRun(page)
    expect(trap.requests).toEqual([])
    expect(requested.filter((url) => !url.startsWith(service.url) && !url.startsWith('data:'))).toEqual([])
    await dashboard.expectHarmless()

    for (const target of ['#submit', '#top', '#script', '#blank']) await frame.locator(target).click({ force: true })
    await letPageRun(page)
    expect(trap.requests).toEqual([])
    expect(page.context().pages().length).toBe(1)
    expect(page.url()).toStartWith(`${service.url}/app/emails/${id}`)
    expect(await page.evaluate('window.ran')).toBeUndefined()

    // Pictures come after a click only, and learn nothing of this service.
    await page.getByText('which network address').waitFor()
    await page.getByRole('button', { name: 'Load remote pictures' }).click()
    await eventually(() => trap.requests.length > 0 || undefined)
    await letPageRun(page)
    for (const { path, referer, cookie } of trap.requests) {
      expect(path).toMatch(/^\/(picture\.png|set\.png|svg\.png|background\.png|poster)$/)
      expect([referer, cookie]).toEqual([null, null])
    }
  })

  test('can be cancelled and their recipients suppressed; a viewer sees why not', async () => {
    await using service = await createService()
    const id = await send(service, { send_at: `${inDays(40).date}T00:00:00Z` })
    await using viewer = await open(service, VIEWER)
    await viewer.goTo(`/emails/${id}`)
    await viewer.page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    const forbidden = viewer.page.getByRole('button', { name: 'Cancel', exact: true })
    await forbidden.focus()
    await viewer.page.getByRole('tooltip').getByText('Your role is viewer').waitFor()
    await viewer.page.keyboard.press('Enter')
    expect(await viewer.page.getByRole('dialog').count()).toBe(0)

    await using owner = await open(service, ADA)
    const { page, goTo } = owner
    await goTo(`/emails/${id}`)
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menuitem', { name: 'Suppress the recipient' }).click()
    await page.getByRole('button', { name: 'Suppress', exact: true }).click()
    await page.getByText('bob@gmail.com is on the suppression list.').waitFor()
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.getByRole('button', { name: 'Cancel the email' }).click()
    await page.locator('[data-sentence]', { hasText: 'It was cancelled' }).waitFor()
    // The viewer sees it live.
    await viewer.page.locator('[data-sentence]', { hasText: 'It was cancelled' }).waitFor()
  })

  test('that were suppressed say what comes next, also to support, and the person is not green', async () => {
    await using service = await createService()
    const { app, actor, api } = service
    await createTestUser(app, actor, SUPPORT, 'support')
    await api('POST', '/v1/suppressions', { email_address: 'bob@gmail.com', reason: 'complaint' })
    const id = await send(service)
    await using support = await open(service, SUPPORT)
    await support.goTo(`/emails/${id}`)
    await support.page.locator('[data-sentence]', { hasText: 'the address is suppressed' }).waitFor()
    await support.page.getByRole('button', { name: 'Remove suppression: bob@gmail.com' }).click()
    await support.page.getByRole('dialog').getByRole('button', { name: 'Remove suppression' }).click()
    await support.page.getByText('bob@gmail.com may get mail again.').waitFor()
    await support.page.locator('[data-sentence]', { hasText: 'the address was suppressed' }).waitFor()
    await support.page.getByText('Ask a developer to send it again.').waitFor()

    await using owner = await open(service, ADA)
    const { page, goTo } = owner
    await goTo(`/emails/${id}`)
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.getByRole('dialog').getByText('bob@gmail.com', { exact: true }).waitFor()
    expect(await page.getByText('Remove the suppression first').count()).toBe(0)
    expect(await page.getByText('Ask a developer').count()).toBe(0)
    await page.keyboard.press('Escape')
    app.db.run('UPDATE recipients SET status = ?', [statusCode('bounced')])
    await goTo('/people/bob@gmail.com')
    await page.getByText('Not suppressed; last email bounced').waitFor()
  })

  test('that change while they are read for the first time are read again', async () => {
    await using service = await createService()
    const id = await send(service, { send_at: `${inDays(40).date}T00:00:00Z` })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo('/emails')
    await page.getByText('Live', { exact: true }).waitFor({ state: 'attached' })
    const [fetched, changed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    await page.route(`**/v1/emails/${id}`, async (route) => {
      const response = await route.fetch()
      fetched.resolve()
      await changed.promise
      await route.fulfill({ response })
    })
    await page.locator('[data-row] a').first().click()
    await fetched.promise
    expect((await service.api('POST', `/v1/emails/${id}/cancel`)).status).toBe(200)
    // Longer than the page waits after an event.
    await page.waitForTimeout(1500)
    changed.resolve()
    await page.locator('[data-sentence]', { hasText: 'It was cancelled' }).waitFor()
  })

  test('can be rescheduled, sent now, and sent again to some recipients', async () => {
    await using service = await createService()
    const [first, second, tooLate] = [inDays(40), inDays(73), inDays(400)]
    const id = await send(service, { send_at: `${first.date}T00:00:00Z`, to: ['bob@gmail.com', 'carol@outlook.com'] })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/emails/${id}`)
    await page.getByRole('button', { name: 'Reschedule' }).click()
    const time = page.getByLabel('Send at')
    expect(await time.inputValue()).toBe(`${first.date}T00:00`)

    // What was typed stays when it is not accepted.
    await time.fill(`${tooLate.date}T00:00`)
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click()
    await page.locator('input[aria-invalid=true]').waitFor()
    expect(await time.inputValue()).toBe(`${tooLate.date}T00:00`)
    await time.fill(`${second.date}T04:05`)
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click()
    await page
      .locator('.facts dd', { hasText: `${second.words}, 04:05` })
      .first()
      .waitFor()

    // Without a time it is not sent.
    await page.getByRole('button', { name: 'Reschedule' }).click()
    await time.fill('')
    await page.keyboard.press('Enter')
    await page.locator('input:invalid:focus').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Send now' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send now' }).click()
    await page.getByText('The email is sent now.').waitFor()
    await page.locator('[data-sentence]', { hasText: 'Of 2 recipients: 2 captured.' }).waitFor()

    await page.getByRole('button', { name: 'Send again' }).click()
    // Captured mail did not arrive.
    await page.getByText('A new email with the same sender').waitFor()
    expect(await page.getByText('It arrives twice').count()).toBe(0)
    await page.getByRole('checkbox', { name: 'bob@gmail.com' }).uncheck()
    await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
    await page.waitForURL((url) => url.pathname.includes('/emails/') && !url.pathname.endsWith(id))
    await page.locator('[data-sentence]', { hasText: 'It was captured' }).waitFor()
    await page.getByRole('link', { name: id }).waitFor()
    await page.getByRole('tab', { name: 'Source' }).click()
    await page.getByText('Content-Type: text/plain').waitFor()
  })

  test('stay usable with as much HTML as an email may have', async () => {
    await using service = await createService()
    const html_body = `<p>Start</p>${'<table><tr><td>A cell of a long report.</td></tr></table>'.repeat(36_000)}`
    const id = await send(service, { html_body, text_body: 'x'.repeat(1_900_000) })
    await using dashboard = await open(service, ADA)
    const { page, goTo } = dashboard
    await goTo(`/emails/${id}?tab=text`)
    await page.getByText('of 1,900,000 characters are shown').waitFor()
    await page.getByRole('tab', { name: 'HTML' }).click()
    await page.frameLocator('iframe').getByText('Start').waitFor()
    await page.getByRole('tab', { name: 'Headers' }).click()
    await page.getByText('X-Mailer').or(page.getByText('Message-ID')).first().waitFor()
  })
})
