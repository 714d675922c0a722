import { describe, expect, test } from 'bun:test'
import { createMailbox, deleteMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { deleteMessage } from '#features/receiving/agent-mailboxes/messages.ts'
import { buildThreadHeaders, formatReplySubject, replyToMessage } from '#features/receiving/agent-mailboxes/reply.ts'
import { formatUuid } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'
import { verifyWithMailauth } from '#test/protocols/dkim/verifiers.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectError, shareEmailApi } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'
import { createMailboxApi, createReceived, deliver, MAILBOX_ADDRESS, type MailboxApi } from './reply-support.ts'

const service = shareEmailApi(createMailboxApi)

const BODY = { text_body: 'Begin at the beginning.' }

/** Messages of the only thread, oldest first. */
async function conversation({ api, path }: MailboxApi): Promise<Record<string, unknown>[]> {
  const threads = await api('GET', `${path}/threads`)
  expect(at(threads.body, 'pagination', 'total')).toBe(1)
  const thread = await api('GET', `${path}/threads/${at(threads.body, 'data', 0, 'id')}`)
  return at(thread.body, 'data') as Record<string, unknown>[]
}

describe('In-Reply-To and References (RFC 5322 §3.6.4)', () => {
  const headers = (messageId: string | null, references: readonly string[] = [], inReplyTo: string | null = null) =>
    buildThreadHeaders({ messageId, inReplyTo, references })

  test('of a reply to a first message name that message', () => {
    expect(headers('<a@x.test>')).toEqual({ 'In-Reply-To': '<a@x.test>', References: '<a@x.test>' })
  })

  // Proves: mailbox-5
  test('continue the references of the message, in any form', () => {
    const expected = { 'In-Reply-To': '<c@x.test>', References: '<a@x.test> <b@x.test> <c@x.test>' }
    expect(headers('<c@x.test>', ['<a@x.test>', '<b@x.test>'])).toEqual(expected)
    expect(headers('<c@x.test>', ['<a@x.test> <b@x.test>'], '<other@x.test>')).toEqual(expected)
    expect(headers('<c@x.test>', ['<a@x.test>', '<c@x.test>', '<b@x.test>'])).toEqual(expected)
  })

  test('of a reply to a message without references begin with the message that it answers, unless it answers several', () => {
    expect(headers('<b@x.test>', [], '<a@x.test>').References).toBe('<a@x.test> <b@x.test>')
    expect(headers('<c@x.test>', [], '<a@x.test> <b@x.test>').References).toBe('<c@x.test>')
  })

  test('are absent when the message has no Message-ID, or one that no header can carry', () => {
    for (const id of [
      null,
      '',
      'a@x.test',
      '<>',
      '<a b@x.test>',
      '<ä@x.test>',
      `<${'a'.repeat(501)}>`,
      '<a\r\nBcc: x>',
    ])
      expect(headers(id, ['<a@x.test>'])).toEqual({})
  })

  test('skip references that no header can carry', () => {
    const references = ['nonsense', '<ä@x.test>', '<a@x.test>', `<${'b'.repeat(600)}>`, '<c\r\nBcc: eve@x.test>']
    expect(headers('<d@x.test>', references).References).toBe('<a@x.test> <d@x.test>')
  })

  test('use the first and the last references, up to a line of 998 octets', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `<${String(index).padStart(10, '0')}@x.test>`)
    const { References: value = '' } = headers('<parent@x.test>', ids)
    const kept = value.split(' ')
    expect(Buffer.byteLength(`References: ${value}`)).toBeLessThanOrEqual(998)
    expect(Buffer.byteLength(`References: ${value} ${ids[50]}`)).toBeGreaterThan(998)
    expect(kept).toEqual([ids[0] ?? '', ...ids.slice(100 - (kept.length - 2)), '<parent@x.test>'])
  })
})

test.each([
  ['Hello', 'Re: Hello'],
  ['Re: Hello', 'Re: Hello'],
  ['RE: re : Re[2]: Hello', 'Re: Hello'],
  ['Regarding: Hello', 'Re: Regarding: Hello'],
  ['', 'Re: (no subject)'],
  ['Re:', 'Re: (no subject)'],
  ['Two\r\nBcc: eve@x.test\u0000\u2028lines', 'Re: Two Bcc: eve@x.test lines'],
])('the reply to a message with the subject %j has the subject %j', (subject, expected) => {
  expect(formatReplySubject(subject)).toBe(expected)
})

