import { describe, expect, test } from 'bun:test'
import {
  autoRespond,
  decideAutoReply,
  MAX_REPLIES_PER_HOUR,
} from '#features/receiving/agent-mailboxes/auto-responder.ts'
import {
  type AutoResponderRule,
  changeAutoResponder,
  findRule,
} from '#features/receiving/agent-mailboxes/auto-settings.ts'
import { createMailbox, getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import type { StoredMessage } from '#features/receiving/received/message.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { formatUuid } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { at } from '#test/support/api.ts'
import { expectError, shareEmailApi } from '#test/support/email-api.ts'
import {
  createAuthentication,
  createMailboxApi,
  createMessage,
  createReceived,
  deliver,
  MAILBOX_ADDRESS,
  MAILBOX_DOMAIN,
  type MailboxApi,
} from './reply-support.ts'

const service = shareEmailApi(createMailboxApi)

const RULES = [{ reply: { text_body: 'We have your message.' } }]

const setUp = async (service: MailboxApi, settings: unknown = { enabled: true, rules: RULES }): Promise<void> => {
  const answer = await service.api('PATCH', `${service.path}/auto-responder`, settings)
  expect([answer.status, answer.body]).toEqual([200, expect.anything()])
}

/** Receives a message; returns the number of replies to it. */
async function countRepliesTo(service: MailboxApi, ...given: Parameters<typeof createReceived>): Promise<number> {
  const received = createReceived(...given)
  const before = countEmails(service)
  await deliver(service.app, service.mailbox(), received)
  await autoRespond(service.app, service.mailbox(), received)
  return countEmails(service) - before
}

const countEmails = ({ app }: MailboxApi): number =>
  app.db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM emails').get()?.n ?? 0

const readReplyRows = ({ app }: MailboxApi): unknown[] =>
  app.db.query('SELECT address, replied_at AS at FROM mailbox_auto_replies ORDER BY address').all()

describe('the settings', () => {
  // Proves: mailbox-12
  test('are initially disabled and empty, change field by field, and appear in the mailbox; each change has an audit row', async () => {
    const { api, path } = service
    expect((await api('GET', path)).body).toMatchObject({ data: { auto_responder: null } })
    const settings = (enabled: boolean, rules: unknown) => ({
      data: { auto_responder_enabled: enabled, auto_responder_rules: rules, enabled, rules },
    })
    const own = async () => (await api('GET', `${path}/auto-responder`)).body
    expect(await own()).toEqual(settings(false, []))
    const rules = [
      {
        match: { from: '@receiver.test', subject_contains: 'price', text_contains: 'how much' },
        reply: { subject: 'Prices', text_body: 'See our site.', html_body: '<p>See our site.</p>' },
      },
      ...RULES,
    ]
    const change = async (body: unknown) => {
      const { status, body: answered } = await api('PATCH', `${path}/auto-responder`, body)
      return { status, body: answered }
    }
    expect(await change({ enabled: true })).toEqual({ status: 200, body: settings(true, []) })
    expect(await change({ rules })).toEqual({ status: 200, body: settings(true, rules) })
    expect(await change({ enabled: false })).toEqual({ status: 200, body: settings(false, rules) })
    expect((await api('GET', path)).body).toMatchObject({
      data: { auto_responder: { enabled: false, rules }, auto_responder_enabled: false, auto_responder_rules: rules },
    })
    expect(await own()).toEqual(settings(false, rules))
    expect(await change({ rules: [] })).toEqual({ status: 200, body: settings(false, []) })
    const log = await api('GET', '/v1/audit-logs?per_page=4')
    expect(
      (at(log.body, 'data') as Record<string, unknown>[]).map(({ action, metadata }) => ({ action, metadata })),
    ).toEqual(
      [
        { enabled: false, rules: 0 },
        { enabled: false, rules: 2 },
        { enabled: true, rules: 2 },
        { enabled: true, rules: 0 },
      ].map((metadata) => ({ action: 'mailbox.auto_responder_updated', metadata })),
    )
  })

  const text = { text_body: 'x' }
  const BAD: readonly (readonly [what: string, body: unknown, field: string])[] = [
    ['a rule without a reply', { rules: [{}] }, 'rules.0'],
    ['a rule with two replies', { rules: [{ reply: text, action: { reply_text: 'x' } }] }, 'rules.0'],
    ['an action without a body', { rules: [{ match: 'all', action: {} }] }, 'rules.0.action'],
    ['a reply without a text', { rules: [{ reply: { html_body: '<p>x</p>' } }] }, 'rules.0.reply.text_body'],
    ['an unknown field of a rule', { rules: [{ reply: text, action: 'stop' }] }, 'rules.0.action'],
    ['an invalid sender', { rules: [{ reply: text }, { match: { from: 'bob' }, reply: text }] }, 'rules.1.match.from'],
    ['a sender with a name', { rules: [{ match: { from: 'Bob <bob@x.test>' }, reply: text }] }, 'rules.0.match.from'],
    ['an invalid domain', { rules: [{ match: { from: '@x' }, reply: text }] }, 'rules.0.match.from'],
    ['a subject of two lines', { rules: [{ reply: { ...text, subject: 'a\r\nBcc: x' } }] }, 'rules.0.reply.subject'],
    [
      'more than 64 KiB',
      { rules: Array.from({ length: 4 }, () => ({ reply: { text_body: 'x'.repeat(17_000) } })) },
      'rules',
    ],
  ]
  // Proves: mailbox-12
  test.each(BAD)('with %s are a 422 and change nothing', async (_, body, field) => {
    await setUp(service)
    const before = service.mailbox()
    expectError(await service.api('PATCH', `${service.path}/auto-responder`, body), 422, 'validation_failed', field)
    expect(service.mailbox()).toEqual(before)
  })
})

describe('a message is answered', () => {
  // Proves: mailbox-12
  test('by the first matching rule, marked, in the thread, without tracking', async () => {
    const { api, app, path } = service
    expect((await api('PATCH', '/v1/account', { tracking_default: true })).status).toBe(200)
    await setUp(service, {
      enabled: true,
      rules: [
        { match: { subject_contains: 'price' }, reply: { text_body: 'No.' } },
        { match: { subject_contains: 'question' }, reply: { text_body: 'Soon.', html_body: '<p>Soon.</p>' } },
      ],
    })
    expect(await countRepliesTo(service)).toBe(1)
    const email = app.db
      .query<{ tracked: number; transactional: number; quota: number | null }, []>(
        'SELECT tracked, transactional, quota_month AS quota FROM emails',
      )
      .get()
    expect(email).toEqual({ tracked: 0, transactional: 1, quota: expect.any(Number) })
    const sent = at((await api('GET', '/v1/emails')).body, 'data', 0, 'id')
    expect(await service.detail(sent)).toMatchObject({
      from_address: `Agent Smith <${MAILBOX_ADDRESS}>`,
      to_address: 'bob@receiver.test',
      subject: 'Auto: A question',
      text_body: 'Soon.',
      html_body: '<p>Soon.</p>',
      headers: {
        'In-Reply-To': '<question@receiver.test>',
        References: '<question@receiver.test>',
        'Auto-Submitted': 'auto-replied',
        'X-Auto-Response-Suppress': 'All',
      },
    })
    const thread = at((await api('GET', `${path}/threads`)).body, 'data', 0, 'id')
    expect((await api('GET', `${path}/threads/${thread}`)).body).toMatchObject({
      data: [{ direction: 'received' }, { direction: 'sent', email_id: sent, subject: 'Auto: A question' }],
      thread: { message_count: 2 },
    })
    expect(readReplyRows(service)).toEqual([{ address: 'bob@receiver.test', at: service.clock.now() }])
  })

  test('by a rule with an action, as text, HTML or both', async () => {
    const actions = [
      { reply_text: 'Away.' },
      { reply_html: '<p>Away.</p>' },
      { reply_text: 'A', reply_html: '<p>B</p>' },
    ]
    for (const [n, action] of actions.entries()) {
      const rules = [{ match: 'all', action }]
      await setUp(service, { enabled: true, rules })
      expect((await service.api('GET', service.path)).body).toMatchObject({ data: { auto_responder: { rules } } })
      expect(await countRepliesTo(service, {}, { mailFrom: `bob${n}@receiver.test` })).toBe(1)
    }
    const { body } = await service.api('GET', '/v1/emails')
    const bodies = await Promise.all(
      (at(body, 'data') as { readonly id: string }[]).map(async ({ id }) => {
        const email = await service.api('GET', `/v1/emails/${id}`)
        return [at(email.body, 'data', 'text_body'), at(email.body, 'data', 'html_body')]
      }),
    )
    expect(bodies.toReversed()).toEqual([
      ['Away.', null],
      [null, '<p>Away.</p>'],
      ['A', '<p>B</p>'],
    ])
  })

  test.each([
    ['Hello', undefined, 'Auto: Hello'],
    ['Hello', 'We are away', 'Auto: We are away'],
    ['Auto: auto : Hello', undefined, 'Auto: Hello'],
    ['', undefined, 'Auto: your message'],
    ['Two\r\nBcc: eve@x.test', undefined, 'Auto: Two Bcc: eve@x.test'],
    ['x'.repeat(5000), undefined, `Auto: ${'x'.repeat(900)}`],
  ])('with the subject %#', async (subject, ruled, expected) => {
    const reply = { text_body: 'x', ...(ruled !== undefined && { subject: ruled }) }
    await setUp(service, { enabled: true, rules: [{ reply }] })
    expect(await countRepliesTo(service, { subject })).toBe(1)
    expect(service.app.db.query('SELECT subject FROM emails').get()).toEqual({ subject: expected })
  })

  // Proves: mailbox-12
  test('once per sender and day, in any spelling, by each mailbox', async () => {
    const { app, actor, clock } = service
    await setUp(service)
    expect(await countRepliesTo(service)).toBe(1)
    expect(await countRepliesTo(service, {}, { mailFrom: 'BOB@Receiver.test' })).toBe(0)
    expect(await countRepliesTo(service, {}, { mailFrom: 'eve@receiver.test' })).toBe(1)
    clock.advance(hours(24) - 1)
    expect(await countRepliesTo(service)).toBe(0)
    clock.advance(1)
    expect(await countRepliesTo(service)).toBe(1)
    expect(await countRepliesTo(service)).toBe(0)

    const other = await createMailbox(app, actor, { local_part: 'other' })
    const otherId = formatUuid(other.uuid)
    await service.api('PATCH', `/v1/agent-mailboxes/${otherId}/auto-responder`, { enabled: true, rules: RULES })
    const received = createReceived({ toAddresses: [other.address] })
    const before = countEmails(service)
    await autoRespond(app, getMailbox(app.db, actor.accountId, otherId), received)
    expect(countEmails(service) - before).toBe(1)
  })

  test('once, even if ten messages of a sender arrive together', async () => {
    await setUp(service)
    const mailbox = service.mailbox()
    await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        autoRespond(service.app, mailbox, createReceived({ messageId: `<${index}@x.test>` })),
      ),
    )
    expect([countEmails(service), service.used(), readReplyRows(service).length]).toEqual([1, 1, 1])
  })

  test('by at most 5 mailboxes of an account a day, because a message may name many and forge its sender', async () => {
    const { app, actor, clock } = service
    const stranger = await service.newAccount()
    await service.addDomain(stranger, 'stranger.test')
    app.db.run('UPDATE domains SET inbound_enabled = 1')
    const mailboxes = await Promise.all(
      [...Array.from({ length: 20 }, () => actor), stranger].map(async (owner) => {
        const id = formatUuid((await createMailbox(app, owner, {})).uuid)
        await changeAutoResponder(app, owner, id, { enabled: true, rules: RULES })
        return getMailbox(app.db, owner.accountId, id)
      }),
    )
    const received = createReceived({ toAddresses: mailboxes.map(({ address }) => address) })
    const come = async () => {
      await Promise.all(mailboxes.map((mailbox) => autoRespond(app, mailbox, received)))
      return [service.used(actor), service.used(stranger)]
    }
    expect([await come(), await come()]).toEqual([
      [5, 1],
      [5, 1],
    ])
    clock.advance(hours(24))
    expect(await come()).toEqual([10, 2])
  })

  test('at most 100 times an hour per mailbox; expired records are deleted', async () => {
    const { app, clock } = service
    await setUp(service)
    const mailbox = service.mailbox()
    const from = (name: string) => autoRespond(app, mailbox, createReceived({}, { mailFrom: `${name}@receiver.test` }))
    await Promise.all(Array.from({ length: MAX_REPLIES_PER_HOUR + 20 }, (_, index) => from(`a${index}`)))
    expect(countEmails(service)).toBe(100)
    clock.advance(hours(1) - 1)
    await from('late')
    expect(countEmails(service)).toBe(100)
    clock.advance(1)
    await from('late')
    expect(countEmails(service)).toBe(101)
    clock.advance(hours(25))
    for (let index = 0; index < 11; index++) await from(`b${index}`)
    expect(readReplyRows(service).map((row) => at(row, 'address'))).toEqual(
      Array.from({ length: 11 }, (_, index) => `b${index}@receiver.test`).sort(),
    )
  })
})

