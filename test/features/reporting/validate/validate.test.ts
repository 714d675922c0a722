import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createValidate } from '#features/reporting/validate/routes.ts'
import { seconds } from '#platform/units.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const ZONE: Zone = {
  'mx.test': { MX: [{ preference: 10, exchange: 'mail.mx.test' }] },
  'null.test': { MX: [{ preference: 0, exchange: '' }], A: ['192.0.2.1'] },
  'host.test': { A: ['192.0.2.1'] },
  'bare.test': { TXT: ['nothing else'] },
  'gone.test': 'NXDOMAIN',
  'failing.test': 'SERVFAIL',
  'numbers.test': { MX: [{ preference: 1, exchange: '192.0.2.1' }] },
  'alias.test': { CNAME: 'mx.test' },
  'circle.test': { CNAME: 'circle.test' },
  'xn--bcher-kva.test': { MX: [{ preference: 10, exchange: 'mail.mx.test' }] },
  'gmail.com': { MX: [{ preference: 5, exchange: 'mail.mx.test' }] },
  'mailinator.com': { MX: [{ preference: 5, exchange: 'mail.mx.test' }] },
  'deep.er.mailinator.com': { MX: [{ preference: 5, exchange: 'mail.mx.test' }] },
  'yopmail.com': 'SERVFAIL',
  'honest.github.io': { MX: [{ preference: 5, exchange: 'mail.mx.test' }] },
}

let dns: DnsServer
let service: TestApi
beforeAll(async () => {
  dns = await startDnsServer(structuredClone(ZONE))
  service = await createTestApi({ settings: { TASSIS_DNS_SERVERS: dns.address } })
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await dns.close()
})

const validate = async (email: string): Promise<unknown> => {
  const { status, body } = await service.api('POST', '/v1/validate', { email })
  expect(status).toBe(200)
  return body
}

const good = (email: string, more: object = {}) => ({
  email,
  valid: true,
  deliverable: 'yes',
  is_disposable: false,
  is_role: false,
  is_free: false,
  mx_found: true,
  reason: null,
  ...more,
})
const bad = (email: string, reason: string, more: object = {}) =>
  good(email, { valid: false, deliverable: 'no', mx_found: false, reason, ...more })
const unknown = (email: string, reason: string) => good(email, { deliverable: 'unknown', mx_found: false, reason })

describe('the domain', () => {
  const CASES: readonly (readonly [what: string, answer: { email: string }])[] = [
    ['with an MX accepts mail', good('ada@mx.test')],
    ['with an address of its own and no MX accepts mail (RFC 5321 §5.1)', good('ada@host.test')],
    ['that is an alias of one that accepts mail accepts mail', good('ada@alias.test')],
    ['in its own script is looked up as A-labels', good('ada@b\u00fccher.test')],
    [
      'with a null MX does not accept mail (RFC 7505), with or without an address',
      bad('ada@null.test', 'The domain null.test does not accept mail (null MX).'),
    ],
    [
      'with neither MX nor address does not accept mail',
      bad('ada@bare.test', 'The domain bare.test has no MX, A or AAAA record.'),
    ],
    ['that does not exist does not accept mail', bad('ada@gone.test', 'The domain gone.test does not exist.')],
    [
      'whose DNS fails (SERVFAIL) is unknown, and the address counts as valid',
      unknown(
        'ada@failing.test',
        'The DNS servers could not look up the mail servers (MX) of failing.test (SERVFAIL).',
      ),
    ],
    [
      'whose MX is an IP address does not accept mail',
      bad('ada@numbers.test', 'The MX records of numbers.test contain IP addresses instead of host names.'),
    ],
    [
      'that is an alias of itself is unknown',
      unknown('ada@circle.test', 'The CNAME records of circle.test form a loop.'),
    ],
  ]
  // Proves: validate-2, validate-4
  test.each(CASES)('%s', async (_, answer) => {
    expect(await validate(answer.email)).toEqual(answer)
  })
})

describe('an invalid address is a 200 with the reason, without a lookup:', () => {
  const CASES: readonly (readonly [email: string, reason: string])[] = [
    ['', 'The address is empty.'],
    ['ada@mx', 'The domain "mx" has no dot.'],
    ['ada@mx.test\r\nRCPT TO:<bob@mx.test>', 'The address has a line break or another control character.'],
    ['Ada <ada@mx.test>', 'The address must have no display name and no angle brackets.'],
    ['<ada@mx.test>', 'The address must have no display name and no angle brackets.'],
    [`${'a'.repeat(400)}@${'b'.repeat(601)}.test`, 'The address is longer than 1,000 characters.'],
  ]
  // Proves: validate-1, validate-3
  test('each with its reason', async () => {
    const before = dns.queries.length
    const answers = await Promise.all(CASES.map(([email]) => validate(email)))
    expect(answers).toEqual(CASES.map(([email, reason]) => bad(email, reason)))
    expect(dns.queries).toHaveLength(before)
  })
})

