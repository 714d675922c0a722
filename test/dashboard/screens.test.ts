/**
 * @module Every screen of an account, with text of strangers wherever they can put some: it is only text, fits a narrow
 * screen, and a viewer can change nothing. axe examines one screen of each kind, and each dialog of a kind of its own.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { countDaily } from '#features/core/events/daily-stats.ts'
import { storeInsight } from '#features/reporting/insights/insights.ts'
import { days } from '#platform/units.ts'
import { drawLogo, putLogo } from '#test/features/setup/wording/logos.ts'
import { type RouteService, startRouteService } from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { eventually, narrowOverflowPx, overflowPx } from '#test/support/browser.ts'
import { type DashboardPage, describeInBrowser, findAxeViolations } from '#test/support/dashboard.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { createTestUser } from '#test/support/users.ts'

const ADA = 'ada@people.test'
const VIEWER = 'vera@people.test'
const SUPPORT = 'sue@people.test'
const PERSON = '/people/gone@receiver.test'
/** Read completely by the role support. */
const SUPPORT_SCREENS: readonly string[] = [
  '/emails',
  PERSON,
  '/domains',
  '/suppressions',
  '/analytics',
  '/settings/streams',
]
const TAGS = '<script>parent.ran = 1</script><img src="https://evil.test/x.png" onerror="parent.ran = 1">\u202e'
const HOSTILE = `${TAGS}${'😀'.repeat(200)}`
const NAME = `${TAGS}${'😀'.repeat(20)}`

let service: RouteService
/** Ids in the paths of screens. */
let ids: Readonly<Record<string, string>> = {}

