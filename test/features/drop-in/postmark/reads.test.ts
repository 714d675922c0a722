import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import { type Errors, Models, ServerClient } from 'postmark'
import type { Bounce, readDeliveryStats } from '#features/drop-in/postmark/bounces.ts'
import type { toMessageDetails, toOutboundMessage } from '#features/drop-in/postmark/messages.ts'
import type { readServer } from '#features/drop-in/postmark/routes.ts'
import type { SendResult } from '#features/drop-in/postmark/send.ts'
import type { createSuppressions, SuppressionEntry } from '#features/drop-in/postmark/suppressions.ts'
import type { listTemplateViews, toTemplateView, validateTemplate } from '#features/drop-in/postmark/templates.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'

/** A type of the client in which values of its enums are texts, as they are in JSON. */
type Plain<T> = T extends string
  ? `${T}`
  : T extends readonly (infer Item)[]
    ? Plain<Item>[]
    : T extends object
      ? { [Name in keyof T]: Plain<T[Name]> }
      : T

type Holds<Theirs, Ours extends Plain<Theirs>> = Ours

/** Compiles only while what the service returns has the types of the client. Its TotalCount of messages is a number. */
export type Held = [
  Holds<Models.MessageSendingResponse, SendResult>,
  Holds<Models.OutboundMessage, ReturnType<typeof toOutboundMessage>>,
  Holds<Omit<Models.OutboundMessages, 'TotalCount'>, { Messages: ReturnType<typeof toOutboundMessage>[] }>,
  Holds<Models.OutboundMessageDetails, ReturnType<typeof toMessageDetails>>,
  Holds<Models.Bounce, Bounce>,
  Holds<Models.Bounces, { TotalCount: number; Bounces: Bounce[] }>,
  Holds<Models.DeliveryStatistics, ReturnType<typeof readDeliveryStats>>,
  Holds<Models.Suppression, SuppressionEntry>,
  Holds<Models.SuppressionStatuses, Awaited<ReturnType<typeof createSuppressions>>>,
  Holds<Models.Template, ReturnType<typeof toTemplateView>>,
  Holds<Models.Templates, ReturnType<typeof listTemplateViews>>,
  Holds<Models.TemplateValidation, Awaited<ReturnType<typeof validateTemplate>>>,
  Holds<Models.Server, ReturnType<typeof readServer>>,
]

const SIMULATOR = 'sim.mail.tassis.test'
const FROM = 'Ada <ada@sender.test>'

let api: TestApi
let client: ServerClient

const connect = (key: string): ServerClient =>
  new ServerClient(key, { useHttps: false, requestHost: `${api.url.replace('http://', '')}/postmark` })

beforeAll(async () => {
  api = await createTestApi({ delivers: true, settings: { TASSIS_DELIVERY: 'direct' } })
  const { domain } = await createDomain(api.app, api.actor, 'sender.test')
  api.app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  await createDomain(api.app, api.actor, 'captured.test')
  client = connect(api.key)
})
afterAll(() => api[Symbol.asyncDispose]())

/** Sends a message, and waits until it has ended. */
async function send(changes: Partial<Models.Message>): Promise<Models.MessageSendingResponse> {
  const sent = await client.sendEmail({ From: FROM, Subject: 'Hello', TextBody: 'Hello.', ...changes })
  await eventually(async () => {
    const { body } = await api.api('GET', `/v1/emails/${sent.MessageID}`)
    return ['sent', 'bounced'].includes(String(at(body, 'data', 'status'))) || undefined
  })
  return sent
}

const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => {
      throw new Error('the call succeeded')
    },
    (error: unknown) => error,
  )

