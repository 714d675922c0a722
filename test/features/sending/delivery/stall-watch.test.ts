/** @module Lanes and attempts that make no progress. Real service, DNS and sockets; only the service's clock is moved. */
import { expect, spyOn, test } from 'bun:test'
import { createServer } from 'node:net'
import { LaneClaimer } from '#features/sending/delivery/schedule/lane-claimer.ts'
import { addRule } from '#features/sending/queue/queue-rules.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, minutes } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const CHECK_MS = minutes(5)
const DAY_MS = 86_400_000

test('a lane whose turn never ends and an attempt that never ends are logged once an hour; mail that waits for a known cause is not', async () => {
  const clock = new ManualClock()
  const lines: Record<string, unknown>[] = []
  // Accepts connections and never sends its greeting.
  const silent = createServer(() => undefined)
  const port = await new Promise<number>((resolve) =>
    silent.listen(0, '127.0.0.1', () => resolve((silent.address() as { port: number }).port)),
  )
  {
    await using flow = await startMailFlow({
      clock,
      log: createLog('warn', { write: (line) => void lines.push(JSON.parse(line)) }),
      smtpPort: port,
      dnsTimeoutMs: DAY_MS,
      zone: {
        'hung.test': 'SILENCE',
        'slow.test': { MX: [{ preference: 1, exchange: 'mx.slow.test' }] },
        'mx.slow.test': { A: ['127.0.0.1'] },
        'held.test': { A: ['127.0.0.1'] },
      },
    })
    const { app, service } = flow
    const scheduler = service.delivery?.scheduler
    const hold = { selector: { domain: 'held.test' }, reason: 'a test', createdBy: 'operator', createdAt: clock.now() }
    await app.commit.write((tx) => addRule(tx, { kind: 'hold', ...hold }))
    for (const domain of ['hung', 'slow', 'held']) await flow.send({ to: `bob@${domain}.test` })
    const laneOf = (domain: string) => `${flow.actor.accountId}:${domain}.test`
    const reasonOf = (domain: string) => scheduler?.states().find(({ lane }) => lane === laneOf(domain))?.reason ?? ''
    await eventually(() => reasonOf('slow').includes('1 in delivery') && reasonOf('held').includes('a test'))
    const stalled = () =>
      lines
        // Without a lane: the line about lines that the log left out.
        .filter(({ msg, lane }) => lane !== undefined && /makes no progress|all time limits/.test(String(msg)))
        .map(({ lane }) => lane)
    const pass = async (ms: number) => {
      for (let passedMs = 0; passedMs < ms; passedMs += CHECK_MS) {
        clock.advance(CHECK_MS)
        for (let tick = 0; tick < 10; tick++) await Bun.sleep(1)
      }
    }
    await pass(minutes(15))
    expect([stalled(), scheduler?.stalledLanes]).toEqual([[], 0])
    await pass(minutes(10))
    expect([stalled(), scheduler?.stalledLanes]).toEqual([[laneOf('hung')], 1])
    expect(reasonOf('hung')).toStartWith('makes no progress')
    await pass(hours(1))
    expect(stalled()).toEqual([laneOf('hung'), laneOf('hung')])
    await pass(hours(5))
    expect(new Set(stalled())).toEqual(new Set([laneOf('hung'), laneOf('slow')]))
    expect(lines.find(({ lane }) => lane === laneOf('slow'))).toMatchObject({ site: 'mx.slow.test' })
  }
  silent.close()
})

test('mail to a site that is dead for hours is attempted and expires without a warning that it makes no progress', async () => {
  // A turn takes real time, because it looks up names.
  let turns = 0
  const { pump } = LaneClaimer.prototype
  using _ = spyOn(LaneClaimer.prototype, 'pump').mockImplementation(function (this: LaneClaimer, lane) {
    turns++
    return pump.call(this, lane).finally(() => void turns--)
  })
  const clock = new ManualClock()
  const lines: Record<string, unknown>[] = []
  const domains = Array.from({ length: 8 }, (_, i) => `dead${i}.test`)
  const mx = { MX: [{ preference: 1, exchange: 'mx.dead.test' }] }
  await using flow = await startMailFlow({
    clock,
    log: createLog('info', { write: (line) => void lines.push(JSON.parse(line)) }),
    // No server listens there.
    smtpPort: 9,
    settings: { TASSIS_RETRY_EXPIRY_HOURS: '8' },
    zone: { ...Object.fromEntries(domains.map((domain) => [domain, mx])), 'mx.dead.test': { A: ['127.0.0.1'] } },
  })
  const scheduler = flow.service.delivery?.scheduler
  for (const domain of domains) for (const name of ['ada', 'bob', 'carl']) await flow.send({ to: `${name}@${domain}` })
  const states = () => scheduler?.states() ?? []
  const isAtRest = () => turns === 0 && scheduler?.inFlight === 0
  for (let passedMs = 0; passedMs < DAY_MS && states().length > 0; passedMs += CHECK_MS) {
    clock.advance(CHECK_MS)
    await eventually(isAtRest)
    expect(scheduler?.stalledLanes).toBe(0)
  }
  expect(states()).toEqual([])
  expect(lines.filter(({ msg }) => msg === 'deferred').length).toBeGreaterThan(30)
  expect(lines.filter(({ msg }) => String(msg).includes('makes no progress'))).toEqual([])
}, 240_000)
