import { describe, expect, test } from 'bun:test'
import { type DeliveredRequest, findWebhookViolations, type VerifierOptions } from './webhook-verifier.ts'

const NOW_MS = Date.UTC(2026, 10, 21, 10, 0, 0)
const SECRET = 'whsec_exampleSecret'
const ACCOUNT = '0192f0c1-2b7a-7c3d-8e4f-5a6b7c8d9e0f'
const ID = '0192f0c1-0000-7000-8000-000000000001'
const OPTIONS: VerifierOptions = { secret: SECRET, nowMs: NOW_MS }

/** HMAC-SHA256 as in RFC 2104 §2, from the bare hash. */
function hmacHex(key: string, text: string | Uint8Array): string {
  const block = Buffer.alloc(64)
  Buffer.from(key).copy(block)
  const sha256 = (...parts: readonly Uint8Array[]) => new Bun.CryptoHasher('sha256').update(Buffer.concat(parts))
  const inner = sha256(
    block.map((octet) => octet ^ 0x36),
    Buffer.from(text),
  ).digest()
  return sha256(
    block.map((octet) => octet ^ 0x5c),
    inner,
  ).digest('hex')
}

type Fields = Readonly<Record<string, unknown>>

const EVERY = { account_id: ACCOUNT, timestamp: '2026-11-21T09:59:58.123Z' }
const OF_EMAIL = {
  ...EVERY,
  email_id: ID,
  event_id: '0192F0C1-0000-7000-8000-000000000002',
  recipient: 'ann@example.org',
}
/** One of each kind of payload; the deliveries of the service itself are checked in the flows. */
const PAYLOADS: Readonly<Record<string, Fields>> = {
  opened: OF_EMAIL,
  sent: {
    ...OF_EMAIL,
    ...{ from: 'Bob <bob@example.com>', to: 'ann@example.org', subject: 'Hallo', domain: 'example.com' },
    ...{ smtp_response: null, ip_address: null },
  },
  deferred: { ...OF_EMAIL, reason: '450 later', next_retry_at: '2026-11-21T11:05:00+01:00' },
  clicked: { ...OF_EMAIL, link_url: 'https://example.org/a?b=c' },
  test: { ...EVERY, data: { message: 'It works.' } },
}

const MAILBOX_MESSAGE = {
  timestamp: '2026-11-21T09:59:58Z',
  mailbox_id: ID,
  message: {
    id: ID,
    from: 'ann@example.org',
    reply_to: null,
    subject: 'Hallo',
    text_body: 'Hallo',
    html_body: null,
    attachments: [],
    message_id: '<3@example.org>',
    in_reply_to: null,
    references: null,
    thread_id: ID,
    received_at: '2026-11-21T09:59:57Z',
  },
  authentication: {},
  source_ip: '192.0.2.2',
}

/** A valid delivery, with the given changes. */
function delivery(
  event: string,
  body: string | Uint8Array,
  changed: Readonly<Record<string, string | undefined>> = {},
) {
  const t = NOW_MS / 1000
  const signed = Buffer.concat([Buffer.from(`${t}.`), Buffer.from(body)])
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'x-service-signature': `t=${t},v1=${hmacHex(SECRET, signed)}`,
    'x-service-event': event,
    'x-service-attempt': '1',
  }
  for (const [name, value] of Object.entries(changed)) {
    if (value === undefined) delete headers[name]
    else headers[name] = value
  }
  return { method: 'POST', headers, body: Buffer.from(body) } satisfies DeliveredRequest
}

const ofPayload = (event: string, fields: Fields) => delivery(event, JSON.stringify({ event, ...fields }))
const verify = (request: DeliveredRequest, options: Partial<VerifierOptions> = {}) =>
  findWebhookViolations(request, { ...OPTIONS, ...options })
const without = (fields: Fields, field: string) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => name !== field))

