import { describe, expect, test } from 'bun:test'
import {
  domainOfMailbox,
  formatMailbox,
  normaliseAddress,
  parseMailbox,
  parseMailboxList,
  toWireAddress,
} from '#protocols/address/parse.ts'

const named = (text: string): unknown => {
  const result = parseMailbox(text)
  return result.kind === 'ok' ? [result.name, result.address] : result.reason
}

describe('parseMailbox', () => {
  test('splits an address, lower-cases its domain and keeps its local part as given', () => {
    expect(parseMailbox('Jane.Doe+x@Example.COM')).toEqual({
      kind: 'ok',
      name: undefined,
      address: 'Jane.Doe+x@example.com',
      localPart: 'Jane.Doe+x',
      domain: 'example.com',
      needsSmtpUtf8: false,
    })
  })

  test.each([
    ['Jane <j@example.com>', ['Jane', 'j@example.com']],
    ['  Jane   van  Doe  < j@example.com > ', ['Jane van Doe', 'j@example.com']],
    ['<j@example.com>', [undefined, 'j@example.com']],
    ['"" <j@example.com>', [undefined, 'j@example.com']],
    ['Doe, Jane, PhD <j@example.com>', ['Doe, Jane, PhD', 'j@example.com']],
    ['"Doe, \\"JJ\\" \\\\ Jane" <j@example.com>', ['Doe, "JJ" \\ Jane', 'j@example.com']],
    ['"Jane" Doe <j@example.com>', ['Jane Doe', 'j@example.com']],
    ['Bob "The Man" O\'Neil (x) <b@example.com>', ['Bob "The Man" O\'Neil (x)', 'b@example.com']],
    ['Zoë Ünï 日本 🎉 <z@example.com>', ['Zoë Ünï 日本 🎉', 'z@example.com']],
    ['A <b@c.com> D <d@example.com>', ['A <b@c.com> D', 'd@example.com']],
    ['"ceo@bank.example" <x@example.com>', ['ceo@bank.example', 'x@example.com']],
    ['=?UTF-8?Q?J=C3=B6rg?= <j@example.com>', ['Jörg', 'j@example.com']],
    ['"a b"@example.com', [undefined, '"a b"@example.com']],
    ['"a@b\\"c"@example.com', [undefined, '"a@b\\"c"@example.com']],
    ['X <"a,b"@example.com>', ['X', '"a,b"@example.com']],
    ["!#$%&'*+-/=?^_`{|}~@example.com", [undefined, "!#$%&'*+-/=?^_`{|}~@example.com"]],
  ])('accepts %s', (text, expected) => {
    expect(named(text)).toEqual(expected)
  })

  // Proves: send-47
  test.each([
    ['j@bücher.example', 'j@xn--bcher-kva.example'],
    ['j@BÜCHER.Example', 'j@xn--bcher-kva.example'],
    ['j@XN--BCHER-KVA.example', 'j@xn--bcher-kva.example'],
    ['j@faß.de', 'j@xn--fa-hia.de'],
    ['j@日本語。jp', 'j@xn--wgv71a119e.jp'],
    ['j@ΑΣ-X.gr', 'j@xn---x-b9b6e.gr'],
  ])('converts the domain of %s to A-labels', (text, address) => {
    expect(named(text)).toEqual([undefined, address])
  })

  test('reports that only a local part beyond ASCII needs SMTPUTF8', () => {
    expect(parseMailbox('用户@例え.jp')).toEqual({
      kind: 'ok',
      name: undefined,
      address: '用户@xn--r8jz45g.jp',
      localPart: '用户',
      domain: 'xn--r8jz45g.jp',
      needsSmtpUtf8: true,
    })
    expect(parseMailbox('Jörg <j@bücher.example>')).toMatchObject({ kind: 'ok', needsSmtpUtf8: false })
  })

  // RFC 5321 §4.1.2 wants quotes, but some mobile providers gave out such addresses.
  test.each([
    ['taro..yamada.@docomo.example', '"taro..yamada."@docomo.example'],
    ['.a@example.com', '".a"@example.com'],
    ['a..b@example.com', '"a..b"@example.com'],
    ['"a..b"@example.com', '"a..b"@example.com'],
    ['"a b"@example.com', '"a b"@example.com'],
    ['a.b@example.com', 'a.b@example.com'],
  ])('keeps %s, which is %s on the wire, and both have one key', (address, wire) => {
    expect(named(address)).toEqual([undefined, address])
    expect(toWireAddress(address)).toBe(wire)
    expect(named(wire)).toEqual([undefined, wire])
    expect(normaliseAddress(wire)).toBe(normaliseAddress(address))
  })

  test.each([
    ['', 'The address is empty.'],
    ['   ', 'The address is empty.'],
    ['jane', '"jane" is not an address: it has no @ after a local part.'],
    ['Jane <>', '"" is not an address: it has no @ after a local part.'],
    ['@example.com', 'The address has nothing before the @.'],
    ['""@example.com', 'The address has nothing before the @.'],
    ['a@', 'The address has no domain after the @.'],
    ['a@b@example.com', 'The address has more than one @.'],
    ['..@example.com', 'The part before the @ has a space or a character that is only allowed in quotes.'],
    ['a b@example.com', 'The part before the @ has a space or a character that is only allowed in quotes.'],
    ['a,b@example.com', 'The part before the @ has a space or a character that is only allowed in quotes.'],
    ['a\u200b@example.com', 'The part before the @ has a space or a character that is only allowed in quotes.'],
    ['"a<b"@example.com', 'The address must end with the ">" that closes the last "<".'],
    ['X <"a>b"@example.com>', 'The part before the @ has an angle bracket.'],
    ['"a@example.com', '"\\"a@example.com" is not an address: it has no @ after a local part.'],
    ['a@localhost', 'The domain "localhost" has no dot.'],
    ['a@[192.0.2.1]', 'The domain is an IP address in brackets; only domain names can receive mail here.'],
    ['a@192.0.2.1', 'The domain ends in a number; it looks like an IP address.'],
    ['a@１９２.0.2.1', 'The domain ends in a number; it looks like an IP address.'],
    ['a@example.com.', 'The domain has an extra dot.'],
    ['a@exa..mple.com', 'The domain has an extra dot.'],
    ['a@-example.com', 'A part of the domain starts or ends with a hyphen.'],
    ['a@exa_mple.com', 'The domain "exa_mple.com" has an invalid character.'],
    ['a@ex%61mple.com', 'The domain "ex%61mple.com" has an invalid character.'],
    ['a@xn--a.com', 'The domain "xn--a.com" is not a valid internationalised name.'],
    ['Jane <j@example.com', 'The address must end with the ">" that closes the last "<".'],
    ['Jane <j@example.com> (work)', 'The address must end with the ">" that closes the last "<".'],
    ['j@example.com>', 'The address has a ">" without a "<" before it.'],
    ['"Jane <j@example.com>', 'The name before the address has a quote that is never closed.'],
    ['\ud800 <j@example.com>', 'The address is not valid Unicode text.'],
  ])('rejects %j with a reason', (text, reason) => {
    expect(parseMailbox(text)).toEqual({ kind: 'invalid', reason })
  })

  test.each(['\r', '\n', '\0', '\t', '\x7f', '\x85', '\u2028'])(
    'rejects the control character %j anywhere',
    (control) => {
      const reason = 'The address has a line break or another control character.'
      for (const text of [
        `${control}j@example.com`,
        `J${control}D <j@example.com>`,
        `j@exam${control}ple.com`,
        `j@example.com${control}`,
      ])
        expect(parseMailbox(text)).toEqual({ kind: 'invalid', reason })
    },
  )

  test('limits lengths: local part 64 octets, label 63, domain 253, address 254, name 256, text 1,000', () => {
    const domain = (length: number) =>
      `${'a'.repeat(60)}.`
        .repeat(4)
        .concat('b'.repeat(length))
        .slice(0, length - 4)
        .concat('.com')
    expect(named(`${'a'.repeat(64)}@example.com`)).toEqual([undefined, `${'a'.repeat(64)}@example.com`])
    expect(named(`${'a'.repeat(65)}@example.com`)).toBe('The part before the @ is longer than 64 octets.')
    expect(named(`${'é'.repeat(33)}@example.com`)).toBe('The part before the @ is longer than 64 octets.')
    expect(named(`a@${'b'.repeat(63)}.com`)).toEqual([undefined, `a@${'b'.repeat(63)}.com`])
    expect(named(`a@${'b'.repeat(64)}.com`)).toBe('A part of the domain is longer than 63 characters.')
    expect(domain(252)).toHaveLength(252)
    expect(named(`a@${domain(252)}`)).toEqual([undefined, `a@${domain(252)}`])
    expect(named(`ab@${domain(252)}`)).toBe('The address is longer than 254 characters.')
    expect(named(`a@${'b.'.repeat(126)}com`)).toBe('The domain is longer than 253 characters.')
    expect(named(`a@${'ü'.repeat(50)}.${'ü'.repeat(240)}`)).toBe('The domain is longer than 253 characters.')
    expect(named(`${'n'.repeat(256)} <a@example.com>`)).toEqual(['n'.repeat(256), 'a@example.com'])
    expect(named(`${'n'.repeat(257)} <a@example.com>`)).toBe(
      'The name before the address is longer than 256 characters.',
    )
    expect(named(`${' '.repeat(1000)}a@example.com`)).toBe('The address is longer than 1,000 characters.')
  })
})

