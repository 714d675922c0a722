import { describe, expect, test } from 'bun:test'
import { getDomain, listDnsRecords } from '#features/setup/domains/domains.ts'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { verifyDomain, vouchForDomain } from '#features/setup/domains/verify.ts'
import { hours } from '#platform/units.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const signsTwice = ({ app }: DomainTest, rowId: number) => findSigningDomain(app.db, app.keys, rowId)?.ed25519

/** A registered domain whose records are published, without that of the Ed25519 key. */
async function startPublished() {
  const t = await startDomainTest()
  const { id, domain } = await t.register('example.com')
  t.publish(domain)
  const host = `${domain.dkimSelector}e._domainkey.example.com`
  return Object.assign(t, { id, rowId: domain.id, host, publishKey: () => t.publish(domain, ['dkim_ed25519']) })
}

describe('the Ed25519 key of a domain', () => {
  test('signs only while a check has found its record', async () => {
    await using t = await startPublished()
    await verifyDomain(t.app, t.actor, t.id)
    expect(signsTwice(t, t.rowId)).toBeUndefined()
    t.publishKey()
    expect(signsTwice(t, t.rowId)).toBeUndefined()
    const { domain, checks } = await verifyDomain(t.app, t.actor, t.id)
    expect(checks.dkim_ed25519).toEqual({ verified: true, detail: `The DKIM key at ${t.host} is ours.` })
    expect(listDnsRecords(t.app.config, domain).dkim_ed25519).toEqual({
      type: 'TXT',
      host: t.host,
      value: `v=DKIM1; k=ed25519; p=${domain.ed25519PublicKey}`,
      verified: true,
    })
    expect(signsTwice(t, t.rowId)).toEqual({
      selector: `${domain.dkimSelector}e`,
      privateKeyPem: expect.stringContaining('PRIVATE KEY'),
    })
    t.break('SERVFAIL', t.host)
    expect((await verifyDomain(t.app, t.actor, t.id)).domain.isEd25519Verified).toBe(true)
    t.break('NXDOMAIN', t.host)
    t.clock.advance(hours(6))
    expect(await recheckDomains(t.app)).toBe(1)
    expect(t.stored(t.id)).toMatchObject({ isEd25519Verified: false, failing: {} })
    expect(signsTwice(t, t.rowId)).toBeUndefined()
  })

  test('is not needed: without its record the domain verifies, and losing it is no lost record', async () => {
    await using t = await startPublished()
    const { fullyVerified, domain } = await verifyDomain(t.app, t.actor, t.id)
    expect([fullyVerified, domain.verifiedAt]).toEqual([true, t.clock.now()])
    t.publishKey()
    await verifyDomain(t.app, t.actor, t.id)
    t.break('NXDOMAIN', t.host)
    const { domain: after } = await verifyDomain(t.app, t.actor, t.id)
    expect(after).toMatchObject({ isEd25519Verified: false, recordsLostAt: null, verifiedAt: domain.verifiedAt })
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.verified by operator'])
  })

  test('does not sign for a domain that the operator marked verified', async () => {
    await using t = await startPublished()
    await vouchForDomain(t.app, t.actor, t.id)
    expect(t.stored(t.id)).toMatchObject({ isEd25519Verified: false, verified: { dkim: true } })
    expect(signsTwice(t, t.rowId)).toBeUndefined()
  })

  test('is bound to the row of its domain', async () => {
    await using t = await startPublished()
    const { domain: other } = await t.register('example.org')
    t.app.db.run(
      `UPDATE domains SET ed25519_verified = 1, ed25519_private_key = (SELECT ed25519_private_key FROM domains WHERE id = ${other.id})
       WHERE id = ${t.rowId}`,
    )
    expect(() => signsTwice(t, t.rowId)).toThrow()
    t.app.db.run('UPDATE domains SET ed25519_private_key = dkim_private_key')
    expect(() => signsTwice(t, t.rowId)).toThrow()
  })

  test.each([
    ['of type RSA', (key: string) => `v=DKIM1; k=rsa; p=${key}`, 'has k=rsa, but our key is k=ed25519'],
    ['without a type, which means RSA', (key: string) => `v=DKIM1; p=${key}`, 'lacks k=ed25519'],
    ['that is revoked', () => 'v=DKIM1; k=ed25519; p=', 'is revoked'],
    ['of another domain', () => `v=DKIM1; k=ed25519; p=${'A'.repeat(43)}=`, 'is a different key'],
  ])('does not sign with a record %s', async (_, format, reason) => {
    await using t = await startPublished()
    const { ed25519PublicKey } = getDomain(t.app.db, t.actor.accountId, t.id)
    t.dns.zone[t.host] = { TXT: [format(ed25519PublicKey ?? '')] }
    const { checks } = await verifyDomain(t.app, t.actor, t.id)
    expect(checks.dkim_ed25519).toMatchObject({ verified: false, detail: expect.stringContaining(reason) })
  })
})
