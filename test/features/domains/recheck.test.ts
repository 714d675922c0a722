import { describe, expect, test } from 'bun:test'
import type { Domain } from '#features/domains/domains.ts'
import { recheckDomains } from '#features/domains/recheck.ts'
import { verifyDomain } from '#features/domains/verify.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const dkimHost = (domain: Domain) => `${domain.dkimSelector}._domainkey.${domain.domain}`

/** Goes on in time to the domain's next scheduled look and has it done; returns how long that took. */
async function nextLook(t: DomainTest, id: string): Promise<number> {
  const wait = t.stored(id).nextCheckAt - t.clock.now()
  t.clock.advance(wait - 1)
  expect(await recheckDomains(t.app)).toBe(0)
  t.clock.advance(1)
  expect(await recheckDomains(t.app)).toBe(1)
  return wait
}

async function startVerified(): Promise<DomainTest & { id: string; domain: Domain }> {
  const t = await startDomainTest()
  const { id, domain } = await t.register('example.com')
  t.publish(domain)
  await verifyDomain(t.app, t.actor, id)
  return Object.assign(t, { id, domain })
}

describe('an unverified domain', () => {
  test('is looked at every 5 minutes on its first day, hourly in its first week, then daily', async () => {
    await using t = await startDomainTest()
    const { id } = await t.register('example.com')
    expect(await nextLook(t, id)).toBe(minutes(5))
    expect(await nextLook(t, id)).toBe(minutes(5))
    t.clock.advance(days(1))
    await recheckDomains(t.app)
    expect(await nextLook(t, id)).toBe(hours(1))
    t.clock.advance(days(6))
    await recheckDomains(t.app)
    expect(await nextLook(t, id)).toBe(days(1))
  })

  test('becomes verified without being asked, by the system', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    await nextLook(t, id)
    t.publish(domain)
    await nextLook(t, id)
    expect(t.stored(id).verifiedAt).toBe(t.clock.now())
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.verified by system'])
  })

  test('is not asked about, and stays unverified, while another account has it verified', async () => {
    await using t = await startVerified()
    const other = await createTestAccount(t.app)
    t.app.db.run('UPDATE domains SET verified_at = NULL')
    const theirs = await t.register('example.com', other)
    await verifyDomain(t.app, t.actor, t.id)
    t.publish(theirs.domain)
    const asked = t.dns.queries.length
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app)).toBe(1)
    const now = t.clock.now()
    expect(t.stored(theirs.id, other)).toEqual({ ...theirs.domain, checkedAt: now, nextCheckAt: now + minutes(5) })
    expect(t.dns.queries.length).toBe(asked)
  })
})

test('a look that a clock 40 days ahead has put off is due when the clock is right', async () => {
  await using t = await startVerified()
  t.clock.jumpTo(t.clock.now() - days(40))
  expect(await recheckDomains(t.app)).toBe(1)
  expect(t.stored(t.id).nextCheckAt).toBe(t.clock.now() + hours(6))
  expect(await recheckDomains(t.app)).toBe(0)
})