describe('a delivery is accepted', () => {
  test.each(Object.entries(PAYLOADS))('of the event %s', (event, fields) => {
    expect(verify(ofPayload(event, fields), { accountId: ACCOUNT })).toEqual([])
  })

  test('of mailbox.message.received, without event and account, or with both added', () => {
    expect(verify(delivery('mailbox.message.received', JSON.stringify(MAILBOX_MESSAGE)))).toEqual([])
    expect(verify(ofPayload('mailbox.message.received', { ...MAILBOX_MESSAGE, account_id: ACCOUNT }))).toEqual([])
    const message = { ...MAILBOX_MESSAGE.message, classification: { label: 'question', confidence: 0.9 } }
    expect(verify(ofPayload('mailbox.message.received', { ...MAILBOX_MESSAGE, message }))).toEqual([])
  })

  test('with undocumented fields', () => {
    expect(verify(ofPayload('opened', { ...OF_EMAIL, colour: { is: 'green' } }))).toEqual([])
  })

  test('with the signature that openssl dgst -hmac computes', () => {
    const body = `{"event":"test","account_id":"${ACCOUNT}","timestamp":"2026-11-21T10:00:00Z","data":{"message":"Grüße"}}`
    const v1 = '799ee17b004595717a4905ddd23b4aff789ac18ad7bbf1fa9ae77dfd3ac4ce7b'
    expect(verify(delivery('test', body, { 'x-service-signature': `t=1795255200,v1=${v1}` }))).toEqual([])
  })

  test('exactly at the tolerance, before and after, and at a given one', () => {
    const request = ofPayload('opened', OF_EMAIL)
    expect(verify(request, { nowMs: NOW_MS + 300_000 })).toEqual([])
    expect(verify(request, { nowMs: NOW_MS - 300_000 })).toEqual([])
    expect(verify(request, { nowMs: NOW_MS + 10_000, toleranceSeconds: 10 })).toEqual([])
  })

  test('with another header prefix', () => {
    const { headers, ...rest } = ofPayload('opened', OF_EMAIL)
    const renamed = Object.fromEntries(Object.entries(headers).map(([name, v]) => [name.replace('service', 'mail'), v]))
    expect(verify({ ...rest, headers: renamed }, { headerPrefix: 'X-Mail' })).toEqual([])
    expect(verify({ ...rest, headers: renamed })).toEqual([
      'there is no signature',
      'the attempt is undefined, not an integer from 1',
      'there is no event header',
    ])
  })
})