/** One of everything. */
async function seed(): Promise<typeof ids> {
  const { app, actor, api, key, url, domainId } = service
  const { accountId } = actor
  const create = async (path: string, body: unknown, method = 'POST'): Promise<string> => {
    const answer = await api(method, path, body)
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`)
    return String((at(answer.body, 'data') as { id?: unknown }).id)
  }
  await create('/v1/account', { name: NAME }, 'PATCH')
  await create('/v1/team/invitations', {
    email: 'somebody-with-a-long-address@a-long-domain.people.test',
    role: 'viewer',
  })
  const stream = await create('/v1/streams', { slug: 'x'.repeat(63), name: NAME })
  const sub = await create('/v1/accounts', { name: NAME, email: 'sub@people.test', password: 'violin carpet thunder' })
  await create(
    '/v1/account/wording',
    { name: 'x'.repeat(100), texts: { en: { mail_intro: TAGS.replace('\u202e', '') } } },
    'PATCH',
  )
  await putLogo({ url, key }, await drawLogo('png', 480, 20))
  const mail = { from: 'ada@sender.test', to: ['bob@receiver.test', 'carol@receiver.test'], subject: HOSTILE }
  const body = { html_body: `<p>Hostile</p>${TAGS}`, text_body: TAGS }
  const email = await create('/v1/emails', { ...mail, ...body, headers: { 'X-Hostile': '<img src=x onerror=ran=1>' } })
  await eventually(async () => (await api('GET', `/v1/captured-emails/${email}`)).status === 200)
  const tomorrow = new Date(app.clock.now() + days(1)).toISOString()
  await create(`/v1/captured-emails/${email}`, { read: true }, 'PATCH')
  const scheduled = await create('/v1/emails', { ...mail, ...body, send_at: tomorrow })
  const pending = await create('/v1/domains', { domain: 'a-long-name-of-a-customer.with-many-labels.example.com' })
  const apiKey = await create('/v1/api-keys', { name: NAME, scopes: ['emails:send'] })
  await create('/v1/suppressions', { email_address: 'gone@receiver.test', reason: TAGS })
  const template = await create('/v1/templates', { alias: 'welcome', name: NAME, subject: TAGS, ...body })
  await create(`/v1/templates/${template}`, { html_body: `<!-- a -->\n<p class="b">Hostile</p>${TAGS}` }, 'PUT')
  const list = await newList(service, `List ${TAGS}`)
  await addContacts(app, list, [{ email: 'bob@receiver.test', metadata: { [TAGS]: TAGS, link: 'javascript:ran=1' } }])
  const form = await create('/v1/signup-forms', {
    list_id: list,
    title: `Form ${TAGS}`,
    custom_fields: [{ name: 'first_name', label: TAGS }],
    messages: { submit_button: TAGS },
  })
  const sequence = await create('/v1/sequences', {
    ...{ name: `Sequence ${TAGS}`, from: 'ada@sender.test', event: TAGS.slice(0, 100), status: 'active' },
    steps: [{ delay: '1d', template_alias: 'welcome' }],
  })
  await api('POST', '/v1/sequences/events', { name: TAGS.slice(0, 100), email: 'bob@receiver.test' })
  const letter = { list_id: list, from_address: 'ada@sender.test', subject: HOSTILE, ...body }
  const draft = await create('/v1/newsletters', letter)
  const sent = await api('POST', `/v1/newsletters/${await create('/v1/newsletters', letter)}/send`, {
    send_at: tomorrow,
  })
  await addWebhookThatFails()
  const route = await service.addRoute()
  const domain = app.db.query<{ id: number }, []>("SELECT id FROM domains WHERE domain = 'inbound.test'").get()?.id ?? 0
  const received = await storeTestInbound(
    app,
    { accountId, domainId: domain },
    { text: TAGS, html: `<p>Hostile</p>${TAGS}`, message: { from: `${TAGS} <eve@evil.test>`, subject: HOSTILE } },
  )
  const mailbox = await create('/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
  await deliverMessage(app, getTestMailbox(app, accountId, mailbox), {
    from: `"${TAGS.replaceAll('"', '')}" <eve@evil.test>`,
    subject: HOSTILE,
    text: TAGS,
    html: `<p>Hostile</p>${TAGS}`,
  })
  const threads = await api('GET', `/v1/agent-mailboxes/${mailbox}/threads`)
  await addFiguresAndReport()
  await api('POST', '/v1/emails', { ...mail, [TAGS]: TAGS })
  const logs = await api('GET', '/v1/logs?status=422')
  const hook = at((await api('GET', '/v1/webhooks')).body, 'data', 0, 'id')
  const delivery = at((await api('GET', `/v1/webhooks/${hook}/deliveries`)).body, 'data', 0, 'id')
  return {
    ...{ stream, sub, email, scheduled, pending, apiKey, template, list, form, draft, mailbox, received },
    broadcast: String(at(sent.body, 'data', 'operation_id')),
    route: route.id,
    sequence,
    thread: String(at(threads.body, 'data', 0, 'id')),
    log: String(at(logs.body, 'data', 0, 'id')),
    hook: String(hook),
    delivery: String(delivery),
  }
}

/** Mail of today, and a report on it. */
async function addFiguresAndReport(): Promise<void> {
  const { app, actor } = service
  const now = app.clock.now()
  await app.commit.write<unknown>((tx) => {
    for (const [field, count] of [
      ['sent', 100],
      ['delivered', 90],
    ] as const)
      countDaily(tx, { accountId: actor.accountId, domain: 'gmail.com', at: now }, field, count)
    return storeInsight(app, tx, actor, {
      ...{ periodStart: now - days(1), periodEnd: now, model: TAGS, inputTokens: 1, outputTokens: 1 },
      summary: TAGS,
      findings: JSON.stringify([
        { severity: 'critical', area: 'deliverability', observation: TAGS, recommendation: 'Repair it.' },
      ]),
      rawMarkdown: `[click](javascript:window.ran=1) ${TAGS}`,
    })
  })
}

async function addWebhookThatFails(): Promise<void> {
  service.receiver.answer({ status: 502, body: HOSTILE })
  const hook = await service.addWebhook(['delivered'], `/${'a-long-path/'.repeat(20)}`)
  await service.tell(await service.email(), 'delivered', { smtp_response: TAGS })
  service.release()
  await service.settled(hook, 1)
}