describe('a verified domain', () => {
  test('is looked at every 6 hours, and every 15 minutes while DNS fails', async () => {
    await using t = await startVerified()
    expect(await nextLook(t, t.id)).toBe(hours(6))
    t.break('SERVFAIL', dkimHost(t.domain))
    expect(await nextLook(t, t.id)).toBe(hours(6))
    expect(await nextLook(t, t.id)).toBe(minutes(15))
  })

  test('stays verified, flags and all, while a record is missing for less than 24 hours', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.break('NXDOMAIN', dkimHost(t.domain))
    for (let look = 1; look <= 4; look++) await nextLook(t, t.id)
    const after = t.stored(t.id)
    expect(after).toEqual({
      ...before,
      checkedAt: t.clock.now(),
      nextCheckAt: t.clock.now() + hours(6),
      failing: { dkim: { since: t.clock.now() - hours(18), looks: 4 } },
    })
    t.publish(t.domain)
    await nextLook(t, t.id)
    expect(t.stored(t.id).failing).toEqual({})
  })

  test('is unverified when a record was missing for 24 hours, and then looked at often', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    for (let look = 1; look <= 5; look++) await nextLook(t, t.id)
    const { verified, verifiedAt, failing, nextCheckAt, updatedAt } = t.stored(t.id)
    expect({ verified, verifiedAt, failing, nextCheckAt, updatedAt }).toEqual({
      verified: { spf: true, dkim: false, dmarc: true, return_path: true, mx: true },
      verifiedAt: null,
      failing: {},
      nextCheckAt: t.clock.now() + minutes(5),
      updatedAt: t.clock.now(),
    })
    expect(t.audited().at(-1)).toBe('domain.unverified by system')
    t.publish(t.domain)
    await nextLook(t, t.id)
    expect(t.stored(t.id).verifiedAt).toBe(t.clock.now())
  })

  test('is not unverified by fewer than 3 looks, however far apart', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    for (let look = 1; look <= 2; look++) {
      t.clock.advance(days(3))
      expect(await recheckDomains(t.app)).toBe(1)
      expect(t.stored(t.id).verifiedAt).not.toBeNull()
    }
    t.clock.advance(days(3))
    await recheckDomains(t.app)
    expect(t.stored(t.id).verifiedAt).toBeNull()
  })

  test('is not unverified by looks that got no answer, which do not end the count either', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    await nextLook(t, t.id)
    const since = t.clock.now()
    t.break('SERVFAIL', dkimHost(t.domain))
    for (let at = 0; at < 10; at++) {
      t.clock.advance(hours(6))
      await recheckDomains(t.app)
    }
    expect(t.stored(t.id).failing).toEqual({ dkim: { since, looks: 1 } })
    expect(t.stored(t.id).verifiedAt).not.toBeNull()
    t.break('NXDOMAIN', dkimHost(t.domain))
    await nextLook(t, t.id)
    expect(t.stored(t.id).failing).toEqual({ dkim: { since, looks: 2 } })
    await nextLook(t, t.id)
    expect(t.stored(t.id).verifiedAt).toBeNull()
  })

  test('counts each record by itself', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', 'example.com')
    for (let look = 1; look <= 4; look++) await nextLook(t, t.id)
    t.break('NXDOMAIN', dkimHost(t.domain))
    await nextLook(t, t.id)
    const { verified, verifiedAt, failing } = t.stored(t.id)
    expect(verified).toEqual({ spf: true, dkim: true, dmarc: true, return_path: true, mx: false })
    expect(verifiedAt).not.toBeNull()
    expect(failing).toEqual({ dkim: { since: t.clock.now(), looks: 1 } })
  })

  test('is unverified by a request in the middle of what scheduled looks forgive', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    await nextLook(t, t.id)
    const { domain } = await verifyDomain(t.app, t.actor, t.id)
    expect({ verifiedAt: domain.verifiedAt, failing: domain.failing }).toEqual({ verifiedAt: null, failing: {} })
  })
})

describe('a run', () => {
  test('checks all that is due, more than a slice, each once', async () => {
    await using t = await startDomainTest()
    const { domain } = await t.register('d0.example')
    const insert = t.app.db.query(
      `INSERT INTO domains (uuid, account_id, domain, dkim_selector, dkim_public_key, dkim_private_key, sending_subdomain, next_check_at, created_at, updated_at)
       SELECT randomblob(16), account_id, ?, dkim_selector, dkim_public_key, dkim_private_key, sending_subdomain, next_check_at, created_at, updated_at
       FROM domains WHERE id = ?`,
    )
    for (let n = 1; n < 250; n++) insert.run(`d${n}.example`, domain.id)
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app)).toBe(250)
    expect(await recheckDomains(t.app)).toBe(0)
    const asked = t.dns.queries.filter((q) => q.type === 'TXT' && /^_dmarc\.d\d+\.example$/.test(q.name))
    expect(new Set(asked.map((q) => q.name)).size).toBe(250)
    expect(asked).toHaveLength(250)
  })

  test('ends early when it is told to', async () => {
    await using t = await startDomainTest()
    await t.register('example.com')
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app, AbortSignal.abort())).toBe(0)
    expect(t.dns.queries).toEqual([])
  })

  test('leaves out deleted domains', async () => {
    await using t = await startDomainTest()
    await t.register('example.com')
    t.app.db.run('UPDATE domains SET deleted_at = 1')
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app)).toBe(0)
  })

  test('gives way to a look on request that was stored while it was looking', async () => {
    await using t = await startVerified()
    t.break('SILENCE', 'example.com', 'send.example.com', '_dmarc.example.com', dkimHost(t.domain))
    t.clock.advance(hours(6))
    const before = t.dns.queries.length
    let isOver = false
    const running = recheckDomains(t.app).finally(() => {
      isOver = true
    })
    await t.dns.received(before + 1)
    t.app.db.run('UPDATE domains SET checked_at = ?', [t.clock.now()])
    const stored = t.stored(t.id)
    await eventually(() => {
      t.clock.advance(1000)
      return isOver
    })
    await running
    expect(t.stored(t.id)).toEqual(stored)
  })
})
