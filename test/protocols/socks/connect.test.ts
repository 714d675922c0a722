import { describe, expect, test } from 'bun:test'
import { systemClock } from '#platform/time/clock.ts'
import { connectSmtp, type SmtpConnectOptions } from '#protocols/smtp/connect.ts'
import { startBlackHole } from '#test/support/black-hole.ts'
import { startScriptedSmtp, testCertificate } from '#test/support/scripted-smtp.ts'
import {
  areProxiesAvailable,
  bytes,
  LOGIN,
  type LyingProxy,
  NO_LOGIN,
  reply,
  startDante,
  startLyingProxy,
  startMicrosocks,
} from '#test/support/socks-proxies.ts'

const open = (
  proxy: { readonly port: number; readonly login?: typeof LOGIN },
  target: Pick<SmtpConnectOptions, 'port'> & Partial<SmtpConnectOptions>,
) =>
  connectSmtp({
    host: 'mx.example.test',
    address: '127.0.0.1',
    ehloName: 'out.sender.test',
    clock: systemClock,
    tls: 'never',
    verifyCertificate: false,
    proxy: { host: '127.0.0.1', ...proxy },
    ...target,
  })

/** Who failed, how, and in which words. */
async function failureOf(result: ReturnType<typeof open>): Promise<string> {
  const ended = await result
  if (ended.kind === 'connected') void ended.client.quit()
  return ended.kind === 'failed' ? `${ended.phase} ${ended.failure.kind}: ${ended.failure.message}` : ended.kind
}

test.skipIf(!areProxiesAvailable())('microsocks and Dante connect, each from its own address', async () => {
  await using server = await startScriptedSmtp()
  await using one = await startMicrosocks('127.0.0.71')
  await using two = await startDante('127.0.0.72', '127.0.0.66')
  for (const proxy of [{ port: one.port, login: LOGIN }, { port: two.port }]) {
    const result = await open(proxy, { port: server.port })
    expect(result.kind).toBe('connected')
    if (result.kind === 'connected') await result.client.quit()
  }
  expect(server.sessions.map(({ remoteAddress }) => remoteAddress)).toEqual(['127.0.0.71', '127.0.0.72'])
  expect(server.sessions.map(({ commands }) => commands)).toEqual(Array(2).fill(['EHLO out.sender.test', 'QUIT']))
  const wrong = { port: one.port, login: { ...LOGIN, password: 'wrong' } }
  expect(await failureOf(open(wrong, { port: server.port }))).toBe('proxy refused: refuses the user and password')
  expect(await failureOf(open({ port: one.port }, { port: server.port }))).toBe(
    'proxy refused: refuses the user and password',
  )
  expect(await failureOf(open(two, { port: server.port, address: '127.0.0.66' }))).toBe(
    'request unreachable: does not allow the connection',
  )
  await server[Symbol.asyncDispose]()
  for (const proxy of [{ port: one.port, login: LOGIN }, { port: two.port }])
    expect(await failureOf(open(proxy, { port: server.port }))).toBe('connect refused: was refused by it')
})

test.skipIf(!areProxiesAvailable()).each(['implicit', 'required'] as const)(
  'TLS (%s) is with the receiver',
  async (tls) => {
    await using server = await startScriptedSmtp({ implicitTls: tls === 'implicit', extensions: ['STARTTLS'] })
    await using proxy = await startMicrosocks('127.0.0.71')
    const result = await open({ port: proxy.port, login: LOGIN }, { port: server.port, tls, ca: testCertificate.cert })
    expect(result.kind).toBe('connected')
    if (result.kind !== 'connected') return
    expect(result.client.tls).toMatchObject({ protocol: expect.stringContaining('TLSv1.') })
    await result.client.quit()
    expect(server.session).toMatchObject({ secure: true, remoteAddress: '127.0.0.71' })
  },
)

test('the proxy is asked for an address, IPv4 or IPv6, and never for a name', async () => {
  await using proxy = await startLyingProxy([NO_LOGIN, reply(4)])
  await failureOf(open(proxy, { port: 25, address: '192.0.2.7' }))
  await failureOf(open(proxy, { port: 25, address: '2001:db8::7' }))
  expect(proxy.heard.map((data) => data.toString('hex'))).toEqual([
    '050100',
    '05010001c00002070019',
    '050100',
    `05010004${'20010db8000000000000000000000007'}0019`,
  ])
})

