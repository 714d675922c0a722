/**
 * @module What the API shows for an email after every kind of attempt, with a receiver whose replies depend on the
 * address.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import {
  type Reaction,
  type ScriptedSession,
  type ScriptedSmtp,
  startScriptedSmtp,
} from '#test/support/scripted-smtp.ts'

type Json = Record<string, unknown>

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const UUID = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
const QUEUED = '250 2.0.0 Queued as 1'
const UNKNOWN = '550 5.1.1 No such user here'
const GREYLISTED = '450 4.2.0 Greylisted'
const LISTED = '550 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'
const RULED = '550 5.7.1 Message rejected by policy'
const SPAM = '554 5.7.1 Message rejected as spam by content filter'
const MTA = 'mx.receiver.test [127.0.0.1]'
/** The rule of each reply; without a reply, the connection was lost. */
const RULES: Readonly<Record<string, string>> = {
  [UNKNOWN]: 'X.1.1',
  [GREYLISTED]: 'greylisting',
  [LISTED]: 'block-list',
  [RULED]: 'policy',
  [SPAM]: 'spam',
}
const ruleOf = (reply: string | null): string =>
  reply === null ? 'connection-lost' : (RULES[reply] ?? `X.${reply.slice(6, 9)}`)

/** The receiver's reply, by the local part of the recipient. */
const AT_RCPT: Readonly<Record<string, Reaction>> = {
  unknown: UNKNOWN,
  // A hard bounce suppresses its address, so each test uses an address of its own.
  gone: UNKNOWN,
  left: UNKNOWN,
  greylisted: GREYLISTED,
  listed: LISTED,
  ruled: RULED,
  endless: `${`250-${'x'.repeat(60)}\r\n`.repeat(1100)}250 2.1.5 Recipient ok`,
}
const AT_DATA: Readonly<Record<string, Reaction>> = { cut: { drop: 'reset' } }
const AT_BODY: Readonly<Record<string, Reaction>> = { spam: SPAM, lost: { drop: 'reset' } }

const localPart = (line: string | undefined): string => /^RCPT TO:<([^@]+)@/i.exec(line ?? '')?.[1] ?? ''
const reactions =
  (table: Readonly<Record<string, Reaction>>, otherwise: string) => (line: string, session: ScriptedSession) =>
    table[localPart(line) || localPart(session.commands.findLast((command) => /^RCPT/i.test(command)))] ?? otherwise

let receiver: ScriptedSmtp
let dns: DnsServer
let service: TestApi
beforeAll(async () => {
  receiver = await startScriptedSmtp({
    extensions: ['SIZE 52428800', '8BITMIME', 'ENHANCEDSTATUSCODES'],
    rcpt: reactions(AT_RCPT, '250 2.1.5 Recipient ok'),
    data: reactions(AT_DATA, '354 End with a dot'),
    body: reactions(AT_BODY, QUEUED),
  })
  dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
    // A receiver that blocks us gets no further mail for a time, so it is not that of the other tests.
    'blocking.test': { MX: [{ preference: 10, exchange: 'mx.blocking.test' }] },
    'mx.blocking.test': { A: ['127.0.0.1'] },
  })
  service = await createTestApi({
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(receiver.port) },
  })
  const { app, actor } = service
  for (const domain of ['sender.test', 'keyless.test']) await createDomain(app, actor, domain)
  app.db.run('UPDATE domains SET verified_at = 1')
  app.db.run("UPDATE domains SET dkim_private_key = x'00' WHERE domain = 'keyless.test'")
})
// A rejection of our IP suspends the receiver for other mail.
beforeEach(() => void service.delivery?.scheduler.pairs.resume('mx.receiver.test'))
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await dns?.[Symbol.asyncDispose]()
  await receiver?.[Symbol.asyncDispose]()
})

const send = async (to: string | string[], from = 'ada@sender.test'): Promise<string> => {
  const email = { from, to, subject: 'Hello', text_body: 'Hello.' }
  const { status, body } = await service.api('POST', '/v1/emails', email)
  expect(status).toBe(202)
  return String(at(body, 'data', 'id'))
}

/** `data` of the detail once every recipient has had its attempt. */
async function outcome(id: string): Promise<Json & { events: Json[]; recipients: Json[] }> {
  return eventually(async () => {
    const detail = at((await service.api('GET', `/v1/emails/${id}`)).body, 'data') as Json & {
      events: Json[]
      recipients: Json[]
    }
    const eventRecipients = new Set(detail.events.map((event) => event['recipient']))
    return detail.recipients.every(({ address }) => eventRecipients.has(address)) && detail
  })
}

