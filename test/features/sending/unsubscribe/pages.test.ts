import { describe, expect, test } from 'bun:test'
import { createUnsubscribeToken } from '#features/sending/unsubscribe/headers.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { suppress, unsuppress } from '#features/setup/suppression-store/suppress.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours, minutes } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { shareEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { ADDRESS, createUnsubscribable, pressButton, type RequestBody, requestPage } from './fixture.ts'

const service = shareEmailApi(createUnsubscribable)

const MULTIPART = [
  '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n',
  { 'content-type': 'multipart/form-data; boundary=b' },
] as const
const FORM = ['List-Unsubscribe=One-Click', { 'content-type': 'application/x-www-form-urlencoded' }] as const

const unsubscribed = (stream: string | null, sourceEmailId = 1) => ({
  address: ADDRESS,
  covers: 1,
  stream,
  reason: 'unsubscribe',
  sourceEmailId,
})

/** A body whose length is not known before it is sent. */
const inChunks = (text: string) =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(text)
      controller.close()
    },
  })

describe('a one-click POST of RFC 8058', () => {
  const bodies: [string, RequestBody | undefined, Record<string, string>][] = [
    ['a multipart form', ...MULTIPART],
    ['a urlencoded form', ...FORM],
    ['a form with a charset', FORM[0], { 'content-type': `${FORM[1]['content-type']}; charset=UTF-8` }],
    ['no body', undefined, {}],
    ['an empty form', '', FORM[1]],
    ['a body without a type', new Blob([FORM[0]]), {}],
    ['chunks without a length', inChunks(FORM[0]), {}],
    ['a body of an unknown type', FORM[0], { 'content-type': 'application/x-one-click' }],
    ['an invalid type', FORM[0], { 'content-type': ';;;' }],
    ['JSON', '{"List-Unsubscribe":"One-Click"}', { 'content-type': 'application/json' }],
    ['a broken multipart form', '--c\r\n', MULTIPART[1]],
    ['a compressed form', Bun.gzipSync(FORM[0]), { ...FORM[1], 'content-encoding': 'gzip' }],
    ['an additional field', `${FORM[0]}&action=resubscribe`, FORM[1]],
    ['an unknown action', 'action=nothing', FORM[1]],
    ['cookies and a wrong key', FORM[0], { ...FORM[1], cookie: 'a=b', authorization: 'Bearer wrong' }],
  ]

  // Proves: status-22, suppress-12
  test.each(bodies)('with %s unsubscribes immediately', async (_, body, headers) => {
    const path = await service.link()
    const answer = await requestPage(service, 'POST', path, body, headers)
    expect({ status: answer.status, type: answer.headers.get('content-type') }).toEqual({
      status: 200,
      type: 'text/html; charset=utf-8',
    })
    expect(service.suppressions()).toEqual([unsubscribed(null)])
    expect(service.events()).toEqual([
      {
        emailId: 1,
        recipient: ADDRESS,
        data: { stream: 'transactional', list_id: null, scope: 'all', reason: 'one-click' },
      },
    ])
  })

  // Proves: status-22
  test('repeated, also concurrently, changes nothing: one suppression, one event', async () => {
    const path = await service.link()
    const answers = await Promise.all(Array.from({ length: 20 }, () => requestPage(service, 'POST', path, ...FORM)))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect([service.suppressions(), service.events().length]).toEqual([[unsubscribed(null)], 1])
  })

  test('sets no cookie, does not redirect, and forbids framing and caching', async () => {
    const answer = await requestPage(service, 'POST', await service.link(), ...FORM)
    const { headers } = answer
    expect({
      status: answer.status,
      cookie: headers.get('set-cookie'),
      cache: headers.get('cache-control'),
      robots: headers.get('x-robots-tag'),
      referrer: headers.get('referrer-policy'),
      policy: headers.get('content-security-policy')?.split('; '),
    }).toEqual({
      status: 200,
      cookie: null,
      cache: 'no-store',
      robots: 'noindex, nofollow',
      referrer: 'no-referrer',
      policy: expect.arrayContaining(["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"]),
    })
  })

  test('works for a paused account', async () => {
    const path = await service.link()
    service.app.db.run('UPDATE accounts SET paused_at = 1')
    expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
    expect(service.suppressions()).toEqual([unsubscribed(null)])
  })
})

