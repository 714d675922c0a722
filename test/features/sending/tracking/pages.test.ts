import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { PauseSource } from '#features/core/accounts/pause.ts'
import { closeAccount, emptyAccount } from '#features/core/accounts/rows.ts'
import type { Actor } from '#features/core/app/app.ts'
import { pauseAccount, resumeAccount } from '#features/reporting/abuse/pause.ts'
import { MAX_USER_AGENT_LENGTH } from '#features/sending/tracking/engage.ts'
import {
  ACCOUNT_TAG_BYTES,
  accountTag,
  createLinkUrl,
  createPixelUrl,
  dayOf,
  type TrackedRecipient,
} from '#features/sending/tracking/tokens.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, minutes, seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi, expectError, shareEmailApi } from '#test/support/email-api.ts'

const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'
const SCANNER = 'Mozilla/5.0 (compatible; Proofpoint)'
const SHOP = 'https://shop.test/?a=1&b=ü#end'
const GIF_BYTES = 43

interface TrackedApi extends EmailApi {
  readonly id: string
  readonly recipientId: number
  /** The recipient as named in its links. */
  readonly recipient: TrackedRecipient
  /** Loads the pixel of the recipient, as a person by default. */
  open(userAgent?: string | null, init?: RequestInit): Promise<Response>
  /** Follows a link of the recipient up to the redirect. */
  click(target?: string, userAgent?: string | null, init?: RequestInit): Promise<Response>
  /** Recorded opens and clicks, once all are stored: type and link. */
  recordedEvents(): Promise<unknown[]>
  opens(): unknown
  links(): Promise<unknown>
}

const tagOf = ({ accountUuid }: Actor): number => accountTag(parseUuid(accountUuid) ?? new Uint8Array(16))

/** A service with one tracked email to one recipient. */
async function createTracked(options: TestAppOptions = {}): Promise<TrackedApi> {
  const service = await createEmailApi(options)
  const { app, clock, api } = service
  const { id } = await service.accepted({ html_body: '<p>Hello</p>', tracking: true })
  const recipientId = app.db.query<{ id: number }, []>('SELECT id FROM recipients').get()?.id ?? 0
  const key = app.keys.subkey('tracking')
  const recipient = { account: tagOf(service.actor), recipientId, day: dayOf(clock.now()) }
  const visit = (url: string, userAgent: string | null, init: RequestInit = {}) =>
    fetch(url, {
      redirect: 'manual',
      ...init,
      headers: { 'user-agent': userAgent ?? '', ...(init.headers as Record<string, string> | undefined) },
    })
  return {
    ...service,
    id,
    recipientId,
    recipient,
    open: (userAgent = BROWSER, init) => visit(createPixelUrl(key, service.url, recipient), userAgent, init),
    click: (target = SHOP, userAgent = BROWSER, init) =>
      visit(createLinkUrl(key, service.url, recipient, target), userAgent, init),
    async recordedEvents() {
      await app.commit.barrier()
      const events = at(await service.detail(id), 'events') as { type: string; link_url: string | null }[]
      return events.filter(({ type }) => type !== 'queued').map(({ type, link_url }) => [type, link_url])
    },
    opens: () => app.db.query('SELECT * FROM opens').all(),
    async links() {
      await app.commit.barrier()
      return (await api('GET', `/v1/emails/${id}/links`)).body
    },
  }
}

const email = shareEmailApi(createTracked)

const linksBody = (...links: readonly object[]) => ({
  data: links,
  pagination: {
    page: 1,
    per_page: Math.max(links.length, 1),
    total: links.length,
    total_pages: Math.min(links.length, 1),
  },
})

/** A counter of the first account, over all hours. */
const readCounter = ({ app }: EmailApi, metric: string): number =>
  app.db.query<{ n: number | null }, [string]>('SELECT SUM(value) AS n FROM counters WHERE metric = ?').get(metric)
    ?.n ?? 0