/** A screen: its path, a text that it shows when it is complete, and the actions that a viewer sees disabled. */
type Screen = readonly [path: string, text: string, forbidden?: readonly string[]]

const listScreens = (): readonly Screen[] => [
  ['/', 'Last 24 hours'],
  ['/emails', '<script>'],
  [`/emails/${ids['email']}`, 'Captured', ['Send again']],
  [`/emails/${ids['scheduled']}`, 'Reschedule', ['Reschedule', 'Send now', 'Cancel']],
  [PERSON, '<script>', ['Remove suppression: gone@receiver.test']],
  ['/domains', 'a-long-name', ['Add a domain']],
  ['/domains/new', 'Continue', ['Continue']],
  [`/domains/${ids['pending']}`, 'Check now', ['Publish with a token', 'Delete this domain']],
  ['/keys/new', 'Create the key', ['Create the key']],
  ['/suppressions', '<script>', ['Add an address', 'Remove gone@receiver.test']],
  ['/suppressions/import', 'Import the list', ['Import the list']],
  ['/webhooks', 'a-long-path', ['Add a webhook']],
  ['/webhooks/new', 'Add the webhook', ['Add the webhook']],
  [`/webhooks/${ids['hook']}`, 'Retry', ['Replay a range of time', 'Send a test event']],
  [
    `/webhooks/${ids['hook']}?tab=settings`,
    'Description',
    [
      'Replay a range of time',
      'Send a test event',
      'Save',
      'Show the secret',
      'Replace the secret',
      'Delete this webhook',
    ],
  ],
  [`/webhooks/${ids['hook']}/deliveries/${ids['delivery']}`, '<script>', ['Replay this delivery']],
  ['/logs?status=4xx', '<script>'],
  [`/logs/${ids['log']}`, 'Same errors'],
  ['/templates', '<script>', ['Create a template']],
  ['/templates/new', 'Nothing is written yet.', ['Save']],
  [
    `/templates/${ids['template']}`,
    'Rendered with the test data.',
    ['Check before sending', 'Send a test email', 'Duplicate', 'Delete', 'Save', 'Add a language'],
  ],
  [`/templates/${ids['template']}/versions?version=1`, 'Restore this version', ['Restore this version']],
  ['/audience', '<script>', ['Create a list']],
  [`/audience/lists/${ids['list']}`, 'bob@receiver.test', ['Import', 'Add a contact', 'Delete']],
  [`/audience/lists/${ids['list']}/contacts/bob@receiver.test`, '<script>', ['Remove from the list', 'Save']],
  [`/audience/lists/${ids['list']}/import`, 'Import'],
  ['/audience/sequences', '<script>', ['Create a sequence']],
  [`/audience/sequences/${ids['sequence']}`, 'bob@receiver.test', ['Delete', 'Save']],
  ['/audience/forms', '<script>', ['Create a form']],
  [`/audience/forms/${ids['form']}`, 'Look', ['Delete', 'Deactivate', 'Save']],
  ['/broadcasts', '<script>', ['Create a broadcast']],
  [`/broadcasts/drafts/${ids['draft']}?step=content`, 'Save and continue', ['Delete', 'Save and continue', 'Save']],
  ['/broadcasts/new', 'Continue', ['Continue']],
  [`/broadcasts/drafts/${ids['draft']}?step=test`, 'Send a test email', ['Delete', 'Send a test email']],
  [`/broadcasts/drafts/${ids['draft']}?step=send`, '1 recipient', ['Delete', 'Send to 1 recipient']],
  [`/broadcasts/${ids['broadcast']}`, '<script>', ['Pause', 'Cancel']],
  ['/inbound', '<script>'],
  [`/inbound/${ids['received']}`, '<script>', ['Delete', 'Reply']],
  ['/inbound/routes', 'support@inbound.test', ['Create a route', 'Show the secret', 'Replace the secret']],
  ['/inbound/routes/new', 'URL', ['Create the route']],
  [`/inbound/routes/${ids['route']}`, 'Priority', ['Deactivate', 'Delete', 'Save', 'Replay a range of time']],
  ['/inbound/mailboxes', 'agent@inbound.test', ['Create a mailbox']],
  [`/inbound/mailboxes/${ids['mailbox']}`, '<script>', ['Delete']],
  [`/inbound/mailboxes/${ids['mailbox']}/threads/${ids['thread']}`, 'Labels', ['Labels', 'Delete', 'Send the reply']],
  ['/sandbox', '<script>', ['Delete all']],
  [`/sandbox/${ids['email']}`, 'Mark as', ['Delete all', 'Mark as unread', 'Delete']],
  ['/analytics', 'The same numbers as a table'],
  ['/settings', 'Save', ['Save']],
  [
    '/settings/team',
    VIEWER,
    [
      'Invite somebody',
      `Change role of ${SUPPORT}`,
      `Remove ${SUPPORT}`,
      `Change role of ${VIEWER}`,
      'Leave the team',
      `Change role of ${ADA}`,
      'Send again to somebody-with-a-long-address@a-long-domain.people.test',
      'Remove the invitation of somebody-with-a-long-address@a-long-domain.people.test',
    ],
  ],
  ['/settings/streams', 'Transactional', ['Create a stream']],
  [`/settings/streams/${ids['stream']}`, 'Slug', ['Save', 'Delete this stream']],
  ['/settings/wording', 'Mail or page', ['Save', 'Remove the logo']],
  ['/settings/plan', 'This server sells no plans.'],
  ['/settings/audit', 'Signed in'],
  [
    '/settings/privacy',
    'Download account.json',
    ['Download person.json', 'Erase this person', 'Download account.json', 'Delete this account'],
  ],
  ['/settings/profile', 'This browser'],
  ['/parts', 'Every part that screens are made of', ['Delete']],
  ['/no-such-page', 'No such page'],
]

