import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { sealMessage } from 'mailauth/lib/arc'
import { dkimSign } from 'mailauth/lib/dkim/sign'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import { composeToBuffer } from '#test/support/compose.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createResolver } from '#test/support/resolver.ts'
import { hasDkimpy, verifyWithDkimpy } from '../dkim/verifiers.ts'
import { createTrickyInput } from '../mime/sample.ts'
import {
  createMessage,
  createPassingZone,
  facts,
  keyRecord,
  NOW,
  privateKeyPem,
  readDetails,
  runAuthentication,
  shortKey,
  signForTest,
  summariseVerdicts,
} from './received.ts'

const withZone = (changes: Zone): Zone => ({ ...createPassingZone(), ...changes })

test('a message from a correctly configured sender passes all checks, with all details', async () => {
  expect((await runAuthentication(signForTest(createMessage()))).result).toEqual({
    spf: 'pass',
    dkim: 'pass',
    dmarc: 'pass',
    arc: 'none',
    iprev: 'pass',
    details: {
      spf: {
        result: 'pass',
        domain: 'sender.test',
        client_ip: '192.0.2.1',
        helo: 'out.sender.test',
        identity: 'mailfrom',
        comment: 'domain of news@sender.test designates 192.0.2.1 as permitted sender',
      },
      dkim: [
        {
          result: 'pass',
          domain: 'sender.test',
          selector: 's1',
          algorithm: 'rsa-sha256',
          aligned: true,
          comment: null,
        },
      ],
      dmarc: { result: 'pass', domain: 'sender.test', policy: 'reject', comment: 'p=REJECT' },
      arc: { result: 'none', instances: 0, comment: null },
      iprev: { result: 'pass', name: 'out.sender.test' },
    },
  })
})

test('a message without any authentication is none in all checks, and a permerror without a name of its client', async () => {
  const none = 'spf=none dkim=none dmarc=none arc=none iprev=permerror'
  expect(await summariseVerdicts(createMessage(), { zone: { 'sender.test': {} } })).toBe(none)
  expect((await readDetails(createMessage(), { zone: {} })).dkim).toEqual([])
})

test('a client that gives its name with blanks is judged like one without a name', async () => {
  const { spf } = await readDetails(createMessage(), { zone: {}, facts: { helo: 'my office pc', mailFrom: '' } })
  expect(spf.result).toBe('none')
})

