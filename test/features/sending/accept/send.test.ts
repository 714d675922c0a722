import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { hours, MiB } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  createEmailApi,
  EMAIL,
  type EmailApi,
  expectError,
  NOW,
  UNVERIFIED,
  UUID,
  VERIFIED,
} from '#test/support/email-api.ts'

let emails: EmailApi
beforeAll(async () => {
  emails = await createEmailApi()
})
afterAll(() => emails[Symbol.asyncDispose]())

const isoNow = new Date(NOW).toISOString()
/** An object in which each of these names is null. */
const nulls = (names: string) => Object.fromEntries(names.split(' ').map((name) => [name, null]))

// Proves: send-1, accepted-1, accepted-2, accepted-3, status-1
test('a send returns the send response and nothing else', async () => {
  const answer = await emails.send()
  const id = at(answer.body, 'data', 'id')
  expect(id).toMatch(UUID)
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 202,
    body: {
      data: {
        id,
        message_id: `<${id}@sender.test>`,
        status: 'queued',
        to: 'bob@receiver.test',
        sandbox: false,
        created_at: isoNow,
      },
    },
  })
})

// Proves: http-15, list-23, send-15, send-24, send-42, send-43, email-3, email-4, email-7, email-9, email-10, email-11
// Proves: email-13, email-14, email-15, status-11, status-12, status-14
test('the detail has every field, flat and nested, with recipients and events', async () => {
  const request = {
    from: 'Ada Lovelace <Ada@sender.test>',
    to: ['Bob <bob@receiver.test>', 'eve@receiver.test'],
    cc: ['cc@receiver.test'],
    bcc: ['bcc@receiver.test'],
    subject: 'Grüße ✉',
    html_body: '<p>Grüße</p>',
    text_body: 'Grüße',
    reply_to: 'help@sender.test',
    headers: { 'X-Number': 5, 'X-Flag': true, 'X-Text': 'Grüße' },
    metadata: { order: { id: 7, lines: [1, 'two', null] } },
    template_data: { name: 'Bob' },
    tags: ['welcome', 'a b'],
    attachments: [{ filename: 'a.txt', content: btoa('hello'), content_type: 'text/plain' }],
    idempotency_key: 'detail-1',
    stream: 'transactional',
    tracking: false,
    transactional: false,
  }
  const sent = await emails.accepted(request)
  const detail = await emails.detail(sent.id)
  const { id, message_id: messageId } = sent
  const email = {
    id,
    account_id: emails.actor.accountUuid,
    message_id: messageId,
    from_address: 'Ada Lovelace <Ada@sender.test>',
    to_address: 'bob@receiver.test',
    cc: ['cc@receiver.test'],
    bcc: ['bcc@receiver.test'],
    subject: 'Grüße ✉',
    tags: ['welcome', 'a b'],
    status: 'queued',
    attempts: 0,
    max_attempts: expect.any(Number),
    suppress_list_management_header: false,
    created_at: isoNow,
    updated_at: isoNow,
    attachments: [{ filename: 'a.txt', content_type: 'text/plain', size: 5 }],
    domain_id: expect.stringMatching(UUID),
    headers: { 'X-Number': '5', 'X-Flag': 'true', 'X-Text': 'Grüße' },
    idempotency_key: 'detail-1',
    metadata: request.metadata,
    reply_to: 'help@sender.test',
    stream_id: expect.stringMatching(UUID),
    template_data: { name: 'Bob' },
    ...nulls('delivery_started_at error_message expires_at expires_in next_retry_at operation_id scheduled_at'),
    ...nulls('sending_ip sent_at smtp_response template_id'),
    tracking_override: false,
    html_body: '<p>Grüße</p>',
    text_body: 'Grüße',
  }
  const recipient = (address: string, kind: string) => ({
    address,
    kind,
    status: 'queued',
    attempts: 0,
    ...nulls('next_retry_at delivery_started_at delivered_at smtp_response sending_ip bounce_type bounce_category'),
  })
  expect(detail).toEqual({
    ...email,
    to: 'bob@receiver.test, eve@receiver.test',
    sandbox: false,
    delivered_at: null,
    resend_of: null,
    state: 'queued',
    sentence: 'Of 4 recipients: 4 queued.',
    explanations: ['bob', 'eve', 'cc', 'bcc'].map((name) => ({
      address: `${name}@receiver.test`,
      state: 'queued',
      sentence: 'It waits for its first attempt.',
      who_must_act: 'nobody',
      advice: null,
      next_at: expect.any(String),
      tried_until: new Date(emails.clock.now() + hours(48)).toISOString(),
      at: null,
      server: null,
      reply: null,
      suppression: null,
      further_mail: null,
    })),
    actions: [],
    engagement: [],
    recipients: [
      recipient('bob@receiver.test', 'to'),
      recipient('eve@receiver.test', 'to'),
      recipient('cc@receiver.test', 'cc'),
      recipient('bcc@receiver.test', 'bcc'),
    ],
    email,
    events: [
      {
        id: expect.stringMatching(UUID),
        email_id: id,
        account_id: emails.actor.accountUuid,
        event_type: 'queued',
        type: 'queued',
        created_at: isoNow,
        timestamp: isoNow,
        ...nulls('recipient bounce_category bounce_type diagnostic_code ip_address link_url remote_mta user_agent'),
        raw_payload: null,
      },
    ],
  })
  // A row of the list has the same fields, without bodies.
  const { html_body: _, text_body: __, ...row } = email
  const list = await emails.api('GET', '/v1/emails?per_page=100')
  const rows = at(list.body, 'data') as { id: string }[]
  expect(rows.find((r) => r.id === id)).toEqual({
    ...row,
    state: 'queued',
    to: 'bob@receiver.test, eve@receiver.test',
    sandbox: false,
    engagement: [],
  } as never)
})

