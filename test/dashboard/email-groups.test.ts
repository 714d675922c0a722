/** @module What the screens of emails put together, leave out and export. */
import { expect, test } from 'bun:test'
import type { Email, EmailEvent, EmailRecipient, EmailSummary, RecipientExplanation } from '#client/api.ts'
import { formatTime, toShownState } from '#dashboard/parts/format.ts'
import {
  groupEvents,
  groupOutcomes,
  isBestSentAgain,
  toAdvice,
  toCsv,
  toEmailQuery,
  toFurtherMail,
  toHeadline,
  toSummary,
} from '#dashboard/screens/emails/format.ts'

const event = (type: string, recipient: string | null, reply?: string) =>
  ({ id: `${type}${reply}`, type, recipient, raw_payload: reply ? { smtp_response: reply } : null }) as EmailEvent

test('attempts that follow each other with the same reply are one entry', () => {
  const full = Array.from({ length: 400 }, () => event('deferred', 'bob@a.test', '452 full'))
  const events = [event('queued', null), ...full, event('deferred', 'eve@a.test', '452 full')]
  const groups = groupEvents(
    [...events, event('deferred', 'bob@a.test', '450 grey'), full[0] as EmailEvent],
    'bob@a.test',
  )
  expect(groups.map(({ type, events: { length } }) => [type, length])).toEqual([
    ['queued', 1],
    ['deferred', 400],
    ['deferred', 1],
    ['deferred', 1],
  ])
  const delivered = [event('sent', 'bob@a.test'), event('delivered', 'bob@a.test', '250')]
  expect(groupEvents(delivered, 'bob@a.test').map(({ type }) => type)).toEqual(['delivered'])
  expect(groupEvents(delivered.slice(0, 1), 'bob@a.test').map(({ type }) => type)).toEqual(['sent'])
})

test('recipients of whom the same is said are one group, those to look at first', () => {
  const explanations = (['sent', 'bounced', 'sent', 'deferred', 'complained'] as const).map(
    (state, index) => ({ state, sentence: state, address: `${index}@a.test` }) as RecipientExplanation,
  )
  const recipients = explanations.map(({ address }) => ({ address, kind: 'cc' }) as EmailRecipient)
  const groups = groupOutcomes({ explanations, recipients })
  expect(groups.map(({ outcome: { state }, recipients: { length } }) => [state, length])).toEqual([
    ['bounced', 1],
    ['complained', 1],
    ['deferred', 1],
    ['sent', 2],
  ])
  expect(toSummary({ state: 'deferred', explanations })).toBe('2 delivered, 1 bounced, 1 deferred, 1 spam complaint.')
  const next = explanations.map((one) => ({ ...one, next_at: '2026-01-03T12:00:00.000Z' }))
  expect(toSummary({ state: 'deferred', explanations: next })).toEndWith(
    `Next attempt ${formatTime('2026-01-03T12:00:00.000Z')}.`,
  )
})

test('the state of mail that was reported is never delivered', () => {
  const row = { engagement: ['opened', 'complained'] } as const
  expect(toShownState(row, 'sent')).toBe('complained')
  expect(toShownState({ engagement: ['opened', 'clicked'] }, 'sent')).toBe('clicked')
  expect(toShownState(row, 'bounced')).toBe('bounced')
})

test('a range of days and what recipients did are filters of /v1', () => {
  const now = new Date('2026-11-21T15:00:00')
  expect(toEmailQuery({ status: 'opened', q: 'bob', cursor: 'c' }, now)).toMatchObject({
    engagement: 'opened',
    q: 'bob',
  })
  expect(toEmailQuery({ status: 'bounced' }, now)).toMatchObject({ status: 'bounced' })
  const starts = ['1', '7', '30'].map((range) => toEmailQuery({ range, from_date: '2020-01-01' }, now)['from_date'])
  expect(starts).toEqual(
    ['2026-11-21', '2026-11-15', '2026-10-23'].map((day) => new Date(`${day}T00:00:00`).toISOString()),
  )
  const custom = toEmailQuery({ range: 'custom', from_date: '2026-11-01' }, now)
  expect(custom['from_date']).toBe(new Date('2026-11-01T00:00:00').toISOString())
  expect(Object.keys(custom)).not.toContain('range')
})

test('no cell of the file runs as a formula of a spreadsheet', () => {
  const row = { subject: '=HYPERLINK("x")', to: '@a', cc: ['b', 'c'], tags: [], engagement: [], state: 'sent' } as const
  const csv = toCsv([
    { ...row, created_at: 't', from_address: '-1', id: 'i', message_id: '<m>' } as never as EmailSummary,
  ])
  expect(csv.split('\r\n')[1]).toBe(`"t","sent","'@a","b, c","'-1","'=HYPERLINK(""x"")","","","i","<m>"`)
})

const AT = '2026-03-15T14:08:00.000Z'
const deferredAt = {
  ...event('deferred', 'bob@a.test', '450 4.7.1 Greylisted'),
  created_at: '2026-03-15T14:00:00.000Z',
}

test.each<[Partial<RecipientExplanation>, EmailEvent[], line: string]>([
  [{ state: 'scheduled', next_at: AT }, [], `Will be sent ${formatTime(AT)}`],
  [
    { state: 'sent', sentence: 'The receiving server accepted it.', at: AT, server: 'mx.a.test [192.0.2.1]' },
    [deferredAt],
    `Accepted by mx.a.test, ${formatTime(AT)}, 8 min late: its server delays new senders (greylisting).`,
  ],
  [
    { state: 'bounced', sentence: 'Expired: the mailbox is full.', at: AT },
    [],
    `Bounced, expired at ${formatTime(AT)}: the mailbox is full.`,
  ],
])('the headline of %j has the time', (outcome, events, line) => {
  expect(
    toHeadline({ events } as unknown as Email, { next_at: null, at: null, ...outcome } as RecipientExplanation),
  ).toBe(line)
})

test.each<[Partial<RecipientExplanation>, line: string]>([
  [
    { who_must_act: 'nobody', advice: 'Wait: it is tried again.', next_at: AT },
    `Wait. Next attempt ${formatTime(AT)}.`,
  ],
  [{ who_must_act: 'sender', advice: 'Correct it.', next_at: null }, 'Correct it.'],
  [{ who_must_act: 'operator', advice: 'Read it.', next_at: null }, 'The operator of this server must act. Read it.'],
])('the advice of %j is one line', (outcome, line) => {
  expect(toAdvice({ state: 'deferred', ...outcome } as RecipientExplanation)).toBe(line)
})

test('further mail is in the answer, except while the address is suppressed and the headline says it', () => {
  const shown = (['bounced', 'rejected'] as const).map((state) =>
    toFurtherMail({ state, suppression: {}, further_mail: 'No further mail.' } as RecipientExplanation),
  )
  expect(shown).toEqual(['No further mail.', null])
})

test('what bounced at a dead address is not offered to be sent again, what expired is', () => {
  const isOffered = (bounce_category: string) =>
    isBestSentAgain({
      actions: [{ name: 'resend' }],
      explanations: [{ state: 'bounced' }],
      recipients: [{ bounce_category }],
    } as unknown as Email)
  expect([isOffered('dns_failure'), isOffered('expired')]).toEqual([false, true])
})