describe('files', () => {
  const picture = Buffer.from(Array.from({ length: 3000 }, (_, n) => (n * 37) % 256))
  const document = Buffer.from(Array.from({ length: 70_001 }, (_, n) => (n * 101) % 256))

  test.each(['cid:logo@sender.test', 'logo@sender.test'])(
    'arrive byte for byte, with ContentID %s',
    async (ContentID) => {
      const sent = await send({
        From: 'Ada <ada@captured.test>',
        To: 'bob@receiver.test',
        HtmlBody: '<p>Hello <img src="cid:logo@sender.test"></p>',
        Attachments: [
          { Name: 'logo.png', Content: picture.toString('base64'), ContentType: 'image/png', ContentID },
          {
            Name: 'Rechnung für Ada.pdf',
            Content: document.toString('base64'),
            ContentType: 'application/pdf; version=1.7',
            ContentID: null,
          },
        ],
      })
      const message = await api.api('GET', `/v1/emails/${sent.MessageID}/captured`)
      const raw = String(at(message.body, 'data', 'raw'))
      expect(raw).toContain('Content-Type: application/pdf; version=1.7;')
      const { attachments } = await simpleParser(raw)
      expect(
        attachments.map(({ filename, contentType, cid, related }) => ({ filename, contentType, cid, related })),
      ).toEqual([
        { filename: 'logo.png', contentType: 'image/png', cid: 'logo@sender.test', related: true },
        { filename: 'Rechnung für Ada.pdf', contentType: 'application/pdf', cid: undefined, related: undefined },
      ] as never)
      expect(attachments.map(({ content }) => content.toString('base64'))).toEqual(
        [picture, document].map((file) => file.toString('base64')),
      )
      expect(sent.Message).toContain('captured.test is not verified')
    },
  )
})

