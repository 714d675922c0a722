import { describe, expect, test } from 'bun:test'
import { findRegistrableDomain, validateDomainName } from '#features/setup/domains/name.ts'

describe('a domain to register', () => {
  test.each([
    ['example.com', 'example.com'],
    ['  Mail.Example.COM. ', 'mail.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['例え。テスト', 'xn--r8jz45g.xn--zckzah'],
    ['example.test', 'example.test'],
    ['shop.example.co.uk', 'shop.example.co.uk'],
    ['me.github.io', 'me.github.io'],
    ['1and1.com', '1and1.com'],
    [`${'a'.repeat(63)}.com`, `${'a'.repeat(63)}.com`],
  ])('%j is read as %s', (text, domain) => {
    expect(validateDomainName(text)).toEqual({ kind: 'ok', domain })
  })

  // Proves: domain-6
  test.each([
    ['', 'is empty'],
    ['  ', 'is empty'],
    ['localhost', 'no top-level domain'],
    ['com', 'com has no top-level domain; enter the whole name, such as example.com.'],
    ['co.uk', 'public suffix'],
    ['github.io', 'public suffix'],
    ['192.0.2.1', 'IP address'],
    ['0x7f.1', 'IP address'],
    ['1.2.3', 'IP address'],
    ['example.123', 'IP address'],
    ['2001:db8::1', 'enter the bare name'],
    ['[192.0.2.1]', 'enter the bare name'],
    ['https://example.com', 'enter the bare name'],
    ['user@example.com', 'enter the bare name'],
    ['ex%61mple.com', 'enter the bare name'],
    ['exa mple.com', 'enter the bare name'],
    ['a..com', 'cannot be part of a domain'],
    ['.example.com', 'cannot be part of a domain'],
    ['example.com..', 'cannot be part of a domain'],
    ['_dmarc.example.com', 'cannot be part of a domain'],
    ['-a.example.com', 'cannot be part of a domain'],
    ['a-.example.com', 'cannot be part of a domain'],
    ['*.example.com', 'cannot be part of a domain'],
    [`${'a'.repeat(64)}.com`, 'cannot be part of a domain'],
    ['xn--a.example', 'internationalised'],
    [`${'a.'.repeat(125)}test.com`, 'at most 253'],
    ['a'.repeat(10_000), 'at most 253'],
  ])('%j is rejected', (text, reason) => {
    const result = validateDomainName(text)
    expect(result.kind).toBe('invalid')
    expect(result.kind === 'invalid' && result.reason).toContain(reason)
  })
})

test('the registrable domain is one label below the public suffix', () => {
  expect(findRegistrableDomain('a.b.example.co.uk')).toBe('example.co.uk')
  expect(findRegistrableDomain('example.com')).toBe('example.com')
  expect(findRegistrableDomain('x.me.github.io')).toBe('me.github.io')
  expect(findRegistrableDomain('a.example.test')).toBe('example.test')
  expect(findRegistrableDomain('co.uk')).toBeUndefined()
})