test('a link of sandbox mail works, and records an event, but is in no statistic', async () => {
  const path = await service.link({ from: `ada@${UNVERIFIED}` })
  expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
  expect([service.suppressions().length, service.events().length]).toEqual([1, 1])
  expect(service.app.db.query('SELECT unsubscribes FROM daily_figures').all()).toEqual([])
})

describe('what a link stops', () => {
  const stops = (stream: string, transactional = false) => {
    const { app, actor } = service
    const row = app.db.query<{ id: number }, [string]>('SELECT id FROM streams WHERE slug = ?').get(stream)
    const covered = { accountId: actor.accountId, address: ADDRESS, transactional, streamId: row?.id ?? 0 }
    return suppressionOf(app.db, covered) !== undefined
  }
  const all = () => ({
    default: stops('transactional'),
    news: stops('news'),
    transactional: stops('transactional', true),
    transactionalNews: stops('news', true),
  })

  // Proves: suppress-12
  test('of a stream of its own: mail of that stream with transactional: false, nothing else', async () => {
    await requestPage(service, 'POST', await service.link({ stream: 'news' }), ...FORM)
    expect(all()).toEqual({ default: false, news: true, transactional: false, transactionalNews: false })
    expect(service.suppressions()).toEqual([unsubscribed('news')])
    expect(service.events().map(({ data }) => data)).toEqual([
      { stream: 'news', list_id: null, scope: 'stream', reason: 'one-click' },
    ])
  })

  // Proves: suppress-12
  test('of the default stream: all mail with transactional: false, nothing else', async () => {
    await requestPage(service, 'POST', await service.link(), ...FORM)
    expect(all()).toEqual({ default: true, news: true, transactional: false, transactionalNews: false })
  })
})