describe('a failure is that of', () => {
  const cases: readonly (readonly [string, LyingProxy['answers'], string])[] = [
    ['the proxy: it closes', ['end'], 'proxy closed: closed the connection before it had answered'],
    ['the proxy: SOCKS4', [bytes(4, 0)], 'proxy protocol: does not speak SOCKS5'],
    ['the proxy: garbage', [Buffer.from('HTTP/1.1 400 Bad Request\r\n')], 'proxy protocol: does not speak SOCKS5'],
    ['the proxy: no common login', [bytes(5, 255)], 'proxy refused: refuses the user and password'],
    ['the proxy: a login of its own', [bytes(5, 99)], 'proxy protocol: does not speak SOCKS5'],
    ['the proxy: wrong login', [bytes(5, 2), bytes(1, 1)], 'proxy refused: refuses the user and password'],
    [
      'its request: general failure',
      [NO_LOGIN, reply(1)],
      'request unreachable: failed to connect, and does not say why',
    ],
    ['its request: not allowed', [NO_LOGIN, reply(2)], 'request unreachable: does not allow the connection'],
    ['its request: no CONNECT', [NO_LOGIN, reply(7)], 'request unreachable: makes no connections'],
    ['its request: no such address', [NO_LOGIN, reply(8)], 'request unreachable: does not know this kind of address'],
    ['its request: unknown code', [NO_LOGIN, reply(77)], 'request protocol: does not speak SOCKS5'],
    ['its request: wrong version', [NO_LOGIN, bytes(4, 0, 0, 1, 0)], 'request protocol: does not speak SOCKS5'],
    [
      'its request: unknown kind of address',
      [NO_LOGIN, bytes(5, 0, 0, 9, 0, 0, 0)],
      'request protocol: does not speak SOCKS5',
    ],
    ['its request: it closes', [NO_LOGIN, 'end'], 'request closed: closed the connection without an answer'],
    ['the target: no route', [NO_LOGIN, reply(3)], 'connect unreachable: has no route to its network'],
    ['the target: unreachable', [NO_LOGIN, reply(4)], 'connect unreachable: cannot reach it'],
    ['the target: refused', [bytes(5, 2), bytes(1, 0), reply(5)], 'connect refused: was refused by it'],
    ['the target: no answer', [NO_LOGIN, reply(6)], 'connect timeout: got no answer from it'],
  ]
  test.each(cases)('%s', async (_, answers, failure) => {
    await using proxy = await startLyingProxy(answers)
    expect(await failureOf(open({ port: proxy.port, login: LOGIN }, { port: 25 }))).toBe(failure)
  })

  test('the proxy, when nothing listens, nothing answers, or it hangs before the login', async () => {
    const timeouts = { connectMs: 500 }
    await using gone = await startLyingProxy([])
    await gone[Symbol.asyncDispose]()
    expect(await failureOf(open(gone, { port: 25 }))).toBe('proxy refused: refuses connections')
    await using hole = await startBlackHole('127.0.0.1')
    expect(await failureOf(open(hole, { port: 25, timeouts }))).toBe('proxy timeout: did not answer within 0.5 s')
    for (const answers of [[], [bytes(5, 2)]]) {
      await using silent = await startLyingProxy(answers)
      const failure = failureOf(open({ port: silent.port, login: LOGIN }, { port: 25, timeouts }))
      expect(await failure).toBe('proxy timeout: did not answer within 0.5 s')
    }
  })

  test('the target, when the proxy hangs after the login, or connects and sends nothing', async () => {
    for (const answers of [[NO_LOGIN], [bytes(5, 2), bytes(1, 0)]]) {
      await using hanging = await startLyingProxy(answers)
      const options = { port: 25, timeouts: { connectMs: 500 } }
      const failure = failureOf(open({ port: hanging.port, login: LOGIN }, options))
      expect(await failure).toBe('connect timeout: got no connection to it within 0.5 s')
    }
    await using mute = await startLyingProxy([NO_LOGIN, reply(0)])
    expect(await failureOf(open(mute, { port: 25, timeouts: { greetingMs: 500 } }))).toStartWith('greeting timeout:')
  })
})

test('a greeting in the packet of the reply is not lost', async () => {
  await using eager = await startLyingProxy([NO_LOGIN, Buffer.concat([reply(0), Buffer.from('554 5.7.1 No\r\n')])])
  expect(await open(eager, { port: 25 })).toMatchObject({ kind: 'refused', phase: 'greeting', reply: { code: 554 } })
})

test('an attempt that is ended ends with its proxy', async () => {
  for (const answers of [[], [NO_LOGIN]]) {
    await using silent = await startLyingProxy(answers)
    const ending = new AbortController()
    const failure = { kind: 'closed', message: 'enough' } as const
    const result = failureOf(open(silent, { port: 25, abort: { signal: ending.signal, failure } }))
    while (silent.heard.length <= answers.length) await Bun.sleep(5)
    ending.abort()
    expect(await result).toStartWith(answers.length === 0 ? 'proxy closed' : 'request closed')
  }
})
