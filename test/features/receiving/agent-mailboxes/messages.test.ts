import { describe, expect, test } from 'bun:test'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { buildMailboxPayload } from '#features/receiving/agent-mailboxes/payload.ts'
import { storeSentReply } from '#features/receiving/agent-mailboxes/threads.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { days, hours, KiB } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { EMAIL, expectError, NOW, shareEmailApi, VERIFIED } from '#test/support/email-api.ts'
import { AUTHENTICATION, createMailboxApi, getTestMailbox, type MailboxApi } from '#test/support/mailboxes.ts'

const service = shareEmailApi(createMailboxApi)

type Mailbox = Awaited<ReturnType<MailboxApi['newMailbox']>>
type Json = Record<string, unknown>

const rowsOf = async (mailbox: Mailbox, rest: string): Promise<Json[]> =>
  at((await service.api('GET', service.path(mailbox, rest))).body, 'data') as Json[]
const detailOf = async (mailbox: Mailbox, rest: string): Promise<Json> =>
  at((await service.api('GET', service.path(mailbox, rest))).body, 'data') as Json
const countsOf = async (mailbox: Mailbox) => {
  const { message_count, unread_count, thread_count } = await detailOf(mailbox, '')
  return [message_count, unread_count, thread_count]
}
async function consume(mailbox: Mailbox): Promise<string> {
  const { body } = await service.api('GET', service.path(mailbox, '/messages/next?timeout=0'))
  const id = String(at(body, 'data', 'id'))
  await service.api('POST', service.path(mailbox, `/messages/${id}/ack`), { lease_token: at(body, 'lease_token') })
  return id
}

/** Stores an email sent from the mailbox in its thread; returns its Message-ID. */
async function sendReply(mailbox: Mailbox, inReplyTo: string): Promise<string> {
  const sent = await service.accepted({ ...EMAIL, subject: 'Re: Hello', text_body: 'Our pelican answer.' })
  const row = service.app.db
    .query<{ id: number }, [Uint8Array]>('SELECT id FROM emails WHERE uuid = ?')
    .get(parseUuid(sent.id) ?? new Uint8Array())
  const messageId = `<${sent.id}@${VERIFIED}>`
  await service.app.commit.write((tx) =>
    storeSentReply(service.app, tx, mailbox, {
      emailId: row?.id ?? 0,
      messageId,
      inReplyTo,
      references: [inReplyTo],
      to: EMAIL.to,
      text: 'Our pelican answer.',
    }),
  )
  return messageId
}