describe('a message is not answered, and nothing is recorded,', () => {
  test.each<[string, Parameters<typeof createReceived>]>([
    ['that is decided not to be', [{}, {}, createAuthentication({ dmarc: 'fail' }, 'reject')]],
    ['that no rule matches', [{ subject: 'Something else' }]],
  ])('%s', async (_, given) => {
    const rules = [{ match: { subject_contains: 'question' }, reply: { text_body: 'x' } }]
    await setUp(service, { enabled: true, rules })
    expect(await countRepliesTo(service, ...given)).toBe(0)
    expect(readReplyRows(service)).toEqual([])
    // The message without that change is answered.
    expect(await countRepliesTo(service)).toBe(1)
  })

  test('when the responder is disabled, without rules or unset, or the mailbox is deleted', async () => {
    expect(await countRepliesTo(service)).toBe(0)
    await setUp(service, { enabled: true })
    expect(await countRepliesTo(service)).toBe(0)
    await setUp(service, { enabled: false, rules: RULES })
    expect(await countRepliesTo(service)).toBe(0)
    await setUp(service, { enabled: true })
    const mailbox = service.mailbox()
    const before = countEmails(service)
    await service.api('DELETE', service.path)
    await autoRespond(service.app, mailbox, createReceived())
    expect([countEmails(service) - before, readReplyRows(service)]).toEqual([0, []])
  })

  test('when the auto-responder was disabled after the message arrived', async () => {
    await setUp(service)
    const mailbox = service.mailbox()
    await setUp(service, { enabled: false })
    await autoRespond(service.app, mailbox, createReceived())
    expect([countEmails(service), readReplyRows(service)]).toEqual([0, []])
  })

  test('when the sender is suppressed; one that only unsubscribed from marketing is answered', async () => {
    await setUp(service)
    await service.api('POST', '/v1/suppressions', { email_address: 'Bob@Receiver.test' })
    expect([await countRepliesTo(service), readReplyRows(service)]).toEqual([0, []])
    await service.api('DELETE', '/v1/suppressions/bob@receiver.test')
    await service.api('POST', '/v1/suppressions', { email_address: 'bob@receiver.test', reason: 'unsubscribe' })
    expect(await countRepliesTo(service)).toBe(1)
  })

  test('when the account is paused, above its quota or without its domain; afterwards it is answered', async () => {
    const { app } = service
    await setUp(service)
    const mailbox = service.mailbox()
    const respond = () => autoRespond(app, mailbox, createReceived())
    for (const [spoil, mend] of [
      ['UPDATE accounts SET paused_at = 1', 'UPDATE accounts SET paused_at = NULL'],
      [
        "UPDATE accounts SET plan = 'free', monthly_quota = 0",
        "UPDATE accounts SET plan = 'unlimited', monthly_quota = NULL",
      ],
      ["UPDATE domains SET deleted_at = 1 WHERE domain = 'sender.test'", 'UPDATE domains SET deleted_at = NULL'],
    ] as const) {
      app.db.run(spoil)
      await respond()
      expect([countEmails(service), readReplyRows(service)]).toEqual([0, []])
      app.db.run(mend)
    }
    await respond()
    expect(countEmails(service)).toBe(1)
  })

  test('when its envelope sender is malformed; malformed content alone prevents no reply', async () => {
    await setUp(service)
    const nasty = ['', '\0', '\r\nBcc: eve@x.test', '<'.repeat(50_000), '😀'.repeat(5000), '\ud800', '=?utf-8?q?x?=']
    for (const [index, text] of nasty.entries()) {
      const message = { subject: text, messageId: text, inReplyTo: text, references: [text, text], text, from: text }
      expect(await countRepliesTo(service, message, { mailFrom: `bob${index}@receiver.test` })).toBe(1)
      expect(await countRepliesTo(service, message, { mailFrom: text })).toBe(0)
    }
    const extras = service.app.db
      .query<{ extra: string; subject: string }, []>('SELECT extra, subject FROM emails')
      .all()
    expect(extras.length).toBe(nasty.length)
    expect(JSON.stringify(extras)).not.toContain('\\r')
  })
})