test('the reply to a message with a subject of any length has a subject that a header can carry', () => {
  expect(formatReplySubject('x'.repeat(5000))).toBe(`Re: ${'x'.repeat(900)}`)
  expect(formatReplySubject('😀'.repeat(1000)).isWellFormed()).toBe(true)
})

// Proves: mailbox-5
test('a reply goes from the mailbox to From, as an ordinary email in the thread', async () => {
  const { api } = service
  const message = await service.receive({ references: ['<first@receiver.test>'] })
  const answer = await api('POST', `${message}/reply`, { ...BODY, html_body: '<p>Begin.</p>' })
  expect({ status: answer.status, body: answer.body }).toEqual({
    status: 201,
    body: {
      data: {
        id: expect.any(String),
        status: 'queued',
        message_id: expect.stringMatching(/^<[0-9a-f-]{36}@sender\.test>$/),
        to: 'bob@receiver.test',
        subject: 'Re: A question',
      },
    },
  })
  const { id, message_id } = at(answer.body, 'data') as { id: string; message_id: string }
  expect(await service.detail(id)).toMatchObject({
    message_id,
    from_address: `Agent Smith <${MAILBOX_ADDRESS}>`,
    to_address: 'bob@receiver.test',
    subject: 'Re: A question',
    text_body: BODY.text_body,
    html_body: '<p>Begin.</p>',
    status: 'queued',
    headers: {
      'In-Reply-To': '<question@receiver.test>',
      References: '<first@receiver.test> <question@receiver.test>',
    },
  })
  expect(await conversation(service)).toMatchObject([
    { direction: 'received', email_id: null, message_id: '<question@receiver.test>' },
    {
      direction: 'sent',
      email_id: id,
      message_id,
      in_reply_to: '<question@receiver.test>',
      references: '<first@receiver.test> <question@receiver.test>',
      from_header: `Agent Smith <${MAILBOX_ADDRESS}>`,
      to_header: 'Bob <bob@receiver.test>',
      subject: 'Re: A question',
      text_body: BODY.text_body,
      html_body: '<p>Begin.</p>',
    },
  ])
  // It is not a received message.
  expect((await api('GET', service.path)).body).toMatchObject({ data: { message_count: 1, unread_count: 1 } })
})

test('an answer to a reply joins the thread, and so does the reply to it', async () => {
  const first = await service.receive()
  const reply = at((await service.api('POST', `${first}/reply`, BODY)).body, 'data', 'message_id') as string
  const second = await service.receive({ messageId: '<more@receiver.test>', inReplyTo: reply, references: [reply] })
  await service.api('POST', `${second}/reply`, { text_body: 'Go on.' })
  expect((await conversation(service)).map((message) => [message['direction'], message['references']])).toEqual([
    ['received', null],
    ['sent', '<question@receiver.test>'],
    ['received', reply],
    ['sent', `${reply} <more@receiver.test>`],
  ])
})

describe('a reply is addressed', () => {
  const CASES: readonly (readonly [what: string, message: Parameters<typeof createReceived>[0], to: string])[] = [
    ['to Reply-To where there is one', { replyTo: 'Desk <desk@receiver.test>' }, 'desk@receiver.test'],
    [
      'to all addresses of Reply-To',
      { replyTo: '"Doe, Jane" <jane@receiver.test>, desk@receiver.test, jane@receiver.test' },
      'jane@receiver.test, desk@receiver.test',
    ],
    [
      'to at most 10 addresses',
      { replyTo: Array.from({ length: 50 }, (_, index) => `u${index}@receiver.test`).join(', ') },
      Array.from({ length: 10 }, (_, index) => `u${index}@receiver.test`).join(', '),
    ],
    ['to From where Reply-To cannot be read', { replyTo: 'undisclosed-recipients:;' }, 'bob@receiver.test'],
    ['to From where Reply-To is the mailbox itself', { replyTo: `agent+x@sender.test` }, 'bob@receiver.test'],
    ['without the mailbox itself', { replyTo: `${MAILBOX_ADDRESS}, desk@receiver.test` }, 'desk@receiver.test'],
    [
      'to the address of From if the header is unreadable',
      { from: 'Bob (home) bob', fromAddresses: ['bob@receiver.test'] },
      'bob@receiver.test',
    ],
    ['with a name that has a comma', { from: '"Bob, the builder" <bob@receiver.test>' }, 'bob@receiver.test'],
  ]
  for (const [what, message, to] of CASES) {
    test(what, async () => {
      const answer = await service.api('POST', `${await service.receive(message)}/reply`, BODY)
      expect(at(answer.body, 'data', 'to')).toBe(to)
    })
  }

  test('to From even if the envelope sender is null', async () => {
    const message = await service.receive({}, { mailFrom: '' })
    expect(at((await service.api('POST', `${message}/reply`, BODY)).body, 'data', 'to')).toBe('bob@receiver.test')
  })

  test('to no one if the only address is that of the mailbox: 422', async () => {
    for (const message of [
      { from: 'nobody', fromAddresses: [] },
      { from: MAILBOX_ADDRESS, fromAddresses: [MAILBOX_ADDRESS] },
    ]) {
      const path = await service.receive(message, { mailFrom: '' })
      expectError(await service.api('POST', `${path}/reply`, BODY), 422, 'no_reply_address', 'message')
    }
  })
})