/** Screens that a viewer may not read. */
const listScreensOfAdmins = (): readonly Screen[] => [
  ['/keys', '<script>'],
  [`/keys/${ids['apiKey']}`, '<script>'],
  ['/settings/accounts', '<script>'],
  [`/settings/accounts/${ids['sub']}`, 'Disable'],
  ['/analytics/insights', 'Repair it.'],
]

async function show({ page, goTo }: DashboardPage, [path, text]: Screen): Promise<void> {
  await goTo(path)
  await page.locator('main').getByText(text).first().waitFor({ state: 'attached' })
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
  // The page with all parts has every state.
  const errors = path === '/parts' ? 1 : 0
  expect([path, await page.getByText('This could not be loaded').count()]).toEqual([path, errors])
}

test('every screen of an account is listed here', async () => {
  const router = await Bun.file(join(import.meta.dir, '../../src/dashboard/router.tsx')).text()
  const paths = [...router.matchAll(/(?:\bpath: |\bscreen\(|\blist\(|\bfiltered\(\s*|^ {2})'([^']+)'/gm)].map(
    ([, path = '']) => path,
  )
  expect(paths.length).toBeGreaterThan(50)
  const listed = [...listScreens(), ...listScreensOfAdmins()].map(([path]) => path.split('?')[0] ?? '')
  const isListed = (path: string) => {
    const parts = path.split('/')
    const fits = (other: string) =>
      other.split('/').length === parts.length &&
      other.split('/').every((part, at) => part === parts[at] || parts[at]?.startsWith('$'))
    return listed.some((other) => fits(other) && (other === path || !paths.includes(other)))
  }
  // Those of the server are in server.test.ts; a captured email is a child of its list.
  expect(paths.filter((path) => !path.startsWith('/server') && !isListed(path))).toEqual(['$id'])
})

describeInBrowser('every screen', (open) => {
  beforeAll(async () => {
    service = await startRouteService({
      delivers: true,
      runsTasks: true,
      settings: { TASSIS_DELIVERY: 'capture', TASSIS_INBOUND_ADDR: '127.0.0.1:2525', TASSIS_LOGINS_PER_MINUTE: '1000' },
    })
    await createTestUser(service.app, service.actor, ADA, 'owner')
    await createTestUser(service.app, service.actor, VIEWER, 'viewer')
    await createTestUser(service.app, service.actor, SUPPORT, 'support')
    ids = await seed()
  })
  afterAll(() => service?.[Symbol.asyncDispose]())

  test('shows what strangers wrote as text, and fits 320 pixels with text at 200 %', async () => {
    await using dashboard = await open(service, ADA, { width: 320, zoom: 2 })
    for (const screen of [...listScreens(), ...listScreensOfAdmins()]) {
      await show(dashboard, screen)
      expect([screen[0], await overflowPx(dashboard.page)]).toEqual([screen[0], 0])
    }
    await dashboard.expectHarmless()
  })

  test('shows a viewer the same, with the actions disabled and the reason', async () => {
    await using dashboard = await open(service, VIEWER)
    const { page } = dashboard
    const changes: string[] = []
    page.on('request', (request) => {
      if (request.method() !== 'GET' && !request.url().endsWith('/v1/templates/render')) changes.push(request.url())
    })
    for (const screen of listScreens()) {
      await show(dashboard, screen)
      expect([screen[0], await listForbidden(page)]).toEqual([screen[0], [...(screen[2] ?? [])]])
      // Enter does no more than the button.
      if (screen[0].endsWith('/new')) await page.locator('main').locator('input, select').first().press('Enter')
    }
    // The steps on the Overview ask for the keys.
    const before = dashboard.requested.length
    for (const [path] of listScreensOfAdmins()) {
      await dashboard.goTo(path)
      await page.getByText('Your role is viewer; this needs the role admin or above.').first().waitFor()
    }
    expect(changes).toEqual([])
    expect(dashboard.requested.slice(before).filter((url) => /\/v1\/(api-keys|accounts|insights)/.test(url))).toEqual(
      [],
    )
  })

  test('shows the role support what it may read, and says in a sentence what it may not', async () => {
    await using dashboard = await open(service, SUPPORT)
    const { page } = dashboard
    const main = page.locator('main')
    for (const [path] of [...listScreens(), ...listScreensOfAdmins()]) {
      if (path === '/parts') continue
      await dashboard.goTo(path)
      await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
      const alerts = await main.getByRole('alert').filter({ hasText: 'could not be loaded' }).allTextContents()
      for (const alert of alerts) expect([path, alert]).toEqual([path, expect.stringContaining('Your role, support')])
      if (SUPPORT_SCREENS.includes(path)) expect([path, alerts]).toEqual([path, []])
    }
    // What it may not read is neither linked nor asked for.
    await dashboard.goTo('/domains')
    await main.locator('[data-row]').first().waitFor()
    expect(await main.locator('[data-row] a').count()).toBe(0)
    const before = dashboard.requested.length
    await dashboard.goTo('/')
    await page.getByText('Recent emails').waitFor()
    await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
    const refused = /\/v1\/(webhooks|dead-letters|api-keys|account\/reputation|events)/
    expect(dashboard.requested.slice(before).filter((url) => refused.test(url))).toEqual([])
    await dashboard.goTo(`/emails/${ids['email']}`)
    await page.getByText('Your role does not show what emails contain.').waitFor()
    await service.api('POST', '/v1/suppressions', { email_address: 'eve@receiver.test' })
    await dashboard.load('/suppressions')
    await page.getByRole('button', { name: 'Remove eve@receiver.test' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove suppression' }).click()
    await page.getByText('eve@receiver.test may get mail again.').waitFor()
    await dashboard.expectHarmless()
  })

  test('of each kind has no fault that axe finds, in light and dark, and on a phone', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    for (const [kind, ...screen] of listKinds()) {
      await show(dashboard, screen)
      for (const width of LAYOUTS.includes(kind) ? [1280, 390] : [1280]) {
        await page.setViewportSize({ width, height: 800 })
        expect([kind, width, await overflowPx(page), await findAxeViolations(page)]).toEqual([kind, width, 0, []])
      }
      await page.setViewportSize({ width: 1280, height: 800 })
    }
    // A text that cannot be read in dark mode only is found.
    await page.evaluate("document.querySelector('h1').style.color = 'light-dark(#000, #444)'")
    expect(await findAxeViolations(page)).toEqual([expect.stringMatching(/^dark: color-contrast: /)])
  })

  test('has dialogs and menus in which axe finds no fault', async () => {
    await using dashboard = await open(service, ADA)
    const { page } = dashboard
    const check = async (name: string) => {
      await page.getByRole('dialog').waitFor()
      expect([name, await findAxeViolations(page)]).toEqual([name, []])
      expect([name, await narrowOverflowPx(page)]).toEqual([name, 0])
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
    }
    await dashboard.goTo('/')
    for (const key of ['?', 'Control+k']) {
      await page.keyboard.press(key)
      await check(key)
    }
    await page.getByRole('button', { name: '<script>' }).click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    expect(await findAxeViolations(page)).toEqual([])
    await page.keyboard.press('Escape')
    for (const [path, button] of DIALOGS) {
      await dashboard.goTo(path)
      await page.getByRole('button', { name: button, exact: true }).click()
      await check(button)
    }
    // A page that is opened in dark mode is dark.
    await page.emulateMedia({ colorScheme: 'dark' })
    await dashboard.load('/')
    await page.waitForSelector('html[data-mantine-color-scheme=dark]')
  })
})

/** A form, a choice, one that asks for the name of what is deleted, one with a code. */
const DIALOGS = [
  ['/suppressions', 'Add an address'],
  ['/settings/team', 'Invite somebody'],
  ['/settings/privacy', 'Delete this account'],
  ['/settings/profile', 'Set up an authenticator app'],
] as const

/** Kinds whose parts have other places, or another form, on a phone. */
const LAYOUTS = [
  'list with filters',
  'detail with tabs and a frame',
  'form',
  'editor with preview',
  'list beside a message',
  'all parts',
]

/** One screen of each kind; the others are made of the same parts. */
const listKinds = (): readonly (readonly [kind: string, path: string, text: string])[] => [
  ['figures', '/', 'Last 24 hours'],
  ['list with filters', '/emails', '<script>'],
  ['detail with tabs and a frame', `/emails/${ids['email']}`, 'Captured'],
  ['person', PERSON, '<script>'],
  ['form', '/keys/new', 'Create the key'],
  ['steps with texts to copy', `/domains/${ids['pending']}`, 'Check now'],
  ['request of the log', `/logs/${ids['log']}`, 'Same errors'],
  ['history of requests', `/webhooks/${ids['hook']}`, 'Retry'],
  ['editor with preview', `/templates/${ids['template']}`, 'Rendered with the test data.'],
  ['versions with differences', `/templates/${ids['template']}/versions?version=1`, 'Restore this version'],
  ['form with preview', `/audience/forms/${ids['form']}`, 'Look'],
  ['conversation', `/inbound/mailboxes/${ids['mailbox']}/threads/${ids['thread']}`, 'Labels'],
  ['list beside a message', `/sandbox/${ids['email']}`, 'Mark as'],
  ['chart and table', '/analytics', 'The same numbers as a table'],
  ['settings', '/settings/team', VIEWER],
  ['all parts', '/parts', 'Every part that screens are made of'],
  ['not found', '/no-such-page', 'No such page'],
]

/** Names of the actions that are disabled because of the role. */
const listForbidden = (page: Page): Promise<string[]> =>
  page.evaluate(`[...new Set([...document.querySelectorAll('main [aria-disabled=true]')]
    .filter((button) => button.getAttribute('aria-description')?.includes('Your role is viewer'))
    .map((button) => button.getAttribute('aria-label') ?? button.textContent))]`)