describe('an open', () => {
  // Proves: track-3
  test('returns a 1x1 image that may not be cached', async () => {
    const answer = await email.open()
    const picture = await answer.bytes()
    expect(answer.status).toBe(200)
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'image/gif',
      'cache-control': 'no-store',
      'content-length': String(GIF_BYTES),
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
    })
    expect(new TextDecoder('latin1').decode(picture.slice(0, 10))).toBe('GIF89a\x01\0\x01\0')
    expect(picture).toHaveLength(GIF_BYTES)
  })

  // Proves: status-13
  test('is recorded with IP address and user agent', async () => {
    email.clock.advance(minutes(1))
    await email.open()
    await email.recordedEvents()
    expect(at(await email.detail(email.id), 'events', 1)).toMatchObject({
      type: 'opened',
      email_id: email.id,
      recipient: 'bob@receiver.test',
      created_at: new Date(email.clock.now()).toISOString(),
      ip_address: '127.0.0.1',
      user_agent: BROWSER,
      link_url: null,
      raw_payload: { ip_address: '127.0.0.1', user_agent: BROWSER },
    })
    expectBalanced(email)
  })

  // Proves: track-3
  test('is recorded once per 5 minutes, and counted each time', async () => {
    await email.open()
    await email.open()
    await email.recordedEvents()
    email.clock.advance(minutes(5) - 1)
    await email.open()
    expect(await email.recordedEvents()).toEqual([['opened', null]])
    email.clock.advance(1)
    await email.open()
    expect(await email.recordedEvents()).toEqual([
      ['opened', null],
      ['opened', null],
    ])
    expect(email.opens()).toEqual([
      { recipient_id: email.recipientId, human: 4, machine: 0, events: 2, last_event_at: email.clock.now() },
    ])
  })
})

describe('a click', () => {
  // Proves: track-4
  test('redirects to the original target, and reveals nothing about the message', async () => {
    const answer = await email.click()
    expect([answer.status, answer.headers.get('location'), await answer.text()]).toEqual([
      302,
      'https://shop.test/?a=1&b=%C3%BC#end',
      '',
    ])
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    })
  })

  // Proves: status-13
  test('is recorded with its link, IP address and user agent', async () => {
    await email.click()
    await email.recordedEvents()
    expect(at(await email.detail(email.id), 'events', 1)).toMatchObject({
      type: 'clicked',
      recipient: 'bob@receiver.test',
      ip_address: '127.0.0.1',
      user_agent: BROWSER,
      link_url: SHOP,
    })
    expectBalanced(email)
  })

  // Proves: email-25, track-4
  test('is recorded once per link per 30 seconds; every click counts in the statistics', async () => {
    const other = 'https://other.test/'
    await email.click()
    await email.click()
    await email.click(other)
    // Events have the time at which they are stored, which is after their responses.
    await email.recordedEvents()
    email.clock.advance(seconds(30) - 1)
    await email.click()
    expect(await email.recordedEvents()).toEqual([
      ['clicked', SHOP],
      ['clicked', other],
    ])
    email.clock.advance(1)
    await email.click()
    expect(await email.recordedEvents()).toEqual([
      ['clicked', SHOP],
      ['clicked', other],
      ['clicked', SHOP],
    ])
    const last = email.clock.now()
    expect(await email.links()).toEqual(
      linksBody(
        { url: SHOP, clicks: 4, unique_clicks: 1, machine_clicks: 0, last_clicked_at: new Date(last).toISOString() },
        {
          url: other,
          clicks: 1,
          unique_clicks: 1,
          machine_clicks: 0,
          last_clicked_at: new Date(last - seconds(30)).toISOString(),
        },
      ),
    )
  })

  // Proves: track-16
  test('on another UTC day is another unique click', async () => {
    const midnight = Date.UTC(2026, 2, 16)
    for (const time of [midnight - 1, midnight, midnight + 1, midnight + days(1) - 1, midnight + days(3)]) {
      email.clock.advance(time - email.clock.now())
      await email.click()
      await email.app.commit.barrier()
    }
    expect(await email.links()).toEqual(
      linksBody({
        url: SHOP,
        clicks: 5,
        unique_clicks: 3,
        machine_clicks: 0,
        last_clicked_at: new Date(midnight + days(3)).toISOString(),
      }),
    )
  })
})

