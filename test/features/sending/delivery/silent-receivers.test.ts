/** @module Receivers that say nothing: what an attempt costs, and how it ends. On real sockets, with a clock that jumps. */
import { describe, expect, test } from 'bun:test'
import type { DeliverJob, Route } from '#features/sending/delivery/protocol.ts'
import { FailedAddresses } from '#features/sending/delivery/sites/route.ts'
import { toVerdict } from '#features/sending/delivery/verdict/outcome.ts'
import { AttemptTrace, Connections } from '#features/sending/delivery/worker/connections.ts'
import { SessionPool, transmit } from '#features/sending/delivery/worker/deliver.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { SmtpTimedPhase } from '#protocols/smtp/timeouts.ts'
import { eventually } from '#test/support/app.ts'
import { startBlackHole } from '#test/support/black-hole.ts'
import { reactAt, startMisbehaving } from '#test/support/misbehaving.ts'
import { testCertificate } from '#test/support/scripted-smtp.ts'
import { helloMessage, WatchedClock } from '../../../protocols/smtp/smtp-session.ts'

const JOB = { compose: { attachments: [] }, mailFrom: 'b@sender.test', rcptTo: 'bob@receiver.test', smtpUtf8: false }

/** Attempts at the addresses of a route, with time limits on a clock of their own. */
function createAttempts(port: number, addresses: readonly string[] = ['127.0.0.1']) {
  const clock = new WatchedClock()
  const memory = new FailedAddresses(clock)
  const settings = {
    contentFolder: '',
    ehloName: 'out.sender.test',
    outboundSources: [],
    tracking: { ownUrl: '' },
  }
  const connections = new Connections(clock, settings, (failure) => memory.record(failure))
  const limits = { connections: 10, bulkConnections: 8, messagesPerConnection: 100, maxAgeMs: minutes(5) }
  const sessions = new SessionPool(clock, { key: 'receiver.test', idleMs: seconds(5), ...limits }, () => undefined)
  const route: Route = {
    site: 'receiver.test',
    hosts: [{ host: 'receiver.test', addresses }],
    port,
    fromOutboundIps: true,
    tls: 'opportunistic',
  }
  const run = (trace = new AttemptTrace(clock)) =>
    transmit({ ...JOB, route: memory.apply(route) } as unknown as DeliverJob, [helloMessage], connections, sessions, {
      beforeBody: () => Promise.resolve(),
      signal: new AbortController().signal,
      trace,
    })
  /** Starts an attempt; `after` resolves once this phase of it has ended. */
  const begin = () => {
    const trace = new AttemptTrace(clock)
    const after = (phase: SmtpTimedPhase) => eventually(() => phase in trace.toData().timings)
    return { attempt: run(trace), after }
  }
  return { clock, sessions, run, begin }
}

/** Waits until something waits for this long, then lets the time pass. */
async function pass(clock: WatchedClock, ms: number): Promise<void> {
  await eventually(() => clock.waitsMs.includes(ms))
  clock.advance(ms)
}

describe('a receiver that says nothing', () => {
  // The phase before the silence is awaited, because several phases have the same limit.
  test.each([
    ['banner', minutes(5), 'deferred', 0, 'connect'],
    ['ehlo', minutes(5), 'deferred', 0, 'greeting'],
    ['mail', minutes(5), 'deferred', 0, 'ehlo'],
    ['rcpt', minutes(5), 'deferred', 0, 'mail'],
    ['data', minutes(2), 'deferred', 0, 'rcpt'],
    ['dot', minutes(10), 'uncertain', 1, 'begin'],
  ] as const)('at %s ends the attempt after %d ms, %s', async (step, timeoutMs, kind, dots, previous) => {
    await using receiver = await startMisbehaving({ react: reactAt(step, { end: 'silence' }) })
    const { clock, begin } = createAttempts(receiver.port)
    const { attempt, after } = begin()
    await after(previous)
    await eventually(() => receiver.messages.length === dots)
    await pass(clock, timeoutMs)
    const { result } = await attempt
    expect(toVerdict(result).kind).toBe(kind)
    expect(JSON.stringify(result)).toContain(`within ${timeoutMs / 1000} s`)
    expect({ connections: receiver.connections, dots: receiver.messages.length }).toEqual({ connections: 1, dots })
    expect(clock.waitsMs).toEqual([])
  })

  test('in the TLS handshake gets the message in clear over a second connection', async () => {
    await using receiver = await startMisbehaving({
      tls: testCertificate,
      react: reactAt('handshake', { end: 'silence' }),
    })
    const { clock, sessions, run } = createAttempts(receiver.port)
    const attempt = run()
    await pass(clock, minutes(1))
    const { result, session } = await attempt
    expect(toVerdict(result).kind).toBe('sent')
    expect(session?.tls).toBe('none: handshake failed: The TLS handshake did not end within 60 s')
    expect({ connections: receiver.connections, dots: receiver.messages.length }).toEqual({ connections: 2, dots: 1 })
    sessions.closeAllIdle()
  })

  test('to pipelined commands, although it offers PIPELINING, defers; nothing was sent', async () => {
    await using receiver = await startMisbehaving({ dropsPipelined: true })
    const { clock, begin } = createAttempts(receiver.port)
    const { attempt, after } = begin()
    await after('mail')
    await pass(clock, minutes(5))
    expect((await attempt).result).toMatchObject({ kind: 'lost', phase: 'rcpt', failure: { kind: 'timeout' } })
    expect({ connections: receiver.connections, dots: receiver.messages.length }).toEqual({ connections: 1, dots: 0 })
  })
})

test('an IPv6 address that never answers costs one timeout, not one for each connection', async () => {
  await using receiver = await startMisbehaving()
  await using _hole = await startBlackHole('::1', receiver.port)
  const { clock, sessions, run } = createAttempts(receiver.port, ['::1', '127.0.0.1'])
  const attempt = run()
  await pass(clock, seconds(30))
  const { result, session } = await attempt
  expect(toVerdict(result).kind).toBe('sent')
  expect(session?.address).toBe('127.0.0.1')
  for (let connection = 2; connection <= 5; connection++) {
    sessions.closeAllIdle()
    // Ends although the clock stands still: nothing waits for the address.
    expect(toVerdict((await run()).result).kind).toBe('sent')
    expect({ connections: receiver.connections, dots: receiver.messages.length }).toEqual({
      connections: connection,
      dots: connection,
    })
  }
  sessions.closeAllIdle()
  // Then the memory ends, and the address is tried again.
  clock.advance(minutes(5))
  const later = run()
  await pass(clock, seconds(30))
  expect(toVerdict((await later).result).kind).toBe('sent')
  sessions.closeAllIdle()
})