describe('spf', () => {
  const spf = async (record: string, changes: Zone = {}, other = {}) =>
    (
      await readDetails(createMessage(), {
        zone: withZone({ 'sender.test': { TXT: [record] }, ...changes }),
        facts: other,
      })
    ).spf.result

  test.each([
    ['v=spf1 ip4:192.0.2.0/24 -all', 'pass'],
    ['v=spf1 -all', 'fail'],
    ['v=spf1 ~all', 'softfail'],
    ['v=spf1 ?all', 'neutral'],
    ['v=spf1', 'neutral'],
    ['v=spf2.0/pra -all', 'none'],
    ['v=spf1 ip4:999 -all', 'permerror'],
    ['v=spf1 include:absent.test -all', 'permerror'],
    ['v=spf1 include:broken.test -all', 'temperror'],
    ['v=spf1 redirect=other.test', 'pass'],
    ['v=spf1 exists:%{ir}.list.test -all', 'pass'],
    ['v=spf1 mx -all', 'pass'],
  ])('%j is a %s', async (record, verdict) => {
    const zone: Zone = {
      'sender.test': { TXT: [record], MX: [{ preference: 1, exchange: 'out.sender.test' }] },
      'broken.test': 'SERVFAIL',
      'other.test': { TXT: ['v=spf1 ip4:192.0.2.1 -all'] },
      '1.2.0.192.list.test': { A: ['127.0.0.2'] },
    }
    expect(await spf(record, zone)).toBe(verdict as never)
  })

  test('the null reverse-path is checked by HELO', async () => {
    expect((await readDetails(createMessage(), { facts: { mailFrom: '' } })).spf).toEqual({
      result: 'pass',
      domain: 'out.sender.test',
      client_ip: '192.0.2.1',
      helo: 'out.sender.test',
      identity: 'helo',
      comment: 'domain of postmaster@out.sender.test designates 192.0.2.1 as permitted sender',
    })
    expect((await readDetails(createMessage(), { facts: { mailFrom: '', helo: '[192.0.2.1]' } })).spf.result).toBe(
      'none',
    )
  })

  test('handles an IPv6 client, an IPv4-mapped one, and one with a zone', async () => {
    const zone = withZone({ 'sender.test': { TXT: ['v=spf1 ip4:192.0.2.1 ip6:2001:db8::/32 -all'] } })
    const of = async (clientIp: string) => (await readDetails(createMessage(), { zone, facts: { clientIp } })).spf
    expect([
      (await of('2001:db8::25')).result,
      (await of('2001:db9::25')).result,
      (await of('::ffff:192.0.2.1')).result,
      (await of('2001:db8::25%eth0')).result,
    ]).toEqual(['pass', 'fail', 'pass', 'pass'])
  })

  test('allows ten lookups and not eleven, two void lookups and not three', async () => {
    const includes = (count: number) =>
      `v=spf1 ${Array.from({ length: count }, (_, i) => `include:i${i}.test`).join(' ')} -all`
    const found: Zone = Object.fromEntries(
      Array.from({ length: 11 }, (_, i) => [`i${i}.test`, { TXT: ['v=spf1 ?all'] }]),
    )
    const absent = (count: number) =>
      `v=spf1 ${Array.from({ length: count }, (_, i) => `a:no${i}.test`).join(' ')} -all`
    expect([
      await spf(includes(10), found),
      await spf(includes(11), found),
      await spf(absent(2)),
      await spf(absent(3)),
    ]).toEqual(['fail', 'permerror', 'fail', 'permerror'])
  })

  test('an include that refers to itself is a permerror after ten queries', async () => {
    const { result, queries } = await runAuthentication(createMessage(), {
      zone: withZone({
        'sender.test': { TXT: ['v=spf1 include:loop.test -all'] },
        'loop.test': { TXT: ['v=spf1 include:sender.test'] },
      }),
    })
    expect(result.spf).toBe('permerror')
    expect(queries.filter(({ name }) => name === 'loop.test')).toHaveLength(1)
  })
})

