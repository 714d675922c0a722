import { describe, expect, test } from 'bun:test'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { formatAuthenticationResults, isForgedResult } from '#protocols/authentication/results-header.ts'
import { createMessage, createPassingZone, HOSTNAME, keyRecord, runAuthentication, signForTest } from './received.ts'

const plain: AuthenticationResult = {
  spf: 'none',
  dkim: 'none',
  dmarc: 'none',
  arc: 'none',
  iprev: 'permerror',
  details: {
    spf: { result: 'none', domain: '', client_ip: '2001:db8::1', helo: 'x', identity: 'mailfrom', comment: null },
    dkim: [],
    dmarc: { result: 'none', domain: '', policy: null, comment: null },
    arc: { result: 'none', instances: 0, comment: null },
    iprev: { result: 'permerror', name: null },
  },
}

describe('formatAuthenticationResults', () => {
  test('lists the results, folded', async () => {
    const zone = { ...createPassingZone(), 'l1._domainkey.list.test': { TXT: [`${keyRecord}; s=other`] } }
    const { result } = await runAuthentication(signForTest(signForTest(createMessage()), 'list.test', 'l1'), { zone })
    expect(formatAuthenticationResults(result, HOSTNAME).split('\r\n')).toEqual([
      'mail.tassis.test;',
      ' iprev=pass policy.iprev=192.0.2.1 (out.sender.test);',
      ' spf=pass smtp.mailfrom=sender.test;',
      ' dkim=neutral (key not for email) header.d=list.test header.s=l1',
      '  header.a=rsa-sha256;',
      ' dkim=pass header.d=sender.test header.s=s1 header.a=rsa-sha256;',
      ' dmarc=pass (p=REJECT) policy.dmarc=reject header.from=sender.test;',
      ' arc=none',
    ])
  })

  test('names the HELO identity, quotes non-tokens, and omits missing values', async () => {
    const { result } = await runAuthentication(createMessage(), { facts: { mailFrom: '' } })
    expect(formatAuthenticationResults(result, HOSTNAME)).toContain(
      ' spf=pass smtp.helo=out.sender.test;\r\n dkim=none;',
    )
    expect(formatAuthenticationResults(plain, HOSTNAME).split('\r\n')).toEqual([
      'mail.tassis.test;',
      ' iprev=permerror policy.iprev="2001:db8::1";',
      ' spf=none;',
      ' dkim=none;',
      ' dmarc=none;',
      ' arc=none',
    ])
  })

  test('writes lines of 78 characters and not 79', () => {
    // ` spf=none smtp.mailfrom=` and the semicolon are 25 characters.
    const lines = (domain: string) =>
      formatAuthenticationResults(
        { ...plain, details: { ...plain.details, spf: { ...plain.details.spf, domain } } },
        HOSTNAME,
      )
        .split('\r\n')
        .slice(2, 4)
    expect([lines('d'.repeat(53)), lines('d'.repeat(54))]).toEqual([
      [` spf=none smtp.mailfrom=${'d'.repeat(53)};`, ' dkim=none;'],
      [' spf=none', `  smtp.mailfrom=${'d'.repeat(54)};`],
    ])
  })

  test('lets no remote text end a comment, a value or the field', () => {
    const hostile = 'x") (a\\ dkim=pass header.d=b.test'
    const cut = 'x; dkim=pass header.d=b.test'
    const { details } = plain
    const signature = {
      result: 'fail',
      domain: '',
      selector: '',
      algorithm: null,
      aligned: false,
      comment: null,
    } as const
    const result: AuthenticationResult = {
      ...plain,
      details: {
        ...details,
        spf: { ...details.spf, domain: hostile },
        dkim: [
          { ...signature, domain: hostile, selector: 'a\r\nX: y', algorithm: 'é', comment: hostile },
          { ...signature, domain: 'd'.repeat(256), selector: cut, comment: cut },
          { ...signature, comment: 'c'.repeat(256) },
        ],
        arc: { result: 'temperror', instances: 1, comment: null },
      },
    }
    const quoted = '"x\\") (a\\\\ dkim=pass header.d=b.test"'
    expect(formatAuthenticationResults(result, HOSTNAME).split('\r\n')).toEqual([
      'mail.tassis.test;',
      ' iprev=permerror policy.iprev="2001:db8::1";',
      ` spf=none smtp.mailfrom=${quoted};`,
      ' dkim=fail (x"\\) \\(a\\\\ dkim=pass header.d=b.test)',
      `  header.d=${quoted};`,
      ' dkim=fail (x, dkim=pass header.d=b.test);',
      ' dkim=fail;',
      ' dmarc=none',
    ])
  })
})

describe('isForgedResult', () => {
  test.each([
    'mail.tassis.test; spf=pass',
    'mail.tassis.test',
    ' \r\n mail.tassis.test;spf=pass',
    'MAIL.Tassis.Test. 1; none',
    '"mail.tassis.test"; spf=pass',
    '"mail\\.tassis.test"; spf=pass',
    '(a (nested \\) one)) mail.tassis.test (c); spf=pass',
    'mail.tassis.test(c); spf=pass',
    // Unreadable authserv-ids.
    '',
    '; spf=pass',
    'spf=pass smtp.mailfrom=a.test',
    '(unclosed mail.tassis.test; spf=pass',
    '"mail.tassis.test; spf=pass',
    '=?utf-8?q?mail.tassis.test?=; spf=pass',
    'mail.tassis.test,; spf=pass',
  ])('matches %j: the host is ours, missing or unreadable', (value) => {
    expect(isForgedResult('Authentication-Results', value, HOSTNAME)).toBe(true)
  })

  test.each([
    'mx.other.test; spf=pass',
    'mail.tassis.test.evil.example; spf=pass',
    'xmail.tassis.test; spf=pass',
    '(mail.tassis.test) mx.other.test; spf=pass (mail.tassis.test)',
    '"mx.other.test"; spf=pass',
    '(a \\) mail.tassis.test) mx.other.test; spf=pass',
  ])('does not match %j', (value) => {
    expect(isForgedResult('Authentication-Results', value, HOSTNAME)).toBe(false)
  })

  test('matches only that field, in any case, and our name also in U-labels', () => {
    expect([
      isForgedResult('AUTHENTICATION-results ', 'mail.tassis.test; none', HOSTNAME),
      isForgedResult('ARC-Authentication-Results', 'mail.tassis.test; none', HOSTNAME),
      isForgedResult('X-Authentication-Results', 'mail.tassis.test; none', HOSTNAME),
      isForgedResult('Authentication-Results', 'mail.BÜCHER.test; none', 'mail.xn--bcher-kva.test'),
      isForgedResult('Authentication-Results', `${'('.repeat(100_000)}mx.other.test`, HOSTNAME),
    ]).toEqual([true, false, false, true, true])
  })
})