describe('parseMailboxList', () => {
  const addresses = (text: string): unknown => {
    const result = parseMailboxList(text)
    return result.kind === 'ok' ? result.mailboxes.map(({ name, address }) => [name, address]) : result.reason
  }

  test.each([
    ['a@example.com', [[undefined, 'a@example.com']]],
    [
      'a@example.com,b@example.com',
      [
        [undefined, 'a@example.com'],
        [undefined, 'b@example.com'],
      ],
    ],
    [
      'Doe, Jane <j@example.com>, b@example.com',
      [
        ['Doe, Jane', 'j@example.com'],
        [undefined, 'b@example.com'],
      ],
    ],
    [
      'b@example.com, Acme, Inc., EU <a@example.com>',
      [
        [undefined, 'b@example.com'],
        ['Acme, Inc., EU', 'a@example.com'],
      ],
    ],
    [
      '"x@y.com, z" <a@example.com>, "b,c"@example.com',
      [
        ['x@y.com, z', 'a@example.com'],
        [undefined, '"b,c"@example.com'],
      ],
    ],
  ])('accepts %s as a list', (text, expected) => {
    expect(addresses(text)).toEqual(expected)
  })

  test.each([
    ['', 'The address is empty.'],
    ['a@example.com,', 'The address is empty.'],
    [',a@example.com', 'The list of addresses has an extra comma.'],
    ['a@example.com,,b@example.com', 'The list of addresses has an extra comma.'],
    ['a@example.com, jane', '"jane" is not an address: it has no @ after a local part.'],
    ['a@example.com b@example.com', 'The address has more than one @.'],
    ['a@example.com\r\nBcc: x@example.com', 'The address has a line break or another control character.'],
  ])('rejects %j with a reason', (text, reason) => {
    expect(parseMailboxList(text)).toEqual({ kind: 'invalid', reason })
  })
})

