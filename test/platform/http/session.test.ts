import { describe, expect, test } from 'bun:test'
import { formatCookie, readCookie, requireOwnOrigin } from '#platform/http/session.ts'

const PLAIN = { isSecure: false }
const SECURE = { isSecure: true }

describe('the session cookie', () => {
  test('is found by its exact name', () => {
    const tokenIn = (cookie: string, options = PLAIN) => readCookie(new Headers({ cookie }), options)
    expect({
      alone: tokenIn('tassis_session=abc'),
      among: tokenIn('a=1; tassis_session=abc; b=2'),
      empty: tokenIn('tassis_session='),
      other: tokenIn('xtassis_session=abc; TASSIS_SESSION=abc; tassis_session_=abc'),
      twice: tokenIn('tassis_session=abc; tassis_session=def'),
      long: tokenIn(`tassis_session=${'x'.repeat(201)}`),
      plainOverHttps: tokenIn('tassis_session=abc', SECURE),
      secure: tokenIn('tassis_session=abc; __Host-tassis_session=def', SECURE),
      // A browser protects the prefix of a name, but not of one with a Unicode space before it, which another host of
      // the domain may set.
      disguised: tokenIn('\u00a0__Host-tassis_session=abc', SECURE),
      disguisedBeside: tokenIn('\u00a0__Host-tassis_session=abc; \t__Host-tassis_session=def ', SECURE),
      none: readCookie(new Headers(), PLAIN),
    }).toEqual({
      alone: 'abc',
      among: 'abc',
      empty: '',
      other: undefined,
      // Another host has set one of them: neither is accepted.
      twice: undefined,
      long: undefined,
      plainOverHttps: undefined,
      secure: 'def',
      disguised: undefined,
      disguisedBeside: 'def',
      none: undefined,
    })
  })

  // Proves: user-2
  test('is not read from a Cookie header of more than 8192 characters, blanks included', () => {
    const tokenIn = (cookie: string) => readCookie(new Headers({ cookie }), PLAIN)
    const filled = (length: number) => `a=${'\t'.repeat(100)}${'x'.repeat(length - 122)}; tassis_session=abc`
    expect([filled(8192).length, tokenIn(filled(8192))]).toEqual([8192, 'abc'])
    expect(() => tokenIn(filled(8193))).toThrow(expect.objectContaining({ status: 431, code: 'cookie_too_long' }))
  })

  test('is limited to this host, Secure only with https, and deleted with Max-Age=0', () => {
    expect([formatCookie('abc', 60, PLAIN), formatCookie('', 0, SECURE)]).toEqual([
      'tassis_session=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax',
      '__Host-tassis_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure',
    ])
  })
})

describe('a request from a page', () => {
  const isOwn = (headers: Record<string, string>): boolean => {
    try {
      requireOwnOrigin(new Headers({ host: 'inside.test:8080', ...headers }), 'https://mail.example.com/base')
      return true
    } catch {
      return false
    }
  }

  test.each<Record<string, string>>([
    {},
    { origin: 'https://mail.example.com' },
    { origin: 'http://inside.test:8080' },
    { origin: 'https://inside.test:8080' },
    { 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'none' },
    { origin: 'https://mail.example.com', 'sec-fetch-site': 'same-origin' },
  ])('of our own, or from a program, is accepted: %j', (headers) => {
    expect(isOwn(headers)).toBe(true)
  })

  test.each<Record<string, string>>([
    { origin: 'null' },
    { origin: '' },
    { origin: 'https://evil.test' },
    { origin: 'http://mail.example.com' },
    { origin: 'https://mail.example.com:444' },
    { origin: 'https://mail.example.com.evil.test' },
    { origin: 'http://inside.test' },
    { origin: 'http://inside.test:8081' },
    { origin: 'file://' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://mail.example.com', 'sec-fetch-site': 'cross-site' },
  ])('of another site is refused: %j', (headers) => {
    expect(isOwn(headers)).toBe(false)
  })
})
