/** @module Who must act after an attempt and for a recipient, as a table. */
import { describe, expect, test } from 'bun:test'
import { adviseOn, adviseOnRecipient, type RecipientFinding } from '#features/sending/delivery/advice.ts'
import { NO_SERVICE_REASON, STALLED_REASON } from '#features/sending/delivery/wait-reasons.ts'

const CATEGORIES = [
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
] as const

describe('after an attempt, who must act depends on its category and on whether the mail is retried', () => {
  test.each(CATEGORIES)('%s: %s while retried, then %s', (category, whileRetried, finally_) => {
    const deferred = adviseOn({ outcome: 'deferred', category, isRelayed: false })
    expect(deferred.who).toBe(whileRetried)
    expect(deferred.text).toEndWith('The mail is retried.')
    const earlier = { outcome: 'deferred', category, isRelayed: false } as const
    expect(adviseOn({ ...earlier, statusNow: 'bounced' })).toEqual(adviseOn({ ...earlier, outcome: 'bounced' }))
    const delivered = adviseOn({ ...earlier, statusNow: 'sent' })
    expect([delivered.who, delivered.text]).toEqual([
      'nobody',
      expect.stringMatching(/ A later attempt was accepted\.$/),
    ])
    const bounced = adviseOn({ outcome: 'bounced', category, isRelayed: false })
    expect(bounced.who).toBe(finally_)
    expect(bounced.text).not.toContain('is retried')
  })

  test("the smarthost is the operator's", () => {
    const who = (category: string) => adviseOn({ outcome: 'deferred', category, isRelayed: true }).who
    expect(['tls_failure', 'connection_failure', 'dns_failure', 'relay_denied', 'mailbox_full'].map(who)).toEqual([
      'operator',
      'operator',
      'operator',
      'operator',
      'recipient',
    ])
  })

  test('greylisting, and a domain that does not exist, have causes of their own', () => {
    const advise = (category: string, rule: string, reason?: string) =>
      adviseOn({ outcome: 'bounced', category, rule, reason, isRelayed: false }).text
    expect(advise('rate_limited', 'greylisting')).toBe('The server delays mail from unknown senders (greylisting).')
    expect(advise('rate_limited', 'disguised-greylisting')).toContain('delays mail from unknown senders')
    expect(advise('rate_limited', 'rate')).toBe('The receiver limits the rate of mail.')
    for (const text of [
      advise('dns_failure', 'no-route', '550 5.1.2 The domain gmial.test does not exist'),
      advise('invalid_recipient', 'unknown-domain'),
    ])
      expect(text).toContain('probably a typing error')
    expect(advise('dns_failure', 'no-route', '550 5.4.4 None of the mail hosts has an address')).not.toContain('typing')
  })

  test.each([
    ['delivered', 'nobody'],
    ['uncertain', 'sender'],
    ['failed', 'operator'],
  ] as const)('%s: %s', (outcome, who) => {
    expect(adviseOn({ outcome, category: null, isRelayed: false }).who).toBe(who)
  })
})

const WAITING: RecipientFinding = {
  status: 'queued',
  category: null,
  lastError: null,
  lastAttempt: undefined,
  captured: undefined,
  waitReason: undefined,
}
const GREYLISTED = { rule: 'greylisting', outcome: 'deferred', category: 'rate_limited', isRelayed: false } as const

test.each<[string, Partial<RecipientFinding>, string, RegExp]>([
  ['waits for its first attempt', {}, 'nobody', /first attempt/],
  ['waits for a retry', { lastAttempt: GREYLISTED, lastError: '450 Later' }, 'nobody', /greylisting.* is retried/],
  ['is due and waits for its site', { waitReason: 'waits for a connection to mx' }, 'nobody', /waits for a connection/],
  [
    'waits for a suspended provider',
    { waitReason: 'gmail is suspended until 2026-03-15T12:30:00.000Z (block-list): 554 Blocked' },
    'operator',
    /^It waits: gmail .* Blocked\. `tassis providers` shows/,
  ],
  ['is about to be delivered', { waitReason: 'is about to be delivered' }, 'nobody', /^It is about to be delivered\.$/],
  [
    'waits as restored',
    { waitReason: 'restored: waits since the data were restored from a backup; see `tassis fence`' },
    'operator',
    /^It waits since the data were restored from a backup; see `tassis fence`\.$/,
  ],
  ['is stalled', { waitReason: STALLED_REASON }, 'operator', /^It makes no progress, .*; a restart frees it\.$/],
  ['waits without a service', { waitReason: NO_SERVICE_REASON }, 'operator', /Start it: `systemctl start tassis`/],
  ['is blocked', { blockedBy: 'DNS is down.', waitReason: 'is about' }, 'operator', /^DNS is down\.$/],
  ['is held', { lastError: 'Held: The account is paused' }, 'operator', /account is paused/],
  ['is scheduled', { status: 'scheduled' }, 'nobody', /at its time/],
  ['is being sent', { status: 'processing' }, 'nobody', /now/],
  ['was sent', { status: 'sent' }, 'nobody', /accepted/],
  ['was captured in the sandbox', { status: 'sent', captured: 'domain' }, 'sender', /never verified/],
  ['was simulated', { status: 'sent', captured: 'simulator' }, 'nobody', /simulator/],
  ['was captured by the delivery mode', { status: 'sent', captured: 'mode' }, 'operator', /capture/],
  ['was suppressed', { status: 'rejected', lastError: 'on the list' }, 'sender', /on the list/],
  ['was cancelled', { status: 'cancelled' }, 'nobody', /cancelled/],
  ['bounced after a DSN', { status: 'bounced', category: 'mailbox_full' }, 'recipient', /space/],
  ['expired', { status: 'bounced', category: 'expired', lastAttempt: GREYLISTED }, 'sender', /in time/],
  [
    'was ended by the operator',
    { status: 'bounced', category: 'expired', lastAttempt: GREYLISTED, lastError: 'Ended by the operator: Oops' },
    'sender',
    /^Ended by the operator: Oops\. Send it again/,
  ],
  ['was dropped by the operator', { status: 'cancelled', lastError: 'Dropped by the operator.' }, 'nobody', /^Dropped/],
  ['is uncertain', { status: 'uncertain' }, 'sender', /twice/],
  ['failed', { status: 'failed' }, 'operator', /compose/],
])('a recipient that %s', (_, finding, who, text) => {
  const advice = adviseOnRecipient({ ...WAITING, ...finding })
  expect(advice).toEqual({ who: who as typeof advice.who, text: expect.stringMatching(text) })
})