test('a reply to a message without Message-ID has no threading headers', async () => {
  const message = await service.receive({ messageId: null })
  const answer = await service.api('POST', `${message}/reply`, BODY)
  expect(await service.detail(at(answer.body, 'data', 'id'))).toMatchObject({ status: 'queued', headers: {} })
})

test.each([
  ['without a Message-ID', null],
  ['with a Message-ID that no header of ours can carry', `<${'a'.repeat(600)}@x.test>`],
  ['with the Message-ID of another thread', '<earlier@x.test>'],
])('a reply to a message %s is in the thread of the message, and so is the answer to it', async (_, messageId) => {
  const { api, path } = service
  await service.receive({ messageId: '<beginning@x.test>', subject: 'Ours' })
  const message = await service.receive({ messageId, inReplyTo: '<beginning@x.test>', subject: 'Ours' })
  await service.receive({ messageId: '<other@x.test>', subject: 'Not ours' })
  await service.receive({ messageId: '<earlier@x.test>', inReplyTo: '<other@x.test>', subject: 'Not ours' })
  const answer = await api('POST', `${message}/reply`, BODY)
  await service.receive({ messageId: null, inReplyTo: String(at(answer.body, 'data', 'message_id')) })
  const threads = (await api('GET', `${path}/threads`)).body
  const counts = (at(threads, 'data') as Record<string, unknown>[]).map((row) => [row['subject'], row['message_count']])
  expect(counts.toSorted()).toEqual([
    ['A question', 4],
    ['Not ours', 2],
  ])
})

test('a reply whose thread is deleted while it is accepted starts a new thread', async () => {
  const { api, app, actor, mailbox, path } = service
  const message = await service.receive({ messageId: null })
  const id = message.slice(message.lastIndexOf('/') + 1)
  const deleting: Promise<void>[] = []
  const replying = replyToMessage(app, actor, { mailboxId: formatUuid(mailbox().uuid), messageId: id }, BODY, {
    idempotencyHeader: undefined,
    // After the message is read, before anything is written.
    admit: () => void deleting.push(deleteMessage(app, actor, formatUuid(mailbox().uuid), id)),
  })
  await Promise.all([replying, ...deleting])
  const threads = (await api('GET', `${path}/threads`)).body
  expect(threads).toMatchObject({ data: [{ subject: 'Re: A question', message_count: 1 }], pagination: { total: 1 } })
  expect((await api('GET', path)).body).toMatchObject({ data: { thread_count: 1, message_count: 0 } })
})

