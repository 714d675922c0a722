import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Errors, type Message, type Models, ServerClient, type TemplatedMessage } from 'postmark'
import { addSuppression } from '#features/audience/suppressions/suppressions.ts'
import { createEmailApi, type EmailApi, NOW, UUID, VERIFIED } from '#test/support/email-api.ts'

let api: EmailApi
let client: ServerClient

/** The unmodified client, with its documented settings alone. */
const connect = (key: string, path = '/postmark'): ServerClient =>
  new ServerClient(key, { useHttps: false, requestHost: `${api.url.replace('http://', '')}${path}` })

beforeAll(async () => {
  api = await createEmailApi()
  client = connect(api.key)
  for (const address of ['gone@receiver.test', 'angry@receiver.test'])
    await addSuppression(api.app, api.actor, { address, reason: 'hard_bounce' })
})
afterAll(() => api[Symbol.asyncDispose]())

const FROM = `Ada <ada@${VERIFIED}>`
const mail = (changes: Partial<Message> = {}): Message => ({
  From: FROM,
  To: 'bob@receiver.test',
  Subject: 'Hello',
  TextBody: 'Hello, Bob.',
  ...changes,
})

/** The error with which a call of the client fails. */
async function failureOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => {
      throw new Error('the call succeeded')
    },
    (error: unknown) => error,
  )
}

describe('POST /email', () => {
  test.each(['/postmark', ''])(
    'accepts a message at "%s/email", and returns it in the form of Postmark',
    async (path) => {
      const sent = await connect(api.key, path).sendEmail(mail({ Cc: 'Carl <carl@receiver.test>', Bcc: '' }))
      expect(sent).toEqual({
        To: 'bob@receiver.test',
        Cc: 'Carl <carl@receiver.test>',
        SubmittedAt: new Date(NOW).toISOString(),
        MessageID: expect.stringMatching(UUID),
        ErrorCode: 0,
        Message: 'OK',
      })
      expect(await api.detail(sent.MessageID)).toMatchObject({
        from_address: FROM,
        to_address: 'bob@receiver.test',
        cc: ['carl@receiver.test'],
        bcc: [],
        subject: 'Hello',
        text_body: 'Hello, Bob.',
        html_body: null,
      })
    },
  )
})