describe('machines', () => {
  // Proves: track-3
  test.each([
    ['a scanner', SCANNER, {}],
    ['a client without a user agent', null, {}],
    ['a browser that prefetches', BROWSER, { 'sec-purpose': 'prefetch' }],
  ] as const)(
    '%s gets the same response as a person and is counted, but no event is recorded',
    async (_, userAgent, headers) => {
      const answers = [
        await email.open(userAgent, { headers }),
        await email.open(userAgent, { headers }),
        await email.click(SHOP, userAgent, { headers }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 302])
      expect(await email.recordedEvents()).toEqual([])
      expect(await email.links()).toEqual(linksBody())
      expect(email.opens()).toEqual([
        { recipient_id: email.recipientId, human: 0, machine: 2, events: 0, last_event_at: null },
      ])
      expect(email.app.db.query('SELECT human, machine FROM link_clicks').all()).toEqual([{ human: 0, machine: 1 }])
      expect([readCounter(email, 'machine:opened'), readCounter(email, 'machine:clicked')]).toEqual([2, 1])
      expect((await email.api('GET', '/v1/analytics/overview')).body).toMatchObject({
        data: { opens: 0, clicks: 0, machine_opens: 2, machine_clicks: 1 },
      })
      expectBalanced(email)
    },
  )

  // Proves: email-26
  test("a person's open is recorded right after a machine's", async () => {
    await email.open(SCANNER)
    await email.open()
    await email.click(SHOP, SCANNER)
    await email.click()
    await email.click(SHOP, SCANNER)
    expect(await email.recordedEvents()).toEqual([
      ['opened', null],
      ['clicked', SHOP],
    ])
    expect(await email.links()).toMatchObject({ data: [{ url: SHOP, clicks: 1, unique_clicks: 1, machine_clicks: 2 }] })
  })
})

// Proves: track-5
test('HEAD responds like GET, without a body, and never counts', async () => {
  const open = await email.open(BROWSER, { method: 'HEAD' })
  const click = await email.click(SHOP, BROWSER, { method: 'HEAD' })
  expect([open.status, open.headers.get('content-type'), (await open.bytes()).length]).toEqual([200, 'image/gif', 0])
  expect([click.status, click.headers.get('location')]).toEqual([302, 'https://shop.test/?a=1&b=%C3%BC#end'])
  expect(await email.recordedEvents()).toEqual([])
  expect([email.opens(), await email.links()]).toEqual([[], linksBody()])
})

// Proves: track-5
test('POST, PUT, DELETE and OPTIONS are a 405, and count nothing', async () => {
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
    const { status, headers } = await email.click(SHOP, BROWSER, { method })
    expect([method, status, headers.get('allow'), headers.get('location')]).toEqual([method, 405, 'GET, HEAD', null])
  }
  expect(await email.recordedEvents()).toEqual([])
})

describe('no open redirect:', () => {
  const foreignTarget = Buffer.from('https://evil.test/').toString('base64url')
  test('a path that is not valid text is a 404', async () => {
    for (const path of ['/t/o/%E0%A4%A', '/t/c/%E0%A4%A/x', '/t/c/x/%ff', '/u/%ff'])
      expect([path, (await fetch(`${email.url}${path}`)).status]).toEqual([path, 404])
  })

  // Proves: track-7
  test('any other path below /t is the same page, and no other method is allowed', async () => {
    const { pathname } = new URL(createLinkUrl(email.app.keys.subkey('tracking'), email.url, email.recipient, SHOP))
    const token = pathname.split('/')[3]
    const cut = ['/t/', '/t/x', '/t/o', '/t/o/', '/t/o/x/y', '/t/c', '/t/c/', `/t/c/${token}`, `/t/c/${token}/`]
    for (const path of [...cut, `${pathname}/x`, '/t/%ff', '/t/TLS-allowed', '/t/tls-allowed/x']) {
      const answer = await fetch(`${email.url}${path}`)
      expect([path, answer.status, answer.headers.get('content-type')]).toEqual([path, 404, 'text/html; charset=utf-8'])
      expect(await answer.text()).toContain('<h1>This link is incomplete</h1>')
      expect([path, (await fetch(`${email.url}${path}`, { method: 'POST' })).status]).toEqual([path, 405])
    }
    const own = await fetch(`${email.url}/t/tls-allowed?domain=x.test`)
    expect([own.status, await own.text()]).toEqual([404, ''])
  })

  // Proves: track-4
  test.each([
    ['a foreign target under a valid token', (link: string) => link.replace(/[^/]+$/, foreignTarget)],
    ['a target in clear text', (link: string) => link.replace(/[^/]+$/, encodeURIComponent('https://evil.test/'))],
    ['the token of a pixel', (_: string, pixel: string) => `${pixel.replace('/t/o/', '/t/c/')}/${foreignTarget}`],
    ['much text', (link: string) => `${link.replace(/[^/]+$/, '')}${'A'.repeat(8000)}`],
  ])('%s is a helpful 404 without a redirect', async (_, change) => {
    const { recipient } = email
    const key = email.app.keys.subkey('tracking')
    const url = change(createLinkUrl(key, email.url, recipient, SHOP), createPixelUrl(key, email.url, recipient))
    const answer = await fetch(url, { redirect: 'manual', headers: { 'user-agent': BROWSER } })
    expect([answer.status, answer.headers.get('location'), answer.headers.get('content-type')]).toEqual([
      404,
      null,
      'text/html; charset=utf-8',
    ])
    const page = await answer.text()
    expect(page).toContain('<h1>This link is incomplete</h1>')
    expect(page).not.toContain('evil')
    expect(await email.recordedEvents()).toEqual([])
  })
})

