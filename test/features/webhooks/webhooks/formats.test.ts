/** The payloads in the forms of other providers, held against the types of their clients. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Models } from 'postmark'
import type {
  EmailBouncedEvent,
  EmailClickedEvent,
  EmailDeliveredEvent,
  EmailFailedEvent,
  EmailReceivedEvent,
  EmailSuppressedEvent,
} from 'resend'
import type { EventData, EventType } from '#features/core/events/record.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { buildPayload } from '#features/webhooks/webhooks/payload/payload.ts'
import { at } from '#test/support/api.ts'
import { expectError, VERIFIED } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createWebhookApi, HOOK, type Json, type WebhookApi } from './fixture.ts'

setDefaultTimeout(60_000)

let service: WebhookApi
beforeAll(async () => {
  service = await createWebhookApi()
})
afterAll(() => service[Symbol.asyncDispose]())

const REPLY: EventData = { smtp_response: '550 5.1.1 No such user', ip_address: '192.0.2.25' }
const HARD: EventData = { ...REPLY, bounce_type: 'hard', bounce_category: 'invalid_recipient', suppressed: true }
const VISIT: EventData = { link_url: 'https://shop.test/', ip_address: '203.0.113.9', user_agent: 'Mail/1' }

/** The payload of an event of a new email to two recipients; the event is about the second. */
async function payloadOf(format: 'resend' | 'postmark', type: EventType, data: EventData = {}) {
  const { app, actor, accepted, rowsOf, tell } = service
  const email = await accepted({
    from: `Ada Byron <ada@${VERIFIED}>`,
    to: ['bob@receiver.test', 'carl@receiver.test'],
    subject: 'Your order №7',
    tags: ['kind:receipt', 'plain'],
    metadata: { order: 7, shop: 'north' },
  })
  const { emailId, recipientIds } = rowsOf(email.id)
  const [seq = 0] = await tell([type], { emailId, recipientId: recipientIds[1] ?? 0, data })
  return { email, seq, payload: buildPayload(app, actor.accountId, seq, format)?.body as unknown }
}

