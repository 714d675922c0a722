import { describe, expect, test } from 'bun:test'
import { changeDomain } from '#features/setup/domains/domains.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { hours, minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const ALL = { spf: true, dkim: true, dmarc: true, return_path: true, mx: true }
const NONE = { spf: false, dkim: false, dmarc: false, return_path: false, mx: false }

const readFlags = (checks: Readonly<Record<keyof typeof ALL, { verified: boolean }>>) => ({
  spf: checks.spf.verified,
  dkim: checks.dkim.verified,
  dmarc: checks.dmarc.verified,
  return_path: checks.return_path.verified,
  mx: checks.mx.verified,
})

/** A domain with all records published, verified a day ago. */
async function startVerified(): Promise<DomainTest & { id: string; hosts: Record<keyof typeof ALL, string> }> {
  const t = await startDomainTest()
  const { id, domain } = await t.register('example.com')
  t.publish(domain)
  await verifyDomain(t.app, t.actor, id)
  t.clock.advance(hours(24))
  const hosts = {
    spf: 'send.example.com',
    dkim: `${domain.dkimSelector}._domainkey.example.com`,
    dmarc: '_dmarc.example.com',
    return_path: 'send.example.com',
    mx: 'example.com',
  }
  return Object.assign(t, { id, hosts })
}