describe('a field missing in the request', () => {
  // Proves: list-23, list-24, send-43, send-44, email-11, email-15
  test('is null, an empty list or the default, as if it was null in the request', async () => {
    for (const request of [
      {},
      nulls('html_body template_alias reply_to attachments send_at idempotency_key stream tracking'),
    ]) {
      const sent = await emails.accepted(request)
      expect(await emails.detail(sent.id)).toMatchObject({
        ...{ cc: [], bcc: [], tags: [], headers: {}, metadata: {}, suppress_list_management_header: true },
        ...nulls('attachments template_data idempotency_key reply_to html_body tracking_override'),
      })
    }
  })

  // Proves: send-43
  test.each([
    [true, true],
    [{ opens: true, clicks: false }, true],
    [{ clicks: true }, true],
    [{ clicks: false }, false],
  ])('tracking %j is stored, and shown as a boolean', async (tracking, shown) => {
    const { id } = await emails.accepted({ tracking })
    expect((await emails.detail(id))['tracking_override']).toBe(shown)
  })

  // Proves: send-43
  test.each([['yes'], [{ opens: 'yes' }], [{ links: false }], [{}]])('tracking %j is a 422', async (tracking) => {
    const refused = await emails.send({ tracking })
    expect([refused.status, String(at(refused.body, 'details', 0, 'field'))]).toEqual([
      422,
      expect.stringMatching(/^tracking/),
    ])
  })
})

