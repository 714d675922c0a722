import { describe, expect, test } from 'bun:test'
import type { Check, CheckOutcome } from '#features/setup/domains/check-result.ts'
import { checkDomain } from '#features/setup/domains/checks.ts'
import { type ByRecord, buildDnsRecords, type DomainDns } from '#features/setup/domains/dns-records.ts'
import { randomBelow } from '#platform/ids.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { type NameEntry, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const KEY = `MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA${'abcdefgh'.repeat(43)}IDAQAB`
const DNS: DomainDns = {
  domain: 'example.com',
  selector: 'ts1',
  dkimPublicKey: KEY,
  ed25519PublicKey: null,
  nextDkim: null,
  sendingSubdomain: 'send',
  hostname: 'mail.tassis.test',
  outboundIps: ['192.0.2.25', '2001:db8::25'],
}
const RETURN_PATH = 'send.example.com'
const DKIM = 'ts1._domainkey.example.com'
const DMARC = '_dmarc.example.com'
const OUR_MX = { preference: 10, exchange: 'mail.tassis.test' }

/** All records as required, and our own host. */
const COMPLETE: Readonly<Record<string, NameEntry>> = {
  'mail.tassis.test': { A: ['192.0.2.25'], AAAA: ['2001:db8::25'] },
  'example.com': { A: ['192.0.2.80'], MX: [OUR_MX] },
  [RETURN_PATH]: { TXT: ['v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all'], MX: [OUR_MX] },
  [DKIM]: { TXT: [`v=DKIM1; k=rsa; p=${KEY}`] },
  [DMARC]: { TXT: ['v=DMARC1; p=none;'] },
}

/**
 * Checks the complete zone with `changes` applied; `dns` changes the values from which the required records are built.
 */
async function runChecks(changes: Zone = {}, dns: Partial<DomainDns> = {}): Promise<ByRecord<Check>> {
  await using server = await startDnsServer({ ...COMPLETE, ...changes })
  using resolver = new StubResolver({
    servers: [server.address],
    clock: new ManualClock(),
    randomId: () => randomBelow(65_536),
    cacheEntries: 0,
  })
  return await checkDomain(resolver, { ...DNS, ...dns })
}

const spfAt = (...texts: string[]): Zone => ({ [RETURN_PATH]: { TXT: texts, MX: [OUR_MX] } })
const dkimAt = (...texts: (string | string[])[]): Zone => ({ [DKIM]: { TXT: texts } })
const dmarcAt = (...texts: string[]): Zone => ({ [DMARC]: { TXT: texts } })
const SPF_ADVICE = 'Publish a TXT record at send.example.com with the value v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all'
const DKIM_ADVICE = `Publish a TXT record at ${DKIM} with the value v=DKIM1; k=rsa; p=${KEY}`
const DMARC_ADVICE =
  'Publish a TXT record at _dmarc.example.com with the value v=DMARC1; p=none; rua=mailto:dmarc-reports@send.example.com'
const failing = (outcome: CheckOutcome, detail: string) => ({ outcome, verified: false, detail })