describe('a message', () => {
  // Proves: list-27, mailbox-2, mailbox-14
  test('has all fields in its detail, and all but the authentication in the list; neither marks it as read', async () => {
    const { actor } = service
    const mailbox = await service.newMailbox({ local_part: 'support' })
    const id = await service.deliver(mailbox, {
      subject: 'Hëllo',
      cc: 'eve@example.com',
      replyTo: 'Desk <desk@example.com>',
      text: 'Yes.\n\n> Really?',
      strippedText: 'Yes.',
      html: '<p onclick="x()">Yes.</p>',
      messageId: '<m2@example.com>',
      inReplyTo: '<m1@example.com>',
      references: ['<m0@example.com>', '<m1@example.com>'],
      classification: { label: 'support', confidence: 0.9 },
      attachments: [
        { filename: 'a.csv', contentType: 'text/csv', content: Buffer.from('a,b') },
        {
          filename: null,
          contentType: 'image/png',
          content: Buffer.from('png'),
          contentId: 'logo',
          disposition: 'inline',
        },
      ],
    })
    const now = new Date(NOW).toISOString()
    const attachments = [
      { filename: 'a.csv', content_type: 'text/csv', size: 3, content_id: null, disposition: 'attachment' },
      { filename: null, content_type: 'image/png', size: 3, content_id: 'logo', disposition: 'inline' },
    ]
    const summary = {
      id,
      mailbox_id: formatUuid(mailbox.uuid),
      account_id: actor.accountUuid,
      thread_id: expect.any(String),
      direction: 'received',
      email_id: null,
      message_id: '<m2@example.com>',
      in_reply_to: '<m1@example.com>',
      references: '<m0@example.com> <m1@example.com>',
      references_header: '<m0@example.com> <m1@example.com>',
      mail_from: 'ada@example.com',
      from_header: 'Ada Lovelace <ada@example.com>',
      to_header: 'support@sender.test',
      cc_header: 'eve@example.com',
      reply_to: 'Desk <desk@example.com>',
      subject: 'Hëllo',
      size_bytes: 1234,
      attachments,
      attachments_metadata: attachments,
      attachments_stored: true,
      labels: [],
      classification: { label: 'support', confidence: 0.9 },
      spam: null,
      source_ip: '192.0.2.7',
      read_at: null,
      received_at: now,
      created_at: now,
    }
    const row = {
      ...summary,
      text_body: 'Yes.\n\n> Really?',
      text_body_stripped: 'Yes.',
      html_body: '<p onclick="x()">Yes.</p>',
    }
    for (const list of ['/messages', '/messages/search?q=really'])
      expect((await service.api('GET', service.path(mailbox, list))).body).toEqual({
        data: [row],
        pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
      })
    expect(await detailOf(mailbox, `/messages/${id}`)).toEqual({ ...row, authentication: AUTHENTICATION })
    expect(await countsOf(mailbox)).toEqual([1, 1, 1])
  })

  test('in a list or search has the first 32 KiB of each body, marked as truncated; the single message is complete', async () => {
    const mailbox = await service.newMailbox()
    // The limit falls within a character.
    const [text, html] = [`pelican ${'x'.repeat(32 * KiB - 9)}ü`, `<p>${'y'.repeat(300 * KiB)}`]
    const whole = await service.deliver(mailbox, { text: 'pelican', html: 'y'.repeat(32 * KiB) })
    const long = await service.deliver(mailbox, { text, html })
    for (const list of ['/messages', '/messages/search?q=pelican'])
      expect(
        (await rowsOf(mailbox, list)).map(({ id, text_body, html_body, truncated }) => ({
          id,
          text_body,
          html_body,
          truncated,
        })),
      ).toEqual([
        { id: long, text_body: text.slice(0, -1), html_body: html.slice(0, 32 * KiB), truncated: true },
        { id: whole, text_body: 'pelican', html_body: 'y'.repeat(32 * KiB), truncated: undefined },
      ])
    expect(await detailOf(mailbox, `/messages/${long}`)).toMatchObject({ text_body: text, html_body: html })
  })

  test('whose bodies were deleted is listed without them, with its content marked as missing', async () => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox, { text: 'Hello, pelican.' })
    service.app.db.run('UPDATE mailbox_messages SET text_ref = text_ref + 1000')
    const [thread] = await rowsOf(mailbox, '/threads')
    const row = { id, text_body: null, html_body: null, content: 'missing' }
    for (const list of ['/messages', '/messages/search?q=pelican'])
      expect(await rowsOf(mailbox, list)).toMatchObject([row])
    expect(thread).toMatchObject(row)
    expect(await rowsOf(mailbox, `/threads/${thread?.['thread_id']}`)).toMatchObject([row])
  })

  test('with only an envelope is stored too, under the envelope sender', async () => {
    const mailbox = await service.newMailbox()
    const received = await service.deliver(mailbox, {
      mailFrom: '',
      text: null,
      messageId: null,
      subject: '',
      from: '',
    })
    const message = await detailOf(mailbox, `/messages/${received}`)
    expect([message['mail_from'], message['from_header'], message['subject'], message['message_id']]).toEqual([
      '',
      '',
      '',
      null,
    ])
    expect([message['text_body'], message['html_body'], 'classification' in message]).toEqual([null, null, false])
    expect(await rowsOf(mailbox, '/contacts')).toMatchObject([{ address: 'ada@example.com' }])
  })

  test('emits one event, with the ids of the mailbox and the message', async () => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const events = at((await service.api('GET', '/v1/events?types=mailbox.message.received')).body, 'data') as Json[]
    expect(events).toHaveLength(1)
    expect(
      service.app.db
        .query<{ data: string }, []>("SELECT data FROM events WHERE data LIKE '%mailbox_message_id%'")
        .all()
        .map(({ data }) => JSON.parse(data)),
    ).toEqual([{ mailbox_id: formatUuid(mailbox.uuid), mailbox_message_id: id }])
  })

  // Proves: mailbox-2
  test('is removed from every count; the last message takes its thread with it', async () => {
    const { api, path } = service
    const mailbox = await service.newMailbox()
    const first = await service.deliver(mailbox, { messageId: '<1@x>', subject: 'needle' })
    const second = await service.deliver(mailbox, { inReplyTo: '<1@x>', subject: 'needle' })
    expect(await consume(mailbox)).toBe(first)
    expect(await countsOf(mailbox)).toEqual([2, 1, 1])
    expect((await api('DELETE', path(mailbox, `/messages/${first}`))).status).toBe(204)
    expectError(await api('GET', path(mailbox, `/messages/${first}`)), 404, 'message_not_found')
    expect(await countsOf(mailbox)).toEqual([1, 1, 1])
    expect((await rowsOf(mailbox, '/contacts'))[0]).toMatchObject({ message_count: 1 })
    expect((await rowsOf(mailbox, '/messages/search?q=needle')).map(({ id }) => id)).toEqual([second])
    expect((await api('DELETE', path(mailbox, `/messages/${second}`))).status).toBe(204)
    expect(await countsOf(mailbox)).toEqual([0, 0, 0])
    expect(await rowsOf(mailbox, '/contacts')).toEqual([])
    expect(await rowsOf(mailbox, '/threads')).toEqual([])
    expectError(await api('DELETE', path(mailbox, `/messages/${second}`)), 404, 'message_not_found')
  })

  test('of another mailbox of the account is a 404', async () => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    const id = await service.deliver(other)
    for (const rest of ['', '/attachments', '/attachments/0', '/raw'])
      expectError(await service.api('GET', service.path(mailbox, `/messages/${id}${rest}`)), 404, 'message_not_found')
    const [thread] = await rowsOf(other, '/threads')
    for (const threadId of [thread?.['thread_id'], thread?.['id']])
      expectError(await service.api('GET', service.path(mailbox, `/threads/${threadId}`)), 404, 'thread_not_found')
  })
})

