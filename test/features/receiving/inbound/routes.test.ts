import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { readLastSeq } from '#features/core/events/record.ts'
import {
  buildInboundPayload,
  markInboundDelivered,
  markInboundUndeliverable,
} from '#features/receiving/inbound/api/model.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { DOWNLOAD_BYTES } from '#platform/http/paced-body.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, hours } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import { at } from '#test/support/api.ts'
import { flipBit } from '#test/support/bit-flip.ts'
import { createEmailApi, type EmailApi, expectError, shareEmailApi, UUID } from '#test/support/email-api.ts'
import { RAW, storeTestInbound, type TestInbound } from '#test/support/inbound.ts'

let service: EmailApi
let domainId = 0
let domainUuid = ''
beforeAll(async () => {
  service = await createEmailApi()
  const { domain } = await createDomain(service.app, service.actor, 'inbound.test')
  domainId = domain.id
  domainUuid = String(at((await service.api('GET', '/v1/domains')).body, 'data', 0, 'id'))
})
afterAll(() => service[Symbol.asyncDispose]())

const stored = (given?: TestInbound) =>
  storeTestInbound(service.app, { accountId: service.actor.accountId, domainId }, given)

/** An unknown id. */
const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'

const get = (path: string) => fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${service.key}` } })

const HEADERS = [
  ['Received', 'from a'],
  ['Received', 'from b'],
  ['Subject', 'Hello'],
  ['__proto__', 'x'],
] as const

describe('an inbound email', () => {
  // Proves: inbound-1, inbound-2, inbound-6, inbound-32
  test('has every field in its detail, and no bodies or headers in the list', async () => {
    const id = await stored({ text: 'Hello, Grüße', html: '<p>Hi</p>', headers: HEADERS, rcptTo: ['a@inbound.test'] })
    const { status, body } = await service.api('GET', `/v1/inbound/${id}`)
    const time = expect.stringMatching(/^2026-0[34]-15T/) as string
    const record = {
      id,
      account_id: service.actor.accountUuid,
      domain_id: domainUuid,
      route_id: null,
      status: 'no_route',
      mail_from: 'ada@customer.test',
      rcpt_to: ['a@inbound.test'],
      from_address: 'ada@customer.test',
      to_addresses: ['support@inbound.test'],
      from_header: 'Ada <ada@customer.test>',
      to_header: 'Support <support@inbound.test>',
      cc_header: null,
      subject: 'Hello',
      message_id: '<1@customer.test>',
      attachments: [],
      size_bytes: RAW.length,
      raw_size: RAW.length,
      source_ip: '192.0.2.7',
      spf_result: 'temperror',
      authentication: UNKNOWN_AUTHENTICATION,
      spam: null,
      forward_refused: false,
      error_message: null,
      webhook_delivered_at: null,
      created_at: time,
      updated_at: time,
    }
    expect(id).toMatch(UUID)
    expect({ status, data: at(body, 'data') }).toEqual({
      status: 200,
      data: {
        ...record,
        forwarded: [],
        text_body: 'Hello, Grüße',
        html_body: '<p>Hi</p>',
        raw_headers: JSON.parse('{"received":["from a","from b"],"subject":"Hello","__proto__":"x"}'),
      },
    })
    expect(at((await service.api('GET', '/v1/inbound?per_page=1')).body, 'data', 0)).toEqual(record)
  })

  // Proves: inbound-2, inbound-3
  test('disappears when deleted, with an audit row and a lower total', async () => {
    const id = await stored()
    const total = () => service.api('GET', '/v1/inbound').then(({ body }) => Number(at(body, 'pagination', 'total')))
    const before = await total()
    expect((await service.api('DELETE', `/v1/inbound/${id}`)).status).toBe(204)
    expect(await total()).toBe(before - 1)
    for (const method of ['GET', 'DELETE'] as const)
      expectError(await service.api(method, `/v1/inbound/${id}`), 404, 'inbound_email_not_found')
    const [audited] = at((await service.api('GET', '/v1/audit-logs?per_page=1')).body, 'data') as unknown[]
    expect(audited).toMatchObject({ action: 'inbound_email.deleted', resource_type: 'inbound_email', resource_id: id })
  })
})

describe('the filtered list', () => {
  /** Mail to two domains, one with two routes, in every status; the newest last. */
  async function fill() {
    const filled = await createEmailApi()
    const { app, actor, api } = filled
    const names = ['one.test', 'two.test']
    for (const name of names) await createDomain(app, actor, name)
    const domains = names.map(
      (name) => app.db.query<{ id: number }, [string]>('SELECT id FROM domains WHERE domain = ?').get(name)?.id ?? 0,
    )
    const listed = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
    const uuids = names.map((name) => listed.find(({ domain }) => domain === name)?.id ?? '')
    const routes: string[] = []
    for (const pattern of ['a', 'b']) {
      const body = { domain_id: uuids[0], pattern, match_type: 'exact' }
      routes.push(String(at((await api('POST', '/v1/inbound-routes', body)).body, 'data', 'id')))
    }
    const routeRows = app.db.query<{ id: number }, []>('SELECT id FROM inbound_routes ORDER BY id').all()
    const add = async (subject: string, domain: number, route?: number, status?: number) => {
      const id = await storeTestInbound(
        app,
        { accountId: actor.accountId, domainId: domains[domain] ?? 0 },
        { message: { subject }, ...(route !== undefined && { routeId: routeRows[route]?.id ?? 0 }) },
      )
      if (status !== undefined) {
        const { n } = app.db.query<{ n: number }, []>('SELECT MAX(id) AS n FROM inbound_emails').get() ?? { n: 0 }
        app.db.run('UPDATE inbound_emails SET status = ? WHERE id = ?', [status, n])
      }
      return id
    }
    await add('one, no route', 0)
    await add('one, a, received', 0, 0)
    await add('one, a, delivered', 0, 0, 1)
    await add('one, b, received', 0, 1)
    await add('two, failed', 1, undefined, 2)
    await add('two, no route', 1)
    await add('one, a, failed', 0, 0, 2)
    // The route belonged to the other domain before.
    await add('two, a, received', 1, 0)
    const list = async (query: string) => {
      const { status, body } = await api('GET', `/v1/inbound?${query}`)
      if (status !== 200) throw new Error(`${query}: ${JSON.stringify(body)}`)
      const rows = at(body, 'data') as { subject: string }[]
      return { subjects: rows.map(({ subject }) => subject), pagination: at(body, 'pagination') }
    }
    return { ...filled, uuids, routes, add, list }
  }
  const service = shareEmailApi(fill)

  // Proves: inbound-1
  test('contains the mail with the given status, domain and route, newest first, in pages with a total', async () => {
    const { list, uuids, routes } = service
    const [one, two] = uuids
    const [a, b] = routes
    const cases: readonly (readonly [query: string, subjects: string[]])[] = [
      ['status=no_route', ['two, no route', 'one, no route']],
      ['status=failed', ['one, a, failed', 'two, failed']],
      ['status=delivered', ['one, a, delivered']],
      [`domain_id=${two}`, ['two, a, received', 'two, no route', 'two, failed']],
      [`domain_id=${one}&status=received`, ['one, b, received', 'one, a, received']],
      [`route_id=${a}`, ['two, a, received', 'one, a, failed', 'one, a, delivered', 'one, a, received']],
      [`route_id=${b}`, ['one, b, received']],
      [`route_id=${a}&status=received`, ['two, a, received', 'one, a, received']],
      [`route_id=${a}&domain_id=${one}`, ['one, a, failed', 'one, a, delivered', 'one, a, received']],
      [`route_id=${a}&domain_id=${one}&status=failed`, ['one, a, failed']],
      [`route_id=${b}&domain_id=${two}`, []],
      [`route_id=${UNKNOWN}`, []],
      [`domain_id=${UNKNOWN}`, []],
    ]
    for (const [query, subjects] of cases) {
      const total = subjects.length
      const pagination = { page: 1, per_page: 25, total, total_pages: total === 0 ? 0 : 1 }
      expect([query, await list(query)]).toEqual([query, { subjects, pagination }])
    }
    expect(await list(`route_id=${a}&per_page=3&page=2`)).toEqual({
      subjects: ['one, a, received'],
      pagination: { page: 2, per_page: 3, total: 4, total_pages: 2 },
    })
    expect((await list(`route_id=${a}&per_page=3&page=3`)).subjects).toEqual([])
  })

  // Proves: inbound-1
  test('contains the mail of one sender, in any case, together with the other filters', async () => {
    const { app, list, uuids, routes } = service
    app.db.run("UPDATE inbound_emails SET from_address = 'Bob@Customer.test' WHERE subject LIKE '%a, received'")
    app.db.run("UPDATE inbound_emails SET from_address = NULL WHERE subject = 'two, failed'")
    for (const [query, subjects] of [
      ['from=BOB@customer.TEST', ['two, a, received', 'one, a, received']],
      ['from=%20bob@customer.test%20&per_page=1&page=2', ['one, a, received']],
      [`from=bob@customer.test&domain_id=${uuids[0]}`, ['one, a, received']],
      [`from=bob@customer.test&route_id=${routes[0]}`, ['two, a, received', 'one, a, received']],
      [`from=bob@customer.test&route_id=${routes[1]}`, []],
      ['from=bob@customer.test&status=failed', []],
      ['from=ada@customer.test&status=no_route', ['two, no route', 'one, no route']],
      ['from=@customer.test', []],
    ] as const)
      expect([query, (await list(query)).subjects]).toEqual([query, [...subjects]])
    const key = await service.newKey([], await service.newAccount())
    const other = await service.api('GET', '/v1/inbound?from=bob@customer.test', undefined, { key })
    expect(at(other.body, 'data')).toEqual([])
    const plan = app.db
      .query<{ detail: string }, []>(
        `EXPLAIN QUERY PLAN SELECT id FROM inbound_emails WHERE account_id = 1 AND lower(from_address) = lower('x') ORDER BY id DESC LIMIT 10`,
      )
      .all()
      .map(({ detail }) => detail)
    expect(plan).toEqual(['SEARCH inbound_emails USING COVERING INDEX inbound_emails_from (account_id=? AND <expr>=?)'])
  })

  // Proves: inbound-1
  test('excludes deleted mail and mail of other accounts', async () => {
    const { api, add, list, uuids, routes, newAccount, newKey } = service
    const id = await add('two, new', 1)
    expect((await list('status=no_route')).pagination).toMatchObject({ total: 3 })
    await api('DELETE', `/v1/inbound/${id}`)
    expect((await list('status=no_route')).pagination).toMatchObject({ total: 2 })
    const key = await newKey([], await newAccount())
    for (const query of ['status=no_route', `domain_id=${uuids[0]}`, `route_id=${routes[0]}`])
      expect((await api('GET', `/v1/inbound?${query}`, undefined, { key })).body).toEqual({
        data: [],
        pagination: { page: 1, per_page: 25, total: 0, total_pages: 0 },
      })
  })

  // Proves: inbound-1
  test('ends after the newest 10,000', async () => {
    const { app, list } = service
    const columns = app.db
      .query<{ name: string }, []>(
        "SELECT name FROM pragma_table_info('inbound_emails') WHERE name NOT IN ('id', 'uuid')",
      )
      .all()
      .map(({ name }) => name)
      .join(', ')
    app.db.run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
      INSERT INTO inbound_emails (uuid, ${columns})
      SELECT randomblob(16), ${columns} FROM n, (SELECT * FROM inbound_emails WHERE subject = 'one, b, received')`)
    for (const query of [`status=received`, `route_id=${service.routes[1]}`, `domain_id=${service.uuids[0]}`]) {
      const last = await list(`${query}&per_page=100&page=100`)
      expect([query, last.pagination]).toEqual([query, { page: 100, per_page: 100, total: 10_000, total_pages: 100 }])
      expect([query, last.subjects]).toEqual([query, Array.from({ length: 100 }, () => 'one, b, received')])
    }
  })

  // Proves: inbound-1
  test('with an invalid filter is a 422 that lists valid ones', async () => {
    for (const [query, field, message] of [
      ['status=lost', 'status', 'status must be one of received, delivered, failed, no_route.'],
      ['status=', 'status', 'status must be one of received, delivered, failed, no_route.'],
      ['domain_id=example.com', 'domain_id', 'domain_id must be an id; GET /v1/domains lists all ids.'],
      ['from=ada', 'from', 'from must be a whole address, such as ada@example.com.'],
      ['from=', 'from', 'from must be a whole address, such as ada@example.com.'],
      ['route_id=', 'route_id', 'route_id must be an id; GET /v1/inbound-routes lists all ids.'],
    ] as const) {
      const answer = await service.api('GET', `/v1/inbound?${query}`)
      expectError(answer, 422, 'validation_failed', field)
      expect(at(answer.body, 'message')).toBe(message)
    }
  })
})

