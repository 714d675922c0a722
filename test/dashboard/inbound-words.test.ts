import { describe, expect, test } from 'bun:test'
import { formatRoute, isDeactivated } from '#dashboard/screens/inbound/format.ts'
import {
  findClaimedAddress,
  findDisplayName,
  listChecks,
  toProof,
  toVisible,
} from '#dashboard/screens/inbound/proof.ts'
import { type AuthenticationResult, UNKNOWN_AUTHENTICATION, type Verdict } from '#protocols/authentication/result.ts'

interface Given {
  readonly spf?: Verdict
  readonly spfDomain?: string
  readonly identity?: 'mailfrom' | 'helo'
  readonly dkim?: readonly (readonly [domain: string, result: Verdict, aligned: boolean])[]
  readonly dmarc?: Verdict
  readonly policy?: string
}

function results({ spf = 'none', spfDomain = 'example.org', identity = 'mailfrom', ...given }: Given) {
  const dkim = (given.dkim ?? []).map(([domain, result, aligned]) => ({
    domain,
    result,
    aligned,
    selector: 's',
    algorithm: 'rsa-sha256',
    comment: null,
  }))
  const dmarc = given.dmarc ?? 'none'
  const authentication: AuthenticationResult = {
    spf,
    dkim: dkim[0]?.result ?? 'none',
    dmarc,
    arc: 'none',
    iprev: 'none',
    details: {
      spf: { result: spf, domain: spfDomain, client_ip: '192.0.2.1', helo: 'mx', identity, comment: null },
      dkim,
      dmarc: { result: dmarc, domain: 'example.org', policy: given.policy ?? null, comment: null },
      arc: { result: 'none', instances: 0, comment: null },
      iprev: { result: 'none', name: null },
    },
  }
  return authentication
}

const prove = (given: Given, from: string | null = 'ada@Example.org') =>
  toProof({ authentication: results(given), from })

describe('the proof of a sender', () => {
  test.each([
    [{ spf: 'pass', dkim: [['example.org', 'pass', true]], dmarc: 'pass' }, 'SPF, DKIM and DMARC'],
    [{ spf: 'fail', dkim: [['example.org', 'pass', true]], dmarc: 'pass' }, 'DKIM and DMARC'],
    [{ spf: 'pass', spfDomain: 'bounce.example.org', dmarc: 'pass' }, 'SPF and DMARC'],
    [{ spf: 'pass', dmarc: 'none' }, 'SPF'],
    [{ dkim: [['example.org', 'pass', true]], dmarc: 'none' }, 'DKIM'],
    [{ spf: 'pass', dkim: [['example.org', 'pass', true]], dmarc: 'temperror' }, 'SPF and DKIM'],
  ] as readonly (readonly [Given, string])[])('names what proves it: %o', (given, methods) => {
    expect(prove(given)).toEqual({
      tone: 'good',
      sentence: `Sent by example.org, proven by ${methods}.`,
    })
  })

  test.each([
    [{}, 'warning', 'SPF is missing, DKIM is missing and DMARC is missing'],
    [{ spf: 'fail', dmarc: 'fail', policy: 'reject' }, 'bad', 'SPF failed, DKIM is missing and DMARC failed'],
    [
      { spf: 'pass', spfDomain: 'mailer.test', dkim: [['mailer.test', 'pass', false]], dmarc: 'fail', policy: 'none' },
      'bad',
      'SPF passed for mailer.test, DKIM passed for mailer.test and DMARC failed',
    ],
    // The name in HELO says nothing about From.
    [
      { spf: 'pass', identity: 'helo' },
      'warning',
      'SPF passed for the name of the server, DKIM is missing and DMARC is missing',
    ],
    // Whatever else passes, the domain says that this is not enough.
    [
      { spf: 'pass', dkim: [['example.org', 'fail', true]], dmarc: 'fail' },
      'bad',
      'SPF passed for example.org, DKIM failed and DMARC failed',
    ],
  ] as readonly (readonly [Given, string, string])[])('names why it is missing: %o', (given, tone, reasons) => {
    expect(prove(given)).toEqual({
      tone: tone as 'bad',
      sentence: `Claims to be from ada@Example.org, but that is not proven: ${reasons}.`,
    })
  })

  test('is unknown when DNS did not answer or nothing was checked', () => {
    const from = 'ada@example.org'
    expect(toProof({ authentication: UNKNOWN_AUTHENTICATION, from })).toMatchObject({ tone: 'neutral' })
    for (const authentication of [null, undefined, 'x', {}, []])
      expect(toProof({ authentication, from })).toEqual({
        tone: 'neutral',
        sentence: 'Claims to be from ada@example.org; that was not checked.',
      })
    expect(listChecks({ authentication: null })).toEqual([])
    expect(prove({ spf: 'pass' }, null)).toMatchObject({ tone: 'warning' })
  })

  test('shows what would disguise a name', () => {
    expect(prove({}, 'ada\u202E@example.org').sentence).toContain('ada[U+202E]@example.org')
    expect(listChecks({ authentication: results({ dkim: [['evil\u202E.test', 'fail', false]] }) })[1]).toMatchObject({
      name: 'DKIM',
      word: 'Failed',
      explanation: 'Signed by evil[U+202E].test (failed).',
    })
  })
})