describe('messages', () => {
  const OUTBOUND = {
    Tag: 'read',
    To: [{ Email: `deliver@${SIMULATOR}`, Name: 'Del' }],
    Cc: [],
    Bcc: [],
    Recipients: [`deliver@${SIMULATOR}`],
    ReceivedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    From: FROM,
    Subject: 'Figures of spring',
    Attachments: ['a.txt'],
    Status: 'Sent',
    TrackOpens: false,
    TrackLinks: 'None',
    Metadata: { user: '7' },
    MessageStream: 'outbound',
    Sandboxed: true,
  }
  let sent: Models.MessageSendingResponse
  beforeAll(async () => {
    sent = await send({
      To: `Del <deliver@${SIMULATOR}>`,
      Subject: 'Figures of spring',
      HtmlBody: '<p>Figures</p>',
      Tag: 'read',
      Metadata: { user: '7' },
      Attachments: [{ Name: 'a.txt', Content: 'YQ==', ContentType: 'text/plain', ContentID: null }],
    })
  })

  test.each<[string, Record<string, unknown>]>([
    ['recipient', { recipient: `deliver@${SIMULATOR}`, tag: 'read' }],
    ['sender', { fromEmail: 'ada@sender.test', tag: 'read' }],
    ['tag', { tag: 'read' }],
    ['subject', { subject: 'spring' }],
    ['status and stream', { status: 'sent', messageStream: 'outbound', tag: 'read' }],
    ['dates', { fromDate: '2020-01-01', toDate: '2099-01-01T00:00:00', tag: 'read' }],
  ])('are found by %s', async (_, filter) => {
    const { TotalCount, Messages } = await client.getOutboundMessages({ count: 10, offset: 0, ...filter })
    expect([Number(TotalCount), Messages]).toEqual([1, [{ ...OUTBOUND, MessageID: sent.MessageID } as never]])
  })

  test('are listed newest first, by count and offset', async () => {
    const all = await client.getOutboundMessages()
    const second = await client.getOutboundMessages({ count: 1, offset: 1 })
    expect(second.Messages).toEqual(all.Messages.slice(1, 2))
    expect((await client.getOutboundMessages({ toDate: '2020-01-01' })).Messages).toEqual([])
  })

  test.each<[Record<string, unknown>, RegExp]>([
    [{ count: 501 }, /at most 500/],
    [{ count: 500, offset: 9501 }, /at most 10000/],
    [{ count: 1, offset: 'x' }, /whole number/],
    [{ status: 'lost' }, /queued or sent/],
    [{ fromDate: 'yesterday' }, /date/],
  ])('the filter %j is an error that says why', async (filter, message) => {
    const error = (await failureOf(client.getOutboundMessages(filter as never))) as Errors.HttpError
    expect([error.statusCode, error.code, error.message]).toEqual([422, 700, expect.stringMatching(message)])
  })

  test('have details with bodies, source and events', async () => {
    const { Body, ...details } = await client.getOutboundMessageDetails(sent.MessageID)
    expect(details).toEqual({
      ...OUTBOUND,
      MessageID: sent.MessageID,
      TextBody: 'Hello.',
      HtmlBody: '<p>Figures</p>',
      MessageEvents: [
        {
          Recipient: `deliver@${SIMULATOR}`,
          Type: 'Delivered',
          ReceivedAt: expect.any(String),
          Details: {
            DeliveryMessage: '250 2.0.0 Simulated: accepted and discarded',
            DestinationServer: '1.simulator.invalid',
            DestinationIP: '127.0.0.1',
          },
        },
      ],
    } as never)
    expect(Body).toContain('Subject: Figures of spring\r\n')
    expect(await client.getOutboundMessageDump(sent.MessageID)).toEqual({ Body })
  })

  test.each(['01234567-89ab-7def-8123-456789abcdef', 'x'])('the message %s does not exist', async (id) => {
    const error = (await failureOf(client.getOutboundMessageDetails(id))) as Errors.HttpError
    expect([error.statusCode, error.code]).toEqual([422, 701])
  })

  test('of another account are not shown', async () => {
    const stranger = connect(await api.newKey([], await api.newAccount()))
    expect((await stranger.getOutboundMessages()).Messages).toEqual([])
    expect(await failureOf(stranger.getOutboundMessageDetails(sent.MessageID))).toMatchObject({ code: 701 })
    expect((await stranger.getBounces()).Bounces).toEqual([])
  })

  test('opens and clicks are events', async () => {
    const { MessageID } = await send({ To: `click@${SIMULATOR}`, HtmlBody: '<a href="https://a.test/">a</a>' })
    const types = await eventually(async () => {
      const { MessageEvents } = await client.getOutboundMessageDetails(MessageID)
      return MessageEvents.length === 3 && MessageEvents.map(({ Type, Details }) => ({ Type, Details }))
    })
    expect(types).toMatchObject([
      { Type: 'Delivered' },
      { Type: 'Opened' },
      { Type: 'LinkClicked', Details: { Link: expect.any(String), ClickLocation: 'HTML' } },
    ])
  })
})

