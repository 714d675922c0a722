import { afterAll, beforeAll, expect, test } from 'bun:test'
import { fenceIfCopied } from '#app/fence/instance.ts'
import { loadConfig } from '#app/settings.ts'
import type { Finding } from '#app/status-routes.ts'
import { findAccount } from '#features/core/accounts/accounts.ts'
import { markAsCopy } from '#features/core/fence/restored.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { setUserOperator } from '#features/people/team/operator-routes.ts'
import { storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding, pauseAccount } from '#features/reporting/abuse/pause.ts'
import type { DeliveryAlert } from '#features/sending/delivery/control/operator-providers.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { hours, type Millis } from '#platform/units.ts'
import { createNode, createStatus } from '#test/app/cluster/fixture.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually, narrowOverflowPx, overflowPx } from '#test/support/browser.ts'
import { describeInBrowser, findAxeViolations, heading, pressInOneGo } from '#test/support/dashboard.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createCode, signInAsOperator } from '#test/support/operator.ts'
import { type BrowserSession, createTestUser, PASSWORD } from '#test/support/users.ts'

const HOSTILE = `<script>window.ran = 1</script><img src=x onerror="window.ran = 1"> \u202e ${'\u{1f600}'.repeat(998)}`
/** A view of figures, one of tables with actions, and a list of settings; the other views are made as these are. */
const KINDS = ['/server', '/server/queue', '/server/settings']
/** Names of accounts are shorter. */
const HOSTILE_NAME = HOSTILE.slice(0, 150)

const FINDINGS: Finding[] = [
  { check: 'hostname', status: 'ok', subject: null, message: 'The host name is well.', fix: null },
  {
    check: 'block_lists',
    status: 'failure',
    subject: HOSTILE,
    message: HOSTILE,
    fix: 'Run `tassis complaints` first.',
  },
  { check: 'webhooks', status: 'warning', subject: null, message: 'One webhook is deactivated.', fix: 'Activate it.' },
]

let service: TestApi
let session: BrowserSession
/** Ids of what the screens show. */
let ids: { readonly account: string; readonly report: string; readonly mail: string; readonly lane: string }