describe('all checks', () => {
  // Proves: domain-17, domain-19
  test('verify when all dns_records are published', async () => {
    expect(await runChecks()).toEqual({
      spf: {
        outcome: 'verified',
        verified: true,
        detail: 'The SPF record at send.example.com allows our sending addresses.',
      },
      dkim: { outcome: 'verified', verified: true, detail: `The DKIM key at ${DKIM} is ours.` },
      dmarc: {
        outcome: 'verified',
        verified: true,
        detail: 'The DMARC record at _dmarc.example.com is valid: "v=DMARC1; p=none;".',
        policy: { p: 'none' },
      },
      return_path: {
        outcome: 'verified',
        verified: true,
        detail: 'The MX of send.example.com points to mail.tassis.test.',
      },
      mx: { outcome: 'verified', verified: true, detail: 'The MX of example.com points to mail.tassis.test.' },
    })
  })

  test.each([[], ['192.0.2.25'], ['192.0.2.25', '2001:db8::25']])(
    'verify exactly the records of buildDnsRecords (addresses %j)',
    async (...outboundIps) => {
      const dns = { ...DNS, outboundIps }
      const nothing = { spf: false, dkim: false, dmarc: false, return_path: false, mx: false }
      const records = buildDnsRecords({ ...dns, verified: nothing })
      const zone: Record<string, NameEntry> = { 'mail.tassis.test': { A: ['192.0.2.25'] } }
      for (const { type, host, value, priority = 0 } of Object.values(records)) {
        const entry = zone[host] ?? {}
        zone[host] = entry
        if (type === 'MX') entry.MX = [{ preference: priority, exchange: value }]
        else entry.TXT = [value]
      }
      const checks = await runChecks({ ...Object.fromEntries(Object.keys(COMPLETE).map((k) => [k, {}])), ...zone }, dns)
      expect(Object.values(checks).map((c) => c.outcome)).toEqual(Array.from({ length: 5 }, () => 'verified'))
    },
  )

  // Proves: domain-12
  test('name what to publish when there are no records', async () => {
    const empty = {
      [RETURN_PATH]: 'NXDOMAIN',
      [DKIM]: 'NXDOMAIN',
      [DMARC]: 'NXDOMAIN',
      'example.com': { A: ['192.0.2.80'] },
    } as const
    expect(await runChecks(empty)).toEqual({
      spf: failing('missing', `There is no SPF record at send.example.com. ${SPF_ADVICE}`),
      dkim: failing('missing', `There is no DKIM key at ${DKIM}. ${DKIM_ADVICE}`),
      dmarc: failing('missing', `There is no DMARC record at _dmarc.example.com. ${DMARC_ADVICE}`),
      return_path: failing(
        'missing',
        'There is no MX record at send.example.com. Without it, bounces do not reach us. Publish an MX record at send.example.com with priority 10 and the value mail.tassis.test',
      ),
      mx: failing(
        'missing',
        'There is no MX record at example.com. An MX record that points to us is not needed for sending, only to receive the mail of the domain here instead of at its current mail server. To receive its mail here: Publish an MX record at example.com with priority 10 and the value mail.tassis.test',
      ),
    })
  })

  test('report that the domain itself does not exist', async () => {
    const { spf, dkim } = await runChecks(Object.fromEntries(Object.keys(COMPLETE).map((name) => [name, 'NXDOMAIN'])))
    for (const { outcome, detail } of [spf, dkim]) {
      expect(outcome).toBe('missing')
      expect(detail).toContain('example.com itself does not exist in DNS')
    }
  })

  test.each([
    [
      'SERVFAIL',
      'the DNS servers answered with a failure (SERVFAIL); a broken DNSSEC setup or a dead name server causes this.',
    ],
    ['REFUSED', 'the DNS servers refused the query.'],
    ['MALFORMED', 'the DNS servers did not answer in time.'],
  ] as const)('are unknown, not missing, on %s', async (fault, why) => {
    const checks = await runChecks({ [RETURN_PATH]: fault, [DKIM]: fault, [DMARC]: fault, 'example.com': fault })
    const lookedUp = {
      spf: `SPF record (TXT) at ${RETURN_PATH}`,
      dkim: `DKIM key (TXT) at ${DKIM}`,
      dmarc: `DMARC record (TXT) at ${DMARC}`,
      return_path: `MX record at ${RETURN_PATH}`,
      mx: 'MX record at example.com',
    }
    for (const [key, what] of Object.entries(lookedUp)) {
      expect(checks[key as keyof ByRecord<Check>]).toEqual(
        failing(
          'unknown',
          `The ${what} could not be looked up: ${why} This says nothing about the record itself; check again in a few minutes.`,
        ),
      )
    }
  })

  test('a look-up that is made only for a hint may fail', async () => {
    const checks = await runChecks({ [DKIM]: {}, 'example.com': 'SERVFAIL', [`${DKIM}.example.com`]: 'SERVFAIL' })
    expect(checks.dkim).toEqual(failing('missing', `There is no DKIM key at ${DKIM}. ${DKIM_ADVICE}`))
  })

  test('a loop of CNAMEs is wrong, and reported as a loop', async () => {
    const { spf, dkim } = await runChecks({ [RETURN_PATH]: { CNAME: RETURN_PATH }, [DKIM]: { CNAME: DKIM } })
    expect(spf).toEqual(
      failing(
        'wrong',
        'The CNAME records at send.example.com form a loop or a chain that is too long. Remove the CNAME at send.example.com.',
      ),
    )
    expect(dkim.outcome).toBe('wrong')
  })
})