describe('under the tracking host', () => {
  const OWN = 'links.sender.test'
  const FOREIGN = 'links.victim.test'

  /** A tracked email, its account's tracking host, and that of another account. */
  async function createHosts() {
    const email = await createTracked({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } })
    const { app } = email
    const victim = await email.newAccount()
    await email.addDomain(victim, 'victim.test')
    const set = (host: string, domain: string) =>
      app.db.run('UPDATE domains SET tracking_domain = ?, tracking_verified_at = 1 WHERE domain = ?', [host, domain])
    set(OWN, 'sender.test')
    set(FOREIGN, 'victim.test')
    return {
      ...email,
      victim,
      set,
      /** The responses for the pixel and the link under a host. */
      async under(host: string) {
        const init = { headers: { host } }
        return [(await email.open(BROWSER, init)).status, (await email.click(SHOP, BROWSER, init)).status]
      },
    }
  }

  // Proves: track-8
  test('of another account a link does not redirect and nothing is counted, however the host is written', async () => {
    await using email = await createHosts()
    for (const host of [FOREIGN, `${FOREIGN}:8443`, `${FOREIGN}.`, 'LINKS.Victim.TEST.:443', `${FOREIGN}:`])
      expect([host, await email.under(host)]).toEqual([host, [404, 404]])
    const page = await email.click(SHOP, BROWSER, { headers: { host: FOREIGN } })
    expect(page.headers.get('location')).toBeNull()
    expect(await page.text()).toContain('<h1>This link is incomplete</h1>')
    expect((await email.click(SHOP, BROWSER, { method: 'HEAD', headers: { host: FOREIGN } })).status).toBe(404)
    expect([await email.recordedEvents(), email.opens(), await email.links()]).toEqual([[], [], linksBody()])
  })

  // Proves: track-8
  test("of its account, the service's own host, and unknown hosts a link redirects and counts", async () => {
    await using email = await createHosts()
    const hosts = [OWN, 'Links.Sender.test.:8443', 'mail.tassis.test', 'mail.tassis.test:8443', 'localhost:8080']
    const all = [
      ...hosts,
      '127.0.0.1',
      '[::1]:8080',
      'proxy.internal',
      'victim.test',
      'x.links.victim.test',
      'a@b',
      '',
      'xn--',
      '[::1',
    ]
    for (const host of all) expect([host, await email.under(host)]).toEqual([host, [200, 302]])
    expect(await email.links()).toMatchObject({ data: [{ clicks: all.length }] })
  })

  test('only the host of the request counts, not that in a forwarding header', async () => {
    await using email = await createHosts()
    const through = (host: string, forwarded: string) =>
      email.click(SHOP, BROWSER, { headers: { host, 'x-forwarded-host': forwarded, forwarded: `host=${forwarded}` } })
    expect([(await through(FOREIGN, OWN)).status, (await through(OWN, FOREIGN)).status]).toEqual([404, 302])
  })

  test('that another account has set below a domain of the owner, only the owner’s links redirect', async () => {
    await using email = await createHosts()
    // The account of the email has the host; the owner is the account that verified the parent domain.
    email.app.db.run('UPDATE domains SET tracking_domain = NULL, tracking_verified_at = NULL')
    email.set('go.victim.test', 'sender.test')
    expect(await email.under('go.victim.test')).toEqual([404, 404])
    const key = email.app.keys.subkey('tracking')
    const foreignLink = createLinkUrl(key, email.url, { ...email.recipient, account: tagOf(email.victim) }, SHOP)
    expect((await fetch(foreignLink, { redirect: 'manual', headers: { host: 'go.victim.test' } })).status).toBe(302)
  })

  test('that is not verified, was removed, or whose domain was deleted, a link redirects: the host is unknown', async () => {
    await using email = await createHosts()
    for (const change of [
      'tracking_verified_at = NULL',
      'tracking_verified_at = 1, deleted_at = 1',
      'deleted_at = NULL, tracking_domain = NULL',
    ]) {
      email.app.db.run(`UPDATE domains SET ${change} WHERE domain = 'victim.test'`)
      expect([change, await email.under(FOREIGN)]).toEqual([change, [200, 302]])
    }
  })

  // Proves: track-8
  test('a link outlives its email, its recipients, the pause of its account and the account itself', async () => {
    await using email = await createHosts()
    const expectRedirects = async () =>
      expect([await email.under(OWN), await email.under('mail.tassis.test'), await email.under(FOREIGN)]).toEqual([
        [200, 302],
        [200, 302],
        [404, 404],
      ])
    email.app.db.run('UPDATE accounts SET paused_at = 1')
    await expectRedirects()
    email.app.db.run('PRAGMA foreign_keys = OFF')
    for (const table of ['recipients', 'emails']) email.app.db.run(`DELETE FROM ${table}`)
    await expectRedirects()
    email.clock.advance(days(4000))
    await expectRedirects()
    // The next account may get the same row id, but must not get its links.
    const own = email.app.db.query<{ id: number }, [string]>('SELECT account_id AS id FROM domains WHERE domain = ?')
    const id = own.get('sender.test')?.id ?? 0
    email.app.db.run('DELETE FROM domains WHERE account_id = ?', [id])
    email.app.db.run('DELETE FROM accounts WHERE id = ?', [id])
    email.app.db.run('UPDATE accounts SET id = ?', [id])
    email.app.db.run('UPDATE domains SET account_id = ?', [id])
    await expectRedirects()
  })
})

