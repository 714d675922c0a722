import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '#app/settings.ts'
import { ConfigError } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'

const folder = mkdtempSync(join(tmpdir(), 'tassis-config-'))
let files = 0
afterAll(() => rmSync(folder, { recursive: true }))

const tomlFile = (text: string): string => {
  const path = join(folder, `${++files}.toml`)
  writeFileSync(path, text)
  return path
}

const errorOf = (environment: Record<string, string>): string => {
  try {
    loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return ''
}

describe('the error for a wrong value is one sentence with the setting, the value and what is allowed', () => {
  const cases: readonly [variable: string, value: string, allowed: string][] = [
    ['TASSIS_DELIVERY', 'smtp', 'direct, relay, capture'],
    ['TASSIS_SMTP_PORT', '0', 'a whole number from 1 to 65535'],
    ['TASSIS_SMTP_PORT', '25x', 'a whole number from 1 to 65535'],
    ['TASSIS_HTTP_ADDR', '8080', 'an address such as 127.0.0.1:8080 or [::]:8080'],
    ['TASSIS_ALLOW_PRIVATE_NETWORKS', 'maybe', 'true, loopback or false'],
    ['TASSIS_MEMORY_BUDGET', '1TB', 'a size such as 512MiB, from 16MiB to 1024GiB'],
    [
      'TASSIS_DNS_SERVERS',
      '127.0.0.1:53,dns.example',
      'a comma-separated list of addresses such as 127.0.0.1:53 or [::1]:53',
    ],
    [
      'TASSIS_OUTBOUND_IPS',
      '192.0.2.300',
      'a comma-separated list of IP, IP=name, IP@pool or IP=name@pool, each perhaps with a proxy, such as 192.0.2.1=mail1.example.com@news or 192.0.2.9=mail9.example.com via socks5://user:password@10.0.0.2:1080 (in user and password, write characters other than letters and digits as in URLs: %40 for @, %2C for a comma)',
    ],
    ['TASSIS_PUBLIC_URL', 'mail.example.com', 'a URL such as https://mail.example.com'],
    ['TASSIS_HOSTNAME', 'mail_server', 'a host name such as mail.example.com'],
    [
      'TASSIS_TRUSTED_PROXIES',
      '10.0.0.0/33',
      'a comma-separated list of addresses or networks such as 127.0.0.1 or 10.0.0.0/8',
    ],
  ]
  for (const [variable, value, allowed] of cases) {
    test(`${variable}=${value}`, () =>
      expect(errorOf({ [variable]: value })).toBe(`${variable} is "${value}"; allowed is ${allowed}.`))
  }
})

test('the error for a wrong secret does not repeat it', () => {
  expect(errorOf({ TASSIS_RELAY_URL: 'http://user:hunter2@relay' })).not.toContain('hunter2')
  expect(errorOf({ TASSIS_LLM_URL: 'ftp://user:hunter2@llm.test' })).toContain('"ftp://…@llm.test"')
})

describe('the login of a proxy is not shown', () => {
  const wrong = ['u:hunter2,a@p:1', 'u:hunter2/a@p:1', 'u:hunter2%zz@p:1', 'u:hunter2', 'u:hunter2@p:0']
  for (const url of wrong)
    test(`in the error for socks5://${url}`, () => {
      const error = errorOf({ TASSIS_OUTBOUND_IPS: `192.0.2.1, 192.0.2.9=a.test via socks5://${url}` })
      expect(error).toStartWith('TASSIS_OUTBOUND_IPS is "192.0.2.1, 192.0.2.9=a.test via …"; allowed is ')
      expect(error).not.toContain('hunter')
    })

  test('by the command config', () => {
    const value = '192.0.2.1,192.0.2.9=a.test@news via socks5://u:hunter2%40@p.test:1080'
    const shown = loadConfig({ TASSIS_OUTBOUND_IPS: value }).report.find(({ name }) => name === 'outboundIps')?.value
    expect(shown).toBe('192.0.2.1,192.0.2.9=a.test@news via socks5://…@p.test:1080')
  })
})

test('a misspelt variable and an unknown key in the file are refused', () => {
  expect(errorOf({ TASSIS_DELIVRY: 'capture' })).toStartWith('TASSIS_DELIVRY: there is no such setting')
  expect(errorOf({ TASSIS_CONFIG: tomlFile('delivry = "capture"') })).toContain('there is no setting delivry')
})

// Proves: billing-5
test('variables override the file, the file overrides defaults, and the report gives the source', () => {
  const { config, report } = loadConfig({
    TASSIS_CONFIG: tomlFile('smtp_port = 2525\ndelivery = "capture"'),
    TASSIS_SMTP_PORT: '2526',
  })
  expect([config.smtpPort, config.delivery, config.workers]).toEqual([2526, 'capture', 2])
  const sources = new Map(report.map(({ name, source }) => [name, source]))
  expect([sources.get('smtpPort'), sources.get('delivery'), sources.get('workers')]).toEqual([
    'environment',
    'file',
    'default',
  ])
})

test('a key in a table of the file sets the same setting as the joined name', () => {
  expect(loadConfig({ TASSIS_CONFIG: tomlFile('[sending]\nunverified = "reject"') }).config.sendingUnverified).toBe(
    'reject',
  )
})

test('none empties a list that has a default', () => {
  const { config, report } = loadConfig({ TASSIS_DOCTOR_BLOCK_LISTS: 'none' })
  expect(config.doctorBlockLists).toEqual([])
  expect(report.find(({ name }) => name === 'doctorBlockLists')?.value).toBe('none')
})

test('the report never shows a secret', () => {
  const { report } = loadConfig({ TASSIS_RELAY_URL: 'smtp://user:hunter2@relay.test', TASSIS_DELIVERY: 'relay' })
  expect(JSON.stringify(report)).not.toContain('hunter2')
  expect(report.find(({ name }) => name === 'relayUrl')?.value).toBe('(set)')
})

test('relay mode does not start without a smarthost', () => {
  expect(errorOf({ TASSIS_DELIVERY: 'relay' })).toContain('TASSIS_RELAY_URL is not set')
})

test('an address has a host and a port', () => {
  expect(parseHostPort('[::1]:25')).toEqual({ host: '::1', port: 25 })
  expect(parseHostPort('127.0.0.1:0')).toEqual({ host: '127.0.0.1', port: 0 })
  expect(parseHostPort('::1:25')).toBeUndefined()
  expect(parseHostPort('127.0.0.1')).toBeUndefined()
  expect(parseHostPort('127.0.0.1', 53)).toEqual({ host: '127.0.0.1', port: 53 })
})
