import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createDomain } from '#features/domains/domains.ts'
import { lastSeqOf } from '#features/events/record.ts'
import { inboundPayload } from '#features/inbound/payload.ts'
import { inboundUndeliverable } from '#features/inbound/told.ts'
import { days } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/unknown.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectRefusal, UUID } from '#test/support/email-api.ts'
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

const get = (path: string) => fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${service.key}` } })

const HEADERS = [
  ['Received', 'from a'],
  ['Received', 'from b'],
  ['Subject', 'Hello'],
  ['__proto__', 'x'],
] as const

describe('an inbound email', () => {
  test('has every field in its detail, and no body and no headers in the list', async () => {
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
        text_body: 'Hello, Grüße',
        html_body: '<p>Hi</p>',
        raw_headers: JSON.parse('{"received":["from a","from b"],"subject":"Hello","__proto__":"x"}'),
      },
    })
    expect(at((await service.api('GET', '/v1/inbound?per_page=1')).body, 'data', 0)).toEqual(record)
  })

  test('is gone after its deletion, with an audit row, and the total falls', async () => {
    const id = await stored()
    const total = () => service.api('GET', '/v1/inbound').then(({ body }) => Number(at(body, 'pagination', 'total')))
    const before = await total()
    expect((await service.api('DELETE', `/v1/inbound/${id}`)).status).toBe(204)
    expect(await total()).toBe(before - 1)
    for (const method of ['GET', 'DELETE'] as const)
      expectRefusal(await service.api(method, `/v1/inbound/${id}`), 404, 'inbound_email_not_found')
    const [audited] = at((await service.api('GET', '/v1/audit-logs?per_page=1')).body, 'data') as unknown[]
    expect(audited).toMatchObject({ action: 'inbound_email.deleted', resource_type: 'inbound_email', resource_id: id })
  })
})

describe('what a stranger writes at length', () => {
  test('of very many attachments the list has the first 20, the detail all', async () => {
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

  test('headers end after 10,000 characters, and To after 100 addresses; raw_headers has all', async () => {
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

test('what webhooks are told of a message is the same after the webhook of its route did not take it', async () => {
  const { app, actor } = service
  const { accountId } = actor
  const id = await stored({ routeId: 1_000_000, message: { messageId: null } })
  const told = () => JSON.stringify(inboundPayload(app, accountId, id))
  const before = told()
  await app.commit.write((tx) => inboundUndeliverable(app, tx, accountId, lastSeqOf(tx.db, accountId), 'No.'))
  expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data')).toMatchObject({
    error_message: 'The webhook of the route did not take it: No.',
  })
  expect(told()).toBe(before)
})

describe('an attachment', () => {
  test('is given as a file, with the octets that were sent', async () => {
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
    const html = await get(`/v1/inbound/${id}/attachments/0`)
    expect([html.headers.get('content-disposition'), html.headers.get('content-security-policy')]).toEqual([
      'attachment; filename="a.html"',
      "sandbox; default-src 'none'",
    ])
    expect(html.headers.get('x-request-id')).not.toBeNull()
    expect(await (await get(`/v1/inbound/${id}/attachments/1`)).bytes()).toEqual(content)
  })

  test.each(['2', '-1', 'x', '0.5', '00000', '99999999', '%ff'])('number %s is a 404', async (n) => {
    const id = await stored({ attachments: [{ filename: 'a', contentType: 'text/plain', content: Buffer.from('a') }] })
    expect((await get(`/v1/inbound/${id}/attachments/${n}`)).status).toBe(404)
  })
})

describe('the raw message', () => {
  test('stands below the trace fields of this host, without results that claim to be ours', async () => {
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
      '\r\nReceived: from mx.customer.test (unknown [192.0.2.7])\r\n\tby mail.tassis.test with ESMTP',
    )
    expect(trace).toEndWith('\r\n')
    expect(trace).not.toContain('bank.test')
  })

  test('has no line more than it should when the client called itself something odd', async () => {
    const id = await stored({ helo: 'a\r\nX-Forged: yes' })
    expect(await (await get(`/v1/inbound/${id}/raw`)).text()).not.toMatch(/^X-Forged/m)
  })

  test('of one that is nothing but a header is given whole', async () => {
    for (const raw of ['Subject: x', 'Subject: x\r\n', '\r\n', 'no header at all'])
      expect(await (await get(`/v1/inbound/${await stored({ raw })}/raw`)).text()).toEndWith(raw)
  })

  test('is a 404 that says why when it is older than raw messages are kept; the rest stays', async () => {
    const id = await stored({ text: 'Hello.' })
    service.clock.advance(days(31))
    expectRefusal(await service.api('GET', `/v1/inbound/${id}/raw`), 404, 'raw_message_gone')
    expect(at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'text_body')).toBe('Hello.')
  })
})