describe('the buttons of the page', () => {
  const summarise = async (response: Response) => {
    const text = await response.text()
    const actions = [...text.matchAll(/name="action" value="([\w-]+)"/g)].map(([, action]) => action)
    return { status: response.status, title: /<title>(.*)<\/title>/.exec(text)?.[1], actions }
  }
  const ASKS = { status: 200, title: 'Unsubscribe', actions: ['unsubscribe', 'unsubscribe-all'] }
  const STOPPED = { status: 200, title: 'You are unsubscribed', actions: ['unsubscribe-all', 'resubscribe'] }
  const ALL_STOPPED = { status: 200, title: 'You are unsubscribed', actions: ['resubscribe-all'] }
  const AGAIN = { status: 200, title: 'You are subscribed again', actions: ['unsubscribe', 'unsubscribe-all'] }

  // Proves: suppress-15
  test('stop the stream, and resubscribe; the page then shows the new state', async () => {
    const path = await service.link({ stream: 'news' })
    expect(await summarise(await requestPage(service, 'GET', path))).toEqual(ASKS)
    expect(await summarise(await pressButton(service, path, 'unsubscribe'))).toEqual(STOPPED)
    expect(await summarise(await requestPage(service, 'GET', path))).toEqual(STOPPED)
    expect(service.suppressions()).toEqual([unsubscribed('news')])
    expect(await summarise(await pressButton(service, path, 'resubscribe'))).toEqual(AGAIN)
    expect(await summarise(await requestPage(service, 'GET', path))).toEqual(ASKS)
    expect(service.suppressions()).toEqual([])
    expect(service.events().map(({ data }) => data)).toEqual([
      { stream: 'news', list_id: null, scope: 'stream', reason: 'page' },
    ])
  })

  test('stop all mail, and undo exactly that', async () => {
    const path = await service.link({ stream: 'news' })
    await pressButton(service, path, 'unsubscribe')
    expect(await summarise(await pressButton(service, path, 'unsubscribe-all'))).toEqual(ALL_STOPPED)
    expect(await summarise(await requestPage(service, 'GET', path))).toEqual(ALL_STOPPED)
    expect(service.suppressions()).toEqual([unsubscribed('news'), unsubscribed(null)])
    expect(service.events().map(({ data }) => data)).toEqual(
      ['stream', 'all'].map((scope) => ({ stream: 'news', list_id: null, scope, reason: 'page' })),
    )
    expect(await summarise(await pressButton(service, path, 'resubscribe-all'))).toEqual(STOPPED)
    expect(service.suppressions()).toEqual([unsubscribed('news')])
  })

  test('of a link for all mail offer only that', async () => {
    const path = await service.link()
    expect(await summarise(await requestPage(service, 'GET', path))).toEqual({ ...ASKS, actions: ['unsubscribe'] })
    expect(await summarise(await pressButton(service, path, 'unsubscribe'))).toEqual(ALL_STOPPED)
    expect(await summarise(await pressButton(service, path, 'resubscribe-all'))).toEqual({
      ...AGAIN,
      actions: ['unsubscribe'],
    })
    expect(service.suppressions()).toEqual([])
  })

  test('to resubscribe affect neither complaints nor hard bounces, nor another address or stream', async () => {
    const { app, actor } = service
    const path = await service.link({ stream: 'news' })
    const others = await Promise.all([service.link(), service.link({ stream: 'news', to: 'eve@receiver.test' })])
    for (const each of [path, ...others]) await requestPage(service, 'POST', each, ...FORM)
    const at = { accountId: actor.accountId, address: ADDRESS, covers: 'all' as const }
    await app.commit.write((tx) => suppress(app, tx, { ...at, reason: 'complaint' }))
    const before = service.suppressions()
    await pressButton(service, path, 'resubscribe')
    expect(service.suppressions()).toEqual(
      before.filter(({ address, stream }) => address !== ADDRESS || stream !== 'news'),
    )
  })

  test.each([
    ['a complaint', 'complaint'],
    ['a hard bounce', 'hard_bounce'],
    ['the account itself', 'manual'],
  ])(
    'promise no mail to an address suppressed for all mail by %s: only the sender can change that',
    async (_, reason) => {
      const { app, actor } = service
      const path = await service.link({ stream: 'news' })
      const all = { accountId: actor.accountId, address: ADDRESS, covers: 'all' as const, reason }
      await app.commit.write((tx) => suppress(app, tx, all))
      const BLOCKED = { status: 200, title: 'You get no mail from this sender', actions: ['unsubscribe'] }
      expect(await summarise(await requestPage(service, 'GET', path))).toEqual(BLOCKED)
      expect(await summarise(await pressButton(service, path, 'unsubscribe'))).toEqual({
        ...BLOCKED,
        title: 'You are unsubscribed',
        actions: [],
      })
      expect(await summarise(await pressButton(service, path, 'resubscribe'))).toEqual(BLOCKED)
      const text = (await (await requestPage(service, 'GET', path)).text()).replace(/<[^>]+>/g, '')
      expect(text).toContain(
        'sender.test sends nothing at all to bob@receiver.test, not even receipts or new passwords.',
      )
      expect(text).toContain(
        'This cannot be changed here. Reply to a message from sender.test, or contact the sender in another way, and ask for it.',
      )
      expect(service.suppressions().map((row) => row.reason)).toEqual([reason])
      await app.commit.write((tx) => unsuppress(tx, all))
      expect(await summarise(await requestPage(service, 'GET', path))).toEqual(ASKS)
    },
  )

  test('are recorded in the audit log; resubscribing does nothing without an unsubscription', async () => {
    const path = await service.link()
    await pressButton(service, path, 'resubscribe')
    expect(service.auditRows()).toEqual([])
    await pressButton(service, path, 'unsubscribe')
    await pressButton(service, path, 'resubscribe')
    expect(service.auditRows()).toEqual(
      ['suppression.created', 'suppression.deleted'].map((action) => ({
        actorType: 'system',
        action,
        metadata: { reason: 'unsubscribe', by: 'recipient' },
      })),
    )
  })

  test('to resubscribe may be pressed 10 times, then once every 6 minutes; unsubscribing has no limit', async () => {
    // Earlier tests pressed the button for the same recipient.
    service.clock.advance(hours(1))
    const path = await service.link()
    for (let i = 0; i < 10; i++) expect((await pressButton(service, path, 'resubscribe')).status).toBe(200)
    const refused = await pressButton(service, path, 'resubscribe')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '360'])
    expect((await pressButton(service, await service.link(), 'resubscribe')).status).toBe(200)
    for (let i = 0; i < 12; i++) expect((await pressButton(service, path, 'unsubscribe')).status).toBe(200)
    await service.clock.advance(minutes(6))
    expect((await pressButton(service, path, 'resubscribe')).status).toBe(200)
    expect(service.suppressions()).toEqual([])
  })

  test('to resubscribe have a separate limit for a contact and a recipient with the same row id', async () => {
    // Earlier tests pressed the button for the same recipient.
    service.clock.advance(hours(1))
    const path = await service.link()
    const accountUuid = parseUuid(service.actor.accountUuid) ?? new Uint8Array()
    const facts = {
      accountUuid,
      emailId: 0,
      recipientId: 1,
      address: 'ann@receiver.test',
      senderDomain: '',
      streamId: 0,
    }
    const ofContact = `/u/${createUnsubscribeToken(service.app.keys, { ...facts, listId: 0 })}`
    for (let i = 0; i < 10; i++) expect((await pressButton(service, ofContact, 'resubscribe')).status).toBe(200)
    expect((await pressButton(service, ofContact, 'resubscribe')).status).toBe(429)
    expect((await pressButton(service, path, 'resubscribe')).status).toBe(200)
  })
})

