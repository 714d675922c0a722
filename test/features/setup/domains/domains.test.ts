import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { changeDomain } from '#features/setup/domains/domains.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { minutes } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { startDomainTest } from './fixture.ts'

describe('a registered domain', () => {
  // Proves: domain-2
  test('starts unverified, with its own key and selector', async () => {
    await using t = await startDomainTest()
    const { domain } = await t.register('Example.COM.')
    expect(domain).toMatchObject({
      id: domain.id,
      uuid: domain.uuid,
      accountId: t.actor.accountId,
      accountUuid: domain.accountUuid,
      domain: 'example.com',
      dkimSelector: expect.stringMatching(/^ts[0-9a-z]{8}$/),
      dkimPublicKey: expect.stringMatching(/^MIIBIjAN[A-Za-z0-9+/]{380,}=*$/),
      ed25519PublicKey: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      isEd25519Verified: false,
      nextDkim: null,
      formerDkim: [],
      dkimSince: expect.any(Number),
      sendingSubdomain: 'send',
      verified: { spf: false, dkim: false, dmarc: false, return_path: false, mx: false },
      inboundEnabled: false,
      mxVerifiedAt: null,
      trackingDomain: null,
      trackingVerifiedAt: null,
      verifiedAt: null,
      recordsLostAt: null,
      lossNoticeSentAt: null,
      lossNotice: null,
      checkedAt: null,
      nextCheckAt: t.clock.now() + minutes(5),
      failing: {},
      createdAt: t.clock.now(),
      updatedAt: t.clock.now(),
    })
    expect(t.audited()).toEqual(['domain.created by operator'])
  })

  // Proves: domain-5
  test('may be unverified in two accounts at the same time, with different keys and selectors', async () => {
    await using t = await startDomainTest()
    const other = await createTestAccount(t.app)
    const mine = await t.register('example.com')
    const theirs = await t.register('example.com', other)
    expect(mine.domain.dkimSelector).not.toBe(theirs.domain.dkimSelector)
    expect(mine.domain.dkimPublicKey).not.toBe(theirs.domain.dkimPublicKey)
  })

  // Proves: domain-4
  test('fails with 409 once another account has verified it', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    await verifyDomain(t.app, t.actor, id)
    const other = await createTestAccount(t.app)
    await expect(t.register('example.com', other)).rejects.toMatchObject({ status: 409, code: 'domain_taken' })
  })

  // Proves: domain-28
  test('has a private key that is never in clear on disk', async () => {
    await using t = await startDomainTest()
    const { domain } = await t.register('example.com')
    const key = findSigningDomain(t.app.db, t.app.keys, domain.id)
    const lines = key?.privateKeyPem.split('\n').filter((line) => line !== '' && !line.startsWith('-----')) ?? []
    expect(lines.length).toBeGreaterThan(20)
    const der = Buffer.from(lines.join(''), 'base64')
    const files = readdirSync(t.service.dataDir, { recursive: true, withFileTypes: true }).filter((f) => f.isFile())
    const disk = Buffer.concat(files.map((f) => readFileSync(join(f.parentPath, f.name))))
    expect(disk.includes(domain.dkimPublicKey)).toBe(true)
    expect(lines.filter((line) => disk.includes(line))).toEqual([])
    // After the header that all keys share; the public modulus ends well before the middle of the key.
    expect(disk.includes(der.subarray(der.length / 2, der.length / 2 + 32))).toBe(false)
  })
})

describe('inbound', () => {
  // Proves: domain-8
  test('can be enabled and disabled before there is an MX, with one audit entry per change', async () => {
    await using t = await startDomainTest()
    const { id } = await t.register('example.com')
    t.clock.advance(minutes(1))
    const on = await changeDomain(t.app, t.actor, id, { inboundEnabled: true })
    expect({ on: on.inboundEnabled, updatedAt: on.updatedAt }).toEqual({ on: true, updatedAt: t.clock.now() })
    t.clock.advance(minutes(1))
    const again = await changeDomain(t.app, t.actor, id, { inboundEnabled: true })
    expect(again).toEqual(on)
    expect((await changeDomain(t.app, t.actor, id, { inboundEnabled: false })).inboundEnabled).toBe(false)
    expect(t.audited()).toEqual([
      'domain.created by operator',
      'domain.updated by operator',
      'domain.updated by operator',
    ])
  })
})
