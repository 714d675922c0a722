import { describe, expect, test } from 'bun:test'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { listDnsRecords } from '#features/setup/domains/domains.ts'
import { recheckDomains } from '#features/setup/domains/recheck.ts'
import { getKeepUntil, startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { verifyDomain, vouchForDomain } from '#features/setup/domains/verify.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

/** A domain that is verified, with both of its keys published if `signsTwice`. */
async function startVerified({ signsTwice = false, settings = {} as Readonly<Record<string, string>> } = {}) {
  const t = await startDomainTest(settings)
  const { id, domain } = await t.register('example.com')
  t.publish(domain)
  if (signsTwice) t.publish(domain, ['dkim_ed25519'])
  await verifyDomain(t.app, t.actor, id)
  return Object.assign(t, { id, rowId: domain.id, first: t.stored(id) })
}

/** The selector that signs, after a check that its private keys belong to the public ones that are shown. */
function readSigner({ app, rowId, id, stored }: DomainTest & { rowId: number; id: string }): string | undefined {
  const signing = findSigningDomain(app.db, app.keys, rowId)
  const { dkimPublicKey, dkimSelector } = stored(id)
  const spki = createPublicKey(createPrivateKey(signing?.privateKeyPem ?? '')).export({ type: 'spki', format: 'der' })
  expect([spki.toString('base64'), signing?.selector]).toEqual([dkimPublicKey, dkimSelector])
  return signing?.selector
}

describe('a rotation of DKIM keys', () => {
  test('signs with the new keys once a check has found their records, and keeps the former selector for 7 days', async () => {
    await using t = await startVerified()
    const started = await startDkimRotation(t.app, t.actor, t.id)
    const next = started.nextDkim?.selector ?? ''
    expect([next.length, next === t.first.dkimSelector, readSigner(t)]).toEqual([10, false, t.first.dkimSelector])
    expect((await startDkimRotation(t.app, t.actor, t.id)).nextDkim?.selector).toBe(next)

    const { domain, checks } = await verifyDomain(t.app, t.actor, t.id)
    expect([checks.dkim_next?.verified, domain.dkimSelector]).toEqual([false, t.first.dkimSelector])
    expect(checks.dkim_next?.detail).toContain(`${next}._domainkey.example.com`)

    t.publish(t.stored(t.id), ['dkim_next'])
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app)).toBe(1)
    const rotated = t.stored(t.id)
    expect(rotated).toMatchObject({
      dkimSelector: next,
      nextDkim: null,
      verifiedAt: t.first.verifiedAt,
      recordsLostAt: null,
      dkimSince: t.clock.now(),
      formerDkim: [{ selector: t.first.dkimSelector, dkimPublicKey: t.first.dkimPublicKey, retiredAt: t.clock.now() }],
    })
    expect(rotated.updatedAt).toBeGreaterThan(t.first.updatedAt)
    expect(readSigner(t)).toBe(next)
    // The former private key is gone.
    expect(t.app.db.query('SELECT dkim_private_key AS a, ed25519_private_key AS b FROM dkim_keys').all()).toEqual([
      { a: null, b: null },
    ])
    expect(t.audited().slice(-2)).toEqual(['domain.dkim_rotation_started by operator', 'domain.dkim_rotated by system'])

    // The former record may go after 7 days; once it is gone, nothing is said of it.
    const [former] = rotated.formerDkim
    expect(former && getKeepUntil(former)).toBe(t.clock.now() + days(7))
    const host = `${t.first.dkimSelector}._domainkey.example.com`
    t.clock.advance(days(8))
    await recheckDomains(t.app)
    expect(t.stored(t.id).formerDkim.length).toBe(1)
    t.break('SERVFAIL', host)
    t.clock.advance(hours(7))
    await recheckDomains(t.app)
    expect(t.stored(t.id).formerDkim.length).toBe(1)
    t.break('NXDOMAIN', host)
    t.clock.advance(hours(7))
    await recheckDomains(t.app)
    expect(t.stored(t.id).formerDkim).toEqual([])
    expect(t.stored(t.id)).toMatchObject({ dkimSelector: next, recordsLostAt: null })
  })

  test('waits for both records of a domain that signs twice', async () => {
    await using t = await startVerified({ signsTwice: true })
    await startDkimRotation(t.app, t.actor, t.id)
    t.publish(t.stored(t.id), ['dkim_next'])
    const { checks } = await verifyDomain(t.app, t.actor, t.id)
    expect([checks.dkim_next?.verified, checks.dkim_ed25519_next?.verified]).toEqual([false, false])
    expect(readSigner(t)).toBe(t.first.dkimSelector)
    t.publish(t.stored(t.id), ['dkim_ed25519_next'])
    const { domain } = await verifyDomain(t.app, t.actor, t.id)
    expect(domain).toMatchObject({ nextDkim: null, isEd25519Verified: true })
    expect(findSigningDomain(t.app.db, t.app.keys, t.rowId)?.ed25519?.selector).toBe(`${readSigner(t)}e`)
  })

  test('loses nothing when the new record replaced the present one too early, or DNS does not respond', async () => {
    await using t = await startVerified()
    const { nextDkim } = await startDkimRotation(t.app, t.actor, t.id)
    t.break('SERVFAIL', `${nextDkim?.selector}._domainkey.example.com`)
    await verifyDomain(t.app, t.actor, t.id)
    expect(readSigner(t)).toBe(t.first.dkimSelector)
    t.publish(t.stored(t.id), ['dkim_next'])
    t.break('NXDOMAIN', `${t.first.dkimSelector}._domainkey.example.com`)
    const { domain, checks, fullyVerified } = await verifyDomain(t.app, t.actor, t.id)
    expect([domain.recordsLostAt, checks.dkim.verified, fullyVerified]).toEqual([null, true, true])
    expect(readSigner(t)).toBe(nextDkim?.selector)
  })

  test('ignores records of keys that were not the next ones when the check began, and the word of the operator', async () => {
    await using t = await startVerified()
    await startDkimRotation(t.app, t.actor, t.id)
    await vouchForDomain(t.app, t.actor, t.id)
    expect(readSigner(t)).toBe(t.first.dkimSelector)
    t.publish(t.stored(t.id), ['dkim_next'])
    const checks = [verifyDomain(t.app, t.actor, t.id), verifyDomain(t.app, t.actor, t.id)]
    await Promise.all(checks)
    expect(t.stored(t.id)).toMatchObject({ recordsLostAt: null, nextDkim: null, verified: { dkim: true } })
    expect(t.audited().filter((entry) => entry.startsWith('domain.dkim_rotated'))).toEqual([
      'domain.dkim_rotated by operator',
    ])
  })

  test('starts by itself for keys as old as the setting says, once', async () => {
    await using t = await startVerified({ settings: { TASSIS_DKIM_ROTATE_DAYS: '90' } })
    t.clock.advance(days(89))
    await recheckDomains(t.app)
    expect(t.stored(t.id).nextDkim).toBeNull()
    t.clock.advance(days(1))
    await recheckDomains(t.app)
    const { nextDkim } = t.stored(t.id)
    expect(nextDkim).not.toBeNull()
    t.clock.advance(days(90))
    await recheckDomains(t.app)
    expect(t.stored(t.id).nextDkim).toEqual(nextDkim)
    expect(listDnsRecords(t.app.config, t.stored(t.id)).dkim_next?.host).toBe(
      `${nextDkim?.selector}._domainkey.example.com`,
    )
  })
})