const deadLetterOf = async (id: string): Promise<Json | undefined> =>
  (at((await service.api('GET', '/v1/dead-letters?count=200')).body, 'data') as Json[]).find(
    (letter) => letter['email_id'] === id,
  )

interface Case {
  readonly to: string
  readonly from?: string
  readonly email: Json
  readonly recipient: Json
  readonly events: readonly Json[]
  /** `failure_reason` of its dead letter; undefined when it has none. */
  readonly deadLetter?: string
}

const nothing = { smtp_response: null, sending_ip: null }
const unbounced = { bounce_type: null, bounce_category: null }
const session = { ip_address: '127.0.0.1', remote_mta: MTA }
const raw = (more: Json): Json => ({ raw_payload: expect.objectContaining(more) })
type BounceType = 'hard' | 'soft'
const bounce = (reply: string, category: string, bounceType: BounceType): Case['events'] => [
  {
    type: 'bounced',
    bounce_type: bounceType,
    bounce_category: category,
    diagnostic_code: `smtp; ${reply}`,
    ...session,
    ...raw({ smtp_response: reply, tls: 'none: not offered', rule: ruleOf(reply) }),
  },
]
const bounced = (to: string, reply: string, category: string, bounceType: BounceType = 'hard'): Case => ({
  to,
  email: { status: 'bounced', error_message: reply, smtp_response: reply, sending_ip: '127.0.0.1' },
  recipient: { smtp_response: reply, sending_ip: '127.0.0.1', bounce_type: bounceType, bounce_category: category },
  events: bounce(reply, category, bounceType),
})
const deferred = (to: string, reply: string | null, category: string, reason: unknown, more: Json = {}): Case => ({
  to,
  email: { status: 'queued', error_message: reason, smtp_response: reply, next_retry_at: TIME },
  recipient: { smtp_response: reply, next_retry_at: TIME, ...unbounced },
  events: [
    {
      type: 'deferred',
      bounce_type: null,
      bounce_category: category,
      diagnostic_code: null,
      ...more,
      ...raw({ smtp_response: reply, reason, next_retry_at: TIME, rule: ruleOf(reply) }),
    },
  ],
})

const cases: readonly [name: string, Case][] = [
  [
    'a delivery as sent, then delivered with reply and source',
    {
      to: 'bob',
      email: { status: 'sent', error_message: null, smtp_response: QUEUED, sending_ip: '127.0.0.1' },
      recipient: { smtp_response: QUEUED, sending_ip: '127.0.0.1', ...unbounced },
      events: [
        { type: 'sent', ip_address: null, remote_mta: null, diagnostic_code: null },
        { type: 'delivered', ...session, ...raw({ smtp_response: QUEUED }) },
      ],
    },
  ],
  ['a rejection at RCPT as a hard bounce', bounced('unknown', UNKNOWN, 'invalid_recipient')],
  ['a rejection of the message as a soft bounce', bounced('spam', SPAM, 'spam_content', 'soft')],
  [
    'a permanent rejection of our IP as a deferral',
    deferred('listed@blocking.test', LISTED, 'reputation', LISTED, {
      ...session,
      remote_mta: 'mx.blocking.test [127.0.0.1]',
    }),
  ],
  ['a permanent rejection by policy as a soft bounce', bounced('ruled', RULED, 'policy', 'soft')],
  [
    'an address that needs SMTPUTF8 as a bounce with 5.6.7 when the receiver does not offer it',
    bounced(
      'jürgen',
      '553 5.6.7 Not sent: the message needs SMTPUTF8, which the receiving server does not offer',
      'protocol_error',
      'soft',
    ),
  ],
  ['a temporary rejection as a deferral', deferred('greylisted', GREYLISTED, 'rate_limited', GREYLISTED, session)],
  [
    'a connection that is lost before the message as a deferral',
    deferred('cut', null, 'connection_failure', expect.stringContaining('lost')),
  ],
  [
    'a reply of more than 64 KiB as a deferral',
    deferred('endless', null, 'connection_failure', expect.stringContaining('lost')),
  ],
  [
    'a connection that is lost after the message as uncertain, with a dead letter',
    {
      to: 'lost',
      email: { status: 'uncertain', error_message: expect.stringContaining('may have it'), smtp_response: null },
      recipient: { smtp_response: null, ...unbounced },
      events: [{ type: 'uncertain', ...session, ...raw({ reason: expect.stringContaining('may have it') }) }],
      deadLetter: 'uncertain',
    },
  ],
  [
    'a key that cannot be read as failed, with a dead letter and without a session',
    {
      to: 'nobody',
      from: 'ada@keyless.test',
      email: { status: 'failed', error_message: expect.any(String), ...nothing },
      recipient: { ...nothing, ...unbounced },
      events: [{ type: 'failed', ip_address: null, remote_mta: null, ...raw({ reason: expect.any(String) }) }],
      deadLetter: 'failed',
    },
  ],
]

