import { expect, test } from 'bun:test'
import { toVerdict } from '#features/sending/delivery/outcome.ts'
import { ReplyAlerts } from '#features/sending/delivery/reply-alerts.ts'
import { createLog } from '#platform/log.ts'
import { hours, minutes } from '#platform/units.ts'
import { parseReply } from '#test/corpus/replies/replies.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const LISTED = '554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org'
const GREYLISTED = '450 4.2.0 Greylisted'
const refusal = (text: string) => toVerdict({ kind: 'refused', reply: parseReply(text), phase: 'mail' })

test('the operator is warned of a block once an hour for each rule and provider, with the number of the others', () => {
  const lines: Record<string, unknown>[] = []
  const clock = new ManualClock(Date.UTC(2026, 0, 1))
  const alerts = new ReplyAlerts(clock, createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) }))
  const note = (text: string, provider: string | undefined) =>
    alerts.note(refusal(text), { site: 'mx.receiver.test', provider, session: undefined })
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