describe('bounces', () => {
  let hard: string
  let complaint: string
  beforeAll(async () => {
    hard = (await send({ To: `bounce@${SIMULATOR}`, Tag: 'hard' })).MessageID
    await send({ To: `bounce+5.3.4@${SIMULATOR}`, Tag: 'soft' })
    complaint = (await send({ To: `complain@${SIMULATOR}` })).MessageID
    await eventually(async () => (await client.getBounces()).Bounces.some(({ Type }) => Type === 'SpamComplaint'))
  })

  test('are listed newest first, and found by type, tag, message and address', async () => {
    const { TotalCount, Bounces } = await client.getBounces()
    expect(TotalCount).toBe(3)
    expect(Bounces.map(({ Type, TypeCode }) => `${Type} ${TypeCode}`)).toEqual([
      'SpamComplaint 100001',
      'SoftBounce 4096',
      'HardBounce 1',
    ])
    for (const filter of [
      { type: Models.BounceType.HardBounce },
      { tag: 'hard' },
      { messageID: hard },
      { emailFilter: 'BOUNCE@sim', messageStream: 'outbound', fromDate: '2020-01-01' },
    ])
      expect(
        (await client.getBounces({ count: 5, offset: 0, ...filter })).Bounces.map(({ MessageID }) => MessageID),
      ).toEqual([hard])
    expect((await client.getBounces({ count: 1, offset: 2 })).Bounces).toEqual(Bounces.slice(2))
    expect((await client.getBounces({ inactive: true })).Bounces).toEqual([])
  })

  test('have their facts', async () => {
    const [bounce] = (await client.getBounces({ tag: 'hard' })).Bounces
    expect(await client.getBounce(bounce?.ID ?? 0)).toEqual({
      RecordType: 'Bounce',
      ID: expect.any(Number),
      Type: 'HardBounce',
      TypeCode: 1,
      Name: 'Hard bounce',
      Tag: 'hard',
      MessageID: hard,
      ServerID: api.actor.accountId,
      Description: expect.any(String),
      Details: '550 5.1.1 Simulated rejection',
      Email: `bounce@${SIMULATOR}`,
      From: FROM,
      BouncedAt: expect.any(String),
      DumpAvailable: false,
      Inactive: false,
      CanActivate: false,
      Subject: 'Hello',
      Content: '',
      MessageStream: 'outbound',
    } as never)
    expect(await client.getBounceDump(bounce?.ID ?? 0)).toEqual({ Body: '' })
    const { MessageEvents } = await client.getOutboundMessageDetails(hard)
    expect(MessageEvents).toMatchObject([{ Type: 'Bounced', Details: { BounceID: bounce?.ID } }])
    expect((await client.getOutboundMessageDetails(complaint)).MessageEvents.map(({ Type }) => Type)).toContain(
      'Bounced',
    )
  })

  test('are activated: the address gets mail again', async () => {
    const [bounce] = (await client.getBounces({ tag: 'soft' })).Bounces
    const id = bounce?.ID ?? 0
    expect(await failureOf(client.activateBounce(id))).toMatchObject({ code: 1003 })
    await client.createSuppressions('outbound', { Suppressions: [{ EmailAddress: bounce?.Email ?? '' }] })
    expect(await client.getBounce(id)).toMatchObject({ Inactive: true, CanActivate: true })
    expect(await client.activateBounce(id)).toMatchObject({ Message: 'OK', Bounce: { ID: id, Inactive: false } })
  })

  test.each([0, 999_999, 'x'])('there is no bounce %p', async (id) => {
    expect(await failureOf(client.getBounce(id as number))).toMatchObject({ statusCode: 422, code: 1001 })
  })

  test('are counted', async () => {
    expect(await client.getDeliveryStatistics()).toEqual({
      InactiveMails: expect.any(Number),
      Bounces: [
        { Name: 'All', Count: 3 },
        { Type: 'SpamComplaint', Name: 'Spam complaint', Count: 1 },
      ],
    } as never)
  })
})