describe('verifying on request', () => {
  test('verifies a domain with all records published, enables inbound mail and lets it send', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    t.clock.advance(minutes(2))
    const now = t.clock.now()
    const result = await verifyDomain(t.app, t.actor, id)
    expect(result.fullyVerified).toBe(true)
    expect(readFlags(result.checks)).toEqual(ALL)
    expect(result.domain).toMatchObject({
      verified: ALL,
      inboundEnabled: true,
      mxVerifiedAt: now,
      verifiedAt: now,
      checkedAt: now,
      nextCheckAt: now + hours(6),
      updatedAt: now,
    })
    expect(t.stored(id)).toEqual(result.domain)
    expect(findSendingDomain(t.app.db, t.actor.accountId, 'example.com')?.isVerified).toBe(true)
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.verified by operator'])
  })

  test('changes only the check time when nothing changed', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    const { domain } = await verifyDomain(t.app, t.actor, t.id)
    expect(domain).toEqual({ ...before, checkedAt: t.clock.now(), nextCheckAt: t.clock.now() + hours(6) })
    expect(t.audited()).toHaveLength(2)
  })

  test('sees a record that was missing a moment ago', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    t.publish(domain, ['spf', 'return_path'])
    expect(readFlags((await verifyDomain(t.app, t.actor, id)).checks)).toEqual({
      ...NONE,
      spf: true,
      return_path: true,
    })
    t.publish(domain, ['dkim'])
    expect((await verifyDomain(t.app, t.actor, id)).fullyVerified).toBe(true)
  })

  // Proves: domain-18, domain-20
  test.each([
    [['dkim'], false],
    [['spf'], false],
    [['return_path'], false],
    [['dmarc'], true],
    [['mx'], true],
  ] as const)('without %j the domain is verified: %p', async ([missing], isVerified) => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    const rest = (['spf', 'dkim', 'dmarc', 'return_path', 'mx'] as const).filter((key) => key !== missing)
    t.publish(domain, rest)
    const result = await verifyDomain(t.app, t.actor, id)
    expect(readFlags(result.checks)).toEqual({ ...ALL, [missing]: false })
    expect(result.domain.verified).toEqual({ ...ALL, [missing]: false })
    expect(result.checks[missing].detail).toMatch(/publish an? \S+ record at/i)
    expect(result.fullyVerified).toBe(isVerified)
    expect(result.domain.verifiedAt !== null).toBe(isVerified)
    expect(result.domain.dmarcPolicy).toBe(
      missing === 'dmarc' ? null : '{"p":"none","rua":"mailto:dmarc-reports@send.example.com"}',
    )
    expect(result.domain.inboundEnabled).toBe(missing !== 'mx')
  })

  // Proves: send-8
  test.each(['spf', 'dkim', 'return_path'] as const)(
    'reports immediately that %s is missing, and ends verification only after 72 hours',
    async (lost) => {
      await using t = await startVerified()
      const { verifiedAt } = t.stored(t.id)
      const entry = t.dns.zone[t.hosts[lost]]
      if (typeof entry !== 'object') throw new Error('not published')
      if (lost === 'return_path') delete entry.MX
      else delete entry.TXT
      const lostAt = t.clock.now()
      const { domain, checks, fullyVerified } = await verifyDomain(t.app, t.actor, t.id)
      expect(domain.verified).toEqual({ ...ALL, [lost]: false })
      expect(readFlags(checks)).toEqual(domain.verified)
      expect(domain).toMatchObject({ verifiedAt, recordsLostAt: lostAt })
      expect(fullyVerified).toBe(false)
      // The next check is soon, to notice the return of the record.
      expect(domain.nextCheckAt).toBe(t.clock.now() + minutes(5))
      t.clock.advance(hours(72) - 1)
      expect((await verifyDomain(t.app, t.actor, t.id)).domain).toMatchObject({ verifiedAt, recordsLostAt: lostAt })
      expect(findSendingDomain(t.app.db, t.actor.accountId, 'example.com')?.isVerified).toBe(true)
      t.clock.advance(1)
      expect((await verifyDomain(t.app, t.actor, t.id)).domain).toMatchObject({
        verifiedAt: null,
        recordsLostAt: lostAt,
      })
      expect(findSendingDomain(t.app.db, t.actor.accountId, 'example.com')).toMatchObject({
        isVerified: false,
        lapsed: { since: lostAt, lost: [lost] },
      })
      expect(t.audited().slice(2)).toEqual(['domain.records_lost by operator', 'domain.unverified by operator'])
    },
  )

  test('of restored records ends the 72 hours, both before and after they have passed', async () => {
    await using t = await startVerified()
    const { domain: before } = await verifyDomain(t.app, t.actor, t.id)
    for (const wait of [hours(71), hours(100)]) {
      t.break('NXDOMAIN', t.hosts.dkim)
      await verifyDomain(t.app, t.actor, t.id)
      t.clock.advance(wait)
      await verifyDomain(t.app, t.actor, t.id)
      delete t.dns.zone[t.hosts.dkim]
      t.publish(before, ['dkim'])
      const { domain } = await verifyDomain(t.app, t.actor, t.id)
      expect(domain).toMatchObject({ verified: ALL, recordsLostAt: null })
      expect(domain.verifiedAt).not.toBeNull()
    }
  })

  // Proves: domain-22
  test.each(['SERVFAIL', 'REFUSED', 'MALFORMED'] as const)(
    'leaves a verified domain unchanged when DNS responds with %s, and says so',
    async (fault) => {
      await using t = await startVerified()
      const before = t.stored(t.id)
      t.break(fault, ...Object.values(t.hosts))
      const { domain, checks, fullyVerified } = await verifyDomain(t.app, t.actor, t.id)
      expect(domain).toEqual({ ...before, checkedAt: t.clock.now(), nextCheckAt: t.clock.now() + minutes(15) })
      expect(readFlags(checks)).toEqual(ALL)
      const { dkim_ed25519: _, ...needed } = checks
      for (const { detail } of Object.values(needed)) {
        expect(detail).toContain('could not be looked up')
        expect(detail).toEndWith('Until then the record stays verified.')
      }
      expect(fullyVerified).toBe(true)
      expect(t.audited()).toHaveLength(2)
    },
  )

  // Proves: domain-22
  test('leaves a verified domain unchanged when DNS does not respond', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.break('SILENCE', ...Object.values(t.hosts))
    const verifying = verifyDomain(t.app, t.actor, t.id).then((result) => ({ result }))
    let ended: Awaited<typeof verifying> | undefined
    void verifying.then((value) => {
      ended = value
    })
    const { result } = await eventually(() => {
      t.clock.advance(1000)
      return ended
    })
    expect(readFlags(result.checks)).toEqual(ALL)
    expect(result.domain).toEqual({
      ...before,
      checkedAt: result.domain.checkedAt,
      nextCheckAt: result.domain.nextCheckAt,
    })
  })

  test('leaves a domain that was never verified unverified when DNS fails, and says so', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    const hosts = [
      'send.example.com',
      `${domain.dkimSelector}._domainkey.example.com`,
      '_dmarc.example.com',
      'example.com',
    ]
    t.break('SERVFAIL', ...hosts)
    const { checks, fullyVerified } = await verifyDomain(t.app, t.actor, id)
    expect(readFlags(checks)).toEqual(NONE)
    expect(checks.dkim.detail).toEndWith('Until then the record stays unverified.')
    expect(fullyVerified).toBe(false)
  })

  test('stores results for records that resolve while others fail', async () => {
    await using t = await startVerified()
    t.break('SERVFAIL', t.hosts.dkim)
    t.break('NXDOMAIN', t.hosts.spf)
    const { domain, checks } = await verifyDomain(t.app, t.actor, t.id)
    expect(domain.verified).toEqual({ ...ALL, spf: false, return_path: false })
    expect(readFlags(checks)).toEqual(domain.verified)
    expect(domain.recordsLostAt).toBe(t.clock.now())
  })

  // Proves: domain-21
  test('enables inbound mail when the MX is newly verified, and respects the owner’s choice after that', async () => {
    await using t = await startVerified()
    await changeDomain(t.app, t.actor, t.id, { inboundEnabled: false })
    expect((await verifyDomain(t.app, t.actor, t.id)).domain.inboundEnabled).toBe(false)
    t.dns.zone[t.hosts.mx] = { MX: [{ preference: 10, exchange: 'mx.elsewhere.test' }] }
    const moved = (await verifyDomain(t.app, t.actor, t.id)).domain
    expect({ mx: moved.verified.mx, at: moved.mxVerifiedAt }).toEqual({ mx: false, at: null })
    expect(moved.verifiedAt).not.toBeNull()
    t.publish(moved, ['mx'])
    const back = (await verifyDomain(t.app, t.actor, t.id)).domain
    expect({ inbound: back.inboundEnabled, at: back.mxVerifiedAt }).toEqual({ inbound: true, at: t.clock.now() })
  })

  test('never disables inbound mail', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', t.hosts.mx)
    expect((await verifyDomain(t.app, t.actor, t.id)).domain.inboundEnabled).toBe(true)
  })

  test('fails with 409 and changes nothing while another account has the domain verified', async () => {
    await using t = await startDomainTest()
    const other = await createTestAccount(t.app)
    const mine = await t.register('example.com')
    const theirs = await t.register('example.com', other)
    t.publish(mine.domain)
    await verifyDomain(t.app, t.actor, mine.id)
    t.publish(theirs.domain)
    const asked = t.dns.queries.length
    await expect(verifyDomain(t.app, other, theirs.id)).rejects.toMatchObject({ status: 409, code: 'domain_taken' })
    expect(t.stored(theirs.id, other)).toEqual(theirs.domain)
    expect(t.dns.queries.length).toBe(asked)
  })

  test('by two accounts concurrently verifies the domain of one account only', async () => {
    await using t = await startDomainTest()
    const other = await createTestAccount(t.app)
    const mine = await t.register('example.com')
    const theirs = await t.register('example.com', other)
    t.publish(mine.domain)
    t.publish(theirs.domain)
    const results = await Promise.allSettled([
      verifyDomain(t.app, t.actor, mine.id),
      verifyDomain(t.app, other, theirs.id),
    ])
    expect(results.map((r) => (r.status === 'fulfilled' ? 'verified' : r.reason.code)).sort()).toEqual([
      'domain_taken',
      'verified',
    ])
    const verified = [t.stored(mine.id), t.stored(theirs.id, other)].filter((d) => d.verifiedAt !== null)
    expect(verified).toHaveLength(1)
  })
})