describe('the lists', () => {
  const CASES: readonly (readonly [what: string, answer: { email: string }])[] = [
    [
      'a disposable domain is not valid, even if it accepts mail',
      good('ada@mailinator.com', {
        valid: false,
        deliverable: 'no',
        is_disposable: true,
        is_free: true,
        reason: 'The domain mailinator.com offers disposable addresses.',
      }),
    ],
    [
      'a subdomain of a disposable domain is disposable',
      good('ada@deep.er.mailinator.com', {
        valid: false,
        deliverable: 'no',
        is_disposable: true,
        reason: 'The domain deep.er.mailinator.com offers disposable addresses.',
      }),
    ],
    [
      'a disposable domain whose DNS fails is not deliverable',
      bad('ada@yopmail.com', 'The domain yopmail.com offers disposable addresses.', {
        is_disposable: true,
        is_free: true,
      }),
    ],
    ['a provider of free addresses is valid', good('Ada.Lovelace@GMAIL.com', { is_free: true })],
    ['a role is valid', good('Info@mx.test', { is_role: true })],
    ['a role with a tag is a role', good('sales+shop@mx.test', { is_role: true })],
    ['a person is not a role', good('informant@mx.test')],
    ['a local part beyond ASCII is valid (RFC 6531)', good('j\u00f6rg@mx.test')],
    ['spaces around an address are ignored', good(' ada@mx.test ')],
    ['a local part may be quoted', good('"ada b"@mx.test')],
    ['a sibling of a disposable domain below a public suffix is not disposable', good('ada@honest.github.io')],
  ]
  // Proves: validate-2
  test.each(CASES)('%s', async (_, answer) => {
    expect(await validate(answer.email)).toEqual(answer)
  })
})

/** A test clock, and DNS that never answers for `*.silent.test`. */
async function startSilent() {
  const zone: Record<string, NonNullable<Zone[string]>> = { 'mx.test': ZONE['mx.test'] as never }
  for (let n = 0; n < 60; n++) zone[`d${n}.silent.test`] = 'SILENCE'
  const dns = await startDnsServer(zone)
  const clock = new ManualClock()
  const resolver = new StubResolver({ servers: [dns.address], clock, randomId: () => 4711 })
  const validate = createValidate({ clock }, resolver)
  return {
    dns,
    clock,
    as: (accountId: number, email: string) => validate({ accountId } as Parameters<typeof validate>[0], email),
    async [Symbol.asyncDispose]() {
      resolver.close()
      await dns.close()
    },
  }
}

// Proves: validate-4
test('after five seconds without a DNS answer, an address is valid with unknown deliverability', async () => {
  await using t = await startSilent()
  const answer = t.as(1, 'ada@d0.silent.test')
  await t.dns.received(1)
  t.clock.advance(seconds(5))
  expect(await answer).toEqual(
    unknown('ada@d0.silent.test', 'DNS did not answer for d0.silent.test within 5 seconds.') as never,
  )
})

test('an account has at most 16 concurrent lookups; further ones wait without delaying other accounts', async () => {
  await using t = await startSilent()
  const answers = Array.from({ length: 20 }, (_, n) => t.as(1, `ada@d${n}.silent.test`))
  await t.dns.received(16)
  expect(await t.as(2, 'bob@mx.test')).toEqual(good('bob@mx.test') as never)
  const asked = () => new Set(t.dns.queries.map(({ name }) => name))
  expect(asked().size).toBe(17)
  t.clock.advance(seconds(5))
  expect((await Promise.all(answers)).map(({ deliverable }) => deliverable)).toEqual(Array(20).fill('unknown'))
  // DNS completes the first lookups at the end of its second round; the callers of the last four have timed out by
  // then.
  await eventually(() => t.dns.queries.length >= 33)
  t.clock.advance(seconds(5))
  expect(await t.as(1, 'ada@mx.test')).toEqual(good('ada@mx.test') as never)
  expect(asked().size).toBe(17)
})

test('the 101st request of a burst, and more than 20 a second, are a 429 with Retry-After; other accounts are unaffected', async () => {
  const clock = new ManualClock()
  await using service = await createTestApi({ clock })
  const ask = (key = service.key) => service.api('POST', '/v1/validate', { email: 'no address' }, { key })
  const statuses = async (count: number) => {
    const answers = await Promise.all(Array.from({ length: count }, () => ask()))
    return answers.filter(({ status }) => status === 200).length
  }
  expect(await statuses(100)).toBe(100)
  const refused = await ask()
  expectError(refused, 429, 'rate_limited')
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await ask(await service.newKey([], await service.newAccount()))).status).toBe(200)
  clock.advance(seconds(1))
  expect(await statuses(30)).toBe(20)
})

test('nothing about an address is stored', async () => {
  await validate('never-stored@mx.test')
  const tables = service.app.db
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all()
  const found = tables.filter(({ name }) =>
    JSON.stringify(service.app.db.query(`SELECT * FROM "${name}"`).all()).includes('never-stored'),
  )
  expect(found).toEqual([])
})