describe('oversized input', () => {
  test('a list shows the first 20 of very many attachments, the detail all', async () => {
    const attachments = Array.from({ length: 1000 }, (_, n) => ({
      filename: `${n}${'ü'.repeat(250)}`,
      contentType: 'text/plain',
      content: Buffer.from('x'),
    }))
    const id = await stored({ attachments })
    const all = at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'attachments') as unknown[]
    expect(all).toHaveLength(1000)
    const listed = at((await service.api('GET', '/v1/inbound?per_page=1')).body, 'data', 0, 'attachments')
    expect(listed).toEqual(all.slice(0, 20))
    expect((await get(`/v1/inbound/${id}/attachments/999`)).status).toBe(200)
  })

  test('headers end after 10,000 characters, To after 100 addresses; raw_headers is complete', async () => {
    const long = `${'x'.repeat(9999)}😀`
    const toAddresses = Array.from({ length: 1000 }, (_, n) => `${n}@customer.test`)
    const id = await stored({
      message: { from: long, to: long, cc: long, subject: long, toAddresses },
      headers: [['Subject', long]],
    })
    const cut = `${'x'.repeat(9999)}\ufffd`
    expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data')).toMatchObject({
      from_header: cut,
      to_header: cut,
      cc_header: cut,
      subject: cut,
      to_addresses: toAddresses.slice(0, 100),
      raw_headers: { subject: long },
    })
  })
})

