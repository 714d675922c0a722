import { expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { queryTimeOffset } from '#protocols/ntp/sntp.ts'
import { startTimeServer, type TimeServer } from '#test/support/time-server.ts'

const NONCE = Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8])
const ask = ({ port }: Pick<TimeServer, 'port'>, timeoutMs = 20_000) =>
  queryTimeOffset(
    { host: '127.0.0.1', port },
    { clock: systemClock, timeoutMs, nonce: NONCE, signal: new AbortController().signal },
  )

test('the offset is what the server is ahead, in this era of NTP and the next', async () => {
  await using server = await startTimeServer({ now: () => Date.now() + 86_400_000 })
  expect((await ask(server)) ?? 0).toBeWithin(86_395_000, 86_405_000)
  expect(server.queries[0]?.subarray(40)).toEqual(Buffer.from(NONCE))
  server.behaviour.now = () => Date.now() - 5000
  expect((await ask(server)) ?? 0).toBeWithin(-10_000, -1)
  // 2036-02-07, when the 32 bits of seconds begin again.
  const inNextEra = Date.UTC(2040, 0, 1)
  server.behaviour.now = () => inNextEra
  const offset = (await ask(server)) ?? 0
  expect(Math.abs(Date.now() + offset - inNextEra)).toBeLessThan(20_000)
})

test('a server that refuses, has no time itself or forges its answer is not believed', async () => {
  await using server = await startTimeServer({ now: Date.now, stratum: 0 })
  expect(await ask(server)).toBeUndefined()
  server.behaviour = { now: Date.now, leap: 3 }
  expect(await ask(server)).toBeUndefined()
  server.behaviour = { now: Date.now, isForged: true }
  expect(await ask(server, 50)).toBeUndefined()
  server.behaviour = { now: Date.now, isSilent: true }
  expect(await ask(server, 50)).toBeUndefined()
  const ended = queryTimeOffset(
    { host: '127.0.0.1', port: server.port },
    { clock: systemClock, timeoutMs: 60_000, nonce: NONCE, signal: AbortSignal.abort() },
  )
  expect(await ended).toBeUndefined()
})