// Proves: send-48, email-14, email-19, status-1, status-4, status-5, status-6, status-9, status-11, status-12
// Proves: status-15, status-16, status-18, status-24, status-27, status-28, status-29, delivery-17
test.each(cases)('an email shows %s', async (_, { to, from, email, recipient, events, deadLetter }) => {
  const address = to.includes('@') ? to : `${to}@receiver.test`
  const id = await send(address, from)
  const detail = await outcome(id)
  const sendingIp = detail['sending_ip']
  const { status } = email
  const isDelivered = status === 'sent'
  const times = {
    next_retry_at: status === 'queued' ? TIME : null,
    // Null after any definite rejection, including one of the whole message.
    delivery_started_at: isDelivered || status === 'uncertain' ? TIME : null,
  }
  expect(detail).toMatchObject({ ...times, attempts: 1, sent_at: isDelivered ? TIME : null, ...email })
  expect(detail['delivered_at']).toEqual(isDelivered ? TIME : null)
  expect(detail['email']).toMatchObject({ id, ...email })
  expect(detail.recipients).toEqual([
    {
      address,
      kind: 'to',
      status,
      attempts: 1,
      ...times,
      delivered_at: isDelivered ? TIME : null,
      sending_ip: sendingIp,
      ...recipient,
    },
  ] as never)
  const common = { id: UUID, email_id: id, account_id: service.actor.accountUuid, created_at: TIME, recipient: address }
  const laterEvents = detail.events.filter((event) => event['type'] !== 'queued')
  const sent = laterEvents.find((event) => event['type'] === 'sent')
  expect((sent?.['raw_payload'] as Json | null | undefined)?.['smtp_response'] ?? null).toBeNull()
  for (const event of laterEvents) expect(event['timestamp']).toBe(event['created_at'] as string)
  expect(laterEvents).toMatchObject(
    events.map((event) => ({ ...common, event_type: event['type'], ...event })) as never,
  )
  expect((await deadLetterOf(id))?.['failure_reason'] as string | undefined).toBe(deadLetter)
})

// Proves: email-16, email-17
test('an email with several recipients shows the worst status, the highest counts and the earliest times', async () => {
  const id = await send(['bob', 'spam', 'lost', 'gone'].map((name) => `${name}@receiver.test`))
  const { events: _, recipients, ...email } = await outcome(id)
  expect(recipients.map(({ address, status }) => [address, status])).toEqual([
    ['bob@receiver.test', 'sent'],
    ['spam@receiver.test', 'bounced'],
    ['lost@receiver.test', 'uncertain'],
    ['gone@receiver.test', 'bounced'],
  ])
  expect(email).toMatchObject({
    status: 'uncertain',
    to_address: 'bob@receiver.test',
    attempts: 1,
    error_message: expect.stringContaining('may have it'),
    smtp_response: null,
    next_retry_at: null,
    // That of the uncertain recipient.
    delivery_started_at: recipients[2]?.['delivery_started_at'],
    delivered_at: recipients[0]?.['delivered_at'],
  })

  const open = await outcome(await send(['greylisted@receiver.test', 'bob@receiver.test', 'cut@receiver.test']))
  const retries = open.recipients.map((recipient) => recipient['next_retry_at']).filter((time) => time !== null)
  expect(retries).toHaveLength(2)
  expect(open).toMatchObject({ status: 'processing', next_retry_at: retries.map(String).sort()[0] })
})

test('a hard bounce creates no dead letter', async () => {
  const id = await send('left@receiver.test')
  expect((await outcome(id))['status']).toBe('bounced')
  expect(await deadLetterOf(id)).toBeUndefined()
})