describe('spf', () => {
  // Proves: domain-16
  test.each([
    'V=SPF1 IP4:192.0.2.0/24 ip6:2001:db8::/32 ~all',
    'v=spf1 a:mail.tassis.test ?all',
    'v=spf1 include:spf.tassis.test -all',
    'v=spf1 redirect=spf.tassis.test',
    'v=spf1   mx -all  ',
    'v=spf1 +all',
  ])('verifies however it is written: %j', async (text) => {
    const checks = await runChecks({
      ...spfAt(text, 'some-site-verification=1'),
      'spf.tassis.test': { TXT: ['v=spf1 a:mail.tassis.test -all'] },
    })
    expect(checks.spf).toMatchObject({ outcome: 'verified' })
  })

  test('verifies with the addresses of our host name when none are configured', async () => {
    const found = await runChecks(spfAt('v=spf1 a:mail.tassis.test ~all'), { outboundIps: [] })
    expect(found.spf).toMatchObject({ outcome: 'verified' })
    const other = await runChecks(spfAt('v=spf1 ip4:192.0.2.25 -all'), { outboundIps: [] })
    expect(other.spf).toEqual(
      failing(
        'wrong',
        'The SPF record at send.example.com is "v=spf1 ip4:192.0.2.25 -all", which does not allow our sending address 2001:db8::25 (result: fail). Publish a TXT record at send.example.com with the value v=spf1 a:mail.tassis.test ~all',
      ),
    )
  })

  test.each([
    ['SERVFAIL', 'now: The DNS servers could not look up the addresses of mail.tassis.test (SERVFAIL).'],
    ['NXDOMAIN', '(no address record). The operator of this service must publish them; your domain is fine.'],
  ] as const)('is unknown when our own host name has no known address (%s)', async (fault, text) => {
    const { spf } = await runChecks({ 'mail.tassis.test': fault }, { outboundIps: [] })
    expect(spf.outcome).toBe('unknown')
    expect(spf.detail).toContain(text)
  })

  // Proves: domain-16
  test.each([
    ['v=spf1 ip4:192.0.2.25 -all', '2001:db8::25', 'fail'],
    ['v=spf1 ip4:192.0.2.25 ~all', '2001:db8::25', 'softfail'],
    ['v=spf1 include:other.test -all', '192.0.2.25, 2001:db8::25', 'fail'],
    ['v=spf1', '192.0.2.25, 2001:db8::25', 'neutral'],
  ])('is wrong when it does not allow all of our addresses: %j', async (text, addresses, result) => {
    const { spf } = await runChecks({ ...spfAt(text), 'other.test': { TXT: ['v=spf1 ip4:198.51.100.1 -all'] } })
    expect(spf).toEqual(
      failing(
        'wrong',
        `The SPF record at send.example.com is "${text}", which does not allow our sending address ${addresses} (result: ${result}). ${SPF_ADVICE}`,
      ),
    )
  })

  // Proves: domain-16
  test('is wrong when there are two records, even if both allow us', async () => {
    const { spf } = await runChecks(spfAt('v=spf1 +all', 'v=spf1 mx -all'))
    expect(spf).toEqual(
      failing(
        'wrong',
        'There are 2 SPF records at send.example.com: "v=spf1 +all", "v=spf1 mx -all". SPF allows exactly one record per name; if there are several, receivers treat all of them as invalid. Keep only one, with the value v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all',
      ),
    )
  })

  test('is wrong with more than ten look-ups', async () => {
    const includes = Array.from({ length: 11 }, (_, i) => `i${i}.test`)
    const { spf } = await runChecks({
      ...spfAt(`v=spf1 ${includes.map((i) => `include:${i}`).join(' ')} ip4:192.0.2.25 ip6:2001:db8::25 -all`),
      ...Object.fromEntries(includes.map((i) => [i, { TXT: ['v=spf1 -all'] }])),
    })
    expect(spf.outcome).toBe('wrong')
    expect(spf.detail).toContain('which is not valid (')
  })

  test('is wrong with more than two void look-ups', async () => {
    const { spf } = await runChecks(spfAt('v=spf1 a:x1.test a:x2.test a:x3.test ip4:192.0.2.25 ip6:2001:db8::25 -all'))
    expect(spf.outcome).toBe('wrong')
    expect(spf.detail).toContain('which is not valid (')
  })

  test('is wrong with an error after the matching term, because some receivers reject such a record', async () => {
    const { spf } = await runChecks(spfAt('v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 ip4:999.0.2.1 -all'))
    expect(spf.outcome).toBe('wrong')
    expect(spf.detail).toContain('which is not valid (')
  })

  test.each([
    ['"v=spf1 ip4:192.0.2.25 -all"', 'has quotes or backslashes inside its value; enter the value without them'],
    ['v=spf1 ip4:192.0.2.25" " -all', 'has quotes or backslashes inside its value; enter the value without them'],
    ['v=spf1;ip4:192.0.2.25', 'is not valid: it must begin with v=spf1 and a space'],
    ['v=spf ip4:192.0.2.25', 'is not valid: it must begin with v=spf1 and a space'],
  ])('is wrong, with the reason, when it is %j', async (text, fault) => {
    const { spf } = await runChecks(spfAt(text))
    expect(spf).toEqual(
      failing('wrong', `The SPF record at send.example.com is "${text}", which ${fault}. ${SPF_ADVICE}`),
    )
  })

  test('is unknown when a name that it includes cannot be looked up', async () => {
    const { spf } = await runChecks({ ...spfAt('v=spf1 include:dead.test -all'), 'dead.test': 'SERVFAIL' })
    expect(spf.outcome).toBe('unknown')
    expect(spf.detail).toContain('but a name in it could not be looked up')
  })

  test('names the likely cause: a doubled name or a CNAME in the way', async () => {
    const value = 'v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all'
    const doubled = await runChecks({
      [RETURN_PATH]: { MX: [OUR_MX] },
      'send.example.com.example.com': { TXT: [value] },
    })
    expect(doubled.spf).toEqual(
      failing(
        'missing',
        `There is no SPF record at send.example.com. It was found at send.example.com.example.com instead: the DNS provider appends example.com automatically, so enter only send as the name of the record. ${SPF_ADVICE}`,
      ),
    )
    const alias = await runChecks({ [RETURN_PATH]: { CNAME: 'site.test' }, 'site.test': { A: ['192.0.2.1'] } })
    expect(alias.spf).toEqual(
      failing(
        'missing',
        `There is no SPF record at send.example.com. send.example.com is an alias (CNAME) of site.test, and DNS allows no other record beside a CNAME: remove the CNAME first. ${SPF_ADVICE}`,
      ),
    )
  })

  test('is missing beside other TXT records', async () => {
    const { spf } = await runChecks(spfAt('google-site-verification=abc'))
    expect(spf).toEqual(failing('missing', `There is no SPF record at send.example.com. ${SPF_ADVICE}`))
  })
})

