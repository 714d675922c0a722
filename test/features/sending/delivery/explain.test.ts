/** @module The explanation of an email as a table: one row for each situation. */
import { describe, expect, test } from 'bun:test'
import type { EventData, EventType } from '#features/core/events/record.ts'
import { RESTORED_REASON } from '#features/core/fence/restored.ts'
import { adviseOnAttempt, explainEmail, type Wait } from '#features/sending/delivery/control/explain.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import { toEmailState } from '#features/sending/emails/wire.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'

const BOB = 'bob@receiver.test'
const DUE = Date.UTC(2026, 2, 15, 14, 3)

const recipient = (given: Partial<StoredRecipient>): StoredRecipient => ({
  ...({ status: 'queued', attempts: 0, retryAt: DUE, lastError: null, bounceCategory: null } as StoredRecipient),
  address: BOB,
  isCaptured: false,
  ...given,
})

type StoredEvent = readonly [type: EventType, data?: EventData, address?: string | null]

interface Given {
  readonly recipients?: readonly Partial<StoredRecipient>[]
  readonly sandbox?: boolean
  readonly events?: readonly StoredEvent[]
  readonly wait?: Wait
}

const explain = ({ recipients = [{}], sandbox = false, events = [], wait }: Given) =>
  explainEmail(
    { sandbox, recipients: recipients.map(recipient) } as unknown as StoredEmail,
    events.map(([type, data, address = BOB], index) => ({
      seq: index + 1,
      type,
      at: DUE,
      recipient: address,
      data: data === undefined ? null : JSON.stringify(data),
      isSandbox: sandbox,
    })),
    { findWait: () => wait },
  )

/** One recipient with these fields, and these events. */
const one = (given: Partial<StoredRecipient>, ...events: readonly StoredEvent[]): Given => ({
  recipients: [given],
  events,
})

const deferred = (data: EventData): Given => one({ attempts: 2 }, ['deferred', data])
const bounced = (data: EventData, given: Partial<StoredRecipient> = {}): Given =>
  one({ status: 'bounced', bounceCategory: data.bounce_category ?? null, ...given }, ['bounced', data])
const sent = (...events: readonly StoredEvent[]): Given => one({ status: 'sent' }, ...events)

const IN_SANDBOX = { sandbox: true } as const
const CAPTURED = { status: 'sent', isCaptured: true } as const
const PAUSED = 'Held: The account is paused: Bought addresses.'
const TO_MX: Wait = { sentence: 'It waits for a connection to mx.' }
const HOLD: Wait = { who: 'operator', sentence: 'It is held since noon.', advice: 'Release it.', isHeld: true }
const FULL = { bounce_category: 'mailbox_full' } as const
const waiting = (category: string) => one({ lastError: 'mx: 421 No' }, ['deferred', { bounce_category: category }])
const ended = (lastError: string) => bounced({ bounce_category: 'expired' }, { lastError })