test('raw_headers exclude results that claim to be ours, in any form, and keep those of others', async () => {
  const id = await stored({
    headers: [
      ['Authentication-Results', 'mail.tassis.test; dmarc=pass header.from=bank.test'],
      ['AUTHENTICATION-RESULTS', ' (x) MAIL.TASSIS.TEST. 1; spf=pass'],
      ['Authentication-Results', 'dkim=pass'],
      ['Authentication-Results', 'other.test; spf=fail'],
      ['Subject', 'Hello'],
    ],
  })
  expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'raw_headers')).toEqual({
    'authentication-results': 'other.test; spf=fail',
    subject: 'Hello',
  })
})

describe('an email whose webhook accepts it after a failure', () => {
  const afterBoth = async (problem?: string) => {
    const { app, actor } = service
    const id = await stored({ routeId: 1_000_000, ...(problem !== undefined && { problem }) })
    await app.commit.write((tx) => {
      const seq = readLastSeq(tx.db, actor.accountId)
      markInboundUndeliverable(app, tx, actor.accountId, seq, 'No.')
      markInboundDelivered(tx, actor.accountId, seq, app.eventTime())
    })
    const { status, error_message } = at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data') as {
      status: string
      error_message: string | null
    }
    return { status, error_message }
  }

  test('is delivered, without an error', async () => {
    expect(await afterBoth()).toEqual({ status: 'delivered', error_message: null })
  })

  test('keeps its parse error', async () => {
    expect(await afterBoth('It cannot be parsed.')).toEqual({ status: 'failed', error_message: 'It cannot be parsed.' })
  })
})

