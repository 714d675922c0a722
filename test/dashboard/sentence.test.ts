import { describe, expect, test } from 'bun:test'
import { toProvider } from '#dashboard/screens/emails/providers.ts'
import { type DescribedEmail, sentence } from '#dashboard/screens/emails/sentence.ts'

const NOW = '2026-03-15T12:30:00.000Z'
const NEXT = '2026-03-15T14:03:00.000Z'

type Recipient = DescribedEmail['recipients'][number]
type Event = DescribedEmail['events'][number]

const recipient = (status: string, given: Partial<Recipient> = {}): Recipient => ({
  address: 'bob@outlook.com',
  kind: 'to',
  status,
  attempts: status === 'queued' || status === 'scheduled' ? 0 : 1,
  next_retry_at: null,
  delivery_started_at: null,
  delivered_at: status === 'sent' ? NOW : null,
  smtp_response: null,
  sending_ip: null,
  bounce_type: null,
  bounce_category: null,
  ...given,
})

const event = (type: string, data: Record<string, unknown> = {}, given: Partial<Event> = {}): Event => ({
  id: 'event',
  email_id: 'email',
  account_id: 'account',
  event_type: type,
  type,
  created_at: NOW,
  timestamp: NOW,
  recipient: 'bob@outlook.com',
  bounce_category: (data['bounce_category'] as string | undefined) ?? null,
  raw_payload: data,
  ...given,
})

const say = (recipients: readonly Recipient[], events: readonly Event[] = [], given: Partial<DescribedEmail> = {}) =>
  sentence(
    {
      sandbox: false,
      scheduled_at: null,
      updated_at: NOW,
      recipients: [...recipients],
      events: [...events],
      ...given,
    },
    { now: new Date(NOW), locale: 'en-GB', timeZone: 'UTC' },
  )

describe('the sentence about an email to one recipient', () => {
  test('names what an email waits for', () => {
    expect(say([recipient('queued')])).toBe('It waits to be sent; the first attempt starts soon.')
    expect(say([recipient('processing')])).toBe('It is being sent to Outlook now.')
    expect(say([recipient('scheduled')], [], { scheduled_at: NEXT })).toBe('It will be sent at 14:03.')
    expect(say([recipient('scheduled')], [], { scheduled_at: '2026-03-16T09:00:00.000Z' })).toBe(
      'It will be sent on 16 Mar 2026 at 09:00.',
    )
    const held = event('deferred', { reason: 'The account is paused', next_retry_at: NEXT })
    expect(say([recipient('queued')], [held])).toBe('It is held: “The account is paused”; next attempt at 14:03.')
  })

  test('explains a deferral by its category, else by the reply', () => {
    const deferred = recipient('queued', { attempts: 2, next_retry_at: NEXT })
    expect(say([deferred], [event('deferred', { bounce_category: 'rate_limited' })])).toBe(
      'Outlook refused it for now: too much mail came at once; next attempt at 14:03.',
    )
    expect(say([deferred], [event('deferred', { bounce_category: 'connection_failure' })])).toBe(
      'Outlook could not be reached: no connection could be made; next attempt at 14:03.',
    )
    expect(say([deferred], [event('deferred', { bounce_category: 'unknown', smtp_response: '451 4.0.0 Later' })])).toBe(
      'Outlook refused it for now: “451 4.0.0 Later”; next attempt at 14:03.',
    )
    expect(say([deferred])).toBe('Outlook refused it for now; next attempt at 14:03.')
    const greylisted = { bounce_category: 'rate_limited', smtp_response: '451 4.7.1 Greylisted, come back later' }
    expect(say([deferred], [event('deferred', greylisted)])).toBe(
      'Outlook refused it for now: it makes senders that it does not know try again later (greylisting); next attempt at 14:03.',
    )
  })

  test('says who accepted it, and how the recipient reacted', () => {
    expect(say([recipient('sent')])).toBe('Outlook accepted it at 12:30.')
    const relayed = event('delivered', { relay: true }, { remote_mta: 'smtp.relay.test [192.0.2.1]' })
    expect(say([recipient('sent')], [relayed, event('opened')])).toBe(
      'Your relay smtp.relay.test accepted it at 12:30, and it was opened.',
    )
    expect(say([recipient('sent', { address: 'bob@example.test' })])).toBe('example.test accepted it at 12:30.')
    expect(say([recipient('sent')], [event('opened')])).toBe('Outlook accepted it at 12:30, and it was opened.')
    expect(say([recipient('sent')], [event('complained'), event('opened', {}, { recipient: 'other@a.test' })])).toBe(
      'Outlook accepted it at 12:30, and the recipient reported it as spam.',
    )
  })

  test('names captured mail as such', () => {
    expect(say([recipient('sent')], [], { sandbox: true })).toBe(
      'It was captured and not sent, because its domain is not verified.',
    )
    expect(say([recipient('sent', { smtp_response: '250 2.6.0 Captured' })])).toBe(
      'It was captured and not sent, because this service captures all mail.',
    )
  })

  test('explains why an email is not delivered', () => {
    expect(say([recipient('bounced', { bounce_category: 'invalid_recipient' })])).toBe(
      'Outlook rejected it: the address does not exist; it is not tried again.',
    )
    expect(
      say([recipient('bounced')], [event('bounced', { bounce_category: 'invalid_recipient', suppressed: true })]),
    ).toBe(
      'Outlook rejected it: the address does not exist; it is not tried again, and the address was put on your suppression list.',
    )
    expect(say([recipient('bounced', { bounce_category: 'expired' })])).toBe(
      'Outlook did not accept it in time; it is not tried again.',
    )
    expect(say([recipient('bounced', { smtp_response: `550 ${'x'.repeat(500)}` })])).toBe(
      `Outlook rejected it: “550 ${'x'.repeat(156)}…”; it is not tried again.`,
    )
    expect(say([recipient('failed')], [event('failed', { reason: 'The template is broken' })])).toBe(
      'It could not be sent: “The template is broken”; it waits among the dead letters.',
    )
    expect(say([recipient('uncertain')])).toStartWith('It is unknown whether Outlook has it')
    expect(say([recipient('cancelled')])).toBe('It was cancelled at 12:30 and never sent.')
    expect(say([recipient('rejected')], [event('rejected', { reason: 'suppressed', suppression: 'complaint' })])).toBe(
      'It was not sent: bob@outlook.com is on your suppression list (reported as spam).',
    )
    expect(say([recipient('rejected')], [event('rejected', { reason: 'erased' })])).toBe(
      'It was not sent: the data of the recipient was erased.',
    )
  })

  test('shows an unknown status as it is', () => {
    expect(say([recipient('new_status')])).toBe('The status of it is new_status.')
    expect(say([])).toBe('It has no recipient.')
  })
})

