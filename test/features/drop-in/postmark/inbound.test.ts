/** @module Bulk sends and received messages by Postmark's own client. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Models, ServerClient } from 'postmark'
import type { toInboundDetails, toInboundMessage } from '#features/drop-in/postmark/messages.ts'
import type { readBulk, sendBulk } from '#features/drop-in/postmark/send.ts'
import { type RouteService, startRouteService } from '#test/features/webhooks/inbound-routes/fixture.ts'
import { at } from '#test/support/api.ts'
import { UUID } from '#test/support/email-api.ts'

/** `Ours` can be used wherever the client expects `Theirs`. */
type Fits<Theirs, Ours extends Theirs> = [Theirs, Ours]
/** With the texts of the client's enum. */
type Texts<T extends { Status: string }> = Omit<T, 'Status'> & { Status: `${T['Status']}` }

export type Held = [
  Fits<Models.InboundMessageDetails, ReturnType<typeof toInboundDetails>>,
  Fits<Models.InboundMessage, ReturnType<typeof toInboundMessage>>,
  Fits<Texts<Models.BulkEmailSendingResponse>, Awaited<ReturnType<typeof sendBulk>>>,
  Fits<Texts<Models.BulkEmailStatusResponse>, ReturnType<typeof readBulk>>,
]

const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'
const FROM = 'Ada <ada@sender.test>'

let service: RouteService
let client: ServerClient
const connect = (key: string): ServerClient =>
  new ServerClient(key, { useHttps: false, requestHost: `${service.url.replace('http://', '')}/postmark` })

beforeAll(async () => {
  service = await startRouteService()
  client = connect(service.key)
  await service.api('POST', '/v1/streams', { slug: 'broadcast', name: 'Broadcasts' })
})
afterAll(() => service[Symbol.asyncDispose]())

const errorOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => ({ code: at(error, 'code'), status: at(error, 'statusCode') }),
  )

test('a bulk email is rendered for each recipient, and its status is read', async () => {
  const sent = await client.sendBulkEmail({
    ...{
      From: FROM,
      Subject: 'Hi {{FirstName}}',
      TextBody: '{{FirstName}}{{#Vip}}!{{/Vip}}',
      HtmlBody: '<b>{{FirstName}}</b>',
    },
    Messages: [
      { To: 'bob@receiver.test', TemplateModel: { FirstName: 'Bob & Co', Vip: true }, Metadata: { n: '1' } },
      { To: 'eve@receiver.test' },
    ],
  })
  expect(sent).toEqual({
    Id: expect.stringMatching(UUID),
    Status: 'Accepted' as never,
    SubmittedAt: expect.any(String),
  })
  const status = { TotalMessages: 2, PercentageCompleted: 100, Subject: '' }
  expect(await client.getBulkEmailStatus(sent.Id)).toMatchObject({
    Id: sent.Id,
    Status: 'Completed' as never,
    ...status,
  })
  const { Messages: messages } = await client.getOutboundMessages({ count: 2 })
  expect(messages.map(({ Subject, MessageStream }) => `${Subject}, ${MessageStream}`).sort()).toEqual([
    'Hi Bob & Co, broadcast',
    'Hi, broadcast',
  ])
  const bob = messages.find(({ Subject }) => Subject === 'Hi Bob & Co')
  expect(await client.getOutboundMessageDetails(bob?.MessageID ?? '')).toMatchObject({
    ...{ TextBody: 'Bob & Co!', HtmlBody: '<b>Bob &amp; Co</b>', Metadata: { n: '1' } },
  })
})

test('a bulk email with a template or the same key works, and one with an error sends nothing', async () => {
  await service.api('POST', '/v1/templates', { alias: 'bulk', name: 'B', subject: 'Dear {{ name }}', text_body: 'x' })
  const templated = {
    From: FROM,
    TemplateAlias: 'bulk',
    Messages: [{ To: 'a@receiver.test', TemplateModel: { name: 'A' } }],
  }
  await client.sendBulkEmail(templated)
  const newest = async () => (await client.getOutboundMessages({ count: 1 })).Messages[0]?.Subject
  expect(await newest()).toBe('Dear A')
  const wrong = [
    { ...templated, Messages: [...templated.Messages, { To: 'nobody' }] },
    { ...templated, Messages: [] },
    { ...templated, Messages: Array(501).fill({ To: 'a@receiver.test' }) },
    { From: FROM, Subject: '{{#each}}', TextBody: 'x', Messages: [{ To: 'a@receiver.test' }] },
    { From: FROM, Subject: 'No body', Messages: [{ To: 'a@receiver.test' }] },
    { From: FROM, Subject: 'Long', HtmlBody: 'x'.repeat(1_048_577), Messages: [{ To: 'a@receiver.test' }] },
    {
      ...{ From: FROM, Subject: 'Heavy', TextBody: 'x', Messages: Array(500).fill({ To: 'a@receiver.test' }) },
      Attachments: [{ Name: 'a.txt', ContentType: 'text/plain', ContentID: null, Content: 'AAAA'.repeat(100_000) }],
    },
  ]
  const before = (await client.getOutboundMessages({ count: 1 })).TotalCount
  const errors = await Promise.all(wrong.map((bulk) => errorOf(client.sendBulkEmail(bulk))))
  expect(errors.map((error) => error?.status)).toEqual([422, 422, 422, 422, 422, 422, 413])
  expect((await client.getOutboundMessages({ count: 1 })).TotalCount).toBe(before)
  expect(await errorOf(connect('POSTMARK_API_TEST').sendBulkEmail(templated))).toMatchObject({ status: 422 })
  expect(await errorOf(client.getBulkEmailStatus(UNKNOWN))).toMatchObject({ status: 404 })
})

test('received messages are found by every filter, and read', async () => {
  await service.addRoute({ match_type: 'catch_all', pattern: undefined })
  await service.arrive('support', { subject: 'First' })
  const { id } = await service.arrive('support+42', { subject: 'Second', text: 'Hello.' })
  const filters = [
    ...[{}, { subject: 'SECOND' }, { mailboxHash: '42' }, { recipient: 'support+42@inbound.test' }],
    ...[
      { fromEmail: 'ada@customer.test' },
      { fromEmail: 'eve@customer.test' },
      { tag: 'x' },
      { fromDate: '2026-03-15' },
    ],
    ...[{ toDate: '2020-01-01' }, { count: 1, offset: 1 }, { status: 'failed' as never }],
  ]
  const found = await Promise.all(filters.map((filter) => client.getInboundMessages(filter)))
  expect(found.map((page) => page.InboundMessages.map(({ Subject }) => Subject).join())).toEqual([
    ...['Second,First', 'Second', 'Second', 'Second', 'Second,First', '', '', 'Second,First', '', 'First', ''],
  ])
  expect(await client.getInboundMessageDetails(id)).toMatchObject({
    ...{ From: 'ada@customer.test', FromName: 'Ada', Subject: 'Second', MailboxHash: '42', TextBody: 'Hello.' },
    ...{ MessageID: id, OriginalRecipient: 'support+42@inbound.test', Headers: [{ Name: 'Subject', Value: 'Hello' }] },
    ToFull: [{ Email: 'support+42@inbound.test', Name: '', MailboxHash: '42' }],
  })
  expect(await errorOf(client.getInboundMessageDetails(UNKNOWN))).toMatchObject({ status: 404 })
  expect(await errorOf(client.getInboundMessages({ count: 501 }))).toMatchObject({ status: 422, code: 700 })
  expect(await errorOf(client.getInboundMessages({ fromDate: "2026-01-01' OR 1=1" }))).toMatchObject({ code: 700 })
})
