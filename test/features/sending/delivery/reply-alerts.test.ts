import { expect, test } from 'bun:test'
import { ReplyAlerts } from '#features/sending/delivery/attempt/reply-alerts.ts'
import type { Pair } from '#features/sending/delivery/providers/pair.ts'
import { toVerdict } from '#features/sending/delivery/verdict/outcome.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, minutes } from '#platform/units.ts'
import { parseReply } from '#test/corpus/replies/replies.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const LISTED = '554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org'
const GREYLISTED = '450 4.2.0 Greylisted'
const refusal = (text: string) => toVerdict({ kind: 'refused', reply: parseReply(text), phase: 'mail' })
/** The pair of a listed provider, or of a site without an entry. */
const pairOf = (provider: string | undefined, site = 'mx.receiver.test') => {
  const name = provider ?? site
  const isNamed = provider !== undefined
  return { key: name, provider: { name, isNamed } as Pair['provider'], sourceIp: '192.0.2.1' }
}

test('the operator is warned of a block once an hour for each rule and provider, with the number of the others', () => {
  const lines: Record<string, unknown>[] = []
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const alerts = new ReplyAlerts(clock, createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) }))
  const note = (text: string, provider: string | undefined) =>
    alerts.record(refusal(text), { site: 'mx.receiver.test', pair: pairOf(provider), session: undefined })
  for (let i = 0; i < 100; i++) note(LISTED, undefined)
  note(GREYLISTED, undefined)
  note(LISTED, 'gmx')
  clock.advance(minutes(59))
  note(LISTED, undefined)
  clock.advance(hours(1))
  note(LISTED, undefined)
  expect(lines.map(({ rule, provider, site, moreInLastHour }) => ({ rule, provider, site, moreInLastHour }))).toEqual([
    { rule: 'block-list', provider: undefined, site: 'mx.receiver.test', moreInLastHour: 0 },
    { rule: 'block-list', provider: 'gmx', site: 'mx.receiver.test', moreInLastHour: 0 },
    { rule: 'block-list', provider: undefined, site: 'mx.receiver.test', moreInLastHour: 100 },
  ])
  expect(lines[0]).toMatchObject({ category: 'reputation', reply: LISTED })
})

test('alerts are listed by rule and pair for a day after the last reply, at most 200, first of all those of listed providers', () => {
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const alerts = new ReplyAlerts(clock, createLog('silent'))
  const note = (text: string, provider: string | undefined, site?: string) =>
    alerts.record(refusal(text), { site: 'mx.receiver.test', pair: pairOf(provider, site), session: undefined })
  note(LISTED, 'gmx')
  note(GREYLISTED, 'gmail')
  clock.advance(hours(23))
  note(LISTED, undefined)
  note(`${LISTED}: ${'x'.repeat(1000)}`, 'gmx')
  expect(alerts.list()).toEqual([
    {
      rule: 'block-list',
      category: 'reputation',
      provider: 'gmx',
      isNamed: true,
      source: '192.0.2.1',
      reply: expect.stringMatching(/^554 5\.7\.1 Client host.{479}$/),
      firstAt: Date.UTC(2026, 0, 1),
      lastAt: Date.UTC(2026, 0, 1, 23),
      count: 2,
    },
    expect.objectContaining({ provider: 'mx.receiver.test', isNamed: false, count: 1 }),
  ])
  for (let n = 0; n < 1000; n++) note(LISTED, undefined, `mx${n}.test`)
  const found = alerts.list()
  expect([found.length, found[0]?.provider, found.at(-1)?.provider]).toEqual([200, 'mx999.test', 'gmx'])
  clock.advance(hours(24))
  expect(alerts.list()).toEqual([])
})