describe('viewing never acts', () => {
  // Proves: suppress-15
  test.each(['GET', 'HEAD'])('%s changes nothing, however often and with any query', async (method) => {
    const path = await service.link()
    const before = service.stored()
    for (const query of ['', '?action=unsubscribe', '?List-Unsubscribe=One-Click']) {
      const answer = await requestPage(service, method, `${path}${query}`)
      expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      if (method === 'HEAD') expect(await answer.text()).toBe('')
    }
    expect(service.stored()).toEqual(before)
  })

  test.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS'])('%s is a 405 that changes nothing', async (method) => {
    const path = await service.link()
    const answer = await requestPage(service, method, path)
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
    expect(service.suppressions()).toEqual([])
  })
})

describe('an invalid token', () => {
  test.each([
    ['cut', (path: string) => path.slice(0, -1)],
    ['changed', (path: string) => path.replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A'))],
    ['followed by more letters', (path: string) => `${path}A`],
    ['with far too many other characters', (path: string) => `${path}${'.'.repeat(2_000)}`],
    ['made up', () => '/u/nonsense'],
    ['far too long', () => `/u/${'A'.repeat(6_000)}`],
    ['not UTF-8', () => '/u/%E0%A4%A'],
  ])('(%s) shows a 404 page with the next step, and changes nothing', async (_, change) => {
    const path = change(await service.link())
    for (const answer of [await requestPage(service, 'GET', path), await requestPage(service, 'POST', path, ...FORM)]) {
      expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
      expect(await answer.text()).toContain('reply to the message and ask the sender to remove you from the list')
    }
    expect(service.suppressions()).toEqual([])
  })
})

// Proves: suppress-16
test('a link without its token or with an extra path leads to the same page', async () => {
  const path = await service.link()
  for (const cut of ['/u', '/u/', `${path}/more`]) {
    const answer = await requestPage(service, 'GET', cut)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(await answer.text()).toContain('<h1>This link is incomplete</h1>')
  }
})

describe('a link still works', () => {
  const damages: readonly (readonly [how: string, damage: (token: string) => string])[] = [
    ['percent-encoded', (token) => token.replace(/./g, (c) => `%${c.charCodeAt(0).toString(16)}`)],
    ['with a trailing slash', (token) => `${token}/`],
    ['followed by the > of a header', (token) => `${token}%3E`],
    ['followed by a bracket and a full stop', (token) => `${token}).`],
    ['folded by quoted-printable', (token) => `${token.slice(0, 60)}=%0D%0A${token.slice(60)}`],
  ]
  // Proves: suppress-16
  test.each(damages)('%s', async (_, damage) => {
    const path = `/u/${damage((await service.link()).slice('/u/'.length))}`
    expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
    expect(service.suppressions()).toEqual([unsubscribed(null)])
  })
})

// Proves: suppress-15
test("a page is in the reader's language, and declares it; its buttons send the same", async () => {
  const path = await service.link({ stream: 'news' })
  const seen = async (answer: Response) => {
    const text = await answer.text()
    return {
      language: [answer.headers.get('content-language'), /<html lang="(.*)">/.exec(text)?.[1]],
      vary: answer.headers.get('vary'),
      says: [...text.matchAll(/<(?:h[12]|p|button)[^>]*>(.*)<\//g)].map(([, inner = '']) =>
        inner.replace(/<[^>]*>/g, ''),
      ),
      actions: [...text.matchAll(/value="([\w-]+)"/g)].map(([, action]) => action),
    }
  }
  const german = { 'accept-language': 'de-CH, en;q=0.5' }
  const common = { language: ['de', 'de'], vary: 'accept-language' }
  expect(await seen(await requestPage(service, 'GET', path, undefined, german))).toEqual({
    ...common,
    says: [
      'Abmelden?',
      'bob@receiver.test erhält dann keine E-Mails aus „Weekly news“ von sender.test mehr.',
      'Abmelden',
      'Oder alles abbestellen',
      'Gar keine Newsletter, Angebote oder ähnlichen E-Mails von sender.test mehr.',
      'Von allem abmelden',
      'E-Mails zu etwas, das Sie selbst veranlasst haben, etwa eine Quittung oder ein neues Passwort, kommen weiterhin.',
    ],
    actions: ['unsubscribe', 'unsubscribe-all'],
  })
  expect((await seen(await requestPage(service, 'POST', path, FORM[0], { ...FORM[1], ...german }))).says).toEqual([
    'Sie sind abgemeldet',
    'bob@receiver.test erhält keine E-Mails aus „Weekly news“ von sender.test mehr. Was schon verschickt wurde, kann noch ankommen.',
    'Oder alles abbestellen',
    'Gar keine Newsletter, Angebote oder ähnlichen E-Mails von sender.test mehr.',
    'Von allem abmelden',
    'War das ein Versehen?',
    'Wieder anmelden',
    'E-Mails zu etwas, das Sie selbst veranlasst haben, etwa eine Quittung oder ein neues Passwort, kommen weiterhin.',
  ])
  expect(await seen(await requestPage(service, 'GET', '/u/nonsense', undefined, german))).toMatchObject({
    ...common,
    actions: [],
  })
  expect(
    (await seen(await requestPage(service, 'GET', path, undefined, { 'accept-language': 'sv' }))).language,
  ).toEqual(['en', 'en'])
})

describe('without rows', () => {
  // Proves: suppress-12
  test('a link works after its email was deleted: it writes a suppression and an audit entry, but no event, since events belong to emails', async () => {
    const path = await service.link({ stream: 'news' })
    service.app.db.run('DELETE FROM recipients')
    service.app.db.run('DELETE FROM emails')
    const answer = await requestPage(service, 'POST', path, ...FORM)
    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain(
      'mail of “<bdi>Weekly news</bdi>” from <strong><bdi>sender.test</bdi></strong>',
    )
    expect([service.suppressions(), service.events()]).toEqual([[unsubscribed('news')], []])
    expect(service.auditRows()).toEqual([
      { actorType: 'system', action: 'suppression.created', metadata: { reason: 'unsubscribe', by: 'recipient' } },
    ])
  })

  // Proves: suppress-12
  test('a link still responds after its account was deleted, and a new account with the same row id is not affected', async () => {
    const path = await service.link({ stream: 'news' })
    service.app.db.run('UPDATE accounts SET uuid = ?', [new Uint8Array(16)])
    for (const answer of [
      await requestPage(service, 'GET', path),
      await requestPage(service, 'POST', path, ...FORM),
      await pressButton(service, path, 'resubscribe'),
    ]) {
      expect(answer.status).toBe(200)
      const text = await answer.text()
      expect(text).toContain('You are unsubscribed')
      expect(text).not.toContain('<button')
    }
    expect([service.suppressions(), service.events()]).toEqual([[], []])
  })
})

describe('after a backup was restored, a link of a lost email still stops its address', () => {
  // Proves: status-22
  test.each([
    ['the recipient', "UPDATE recipients SET address = 'eve@receiver.test'"],
    ['the email, with other recipients,', 'UPDATE recipients SET id = 2'],
  ])('and records no event for %s that now has its row id', async (_, change) => {
    const path = await service.link({ stream: 'news' })
    service.app.db.run(change)
    expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
    expect(service.suppressions()).toEqual([{ ...unsubscribed('news'), sourceEmailId: null }])
    expect(service.events()).toEqual([])
    expect(service.auditRows()).toHaveLength(1)
  })

  test("and records no event for another account's email to the same address that has its row id now", async () => {
    const path = await service.link({ stream: 'news' })
    const { accountId } = await createTestAccount(service.app)
    service.app.db.run('UPDATE emails SET account_id = ?', [accountId])
    expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
    expect(service.suppressions()).toEqual([{ ...unsubscribed('news'), sourceEmailId: null }])
    expect(service.events()).toEqual([])
  })
})

test('a link of an account that is being deleted writes nothing, since the row would remain', async () => {
  const path = await service.link({ stream: 'news' })
  service.app.db.run('UPDATE accounts SET deleted_at = 1')
  for (const answer of [await requestPage(service, 'GET', path), await requestPage(service, 'POST', path, ...FORM)]) {
    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain('You are unsubscribed')
  }
  expect([service.suppressions(), service.events(), service.auditRows()]).toEqual([[], [], []])
})

test('a storage failure shows a page with its status, so that mail programs retry', async () => {
  const path = await service.link()
  const { db } = service.app
  db.run('CREATE TABLE filler (bytes BLOB)')
  db.run('CREATE TRIGGER grow BEFORE INSERT ON suppressions BEGIN INSERT INTO filler VALUES (zeroblob(1000000)); END')
  const pages = db.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  db.run(`PRAGMA max_page_count = ${pages}`)
  const answer = await requestPage(service, 'POST', path, ...FORM)
  expect([answer.status, answer.headers.get('content-type')]).toEqual([507, 'text/html; charset=utf-8'])
  expect(await answer.text()).toContain('nothing was changed. Try again in a few minutes.')
  expect(service.suppressions()).toEqual([])
  db.run('PRAGMA max_page_count = 1000000')
  expect((await requestPage(service, 'POST', path, ...FORM)).status).toBe(200)
})

test('a body over 64 KiB is rejected unread', async () => {
  expect((await requestPage(service, 'POST', await service.link(), 'x'.repeat(70_000))).status).toBe(413)
  expect(service.suppressions()).toEqual([])
})

test('an internationalised sender domain is shown in Unicode', async () => {
  const { app, actor } = service
  const accountUuid = parseUuid(actor.accountUuid) ?? new Uint8Array()
  const place = { accountUuid, emailId: 1, recipientId: 1, streamId: 0, listId: 0, address: ADDRESS }
  const token = createUnsubscribeToken(app.keys, { ...place, senderDomain: 'news.xn--bcher-kva.example' })
  const text = await (await requestPage(service, 'GET', `/u/${token}`)).text()
  expect(text).toContain('from <strong><bdi>news.bücher.example</bdi></strong>.')
})

test('sender, stream and address are always shown as text', async () => {
  const attack = `"'><script>alert(1)</script>`
  const { app, actor } = service
  app.db.run("UPDATE streams SET name = ? WHERE slug = 'news'", [attack])
  const streamId = app.db.query<{ id: number }, []>("SELECT id FROM streams WHERE slug = 'news'").get()?.id ?? 0
  const token = createUnsubscribeToken(app.keys, {
    accountUuid: parseUuid(actor.accountUuid) ?? new Uint8Array(),
    emailId: 1,
    recipientId: 1,
    address: `${attack}@receiver.test`,
    senderDomain: attack,
    streamId,
    listId: 0,
  })
  for (const answer of [
    await requestPage(service, 'GET', `/u/${token}`),
    await pressButton(service, `/u/${token}`, 'unsubscribe'),
  ]) {
    const text = await answer.text()
    expect(text).not.toContain('<script')
    expect(text.match(/&quot;&#39;&gt;&lt;script&gt;alert\(1\)/g)?.length).toBeGreaterThanOrEqual(3)
  }
})
