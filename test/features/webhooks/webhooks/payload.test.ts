import { expect, test } from 'bun:test'
import { EVENT_TYPES, type EventData, type EventType } from '#features/core/events/record.ts'
import { buildPayload } from '#features/webhooks/webhooks/payload/payload.ts'
import { minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { NOW, shareEmailApi, UNVERIFIED, UUID, VERIFIED } from '#test/support/email-api.ts'
import { createWebhookApi, type Json } from './fixture.ts'

const service = shareEmailApi(createWebhookApi)

const SESSION: EventData = {
  smtp_response: '250 2.0.0 Queued as 1',
  ip_address: '192.0.2.25',
  remote_mta: 'mx.receiver.test [198.51.100.7]',
  tls: 'TLSv1.3 TLS_AES_256_GCM_SHA384, certificate verified',
}
const REFUSED: EventData = {
  ...SESSION,
  smtp_response: '550 5.1.1 No such user',
  bounce_type: 'hard',
  bounce_category: 'invalid_recipient',
}

const AT = new Date(NOW + minutes(1)).toISOString()
const EMAIL = {
  from: `Ada Byron <ada@${VERIFIED}>`,
  to: ['Bob <bob@receiver.test>', 'carl@receiver.test'],
  cc: ['dora@receiver.test'],
  subject: 'Your order №7',
  tags: ['receipts'],
  metadata: { order: 7 },
}
const DESCRIBED = {
  from: `Ada Byron <ada@${VERIFIED}>`,
  to: 'bob@receiver.test, carl@receiver.test',
  subject: 'Your order №7',
  domain: VERIFIED,
}

const HARD = { bounce_type: 'hard', bounce_category: 'invalid_recipient' }

/** Type, data of the event, and the specific fields of its payload. */
const CASES: readonly (readonly [type: EventType, data: EventData | undefined, fields: Json])[] = [
  ['sent', undefined, { ...DESCRIBED, smtp_response: null, ip_address: null }],
  ['delivered', SESSION, { ...DESCRIBED, smtp_response: '250 2.0.0 Queued as 1', ip_address: '192.0.2.25' }],
  ['bounced', REFUSED, { ...DESCRIBED, ...HARD, smtp_response: '550 5.1.1 No such user', ip_address: '192.0.2.25' }],
  // Events that were recorded by a version without rules have none.
  [
    'bounced',
    { ...REFUSED, rule: 'X.1.1' },
    { ...DESCRIBED, ...HARD, smtp_response: '550 5.1.1 No such user', ip_address: '192.0.2.25', rule: 'X.1.1' },
  ],
  [
    'deferred',
    { reason: 'No answer', next_retry_at: NOW + minutes(6), rule: 'connection-failed' },
    { reason: 'No answer', next_retry_at: new Date(NOW + minutes(6)).toISOString(), rule: 'connection-failed' },
  ],
  [
    'deferred',
    { ...SESSION, reason: '450 4.2.0 Greylisted', next_retry_at: NOW + minutes(6) },
    { reason: '450 4.2.0 Greylisted', next_retry_at: new Date(NOW + minutes(6)).toISOString() },
  ],
  [
    'failed',
    { smtp_response: null, ip_address: null, reason: 'The key is missing' },
    { ...DESCRIBED, smtp_response: '', ip_address: '', reason: 'The key is missing' },
  ],
  ['rejected', { reason: 'suppressed' }, { ...DESCRIBED, smtp_response: '', ip_address: '', reason: 'suppressed' }],
  [
    'uncertain',
    { ip_address: '192.0.2.25', reason: 'The connection was lost' },
    { ...DESCRIBED, smtp_response: '', ip_address: '192.0.2.25', reason: 'The connection was lost' },
  ],
  ['opened', { ip_address: '203.0.113.9', user_agent: 'Mail/1' }, {}],
  [
    'clicked',
    { link_url: 'https://shop.test/?a=1&b=2', ip_address: '203.0.113.9' },
    { link_url: 'https://shop.test/?a=1&b=2' },
  ],
  [
    'complained',
    { complainer: 'erin@receiver.test', feedback_type: 'abuse' },
    {
      to_address: 'bob@receiver.test',
      complainer: 'erin@receiver.test',
      feedback_type: 'abuse',
      original_message_id: expect.stringMatching(/^<[0-9a-f-]{36}@sender\.test>$/),
    },
  ],
  [
    'unsubscribed',
    { stream: 'news', list_id: null, scope: 'stream' },
    { to_address: 'carl@receiver.test', stream: 'news', list_id: null, scope: 'stream' },
  ],
]

// Proves: notify-14, notify-18, notify-19, notify-20, notify-21, notify-22, notify-23, notify-24, notify-25, notify-26
// Proves: notify-28
test.each(CASES.map(([type, data, fields]) => [type, { data, fields }] as const))(
  'the payload of %s has its fields and no others',
  async (type, { data, fields }) => {
    const { app, actor, clock, accepted, detail, rowsOf, tell } = service
    const email = await accepted(EMAIL)
    const { emailId, recipientIds } = rowsOf(email.id)
    clock.advance(minutes(1))
    const [seq = 0] = await tell([type], {
      emailId,
      ...(recipientIds[1] !== undefined && { recipientId: recipientIds[1] }),
      ...(data && { data }),
    })
    const told = buildPayload(app, actor.accountId, seq)
    expect(told).toEqual({
      event: type,
      body: {
        event: type,
        event_id: expect.stringMatching(UUID),
        account_id: actor.accountUuid,
        timestamp: AT,
        email_id: email.id,
        recipient: 'carl@receiver.test',
        tags: ['receipts'],
        metadata: { order: 7 },
        ...fields,
      },
    })
    // The payload has the same data about the email as the API.
    const shown = await detail(email.id)
    const events = shown['events'] as Json[]
    expect(told?.body['event_id']).toBe(events.at(-1)?.['id'])
    if ('to' in fields) expect([told?.body['from'], told?.body['to']]).toEqual([shown['from_address'], email['to']])
    if (type === 'complained') expect(told?.body['original_message_id']).toBe(email['message_id'])
  },
)

const DOMAIN_EVENTS: readonly EventType[] = ['domain.records_lost', 'domain.records_restored', 'domain.unverified']

// Proves: domain-23
test.each(DOMAIN_EVENTS)('the payload of %s names the domain and its records', async (type) => {
  const { app, actor, tell } = service
  const data = {
    domain_id: actor.accountUuid,
    domain: VERIFIED,
    lost_records: ['dkim'],
    ...(type !== 'domain.records_restored' && { sends_until: AT }),
  }
  const [seq = 0] = await tell([type], { data })
  const told = buildPayload(app, actor.accountId, seq)
  expect(told?.event).toBe(type)
  expect(told?.body).toEqual({
    event: type,
    event_id: expect.stringMatching(UUID),
    account_id: actor.accountUuid,
    timestamp: expect.any(String),
    ...data,
  })
})

// Proves: send-10
test('payloads, the feed and the detail have sandbox: true for captured mail, and no such field for other mail', async () => {
  const { app, actor, accepted, rowsOf, tell, api, detail } = service
  const live = await accepted(EMAIL)
  const captured = await accepted({ ...EMAIL, from: `ada@${UNVERIFIED}` })
  for (const [type, data] of CASES) {
    const seqs = await Promise.all(
      [live, captured].map(({ id }) => tell([type], { emailId: rowsOf(id).emailId, ...(data && { data }) })),
    )
    expect(seqs.map(([seq = 0]) => buildPayload(app, actor.accountId, seq)?.body['sandbox'])).toEqual([undefined, true])
  }
  const { body } = await api('GET', '/v1/events?limit=1000')
  const feed = at(body, 'data') as Json[]
  for (const { id, sandbox } of [{ id: live.id }, { id: captured.id, sandbox: true }]) {
    const ofEmail = feed.filter((event) => event['email_id'] === id)
    expect(ofEmail.length).toBeGreaterThan(CASES.length)
    for (const event of ofEmail) expect(event['sandbox']).toBe(sandbox)
    for (const event of (await detail(id))['events'] as Json[]) expect(event['sandbox']).toBe(sandbox)
  }
})

// Proves: notify-16
test('the payload of an event is the same bytes at every attempt', async () => {
  const { app, actor, clock, accepted, rowsOf, tell } = service
  const { emailId } = rowsOf((await accepted(EMAIL)).id)
  for (const [type, data] of CASES) {
    const [seq = 0] = await tell([type], { emailId, ...(data && { data }) })
    const first = JSON.stringify(buildPayload(app, actor.accountId, seq)?.body)
    clock.advance(minutes(15))
    app.db.run('UPDATE emails SET status = 3, updated_at = updated_at + 1, delivered_at = 1 WHERE id = ?', [emailId])
    expect(JSON.stringify(buildPayload(app, actor.accountId, seq)?.body)).toBe(first)
  }
})

test('webhooks get no other event of an email, nor one that was deleted or is of another account', async () => {
  const { app, actor, accepted, rowsOf, tell, newAccount } = service
  const { emailId } = rowsOf((await accepted()).id)
  const others = EVENT_TYPES.filter((type) => !CASES.some(([told]) => told === type))
  // All but the first three belong to no email; the tests of their features cover their data.
  expect(others).toEqual([
    'queued',
    'scheduled',
    'cancelled',
    'email.inbound',
    'mailbox.message.received',
    'account.auto_paused',
    'insights.generated',
    ...DOMAIN_EVENTS,
  ])
  // A pause belongs to an account only, and domain events to a domain only.
  const silent = others.filter((type) => type !== 'account.auto_paused' && !DOMAIN_EVENTS.includes(type))
  for (const seq of await tell(silent, { emailId })) expect(buildPayload(app, actor.accountId, seq)).toBeUndefined()
  const [seq = 0] = await tell(['sent'], { emailId })
  expect(buildPayload(app, actor.accountId, seq)?.event).toBe('sent')
  expect(buildPayload(app, actor.accountId, seq + 1)).toBeUndefined()
  expect(buildPayload(app, (await newAccount()).accountId, seq)).toBeUndefined()
  const [ofNone = 0] = await tell(['sent'], { emailId: 987_654 })
  expect(buildPayload(app, actor.accountId, ofNone)).toBeUndefined()
})