test('a message with missing content is a 200 that marks it as missing, as in the webhook payload', async () => {
  const mailbox = await service.newMailbox()
  const attachments = [{ filename: 'a.csv', contentType: 'text/csv', content: Buffer.from('a,b') }]
  const id = await service.deliver(mailbox, { text: 'Hello.', attachments })
  const path = service.path(mailbox, `/messages/${id}`)
  for (const db of service.app.content.databases()) db.run('UPDATE parts SET encoding = 3, data = NULL')
  const { status, body } = await service.api('GET', path)
  expect({ status, data: at(body, 'data') }).toMatchObject({
    status: 200,
    data: { content: 'missing', text_body: null },
  })
  expect((await service.api('GET', `${path}/attachments/0`)).status).toBe(410)
  expect(buildMailboxPayload(service.app, service.actor.accountId, String(id))).toMatchObject({
    message: { text_body: null, content: 'missing' },
  })
  expect(buildMailboxPayload(service.app, service.actor.accountId, String(id))).not.toHaveProperty('message.truncated')
})

describe('the list of messages', () => {
  // Proves: mailbox-2
  test('is newest first, by status, in pages', async () => {
    const { path, api } = service
    const mailbox = await service.newMailbox()
    const ids: string[] = []
    for (let n = 0; n < 5; n++) {
      service.clock.advance(1000)
      ids.unshift(await service.deliver(mailbox))
    }
    // The two oldest are read.
    for (let n = 0; n < 2; n++) await consume(mailbox)
    const listed = async (query: string) => (await rowsOf(mailbox, `/messages${query}`)).map(({ id }) => id)
    expect({
      all: await listed(''),
      unread: await listed('?status=unread'),
      read: await listed('?status=read'),
      page: await listed('?limit=2&offset=1'),
      past: await listed('?status=read&offset=2'),
    }).toEqual({ all: ids, unread: ids.slice(0, 3), read: ids.slice(3), page: ids.slice(1, 3), past: [] })
    expect(at((await api('GET', path(mailbox, '/messages?status=read'))).body, 'pagination', 'total')).toBe(2)
    expectError(await api('GET', path(mailbox, '/messages?status=seen')), 422, 'validation_failed', 'status')
  })

  test.each([
    ['all', ''],
    ['unread', ' AND read_at IS NULL'],
    ['read', ' AND read_at IS NOT NULL'],
  ])('of status %s is read from one index alone, in the order of the index', async (status, where) => {
    const index = `mailbox_messages_${status === 'all' ? 'mailbox' : status}`
    const plan = service.app.db
      .query<{ detail: string }, [number]>(
        `EXPLAIN QUERY PLAN SELECT id FROM mailbox_messages INDEXED BY ${index} WHERE mailbox_id = ? AND email_id IS NULL${where}
         ORDER BY created_at DESC, id DESC LIMIT 25`,
      )
      .all(1)
    expect(plan.map(({ detail }) => detail).join()).toMatch(
      // SQLite may sort rows with the same created_at.
      new RegExp(
        `^SEARCH mailbox_messages USING COVERING INDEX ${index} \\([^)]*\\)(,USE TEMP B-TREE FOR LAST TERM OF ORDER BY)?$`,
      ),
    )
  })
})

describe('labels', () => {
  // Proves: mailbox-8
  test('replace the existing ones, without duplicates', async () => {
    const { api, path } = service
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const put = (labels: unknown) => api('PUT', path(mailbox, `/messages/${id}/labels`), { labels })
    const all = Array.from({ length: 50 }, (_, n) => `label_${n}-X`)
    expect(at((await put(all)).body, 'data', 'labels')).toEqual(all)
    const twice = await put(['b', 'a', 'b'])
    expect({ status: twice.status, data: at(twice.body, 'data') }).toEqual({
      status: 200,
      data: { ...(await detailOf(mailbox, `/messages/${id}`)), labels: ['b', 'a'] },
    })
    expect(at((await put([])).body, 'data', 'labels')).toEqual([])
  })

  // Proves: mailbox-8
  test.each([
    [Array.from({ length: 51 }, (_, n) => `l${n}`), 'labels'],
    [[''], 'labels.0'],
    [['a', 'x'.repeat(65)], 'labels.1'],
    [['a b'], 'labels.0'],
    [['ä'], 'labels.0'],
    [['a\n'], 'labels.0'],
  ])('%j are a 422', async (labels, field) => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox)
    const answer = await service.api('PUT', service.path(mailbox, `/messages/${id}/labels`), { labels })
    expectError(answer, 422, 'validation_failed', field)
  })
})