test('every route names the fields that it ignores, also those within others', async () => {
  const ignoredBy = async (path: string, body: object): Promise<string | null> => {
    const response = await fetch(`${api.url}/postmark${path}`, {
      method: 'POST',
      headers: { 'x-postmark-server-token': api.key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect([path, response.status]).toEqual([path, 200])
    return response.headers.get('tassis-ignored')
  }
  const Suppressions = [{ EmailAddress: 'ignored@receiver.test', Reason: 'x' }]
  expect(await ignoredBy('/message-streams/outbound/suppressions', { Suppressions, More: 1 })).toBe(
    'More, Suppressions.Reason',
  )
  expect(await ignoredBy('/message-streams/outbound/suppressions/delete', { Suppressions })).toBe('Suppressions.Reason')
  expect(await ignoredBy('/templates/validate', { Subject: 'Hello', InlineCssForHtmlTestRender: true })).toBe(
    'InlineCssForHtmlTestRender',
  )
  expect(await ignoredBy('/templates', { Name: 'Ignored', Subject: 'Hello', TextBody: 'x', Color: 'x' })).toBe('Color')
  await client.deleteTemplate('ignored')
})

describe('suppressions', () => {
  const addressesIn = async (stream: string, filter?: Models.SuppressionFilteringParameters): Promise<string[]> =>
    (await client.getSuppressions(stream, filter)).Suppressions.map(({ EmailAddress }) => EmailAddress)

  test('are created, listed with their reasons, and deleted', async () => {
    const created = await client.createSuppressions('outbound', {
      Suppressions: [{ EmailAddress: 'Left@receiver.test' }, { EmailAddress: 'broken' }],
    })
    expect(created).toEqual({
      Suppressions: [
        { EmailAddress: 'Left@receiver.test', Status: 'Suppressed', Message: '' },
        { EmailAddress: 'broken', Status: 'Failed', Message: expect.stringContaining('broken') },
      ],
    } as never)
    await api.api('POST', '/v1/suppressions', { email_address: 'hard@receiver.test', reason: 'hard_bounce' })
    const { Suppressions } = await client.getSuppressions('outbound')
    expect(Suppressions).toEqual([
      {
        EmailAddress: 'left@receiver.test',
        SuppressionReason: 'ManualSuppression',
        Origin: 'Customer',
        CreatedAt: expect.any(String),
      },
      {
        EmailAddress: 'hard@receiver.test',
        SuppressionReason: 'HardBounce',
        Origin: 'Recipient',
        CreatedAt: expect.any(String),
      },
    ] as never)
    const hardOnly = new Models.SuppressionFilteringParameters(1, 0, Models.SuppressionReason.HardBounce)
    expect(await addressesIn('outbound', hardOnly)).toEqual(['hard@receiver.test'])
    const deleted = await client.deleteSuppressions('outbound', {
      Suppressions: [{ EmailAddress: 'left@receiver.test' }, { EmailAddress: 'hard@receiver.test' }],
    })
    expect(deleted.Suppressions.map(({ Status }) => Status)).toEqual(['Deleted', 'Deleted'])
    expect(await addressesIn('outbound')).toEqual([])
  })

  test('of broadcasts are unsubscriptions, which leave other mail alone', async () => {
    await api.api('POST', '/v1/streams', { slug: 'broadcast', name: 'Broadcasts' })
    await client.createSuppressions('broadcast', { Suppressions: [{ EmailAddress: 'news@receiver.test' }] })
    expect(await addressesIn('broadcast')).toEqual(['news@receiver.test'])
    expect(await addressesIn('outbound')).toEqual([])
    await client.deleteSuppressions('broadcast', { Suppressions: [{ EmailAddress: 'news@receiver.test' }] })
  })

  test('more than a batch of them are one list', async () => {
    const addresses = Array.from({ length: 600 }, (_, n) => `many${n}@receiver.test`)
    const csv = ['email_address,reason', ...addresses.map((address) => `${address},complaint`)].join('\n')
    const key = await api.newKey([], await api.newAccount())
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'text/csv' }
    await fetch(`${api.url}/v1/suppressions/import`, { method: 'POST', headers, body: csv })
    const complaints = new Models.SuppressionFilteringParameters(1, 0, Models.SuppressionReason.SpamComplaint)
    const { Suppressions } = await connect(key).getSuppressions('outbound', complaints)
    expect(Suppressions.map(({ EmailAddress }) => EmailAddress)).toEqual(addresses)
  })

  test.each([
    ['an unknown stream', () => client.getSuppressions('none'), 1235],
    [
      '51 addresses',
      () => client.createSuppressions('outbound', { Suppressions: Array(51).fill({ EmailAddress: 'a@b.test' }) }),
      300,
    ],
    ['no list', () => client.createSuppressions('outbound', {} as never), 403],
  ])('%s is an error', async (_, call, code) => {
    expect(await failureOf(call())).toMatchObject({ statusCode: 422, code })
  })
})

describe('templates', () => {
  test('are created, read, changed, listed and deleted', async () => {
    const created = await client.createTemplate({ Name: 'Order shipped', Subject: 'Order {{ id }}', TextBody: 'Soon.' })
    expect(created).toEqual({
      Active: true,
      TemplateId: expect.any(Number),
      Name: 'Order shipped',
      Alias: 'order-shipped',
      TemplateType: 'Standard',
      LayoutTemplate: null,
    } as never)
    const { TemplateId } = created
    const whole = {
      ...created,
      Subject: 'Order {{ id }}',
      HtmlBody: null,
      TextBody: 'Soon.',
      AssociatedServerId: api.actor.accountId,
    }
    expect(await client.getTemplate(TemplateId)).toEqual(whole as never)
    expect(await client.getTemplate('order-shipped')).toEqual(whole as never)
    await client.editTemplate(TemplateId, { HtmlBody: '<p>{{ id }}</p>', Alias: 'shipped' })
    expect(await client.getTemplate('shipped')).toMatchObject({ HtmlBody: '<p>{{ id }}</p>', Name: 'Order shipped' })
    const { TotalCount, Templates } = await client.getTemplates()
    expect([TotalCount, Templates]).toEqual([1, [{ ...created, Alias: 'shipped' }]])
    expect(await client.getTemplates({ templateType: Models.TemplateTypes.Layout })).toEqual({
      TotalCount: 0,
      Templates: [],
    })
    expect(await client.deleteTemplate(TemplateId)).toMatchObject({ ErrorCode: 0 })
    expect(await failureOf(client.getTemplate(TemplateId))).toMatchObject({ code: 1101 })
  })

  test.each<[string, Models.CreateTemplateRequest, number, RegExp]>([
    [
      'Mustachio',
      { Name: 'A', Subject: 'a', HtmlBody: '<p>\n{{#each items}}x{{/each}}' },
      1122,
      /^HtmlBody, line 2: \{\{#each items\}\} is Mustachio.*docs\/templates\.md/,
    ],
    ['an unescaped value', { Name: 'A', Subject: '{{{ a }}}' }, 1122, /^Subject, line 1: \{\{\{ a \}\}\}/],
    ['a layout', { Name: 'A', Subject: 'a', LayoutTemplate: 'base' }, 300, /no layouts/],
    ['no subject', { Name: 'A' }, 1120, /Subject/],
    ['an error of our syntax', { Name: 'A', Subject: '{% if %}' }, 1122, /subject, line 1/],
    ['a wrong type', { Name: 7 as never, Subject: 'a' }, 300, /^Name must be a string/],
  ])('with %s is an error that says what to write', async (_, template, code, message) => {
    const error = (await failureOf(client.createTemplate(template))) as Errors.HttpError
    expect([error.statusCode, error.code, error.message]).toEqual([422, code, expect.stringMatching(message)])
  })

  test('are validated without being stored', async () => {
    const checked = await client.validateTemplate({
      Subject: 'Hello {{ name }}',
      HtmlBody: '<p>{{#each a}}</p>',
      TextBody: '{{ name }}{{ missing }}',
      TestRenderModel: { name: 'Ada' },
    })
    expect(checked).toMatchObject({
      AllContentIsValid: false,
      Subject: { ContentIsValid: true, ValidationErrors: [], RenderedContent: 'Hello Ada' },
      HtmlBody: {
        ContentIsValid: false,
        ValidationErrors: [{ Line: 1, Message: expect.stringContaining('Mustachio') }],
      },
      TextBody: { ContentIsValid: false, ValidationErrors: [{ Message: expect.stringContaining('missing') }] },
    })
  })
})

test('the server is the account, without its keys', async () => {
  expect(await client.getServer()).toMatchObject({
    ID: api.actor.accountId,
    Name: 'Test',
    ApiTokens: [],
    DeliveryType: 'Live',
    TrackLinks: expect.any(String),
  } as never)
})