test('a reply belongs to the transactional stream, whatever other streams exist', async () => {
  await createStream(service.app, service.actor, { slug: 'news', name: 'News' })
  await setUp(service)
  expect(await countRepliesTo(service)).toBe(1)
  expect(service.app.db.query('SELECT s.slug FROM emails e JOIN streams s ON s.id = e.stream_id').all()).toEqual([
    { slug: 'transactional' },
  ])
})

const MAILBOX = { localPart: 'agent', domain: MAILBOX_DOMAIN }

const decide = (
  message: Partial<StoredMessage> = {},
  mailFrom = 'bob@receiver.test',
  authentication?: AuthenticationResult,
) => decideAutoReply(MAILBOX, createReceived(message, { mailFrom }, authentication))

const no = (reason: string) => ({ refusal: reason })

describe('RFC 3834: a message', () => {
  test('from a person to the mailbox is answered at the envelope sender, not at Reply-To or From', () => {
    expect(
      decide(
        { replyTo: 'else@receiver.test', from: 'Bob <b@other.test>', fromAddresses: ['b@other.test'] },
        'Bob+tag@receiver.test',
      ),
    ).toEqual({ to: 'Bob+tag@receiver.test' })
  })

  test.each([
    'MAILER-DAEMON',
    'mailer-daemon',
    'Postmaster',
    'owner-list',
    'list-owner',
    'list-request',
    'majordomo',
    'listserv',
    'bounces',
    'bounce+token',
    'bounces-bob=example.com',
    'news-bounces',
    'noreply',
    'no-reply',
    'no_reply',
    'NoReply',
    'no.reply',
    'donotreply',
    'do-not-reply',
    'service.noreply',
    'noreply+tag',
    'noreply-accounts',
    'auto-reply',
    'autoresponder',
    'notifications',
    'nobody',
  ])('from a program (%s) is not answered', (localPart) => {
    expect(decide({}, `${localPart}@receiver.test`)).toEqual(no('sender_is_a_program') as never)
  })

  test.each([
    'reply',
    'norbert',
    'noreen',
    'arno.replyford',
    'owner',
    'request',
    'bouncer',
    'postmasters-wife',
    'daemonica',
    'prvs=1234abcdef=bob',
  ])('from a person whose address (%s) only looks like that of a program is answered', (localPart) => {
    expect(decide({}, `${localPart}@receiver.test`)).toEqual({ to: `${localPart}@receiver.test` })
  })

  const LIST = (name: string) => ({ headers: [...createMessage().headers, [name, 'x'] as const] })
  test.each<[reason: string, message: Partial<StoredMessage>, mailFrom?: string]>([
    ['null_sender', {}, ''],
    ['no_address', {}, 'no-at-sign'],
    ['no_address', {}, 'a b@receiver.test'],
    ['no_address', {}, 'bob@[127.0.0.1]'],
    ['no_address', {}, `${'x'.repeat(300)}@receiver.test`],
    ['return_path', {}, `b-${'a2'.repeat(16)}@mail.other.test`],
    ['automatic', { isAutomatic: true }],
    ['mailing_list', LIST('List-Id')],
    ['mailing_list', LIST('List-Unsubscribe')],
    ['mailing_list', LIST('list-post')],
    ['mailing_list', LIST('LIST-HELP')],
    ['own_address', {}, MAILBOX_ADDRESS],
    ['own_address', {}, 'Agent@SENDER.test'],
    ['own_address', {}, `agent+tag@${MAILBOX_DOMAIN}`],
    ['own_address', { fromAddresses: [`agent+tag@${MAILBOX_DOMAIN}`] }],
    // It came by Bcc, or through a list.
    ['not_addressed', { to: 'crowd@receiver.test', toAddresses: ['crowd@receiver.test'] }],
    ['not_addressed', { to: null, toAddresses: [], cc: 'not a list, <of' }],
  ])('is not answered for the reason %s: %j, sent by %j', (reason, message, ...[mailFrom]) => {
    expect<unknown>(decide(message, mailFrom)).toEqual(no(reason))
  })

  test('with the mailbox in Cc, with a plus or in capitals, is answered', () => {
    const yes = { to: 'bob@receiver.test' }
    expect([
      decide({ toAddresses: [], cc: `Eve <eve@receiver.test>, Agent <${MAILBOX_ADDRESS}>` }),
      decide({ toAddresses: ['eve@receiver.test', `agent+sales@${MAILBOX_DOMAIN}`] }),
      decide({ toAddresses: ['AGENT@Sender.TEST'] }),
    ]).toEqual([yes, yes, yes] as never)
  })

  const AUTHENTICATION: readonly (readonly [what: string, result: AuthenticationResult, isAnswered: boolean])[] = [
    ['that fails DMARC with the policy reject', createAuthentication({ dmarc: 'fail' }, 'reject'), false],
    ['that fails DMARC with the policy quarantine', createAuthentication({ dmarc: 'fail' }, 'quarantine'), false],
    ['that fails DMARC with the policy none', createAuthentication({ dmarc: 'fail' }, 'none'), true],
    ['that fails DMARC without a policy', createAuthentication({ dmarc: 'fail' }), true],
    ['that passes DMARC with a policy', createAuthentication({ dmarc: 'pass' }, 'reject'), true],
    ['whose sender fails SPF', createAuthentication({ spf: 'fail' }), false],
    ['whose sender softly fails SPF', createAuthentication({ spf: 'softfail' }), false],
    ['whose sender softly fails SPF, but passes DMARC', createAuthentication({ spf: 'softfail', dmarc: 'pass' }), true],
    ['whose sender has no SPF', createAuthentication({ spf: 'none' }), true],
  ]
  for (const [what, result, isAnswered] of AUTHENTICATION) {
    test(`${what} is ${isAnswered ? '' : 'not '}answered`, () => {
      expect(decide({}, undefined, result)).toEqual((isAnswered ? { to: 'bob@receiver.test' } : no('forged')) as never)
    })
  }

  test('with any headers never makes the decision throw', () => {
    const nasty = [
      '',
      '@',
      '<>',
      '"',
      '<<<>>>',
      'a@b@c',
      '\0',
      'x'.repeat(100_000),
      '😀'.repeat(1000),
      'a,'.repeat(9000),
    ]
    for (const text of nasty) {
      const message = { from: text, to: text, cc: text, fromAddresses: [text], toAddresses: [text] }
      expect(Object.keys(decide(message))).toHaveLength(1)
      expect(Object.keys(decide({}, text))).toHaveLength(1)
    }
  })
})