describe('dkim', () => {
  const half = Math.floor(KEY.length / 2)
  const [first, second] = [KEY.slice(0, half), KEY.slice(half)]

  test.each<[string, string | string[]]>([
    ['without v= and k=', `p=${KEY}`],
    ['with more tags', `v=DKIM1;h=sha1:sha256; s=email ;k=rsa;p=${KEY};n=note`],
    ['for every service', `v=DKIM1; s=*; p=${KEY}`],
    ['in strings of its own choice', [`v=DKIM1; k=rsa; p=${first}`, second]],
    ['with spaces inside and after the key', `v=DKIM1; k=rsa; p=${first} ${second}  `],
  ])('verifies %s', async (_, text) => {
    const { dkim } = await runChecks(dkimAt(text, 'unrelated text'))
    expect(dkim).toEqual({ outcome: 'verified', verified: true, detail: `The DKIM key at ${DKIM} is ours.` })
  })

  test.each<[string, string[], string]>([
    ['is another key', ['v=DKIM1; p=MIIBOTHER'], 'is a different key'],
    ['differs in case', [`v=DKIM1; p=${KEY.toLowerCase()}`], 'is a different key'],
    ['is revoked', ['v=DKIM1; p='], 'is a different key'],
    ['is cut off', [`v=DKIM1; k=rsa; p=${KEY.slice(0, 237)}`], `is cut off after 237 of ${KEY.length} characters`],
    ['has a tag twice', [`v=DKIM1; k=rsa; k=rsa; p=${KEY}`], 'is not valid: The tag k= occurs twice'],
    [
      'has something that is not a tag',
      [`v=DKIM1; p=${KEY}; hello`],
      'is not valid: "hello" is not a tag of the form name=value',
    ],
    [
      'is split over two records',
      [second, `v=DKIM1; k=rsa; p=${first}`],
      `is cut off after ${first.length} of ${KEY.length} characters; it must be one record`,
    ],
    ['is split with quotes', [`v=DKIM1; k=rsa; p=${first}" "${second}`], 'has quotes or backslashes inside its value'],
    ['is quoted', [`"v=DKIM1; k=rsa; p=${KEY}"`], 'has quotes or backslashes inside its value'],
    ['is escaped', [`v=DKIM1\\; k=rsa\\; p=${KEY}`], 'has quotes or backslashes inside its value'],
    ['is of another version', [`v=DKIM2; p=${KEY}`], 'is not valid: The tag v= must come first and be DKIM1'],
    ['has v= at the end', [`p=${KEY}; v=DKIM1`], 'is not valid: The tag v= must come first and be DKIM1'],
    ['is of another type', [`v=DKIM1; k=ed25519; p=${KEY}`], 'has another type (k=)'],
    ['allows sha1 only', [`v=DKIM1; h=sha1; p=${KEY}`], 'has another type (k=), or does not allow sha256 (h=)'],
    [
      'is not for email',
      [`v=DKIM1; s=tlsrpt; p=${KEY}`],
      'has another type (k=), or does not allow sha256 (h=) or email (s=)',
    ],
  ])('is wrong when the record %s', async (_, texts, fault) => {
    const { dkim } = await runChecks(dkimAt(...texts))
    expect(dkim.outcome).toBe('wrong')
    expect(dkim.detail).toStartWith(`The DKIM key at ${DKIM} is "`)
    expect(dkim.detail).toContain(`, which ${fault}`)
    expect(dkim.detail).toEndWith(DKIM_ADVICE)
  })

  // Proves: domain-17
  test('is wrong when there are two keys, even if one is ours', async () => {
    const { dkim } = await runChecks(dkimAt(`v=DKIM1; p=${KEY}`, 'v=DKIM1; p=MIIBOTHER'))
    expect(dkim).toEqual(
      failing(
        'wrong',
        `There are 2 DKIM keys at ${DKIM}, and receivers may use any of them. Remove the others and keep the one with the value v=DKIM1; k=rsa; p=${KEY}`,
      ),
    )
  })

  // Proves: domain-17
  test('is wrong when the record holds no key', async () => {
    const { dkim } = await runChecks(dkimAt('hello'))
    expect(dkim).toEqual(
      failing(
        'wrong',
        `The DKIM key at ${DKIM} is "hello", which is not valid: "hello" is not a tag of the form name=value. ${DKIM_ADVICE}`,
      ),
    )
  })

  test('names the doubled name at which the key was found', async () => {
    const name = `${DKIM}.example.com`
    const { dkim } = await runChecks({ [DKIM]: 'NXDOMAIN', [name]: { TXT: [`v=DKIM1; k=rsa; p=${KEY}`] } })
    expect(dkim).toEqual(
      failing(
        'missing',
        `There is no DKIM key at ${DKIM}. It was found at ${name} instead: the DNS provider appends example.com automatically, so enter only ts1._domainkey as the name of the record. ${DKIM_ADVICE}`,
      ),
    )
  })

  test('of a subdomain is also found when the organisational domain was appended to its name', async () => {
    const { dkim } = await runChecks(
      { 'app.example.com': {}, 'ts1._domainkey.app.example.com.example.com': { TXT: [`p=${KEY}`] } },
      { domain: 'app.example.com' },
    )
    expect(dkim.detail).toContain('enter only ts1._domainkey.app as the name of the record')
  })

  test('ignores another key at a doubled name', async () => {
    const { dkim } = await runChecks({ [DKIM]: 'NXDOMAIN', [`${DKIM}.example.com`]: { TXT: ['v=DKIM1; p=MIIBOTHER'] } })
    expect(dkim).toEqual(failing('missing', `There is no DKIM key at ${DKIM}. ${DKIM_ADVICE}`))
  })

  test('verifies through a CNAME', async () => {
    const { dkim } = await runChecks({ [DKIM]: { CNAME: 'key.test' }, 'key.test': { TXT: [`v=DKIM1; p=${KEY}`] } })
    expect(dkim).toMatchObject({ outcome: 'verified' })
  })
})