describe('a thread', () => {
  // Proves: mailbox-6
  test('joins answers by In-Reply-To or References, received and sent, never by subject', async () => {
    const mailbox = await service.newMailbox()
    const first = await service.deliver(mailbox, { messageId: '<1@x>', subject: 'Hello' })
    service.clock.advance(1000)
    const sentId = await sendReply(mailbox, '<1@x>')
    service.clock.advance(1000)
    const answer = await service.deliver(mailbox, { messageId: '<2@x>', inReplyTo: sentId, subject: 'Re: Hello' })
    const byReferences = await service.deliver(mailbox, { references: ['<unknown@x>', '<2@x>', '<lost@x>'] })
    const copy = await service.deliver(mailbox, { messageId: '<2@x>' })
    service.clock.advance(1000)
    const stranger = await service.deliver(mailbox, { subject: 'Hello' })
    const [newest, oldest] = await rowsOf(mailbox, '/threads')
    expect(newest).toMatchObject({ id: stranger, subject: 'Hello', message_count: 1 })
    const [last] = await rowsOf(mailbox, '/messages?offset=1&limit=1')
    const lastMessageAt = new Date(NOW + 2000).toISOString()
    expect(oldest).toEqual({ ...last, id: copy, message_count: 5, last_message_at: lastMessageAt })
    const threadPath = `/threads/${oldest?.['thread_id']}`
    const { body } = await service.api('GET', service.path(mailbox, threadPath))
    expect(body).toEqual({
      data: expect.any(Array),
      pagination: { page: 1, per_page: 25, total: 5, total_pages: 1 },
      thread: {
        id: String(oldest?.['thread_id']),
        mailbox_id: formatUuid(mailbox.uuid),
        account_id: service.actor.accountUuid,
        subject: 'Hello',
        message_count: 5,
        last_message_at: lastMessageAt,
        created_at: new Date(NOW).toISOString(),
      },
    })
    const messages = at(body, 'data') as Json[]
    const told = messages.map(({ id, direction, text_body }) => [id, direction, text_body])
    expect(told).toEqual([
      [first, 'received', 'Hello, mailbox.'],
      [expect.any(String), 'sent', 'Our pelican answer.'],
      [answer, 'received', 'Hello, mailbox.'],
      [byReferences, 'received', 'Hello, mailbox.'],
      [copy, 'received', 'Hello, mailbox.'],
    ])
    expect(messages[1]).toMatchObject({ message_id: sentId, in_reply_to: '<1@x>', to_header: EMAIL.to })
    // The id of a message leads to its thread, too.
    for (const id of [newest?.['thread_id'], stranger])
      expect(await rowsOf(mailbox, `/threads/${id}`)).toMatchObject([{ id: stranger }])
    const page = await rowsOf(mailbox, `${threadPath}?limit=2&offset=3`)
    expect(page.map(({ id }) => id)).toEqual([byReferences, copy])
    // Sent messages count in the thread alone.
    expect(await countsOf(mailbox)).toEqual([5, 5, 2])
    expect((await rowsOf(mailbox, '/messages')).map(({ id }) => id)).toEqual([
      stranger,
      copy,
      byReferences,
      answer,
      first,
    ])
  })

  test('of one mailbox is never joined from another, even by the same Message-ID', async () => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    await service.deliver(mailbox, { messageId: '<1@x>' })
    await service.deliver(other, { inReplyTo: '<1@x>' })
    expect([await countsOf(mailbox), await countsOf(other)]).toEqual([
      [1, 1, 1],
      [1, 1, 1],
    ])
  })

  test('keeps the answers to its messages, even if another sender reuses their Message-ID in another thread', async () => {
    const mailbox = await service.newMailbox()
    await service.deliver(mailbox, { messageId: '<1@x>', subject: 'Ours' })
    await service.deliver(mailbox, { messageId: '<evil@x>', subject: 'Evil' })
    await service.deliver(mailbox, { messageId: '<1@x>', inReplyTo: '<evil@x>', subject: 'Evil' })
    await service.deliver(mailbox, { inReplyTo: '<1@x>', subject: 'Re: Ours' })
    const threads = await rowsOf(mailbox, '/threads')
    expect(threads.map(({ subject, message_count }) => [subject, message_count]).toSorted()).toEqual([
      ['Evil', 2],
      ['Re: Ours', 2],
    ])
  })

  test('truncates a long body, and marks the message as truncated', async () => {
    const mailbox = await service.newMailbox()
    await service.deliver(mailbox, { text: `${'x'.repeat(64 * KiB - 1)}ü…` })
    const [thread] = await rowsOf(mailbox, '/threads')
    expect(thread).toMatchObject({ text_body: 'x'.repeat(32 * KiB), truncated: true })
    const messages = await rowsOf(mailbox, `/threads/${thread?.['thread_id']}`)
    expect(messages).toMatchObject([{ text_body: 'x'.repeat(64 * KiB - 1), truncated: true }])
  })
})