test('accepts at most 100 mailboxes and 20,000 characters', () => {
  const list = (count: number) => parseMailboxList(Array(count).fill('a@example.com').join())
  expect(list(100)).toMatchObject({ kind: 'ok' })
  expect(list(101)).toEqual({ kind: 'invalid', reason: 'The list has more than 100 addresses.' })
  const reason = 'The list of addresses is longer than 20,000 characters.'
  expect(parseMailboxList('a'.repeat(20_001))).toEqual({ kind: 'invalid', reason })
})

describe('formatMailbox', () => {
  test.each([
    [undefined, 'a@example.com', 'a@example.com'],
    ['Jane Doe', 'a@example.com', 'Jane Doe <a@example.com>'],
    ['Acme, Inc.', 'a@example.com', '"Acme, Inc." <a@example.com>'],
    ['say "hi" \\o/', 'a@example.com', '"say \\"hi\\" \\\\o/" <a@example.com>'],
    ['Zoë', 'a@example.com', '"Zoë" <a@example.com>'],
    [undefined, '"a b"@example.com', '<"a b"@example.com>'],
  ])('formats %j and %s as %s, which parses back', (name, address, expected) => {
    expect(formatMailbox({ name, address })).toBe(expected)
    expect(named(expected)).toEqual([name, address])
  })

  test('throws on a control character in a name, a bug in the caller', () => {
    expect(() => formatMailbox({ name: 'a\r\nBcc: x', address: 'a@example.com' })).toThrow('control character')
  })
})