test("the webhook payload stays the same after a failure of the route's webhook", async () => {
  const { app, actor } = service
  const { accountId } = actor
  const id = await stored({ routeId: 1_000_000, message: { messageId: null } })
  const told = () => JSON.stringify(buildInboundPayload(app, accountId, id))
  const before = told()
  await app.commit.write((tx) => markInboundUndeliverable(app, tx, accountId, readLastSeq(tx.db, accountId), 'No.'))
  expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data')).toMatchObject({
    error_message: 'The webhook of the route failed: No.',
  })
  expect(told()).toBe(before)
})

describe('an attachment', () => {
  // Proves: inbound-4
  test('is a download with the original octets', async () => {
    const content = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256)
    const id = await stored({
      attachments: [
        { filename: 'a.html', contentType: 'text/html', content: Buffer.from('<script>alert(1)</script>') },
        { filename: null, contentType: 'application/octet-stream', content },
      ],
    })
    const listed = at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'attachments')
    expect(listed).toEqual([
      {
        index: 0,
        filename: 'a.html',
        content_type: 'text/html',
        size: 25,
        content_id: null,
        disposition: 'attachment',
      },
      {
        index: 1,
        filename: null,
        content_type: 'application/octet-stream',
        size: 70_000,
        content_id: null,
        disposition: 'attachment',
      },
    ])
    expect((await service.api('GET', `/v1/inbound/${id}/attachments`)).body).toEqual({
      data: listed,
      pagination: { page: 1, per_page: 25, total: 2, total_pages: 1 },
    })
    expect((await service.api('GET', `/v1/inbound/${id}/attachments?per_page=1&page=2`)).body).toEqual({
      data: (listed as unknown[]).slice(1),
      pagination: { page: 2, per_page: 1, total: 2, total_pages: 2 },
    })
    const html = await get(`/v1/inbound/${id}/attachments/0`)
    expect(html.headers.get('content-type')).toBe('application/octet-stream')
    expect([html.headers.get('content-disposition'), html.headers.get('content-security-policy')]).toEqual([
      'attachment; filename="a.html"',
      "sandbox; default-src 'none'",
    ])
    expect(html.headers.get('x-request-id')).not.toBeNull()
    expect(await (await get(`/v1/inbound/${id}/attachments/1`)).bytes()).toEqual(content)
  })

  // Proves: inbound-4
  test.each(['2', '-1', 'x', '0.5', '00000', '99999999', '%ff'])('number %s is a 404', async (n) => {
    const id = await stored({ attachments: [{ filename: 'a', contentType: 'text/plain', content: Buffer.from('a') }] })
    const answer = await service.api('GET', `/v1/inbound/${id}/attachments/${n}`)
    expectError(answer, 404, 'attachment_not_found')
    expect(at(answer.body, 'message')).toBe('Attachment not found; numbers start at 0.')
  })
})