describe('a search', () => {
  // Proves: mailbox-7
  test('finds all its words in subject, sender and text, ignoring case and accents, newest first', async () => {
    const mailbox = await service.newMailbox()
    const subject = await service.deliver(mailbox, { subject: 'Invoice for March' })
    const body = await service.deliver(mailbox, { text: 'Your INVÓICE, for march.' })
    const sender = await service.deliver(mailbox, {
      from: 'Marcus Invoice <m@example.com>',
      fromAddress: 'm@example.com',
    })
    await sendReply(mailbox, '<none@x>')
    const found = async (q: string) =>
      (await rowsOf(mailbox, `/messages/search?q=${encodeURIComponent(q)}`)).map(({ id, direction }) =>
        direction === 'sent' ? 'sent' : id,
      )
    expect({
      one: await found('invoice'),
      both: await found('  march\tINVOICE '),
      punctuated: await found('invoice, (march) — !'),
      address: await found('m@example.com'),
      sent: await found('pelican'),
      part: await found('invoic'),
      none: await found('march april'),
      page: (await rowsOf(mailbox, '/messages/search?q=invoice&limit=1&offset=1')).map(({ id }) => id),
    }).toEqual({
      one: [sender, body, subject],
      both: [body, subject],
      punctuated: [body, subject],
      address: [sender],
      sent: ['sent'],
      part: [],
      none: [],
      page: [body],
    })
  })

  // Proves: mailbox-7
  test.each([
    '"',
    '""invoice',
    'invoice" OR "',
    'invoice*',
    'invoice AND',
    'NOT invoice',
    'NEAR(invoice mailbox)',
    'mailbox:m1',
    '{mailbox}: m2',
    '^invoice',
    '-invoice',
    '+invoice+',
    'a OR m2',
    '(invoice',
    'invoice)',
    'subject : invoice',
    "'; DROP TABLE mailbox_messages; --",
    'in\u0000voice',
    '🦆 invoice',
  ])('for %j takes it as words, not as syntax: it never fails, and never leaves the mailbox', async (q) => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    const theirs = await service.deliver(other, { text: 'invoice m1 m2 a OR NOT AND NEAR subject mailbox DROP TABLE' })
    const answer = await service.api('GET', service.path(mailbox, `/messages/search?q=${encodeURIComponent(q)}`))
    if (answer.status === 422) return expectError(answer, 422, 'validation_failed', 'q')
    const total = at(answer.body, 'pagination', 'total')
    expect({ status: answer.status, data: at(answer.body, 'data'), total }).toEqual({ status: 200, data: [], total: 0 })
    expect((await rowsOf(other, '/messages/search?q=invoice')).map(({ id }) => id)).toEqual([theirs])
  })

  test('shows nothing of another mailbox, whatever the index contains, and never finds words of the index itself', async () => {
    const [mailbox, other] = [await service.newMailbox(), await service.newMailbox()]
    await service.deliver(mailbox)
    await service.deliver(other)
    const found = (q: string) => rowsOf(mailbox, `/messages/search?q=${q}`)
    expect(await found(`m${mailbox.id}`)).toEqual([])
    service.app.db.run('DELETE FROM mailbox_search WHERE rowid = 2')
    service.app.db.run(
      "INSERT INTO mailbox_search (rowid, mailbox, subject, sender, body) VALUES (2, ?, 'needle', '', '')",
      [`m${mailbox.id}`],
    )
    expect(await found('needle')).toEqual([])
  })

  test.each(['', ' ', '!?', 'x'.repeat(201), 'a '.repeat(21).trim()])('for %j is a 422', async (q) => {
    const mailbox = await service.newMailbox()
    const path = service.path(mailbox, `/messages/search?q=${encodeURIComponent(q)}`)
    expectError(await service.api('GET', path), 422, 'validation_failed', 'q')
    expectError(await service.api('GET', service.path(mailbox, '/messages/search')), 422, 'validation_failed', 'q')
  })

  test('searches the text of the HTML, without its tags, when a message has no text body', async () => {
    const mailbox = await service.newMailbox()
    const html = '<style>.stork{}</style><p class="heron">A <b>peli</b>can &amp; a t&euml;rn</p><script>ibis()</script>'
    const ids = [
      await service.deliver(mailbox, { text: null, html }),
      await service.deliver(mailbox, { text: ' \n', html }),
      await service.deliver(mailbox, { text: 'Goodbye.', html }),
    ]
    const found = async (q: string) =>
      (await rowsOf(mailbox, `/messages/search?q=${q}`)).map(({ id }) => ids.indexOf(String(id)))
    expect([await found('pelican'), await found('tern'), await found('goodbye')]).toEqual([[1, 0], [1, 0], [2]])
    for (const word of ['stork', 'heron', 'ibis', 'class']) expect(await found(word)).toEqual([])
  })

  test('searches the first 65,536 characters of a text', async () => {
    const mailbox = await service.newMailbox()
    const id = await service.deliver(mailbox, { text: `${'x '.repeat(32_760)} early ${'x '.repeat(100)} late` })
    const found = async (q: string) => (await rowsOf(mailbox, `/messages/search?q=${q}`)).map((row) => row['id'])
    expect([await found('early'), await found('late')]).toEqual([[id], []])
  })
})