describe('the fields of a message', () => {
  test('are translated, and those that the service has no use for are named in Tassis-Ignored', async () => {
    const response = await fetch(`${api.url}/email`, {
      method: 'POST',
      headers: { 'x-postmark-server-token': api.key, 'content-type': 'application/json' },
      body: JSON.stringify({
        // The case of names does not matter to Postmark.
        from: FROM,
        To: 'Bob <bob@receiver.test>, "Doe, Jane" <jane@receiver.test>',
        Cc: '',
        BCC: 'audit@receiver.test',
        ReplyTo: 'help@sender.test, Desk <desk@sender.test>',
        Subject: 'Hello',
        HtmlBody: '<p>Hello</p>',
        TextBody: null,
        Tag: 'welcome',
        Metadata: { user: '7' },
        MessageStream: 'outbound',
        TrackOpens: true,
        TrackLinks: 'None',
        Headers: [
          { Name: 'X-Order', Value: '7' },
          { Name: 'Message-ID', Value: '<own@sender.test>' },
        ],
        Attachments: [
          {
            Name: 'a.txt',
            Content: 'YQ==',
            ContentType: 'text/plain',
            ContentID: null,
            ContentLength: 1,
            ContentDisposition: 'inline',
          },
        ],
        InlineCss: true,
        'No such\r\nfield': 1,
      }),
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('tassis-ignored')).toBe(
      'InlineCss, No?such??field, Attachments.ContentDisposition, Headers.Message-ID',
    )
    const { MessageID } = (await response.json()) as { MessageID: string }
    expect(await api.detail(MessageID)).toMatchObject({
      to: 'bob@receiver.test, jane@receiver.test',
      cc: [],
      bcc: ['audit@receiver.test'],
      reply_to: 'help@sender.test, Desk <desk@sender.test>',
      html_body: '<p>Hello</p>',
      tags: ['welcome'],
      metadata: { user: '7' },
      headers: { 'X-Order': '7' },
      tracking_override: true,
      suppress_list_management_header: true,
      attachments: [{ filename: 'a.txt', content_type: 'text/plain', size: 1 }],
    })
  })

  test('MessageStream broadcast is mail that recipients can unsubscribe from', async () => {
    const unknown = (await failureOf(client.sendEmail(mail({ MessageStream: 'broadcast' })))) as Errors.ApiInputError
    expect([unknown.code, unknown.message]).toEqual([1235, expect.stringContaining('"broadcast"')])
    await api.api('POST', '/v1/streams', { slug: 'broadcast', name: 'Broadcasts' })
    const sent = await client.sendEmail(mail({ MessageStream: 'broadcast' }))
    expect(await api.detail(sent.MessageID)).toMatchObject({ suppress_list_management_header: false })
  })

  test.each<[string, Partial<Message>, string, string[]]>([
    ['only Cc', { To: '', Cc: 'carl@receiver.test' }, 'carl@receiver.test', []],
    ['one Bcc', { To: '', Bcc: 'x@receiver.test' }, 'x@receiver.test', []],
  ])('a message with %s has it in To', async (_, changes, to, bcc) => {
    const sent = await client.sendEmail(mail(changes))
    expect(await api.detail(sent.MessageID)).toMatchObject({ to, cc: [], bcc })
  })
})

describe('the error classes of the client', () => {
  const { InvalidEmailRequestError, ApiInputError, InvalidAPIKeyError, InactiveRecipientsError } = Errors
  test.each<[string, Partial<Message>, new (...args: never) => Error, number, RegExp]>([
    ['an invalid To', { To: 'bob' }, InvalidEmailRequestError, 300, /^Invalid 'To' address: 'bob'\. /],
    [
      'an invalid Cc',
      { Cc: 'a@b.test, bob@' },
      InvalidEmailRequestError,
      300,
      /^Invalid 'Cc' address: 'a@b.test, bob@'/,
    ],
    ['no recipients', { To: '' }, InvalidEmailRequestError, 300, /^Zero recipients specified/],
    ['several hidden recipients', { To: '', Bcc: 'a@b.test, c@b.test' }, InvalidEmailRequestError, 300, /Bcc/],
    ['an invalid From', { From: '' }, InvalidEmailRequestError, 300, /^Invalid 'From' address: ''/],
    ['no body', { TextBody: '' }, InvalidEmailRequestError, 300, /TextBody.*HtmlBody/],
    ['a wrong TrackLinks', { TrackLinks: 'All' as never }, InvalidEmailRequestError, 300, /HtmlAndText/],
    ['a domain of nobody', { From: 'a@other.test' }, ApiInputError, 400, /other\.test is not registered/],
    ['a forbidden file', { Attachments: [file('a.exe', 'YQ==')] }, ApiInputError, 411, /\.exe/],
    ['invalid base64', { Attachments: [file('a.txt', '%')] }, InvalidEmailRequestError, 300, /Attachments|base64/],
    ['a header twice', { Headers: [header('X-A'), header('x-a')] }, InvalidEmailRequestError, 300, /only once/],
  ])('%s', async (_, changes, type, code, message) => {
    const before = api.stored()
    const error = (await failureOf(client.sendEmail(mail(changes)))) as Errors.HttpError
    expect(error).toBeInstanceOf(type)
    expect([error.statusCode, error.code, error.message]).toEqual([422, code, expect.stringMatching(message)])
    expect(api.stored()).toEqual(before)
  })

  test.each(['tassis_live_wrongwrongwrongwrongwrongwrong', 'x', 'with space'])('the key %j', async (key) => {
    const error = (await failureOf(connect(key).sendEmail(mail()))) as Errors.HttpError
    expect(error).toBeInstanceOf(InvalidAPIKeyError)
    expect([error.statusCode, error.code]).toEqual([401, 10])
  })

  test('a key without the scope', async () => {
    const error = (await failureOf(connect(await api.newKey(['emails:read'])).sendEmail(mail()))) as Errors.HttpError
    expect(error).toBeInstanceOf(InvalidAPIKeyError)
    expect(error.message).toContain('emails:send')
  })

  test('suppressed recipients: all of them are an InactiveRecipientsError with the addresses', async () => {
    const To = 'gone@receiver.test, Angry <Angry@receiver.test>'
    const error = (await failureOf(client.sendEmail(mail({ To })))) as Errors.InactiveRecipientsError
    expect(error).toBeInstanceOf(InactiveRecipientsError)
    expect([error.code, error.recipients]).toEqual([406, ['gone@receiver.test', 'Angry@receiver.test']])
  })

  test('suppressed recipients: some of them are named in the result', async () => {
    const sent = await client.sendEmail(mail({ To: 'gone@receiver.test, bob@receiver.test' }))
    expect(sent.ErrorCode).toBe(0)
    expect(InactiveRecipientsError.parseInactiveRecipients(sent.Message.replace(/ Inactive.*/, ''))).toEqual([
      'gone@receiver.test',
    ])
    // As anymail reads it.
    expect(/inactive addresses:\s*(.*)\.\s*Inactive recipients/.exec(sent.Message)?.[1]).toBe('gone@receiver.test')
  })
})

const file = (Name: string, Content: string): Models.Attachment => ({
  Name,
  Content,
  ContentType: 'application/octet-stream',
  ContentID: null,
})
const header = (Name: string, Value = 'x'): Models.Header => ({ Name, Value })

describe('idempotency', () => {
  const KEY = 'X-Tassis-Idempotency-Key'
  test('a message with a key in its Headers is accepted once', async () => {
    const message = mail({ Headers: [header(KEY, 'order-1'), header('X-A')] })
    const [first, second] = [await client.sendEmail(message), await client.sendEmail(message)]
    expect(second).toEqual(first)
    expect(await api.detail(first.MessageID)).toMatchObject({ headers: { 'X-A': 'x' }, idempotency_key: 'order-1' })
  })

  test('a request with the key as a header is accepted once, a batch too', async () => {
    const post = async (path: string, body: unknown) => {
      const headers = {
        'x-postmark-server-token': api.key,
        'content-type': 'application/json',
        [KEY]: `key of ${path}`,
      }
      const response = await fetch(`${api.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
      return response.json()
    }
    expect(await post('/email', mail())).toEqual(await post('/email', mail()))
    const batch = [mail(), mail({ To: 'x' }), mail({ From: 'a@other.test' })]
    const first = await post('/email/batch', batch)
    expect(await post('/email/batch', batch)).toEqual(first)
    expect(first).toMatchObject([{ ErrorCode: 0 }, { ErrorCode: 300 }, { ErrorCode: 400 }])
  })
})

describe('POST /email/batch', () => {
  test('returns one result for each message, in their order', async () => {
    const results = await client.sendEmailBatch([
      mail({ To: 'a@receiver.test' }),
      mail({ To: 'broken' }),
      mail({ To: 'gone@receiver.test' }),
      mail({ From: 'a@other.test' }),
      null as never,
      mail({ To: 'b@receiver.test', Subject: '' }),
      mail({ To: 'c@receiver.test' }),
    ])
    expect(results.map(({ ErrorCode, To }) => [ErrorCode, To])).toEqual([
      [0, 'a@receiver.test'],
      [300, undefined],
      [406, undefined],
      [400, undefined],
      [403, undefined],
      [300, undefined],
      [0, 'c@receiver.test'],
    ])
  })

  test('accepts 500 messages, not 501', async () => {
    const messages = Array.from({ length: 500 }, (_, n) => mail({ To: `r${n}@receiver.test` }))
    const results = await client.sendEmailBatch(messages)
    expect(results.map(({ To, ErrorCode }) => `${ErrorCode} ${To}`)).toEqual(messages.map(({ To }) => `0 ${To}`))
    const error = (await failureOf(client.sendEmailBatch([...messages, mail()]))) as Errors.HttpError
    expect([error.statusCode, error.code]).toEqual([422, 410])
  })

  test.each<[string, unknown]>([
    ['/email/batch', {}],
    ['/email/batch', 'text'],
    ['/email/batchWithTemplates', []],
    ['/email/batchWithTemplates', { Messages: 1 }],
    ['/email', []],
    ['/email', null],
  ])('%s with %j is incompatible JSON', async (path, body) => {
    const response = await fetch(`${api.url}${path}`, {
      method: 'POST',
      headers: { 'x-postmark-server-token': api.key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect([response.status, response.headers.get('x-pm-apierrorcode')]).toEqual([422, '403'])
  })
})

describe('templates', () => {
  beforeAll(async () => {
    const { status } = await api.api('POST', '/v1/templates', {
      alias: 'welcome',
      name: 'Welcome',
      subject: 'Hello {{ name }}',
      html_body: '<p>{{ name }} &amp; {{ company.name }}</p>',
    })
    expect(status).toBe(201)
  })

  const templated = (changes: Partial<TemplatedMessage> = {}): TemplatedMessage => ({
    From: FROM,
    To: 'bob@receiver.test',
    TemplateAlias: 'welcome',
    TemplateModel: { name: 'Bob', company: { name: 'Ltd' } },
    ...changes,
  })

  test('are rendered by alias, and by the number that the list shows', async () => {
    const { Templates } = await client.getTemplates()
    const TemplateId = Templates.find(({ Alias }) => Alias === 'welcome')?.TemplateId ?? 0
    for (const by of [
      {},
      { TemplateAlias: undefined, TemplateId },
      { TemplateAlias: 'other', TemplateId },
    ] as never[]) {
      const sent = await client.sendEmailWithTemplate(templated(by))
      expect(await api.detail(sent.MessageID)).toMatchObject({
        subject: 'Hello Bob',
        html_body: '<p>Bob &amp; Ltd</p>',
        template_data: { name: 'Bob' },
      })
    }
    const german = { alias: 'welcome', locale: 'de', name: 'Welcome', subject: 'Hallo {{ name }}', text_body: 'x' }
    expect((await api.api('POST', '/v1/templates', german)).status).toBe(201)
    const number = (await client.getTemplates()).Templates[0]?.TemplateId
    for (const by of [{ Locale: 'de-AT' }, { TemplateAlias: undefined, TemplateId: number }] as never[]) {
      const { MessageID } = await client.sendEmailWithTemplate(templated(by))
      expect(await api.detail(MessageID)).toMatchObject({ subject: 'Hallo Bob' })
    }
    const error = (await failureOf(client.sendEmailWithTemplate(templated({ Locale: 'd_e' } as never)))) as Error
    expect(error.message).toMatch(/Locale must be a language tag/)
  })

  test.each<[string, Partial<TemplatedMessage>, number, RegExp]>([
    ['an unknown alias', { TemplateAlias: 'none' }, 1101, /"none"/],
    ['an unknown number', { TemplateId: 4711 }, 1101, /4711/],
    ['neither', { TemplateAlias: '' }, 1120, /TemplateId or TemplateAlias/],
    ['a missing variable', { TemplateModel: {} }, 1122, /"name" is missing in TemplateModel/],
  ])('%s is an error that says what is missing', async (_, changes, code, message) => {
    const error = (await failureOf(client.sendEmailWithTemplate(templated(changes)))) as Errors.HttpError
    expect([error.statusCode, error.code, error.message]).toEqual([422, code, expect.stringMatching(message)])
  })

  test('a batch with templates returns one result for each', async () => {
    const results = await client.sendEmailBatchWithTemplates([
      templated(),
      templated({ TemplateAlias: 'none' }),
      templated({ To: 'c@receiver.test' }),
    ])
    expect(results.map(({ ErrorCode }) => ErrorCode)).toEqual([0, 1101, 0])
  })
})

describe('POSTMARK_API_TEST', () => {
  const tester = () => connect('POSTMARK_API_TEST')
  test('checks messages, and sends and stores nothing', async () => {
    const before = api.stored()
    expect(await tester().sendEmail(mail({ From: 'a@anywhere.test' }))).toMatchObject({
      To: 'bob@receiver.test',
      MessageID: expect.stringMatching(UUID),
      ErrorCode: 0,
      Message: 'Test job accepted',
    })
    expect(await tester().sendEmailBatch([mail(), mail({ To: 'x' })])).toMatchObject([
      { ErrorCode: 0 },
      { ErrorCode: 300 },
    ])
    const error = await failureOf(tester().sendEmail(mail({ To: 'x' })))
    expect(error).toBeInstanceOf(Errors.InvalidEmailRequestError)
    expect(api.stored()).toEqual(before)
  })

  test('reads nothing, and is no key of /v1', async () => {
    expect(await failureOf(tester().getServer())).toBeInstanceOf(Errors.InvalidAPIKeyError)
    expect((await api.api('GET', '/v1/emails', undefined, { key: 'POSTMARK_API_TEST' })).status).toBe(401)
  })

  test('takes small bodies only', async () => {
    const error = (await failureOf(tester().sendEmail(mail({ TextBody: 'x'.repeat(70_000) })))) as Errors.HttpError
    expect(error.statusCode).toBe(413)
  })
})