describe('the raw message', () => {
  // Proves: inbound-5
  test('is below the trace fields of this host, without results that claim to be ours', async () => {
    const raw = [
      'Authentication-Results: mail.tassis.test; spf=pass',
      '\tsmtp.mailfrom=bank.test',
      'Authentication-Results: other.test; spf=pass',
      'AUTHENTICATION-RESULTS: MAIL.TASSIS.TEST.;dkim=pass',
      'From: Ada <ada@customer.test>',
      'Authentication-Results:',
      ' mail.tassis.test 1; dmarc=pass',
      'Subject: Hello',
      '',
      'Authentication-Results: mail.tassis.test; this is the body',
      '',
    ].join('\r\n')
    const id = await stored({ raw })
    const answer = await get(`/v1/inbound/${id}/raw`)
    expect(answer.headers.get('content-type')).toBe('message/rfc822')
    const text = await answer.text()
    const [trace, kept] = [
      text.slice(0, text.indexOf('Authentication-Results: other')),
      text.slice(text.indexOf('Authentication-Results: other')),
    ]
    expect(kept.split('\r\n')).toEqual([
      'Authentication-Results: other.test; spf=pass',
      'From: Ada <ada@customer.test>',
      'Subject: Hello',
      '',
      'Authentication-Results: mail.tassis.test; this is the body',
      '',
    ])
    expect(trace).toStartWith('Return-Path: <ada@customer.test>\r\nAuthentication-Results: mail.tassis.test;')
    expect(trace).toContain(
      '\r\nReceived: from mx.customer.test\r\n\t(unknown [192.0.2.7])\r\n\tby mail.tassis.test with ESMTP;\r\n\t',
    )
    expect(trace).toEndWith('\r\n')
    expect(trace).not.toContain('bank.test')
  })

  test('has no additional lines if the HELO name is malformed', async () => {
    const id = await stored({ helo: 'a\r\nX-Forged: yes' })
    expect(await (await get(`/v1/inbound/${id}/raw`)).text()).not.toMatch(/^X-Forged/m)
  })

  test('contains the time and address of the session, and at most 255 characters of the HELO name', async () => {
    const receivedAt = service.clock.now() - hours(1)
    const id = await stored({ helo: 'h'.repeat(900), sourceIp: '2001:db8::7', receivedAt })
    const text = await (await get(`/v1/inbound/${id}/raw`)).text()
    expect(text.slice(text.indexOf('Received:'), text.indexOf('From:'))).toBe(
      [
        `Received: from ${'h'.repeat(255)}`,
        '\t(unknown [IPv6:2001:db8::7])',
        '\tby mail.tassis.test with ESMTP;',
        `\t${new Date(receivedAt).toUTCString().replace('GMT', '+0000')}`,
        '',
      ].join('\r\n'),
    )
  })

  test('of 5 MB is complete and uses no more memory than a download', async () => {
    const body = 'x'.repeat(76).concat('\r\n').repeat(65_000)
    const id = await stored({ raw: `Subject: x\r\n\r\n${body}` })
    const answer = await get(`/v1/inbound/${id}/raw`)
    expect(service.app.memory.inUseBytes).toBe(DOWNLOAD_BYTES)
    expect((await answer.text()).endsWith(`Subject: x\r\n\r\n${body}`)).toBe(true)
    expect(service.app.memory.inUseBytes).toBe(0)
  })

  test('is a 404 when missing, and a 410 when corrupt', async () => {
    const [gone, broken] = [
      await stored({ raw: `A: ${'1'.repeat(999)}` }),
      await stored({ raw: `A: ${'2'.repeat(999)}` }),
    ]
    const refOf = (id: string) =>
      service.app.db
        .query<{ ref: number }, [Uint8Array]>('SELECT raw_ref AS ref FROM inbound_emails WHERE uuid = ?')
        .get(parseUuid(id) ?? new Uint8Array())?.ref ?? 0
    // In the current month: other tests may have moved the clock.
    const parts = service.app.rawMail.databases().at(-1)
    parts?.run('DELETE FROM parts WHERE id = ?', [refOf(gone) % 2 ** 36])
    parts?.run("UPDATE parts SET data = x'0001' WHERE id = ?", [refOf(broken) % 2 ** 36])
    expectError(await service.api('GET', `/v1/inbound/${gone}/raw`), 404, 'raw_message_gone')
    expectError(await service.api('GET', `/v1/inbound/${broken}/raw`), 410, 'content_missing')
    expect(service.app.memory.inUseBytes).toBe(0)
  })

  test('of a message with only a header is complete', async () => {
    for (const raw of ['Subject: x', 'Subject: x\r\n', '\r\n', 'no header at all'])
      expect(await (await get(`/v1/inbound/${await stored({ raw })}/raw`)).text()).toEndWith(raw)
  })

  // Proves: inbound-5
  test('is a 404 with the reason after the retention; the rest stays', async () => {
    const id = await stored({ text: 'Hello.' })
    service.clock.advance(days(31))
    expectError(await service.api('GET', `/v1/inbound/${id}/raw`), 404, 'raw_message_gone')
    expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'text_body')).toBe('Hello.')
  })
})