// Each with its state, who must act, and the sentence with what to do in brackets.
test.each<[situation: string, Given, state: string, said: RegExp]>([
  ['waits for its first attempt', {}, 'queued, nobody', /^It waits for its first attempt\.$/],
  ['is scheduled', one({ status: 'scheduled' }), 'scheduled, nobody', /^It will be sent at its time\.$/],
  ['is being sent', one({ status: 'processing' }), 'processing, nobody', /^It is being sent now\.$/],
  ['waits for a slow host', waiting('rate_limited'), 'queued, nobody', /^It waits: mx: 421 No\.$/],
  ['waits as our address is blocked', waiting('reputation'), 'queued, operator', /^It waits: mx: 421 No\.$/],
  ['is held for its account', one({ lastError: PAUSED }), 'held, operator', /^It is held: The account is paused: B/],
  ['is held after an attempt', one({ attempts: 1, lastError: PAUSED }), 'held, operator', /^It is held: The account/],
  [
    'is held without its content',
    one({ lastError: 'Held without its content: It is missing.' }),
    'held, operator',
    /^It is held: It is missing\.$/,
  ],
  ['waits as restored', one({ lastError: RESTORED_REASON }), 'held, operator', /^It is held: accepted before .* it\.$/],
  ['is deferred', deferred(FULL), 'deferred, recipient', /^Not accepted yet: .* is full\. \(The recipient must/],
  [
    'is greylisted',
    deferred({ bounce_category: 'rate_limited', rule: 'greylisting' }),
    'deferred, nobody',
    /yet: .* \(greylisting\)\. \(Wait: it is tried again\.\)$/,
  ],
  [
    'is deferred without a known reason',
    deferred({ bounce_category: 'unknown', smtp_response: `451 ${'x'.repeat(500)}` }),
    'deferred, nobody',
    /: “451 x{156}…”\. \(Wait: it is tried again\.\)$/,
  ],
  [
    'is deferred without events',
    one({ attempts: 1, lastError: 'The Worker ended' }),
    'deferred, nobody',
    /: “The Worker ended”\./,
  ],
  [
    'is deferred, and was held since then',
    one({ attempts: 1, lastError: 'It may send again.' }, ['deferred', FULL], ['deferred', { reason: 'Paused.' }]),
    'deferred, recipient',
    /: the mailbox is full\. \(The recipient/,
  ],
  ['was accepted', sent(), 'sent, nobody', /^The receiving server accepted it\. \(If the recipient does not see it: /],
  [
    'was relayed',
    sent(['delivered', { relay: true }]),
    'sent, nobody',
    /^The smarthost of this service accepted it\. \(If /,
  ],
  ['was opened', sent(['opened']), 'sent, nobody', /accepted it, and it was opened\.$/],
  ['was clicked', sent(['opened'], ['clicked']), 'sent, nobody', /accepted it, and a link in it was clicked\.$/],
  [
    'complained, while another opened it',
    sent(['complained'], ['opened', {}, 'other@receiver.test']),
    'complained, sender',
    /, and the recipient reported it as spam\. \(Ask whether .* before you send it\.\)$/,
  ],
  ['complained, then opened it', sent(['complained'], ['opened']), 'complained, sender', /reported it as spam\./],
  ['was simulated', { ...sent(), ...IN_SANDBOX }, 'sent, nobody', /^The simulator accepted it, and nothing left/],
  [
    'was captured in the sandbox',
    { ...one(CAPTURED), ...IN_SANDBOX },
    'captured, sender',
    /, not sent: .* verified\. \(Verify the domain/,
  ],
  ['was captured by the delivery mode', one(CAPTURED), 'captured, operator', /, not sent: the delivery mode .*`\.$/],
  [
    'got the reply of the capture server from another',
    one({ status: 'sent', smtpResponse: '250 2.6.0 Captured' }),
    'sent, nobody',
    /^The receiving server accepted it\. \(If /,
  ],
  [
    'bounced and was suppressed',
    bounced({ bounce_category: 'inactive_mailbox', suppressed: true }),
    'bounced, sender',
    /^Not accepted: .* any more\. \(Ask the recipient for another address\.\)$/,
  ],
  [
    'bounced for want of a mailbox',
    bounced({ bounce_category: 'invalid_recipient', smtp_response: '550 5.1.1 Unknown' }),
    'bounced, sender',
    /^Not accepted: there is no such mailbox\. \(Ask the recipient/,
  ],
  [
    'bounced without events',
    one({ status: 'bounced', bounceCategory: 'mailbox_full', lastError: '552 Full' }),
    'bounced, recipient',
    /: the mailbox is full\. \(The recipient must make space/,
  ],
  [
    'expired',
    ended('Not delivered in time; 450 No'),
    'bounced, sender',
    /^Not delivered in time; 450 No\. \(Send it a/,
  ],
  [
    'expired while its mailbox was full',
    one(
      {
        status: 'bounced',
        bounceCategory: 'expired',
        lastError: 'Not delivered in time; the last attempt ended with: 452',
      },
      ['deferred', FULL],
    ),
    'bounced, sender',
    /^Expired: the mailbox is full\. \(The recipient must make space in the mailbox\. Then send it again/,
  ],
  ['was ended by the operator', ended('Ended by the operator: Oops'), 'bounced, sender', /^Ended by .*\. \(Send it a/],
  [
    'failed',
    one({ status: 'failed', lastError: 'Broken' }),
    'failed, operator',
    /compose .*: “Broken”\. \(The log says/,
  ],
  [
    'is uncertain',
    one({ status: 'uncertain' }),
    'uncertain, sender',
    /may have the message\. \(Ask .* deliver it twice/,
  ],
  ['was suppressed', one({ status: 'rejected', lastError: 'On the list.' }), 'rejected, sender', /^Not sent: On the l/],
  ['was erased', one({ status: 'rejected' }), 'rejected, sender', /^Not sent: .* its data were erased\.$/],
  ['was cancelled', one({ status: 'cancelled' }), 'cancelled, nobody', /^It was cancelled before it was sent\.$/],
  ['was dropped', one({ status: 'cancelled', lastError: 'Dropped.' }), 'cancelled, nobody', /^Dropped\.$/],
  ['waits for its turn', { ...deferred(FULL), wait: TO_MX }, 'deferred, recipient', /^It waits for a conn[^(]*\.$/],
  ['is held by the operator', { wait: HOLD }, 'held, operator', /^It is held since noon\. \(Release it\.\)$/],
])('a recipient that %s', (_, given, state, said) => {
  const { explanations, sentence } = explain(given)
  const [only] = explanations
  expect(`${only?.state}, ${only?.who_must_act}`).toBe(state)
  expect(`${sentence}${only?.advice ? ` (${only.advice})` : ''}`).toMatch(said)
})

test('further mail: none is said of an erased recipient', () => {
  const recipients = [{ status: 'rejected' } as const, { status: 'rejected', address: ERASED_ADDRESS } as const]
  expect(explain({ recipients }).explanations.map(({ further_mail }) => further_mail)).toEqual([
    expect.stringContaining('is sent to the address'),
    null,
  ])
})

test.each([
  ['is scheduled', { status: 'scheduled' }, true],
  ['waits', {}, true],
  ['is held', { lastError: 'Held: Paused.' }, false],
  ['is being sent', { status: 'processing' }, false],
] as const)('a recipient that %s has a next time, if it has one', (_, given, hasTime) => {
  const [explanation] = explain(one(given)).explanations
  expect(explanation).toMatchObject({ address: BOB, next_at: hasTime ? '2026-03-15T14:03:00.000Z' : null })
})

test('of several recipients, the sentence counts the states', () => {
  const recipients = [{ status: 'sent' }, { attempts: 1 }, { status: 'sent' }] as const
  expect(explain({ recipients }).sentence).toBe('Of 3 recipients: 2 sent, 1 deferred (bob@receiver.test).')
  expect(explain({ recipients: [] }).sentence).toBe('It has no recipient.')
})

test.each([
  ['queued', [{}], 'queued'],
  ['queued', [{ attempts: 1 }], 'deferred'],
  ['processing', [{ status: 'sent' }, { attempts: 1 }], 'deferred'],
  ['processing', [{ status: 'sent' }, { lastError: 'Held: Paused.' }], 'held'],
  ['processing', [{ status: 'sent' }, { status: 'processing', attempts: 2 }], 'processing'],
  ['sent', [{ status: 'sent' }, { status: 'rejected' }], 'sent'],
  ['sent', [{ status: 'sent', isCaptured: true }, { status: 'rejected' }], 'captured'],
  ['bounced', [{ status: 'sent', isCaptured: true }, { status: 'bounced' }], 'bounced'],
] as const)('an email with the status %s and %j is %s', (status, recipients, state) => {
  expect(toEmailState({ status, engagement: 0, recipients: recipients.map(recipient) })).toBe(state)
})

describe('after an attempt, who must act depends on its category and on whether the mail is retried', () => {
  test.each([
    ['invalid_recipient', 'sender', 'sender'],
    ['inactive_mailbox', 'sender', 'sender'],
    ['mailbox_full', 'recipient', 'recipient'],
    ['spam_content', 'sender', 'sender'],
    ['policy', 'sender', 'sender'],
    ['authentication', 'sender', 'sender'],
    ['reputation', 'operator', 'operator'],
    ['rate_limited', 'nobody', 'operator'],
    ['message_too_large', 'sender', 'sender'],
    ['dns_failure', 'nobody', 'sender'],
    ['connection_failure', 'nobody', 'recipient'],
    ['tls_failure', 'recipient', 'recipient'],
    ['protocol_error', 'operator', 'operator'],
    ['relay_denied', 'recipient', 'recipient'],
    ['expired', 'sender', 'sender'],
    ['unknown', 'nobody', 'sender'],
    // Of a later version.
    ['no_such_category', 'nobody', 'sender'],
    [null, 'nobody', 'sender'],
  ] as const)('%s: %s while retried, then %s', (category, whileRetried, finally_) => {
    const data = { bounce_category: category }
    const advise = (type: EventType, status: Parameters<typeof adviseOnAttempt>[1]) =>
      adviseOnAttempt({ type, data }, status)
    const final = advise('bounced', 'bounced')
    expect(final).toEqual({ who: finally_, text: expect.stringMatching(/^[A-Z].*\.$/) })
    expect(advise('deferred', 'bounced')).toEqual(final)
    expect(advise('deferred', 'queued')).toEqual({ who: whileRetried, text: `${final.text} The mail is retried.` })
    expect(advise('deferred', 'sent')).toEqual({ who: 'nobody', text: `${final.text} A later attempt was accepted.` })
  })

  test.each<[EventData, who: string, text: RegExp]>([
    [{ bounce_category: 'tls_failure', relay: true }, 'operator', /smarthost/],
    [{ bounce_category: 'connection_failure', relay: true }, 'operator', /smarthost/],
    [{ bounce_category: 'dns_failure', relay: true }, 'operator', /smarthost/],
    [{ bounce_category: 'relay_denied', relay: true }, 'operator', /smarthost/],
    [{ bounce_category: 'mailbox_full', relay: true }, 'recipient', /mailbox is full/],
    [
      { bounce_category: 'dns_failure', reason: '550 5.1.2 The domain a.test does not exist' },
      'sender',
      /typing error/,
    ],
    [{ bounce_category: 'invalid_recipient', rule: 'unknown-domain' }, 'sender', /typing error/],
    [{ bounce_category: 'dns_failure', smtp_response: '550 5.4.4 No host has an address' }, 'sender', /no mail server/],
    [{ bounce_category: 'rate_limited', rule: 'disguised-greylisting' }, 'nobody', /greylisting/],
    [{ bounce_category: 'rate_limited', rule: 'rate' }, 'operator', /limits the rate/],
  ])('%j: %s', (data, who, text) => {
    const expected: object = { who, text: expect.stringMatching(text) }
    expect(adviseOnAttempt({ type: 'bounced', data }, 'bounced')).toEqual(expected as never)
  })

  test.each([
    ['delivered', 'nobody'],
    ['uncertain', 'sender'],
    ['failed', 'operator'],
  ] as const)('%s: %s', (type, who) => {
    expect(adviseOnAttempt({ type, data: {} }).who).toBe(who)
  })
})
