/**
 * @module Two customers of one named provider: what the server of one says in its own words, from RCPT on, neither delays
 * the mail to the other nor lowers the provider's rate; what the provider itself says does.
 */
import { expect, test } from 'bun:test'
import { seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { advanceUntil } from '#test/support/delivery-time.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { reactAt, startMisbehaving } from '#test/support/misbehaving.ts'
import type { Step } from '#test/support/receiver.ts'
import { newSender } from '../flows.ts'

const MX = [{ preference: 1, exchange: 'aspmx.l.google.com' }]
const ZONE = {
  'strict.test': { MX },
  'kind.test': { MX },
  'aspmx.l.google.com': { A: ['127.0.0.1'] },
}

// Proves: delivery-3
test.each([
  ['rcpt', '550 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'],
  ['rcpt', '450 4.7.1 Too many messages from you, slow down'],
  ['data', '451 4.7.0 Throttled by our gateway'],
  ['dot', '550 5.7.1 Your IP is on our blacklist - gcdp'],
] as readonly (readonly [Step, string])[])('at %s, %s', async (step, reply) => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  await using receiver = await startMisbehaving({
    react: (at) => (at.step === step && at.rcptTo.endsWith('@strict.test') ? reply : undefined),
  })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port, clock })
  const { service } = flow
  const other = await newSender(flow)
  const refused = await Promise.all(Array.from({ length: 4 }, (_, n) => flow.send({ to: `r${n}@strict.test` })))
  for (const each of refused) await flow.settled(each)
  // A lowered rate pauses for 15 seconds; the limits of the provider itself need a fraction of one.
  const begunAt = clock.now()
  await other.send(...Array.from({ length: 4 }, (_, n) => `r${n}@kind.test`))
  const countKind = () => receiver.messages.filter(({ rcptTo }) => rcptTo.endsWith('@kind.test')).length
  await advanceUntil(clock, service, () => countKind() === 4 || clock.now() - begunAt > seconds(5), 100)
  expect(countKind()).toBe(4)
  await eventually(() => service.delivery?.scheduler.inFlight === 0)
  const pairs = service.delivery?.scheduler.pairs.all() ?? []
  expect(pairs.map(({ key, state }) => [key, state])).toEqual([
    ['gmail', { factor: 1, learnedPerMinute: undefined, suspension: undefined }],
  ])
  expectBalanced(service)
})

test('at MAIL, words of the provider about too many messages halve its rate', async () => {
  const busy = { reply: '421 4.7.0 Try again later, closing connection.', end: 'close' } as const
  await using receiver = await startMisbehaving({ react: reactAt('mail', busy) })
  await using flow = await startMailFlow({ zone: ZONE, smtpPort: receiver.port })
  await flow.outcome('r@kind.test')
  const pairs = flow.service.delivery?.scheduler.pairs.all() ?? []
  expect(pairs.map(({ key, state }) => [key, state.factor, state.suspension])).toEqual([['gmail', 0.5, undefined]])
})