test('normaliseAddress returns one key for every spelling of an address', () => {
  const key = 'jane.doe@xn--bcher-kva.example'
  for (const spelling of [
    'Jane.Doe@bücher.example',
    ' JANE.DOE@BÜCHER.EXAMPLE ',
    'jane.doe@XN--BCHER-KVA.example',
    '"Jane.Doe"@bücher.example',
  ])
    expect(normaliseAddress(spelling)).toBe(key)
  expect(normaliseAddress('zoe\u0308@example.com')).toBe(normaliseAddress('ZOË@example.com'))
  expect(normaliseAddress('"a b"@Example.com')).toBe('"a b"@example.com')
  expect(normaliseAddress('Postmaster')).toBe('postmaster')
})

test.each([
  ['"b ob"@x.test', ['"b\\ ob"@x.test', '"\\b\\ \\o\\b"@x.test', '"B OB"@X.test']],
  ['"b,ob"@x.test', ['"b\\,ob"@x.test']],
  ['"a\\"b\\\\c"@x.test', ['"\\a\\"b\\\\\\c"@x.test']],
  ['.b..ob.@x.test', ['".b..ob."@x.test', '".b.\\.OB."@x.test']],
  ['".."@x.test', ['"\\.."@x.test']],
  ['b.ob@x.test', ['"b.ob"@x.test', '"b\\.ob"@x.test']],
  ['\u03b1\u03c3@x.test', ['\u0391\u03a3@x.test', '\u03b1\u03c2@x.test', '"\u0391\u03a3"@x.test']],
  ['\u00e9@x.test', ['"e\\\u0301"@x.test', 'E\u0301@x.test']],
])('normaliseAddress returns %s for each spelling', (key, spellings) => {
  expect([key, ...spellings].map(normaliseAddress)).toEqual(Array(spellings.length + 1).fill(key))
})

test('normaliseAddress returns different keys for different mailboxes', () => {
  const keys = ['"a b"@x.test', '"a  b"@x.test', 'ab@x.test', '"a\\"b"@x.test', '"a\\\\b"@x.test'].map(normaliseAddress)
  expect(new Set(keys).size).toBe(keys.length)
})

test('normaliseAddress returns its own output unchanged, for any text', () => {
  let seed = 1
  const next = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  const pieces =
    'a Z @ . " " \\ \\ xn-- - < = %61 \u0130 \u0307 \u0301 \u0338 \u1e9e \u03a3 \u03c2 \u212b \ufb01 \ud800 \u3002 ü'.split(
      ' ',
    )
  pieces.push(' ', '\n', '\u00ad')
  for (let round = 0; round < 40_000; round++) {
    const text = Array.from({ length: 1 + next(9) }, () =>
      next(4) === 0 ? String.fromCodePoint(0x20 + next(0x24_00)) : pieces[next(pieces.length)],
    ).join('')
    const address = next(2) === 0 ? text : `"${text}"@x.test`
    const key = normaliseAddress(address)
    if (normaliseAddress(key) !== key) throw new Error(`${JSON.stringify(address)} has the key ${JSON.stringify(key)}`)
  }
})

test('domainOfMailbox finds the domain after a name and quotes that contain an @', () => {
  for (const mailbox of [
    'a@b.test',
    'Ada <a@b.test>',
    '"A@c.test" <a@b.test>',
    '"a@c.test"@b.test',
    'Ada <"a@c"@b.test>',
  ])
    expect(domainOfMailbox(mailbox)).toBe('b.test')
})

test('hostile input is rejected by length without being scanned', () => {
  for (const text of [
    '<'.repeat(900),
    '"\\'.repeat(499),
    `${'a.'.repeat(499)}@`,
    ','.repeat(20_000),
    `${'a,'.repeat(9_999)}@`,
  ])
    expect([parseMailbox(text).kind, parseMailboxList(text).kind]).toEqual(['invalid', 'invalid'])
})