describe('the first matching rule answers:', () => {
  const rule = (match: AutoResponderRule['match'], textBody: string): AutoResponderRule => ({
    ...(match && { match }),
    reply: { text_body: textBody },
  })
  const answerTo = (rules: readonly AutoResponderRule[], message: Partial<StoredMessage> = {}) =>
    findRule(rules, createMessage(message))?.reply?.text_body

  test('a rule without match, or with an empty one, matches every message', () => {
    expect(answerTo([rule(undefined, 'all')])).toBe('all')
    expect(answerTo([rule({}, 'all')])).toBe('all')
    for (const match of ['all', '*'] as const) expect(answerTo([rule(match, 'all')])).toBe('all')
  })

  test('the order of the rules decides, and without a match there is no reply', () => {
    const rules = [rule({ subject_contains: 'price' }, 'first'), rule({ subject_contains: 'a question' }, 'second')]
    expect(answerTo([...rules, rule(undefined, 'third')], { subject: 'A QUESTION of price' })).toBe('first')
    expect(answerTo([...rules, rule(undefined, 'third')])).toBe('second')
    expect(answerTo(rules, { subject: 'Hello' })).toBeUndefined()
    expect(answerTo([])).toBeUndefined()
  })

  test('from is one address or a whole domain, in any spelling, and never matches part of one', () => {
    const of = (from: string, sender: string) =>
      answerTo([rule({ from }, 'yes')], { fromAddresses: [sender] }) === 'yes'
    expect({
      same: of('bob@receiver.test', 'BOB@Receiver.test'),
      other: of('bob@receiver.test', 'rob@receiver.test'),
      longer: of('bob@receiver.test', 'xbob@receiver.test'),
      domain: of('@receiver.test', 'bob@RECEIVER.test'),
      subdomain: of('@receiver.test', 'bob@mail.receiver.test'),
      suffix: of('@receiver.test', 'bob@notreceiver.test'),
      unicode: of('@bücher.test', 'bob@xn--bcher-kva.test'),
      none: answerTo([rule({ from: '@receiver.test' }, 'yes')], { fromAddresses: [] }),
    }).toEqual({
      same: true,
      other: false,
      longer: false,
      domain: true,
      subdomain: false,
      suffix: false,
      unicode: true,
      none: undefined,
    })
  })

  test('text_contains searches the first 100,000 characters of the text, ignoring case', () => {
    const rules = [rule({ text_contains: 'REFUND' }, 'yes')]
    expect(answerTo(rules, { text: `${'x'.repeat(99_994)}refund` })).toBe('yes')
    expect(answerTo(rules, { text: `${'x'.repeat(99_995)}refund` })).toBeUndefined()
    expect(answerTo(rules, { text: null })).toBeUndefined()
  })

  test('all conditions of a match must hold', () => {
    const rules = [rule({ from: '@receiver.test', subject_contains: 'question', text_contains: 'begin' }, 'yes')]
    expect(answerTo(rules)).toBe('yes')
    expect(answerTo(rules, { fromAddresses: ['bob@other.test'] })).toBeUndefined()
    expect(answerTo(rules, { subject: 'Hello' })).toBeUndefined()
    expect(answerTo(rules, { text: 'Hello' })).toBeUndefined()
  })
})
