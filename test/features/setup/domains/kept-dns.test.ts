import { expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { createDomain } from '#features/setup/domains/domains.ts'
import { startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { setTrackingDomain } from '#features/setup/domains/set-tracking.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { formatUuid } from '#platform/ids.ts'
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
  const kept = { dkimPrivateKey: key.pem, dkimSelector: 'Postal-ABC123', returnPath: 'psrp.example.com' }
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
    dkimPrivateKey: createRsa(2048, 'pkcs8').pem,
    dkimSelector: 's',
    returnPath: 'psrp.psrp.example.org',
  })
  expect(other.warnings).toEqual([expect.stringContaining('will be psrp.psrp.example.org. To send as @example.org')])
})

// Proves: domain-73
test('keys, selectors and return paths that cannot work are refused with a sentence', async () => {
  await using t = await startDomainTest()
  const { pem } = createRsa(1024)
  const ed25519 = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const good = { dkimPrivateKey: pem, dkimSelector: 's1' }
  const refused: [kept: Parameters<typeof createDomain>[3], field: string, sentence: RegExp][] = [
    [{ dkimPrivateKey: pem }, 'dkim_selector', /belong together/],
    [{ dkimSelector: 's1' }, 'dkim_private_key', /belong together/],
    [{ ...good, dkimPrivateKey: createRsa(768).pem }, 'dkim_private_key', /has 768 bits; receivers verify/],
    [{ ...good, dkimPrivateKey: pem.slice(0, 400) }, 'dkim_private_key', /cannot be read: it must be a private RSA/],
    [
      { ...good, dkimPrivateKey: pem.replace(/(?<=\n.{40})./, (octet) => (octet === 'x' ? 'y' : 'x')) },
      'dkim_private_key',
      /cannot be read/,
    ],
    [{ ...good, dkimPrivateKey: 'no key' }, 'dkim_private_key', /cannot be read/],
    [{ ...good, dkimPrivateKey: ed25519 }, 'dkim_private_key', /of the type ed25519, but it must be RSA/],
    [{ ...good, dkimSelector: 'a.b' }, 'dkim_selector', /one label/],
    [{ ...good, dkimSelector: 'x'.repeat(63) }, 'dkim_selector', /one label/],
    ...['other.test', 'example.com', 'a.b.example.com', '', 'xexample.com'].map(
      (returnPath) =>
        [{ returnPath }, 'return_path', /one label below example\.com/] as [{ returnPath: string }, string, RegExp],
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