describe('a delivery is refused', () => {
  const opened = JSON.stringify({ event: 'opened', ...OF_EMAIL })
  const good = delivery('opened', opened).headers['x-service-signature'] ?? ''
  const [t = '', v1 = ''] = good.split(',')

  test('with another method than POST', () => {
    expect(verify({ ...delivery('opened', opened), method: 'PUT' })).toEqual(['the method is PUT, not POST'])
  })

  test.each([
    ['content-type', 'text/plain', 'Content-Type is text/plain, not application/json'],
    ['content-type', undefined, 'Content-Type is undefined, not application/json'],
    ['x-service-attempt', '0', 'the attempt is 0, not an integer from 1'],
    ['x-service-attempt', undefined, 'the attempt is undefined, not an integer from 1'],
    ['x-service-event', 'clicked', 'the event is opened in the body and clicked in the header'],
    ['x-service-event', undefined, 'there is no event header'],
    ['x-service-event', 'toString', 'there is no event toString'],
    ['x-service-signature', undefined, 'there is no signature'],
    ['x-service-signature', t, 'the signature has 0 of v1=, not one'],
    ['x-service-signature', v1, 'the signature has 0 of t=, not one'],
    ['x-service-signature', `${good}, ${good}`, 'the signature has 2 of t=, not one'],
    [
      'x-service-signature',
      good.slice(0, -1),
      `the signature is not t=<seconds>,v1=<64 lower-case hex>: ${good.slice(0, -1)}`,
    ],
  ])('for the header %s: %s', (name, value, violation) => {
    const violations = verify(delivery('opened', opened, { [name]: value }))
    expect(violations.slice(0, 1)).toEqual([violation])
  })

  test('when its time differs by more than the tolerance, before or after', () => {
    const request = delivery('opened', opened)
    expect(verify(request, { nowMs: NOW_MS + 301_000 })).toEqual(['t is 301 s away, over 300 s'])
    expect(verify(request, { nowMs: NOW_MS - 301_000 })).toEqual(['t is 301 s away, over 300 s'])
    expect(verify(request, { nowMs: NOW_MS + 11_000, toleranceSeconds: 10 })).toEqual(['t is 11 s away, over 10 s'])
  })

  test('when the signature was for another body, time or secret', () => {
    const unsigned = ['v1 does not sign this body with this secret']
    const request = delivery('opened', opened)
    expect(verify({ ...request, body: Buffer.from(`${opened} `) })).toEqual(unsigned)
    expect(verify(request, { secret: SECRET.replace('whsec_', '') })).toEqual(unsigned)
    const later = good.replace(/t=(\d+)/, (_, seconds) => `t=${Number(seconds) + 1}`)
    expect(verify(delivery('opened', opened, { 'x-service-signature': later }))).toEqual(unsigned)
  })

  test.each([
    ['an array', '[]'],
    ['null', 'null'],
    ['cut JSON', opened.slice(0, -1)],
    ['nothing', ''],
    ['a byte order mark', `\uFEFF${opened}`],
    ['Latin-1', Buffer.from(opened.replace('ann', 'änn'), 'latin1')],
  ])('when the body is %s', (_, body) => {
    expect(verify(delivery('opened', body))).toEqual(['the body is not a JSON object in UTF-8'])
  })

  test('when it is for another account', () => {
    expect(verify(delivery('opened', opened), { accountId: ID })).toEqual([`the account is ${ACCOUNT}, not ${ID}`])
  })

  test.each(
    Object.entries(PAYLOADS).flatMap(([event, fields]) => ['event', ...Object.keys(fields)].map((f) => [event, f])),
  )('when %s lacks %s', (event, field) => {
    const body = JSON.stringify(without({ event, ...PAYLOADS[event] }, String(field)))
    const violations = verify(delivery(String(event), body))
    // A missing event is two violations: as a field, and because its header disagrees.
    expect(violations.map((violation) => violation.split(' is ')[0])).toEqual(
      field === 'event' ? ['the event', 'event'] : [String(field)],
    )
  })

  test.each([
    ['sent', { smtp_response: '250 ok' }, 'smtp_response is "250 ok", not null'],
    ['opened', { email_id: `{${ID}}` }, `email_id is "{${ID}}", not a plain UUID`],
    ['opened', { event_id: `evt_${ID}` }, `event_id is "evt_${ID}", not a plain UUID`],
    ['opened', { recipient: 'Ann' }, 'recipient is "Ann", not an address'],
    ['opened', { timestamp: 1795255200 }, 'timestamp is 1795255200, not an RFC 3339 time'],
    ['opened', { timestamp: '2026-02-31T10:00:00Z' }, 'timestamp is "2026-02-31T10:00:00Z", not an RFC 3339 time'],
    ['deferred', { next_retry_at: null }, 'next_retry_at is null, not an RFC 3339 time'],
    ['deferred', { subject: 'Hallo' }, 'subject is "Hallo", not missing'],
    ['clicked', { link_url: 'mailto:ann@example.org' }, 'link_url is "mailto:ann@example.org", not a link'],
    ['test', { data: { message: 1 } }, 'data.message is 1, not a string'],
    ['test', { data: ['It works.'] }, 'data is ["It works."], not an object'],
  ] satisfies [string, Fields, string][])('when %s has %j', (event, changed, violation) => {
    expect(verify(ofPayload(event, { ...PAYLOADS[event], ...changed }))).toEqual([violation])
  })

  test('when a mailbox message lacks a required field', () => {
    const message = { ...without(MAILBOX_MESSAGE.message, 'thread_id'), classification: { label: 'question' } }
    const body = JSON.stringify({ ...MAILBOX_MESSAGE, message })
    expect(verify(delivery('mailbox.message.received', body))).toEqual([
      'message.thread_id is undefined, not a string',
      'message.classification.confidence is undefined, not a number',
    ])
  })
})
