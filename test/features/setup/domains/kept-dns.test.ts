import { expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { createDomain } from '#features/setup/domains/domains.ts'
import { startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { setTrackingDomain } from '#features/setup/domains/set-tracking.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { formatUuid } from '#platform/ids.ts'
import { createTestApi } from '#test/support/api.ts'
import { startDomainTest } from './fixture.ts'

const createRsa = (modulusLength: number, type: 'pkcs1' | 'pkcs8' = 'pkcs1') => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength })
  return {
    pem: privateKey.export({ type, format: 'pem' }).toString(),
    pkcs8: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    p: publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
  }
}

// Proves: domain-73
test('a domain keeps a key, its selector and a return path that other DNS has, and can rotate the key', async () => {
  await using t = await startDomainTest()
  const { app, actor, dns } = t
  const key = createRsa(1024)
  const kept = { dkim_private_key: key.pem, dkim_selector: 'Postal-ABC123', return_path: 'psrp.example.com' }
  const { domain, warnings } = await createDomain(app, actor, 'example.com', kept)
  expect(warnings).toEqual([])
  expect(domain).toMatchObject({ dkimSelector: 'postal-abc123', dkimPublicKey: key.p, sendingSubdomain: 'psrp' })
  expect(findSigningDomain(app.db, app.keys, domain.id)).toMatchObject({
    privateKeyPem: key.pkcs8,
    returnPathDomain: 'psrp.example.com',
  })
  // As another mail service had it published: an alias with its own SPF, and an MX by another name of this machine.
  const host = app.config.hostname
  dns.zone[host] = { A: ['192.0.2.25'] }
  dns.zone['mx.postal.test'] = { A: ['192.0.2.25'] }
  dns.zone['elsewhere.test'] = { A: ['192.0.2.26'] }
  dns.zone['spf.postal.test'] = { TXT: ['v=spf1 ip4:192.0.2.25 ~all'] }
  const mx = [{ preference: 10, exchange: 'mx.postal.test' }]
  dns.zone['rp.postal.test'] = { A: ['192.0.2.25'], MX: mx, TXT: ['v=spf1 a mx include:spf.postal.test ~all'] }
  dns.zone['psrp.example.com'] = { CNAME: 'rp.postal.test' }
  dns.zone['postal-abc123._domainkey.example.com'] = { TXT: [`v=DKIM1; t=s; h=sha256; p=${key.p};`] }
  dns.zone['example.com'] = { MX: [{ preference: 5, exchange: 'elsewhere.test' }, ...mx] }
  const id = formatUuid(domain.uuid)
  const found = await verifyDomain(app, actor, id)
  expect(found).toMatchObject({
    fullyVerified: true,
    checks: { return_path: { detail: `The MX of psrp.example.com points to ${host}, as mx.postal.test.` } },
  })
  // Mail goes elsewhere first.
  expect(found.checks.mx).toMatchObject({ verified: false, detail: expect.stringContaining('lowest number first') })
  expect((await startDkimRotation(app, actor, id)).nextDkim?.dkimPublicKey).toHaveLength(392)
  for (const name of ['psrp.example.com', 'example.com'])
    await expect(setTrackingDomain(app, actor, id, name)).rejects.toMatchObject({ code: 'invalid_tracking_domain' })
  expect((await setTrackingDomain(app, actor, id, 'send.example.com')).trackingDomain).toBe('send.example.com')
  const other = await createDomain(app, actor, 'psrp.example.org', {
    dkim_private_key: createRsa(2048, 'pkcs8').pem,
    dkim_selector: 's',
    return_path: 'psrp.psrp.example.org',
  })
  expect(other.warnings).toEqual([expect.stringContaining('will be psrp.psrp.example.org. To send as @example.org')])
})

// Proves: domain-73
test('keys, selectors and return paths that cannot work are refused with a sentence', async () => {
  await using t = await startDomainTest()
  const { pem } = createRsa(1024)
  const ed25519 = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const rsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
  const cipher = { cipher: 'aes-256-cbc', passphrase: 'secret' }
  const encrypted = (['pkcs1', 'pkcs8'] as const).map((type) =>
    rsa.privateKey.export({ type, format: 'pem', ...cipher }).toString(),
  )
  const unreadable = [...encrypted, rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString(), 'no key']
  const good = { dkim_private_key: pem, dkim_selector: 's1' }
  type Refused = [kept: Parameters<typeof createDomain>[3], field: string, sentence: RegExp]
  const refused: Refused[] = [
    [{ dkim_private_key: pem }, 'dkim_selector', /belong together/],
    [{ dkim_selector: 's1' }, 'dkim_private_key', /belong together/],
    [{ ...good, dkim_private_key: createRsa(768).pem }, 'dkim_private_key', /has 768 bits; receivers verify/],
    [{ ...good, dkim_private_key: pem.slice(0, 400) }, 'dkim_private_key', /cannot be read: it must be a private RSA/],
    [
      { ...good, dkim_private_key: pem.replace(/(?<=\n.{40})./, (octet) => (octet === 'x' ? 'y' : 'x')) },
      'dkim_private_key',
      /cannot be read/,
    ],
    ...unreadable.map((key) => [{ ...good, dkim_private_key: key }, 'dkim_private_key', /cannot be read/] as Refused),
    [{ ...good, dkim_private_key: ed25519 }, 'dkim_private_key', /of the type ed25519, but it must be RSA/],
    [{ ...good, dkim_selector: 'a.b' }, 'dkim_selector', /one label/],
    [{ ...good, dkim_selector: 'x'.repeat(63) }, 'dkim_selector', /one label/],
    ...['other.test', 'example.com', 'a.b.example.com', '', 'xexample.com'].map(
      (name) => [{ return_path: name }, 'return_path', /one label below example\.com/] as Refused,
    ),
  ]
  for (const [kept, field, message] of refused)
    await expect(createDomain(t.app, t.actor, 'example.com', kept)).rejects.toMatchObject({
      status: 422,
      message: expect.stringMatching(message),
      details: [expect.objectContaining({ field })],
    })
  expect(t.audited()).toEqual([])
})

test('no response, log or audit entry has a private key that was given', async () => {
  await using service = await createTestApi()
  const { pem } = createRsa(1024)
  const good = { domain: 'example.com', dkim_private_key: pem, dkim_selector: 's1' }
  const long = pem + 'x'.repeat(20_000)
  const bad = [long, [pem], { key: pem }, pem.slice(0, 400)].map((key) => ({ ...good, dkim_private_key: key }))
  const bodies = [...bad, { ...good, dkim_selector: pem }, { ...good, return_path: pem }, good]
  const texts: string[] = []
  for (const body of bodies) texts.push(JSON.stringify((await service.api('POST', '/v1/domains', body)).body))
  expect(texts.at(-1)).toContain('"dkim_selector":"s1"')
  for (const path of ['/v1/logs', '/v1/audit-logs', '/v1/domains'])
    texts.push(JSON.stringify((await service.api('GET', path)).body))
  // The lines before have the public modulus.
  const secret = pem.split('\n').slice(4, -2)
  expect(secret.filter((line) => texts.join().includes(line))).toEqual([])
})