describe('dmarc', () => {
  const NO_POLICY =
    'has no valid policy: p= must be none, quarantine or reject, and so must sp= and np= if they are there'

  // Proves: domain-18
  test.each([
    ['v=DMARC1; p=none', { p: 'none' }, 'none'],
    [
      'v=DMARC1;p=reject;sp=quarantine;np=reject;adkim=s;aspf=r;rua=mailto:a@example.com',
      { p: 'reject', sp: 'quarantine', adkim: 's', aspf: 'r', rua: 'mailto:a@example.com' },
      'quarantine',
    ],
    ['V = DMARC1 ; p = Quarantine ; pct=50', { p: 'quarantine', pct: '50' }, 'quarantine'],
    ['v=DMARC1; rua=mailto:reports@example.com', { rua: 'mailto:reports@example.com' }, 'none'],
  ])('verifies any valid policy, and reads it: %j', async (text, policy, below) => {
    const domain = 'app.example.com'
    const inherited = await runChecks({ ...dmarcAt(text), [domain]: { A: ['192.0.2.1'] } }, { domain })
    expect(inherited.dmarc.policy).toMatchObject({ p: below })
    const { dmarc } = await runChecks(dmarcAt(text, 'unrelated'))
    expect(dmarc).toEqual({
      outcome: 'verified',
      verified: true,
      detail: `The DMARC record at _dmarc.example.com is valid: "${text}".`,
      policy,
    })
  })

  test.each([
    ['v=DMARC1; p=non', NO_POLICY],
    ['v=DMARC1; p=none; sp=block', NO_POLICY],
    ['v=DMARC1;', NO_POLICY],
    ['v=dmarc1; p=none', 'does not begin with v=DMARC1; (in capitals)'],
    ['p=none; v=DMARC1', 'does not begin with v=DMARC1; (in capitals)'],
    ['p=reject', 'does not begin with v=DMARC1; (in capitals)'],
    ['"v=DMARC1; p=none"', 'has quotes or backslashes inside its value; enter the value without them'],
    ['v=DMARC1; p=none"', 'has quotes or backslashes inside its value; enter the value without them'],
  ])('is wrong, with the reason, when it is %j', async (text, fault) => {
    const { dmarc } = await runChecks(dmarcAt(text))
    expect(dmarc).toEqual(
      failing('wrong', `The DMARC record at _dmarc.example.com is "${text}", which ${fault}. ${DMARC_ADVICE}`),
    )
  })

  test('is wrong when there are two records', async () => {
    const { dmarc } = await runChecks(dmarcAt('v=DMARC1; p=none', 'v=DMARC1; p=reject'))
    expect(dmarc.outcome).toBe('wrong')
    expect(dmarc.detail).toStartWith('There are 2 DMARC records at _dmarc.example.com')
  })

  test.each(['app.example.com', 'a.b.example.com'])('of the organisational domain counts for %s', async (domain) => {
    const { dmarc } = await runChecks({ [domain]: { A: ['192.0.2.1'] } }, { domain })
    expect(dmarc).toEqual({
      outcome: 'verified',
      verified: true,
      detail: `${domain} has no DMARC record of its own and inherits: The DMARC record at _dmarc.example.com is valid: "v=DMARC1; p=none;".`,
      policy: { p: 'none' },
    })
  })

  test('of the organisational domain does not count when invalid, and is unknown when the look-up fails', async () => {
    const domain = 'app.example.com'
    const base = { [domain]: { A: ['192.0.2.1'] } }
    expect((await runChecks({ ...base, ...dmarcAt('v=DMARC1; p=x') }, { domain })).dmarc.outcome).toBe('wrong')
    expect((await runChecks({ ...base, [DMARC]: 'SERVFAIL' }, { domain })).dmarc.outcome).toBe('unknown')
    expect((await runChecks({ ...base, [DMARC]: 'NXDOMAIN' }, { domain })).dmarc.outcome).toBe('missing')
  })

  test('is not inherited across a public suffix', async () => {
    const zone: Zone = { 'shop.co.uk': { A: ['192.0.2.1'] }, '_dmarc.co.uk': { TXT: ['v=DMARC1; p=none'] } }
    expect((await runChecks(zone, { domain: 'shop.co.uk' })).dmarc.outcome).toBe('missing')
  })
})