describe('resend', () => {
  test.each<[EventType, string]>([
    ['sent', 'email.sent'],
    ['delivered', 'email.delivered'],
    ['deferred', 'email.delivery_delayed'],
    ['opened', 'email.opened'],
    ['complained', 'email.complained'],
  ])('%s is %s', async (type, name) => {
    const { payload, email } = await payloadOf('resend', type)
    expect(payload).toEqual({
      type: name as 'email.delivered',
      created_at: expect.stringMatching(/Z$/),
      data: {
        created_at: String(at(email, 'created_at')),
        email_id: email.id,
        message_id: String(at(email, 'message_id')),
        from: `Ada Byron <ada@${VERIFIED}>`,
        to: ['carl@receiver.test'],
        subject: 'Your order №7',
        tags: { kind: 'receipt', plain: '' },
      },
    } satisfies EmailDeliveredEvent)
  })

  test.each<[EventData, EmailBouncedEvent['data']['bounce']]>([
    [HARD, { type: 'Permanent', subType: 'NoEmail', message: '550 5.1.1 No such user' }],
    [
      { reason: 'Too old', bounce_type: 'soft', bounce_category: 'expired' },
      { type: 'Transient', subType: 'General', message: 'Too old' },
    ],
    [
      { smtp_response: '552 5.2.2 Full', bounce_type: 'soft', bounce_category: 'mailbox_full' },
      { type: 'Transient', subType: 'MailboxFull', message: '552 5.2.2 Full' },
    ],
  ])('a bounce says how it ended: %o', async (data, bounce) => {
    const { payload } = await payloadOf('resend', 'bounced', data)
    expect((payload as EmailBouncedEvent).data.bounce).toEqual(bounce)
  })

  test('clicks, failures and suppressed recipients have their own fields', async () => {
    const click = (await payloadOf('resend', 'clicked', VISIT)).payload as EmailClickedEvent
    expect(click.data.click).toEqual({
      ipAddress: '203.0.113.9',
      link: 'https://shop.test/',
      timestamp: click.created_at,
      userAgent: 'Mail/1',
    })
    const failed = (await payloadOf('resend', 'failed', { reason: 'The key is missing' })).payload as EmailFailedEvent
    expect(failed.data.failed).toEqual({ reason: 'The key is missing' })
    const data: EventData = { reason: 'suppressed', suppression: 'hard_bounce' }
    const rejected = (await payloadOf('resend', 'rejected', data)).payload as EmailSuppressedEvent
    expect([rejected.type, rejected.data.suppressed.message]).toEqual(['email.suppressed', 'hard_bounce'])
  })

  test('received mail has its recipients and attachments, without their content', async () => {
    const { app, actor, tell } = service
    const { domain } = await createDomain(app, actor, 'inbound.test')
    const id = await storeTestInbound(
      app,
      { accountId: actor.accountId, domainId: domain.id },
      {
        rcptTo: ['support@inbound.test'],
        attachments: [{ filename: 'a.pdf', contentType: 'application/pdf', content: Buffer.from('a') }],
      },
    )
    const [seq = 0] = await tell(['email.inbound'], { data: { inbound_email_id: id } })
    const time = expect.stringMatching(/Z$/) as unknown as string
    const payload = buildPayload(app, actor.accountId, seq, 'resend')?.body as unknown as EmailReceivedEvent
    expect(payload).toEqual({
      type: 'email.received',
      created_at: time,
      data: {
        email_id: id,
        created_at: time,
        from: 'Ada <ada@customer.test>',
        to: ['support@inbound.test'],
        cc: [],
        bcc: [],
        received_for: ['support@inbound.test'],
        message_id: '<1@customer.test>',
        subject: 'Hello',
        attachments: [
          {
            id: '0',
            filename: 'a.pdf',
            content_type: 'application/pdf',
            content_disposition: 'attachment',
            content_id: null,
          },
        ],
      },
    })
    expect(buildPayload(app, actor.accountId, seq, 'postmark')).toBeUndefined()
  })

  test('an event without an equivalent has no payload', async () => {
    expect((await payloadOf('resend', 'unsubscribed')).payload).toBeUndefined()
    expect((await payloadOf('postmark', 'sent')).payload).toBeUndefined()
  })
})

