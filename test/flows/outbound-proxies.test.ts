// Sources behind SOCKS5 proxies: what leaves through them, and what a proxy that fails or lies can do.
import { describe, expect, test } from 'bun:test'
import { adviseOnAttempt } from '#features/sending/delivery/control/explain.ts'
import { createLog } from '#platform/log/log.ts'
import { minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { laneStates } from '#test/support/lanes.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startProviderFlow } from '#test/support/provider-flow.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import {
  areProxiesAvailable,
  bytes,
  LOGIN_URL,
  type LyingProxy,
  NO_LOGIN,
  reply,
  startDante,
  startLyingProxy,
  startMicrosocks,
} from '#test/support/socks-proxies.ts'
import { drain, recipientsOf } from '../features/sending/delivery/flows.ts'

const NOON = Date.UTC(2026, 2, 15, 12, 30)
const ZONE = {
  'receiver.test': { MX: [{ preference: 1, exchange: 'mx.receiver.test' }] },
  'other.test': { MX: [{ preference: 1, exchange: 'mx.other.test' }] },
  'mx.receiver.test': { A: ['127.0.0.1'] },
  'mx.other.test': { A: ['127.0.0.1'] },
}

const via = (port: number, login = ''): string => `via socks5://${login}127.0.0.1:${port}`

/** Sends so many emails to two domains, and waits until all are final. */
async function sendAll(flow: MailFlow, clock: ManualClock, count: number): Promise<void> {
  for (let n = 0; n < count; n++) await flow.send({ to: `r${n}@${n % 2 === 0 ? 'receiver' : 'other'}.test` })
  await drain(flow, clock)
}

/** The names in EHLO by the address from which their connections come. */
const namesByAddress = ({ sessions }: ScriptedSmtp) =>
  Object.fromEntries(sessions.map(({ remoteAddress, commands }) => [remoteAddress, commands[0]]))

/** How the recipients ended, from which addresses, after how many attempts. */
const readOutcomes = ({ app }: MailFlow) =>
  app.db
    .query<{ status: number; ip: string | null; attempts: number }, []>(
      'SELECT DISTINCT status, sending_ip AS ip, attempts FROM recipients ORDER BY sending_ip',
    )
    .all()

const SENT = 3