describeInBrowser('the server in the dashboard', (open) => {
  beforeAll(async () => {
    const settings = { TASSIS_SMTP_PORT: '2525' }
    service = await createTestApi({
      settings,
      serves: {
        settings: loadConfig(settings).report,
        doctorReport: () => ({ checked_at: new Date().toISOString(), findings: FINDINGS }),
      },
    })
    session = await signInAsOperator(service)
    ids = await seed(service)
  })
  afterAll(() => service?.[Symbol.asyncDispose]())

  // Proves: operator-11
  test('who is no operator is offered nothing, and told how to become one', async () => {
    await createTestUser(service.app, service.actor, 'vera@people.test', 'viewer')
    await using dashboard = await open(service, 'vera@people.test')
    const { page } = dashboard
    await dashboard.goTo('/')
    await page.getByRole('link', { name: 'Settings', exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'Server', exact: true }).count()).toBe(0)
    await pressInOneGo(page, 'g', 'v')
    await page.keyboard.press('?')
    await page.getByText('Keyboard shortcuts').waitFor()
    expect(await page.getByText('Go to Server').count()).toBe(0)
    await page.keyboard.press('Escape')
    expect(page.url()).not.toContain('server')
    for (const path of ['/server', '/server/queue', `/server/accounts/${ids.account}`]) {
      await dashboard.goTo(path)
      await page.getByText('tassis users operator vera@people.test').waitFor()
    }
  })

  test('an operator without an authenticator app is led to it; another session must confirm with a code', async () => {
    const email = 'otto@people.test'
    await createTestUser(service.app, service.actor, email, 'viewer')
    await setUserOperator(service.app, email, true)
    await using first = await open(service, email)
    await using second = await open(service, email)
    const { page } = first
    await first.goTo('/server/queue')
    await heading(page, 'Set up your authenticator app first')
    await page.getByRole('button', { name: 'Set up an authenticator app' }).click()
    await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
    await page.keyboard.press('Enter')
    const secret = (await page.getByRole('dialog').locator('code').first().textContent())?.trim() ?? ''
    await page.getByLabel('Six digits that the app shows').fill(createCode(secret, Date.now()))
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'I have kept it' }).click()
    await page.getByRole('link', { name: HOSTILE_LANE }).first().waitFor()

    const other = second.page
    await second.goTo('/server/mail?kind=abuse')
    await heading(other, 'Confirm that it is you')
    await other.getByRole('button', { name: 'Confirm' }).click()
    // A code is accepted once: that of the next half minute is valid already.
    await other.getByRole('textbox', { name: 'Code' }).fill(createCode(secret, Date.now() + 30_000))
    await other.keyboard.press('Enter')
    await other.getByText('For the operator').first().waitFor()

    await setUserOperator(service.app, email, false)
    await other.getByRole('link', { name: 'Disk' }).click()
    await heading(other, 'This is for operators of the service')
    await other.getByRole('link', { name: 'Server', exact: true }).waitFor({ state: 'detached' })
  })

  test('an account is found and paused by keyboard, and resumed; both are findings and in the audit log', async () => {
    const { app } = service
    const victim = await createAccount(app, { name: 'Shady Shop', email: 'shady@shop.test', plan: 'free' })
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    await dashboard.goTo('/')
    await pressInOneGo(page, 'g', 'v')
    await heading(page, 'Server')
    await page.getByRole('navigation', { name: 'Server' }).getByRole('link', { name: 'Accounts' }).click()
    await heading(page, 'Accounts')
    await page.getByRole('link', { name: 'Shady Shop' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('shady@')
    await page.keyboard.press('Enter')
    await page.waitForURL(/q=shady/)
    await page.getByText('1 account', { exact: true }).waitFor()
    await page.locator('body').click({ position: { x: 5, y: 5 } })
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await heading(page, 'Shady Shop')
    await page.getByText('It may send').waitFor()
    await page.getByRole('button', { name: 'Pause this account' }).focus()
    await page.keyboard.press('Enter')
    await page.locator('[role=dialog] textarea:focus').waitFor()
    await page.getByRole('button', { name: 'Pause', exact: true }).click()
    await page.locator('textarea:invalid:focus').waitFor()
    await page.keyboard.type('Its mail asks for passwords.')
    expect(await findAxeViolations(page)).toEqual([])
    await page.keyboard.press('Tab')
    await page.getByRole('button', { name: 'Pause', exact: true }).click()
    await page.getByText('The account is paused.').waitFor()
    await page.getByText('The account is paused: Its mail asks for passwords.').waitFor()
    await page.getByRole('link', { name: 'Its findings' }).click()
    await heading(page, 'Findings')
    await page.getByText('Its mail asks for passwords.').waitFor()
    await page.goBack()
    await page.getByRole('button', { name: 'Resume this account' }).click()
    await page.getByRole('button', { name: 'Resume', exact: true }).click()
    await page.getByText(/The account is resumed\./).waitFor()
    expect(findAccount(app.config, app.db, victim.id)?.pausedAt).toBeNull()
    const actions = app.db.query<{ action: string }, []>(
      `SELECT action FROM audit_logs WHERE account_id IS NULL AND action LIKE 'operator.account%' ORDER BY id DESC LIMIT 2`,
    )
    expect(actions.all().map(({ action }) => action)).toEqual(['operator.account_resumed', 'operator.account_paused'])
  })

  test('a list is read again without moving: new findings wait for a click', async () => {
    const { app, actor } = service
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    await page.clock.install()
    await dashboard.goTo(`/server/findings?account_id=${actor.accountUuid}`)
    await page.getByText('First finding').waitFor()
    await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
    const top = () => page.getByText('First finding').evaluate('(element) => element.getBoundingClientRect().top')
    const before = await top()
    await app.commit.write((tx) =>
      addFinding(app, tx, {
        accountId: actor.accountId,
        source: 'reputation',
        reason: 'Second finding',
        isPause: false,
      }),
    )
    await page.clock.fastForward(16_000)
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect(await page.getByText('Second finding').count()).toBe(0)
    expect(await top()).toBe(before)
    await page.getByRole('button', { name: '1 new' }).click()
    await page.getByText('Second finding').waitFor()
    await page.getByRole('button', { name: 'Remove the filter Account' }).click()
    await page.waitForURL(/\/server\/findings$/)
  })

  test('mail is held, released and dropped; each dialog says how much matches', async () => {
    const { app, api } = service
    const sent = await api('POST', '/v1/emails', {
      from: 'a@sender.test',
      to: ['x@drop.test', 'y@drop.test'],
      subject: 'Hi',
      text_body: 'Hello',
      send_at: new Date(app.clock.now() + hours(1)).toISOString(),
    })
    expect(sent.status).toBe(202)
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    const dialog = page.getByRole('dialog')
    // The list of lanes may be some seconds old, and then new ones wait for a click.
    await eventually(async () => {
      await dashboard.load('/server/queue')
      await page.getByRole('link', { name: 'one.test' }).waitFor()
      return (await page.getByRole('link', { name: 'drop.test' }).count()) > 0
    })
    await page.getByRole('link', { name: 'drop.test' }).click()
    await page.getByText('x@drop.test').waitFor()
    await page.goBack()
    await page.locator('[data-row] a:focus', { hasText: 'drop.test' }).waitFor()
    await dashboard.goTo('/server/queue?domain=drop.test')
    await page.getByRole('button', { name: 'Hold', exact: true }).click()
    await dialog.getByText('2 recipients match; 0 more in delivery are left alone.').waitFor()
    await dialog.getByLabel('Reason').fill('They asked')
    await dialog.getByRole('button', { name: 'Hold', exact: true }).click()
    await page.getByText('Mail to 2 recipients is held.').waitFor()
    await page.getByText('They asked', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Release: Mail to drop.test' }).click()
    await dialog.getByRole('button', { name: 'Release', exact: true }).click()
    await page.getByText('1 rule ended.').waitFor()
    await page.getByRole('button', { name: 'Drop', exact: true }).click()
    await dialog.getByText('2 recipients match').waitFor()
    await dialog.getByRole('button', { name: 'Drop', exact: true }).click()
    await dialog.getByText('This is not drop.test.').waitFor()
    await dialog.getByLabel('Type drop.test to confirm').fill('drop.test')
    await dialog.getByRole('button', { name: 'Drop', exact: true }).click()
    await page.getByText('Mail to 2 recipients was dropped.').waitFor()
    const left = app.db.query<{ n: number }, []>(
      "SELECT count(*) AS n FROM recipients WHERE address LIKE '%@drop.test' AND next_at IS NOT NULL",
    )
    expect(left.get()?.n).toBe(0)
  })

  test('a provider is resumed, mail is parsed again, read and deleted, and settings are searched', async () => {
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    await dashboard.goTo('/server/providers')
    await page.getByText('Suspended').first().waitFor()
    await page.getByRole('link', { name: 'yahoo', exact: true }).click()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click()
    await page.getByText('yahoo is back to its limits.').waitFor()
    const stored = service.app.db.query<{ provider: string }, []>('SELECT provider FROM provider_pairs')
    expect(stored.all()).toEqual([{ provider: 'gmail' }])

    await dashboard.goTo('/server/received')
    await page.getByRole('button', { name: 'Parse it again' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Parse it again' }).click()
    await page.getByText('The message was parsed.').waitFor()
    await dashboard.goTo('/server/mail')
    await page.getByRole('link', { name: 'To be deleted' }).click()
    await heading(page, 'To be deleted')
    await page.getByLabel('Text of the message').getByText('Hello, operator.').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await heading(page, 'Postmaster mail')
    await page.getByRole('link', { name: 'To be deleted' }).waitFor({ state: 'detached' })

    await dashboard.goTo('/server/settings')
    await page.getByText('TASSIS_HTTP_ADDR').waitFor()
    await page.getByLabel('Only those that are set').click()
    await page.getByText('TASSIS_HTTP_ADDR').waitFor({ state: 'detached' })
    expect(await page.getByText('TASSIS_SMTP_PORT').count()).toBe(1)
    await page.getByRole('searchbox').fill('no such setting')
    await page.keyboard.press('Enter')
    await heading(page, 'No setting matches')
  })

  // Proves: operator-11
  // Proves: operator-16
  test('what the checks found is shown with its fix, failures first; what is well on request', async () => {
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    await dashboard.goTo('/server')
    const checks = page.getByRole('region', { name: 'Checks' })
    await checks.getByText('Failed: block lists').waitFor()
    expect(await checks.getByRole('alert').first().textContent()).toContain('Run tassis complaints first.')
    await checks.getByText('Warning: webhooks').waitFor()
    expect(await checks.getByText('The host name is well.').isVisible()).toBe(false)
    await checks.getByText('1 well, 0 not made').click()
    await checks.getByText('The host name is well.').waitFor()
    expect(await page.evaluate('window.ran')).toBeUndefined()
  })

  test('delivery alerts say who refuses our address and what to do; their replies are only text', async () => {
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    const at = '2026-11-23T08:00:00.000Z'
    const alert = {
      provider: 'gmx',
      source: '192.0.2.1',
      rule: 'block-list',
      category: 'reputation',
      reply: `554 5.7.1 blocked ${HOSTILE}`,
      count: 12,
      first_at: at,
      last_at: at,
      advice: 'Ask for its removal where the reply says.',
    } satisfies DeliveryAlert
    const json = { data: [alert], pagination: { page: 1, per_page: 20, total: 7, total_pages: 1 } }
    await page.route('**/v1/operator/alerts*', (route) => route.fulfill({ json }))
    for (const path of ['/server', '/server/providers']) {
      await dashboard.goTo(path)
      await page.getByText('Mail to gmx is rejected because of our address or set-up').waitFor()
      await page.getByText('12 attempts from 192.0.2.1').waitFor()
      await page.getByText('Ask for its removal').waitFor()
      await page.getByText('And 2 more alerts').waitFor()
      expect([path, await narrowOverflowPx(page)]).toEqual([path, 0])
    }
    expect(await page.evaluate('window.ran')).toBeUndefined()
  })

  test('the nodes of a cluster are shown, and the leader steps down after a question', async () => {
    await using dashboard = await open(service, '', { session, width: 320, zoom: 2 })
    const { page } = dashboard
    await dashboard.goTo('/server')
    await page.getByText('says how another machine takes over').waitFor()
    const asked: unknown[] = []
    const cluster = {
      nodes: () => [],
      status: () => createStatus(createNode(HOSTILE_NAME, { behind: 3, lag_ms: 1300 }), createNode('c')),
      stepDown: async (to?: string) => void asked.push(to),
    }
    Object.assign(service.app, { cluster })
    try {
      await dashboard.load('/server')
      const section = page.getByRole('region', { name: 'Cluster' })
      await section.getByText('3 rows, 1.3 s').waitFor()
      expect(await section.getByText('Follows').count()).toBe(2)
      expect([await findAxeViolations(page), await narrowOverflowPx(page)]).toEqual([[], 0])
      await section.getByRole('button', { name: 'Step down' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('New leader').selectOption('c')
      expect(await findAxeViolations(page)).toEqual([])
      await dialog.getByRole('button', { name: 'Step down' }).click()
      await page.getByText('The node steps down; another one leads in a moment.').waitFor()
      expect(asked).toEqual(['c'])
      expect(await page.evaluate('window.ran')).toBeUndefined()
    } finally {
      Object.assign(service.app, { cluster: undefined })
    }
  })

  // Proves: operator-11
  test('hostile texts are only text, axe finds nothing in each kind of view, and narrow screens fit', async () => {
    await using dashboard = await open(service, '', { session, width: 320, zoom: 2 })
    const { page } = dashboard
    for (const [path, text] of [
      ['/server', 'The service delivers no mail now'],
      ['/server/queue', 'one.test'],
      [`/server/queue?lane=${encodeURIComponent(ids.lane)}`, 'x@one.test'],
      ['/server/queue?domain=one.test', 'Retry now'],
      ['/server/providers', 'window.ran'],
      ['/server/providers?provider=gmail', 'Retry now'],
      ['/server/received', 'Waiting'],
      ['/server/disk', 'What is deleted next'],
      ['/server/accounts', 'window.ran'],
      [`/server/accounts/${ids.account}`, 'It may not send'],
      ['/server/findings', 'window.ran'],
      ['/server/complaints', 'window.ran'],
      ['/server/reports', 'window.ran'],
      [`/server/reports/${ids.report}`, 'window.ran'],
      ['/server/mail', 'window.ran'],
      [`/server/mail/${ids.mail}`, 'window.ran'],
      ['/server/settings', 'TASSIS_HTTP_ADDR'],
    ] as const) {
      await dashboard.goTo(path)
      await page.getByText(text).first().waitFor()
      expect([path, await overflowPx(page)]).toEqual([path, 0])
    }
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.evaluate("document.documentElement.style.fontSize = ''")
    for (const path of KINDS) {
      await dashboard.goTo(path)
      expect([path, await overflowPx(page), await findAxeViolations(page)]).toEqual([path, 0, []])
    }
    await dashboard.goTo(`/server/accounts/${ids.account}`)
    await page.getByRole('button', { name: 'Resume this account' }).click()
    await page.getByText('can send again').waitFor()
    await dashboard.expectHarmless()
  })

  test('what waits since a restore is dropped or released, after a question', async () => {
    const { app, api } = service
    const sent = await api('POST', '/v1/emails', {
      from: 'a@sender.test',
      to: 'x@restored.test',
      subject: 'Hi',
      text_body: 'Hello',
      send_at: new Date(app.clock.now() + hours(1)).toISOString(),
    })
    expect(sent.status).toBe(202)
    await using dashboard = await open(service, '', { session })
    const { page } = dashboard
    const dialog = page.getByRole('dialog')
    const show = async () => {
      markAsCopy(app.db, { kind: 'backup', takenAt: app.clock.now() })
      fenceIfCopied(app.db, app.clock.now(), app.log)
      await dashboard.goTo('/server/queue')
      await page.getByText('Waiting since the restore').waitFor()
    }
    await show()
    await page.getByRole('button', { name: 'Release all' }).click()
    await dialog.getByText('It is sent, although some of it may have been sent').waitFor()
    await dialog.getByRole('button', { name: 'Release all' }).click()
    await page.getByText(/^Released \d+ recipients?\.$/).waitFor()
    await page.getByText('Waiting since the restore').waitFor({ state: 'detached' })
    await show()
    await page.getByRole('button', { name: 'Drop all' }).click()
    await dialog.getByLabel('Type drop to confirm').fill('drop')
    await dialog.getByRole('button', { name: 'Drop all' }).click()
    await page.getByText(/^Dropped \d+ recipients?\.$/).waitFor()
    const { body } = await api('GET', `/v1/emails/${at(sent.body, 'data', 'id')}`)
    expect(at(body, 'data', 'status')).toBe('cancelled')
    // It was dropped too.
    await sendHostile(api, app.clock.now())
    // A hold can be set before there is mail.
    const pagination = { page: 1, per_page: 50, total: 0, total_pages: 0 }
    await page.route(/operator\/queue\?/, (route) => route.fulfill({ json: { data: [], pagination } }))
    await dashboard.load('/server/queue')
    await page.getByText('The queue is empty').waitFor()
    await page.getByLabel('Domain of the recipients').fill('later.test')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Hold', exact: true }).waitFor()
  })
})

/** The destination that waits. */
const HOSTILE_LANE = 'one.test'

async function sendHostile(api: TestApi['api'], now: Millis): Promise<void> {
  const { status, body } = await api('POST', '/v1/emails', {
    from: 'a@sender.test',
    to: ['x@one.test', 'y@one.test'],
    subject: HOSTILE.slice(0, 900),
    text_body: 'Hello',
    send_at: new Date(now + hours(1)).toISOString(),
  })
  if (status !== 202) throw new Error(JSON.stringify(body))
}

/** One of everything, with hostile text wherever a stranger can put some. */
async function seed({ app, actor, api }: TestApi): Promise<typeof ids> {
  const now = app.clock.now()
  const account = await createAccount(app, { name: HOSTILE_NAME, email: 'evil@shop.test', plan: 'free' })
  const evil = toOperatorActor(account)
  await app.commit.write((tx) => {
    pauseAccount(app, tx, evil, { source: 'scam_classifier', reason: HOSTILE, detail: { words: [HOSTILE], links: 3 } })
    addFinding(app, tx, { accountId: actor.accountId, source: 'reputation', reason: 'First finding', isPause: false })
  })
  await api('POST', '/v1/domains', { domain: 'sender.test' })
  await app.commit.write((tx) => tx.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1'))
  await sendHostile(api, now)
  const domain = app.db.query<{ id: number }, []>('SELECT id FROM domains').get()
  await storeTestInbound(
    app,
    { accountId: actor.accountId, domainId: domain?.id ?? 0 },
    { problem: HOSTILE, rcptTo: [`"${'x'.repeat(60)}"@inbound.test`] },
  )
  const [content = 0] = await app.content.put([Buffer.from(`<feedback>${HOSTILE}</feedback>`)], now)
  const text = 'From: a@b.test\r\nSubject: x\r\nContent-Type: text/plain\r\n\r\nHello, operator.\r\n'
  const [rawRef = 0] = await app.rawMail.put([Buffer.from(text)], now)
  const envelope = {
    mailFrom: '',
    sourceIp: '192.0.2.9',
    helo: '',
    tls: null,
    receivedAt: now,
    rawRef,
    sizeBytes: text.length,
  }
  const report = newUuid()
  await app.commit.write((tx) => {
    tx.db.run('UPDATE recipients SET last_error = ?', [HOSTILE])
    for (const provider of ['gmail', 'yahoo'])
      tx.db.run(
        `INSERT INTO provider_pairs (provider, source, factor, rule, reason, suspended_at, suspended_until, duration_ms, failures)
         VALUES (?, '', 1, 'blocked', ?, ?, ?, 1000, 1)`,
        [provider, HOSTILE, now, now + hours(1)],
      )
    tx.db.run(
      `INSERT INTO received_reports (uuid, kind, account_id, domain, covered_by, organisation, report_id, content_ref, size_bytes, is_imported, created_at)
       VALUES (?, 'dmarc', ?, 'sender.test', 'sender.test', ?, ?, ?, 20, 0, ?)`,
      [report, actor.accountId, HOSTILE, HOSTILE, content, now],
    )
    tx.db.run(
      `INSERT INTO complaints (account_id, email_id, feedback_type, feedback_loop, reporter, created_at) VALUES (?, 999, 'abuse', NULL, ?, ?)`,
      [account.id, HOSTILE, now],
    )
    tx.db.run(
      `INSERT INTO inbound_receipts (mail_from, destinations, source_ip, helo, raw_ref, size_bytes, attempts, received_at)
       VALUES (?, ?, '2001:db8::1', '', ?, 10, 2, ?), ('', '[]', '192.0.2.1', '', ?, 10, 0, ?)`,
      [HOSTILE, JSON.stringify([{ kind: 'host', address: HOSTILE }]), rawRef, now, rawRef, now],
    )
    for (const [kind, subject] of [
      ['abuse', 'For the operator'],
      ['other', 'To be deleted'],
      ['postmaster', HOSTILE],
    ] as const)
      storeOperatorMail(app, tx, { kind, envelope, rcptTo: [HOSTILE], from: HOSTILE, subject, reason: HOSTILE })
  })
  const mail = app.db.query<{ uuid: Uint8Array }, []>(`SELECT uuid FROM operator_mail WHERE kind = 'postmaster'`).get()
  return {
    account: formatUuid(account.uuid),
    report: formatUuid(report),
    mail: formatUuid(mail?.uuid ?? new Uint8Array(16)),
    lane: `${actor.accountId}:one.test`,
  }
}