describe('subject and body', () => {
  const cases: readonly [rule: string, request: Record<string, unknown>, field: string][] = [
    ['no subject', { subject: undefined }, 'subject'],
    ['a subject of null', { subject: null }, 'subject'],
    ['an empty subject', { subject: '' }, 'subject'],
    ['a subject of white space', { subject: ' \t\u00a0\u3000' }, 'subject'],
    ['a subject of white space, scheduled', { subject: '  ', send_at: '2026-03-15T13:00:00Z' }, 'subject'],
    ['a subject of white space with a template', { subject: '  ', template_alias: 'any' }, 'subject'],
    ['a subject with a line break', { subject: 'a\r\nBcc: x@y.test' }, 'subject'],
    ['a subject with LF alone', { subject: 'a\nb' }, 'subject'],
    ['a subject with NUL', { subject: 'a\0b' }, 'subject'],
    ['a subject of 999 characters', { subject: 'x'.repeat(999) }, 'subject'],
    ['no body', { text_body: undefined }, 'text_body'],
    ['bodies of null', { text_body: null, html_body: null }, 'text_body'],
    ['an empty body', { text_body: '' }, 'text_body'],
  ]
  // Proves: send-2, send-17, send-18, send-19, send-33
  test.each(cases)('%s is a 422', async (_, request, field) =>
    expectError(await emails.send(request), 422, 'validation_failed', field),
  )

  // Proves: send-17
  test('a subject of 998 non-ASCII characters is stored unchanged', async () => {
    const subject = 'ü'.repeat(998)
    const { id } = await emails.accepted({ subject })
    expect((await emails.detail(id))['subject']).toBe(subject)
  })

  // Proves: send-19
  test('HTML alone is enough, and an empty text equals no text', async () => {
    const { id } = await emails.accepted({ text_body: '', html_body: '<p>x</p>' })
    expect(await emails.detail(id)).toMatchObject({ html_body: '<p>x</p>', text_body: null })
  })

  // Proves: send-21
  test.each(['html_body', 'text_body'])(
    '%s may have 2 MiB in UTF-8, and one byte more is a 422 with the limit',
    async (field) => {
      const body = 'ü'.repeat(MiB)
      const { id } = await emails.accepted({ [field]: body })
      expect((await emails.detail(id))[field] === body).toBe(true)
      const answer = await emails.send({ [field]: `${body}x` })
      expectError(answer, 422, 'validation_failed', field)
      expect(JSON.stringify(answer.body)).toContain('at most 2097152 bytes')
      const batch = await emails.api('POST', '/v1/emails/batch', { emails: [EMAIL, { ...EMAIL, [field]: `${body}x` }] })
      expect(JSON.stringify(batch.body)).toContain('at most 2097152 bytes')
    },
  )

  test('half a surrogate pair results in a stored email or a 422, never in a 500', async () => {
    const answer = await emails.send({ subject: 'a \ud800 b', text_body: '\udfff', metadata: { a: '\ud83d' } })
    expect(answer.status).toBe(202)
    const detail = await emails.detail(at(answer.body, 'data', 'id'))
    expect(detail['subject']).toBe('a \ufffd b')
    expect(detail['text_body']).toBe('\ufffd')
  })
})

describe('the sender', () => {
  // Proves: send-5
  test('of an unknown domain is a 422 domain_not_found', async () => {
    expectError(await emails.send({ from: 'a@unknown.test' }), 422, 'domain_not_found', 'from')
  })

  // Proves: send-7
  test('below a verified domain may send', async () => {
    const sent = await emails.accepted({ from: 'x@deep.sub.sender.test' })
    expect(sent).toMatchObject({ sandbox: false, message_id: `<${sent.id}@deep.sub.sender.test>` })
  })

  test('above a registered domain is unknown', async () => {
    await emails.addDomain(emails.actor, 'below.parent.test')
    expectError(await emails.send({ from: 'x@parent.test' }), 422, 'domain_not_found', 'from')
  })

  // Proves: send-6, accepted-3
  test('of an unverified domain sends into the sandbox, and counts nothing', async () => {
    const before = emails.used()
    const sent = await emails.accepted({ from: `x@${UNVERIFIED}` })
    expect(sent['sandbox']).toBe(true)
    expect((await emails.detail(sent.id))['sandbox']).toBe(true)
    expect(emails.used()).toBe(before)
  })

  // Proves: send-11
  test('of an unverified domain is a 422 with sendingUnverified=reject', async () => {
    await using strict = await createEmailApi({ settings: { TASSIS_SENDING_UNVERIFIED: 'reject' } })
    const before = strict.stored()
    expectError(await strict.send({ from: `x@${UNVERIFIED}` }), 422, 'domain_not_verified', 'from')
    expect(strict.stored()).toEqual(before)
    expect((await strict.send()).status).toBe(202)
  })
})