describe.skipIf(!areProxiesAvailable())('with microsocks and Dante', () => {
  test('mail leaves from the addresses of both, with their names and limits', async () => {
    await using server = await startScriptedSmtp()
    await using one = await startMicrosocks('127.0.0.71')
    await using two = await startDante('127.0.0.72', '127.0.0.66')
    // A tenth of the limit may leave at once.
    await using big = await startProviderFlow('per_minute = 20', {
      smtpPort: server.port,
      settings: {
        TASSIS_OUTBOUND_IPS: `127.0.0.71=one.mail.test ${via(one.port, `${LOGIN_URL}@`)}, 127.0.0.72=two.mail.test ${via(two.port)}`,
      },
    })
    const { flow, clock } = big
    for (let n = 0; n < 10; n++) await flow.send({ to: `r${n}@one.test` })
    await eventually(
      () => flow.service.delivery?.scheduler.inFlight === 0 && laneStates(flow.service)[0]?.waiting === 6,
    )
    expect(namesByAddress(server)).toEqual({ '127.0.0.71': 'EHLO one.mail.test', '127.0.0.72': 'EHLO two.mail.test' })
    const sentFrom = (address: string) =>
      server.sessions.filter((s) => s.remoteAddress === address).reduce((n, { messages }) => n + messages.length, 0)
    expect([sentFrom('127.0.0.71'), sentFrom('127.0.0.72')]).toEqual([2, 2])
    await drain(flow, clock)
    expect(readOutcomes(flow)).toEqual([
      { status: SENT, ip: '127.0.0.71', attempts: 1 },
      { status: SENT, ip: '127.0.0.72', attempts: 1 },
    ])
    expectBalanced(flow.service)
  })

  test('TLS is between us and the receiver', async () => {
    await using server = await startScriptedSmtp({ extensions: ['STARTTLS'] })
    await using proxy = await startMicrosocks('127.0.0.71')
    await using flow = await startMailFlow({
      zone: ZONE,
      smtpPort: server.port,
      settings: { TASSIS_OUTBOUND_IPS: `127.0.0.71 ${via(proxy.port, `${LOGIN_URL}@`)}` },
    })
    const { recipient, events } = await flow.outcome('r@receiver.test')
    expect(recipient.status).toBe('sent')
    expect(events.at(-1)?.data).toMatchObject({ ip_address: '127.0.0.71', tls: expect.stringContaining('TLSv1.') })
    expect(server.session).toMatchObject({ secure: true, remoteAddress: '127.0.0.71' })
  })

  test('a dead one stops no other mail, counts no attempt, and is used again once it is back', async () => {
    const clock = new ManualClock(NOON)
    const port = await findFreePort()
    const lines: string[] = []
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({
      zone: ZONE,
      smtpPort: server.port,
      clock,
      log: createLog('trace', { write: (line) => void lines.push(line) }),
      settings: { TASSIS_OUTBOUND_IPS: `127.0.0.3, 127.0.0.71 ${via(port, `${LOGIN_URL}@`)}` },
    })
    await sendAll(flow, clock, 6)
    expect(readOutcomes(flow)).toEqual([{ status: SENT, ip: '127.0.0.3', attempts: 1 }])
    const about = (text: string) => lines.filter((line) => line.includes(text)).length
    expect(about('"msg":"The proxy of 127.0.0.71 refuses connections"')).toBe(1)
    await using _proxy = await startMicrosocks('127.0.0.71', { port })
    await eventually(async () => {
      clock.advance(minutes(2))
      await sendAll(flow, clock, 4)
      return namesByAddress(server)['127.0.0.71']
    })
    expect(about('the proxy of 127.0.0.71 works again')).toBe(1)
    expect(readOutcomes(flow).map(({ status, attempts }) => [status, attempts])).toEqual(Array(2).fill([SENT, 1]))
    expect(lines.join('\n')).not.toContain('hun')
    expectBalanced(flow.service)
  })

  test('mail that no other address may take waits for it, and says so', async () => {
    const clock = new ManualClock(NOON)
    const port = await findFreePort()
    await using server = await startScriptedSmtp()
    await using flow = await startMailFlow({
      zone: ZONE,
      smtpPort: server.port,
      clock,
      settings: { TASSIS_OUTBOUND_IPS: `127.0.0.71 ${via(port)}` },
    })
    const sent = await flow.send({ to: 'r@receiver.test' })
    const cause = 'The proxy of 127.0.0.71 refuses connections'
    const reason = `mx.receiver.test from 127.0.0.71 is not tried for a while: ${cause}`
    await eventually(() => {
      if (flow.service.delivery?.scheduler.inFlight === 0) clock.advance(seconds(15))
      return flow.events(sent).some(({ type, data }) => type === 'deferred' && data['reason'] === reason)
    })
    await eventually(() => {
      const found = laneStates(flow.service)[0]?.reason
      return found?.startsWith('the proxy of 127.0.0.71 is in backoff until ') && found.endsWith(cause)
    })
    expect(recipientsOf(flow)).toMatchObject([{ status: 'queued', attempts: 0 }])
    const noted = flow.events(sent).find(({ type }) => type === 'deferred')
    expect(noted?.data).toMatchObject({ rule: 'proxy-failed' })
    expect(adviseOnAttempt({ type: 'deferred', data: noted?.data ?? {} })).toMatchObject({ who: 'operator' })
    await using _proxy = await startMicrosocks('127.0.0.71', { port, login: null })
    await drain(flow, clock)
    expect(readOutcomes(flow)).toEqual([{ status: SENT, ip: '127.0.0.71', attempts: 1 }])
    expectBalanced(flow.service)
  })

  test('a receiver that refuses the proxy is itself to blame', async () => {
    const clock = new ManualClock(NOON)
    await using proxy = await startMicrosocks('127.0.0.71', { login: null })
    await using flow = await startMailFlow({
      zone: ZONE,
      smtpPort: await findFreePort(),
      clock,
      settings: { TASSIS_OUTBOUND_IPS: `127.0.0.71 ${via(proxy.port)}` },
    })
    const { recipient, events } = await flow.outcome('r@receiver.test')
    expect(recipient).toMatchObject({ status: 'queued', attempts: 1 })
    expect(events.at(-1)?.data['reason']).toMatch(
      /^mx\.receiver\.test\[127\.0\.0\.1\]:\d+: the proxy of 127\.0\.0\.71 was refused by it$/,
    )
  })
})