describe('postmark', () => {
  const common = ({ id }: { id: string }) => ({
    ServerID: 1,
    MessageStream: 'outbound',
    MessageID: id,
    Tag: 'kind:receipt',
    Metadata: { order: '7', shop: 'north' },
  })

  test('a delivery', async () => {
    const { payload, email } = await payloadOf('postmark', 'delivered', { smtp_response: '250 ok' })
    expect(payload).toEqual({
      RecordType: 'Delivery',
      ...common(email),
      Recipient: 'carl@receiver.test',
      DeliveredAt: expect.stringMatching(/Z$/),
      Details: '250 ok',
    } satisfies Models.DeliveryWebhook)
  })

  test.each<[EventType, EventData, Pick<Models.BounceWebhook, 'Type' | 'TypeCode' | 'Inactive' | 'Details'>]>([
    ['bounced', HARD, { Type: 'HardBounce', TypeCode: 1, Inactive: true, Details: '550 5.1.1 No such user' }],
    ['bounced', { reason: 'Too old' }, { Type: 'SoftBounce', TypeCode: 4096, Inactive: false, Details: 'Too old' }],
    [
      'bounced',
      { smtp_response: '552 5.2.2 Full', bounce_type: 'soft', bounce_category: 'mailbox_full' },
      { Type: 'SoftBounce', TypeCode: 4096, Inactive: false, Details: '552 5.2.2 Full' },
    ],
    [
      'bounced',
      { reason: 'Not from here', bounce_type: 'soft', bounce_category: 'policy' },
      { Type: 'Blocked', TypeCode: 100006, Inactive: false, Details: 'Not from here' },
    ],
    ['deferred', { reason: 'Wait' }, { Type: 'Transient', TypeCode: 2, Inactive: false, Details: 'Wait' }],
    ['failed', { reason: 'No key' }, { Type: 'Unknown', TypeCode: 2048, Inactive: false, Details: 'No key' }],
  ])('%s %o', async (type, data, fields) => {
    const { payload, email, seq } = await payloadOf('postmark', type, data)
    expect(payload).toEqual({
      RecordType: 'Bounce',
      ...common(email),
      ID: seq,
      Name: expect.any(String),
      Description: expect.any(String),
      Email: 'carl@receiver.test',
      From: `Ada Byron <ada@${VERIFIED}>`,
      BouncedAt: expect.stringMatching(/Z$/),
      DumpAvailable: false,
      CanActivate: fields.Inactive,
      Subject: 'Your order №7',
      ...fields,
    } satisfies Models.BounceWebhook)
  })

  test('a complaint, a click, an unsubscription', async () => {
    const complained = await payloadOf('postmark', 'complained', { complainer: 'erin@receiver.test' })
    expect(complained.payload as Models.SpamComplaintWebhook).toMatchObject({
      RecordType: 'SpamComplaint',
      Type: 'SpamComplaint',
      TypeCode: 100001,
      Email: 'erin@receiver.test',
      Inactive: true,
      CanActivate: false,
    })
    const clicked = await payloadOf('postmark', 'clicked', VISIT)
    const NONE = { Name: '', Company: '', Family: '' }
    expect(clicked.payload).toEqual({
      RecordType: 'Click',
      ...common(clicked.email),
      Recipient: 'carl@receiver.test',
      ReceivedAt: expect.stringMatching(/Z$/),
      UserAgent: 'Mail/1',
      Platform: 'Unknown',
      Client: NONE,
      OS: NONE,
      Geo: { IP: '203.0.113.9' },
      ClickLocation: 'HTML' as Models.LinkClickLocation,
      OriginalLink: 'https://shop.test/',
    } satisfies Models.ClickWebhook)
    const left = await payloadOf('postmark', 'unsubscribed', { stream: 'transactional', scope: 'all' })
    expect(left.payload).toEqual({
      RecordType: 'SubscriptionChange',
      ...common(left.email),
      Recipient: 'carl@receiver.test',
      ChangedAt: expect.stringMatching(/Z$/),
      Origin: 'Recipient',
      SuppressSending: true,
      SuppressionReason: 'ManualSuppression',
    } as Models.SubscriptionChangeWebhook)
  })

  test('only the first open of a recipient is the first', async () => {
    const { app, actor, accepted, rowsOf, tell } = service
    const { emailId, recipientIds } = rowsOf((await accepted({ to: ['a@receiver.test', 'b@receiver.test'] })).id)
    const opens: unknown[] = []
    for (const recipientId of [recipientIds[0], recipientIds[0], recipientIds[1]]) {
      const [seq = 0] = await tell(['opened'], { emailId, recipientId: recipientId ?? 0 })
      opens.push(buildPayload(app, actor.accountId, seq, 'postmark')?.body['FirstOpen'])
    }
    expect(opens).toEqual([true, false, true])
  })
})

test('a webhook keeps its format until it is changed, and takes only events that the format has', async () => {
  const { api, addWebhook } = service
  const hook = await addWebhook({ events: ['delivered'], format: 'postmark' })
  const path = `/v1/webhooks/${hook.id}`
  const put = (more: Json) => api('PUT', path, { ...HOOK, events: ['delivered'], is_active: true, ...more })
  expect(hook['format']).toBe('postmark')
  expect(at((await put({})).body, 'data', 'format')).toBe('postmark')
  for (const missing of ['sent', 'email.inbound'])
    expectError(await put({ events: ['delivered', missing] }), 422, 'event_not_in_format', 'events')
  expectError(await put({ format: 'sendgrid' }), 422, 'validation_failed', 'format')
  expect(at((await put({ events: ['sent'], format: 'resend' })).body, 'data', 'format')).toBe('resend')
  expectError(
    await api('POST', '/v1/webhooks', { ...HOOK, events: ['uncertain'], format: 'resend' }),
    422,
    'event_not_in_format',
    'events',
  )
  const tested = await api('POST', `${path}/test`)
  const delivery = await api('GET', `${path}/deliveries/${String(at(tested.body, 'data', 'delivery_id'))}`)
  expect(JSON.parse(String(at(delivery.body, 'data', 'payload')))).toMatchObject({ type: 'test', data: {} })
})
