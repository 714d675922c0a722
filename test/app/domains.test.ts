import { expect, setDefaultTimeout, test } from 'bun:test'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createDataFolder, runTassis, runTassisJson, runTassisList, setUpAccount, withApp } from './process.ts'

// Processes start slowly on a busy machine.
setDefaultTimeout(300_000)

interface Shown {
  readonly dns_records: Readonly<Record<string, { readonly host: string; readonly value: string }>>
}

test('a domain is verified with the records that sending needs, without DMARC and the inbound MX', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { dns_records: records } = await runTassisJson<Shown>(['domains', 'records', 'sender.test'], data.settings)
  const valueAt = (key: string) => records[key]?.value ?? ''
  const hostAt = (key: string) => records[key]?.host ?? ''
  await using dns = await startDnsServer({
    'sender.test': { MX: [{ preference: 5, exchange: 'mx.elsewhere.test' }] },
    [hostAt('spf')]: { TXT: [valueAt('spf')], MX: [{ preference: 10, exchange: 'mail.tassis.test' }] },
    [hostAt('dkim')]: { TXT: [valueAt('dkim')] },
    'mail.tassis.test': { A: ['127.0.0.1'] },
  })
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { exitCode, stdout } = await runTassis(['domains', 'verify', 'sender.test'], settings)
  expect(exitCode).toBe(0)
  expect(stdout).not.toContain('NOT OK')
  expect(stdout).toMatch(/^dmarc +optional +There is no DMARC record/m)
  expect(stdout).toMatch(
    /^mx +optional +The MX of sender\.test points to mx\.elsewhere\.test .*not needed for sending, only/m,
  )
  // One row for one cause, and nothing to do about what is met.
  const rules = await runTassis(['domains', 'rules', 'sender.test', '--all'], settings)
  expect(rules.stdout.match(/^broken +DMARC policy +Yahoo and AOL, iCloud Mail .* Publish the DMARC/gm)).toHaveLength(1)
  expect(rules.stdout).toMatch(/^met +DKIM key of 2,048 bits +Gmail +The key .* has 2048 bits\.$/m)
})

test('without a DNS answer, verify says so of each record', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const { dns_records: records } = await runTassisJson<Shown>(['domains', 'records', 'sender.test'], data.settings)
  const unanswered = Object.values(records).map(({ host }) => [host, 'SERVFAIL'])
  await using dns = await startDnsServer(Object.fromEntries(unanswered))
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { exitCode, stdout } = await runTassis(['domains', 'verify', 'sender.test'], settings)
  expect(exitCode).toBe(1)
  expect(
    stdout.match(/^\S+ +unknown +The .* could not be looked up: .* This says nothing about the record itself;/gm),
  ).toHaveLength(6)
})

test('commands that show records warn of a host name without a dot in every delivery mode', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  const settings = { ...data.settings, TASSIS_HOSTNAME: 'vm' }
  expect((await runTassis(['domains', 'add', 'other.test'], settings)).stdout).toContain('The host name "vm"')
  const commands = [
    ['domains', 'records', 'sender.test'],
    ['domains', 'records', 'sender.test', '--zone'],
  ]
  for (const command of commands) {
    const { stdout } = await runTassis(command, { ...settings, TASSIS_DELIVERY: 'capture' })
    expect(stdout).toContain('The host name "vm" is not fully qualified')
    expect((await runTassis(command, data.settings)).stdout).not.toContain('is not fully qualified')
  }
})

test('records include the tracking domain, as a block and as a zone file line', async () => {
  using data = createDataFolder()
  const { domainId } = await setUpAccount(data.settings)
  await withApp(data.settings, ({ db }) => void db.run("UPDATE domains SET tracking_domain = 'links.brand.test'"))
  const blocks = await runTassis(['domains', 'records', domainId], data.settings)
  expect(blocks.stdout).toContain(
    'may be in another domain\n  Type:  CNAME\n  Name:  links.brand.test\n  Value: mail.tassis.test\n',
  )
  const zone = await runTassis(['domains', 'records', 'sender.test', '--zone'], data.settings)
  expect(zone.stdout).toEndWith('\nlinks.brand.test. 3600 IN CNAME mail.tassis.test.\n')
})

// Proves: operator-70
test('verify --without-dns verifies a domain until 72 hours after a check that finds no records', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings)
  await using dns = await startDnsServer({})
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { exitCode, stdout } = await runTassis(['domains', 'verify', 'sender.test', '--without-dns'], settings)
  expect(exitCode).toBe(0)
  expect(stdout).toContain('sender.test counts as verified and accepts mail, without a DNS check.')
  const assumed = { verified: true }
  expect(await runTassisList(['domains', 'list'], settings)).toMatchObject([
    {
      status: 'verified',
      checked_at: null,
      dns_records: {
        spf: assumed,
        dkim: assumed,
        dkim_ed25519: { verified: false },
        dmarc: assumed,
        return_path: assumed,
        mx: assumed,
      },
    },
  ])
  expect(dns.queries).toEqual([])
  const expectUnchecked = async (isSo: boolean) => {
    const shown = (await runTassis(['domains', 'records', 'sender.test'], settings)).stdout
    expect([shown.includes('SPF, needed to send (not checked)'), shown.includes('(found)')]).toEqual([isSo, false])
  }
  await expectUnchecked(true)
  const verify = async () => {
    const verified = await runTassis(['domains', 'verify', 'sender.test'], settings)
    return [verified.exitCode, verified.stdout]
  }
  const lacks = / Missing since .+Z: spf, dkim, return_path; its mail is sent until .+Z\.\n/
  dns.zone['send.sender.test'] = 'SERVFAIL'
  await verify()
  await expectUnchecked(true)
  delete dns.zone['send.sender.test']
  expect(await verify()).toEqual([1, expect.stringMatching(lacks)])
  await expectUnchecked(false)
  expect((await runTassis(['domains', 'list'], settings)).stdout).toMatch(
    /^sender\.test +verified .* Missing since .+Z: spf, dkim, return_path; its mail is sent until .+Z\.$/m,
  )
  await withApp(
    settings,
    ({ db }) => void db.run('UPDATE domains SET records_lost_at = records_lost_at - 72 * 3600000'),
  )
  expect(await verify()).toEqual([1, expect.stringMatching(/; it lost its own verification at .+Z\.\n/)])
  expect((await runTassis(['domains', 'list'], settings)).stdout).toMatch(/^sender\.test +pending .* Missing since /m)
})

test('a subdomain of a verified domain is shown as sending under it until it is verified itself', async () => {
  using data = createDataFolder()
  await setUpAccount(data.settings, { verified: true })
  await using dns = await startDnsServer({})
  const settings = { ...data.settings, TASSIS_DNS_SERVERS: dns.address }
  const { stdout } = await runTassis(['domains', 'add', 'second.sender.test'], settings)
  expect(stdout).toContain('Its mail is sent under sender.test, which is verified and signs it.')
  expect(stdout).not.toContain('captured')
  expect((await runTassis(['domains', 'list'], settings)).stdout).toMatch(
    /^second\.sender\.test +pending .* Its mail is sent under sender\.test, .* Missing: spf, dkim, return_path\.$/m,
  )
  expect((await runTassis(['domains', 'verify', 'second.sender.test'], settings)).stdout).toContain(
    'Its mail is sent under sender.test, which is verified',
  )
  expect((await runTassis(['domains', 'add', 'third.test'], settings)).stdout).toContain(
    'Until it is verified, its mail is captured or refused (TASSIS_SENDING_UNVERIFIED).',
  )
})