describe('a reply is rejected, and nothing is stored,', () => {
  test('without a body, with an unknown field, or to an unknown message', async () => {
    const { api, path } = service
    const message = await service.receive()
    const before = service.stored()
    const nobody = '00000000-0000-7000-8000-000000000000'
    expectError(await api('POST', `${message}/reply`, {}), 422, 'validation_failed', 'text_body')
    const tooLong = { ...BODY, html_body: 'x'.repeat(2 * MiB + 1) }
    expectError(await api('POST', `${message}/reply`, tooLong), 422, 'validation_failed', 'html_body')
    const empty = { text_body: '', html_body: null }
    expectError(await api('POST', `${message}/reply`, empty), 422, 'validation_failed', 'text_body')
    expectError(await api('POST', `${message}/reply`, { ...BODY, to: 'eve@x.test' }), 422, 'validation_failed', 'to')
    expectError(await api('POST', `${path}/messages/${nobody}/reply`, BODY), 404, 'message_not_found')
    expect(service.stored()).toEqual(before)
  })

  test('to a sent message', async () => {
    await service.api('POST', `${await service.receive()}/reply`, BODY)
    const sent = (await conversation(service))[1]?.['id']
    const before = service.stored()
    const answer = await service.api('POST', `${service.path}/messages/${sent}/reply`, BODY)
    expectError(answer, 422, 'message_was_sent', 'message')
    expect(service.stored()).toEqual(before)
  })

  // Proves: mailbox-5
  test('while the account is paused, above its quota, or without its domain', async () => {
    const { api, app, actor } = service
    const message = await service.receive()
    const before = service.stored()
    app.db.run('UPDATE accounts SET paused_at = 1 WHERE id = ?', [actor.accountId])
    expectError(await api('POST', `${message}/reply`, BODY), 403, 'account_paused')
    app.db.run("UPDATE accounts SET paused_at = NULL, plan = 'free', monthly_quota = 0 WHERE id = ?", [actor.accountId])
    expectError(await api('POST', `${message}/reply`, BODY), 429, 'quota_exceeded')
    app.db.run("UPDATE accounts SET plan = 'unlimited', monthly_quota = NULL WHERE id = ?", [actor.accountId])
    app.db.run("UPDATE domains SET deleted_at = 1 WHERE domain = 'sender.test'")
    expectError(await api('POST', `${message}/reply`, BODY), 422, 'domain_not_found', 'from')
    expect(service.stored()).toEqual(before)
  })

  test('when the mailbox is deleted while it is accepted', async () => {
    const { app, actor, path } = service
    const message = await service.receive()
    const [mailboxId = '', messageId = ''] = message.slice('/v1/agent-mailboxes/'.length).split('/messages/')
    const deleting: Promise<unknown>[] = []
    const admit = () => void deleting.push(deleteMailbox(app, actor, mailboxId))
    const reply = replyToMessage(app, actor, { mailboxId, messageId }, BODY, { idempotencyHeader: undefined, admit })
    expect(await reply.catch((error: unknown) => error)).toMatchObject({ status: 404, code: 'mailbox_not_found' })
    await Promise.all(deleting)
    expect((await service.api('GET', path)).status).toBe(404)
    expect(at((await service.api('GET', '/v1/emails')).body, 'pagination', 'total')).toBe(0)
  })

  test("when it exceeds the account's rate", async () => {
    await using service = await createMailboxApi({
      settings: { TASSIS_SEND_RATE_PER_SECOND: '1', TASSIS_SEND_BURST: '2' },
    })
    service.app.db.run("UPDATE accounts SET plan = 'pro'")
    const message = await service.receive()
    const statuses: number[] = []
    for (let i = 0; i < 3; i++) statuses.push((await service.api('POST', `${message}/reply`, BODY)).status)
    expect(statuses).toEqual([201, 201, 429])
    expect((await conversation(service)).length).toBe(3)
  })
})

test('a reply counts in the quota; one to a suppressed address is rejected and not counted; one of an unverified domain is captured', async () => {
  const { api, app } = service
  const message = await service.receive()
  const reply = async () => at((await api('POST', `${message}/reply`, BODY)).body, 'data', 'status')
  expect([await reply(), service.used()]).toEqual(['queued', 1])
  await api('POST', '/v1/suppressions', { email_address: 'bob@receiver.test' })
  expect([await reply(), service.used()]).toEqual(['rejected', 1])
  await api('DELETE', '/v1/suppressions/bob@receiver.test')
  app.db.run('UPDATE domains SET verified_at = NULL')
  const captured = await api('POST', `${message}/reply`, BODY)
  expect([captured.status, service.used()]).toEqual([201, 1])
  expect(app.db.query('SELECT sandbox FROM emails ORDER BY id DESC LIMIT 1').get()).toEqual({ sandbox: 1 })
})