describe('the sender of a domain that was verified and lost records', () => {
  const HOUR_MS = 3_600_000
  const loseRecords = ({ app, clock }: EmailApi, hoursAgo: number) =>
    app.db.run(
      'UPDATE domains SET dkim_verified = 0, spf_verified = 1, return_path_verified = 1, records_lost_at = ?, verified_at = ? WHERE domain = ?',
      [clock.now() - hoursAgo * HOUR_MS, hoursAgo < 72 ? NOW : null, VERIFIED],
    )

  // Proves: send-8
  test('can send for 72 hours; after them, each domain is a 422 that names the missing records and the time', async () => {
    await using service = await createEmailApi()
    loseRecords(service, 71)
    expect(await service.accepted()).toMatchObject({ sandbox: false, status: 'queued' })
    await service.addDomain(service.actor, `below.${VERIFIED}`)
    service.app.db.run('UPDATE domains SET verified_at = NULL WHERE domain = ?', [`below.${VERIFIED}`])
    loseRecords(service, 72)
    const before = service.stored()
    for (const domain of [VERIFIED, `sub.${VERIFIED}`, `below.${VERIFIED}`]) {
      const answer = await service.send({ from: `x@${domain}` })
      expectError(answer, 422, 'domain_not_verified', 'from')
      expect(at(answer.body, 'message')).toMatch(
        /^The domain sender\.test was verified and has lacked DNS records since \S+Z \(dkim\), for more than 72 hours; publish them/,
      )
    }
    expect(service.stored()).toEqual(before)
  })

  // Proves: send-8
  test('still sends mail that was scheduled before, and not into the sandbox', async () => {
    await using service = await createEmailApi({ delivers: true, settings: { TASSIS_DELIVERY: 'capture' } })
    const sent = await service.accepted({ send_at: new Date(NOW + HOUR_MS).toISOString() })
    loseRecords(service, 100)
    service.clock.advance(HOUR_MS)
    const detail = await eventually(async () => {
      service.clock.advance(1000)
      const now = await service.detail(sent.id)
      return now['status'] === 'sent' && now
    })
    expect(detail['sandbox']).toBe(false)
  })
})

describe('stream and template', () => {
  // Proves: send-42
  test('an unknown stream is a 422', async () => {
    expectError(await emails.send({ stream: 'nope' }), 422, 'stream_not_found', 'stream')
  })

  // Proves: send-22
  test('a template that does not exist is a 422', async () => {
    const answer = await emails.send({ template_alias: 'welcome', subject: undefined, text_body: undefined })
    expectError(answer, 422, 'template_not_found', 'template_alias')
  })

  // Proves: send-24
  test('template data of more than 1 MiB is a 422', async () => {
    const answer = await emails.send({ template_data: { a: 'x'.repeat(1_100_000) } })
    expectError(answer, 422, 'validation_failed', 'template_data')
  })
})

describe('send_at', () => {
  const minutes = (n: number) => new Date(NOW + n * 60_000).toISOString()

  // Proves: send-40, accepted-1, status-2, status-14
  test('in the future schedules the email', async () => {
    const sent = await emails.accepted({ send_at: minutes(10) })
    expect(sent).toMatchObject({ status: 'scheduled', scheduled_at: minutes(10) })
    expect(await emails.detail(sent.id)).toMatchObject({
      status: 'scheduled',
      scheduled_at: minutes(10),
      next_retry_at: null,
      recipients: [{ status: 'scheduled' }],
      events: [{ event_type: 'scheduled' }],
    })
  })

  // Proves: send-40
  test.each([0, 1, 5])('%i minutes ago means now', async (ago) => {
    const sent = await emails.accepted({ send_at: minutes(-ago) })
    expect([sent['status'], sent['scheduled_at'] ?? null]).toEqual(['queued', null])
  })

  test.each('2026-03-15T14:00:00+01:00 2026-03-15T13:00:00.000Z 2026-03-15T13:00Z 2026-03-15t13:00:00z'.split(' '))(
    '%s is 13:00 UTC',
    async (text) => {
      expect((await emails.accepted({ send_at: text }))['scheduled_at']).toBe('2026-03-15T13:00:00.000Z')
    },
  )

  const invalid =
    '2026-03-15T13:00:00 2026-03-16 2026-04-31T10:00:00Z 2026-06-31T10:00:00+02:00 2026-13-01T10:00:00Z 2026-03-16T25:00:00Z 2026-03-16T10:61:00Z 99999-03-16T10:00:00Z tomorrow 1773578000'
  // Proves: send-40
  test.each([minutes(-5.1), minutes(400 * 24 * 60), '', ...invalid.split(' ')])('"%s" is a 422', async (text) =>
    expectError(await emails.send({ send_at: text }), 422, 'invalid_send_at', 'send_at'),
  )

  // Proves: send-40
  test('a year ahead is allowed', async () => {
    expect((await emails.send({ send_at: '2027-03-15T12:00:00Z' })).status).toBe(202)
  })
})