describe('the raw form of a message', () => {
  // Proves: mailbox-10
  test('is the received message, below the trace fields of this host and without results that claim to be ours', async () => {
    const mailbox = await service.newMailbox()
    const raw = 'Authentication-Results: mail.tassis.test; dmarc=pass\r\nFrom: Ada <ada@example.com>\r\n\r\nHello.\r\n'
    const id = await service.deliver(mailbox, { raw, tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384' })
    const answer = await fetch(`${service.url}${service.path(mailbox, `/messages/${id}/raw`)}`, {
      headers: { authorization: `Bearer ${service.key}` },
    })
    expect(answer.headers.get('content-type')).toBe('message/rfc822')
    expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="${id}.eml"`)
    const text = await answer.text()
    expect(text).toStartWith(
      'Return-Path: <ada@example.com>\r\nAuthentication-Results: mail.tassis.test;\r\n iprev=pass',
    )
    expect(text).toContain('\tby mail.tassis.test with ESMTPS (TLSv1.3 TLS_AES_256_GCM_SHA384);\r\n')
    expect(text).toEndWith('+0000\r\nFrom: Ada <ada@example.com>\r\n\r\nHello.\r\n')
  })

  // Proves: mailbox-10
  test('is a 404 for a sent message, and for one past the retention of raw messages', async () => {
    const mailbox = await service.newMailbox()
    const received = await service.deliver(mailbox, { messageId: '<1@x>', raw: 'A: 1\r\n\r\n' })
    await sendReply(mailbox, '<1@x>')
    const raw = (id: unknown) => service.api('GET', service.path(mailbox, `/messages/${id}/raw`))
    const [sent] = (await rowsOf(mailbox, '/messages/search?q=pelican')).map(({ id }) => id)
    expectError(await raw(sent), 404, 'no_raw_message')
    service.clock.advance(days(31))
    expectError(await raw(received), 404, 'raw_message_gone')
  })
})

describe('attachments', () => {
  // Proves: mailbox-11
  test.each([
    ['report.pdf', 'application/pdf', 'application/pdf', 'attachment; filename="report.pdf"'],
    ['page.html', 'text/html', 'application/octet-stream', 'attachment; filename="page.html"'],
    ['image.svg', 'image/svg+xml', 'application/octet-stream', 'attachment; filename="image.svg"'],
    ['x', 'application/xhtml+xml', 'application/octet-stream', 'attachment; filename="x"'],
    ['run.js', 'text/javascript', 'application/octet-stream', 'attachment; filename="run.js"'],
    [null, 'image/png', 'image/png', 'attachment'],
  ])('named %j of type %s are downloads as %s, byte for byte', async (filename, contentType, served, disposition) => {
    const mailbox = await service.newMailbox()
    const content = Uint8Array.from({ length: 1000 }, (_, n) => (n * 7) % 256)
    const id = await service.deliver(mailbox, { attachments: [{ filename, contentType, content }] })
    const response = await fetch(`${service.url}${service.path(mailbox, `/messages/${id}/attachments/0`)}`, {
      headers: { authorization: `Bearer ${service.key}` },
    })
    const { headers } = response
    expect({
      status: response.status,
      type: headers.get('content-type'),
      disposition: headers.get('content-disposition'),
      sniff: headers.get('x-content-type-options'),
      policy: headers.get('content-security-policy'),
      bytes: new Uint8Array(await response.arrayBuffer()),
    }).toEqual({
      status: 200,
      type: served,
      disposition,
      sniff: 'nosniff',
      policy: "sandbox; default-src 'none'",
      bytes: content,
    })
  })

  // Proves: mailbox-9
  test('have links that need no key, name one file each, and end after one to two hours', async () => {
    const { api, clock, path } = service
    const mailbox = await service.newMailbox()
    const files = ['first', 'second'].map((text) => ({
      filename: `${text}.html`,
      contentType: 'text/html',
      content: Buffer.from(text),
    }))
    const id = await service.deliver(mailbox, { attachments: files })
    const { body } = await api('GET', path(mailbox, `/messages/${id}/attachments?offset=1`))
    expect(at(body, 'data')).toEqual([
      {
        filename: 'second.html',
        content_type: 'text/html',
        size: 6,
        content_id: null,
        disposition: 'attachment',
        url: expect.stringContaining('/mailbox-files?token='),
        expires_in_seconds: expect.any(Number),
      },
    ])
    const { pathname, search } = new URL(String(at(body, 'data', 0, 'url')))
    const link = `${service.url}${pathname}${search}`
    const file = await fetch(link)
    const { headers } = file
    expect([file.status, headers.get('content-disposition'), headers.get('content-type'), await file.text()]).toEqual([
      200,
      'attachment; filename="second.html"',
      'application/octet-stream',
      'second',
    ])
    for (const wrong of [`${link}A`, link.replace('token=', 'token=A'), `${service.url}/mailbox-files`])
      expect((await fetch(wrong)).status).toBe(404)
    // A link opens nothing at another route.
    expect((await fetch(link.replace('/mailbox-files', '/resend/files'))).status).toBe(404)
    const lifetime = Number(at(body, 'data', 0, 'expires_in_seconds'))
    expect([lifetime >= 3600, lifetime <= 7200]).toEqual([true, true])
    clock.advance(lifetime * 1000)
    expect((await fetch(link)).status).toBe(200)
    clock.advance(1001)
    expect((await fetch(link)).status).toBe(404)
    clock.advance(-days(1))
    await api('DELETE', path(mailbox, `/messages/${id}`))
    expect((await fetch(link)).status).toBe(404)
  })

  // Proves: mailbox-9
  test('are listed in order, in pages; other numbers do not exist', async () => {
    const { api, path } = service
    const mailbox = await service.newMailbox()
    const names = Array.from({ length: 30 }, (_, n) => `${n}.txt`)
    const attachments = names.map((filename) => ({
      filename,
      contentType: 'text/plain',
      content: Buffer.from(filename),
    }))
    const id = await service.deliver(mailbox, { attachments })
    const { body } = await api('GET', path(mailbox, `/messages/${id}/attachments`))
    expect((at(body, 'data') as Json[]).map(({ filename }) => filename)).toEqual(names.slice(0, 25))
    expect(at(body, 'pagination')).toEqual({
      page: 1,
      per_page: 25,
      total: 30,
      total_pages: 2,
      next_cursor: expect.any(String),
    })
    for (const n of ['30', '-1', '1.0', '01', 'x', '%00', '9'.repeat(20)])
      expectError(await api('GET', path(mailbox, `/messages/${id}/attachments/${n}`)), 404, 'attachment_not_found')
  })
})

test('lists, threads and searches show the first 20 of very many attachments, the single message all', async () => {
  const mailbox = await service.newMailbox()
  const content = Buffer.from('x')
  const made = (count: number) =>
    Array.from({ length: count }, (_, n) => ({
      filename: `${n}${'ü'.repeat(250)}`,
      contentType: 'text/plain',
      contentId: `${n}${'c'.repeat(900)}`,
      content,
    }))
  const many = await service.deliver(mailbox, { messageId: '<1@x>', attachments: made(1000) })
  await service.deliver(mailbox, { inReplyTo: '<1@x>', attachments: made(20) })
  const [thread] = await rowsOf(mailbox, '/threads')
  const lists = [
    await rowsOf(mailbox, '/messages'),
    await rowsOf(mailbox, '/messages/search?q=mailbox'),
    (await rowsOf(mailbox, `/threads/${thread?.['thread_id']}`)).toReversed(),
  ]
  const all = (await detailOf(mailbox, `/messages/${many}`))['attachments'] as Json[]
  expect(all).toHaveLength(1000)
  for (const list of lists)
    expect(list.map(({ attachments }) => attachments)).toEqual([all.slice(0, 20), all.slice(0, 20)])
  const files = await service.api('GET', service.path(mailbox, `/messages/${many}/attachments?offset=990`))
  expect(at(files.body, 'data')).toMatchObject(all.slice(990))
})

// Proves: mailbox-9
test('contacts are the senders, by address, with their number of messages and the last time', async () => {
  const mailbox = await service.newMailbox()
  await service.deliver(mailbox, { from: 'Ada <ADA@Example.com>', fromAddress: 'ADA@Example.com' })
  service.clock.advance(1000)
  await service.deliver(mailbox, { from: 'bob@example.com', fromAddress: 'bob@example.com' })
  service.clock.advance(1000)
  await service.deliver(mailbox, { from: 'ada@example.com', fromAddress: 'ada@example.com' })
  // Sent messages create no contacts.
  await sendReply(mailbox, '<none@x>')
  const toContact = (address: string, name: string | null, count: number, at: number) => {
    const last = new Date(at).toISOString()
    const own = { email: address, display_name: name, message_count: count, last_seen: last }
    return { ...own, address, name, last_message_at: last }
  }
  expect((await service.api('GET', service.path(mailbox, '/contacts'))).body).toEqual({
    data: [toContact('ada@example.com', 'Ada', 2, NOW + 2000), toContact('bob@example.com', null, 1, NOW + 1000)],
    pagination: { page: 1, per_page: 25, total: 2, total_pages: 1 },
  })
})

// Proves: mailbox-9
test('analytics count received messages: total, unread, since midnight, and in seven days', async () => {
  const mailbox = await service.newMailbox()
  const midnight = NOW - (NOW % days(1))
  for (const time of [midnight - days(6) - 1, midnight - days(6), midnight - 1, midnight, NOW]) {
    const id = await service.deliver(mailbox)
    service.app.db.run('UPDATE mailbox_messages SET created_at = ? WHERE uuid = ?', [
      time,
      parseUuid(id) ?? new Uint8Array(),
    ])
  }
  await sendReply(mailbox, '<none@x>')
  await consume(mailbox)
  expect((await service.api('GET', service.path(mailbox, '/analytics'))).body).toEqual({
    data: { total_messages: 5, unread_messages: 4, total_threads: 6, messages_today: 2, messages_this_week: 4 },
  })
  service.clock.advance(hours(24))
  expect(await detailOf(mailbox, '/analytics')).toMatchObject({ messages_today: 0, messages_this_week: 3 })
})

describe('the payload of mailbox.message.received', () => {
  // Proves: mailbox-13
  test('has the fields of the message, and is the same at every call', async () => {
    const { app, actor } = service
    const mailbox = await service.newMailbox({ local_part: 'support' })
    const id = await service.deliver(mailbox, {
      replyTo: 'desk@example.com',
      text: 'Yes.\n> No.',
      strippedText: 'Yes.',
      html: '<p>Yes.</p>',
      inReplyTo: '<m1@example.com>',
      references: ['<m1@example.com>'],
      classification: { label: 'support', confidence: 0.5 },
      attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('a') }],
    })
    const first = buildMailboxPayload(app, actor.accountId, id)
    const { from, ...message } = at(first, 'message') as Json
    expect(await detailOf(mailbox, `/messages/${id}`)).toMatchObject({ ...message, from_header: from })
    expect(Object.keys(message)).toEqual(expect.arrayContaining(['text_body_stripped', 'classification']))
    expect(first).toMatchObject({ mailbox_id: formatUuid(mailbox.uuid), authentication: AUTHENTICATION })
    await service.api('PUT', service.path(mailbox, `/messages/${id}/labels`), { labels: ['a'] })
    await consume(mailbox)
    expect(JSON.stringify(buildMailboxPayload(app, actor.accountId, id))).toBe(JSON.stringify(first))
  })

  // Proves: mailbox-13
  test('omits absent fields, and truncates a body after 256 KiB', async () => {
    const { app, actor } = service
    const mailbox = await service.newMailbox()
    const small = at(buildMailboxPayload(app, actor.accountId, await service.deliver(mailbox)), 'message') as Json
    expect(Object.keys(small)).toEqual([
      'id',
      'reply_to',
      'subject',
      'message_id',
      'in_reply_to',
      'references',
      'spam',
      'from',
      'attachments',
      'thread_id',
      'received_at',
      'text_body',
      'html_body',
    ])
    const long = await service.deliver(mailbox, { text: 'ü'.repeat(200_000), html: 'h'.repeat(256 * KiB) })
    expect(at(buildMailboxPayload(app, actor.accountId, long), 'message')).toMatchObject({
      text_body: 'ü'.repeat(128 * KiB),
      html_body: 'h'.repeat(256 * KiB),
      truncated: true,
    })
  })

  test('is undefined for a deleted message or mailbox, and for another account', async () => {
    const { app, actor, api, path } = service
    const mailbox = await service.newMailbox()
    const [id, second] = [await service.deliver(mailbox), await service.deliver(mailbox)]
    const other = await service.newAccount()
    expect(buildMailboxPayload(app, other.accountId, id)).toBeUndefined()
    expect(buildMailboxPayload(app, actor.accountId, 'x')).toBeUndefined()
    await api('DELETE', path(mailbox, `/messages/${id}`))
    expect(buildMailboxPayload(app, actor.accountId, id)).toBeUndefined()
    expect(buildMailboxPayload(app, actor.accountId, second)).toBeDefined()
    await api('DELETE', path(mailbox))
    expect(buildMailboxPayload(app, actor.accountId, second)).toBeUndefined()
  })
})

test('untrusted input is truncated and never fails', async () => {
  const { app, actor } = service
  const mailbox = await service.newMailbox({ local_part: 'support' })
  const long = 'x'.repeat(100_000)
  const id = await service.deliver(mailbox, {
    from: `${long} <a@example.com>`,
    fromAddress: `${long}@example.com`,
    to: long,
    subject: `\ud800\0${long}`,
    messageId: `<${long}>`,
    inReplyTo: `<${long}>`,
    references: [`<${long}>`, ...Array.from({ length: 500 }, (_, n) => `<${n}@x>`)],
    text: `\0\ud800 ${long}`,
  })
  const message = await detailOf(mailbox, `/messages/${id}`)
  expect(JSON.stringify({ ...message, text_body: '' }).length).toBeLessThan(60_000)
  const ids = String(message['references']).split(' ')
  expect([message['message_id'], message['in_reply_to'], ids.length, ids[0], ids.at(-1)]).toEqual([
    null,
    null,
    50,
    '<0@x>',
    '<499@x>',
  ])
  expect(findMailbox(app.db, VERIFIED, 'support')?.messageCount).toBe(1)
  expect(getTestMailbox(app, actor.accountId, message['mailbox_id']).threadCount).toBe(1)
})
