import { expect, setDefaultTimeout, test } from 'bun:test'
import { startDnsServer } from '#test/support/dns-server.ts'
import { dataFolder, MAIN, setUp, tassis, tassisJson } from './process.ts'

// Each command is a process of its own, on a machine that may be busy.
setDefaultTimeout(60_000)

interface Verified {
  readonly fully_verified: boolean
  readonly dns_records: readonly { readonly key: string; readonly host: string; readonly value: string }[]
}

test('a domain that has what sending needs is verified: DMARC and the inbound MX are advice, not faults', async () => {
  using data = dataFolder()
  await setUp(data.settings)
  const { dns_records: records } = await tassisJson<Verified>(['domains', 'records', 'sender.test'], data.settings)
  const valueAt = (key: string) => records.find((record) => record.key === key)?.value ?? ''
  const hostAt = (key: string) => records.find((record) => record.key === key)?.host ?? ''
  await using dns = await startDnsServer({
    'sender.test': { MX: [{ preference: 5, exchange: 'mx.elsewhere.test' }] },
    [hostAt('spf')]: { TXT: [valueAt('spf')], MX: [{ preference: 10, exchange: 'mail.tassis.test' }] },
    [hostAt('dkim')]: { TXT: [valueAt('dkim')] },
    'mail.tassis.test': { A: ['127.0.0.1'] },
  })
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { exitCode, stdout } = await tassis(['domains', 'verify', 'sender.test'], settings)
  expect(exitCode).toBe(0)
  expect(stdout).not.toContain('NOT OK')
  expect(stdout).toMatch(/^dmarc +advised +There is no DMARC record/m)
  expect(stdout).toMatch(
    /^mx +optional +The MX of sender\.test points to mx\.elsewhere\.test .*not needed for sending; only/m,
  )
})

test('when DNS does not answer, that is said once, with who was asked and which setting names them', async () => {
  using data = dataFolder()
  await setUp(data.settings)
  const { dns_records: records } = await tassisJson<Verified>(['domains', 'records', 'sender.test'], data.settings)
  await using dns = await startDnsServer(Object.fromEntries(records.map(({ host }) => [host, 'SERVFAIL'])))
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { exitCode, stdout } = await tassis(['domains', 'verify', 'sender.test'], settings)
  expect(exitCode).toBe(1)
  expect(stdout.match(/^\S+ +unknown +no answer; stays unverified$/gm)).toHaveLength(5)
  expect(stdout.match(/DNS gave no answer:/g)).toHaveLength(1)
  expect(stdout).toContain(`\nAsked: ${dns.address}. TASSIS_DNS_SERVERS sets`)
})

test('with delivery direct, a host name without a dot is warned of wherever records are shown', async () => {
  using data = dataFolder()
  await setUp(data.settings)
  const settings = { ...data.settings, TASSIS_HOSTNAME: 'vm' }
  const commands = [
    ['domains', 'add', 'other.test'],
    ['domains', 'records', 'sender.test'],
    ['domains', 'records', 'sender.test', '--zone'],
  ]
  for (const command of commands) {
    expect((await tassis(command, settings)).stdout).toContain('This host calls itself "vm", which is no full name')
    expect((await tassis(command, { ...settings, TASSIS_DELIVERY: 'capture' })).stdout).not.toContain('calls itself')
  }
})

test('serve warns of it in its log', async () => {
  using data = dataFolder()
  const warned = async (delivery: string) => {
    const settings = { ...data.settings, TASSIS_HOSTNAME: 'vm', TASSIS_DELIVERY: delivery }
    await using child = Bun.spawn([process.execPath, MAIN, 'serve'], {
      env: { PATH: process.env['PATH'] ?? '', ...settings },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    await child.stdout.getReader().read()
    child.kill('SIGTERM')
    return (await child.stderr.text()).includes('Set TASSIS_HOSTNAME to a name')
  }
  expect([await warned('direct'), await warned('capture')]).toEqual([true, false])
})