// Proves: storage-6
test('an inbound email with missing content is a 200 that states it; a missing attachment is a 410', async () => {
  const content = randomBytes(400_000)
  const id = await stored({
    text: 'Hello.',
    html: `<p>${randomBytes(400_000).toString('base64')}</p>`,
    attachments: [{ filename: 'a.pdf', contentType: 'application/pdf', content }],
  })
  const folder = join(service.dataDir, 'content')
  const months = readdirSync(folder).filter((name) => /^\d{4}-\d{2}$/.test(name))
  expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data')).not.toHaveProperty('content')
  for (const month of months) renameSync(join(folder, month), join(folder, `${month}.away`))
  const { status, body } = await service.api('GET', `/v1/inbound/${id}`)
  const attachment = await service.api('GET', `/v1/inbound/${id}/attachments/0`)
  const payload = buildInboundPayload(service.app, service.actor.accountId, id)
  for (const month of months) renameSync(join(folder, `${month}.away`), join(folder, month))
  expect({ status, data: at(body, 'data') }).toMatchObject({
    status: 200,
    data: { content: 'missing', text_body: 'Hello.', html_body: null, raw_headers: {} },
  })
  expectError(attachment, 410, 'content_missing')
  expect(payload).toMatchObject({ content: 'missing', text_body: 'Hello.', html_body: null })
  expect((await get(`/v1/inbound/${id}/attachments/0`)).status).toBe(200)
})

// Proves: storage-6, storage-17
test('an attachment and a raw message with a flipped bit are a 410, never a false file', async () => {
  const content = randomBytes(700_000)
  const raw = `Subject: x\r\n\r\n${randomBytes(600_000).toString('base64')}`
  const withFile = await stored({ attachments: [{ filename: 'a.pdf', contentType: 'application/pdf', content }] })
  const rawMail = join(service.dataDir, 'raw-mail')
  const list = () => new Set(readdirSync(rawMail, { recursive: true, encoding: 'utf8' }))
  const before = list()
  const withRaw = await stored({ raw })
  const [file = ''] = [...list().difference(before)].filter((name) => name.endsWith('.zst'))
  const packed = readFileSync(join(rawMail, file))
  for (const [folder, piece, path] of [
    ['content', content.subarray(400_000), `/v1/inbound/${withFile}/attachments/0`],
    ['raw-mail', packed.subarray(packed.length / 2), `/v1/inbound/${withRaw}/raw`],
  ] as const) {
    expect((await get(path)).status).toBe(200)
    flipBit(join(service.dataDir, folder), piece)
    expectError(await service.api('GET', path), 410, 'content_missing')
    flipBit(join(service.dataDir, folder), piece)
    expect((await get(path)).status).toBe(200)
  }
})