test('disguising characters are shown as their codes; letters of all scripts and emoji stay', () => {
  expect(toVisible('invoice\u202Efdp.exe')).toBe('invoice[U+202E]fdp.exe')
  expect(toVisible('a\r\nBcc: b\0\u2066')).toBe('a[U+000D][U+000A]Bcc: b[U+0000][U+2066]')
  expect(toVisible('עברית 👩‍👩‍👧 می‌خواهم')).toBe('עברית 👩‍👩‍👧 می‌خواهم')
})

test.each([
  ['Ada Lovelace <ada@example.org>', 'Ada Lovelace'],
  ['"Boss <boss@bank.test>" <eve@evil.test>', 'Boss <boss@bank.test>'],
  ['ada@example.org', undefined],
  ['<ada@example.org>', undefined],
  ['', undefined],
  [null, undefined],
])('the display name of %p is %p', (header, name) => {
  expect(findDisplayName(header)).toBe(name as string)
})

test('an address in the name that is not the sender is found', () => {
  const header = '"Boss <Boss@bank.test>" <eve@evil.test>'
  expect(findClaimedAddress(header, 'eve@evil.test')).toBe('Boss@bank.test')
  expect(findClaimedAddress(header, 'boss@bank.test')).toBeUndefined()
  expect(findClaimedAddress('boss@bank.test via list <list@a.test>', 'list@a.test')).toBe('boss@bank.test')
  expect(findClaimedAddress('Ada @ home <ada@a.test>', 'ada@a.test')).toBeUndefined()
  expect(findClaimedAddress(null, null)).toBeUndefined()
})

test('routes are named by their addresses', () => {
  expect(formatRoute({ pattern: 'support', match_type: 'exact' }, 'a.test')).toBe('support@a.test')
  expect(formatRoute({ pattern: 'support@a.test', match_type: 'exact' }, 'a.test')).toBe('support@a.test')
  expect(formatRoute({ pattern: '"a@b"', match_type: 'exact' }, 'a.test')).toBe('"a@b"@a.test')
  expect(formatRoute({ pattern: 'sales-', match_type: 'prefix' }, 'a.test')).toBe('sales-…@a.test')
  expect(formatRoute({ pattern: 'x', match_type: 'catch_all' }, 'a.test')).toBe('all of a.test')
})

test('a route whose webhook failures deactivated is told from a failing one', () => {
  const route = { is_active: true, webhook_url: 'https://a.test/' }
  const reason = 'deactivated after 10 consecutive failures'
  expect(isDeactivated({ ...route, last_failure_reason: reason })).toBe(true)
  expect(isDeactivated({ ...route, last_failure_reason: 'HTTP 500' })).toBe(false)
  expect(isDeactivated({ ...route, webhook_url: null, last_failure_reason: reason })).toBe(false)
})