describe('a link of an account that is paused', () => {
  const pause = (email: TrackedApi, source: PauseSource, accountId = email.actor.accountId) =>
    email.app.commit.write((tx) =>
      pauseAccount(email.app, tx, { ...email.actor, accountId }, { source, reason: 'It harms.' }),
    )
  const status = async (email: TrackedApi) => (await email.click()).status

  // Proves: track-2
  test.each(['scam_classifier', 'admin'] as const)(
    'for %s no longer redirects: a page names the target; after the pause it redirects again',
    async (source) => {
      await using email = await createTracked()
      expect(await status(email)).toBe(302)
      await pause(email, source)
      const answer = await email.click('https://evil.test/?a="><b>')
      const page = await answer.text()
      expect(answer.status).toBe(403)
      expect(answer.headers.get('location')).toBeNull()
      expect(page).toContain('https://evil.test/?a=%22%3E%3Cb%3E')
      expect(page).not.toMatch(/<a |<b>/)
      expect((await email.open()).status).toBe(200)
      await email.app.commit.write((tx) => resumeAccount(email.app, tx, email.actor))
      expect(await status(email)).toBe(302)
    },
  )

  test.each(['reputation', 'registration_burst'] as const)('for %s redirects', async (source) => {
    await using email = await createTracked()
    await pause(email, source)
    expect(await status(email)).toBe(302)
  })

  test('no longer redirects if the parent is paused', async () => {
    await using email = await createTracked()
    const parent = await email.newAccount()
    email.app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, email.actor.accountId])
    await pause(email, 'admin', parent.accountId)
    expect(await status(email)).toBe(403)
  })

  // Proves: track-2
  test('no longer redirects after the account was deleted and its row cleared', async () => {
    await using email = await createTracked()
    const { app, actor } = email
    const parent = await email.newAccount()
    app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, actor.accountId])
    await pause(email, 'admin', parent.accountId)
    for (const { accountId } of [parent, actor])
      await app.commit.write((tx) => {
        closeAccount(tx, accountId, 1)
        emptyAccount(tx, accountId, ACCOUNT_TAG_BYTES)
        app.sendingChanged.emit({ accountId })
      })
    expect(await status(email)).toBe(403)
  })
})