test('a reply from a domain that has permanently lost its records is a 422, and is not captured', async () => {
  const message = await service.receive()
  service.app.db.run('UPDATE domains SET verified_at = NULL, records_lost_at = 1')
  expectError(await service.api('POST', `${message}/reply`, BODY), 422, 'domain_not_verified', 'from')
  expect(service.app.db.query('SELECT COUNT(*) AS n FROM emails').get()).toEqual({ n: 0 })
})

describe('with an Idempotency-Key', () => {
  const headers = { 'idempotency-key': 'reply-1' }
  const replayed = (first: ApiResponse, more: object = {}) => ({
    data: { ...(at(first.body, 'data') as object), replayed: true, ...more },
  })

  // Proves: mailbox-5
  test('a repeated reply is sent once and gets the same response', async () => {
    const message = await service.receive()
    const first = await service.api('POST', `${message}/reply`, BODY, { headers })
    const again = await service.api('POST', `${message}/reply`, BODY, { headers })
    expect([again.status, again.body, again.headers.get('idempotency-mismatch')]).toEqual([201, replayed(first), null])
    expect((await conversation(service)).length).toBe(2)
    expect(service.used()).toBe(1)
  })

  // Proves: idem-3
  test('another body or message is reported as a mismatch, with the first reply', async () => {
    const [message, other] = [await service.receive(), await service.receive({ messageId: '<b@x.test>' })]
    const first = await service.api('POST', `${message}/reply`, BODY, { headers })
    const repeated = [
      await service.api('POST', `${message}/reply`, { text_body: 'Else.' }, { headers }),
      await service.api('POST', `${other}/reply`, BODY, { headers }),
    ]
    expect(repeated.map(({ status, body, headers: h }) => [status, body, h.get('idempotency-mismatch')])).toEqual([
      [201, replayed(first, { mismatch: true }), 'true'],
      [201, replayed(first, { mismatch: true }), 'true'],
    ])
    expect(service.used()).toBe(1)
  })
})

// Proves: mailbox-5
test('a reply reaches the receiving server with its threading headers, signed', async () => {
  await using sink = await startSink()
  await using flow = await startMailFlow({
    zone: {
      'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
      'mx.receiver.test': { A: ['127.0.0.1'] },
    },
    smtpPort: sink.port,
  })
  const { app, actor } = flow
  app.db.run('UPDATE domains SET inbound_enabled = 1')
  const mailbox = await createMailbox(app, actor, { local_part: 'agent', display_name: 'Ägent' })
  const ids = Array.from({ length: 60 }, (_, index) => `<${String(index).padStart(20, '0')}@receiver.test>`)
  const message = await deliver(app, mailbox, createReceived({ references: ids, subject: 'Grüße' }))
  const reply = await replyToMessage(app, actor, { mailboxId: formatUuid(mailbox.uuid), messageId: message }, BODY, {
    idempotencyHeader: undefined,
    admit: () => undefined,
  })
  const [received] = await eventually(() => (sink.messages.length > 0 ? sink.messages : undefined))
  const raw = Buffer.from(received?.raw ?? '', 'latin1')
  const [head = ''] = (received?.raw ?? '').split('\r\n\r\n')
  const unfolded = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
  const header = (name: string) => unfolded.filter((line) => line.startsWith(`${name}: `))
  expect({
    rcptTo: received?.rcptTo,
    from: header('From'),
    to: header('To'),
    subject: header('Subject'),
    messageId: header('Message-ID'),
    inReplyTo: header('In-Reply-To'),
    automatic: header('Auto-Submitted'),
    signature: await verifyWithMailauth(raw, flow.dkimRecord),
  }).toEqual({
    rcptTo: ['bob@receiver.test'],
    from: ['From: =?UTF-8?Q?=C3=84gent?= <agent@sender.test>'],
    to: ['To: Bob <bob@receiver.test>'],
    subject: ['Subject: =?UTF-8?Q?Re=3A_Gr=C3=BC=C3=9Fe?='],
    messageId: [`Message-ID: ${reply.message_id}`],
    inReplyTo: ['In-Reply-To: <question@receiver.test>'],
    automatic: [],
    signature: 'pass',
  })
  const references = (header('References')[0] ?? '').slice('References: '.length).split(' ')
  expect(references).toEqual([ids[0] ?? '', ...ids.slice(60 - (references.length - 2)), '<question@receiver.test>'])
  expect(references.length).toBeGreaterThan(20)
  expect(Math.max(...head.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(998)
})