describe('the sentence about an email to several recipients', () => {
  const at = (address: string, status: string, given: Partial<Recipient> = {}) =>
    recipient(status, { address, ...given })

  test('counts those in the same state', () => {
    expect(say([at('a@gmail.com', 'sent'), at('b@gmail.com', 'sent')])).toBe('Delivered to all 2 recipients.')
    expect(say([at('a@gmail.com', 'scheduled'), at('b@gmail.com', 'scheduled')], [], { scheduled_at: NEXT })).toBe(
      'Scheduled for all 2 recipients at 14:03.',
    )
  })

  test('names a single recipient with a problem', () => {
    const deferral = event('deferred', { bounce_category: 'mailbox_full' }, { recipient: 'c@icloud.com' })
    expect(
      say(
        [
          at('a@gmail.com', 'sent'),
          at('b@example.test', 'bounced', { bounce_category: 'invalid_recipient' }),
          at('c@icloud.com', 'queued', { attempts: 1, next_retry_at: NEXT }),
        ],
        [deferral],
      ),
    ).toBe(
      'Delivered to 1 of 3 recipients; iCloud refused the email to c@icloud.com for now: the mailbox is full; next attempt at 14:03; example.test rejected the email to b@example.test: the address does not exist; it is not tried again.',
    )
  })

  test('counts several with the same problem, with the earliest attempt', () => {
    const later = '2026-03-15T15:00:00.000Z'
    expect(
      say([
        at('a@gmail.com', 'queued', { attempts: 1, next_retry_at: later }),
        at('b@gmail.com', 'queued', { attempts: 1, next_retry_at: NEXT }),
      ]),
    ).toBe('Refused for now for all 2 recipients; next attempt at 14:03.')
  })
})

test('providers are named by the domain of an address', () => {
  expect(toProvider('a@GMX.de')).toBe('GMX')
  expect(toProvider('"a@b"@hotmail.com')).toBe('Outlook')
  expect(toProvider('a@example.test')).toBe('example.test')
})
