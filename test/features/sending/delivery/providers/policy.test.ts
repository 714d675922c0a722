import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { ProviderRegistry, readProviders } from '#features/sending/delivery/providers/registry.ts'
import { minutes, seconds } from '#platform/units.ts'

const folder = mkdtempSync(join(tmpdir(), 'tassis-providers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
const configOf = (text?: string, settings: Readonly<Record<string, string>> = {}) => {
  const path = join(folder, `${++files}.toml`)
  if (text !== undefined) writeFileSync(path, text)
  return loadConfig({ ...(text !== undefined && { TASSIS_PROVIDERS_FILE: path }), ...settings }).config
}
const registryOf = (text?: string) => new ProviderRegistry(configOf(text))
const find = (registry: ProviderRegistry, ...hosts: string[]) =>
  registry.findProvider(
    hosts.toSorted().join(','),
    hosts.map((host) => ({ host })),
  )

test('the built-in entries have limits and a source each, and a file changes those of default', () => {
  const policies = readProviders(configOf('[default]\nconnections = 7\n'))
  expect(policies.get('default')).toMatchObject({
    connections: 7,
    messagesPerConnection: 100,
    idleMs: seconds(5),
    perMinute: 0,
  })
  expect(policies.get('yahoo')).toMatchObject({ messagesPerConnection: 20, connectionAgeMs: minutes(5) })
  expect(policies.get('fastmail')).toMatchObject({ messagesPerConnection: 100 })
  for (const { name, source, mx, perSecond, perMinute } of policies.values()) {
    expect(source === 'conservative default' || source.startsWith('https://')).toBe(true)
    if (['default', 'smarthost', 'overflow'].includes(name)) continue
    expect(mx.length).toBeGreaterThan(0)
    // The limit a minute is the stricter one, so that a steady flow never meets the one a second.
    expect(perMinute).toBeLessThanOrEqual(perSecond * 60)
  }
  const names = 'gmail microsoft yahoo apple gmx t-online orange ovh libero wp onet proton comcast'.split(' ')
  expect(names.filter((name) => !policies.has(name))).toEqual([])
})

test.each([
  ['gmail', ['gmail-smtp-in.l.google.com', 'ALT1.gmail-smtp-in.l.google.com.']],
  ['gmail', ['aspmx.l.google.com', 'aspmx2.googlemail.com']],
  ['microsoft', ['example-com.mail.protection.outlook.com']],
  ['microsoft', ['outlook-com.olc.protection.outlook.com']],
  ['yahoo', ['mta5.am0.yahoodns.net']],
  ['t-online', ['mx00.t-online.de', 'mx01.t-online.de']],
  ['google.com.evil.test', ['google.com.evil.test']],
  ['notgoogle.com', ['notgoogle.com']],
  // One host elsewhere: the mail may go there, so no provider's limits apply.
  ['aspmx.l.google.com,mx.example.test', ['aspmx.l.google.com', 'mx.example.test']],
  ['aspmx.l.google.com,mx.mail.icloud.com', ['aspmx.l.google.com', 'mx.mail.icloud.com']],
  ['site gmail', ['gmail']],
])('the provider %s has the hosts %j', (name, hosts) => {
  expect(find(registryOf(), ...hosts).name).toBe(name)
})

test('a file overrides fields and adds entries; the name of a long site is shortened and stays distinct', () => {
  const registry = registryOf(
    '[gmail]\nper_minute = 60\n[ours]\nmx = ["mx.ours.test"]\nconnections = 3\ntls = "required"\n',
  )
  expect(find(registry, 'aspmx.l.google.com').policy).toMatchObject({ perMinute: 60, connections: 20 })
  expect(find(registry, 'a.mx.ours.test')).toMatchObject({ isNamed: true, policy: { connections: 3, tls: 'required' } })
  const long = (end: string) =>
    find(registry, ...Array.from({ length: 20 }, (_, n) => `host${n}.${'x'.repeat(50)}.${end}`))
  expect(long('test').name.length).toBeLessThan(250)
  expect(long('test').name).not.toBe(long('tesu').name)
  expect(registry.byName(long('test').name).name).toBe(long('test').name)
})

test.each([
  ['[gmail]\nconections = 3\n', ': gmail.conections is not a known field'],
  ['[gmail]\nconnection = 3\n', ': gmail.connection is not a known field; did you mean connections?'],
  ['[gmail]\nconnections = 3\nper_minute = "60"\n', ': gmail.per_minute must be a whole number'],
  ['[gmail]\nconnections = 0\n', ': gmail.connections must be at least 1'],
  ['[x]\nmx = ["-"]\n', ': x.mx.0 must be a host name such as'],
  ['[x]\nroute = "relay"\n', ': x.route must be one of direct, smarthost'],
  [
    '[x]\nroute = "smarthost"\n',
    ': x.route is "smarthost" but neither TASSIS_RELAY_URL nor TASSIS_OVERFLOW_URL is set',
  ],
  ['[x]\nmx = ["google.com"]\n', ': x.mx has the suffix "google.com", which is also in [gmail]'],
  ['[x]\nmx = ["a.test", "A.test"]\n', ': x.mx has the suffix "A.test", which is also in [x]'],
  ['connections = 3\n', ': connections must be an object'],
  ['[Gmail]\nconnections = 3\n', ': Gmail is not a known field'],
  ['[x]\nconnections = 3\nmx = [\n', ':3: this is not valid TOML: '],
  ['[x]\n[x]\n', ':2: this is not valid TOML: '],
])('a mistake in the file %j stops the start', (text, message) => {
  expect(() => readProviders(configOf(text))).toThrow(`.toml${message}`)
})

test('a file that cannot be read stops the start', () => {
  const config = configOf(undefined, { TASSIS_PROVIDERS_FILE: join(folder, 'missing.toml') })
  expect(() => readProviders(config)).toThrow('which cannot be read')
})

test('a prefix of the name of a suffix gives nothing: hosts match at the boundary of their labels', () => {
  const registry = registryOf('[x]\nmx = ["mx.test"]\n')
  const named = ['mx.test', 'a.mx.test', 'amx.test', 'mx.test.a'].filter((host) => find(registry, host).isNamed)
  expect(named).toEqual(['mx.test', 'a.mx.test'])
})