describe('return_path and mx', () => {
  const mx = (...records: [number, string][]): Zone => ({
    [RETURN_PATH]: {
      TXT: ['v=spf1 mx -all'],
      MX: records.map(([preference, exchange]) => ({ preference, exchange })),
    },
  })

  test.each<[string, Zone]>([
    ['in another case and with another priority', mx([0, 'MAIL.Tassis.Test.'])],
    ['with a backup behind us', mx([10, 'mail.tassis.test'], [20, 'backup.test'])],
    ['with a null MX beside', mx([0, '.'], [10, 'mail.tassis.test'])],
    ['twice', mx([10, 'mail.tassis.test'], [20, 'mail.tassis.test'])],
  ])('verify %s', async (_, zone) => {
    expect((await runChecks(zone)).return_path).toEqual({
      outcome: 'verified',
      verified: true,
      detail: 'The MX of send.example.com points to mail.tassis.test.',
    })
  })

  const advice = 'Publish an MX record at send.example.com with priority 10 and the value mail.tassis.test'

  // Proves: domain-19
  test('are wrong when they point elsewhere', async () => {
    expect((await runChecks(mx([5, 'b.test'], [1, 'a.test']))).return_path).toEqual(
      failing(
        'wrong',
        `The MX of send.example.com points to a.test (priority 1), b.test (priority 5) and not to mail.tassis.test. Bounces of your mail must reach us. ${advice}`,
      ),
    )
    const { mx: inbound } = await runChecks({ 'example.com': { MX: [{ preference: 1, exchange: 'mx.google.test' }] } })
    expect(inbound).toEqual(
      failing(
        'wrong',
        'The MX of example.com points to mx.google.test (priority 1) and not to mail.tassis.test. Leave it unchanged to keep receiving mail there: an MX record that points to us is not needed for sending, only to receive the mail of the domain here instead of at its current mail server. To receive its mail here: Publish an MX record at example.com with priority 10 and the value mail.tassis.test',
      ),
    )
  })

  test.each([5, 10])('are wrong when another host has a lower or the same priority (%d)', async (preference) => {
    expect((await runChecks(mx([10, 'mail.tassis.test'], [preference, 'a.test']))).return_path).toEqual(
      failing(
        'wrong',
        `The MX records of send.example.com name mail.tassis.test with priority 10, but also a.test (priority ${preference}), and senders use the lowest number first. Bounces of your mail must reach us. Remove the others or give mail.tassis.test the lowest number.`,
      ),
    )
  })

  test('report that the domain was appended to the value', async () => {
    const found = (await runChecks(mx([10, 'mail.tassis.test.send.example.com']))).return_path
    expect(found.outcome).toBe('wrong')
    expect(found.detail).toContain('enter mail.tassis.test. with a dot at the end.')
  })

  test('report a null MX', async () => {
    expect((await runChecks(mx([0, '.']))).return_path).toEqual(
      failing(
        'wrong',
        `send.example.com has a null MX, which means that it accepts no mail. Without it, bounces do not reach us. ${advice}`,
      ),
    )
  })

  test('name the likely cause: a doubled name', async () => {
    const doubled = await runChecks({ [RETURN_PATH]: {}, 'send.example.com.example.com': { MX: [OUR_MX] } })
    expect(doubled.return_path).toEqual(
      failing(
        'missing',
        `There is no MX record at send.example.com. Without it, bounces do not reach us. It was found at send.example.com.example.com instead: the DNS provider appends example.com automatically, so enter only send as the name of the record. ${advice}`,
      ),
    )
    const apex = await runChecks({ 'example.com': { A: ['192.0.2.1'] }, 'example.com.example.com': { MX: [OUR_MX] } })
    expect(apex.mx.detail).toContain('enter only @ as the name of the record')
  })
})

test('a record value is quoted on one line and truncated', async () => {
  const { spf } = await runChecks(spfAt(`v=spf1 \n\u001b[31m${'x'.repeat(5000)}`))
  expect(spf.detail).not.toMatch(/[\n\u001b]/)
  expect(spf.detail.length).toBeLessThan(600)
})