describe('dkim', () => {
  const dkim = async (raw: Uint8Array, changes: Zone = {}) =>
    (await readDetails(raw, { zone: withZone(changes) })).dkim.map(({ result, comment }) => `${result}: ${comment}`)
  const defaults = { signingDomain: 'sender.test', selector: 's1', privateKey: privateKeyPem, signTime: new Date(NOW) }
  const other = async (options: object, message = createMessage()) =>
    Buffer.concat([
      Buffer.from(
        (await dkimSign(message, { ...defaults, ...options, signatureData: [{ ...defaults, ...options }] })).signatures,
      ),
      message,
    ])

  test('a message changed in transit does not pass', async () => {
    const changed = (from: string, to: string) =>
      Buffer.from(signForTest(createMessage()).toString('latin1').replace(from, to), 'latin1')
    expect([
      await dkim(changed('Hello', 'Hullo')),
      await dkim(changed('Subject: Hi', 'Subject: Ho')),
      await dkim(changed('To:', 'From: other@sender.test\r\nTo:')),
    ]).toEqual([['fail: body hash did not verify'], ['fail: bad signature'], ['fail: bad signature']])
  })

  test.each([
    ['is missing', {}, 'neutral: no key'],
    ['has 16 KiB', { TXT: [`${keyRecord}; n=${'x'.repeat(16_384)}`] }, 'pass: null'],
    ['is revoked', { TXT: ['v=DKIM1; p='] }, 'neutral: invalid public key'],
    ['is not a key', { TXT: ['v=DKIM1; p=%%%'] }, 'neutral: invalid public key'],
    ['is not for email', { TXT: [`${keyRecord}; s=other`] }, 'neutral: key not for email'],
    ['has another type', { TXT: [keyRecord.replace('k=rsa', 'k=ed25519')] }, 'neutral: unknown key type'],
    ['cannot be resolved', 'SERVFAIL', 'temperror: DNS failure: ESERVFAIL'],
  ] as const)('a key that %s', async (_, entry, said) => {
    expect(await dkim(signForTest(createMessage()), { 's1._domainkey.sender.test': entry })).toEqual([said])
  })

  test('RSA below 1024 bits and rsa-sha1 violate policy (RFC 8301), Ed25519 does not (RFC 8463)', async () => {
    const pair = generateKeyPairSync('ed25519')
    const raw = pair.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64')
    const pem = pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    expect([
      await dkim(await other({ selector: 'short', privateKey: shortKey.pem }), {
        'short._domainkey.sender.test': { TXT: [shortKey.record] },
      }),
      await dkim(await other({ algorithm: 'rsa-sha1' })),
      await dkim(await other({ selector: 'ed', privateKey: pem }), {
        'ed._domainkey.sender.test': { TXT: [`v=DKIM1; k=ed25519; p=${raw}`] },
      }),
    ]).toEqual([['policy: weak-key'], ['policy: weak algorithm'], ['pass: null']])
  })

  test('a signature expired by our clock does not pass, but does in the second before', async () => {
    const raw = await other({ signTime: new Date(NOW - 60_000), expires: new Date(NOW + 60_000) })
    const at = async (now: number) => (await readDetails(raw, { clock: new ManualClock(now) })).dkim[0]?.result
    expect([await at(NOW + 59_000), await at(NOW + 61_000)]).toEqual(['pass', 'neutral'])
  })

  test('handles simple canonicalization, a body of bare line feeds, and no body', async () => {
    const bare = (raw: Buffer) => Buffer.from(raw.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
    expect([
      await dkim(await other({ canonicalization: 'simple/simple' })),
      await dkim(bare(await other({ canonicalization: 'simple/simple' }))),
      await dkim(bare(signForTest(createMessage(undefined, '\r\na\r\n\r\n\r\nb')))),
      await dkim(bare(signForTest(createMessage(undefined, 'Hello\r\n'.repeat(50_000))))),
      await dkim(signForTest(createMessage(undefined, ''))),
    ]).toEqual([['pass: null'], ['pass: null'], ['pass: null'], ['pass: null'], ['pass: null']])
  })

  test('of several signatures an aligned one that passes decides, and only the first ten are verified', async () => {
    const list = signForTest(signForTest(createMessage()), 'list.test', 'l1')
    const found = await runAuthentication(list, { zone: withZone({ 'l1._domainkey.list.test': { TXT: [keyRecord] } }) })
    expect(found.result.dkim).toBe('pass')
    expect(found.result.details.dkim.map(({ domain, aligned, result }) => `${domain} ${aligned} ${result}`)).toEqual([
      'list.test false pass',
      'sender.test true pass',
    ])
    let many: Uint8Array = createMessage()
    for (let number = 0; number < 12; number++) many = signForTest(many, 'sender.test', `k${number}`)
    const tenth = await runAuthentication(many)
    expect(tenth.result.details.dkim.map(({ selector }) => selector)).toEqual(
      Array.from({ length: 10 }, (_, index) => `k${11 - index}`),
    )
    expect(tenth.queries.filter(({ name }) => name.includes('_domainkey'))).toHaveLength(10)
  })

  test('a signature that passes outranks an aligned one that does not, which outranks others', async () => {
    const broken = (raw: Buffer) => Buffer.from(raw.toString('latin1').replace(/bh=./, 'bh=_'), 'latin1')
    const of = async (raw: Uint8Array, changes: Zone = {}) => {
      const { dkim, details: found } = (await runAuthentication(raw, { zone: withZone(changes) })).result
      return [dkim, ...found.dkim.map(({ domain, aligned, result }) => `${domain} ${aligned} ${result}`)]
    }
    const failing = broken(signForTest(createMessage()))
    const strict: Zone = { '_dmarc.sender.test': { TXT: ['v=DMARC1; p=none; adkim=s'] } }
    expect([
      await of(signForTest(failing, 'list.test', 'l1'), { 'l1._domainkey.list.test': { TXT: [keyRecord] } }),
      await of(signForTest(failing, 'list.test', 'l1'), { 'l1._domainkey.list.test': 'SERVFAIL' }),
      // Below the author's domain: aligned, unless alignment is strict.
      await of(broken(signForTest(createMessage(), 'news.sender.test'))),
      await of(broken(signForTest(createMessage(), 'news.sender.test')), strict),
    ]).toEqual([
      ['pass', 'list.test false pass', 'sender.test true fail'],
      ['fail', 'list.test false temperror', 'sender.test true fail'],
      ['fail', 'news.sender.test true fail'],
      ['fail', 'news.sender.test false fail'],
    ])
  })

  test.skipIf(!hasDkimpy)('20 composed messages, intact and tampered with, get the verdicts of dkimpy', async () => {
    const messages = await Promise.all(
      Array.from({ length: 20 }, async (_, number) => {
        const input = createTrickyInput(number)
        const message = signForTest(
          Buffer.concat([composeToBuffer({ ...input, from: 'a@sender.test' }), Buffer.from('\r\n')]),
        )
        // Every second message arrives with an extra octet in its body.
        return number % 2 === 0 ? message : Buffer.concat([message, Buffer.from('x\r\n')])
      }),
    )
    const ours = await Promise.all(
      messages.map(async (message) => (await readDetails(message)).dkim[0]?.result === 'pass'),
    )
    expect(ours).toEqual(verifyWithDkimpy(messages, keyRecord))
    expect(ours.filter(Boolean)).toHaveLength(10)
  })
})

describe('dmarc', () => {
  /** Neither SPF nor DKIM passes for the author's domain. */
  const foreign = { facts: { mailFrom: 'a@other.test' } }
  const dmarc = async (raw: Uint8Array, changes: Zone, more: object = foreign) => {
    const found = (await readDetails(raw, { zone: withZone(changes), ...more })).dmarc
    return `${found.result} ${found.policy} ${found.domain}`
  }
  const record = (text: string): Zone[string] => ({ TXT: [text] })

  test.each([
    ['v=DMARC1; p=none', 'fail none sender.test'],
    ['v=DMARC1; p=quarantine', 'fail quarantine sender.test'],
    ['v=DMARC1; p=reject', 'fail reject sender.test'],
    ['v=DMARC1; p=reject; t=y', 'fail quarantine sender.test'],
    ['v=DMARC1', 'none null sender.test'],
    ['v=DMARC1; p=nonsense; rua=mailto:a@b.test', 'fail none sender.test'],
    ['v=spf1 -all', 'none null sender.test'],
  ])('without alignment %j is %s', async (text, said) => {
    expect(await dmarc(createMessage(), { '_dmarc.sender.test': record(text) })).toBe(said)
  })

  test('SPF or DKIM suffices if its domain is aligned', async () => {
    const listKey = { 'l1._domainkey.list.test': { TXT: [keyRecord] } }
    expect([
      await dmarc(createMessage(), {}, {}),
      await dmarc(signForTest(createMessage()), {}),
      await dmarc(signForTest(createMessage(), 'list.test', 'l1'), listKey),
    ]).toEqual(['pass reject sender.test', 'pass reject sender.test', 'fail reject sender.test'])
  })

  test('relaxed alignment accepts domains of the same organization, strict only the same domain', async () => {
    const from = 'a@news.sender.test'
    const raw = signForTest(createMessage(from))
    const zone = (tags: string): Zone => ({
      'news.sender.test': { A: ['192.0.2.9'] },
      '_dmarc.sender.test': record(`v=DMARC1; p=reject; ${tags}`),
    })
    const sibling = { facts: { mailFrom: 'a@out.sender.test' } }
    expect([
      await dmarc(raw, zone('adkim=r')),
      await dmarc(raw, zone('adkim=s')),
      await dmarc(createMessage(from), zone('aspf=r'), sibling),
      await dmarc(createMessage(from), zone('aspf=s'), sibling),
    ]).toEqual([
      'pass reject news.sender.test',
      'fail reject news.sender.test',
      'pass reject news.sender.test',
      'fail reject news.sender.test',
    ])
  })

  test('a subdomain uses sp=, one that does not exist np=, and its own record before both (RFC 9989)', async () => {
    const zone: Zone = {
      '_dmarc.sender.test': record('v=DMARC1; p=none; sp=quarantine; np=reject'),
      'there.sender.test': { A: ['192.0.2.9'] },
      '_dmarc.own.sender.test': record('v=DMARC1; p=none'),
    }
    expect([
      await dmarc(createMessage('a@sender.test'), zone),
      await dmarc(createMessage('a@there.sender.test'), zone),
      await dmarc(createMessage('a@absent.sender.test'), zone),
      await dmarc(createMessage('a@own.sender.test'), zone),
    ]).toEqual([
      'fail none sender.test',
      'fail quarantine there.sender.test',
      'fail reject absent.sender.test',
      'fail none own.sender.test',
    ])
  })

  test('the tree walk follows psd=n and psd=y, and eight labels need seven more queries', async () => {
    const deep = 'a.b.c.d.e.f.g.h.sender.test'
    const { result, queries } = await runAuthentication(createMessage(`x@${deep}`), foreign)
    expect(result.dmarc).toBe('fail')
    expect(queries.filter(({ name }) => name.startsWith('_dmarc.')).map(({ name }) => name)).toEqual([
      `_dmarc.${deep}`,
      '_dmarc.d.e.f.g.h.sender.test',
      '_dmarc.e.f.g.h.sender.test',
      '_dmarc.f.g.h.sender.test',
      '_dmarc.g.h.sender.test',
      '_dmarc.h.sender.test',
      '_dmarc.sender.test',
      '_dmarc.test',
    ])
    const unit: Zone = {
      '_dmarc.unit.sender.test': record('v=DMARC1; p=quarantine; psd=n'),
      's1._domainkey.unit.sender.test': { TXT: [keyRecord] },
    }
    const publicSuffix: Zone = { '_dmarc.sender.test': record('v=DMARC1; p=reject; psd=y') }
    expect([
      // The parent belongs to another organization.
      await dmarc(signForTest(createMessage('a@x.unit.sender.test')), unit),
      await dmarc(signForTest(createMessage('a@x.unit.sender.test'), 'unit.sender.test'), unit),
      // Two customers of one public suffix.
      await dmarc(signForTest(createMessage('a@one.sender.test'), 'two.sender.test'), {
        ...publicSuffix,
        's1._domainkey.two.sender.test': { TXT: [keyRecord] },
      }),
    ]).toEqual([
      'fail quarantine x.unit.sender.test',
      'pass quarantine x.unit.sender.test',
      'fail reject one.sender.test',
    ])
  })

  test.each([
    ['several From fields', 'a@sender.test\r\nFrom: b@sender.test', 'there are several From fields'],
    ['addresses of several domains', 'a@sender.test, b@other.test', 'the From field has addresses of several domains'],
    ['no address', 'undisclosed', 'the From field has no domain'],
    ['an address without a domain', 'a@sender.test, b@[', 'the From field has an address without a valid domain'],
  ])('%s cannot be evaluated', async (_, from, comment) => {
    expect((await readDetails(createMessage(from))).dmarc).toEqual({
      result: 'permerror',
      domain: '',
      policy: null,
      comment,
    })
  })

  test('two authors of one domain, and a domain in U-labels, count as one author domain', async () => {
    expect(await dmarc(createMessage('a@sender.test, b@Sender.test'), {}, {})).toBe('pass reject sender.test')
    const umlaut = Buffer.from('a@bücher.test').toString('latin1')
    expect(await dmarc(createMessage(umlaut), { '_dmarc.xn--bcher-kva.test': record('v=DMARC1; p=reject') })).toBe(
      'fail reject xn--bcher-kva.test',
    )
  })

  test('a DNS failure is a temperror, unless the known results suffice or nothing could align', async () => {
    const key: Zone = { 's1._domainkey.sender.test': 'SERVFAIL' }
    expect([
      await dmarc(signForTest(createMessage()), { '_dmarc.sender.test': 'SERVFAIL' }),
      await dmarc(signForTest(createMessage()), key),
      await dmarc(signForTest(createMessage()), key, {}),
      await dmarc(signForTest(createMessage(), 'list.test', 'l1'), { 'l1._domainkey.list.test': 'SERVFAIL' }),
      await dmarc(createMessage(), { 'sender.test': { TXT: 'SERVFAIL' } }, {}),
    ]).toEqual([
      'temperror null sender.test',
      'temperror reject sender.test',
      'pass reject sender.test',
      'fail reject sender.test',
      'temperror reject sender.test',
    ])
  })
})

describe('arc', () => {
  async function sealed(message: Buffer, cv: string, i: number): Promise<Buffer> {
    const seal = {
      signingDomain: 'list.test',
      selector: 'l1',
      privateKey: privateKeyPem,
      authResults: 'mx.list.test; spf=pass smtp.mailfrom=sender.test; dkim=pass header.d=sender.test',
      cv,
      i,
      signTime: new Date(NOW),
    }
    return Buffer.concat([await sealMessage(message, seal), message])
  }
  const listKey: Zone = { 'l1._domainkey.list.test': { TXT: [keyRecord] } }
  const arc = async (raw: Uint8Array, changes: Zone = listKey) => {
    const found = (await readDetails(raw, { zone: withZone(changes) })).arc
    return `${found.result} ${found.instances}`
  }

  test('a chain passes while what it covers is unchanged', async () => {
    const once = await sealed(signForTest(createMessage()), 'none', 1)
    const twice = await sealed(once, 'pass', 2)
    const changed = (from: string, to: string) => Buffer.from(twice.toString('latin1').replace(from, to), 'latin1')
    expect([
      await arc(once),
      await arc(twice),
      await arc(changed('Hello', 'Hullo')),
      await arc(changed('spf=pass', 'spf=fail')),
      await arc(changed('cv=pass', 'cv=none')),
      await arc(twice, {}),
    ]).toEqual(['pass 1', 'pass 2', 'fail 2', 'fail 2', expect.stringMatching(/^fail/), 'fail 2'])
  })
})

describe('iprev', () => {
  const iprev = async (changes: Zone, clientIp = '192.0.2.1') => {
    const found = (await readDetails(createMessage(), { zone: withZone(changes), facts: { clientIp } })).iprev
    return `${found.result} ${found.name}`
  }
  const names = (count: number) => Array.from({ length: count }, (_, number) => `n${number}.sender.test`)

  test.each([
    ['a name that resolves elsewhere', { 'out.sender.test': { A: ['192.0.2.2'] } }, 'fail null'],
    ['a name that does not resolve', { 'out.sender.test': {} }, 'fail null'],
    ['no name', { '1.2.0.192.in-addr.arpa': {} }, 'permerror null'],
    ['invalid host names', { '1.2.0.192.in-addr.arpa': { PTR: ['localhost', 'x y.test'] } }, 'permerror null'],
    ['no answer for its names', { '1.2.0.192.in-addr.arpa': 'SERVFAIL' }, 'temperror null'],
    ['no answer for its address', { 'out.sender.test': 'SERVFAIL' }, 'temperror null'],
    [
      'one name of several that resolves back',
      { '1.2.0.192.in-addr.arpa': { PTR: ['a.test', 'OUT.sender.test'] }, 'a.test': 'SERVFAIL' },
      'pass out.sender.test',
    ],
  ] as [string, Zone, string][])('%s', async (_, changes, said) => {
    expect(await iprev(changes)).toBe(said)
  })

  test('the tenth name counts, the eleventh is not queried', async () => {
    const last = (count: number): Zone => ({
      '1.2.0.192.in-addr.arpa': { PTR: names(count) },
      [`n${count - 1}.sender.test`]: { A: ['192.0.2.1'] },
    })
    expect([await iprev(last(10)), await iprev(last(11))]).toEqual(['pass n9.sender.test', 'fail null'])
  })

  test('an IPv4-mapped client has the names of its IPv4 address', async () => {
    expect(await iprev({}, '::ffff:192.0.2.1')).toBe('pass out.sender.test')
  })

  test('IPv6 addresses are compared regardless of spelling', async () => {
    const arpa = `${[...'20010db8000000000000000000000025'].reverse().join('.')}.ip6.arpa`
    const zone: Zone = { [arpa]: { PTR: ['six.sender.test'] }, 'six.sender.test': { AAAA: ['2001:db8::25'] } }
    expect(await iprev(zone, '2001:DB8:0:0::25')).toBe('pass six.sender.test')
  })
})

describe('hostile messages cost little:', () => {
  const within = async (raw: Uint8Array, zone: Zone = createPassingZone(), other = {}) => {
    const { result, queries } = await runAuthentication(raw, { zone, facts: other })
    return { dkim: result.dkim, dmarc: result.dmarc, spf: result.spf, questions: queries.length }
  }

  test('the most expensive message causes a hundred queries', async () => {
    const zone: Zone = {
      '1.2.0.192.in-addr.arpa': { PTR: Array.from({ length: 30 }, (_, i) => `n${i}.sender.test`) },
      'sender.test': { TXT: [`v=spf1 ${Array.from({ length: 10 }, (_, i) => `mx:m${i}.test`).join(' ')} -all`] },
      '_dmarc.sender.test': { TXT: ['v=DMARC1; p=reject'] },
    }
    let message: Uint8Array = createMessage('x@a.b.c.d.e.f.g.sender.test')
    for (let number = 0; number < 10; number++) {
      const domain = `p${number}.q${number}.r${number}.sender.test`
      zone[`s1._domainkey.${domain}`] = { TXT: [keyRecord] }
      message = signForTest(message, domain)
      zone[`m${number}.test`] = {
        MX: Array.from({ length: 10 }, (_, i) => ({ preference: i, exchange: `h${i}.m${number}.test` })),
      }
      for (let host = 0; host < 10; host++) zone[`h${host}.m${number}.test`] = { A: ['192.0.2.200'] }
    }
    const { result, queries } = await runAuthentication(message, { zone })
    expect({ spf: result.spf, dkim: result.dkim, dmarc: result.dmarc, iprev: result.iprev }).toEqual({
      spf: 'permerror',
      dkim: 'pass',
      dmarc: 'pass',
      iprev: 'fail',
    })
    expect(queries.length).toBeLessThanOrEqual(100)
    expect(queries.length).toBeGreaterThan(80)
  })

  test('a header beyond its limits is not verified, and the result says so', async () => {
    const lines = createMessage(undefined, undefined, 'X-A: b\r\n'.repeat(100_000))
    const large = createMessage(undefined, undefined, `X-A: ${'b'.repeat(300_000)}\r\n`)
    const folded = createMessage(undefined, undefined, `X-A: b\r\n${' b\r\n'.repeat(50_000)}`)
    const of = async (raw: Uint8Array) => {
      const { dkim, dmarc, arc } = await readDetails(signForTest(raw))
      return [dkim[0]?.result, dkim[0]?.comment, dmarc.result, arc.result].join(' ')
    }
    expect([await of(lines), await of(large), await of(folded)]).toEqual([
      'permerror the header is too large permerror permerror',
      'permerror the header is too large permerror permerror',
      'permerror the header has too many lines permerror permerror',
    ])
  })

  test('a signature field of 4 KiB is verified; a longer one, or one with 200 blanks in a row, is skipped however it is folded', async () => {
    const padded = (pad: string, folded = ' ') => {
      const text = signForTest(createMessage()).toString('latin1')
      return Buffer.from(text.replace('\r\n d=', `\r\n${folded}x-pad=${pad};\r\n d=`), 'latin1')
    }
    const count = async (raw: Uint8Array) => (await readDetails(raw)).dkim.length
    expect([
      await count(padded('p'.repeat(3_000))),
      await count(padded('p'.repeat(4_000))),
      await count(padded(`a${' '.repeat(199)}b`)),
      await count(padded(`a${' '.repeat(200)}b`)),
      // A line without leading white space that is not a field: the verifier adds it to the field before.
      await count(padded('p'.repeat(3_000), '')),
      await count(padded('p'.repeat(200_000), '')),
      await count(
        Buffer.from(
          padded('p'.repeat(4_000)).toString('latin1').replace('DKIM-Signature:', 'X-A: b\r\nDKIM-Signature\r\n :'),
          'latin1',
        ),
      ),
    ]).toEqual([1, 0, 1, 0, 1, 0, 0])
  })

  test('of several signatures over part of the body (l=) only two are verified', async () => {
    const part = signForTest(createMessage()).toString('latin1').split('\r\nFrom:')[0] ?? ''
    const partial = Array.from({ length: 4 }, (_, index) =>
      part.replace('q=dns/txt;', `q=dns/txt;${' '.repeat(index)}l=${index};`),
    )
    const raw = Buffer.from(`${partial.join('\r\n')}\r\n${signForTest(createMessage()).toString('latin1')}`, 'latin1')
    expect((await readDetails(raw)).dkim.map(({ result }) => result)).toEqual(['fail', 'fail', 'pass'])
  })

  test.each([
    ['a From of a mebibyte', () => createMessage(`${'a'.repeat(1_000_000)}@sender.test`)],
    ['a From of brackets', () => createMessage('<'.repeat(200_000))],
    ['NUL and 8-bit octets', () => Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 256))],
    ['nothing', () => Buffer.alloc(0)],
    ['an empty line', () => Buffer.from('\r\n\r\n')],
    ['a header without an end', () => Buffer.from('DKIM-Signature: v=1; a=rsa-sha256; d=a; s=b; h=from; bh=; b=')],
    [
      'a signature of semicolons',
      () => createMessage(undefined, undefined, `DKIM-Signature: ${';'.repeat(8_000)}\r\n`),
    ],
    ['an odd ARC set', () => createMessage(undefined, undefined, 'ARC-Seal: i=1\r\nARC-Seal: i=99; cv=pass\r\n')],
  ] as [string, () => Buffer][])('%s ends in verdicts', async (_, raw) => {
    const { spf, iprev } = (await runAuthentication(raw())).result
    expect({ spf, iprev }).toEqual({ spf: 'pass', iprev: 'pass' })
  })

  test('records of 60,000 octets, and invalid names and paths, end in verdicts', async () => {
    const long = (text: string) => ({ TXT: [text.repeat(Math.ceil(60_000 / text.length)).slice(0, 60_000)] })
    const records = [
      'v=spf1 ',
      'v=spf1 a=b ip4:1.2.3.4 include:',
      ' ',
      'v=DMARC1;',
      'v=DMARC1; p=reject; ',
      'p=A',
      '%{s}',
    ]
    for (const text of records) {
      const { dkim } = await within(signForTest(createMessage()), {
        ...createPassingZone(),
        'sender.test': long(text),
        's1._domainkey.sender.test': long(text),
        '_dmarc.sender.test': long(text),
      })
      expect(dkim).not.toBe('pass')
    }
    const odd = { mailFrom: `"a@b\\"c"@${'x.'.repeat(200)}test`, helo: '\u0000\u202e'.repeat(100), clientIp: 'nowhere' }
    expect(await within(createMessage(), createPassingZone(), odd)).toMatchObject({ spf: 'temperror', dkim: 'none' })
    const { spf } = await readDetails(createMessage(), { facts: odd })
    expect(spf.helo).toBe('')
  })

  // Proves: inbound-32
  test('after 10 s, and not before, every open check is a temperror, and queries stop', async () => {
    await using server = await startDnsServer({
      ...createPassingZone(),
      '1.2.0.192.in-addr.arpa': 'SILENCE',
      'sender.test': { TXT: 'SILENCE' },
      's1._domainkey.sender.test': 'SILENCE',
    })
    using resolver = createResolver(server, { timeoutMs: 60_000 })
    const clock = new ManualClock(NOW)
    let isDone = false
    const checked = authenticate(signForTest(createMessage()), facts, resolver, clock).then((result) => {
      isDone = true
      return result
    })
    await server.received(3)
    clock.advance(9_999)
    // A response arrives later than anything that the clock has triggered.
    await resolver.txt('other.test')
    expect(isDone).toBe(false)
    clock.advance(1)
    const { spf, dkim, dmarc, arc, iprev } = await checked
    expect({ spf, dkim, dmarc, arc, iprev }).toEqual({
      spf: 'temperror',
      dkim: 'temperror',
      dmarc: 'temperror',
      arc: 'none',
      iprev: 'temperror',
    })
    await resolver.txt('another.test')
    expect(server.queries.slice(3).map(({ name }) => name)).toEqual(['other.test', 'another.test'])
  })
})
