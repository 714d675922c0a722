import { expect, test } from 'bun:test'
import { checkOutgoingPort } from '#app/doctor/checks/network.ts'
import { checkProxies } from '#app/doctor/checks/proxies.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import {
  areProxiesAvailable,
  bytes,
  LOGIN_URL,
  NO_LOGIN,
  reply,
  startDante,
  startLyingProxy,
  startMicrosocks,
} from '#test/support/socks-proxies.ts'
import { createContext, findAll, statuses } from './fixture.ts'

const find = async (sources: string, settings: Readonly<Record<string, string>> = {}) => {
  using context = createContext({ TASSIS_OUTBOUND_IPS: sources, ...settings })
  return await findAll(checkProxies(context))
}

test.skipIf(!areProxiesAvailable())('a proxy must work, have its address, and demand its login', async () => {
  await using good = await startMicrosocks('127.0.0.71')
  await using open = await startDante('127.0.0.72', '127.0.0.66')
  const login = `${LOGIN_URL}@`
  expect(await find(`127.0.0.71 via socks5://${login}127.0.0.1:${good.port}`)).toMatchObject([
    { status: 'ok', subject: '127.0.0.71', message: expect.stringContaining('connects from 127.0.0.71') },
    { status: 'ok', subject: '127.0.0.71 access', message: expect.stringContaining('refuses connections without') },
  ])
  // The login is not demanded of us, so nobody needs it.
  expect(await find(`127.0.0.72 via socks5://${login}127.0.0.1:${open.port}`)).toMatchObject([
    { status: 'ok', subject: '127.0.0.72' },
    { status: 'failure', subject: '127.0.0.72 access', message: expect.stringContaining('without its login') },
  ])
  expect(await find(`127.0.0.72 via socks5://127.0.0.1:${open.port}`)).toMatchObject([
    { status: 'ok', subject: '127.0.0.72' },
    { status: 'skipped', subject: '127.0.0.72 access', message: expect.stringContaining('cannot be seen from here') },
  ])
  const wrong = await find(
    `127.0.0.73 via socks5://${login}127.0.0.1:${good.port}, 127.0.0.74 via socks5://a:b@127.0.0.1:${good.port}`,
  )
  expect(wrong).toMatchObject([
    { status: 'failure', message: expect.stringContaining('connects from 127.0.0.71, so mail does not leave from') },
    { status: 'ok', subject: '127.0.0.73 access' },
    { status: 'failure', subject: '127.0.0.74', message: expect.stringContaining('refuses the user and password') },
  ])
  expect(JSON.stringify(wrong)).not.toContain('hun')
})

test('a dead proxy is a failure; one that connects to nothing is another', async () => {
  await using dead = await startLyingProxy([])
  await dead[Symbol.asyncDispose]()
  await using deny = await startLyingProxy([NO_LOGIN, reply(2)])
  await using garbage = await startLyingProxy([bytes(72, 84, 84, 80)])
  const at = (proxy: { readonly port: number }, ip: string) => `${ip} via socks5://127.0.0.1:${proxy.port}`
  expect(
    await find(`${at(dead, '127.0.0.71')}, ${at(deny, '127.0.0.72')}, ${at(garbage, '127.0.0.73')}`),
  ).toMatchObject([
    {
      status: 'failure',
      message: expect.stringContaining('refuses connections'),
      fix: expect.stringMatching(/^Start it/),
    },
    { status: 'failure', message: expect.stringContaining('does not allow'), fix: expect.stringMatching(/^Allow/) },
    { status: 'failure', message: expect.stringContaining('does not speak SOCKS5') },
  ])
  expect(statuses(await find('127.0.0.1'))).toEqual(['skipped'])
  // Tests never leave the machine.
  expect(statuses(await find('127.0.0.71 via socks5://192.0.2.1'))).toEqual(['skipped 127.0.0.71'])
})

test.skipIf(!areProxiesAvailable())(
  'elsewhere mail hosts say from where a proxy connects, or nobody does',
  async () => {
    const zone = {
      'one.test': { MX: [{ preference: 1, exchange: 'mx.one.test' }] },
      'mx.one.test': { A: ['127.0.0.1'] },
    }
    await using dns = await startDnsServer(zone)
    await using proxy = await startMicrosocks('127.0.0.71')
    let greeting = 'mx.one.test at your service, [198.51.100.7]'
    await using server = await startScriptedSmtp({ ehlo: () => `250 ${greeting}` })
    const settings = {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(server.port),
      TASSIS_DOCTOR_SMTP_DOMAINS: 'one.test',
    }
    const source = (ip: string) => `${ip} via socks5://${LOGIN_URL}@127.0.0.1:${proxy.port}`
    const statusFor = async (ip: string) => (await find(source(ip), settings)).map(({ status }) => status)
    expect(await statusFor('198.51.100.7')).toEqual(['ok', 'ok'])
    expect(await statusFor('198.51.100.8')).toEqual(['failure', 'ok'])
    greeting = 'mx.one.test'
    expect((await find(source('198.51.100.8'), settings))[0]).toMatchObject({
      status: 'ok',
      message: expect.stringContaining('from which address it connects is unknown'),
    })
    // Nothing connects from an address that is not of this machine.
    using context = createContext({ TASSIS_OUTBOUND_IPS: source('198.51.100.7'), ...settings })
    expect(statuses(await findAll(checkOutgoingPort(context)))).toEqual(['skipped'])
  },
)