/** Mail from the address of a lying proxy and from one of this machine. */
async function startLiedTo(answers: LyingProxy['answers']) {
  const clock = new ManualClock(NOON)
  const server = await startScriptedSmtp()
  const proxy = await startLyingProxy(answers)
  const flow = await startMailFlow({
    zone: ZONE,
    smtpPort: server.port,
    clock,
    settings: { TASSIS_OUTBOUND_IPS: `127.0.0.3=three.mail.test, 127.0.0.71=one.mail.test ${via(proxy.port)}` },
  })
  return {
    clock,
    flow,
    proxy,
    server,
    async [Symbol.asyncDispose]() {
      for (const part of [flow, server, proxy]) await part[Symbol.asyncDispose]()
    },
  }
}

describe('a proxy that', () => {
  const lies: readonly (readonly [string, LyingProxy['answers'], isSaidOfReceiver: boolean])[] = [
    ['answers garbage', [Buffer.from('HTTP/1.1 400 Bad Request\r\n')], false],
    ['speaks SOCKS4', [bytes(4, 0)], false],
    ['closes', ['end'], false],
    ['refuses us', [bytes(5, 255)], false],
    ['fails to connect', [NO_LOGIN, reply(1)], false],
    ['does not allow it', [NO_LOGIN, reply(2)], false],
    ['closes instead of connecting', [NO_LOGIN, 'end'], false],
    // It says that this is the fault of the receiver, which counts.
    ['reaches nobody', [NO_LOGIN, reply(4)], true],
    ['connects to garbage', [NO_LOGIN, Buffer.concat([reply(0), Buffer.from('HTTP/1.1 200 OK\r\n')])], true],
  ]
  test.each(lies)('%s stops no other mail', async (_, answers, isSaidOfReceiver) => {
    await using world = await startLiedTo(answers)
    const { clock, flow, proxy, server } = world
    await sendAll(flow, clock, 8)
    expect(proxy.heard.length).toBeGreaterThan(0)
    expect(namesByAddress(server)).toEqual({ '127.0.0.3': 'EHLO three.mail.test' })
    // What the proxy says about the receiver counts as an attempt.
    const attempts = isSaidOfReceiver ? expect.any(Number) : 1
    for (const outcome of readOutcomes(flow)) expect(outcome).toEqual({ status: SENT, ip: '127.0.0.3', attempts })
    expectBalanced(flow.service)
  })

  test.each([
    ['hangs', []],
    ['hangs after the login', [NO_LOGIN]],
    ['connects and sends nothing', [NO_LOGIN, reply(0)]],
  ] as const)('%s stops no other mail', async (_, answers) => {
    await using world = await startLiedTo(answers)
    const { flow, proxy, server } = world
    for (let n = 0; n < 8; n++) await flow.send({ to: `r${n}@${n % 2 === 0 ? 'receiver' : 'other'}.test` })
    // A site that has not answered yet holds two messages, so here they are four.
    await eventually(() => recipientsOf(flow).filter(({ status }) => status === 'sent').length >= 4)
    expect(proxy.heard.length).toBeGreaterThan(0)
    expect(namesByAddress(server)).toEqual({ '127.0.0.3': 'EHLO three.mail.test' })
  })
})