describe('a link redirects, and nothing is counted,', () => {
  const expectOnlyRedirect = async (email: TrackedApi): Promise<void> => {
    const answers = [await email.open(), await email.click()]
    expect(answers.map(({ status }) => status)).toEqual([200, 302])
    await email.app.commit.barrier()
    const { opens, link_clicks, click_marks } = email.stored()
    expect({ opens, link_clicks, click_marks, events: readCounter(email, 'event:opened') }).toEqual({
      opens: 0,
      link_clicks: 0,
      click_marks: 0,
      events: 0,
    })
  }

  test('once its email is older than two years', async () => {
    await using email = await createTracked()
    email.clock.advance(days(731))
    await expectOnlyRedirect(email)
    // The last day still counts.
    email.clock.jumpTo(email.clock.now() - days(1))
    await email.click()
    expect(await email.recordedEvents()).toEqual([['clicked', SHOP]])
  })

  test('if its account is deleted and its rows still exist', async () => {
    email.app.db.run('UPDATE accounts SET deleted_at = 1')
    await expectOnlyRedirect(email)
  })

  // Proves: track-12
  test('after a backup was restored, if another email has the row ids of the sent one', async () => {
    const { app, clock, recipient } = email
    const key = app.keys.subkey('tracking')
    const visit = async (whose: TrackedRecipient) => {
      const headers = { 'user-agent': BROWSER }
      const answers = [
        await fetch(createPixelUrl(key, email.url, whose), { headers }),
        await fetch(createLinkUrl(key, email.url, whose, SHOP), { headers, redirect: 'manual' }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([200, 302])
    }
    await visit({ ...recipient, account: tagOf(await email.newAccount()) })
    await visit({ ...recipient, day: dayOf(clock.now()) - 1 })
    expect([await email.recordedEvents(), email.opens(), await email.links()]).toEqual([[], [], linksBody()])
    await visit(recipient)
    expect(await email.recordedEvents()).toEqual([
      ['opened', null],
      ['clicked', SHOP],
    ])
  })
})

// Proves: track-10
test('mail sent before counts while its account is paused', async () => {
  email.app.db.run('UPDATE accounts SET paused_at = 1')
  await email.open()
  await email.click()
  expect(await email.recordedEvents()).toEqual([
    ['opened', null],
    ['clicked', SHOP],
  ])
})

// Proves: account-6
test('with tracking_privacy, no file of the data directory has the address or the user agent', async () => {
  const userAgent = `${BROWSER} Seldom/7.11.13`
  const address = '198.51.100.77'
  await using email = await createTracked({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
  email.app.db.run('UPDATE accounts SET tracking_privacy = 1')
  const headers = { 'x-forwarded-for': address }
  const findStored = async () => {
    const files = readdirSync(email.app.config.dataDir, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    )
    const found = await Promise.all(
      files.map(async ({ parentPath, name }) => {
        const bytes = Buffer.from(await Bun.file(join(parentPath, name)).arrayBuffer())
        return bytes.includes(address) || bytes.includes('Seldom/7.11.13')
      }),
    )
    return found.includes(true)
  }
  for (const agent of [userAgent, `${SCANNER} Seldom/7.11.13`]) {
    await email.open(agent, { headers })
    await email.click(SHOP, agent, { headers })
  }
  expect(await email.recordedEvents()).toHaveLength(2)
  expect(await findStored()).toBe(false)
  email.app.db.run('UPDATE accounts SET tracking_privacy = 0')
  await email.click('https://other.test/', userAgent, { headers })
  await email.recordedEvents()
  expect(await findStored()).toBe(true)
})

test('a user agent is stored up to 512 characters, and the IP address from a trusted proxy', async () => {
  await using email = await createTracked({ settings: { TASSIS_TRUSTED_PROXIES: '127.0.0.1' } })
  const long = `${BROWSER} ${'x'.repeat(2000)}`
  await email.open(long, { headers: { 'x-forwarded-for': '192.0.2.7' } })
  await email.recordedEvents()
  expect(at(await email.detail(email.id), 'events', 1)).toMatchObject({
    user_agent: long.slice(0, MAX_USER_AGENT_LENGTH),
    ip_address: '192.0.2.7',
  })
})

// Proves: track-9
test('a recipient has at most 1,000 open events and 1,000 click events over all links; all are counted', async () => {
  await email.open()
  await email.click()
  await email.app.commit.barrier()
  email.app.db.run('UPDATE opens SET events = 999')
  email.app.db.run('UPDATE click_marks SET events = 998')
  for (let i = 0; i < 3; i++) {
    email.clock.advance(minutes(5))
    await email.open()
    await email.click()
    await email.click(`https://shop.test/${i}`)
    await email.app.commit.barrier()
  }
  expect([readCounter(email, 'event:opened'), readCounter(email, 'event:clicked')]).toEqual([2, 3])
  expect(email.opens()).toMatchObject([{ human: 4, events: 1000 }])
  const { data } = (await email.links()) as { data: { clicks: number }[] }
  expect(data.map(({ clicks }) => clicks)).toEqual([4, 1, 1, 1])
  // Another recipient has a limit of its own.
  await email.accepted({ to: 'carol@receiver.test', html_body: '<p>x</p>', tracking: true })
  const otherRecipient = { ...email.recipient, recipientId: email.recipientId + 1 }
  const url = createLinkUrl(email.app.keys.subkey('tracking'), email.url, otherRecipient, SHOP)
  await fetch(url, { redirect: 'manual', headers: { 'user-agent': BROWSER } })
  await email.app.commit.barrier()
  expect(readCounter(email, 'event:clicked')).toBe(4)
  // The 998 events that this test only simulated.
  email.app.db.run('UPDATE opens SET events = events - 998 WHERE events = 1000')
  expectBalanced(email)
})

// Proves: track-6
test('neither image nor redirect waits for the disk', async () => {
  await using email = await createTracked()
  const { commit } = email.app
  const held = Promise.withResolvers<void>()
  const write = commit.write.bind(commit)
  commit.write = async (run) => {
    await held.promise
    return await write(run)
  }
  expect([(await email.open()).status, (await email.click()).status, email.opens()]).toEqual([200, 302, []])
  commit.write = write
  held.resolve()
  const recorded = await eventually(async () => {
    const events = await email.recordedEvents()
    return events.length === 2 && events
  })
  expect(recorded).toEqual([
    ['opened', null],
    ['clicked', SHOP],
  ])
})

describe('GET /v1/emails/{id}/links', () => {
  // Proves: email-25
  test('sums the clicks of all recipients of the email', async () => {
    const key = email.app.keys.subkey('tracking')
    const { id } = await email.accepted({ to: ['c@receiver.test', 'd@receiver.test'], html_body: 'x', tracking: true })
    const rows = email.app.db.query<{ id: number }, [number]>('SELECT id FROM recipients WHERE id > ?')
    for (const recipient of rows.all(email.recipientId))
      await fetch(createLinkUrl(key, email.url, { ...email.recipient, recipientId: recipient.id }, SHOP), {
        redirect: 'manual',
        headers: { 'user-agent': BROWSER },
      })
    await email.app.commit.barrier()
    const links = await email.api('GET', `/v1/emails/${id}/links`)
    expect(links.body).toMatchObject({ data: [{ url: SHOP, clicks: 2, unique_clicks: 1 }] })
    expect(readCounter(email, 'event:clicked')).toBe(2)
  })

  // Proves: email-24
  test('is a 403 on a plan without tracking, and a 404 for an unknown id on any', async () => {
    await using email = await createTracked({ settings: { TASSIS_PLANS: 'unlimited.tracking_enabled=false' } })
    const unknown = '01234567-89ab-7def-8123-456789abcdef'
    expectError(await email.api('GET', `/v1/emails/${email.id}/links`), 403, 'tracking_not_in_plan')
    expectError(await email.api('GET', `/v1/emails/${unknown}/links`), 404, 'email_not_found')
    email.app.db.run("UPDATE accounts SET plan = 'pro'")
    expect((await email.api('GET', `/v1/emails/${email.id}/links`)).status).toBe(200)
    expectError(await email.api('GET', `/v1/emails/${unknown}/links`), 404, 'email_not_found')
  })
})
