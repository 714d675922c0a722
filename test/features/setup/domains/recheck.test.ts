import { describe, expect, test } from 'bun:test'
import type { Domain } from '#features/setup/domains/domains.ts'
import { recheckDomains, verifyDomain } from '#features/setup/domains/verify.ts'
import { ALL_TYPES, readFeed } from '#features/webhooks/event-feed/feed.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const dkimHost = (domain: Domain) => `${domain.dkimSelector}._domainkey.${domain.domain}`

/** Advances to the domain's next scheduled check and runs it; returns the delay. */
async function readNextCheckDelay(t: DomainTest, id: string): Promise<number> {
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
  // Proves: domain-24
  test('is checked every 5 minutes on its first day, hourly in its first week, then daily', async () => {
    await using t = await startDomainTest()
    const { id } = await t.register('example.com')
    expect(await readNextCheckDelay(t, id)).toBe(minutes(5))
    expect(await readNextCheckDelay(t, id)).toBe(minutes(5))
    t.clock.advance(days(1))
    await recheckDomains(t.app)
    expect(await readNextCheckDelay(t, id)).toBe(hours(1))
    t.clock.advance(days(6))
    await recheckDomains(t.app)
    expect(await readNextCheckDelay(t, id)).toBe(days(1))
  })

  // Proves: domain-24, audit-4
  test('becomes verified automatically, by the system', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    await readNextCheckDelay(t, id)
    t.publish(domain)
    await readNextCheckDelay(t, id)
    expect(t.stored(id).verifiedAt).toBe(t.clock.now())
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.verified by system'])
  })

  test('is not checked while another account has it verified, and stays unverified', async () => {
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

test('a check that a clock 40 days ahead postponed is due once the clock is right', async () => {
  await using t = await startVerified()
  t.clock.jumpTo(t.clock.now() - days(40))
  expect(await recheckDomains(t.app)).toBe(1)
  expect(t.stored(t.id).nextCheckAt).toBe(t.clock.now() + hours(6))
  expect(await recheckDomains(t.app)).toBe(0)
})

describe('a verified domain', () => {
  // Proves: domain-24
  test('is checked every 6 hours, and every 15 minutes while DNS fails', async () => {
    await using t = await startVerified()
    expect(await readNextCheckDelay(t, t.id)).toBe(hours(6))
    t.break('SERVFAIL', dkimHost(t.domain))
    expect(await readNextCheckDelay(t, t.id)).toBe(hours(6))
    expect(await readNextCheckDelay(t, t.id)).toBe(minutes(15))
  })

  // Proves: send-8
  test('that lacks a record is checked often, and sends until the check at the end of the 72 hours', async () => {
    await using t = await startVerified()
    const { verifiedAt } = t.stored(t.id)
    t.break('NXDOMAIN', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    const lostAt = t.clock.now()
    expect(t.stored(t.id)).toMatchObject({
      verified: { spf: true, dkim: false, dmarc: true, return_path: true, mx: true },
      verifiedAt,
      recordsLostAt: lostAt,
      failing: {},
      nextCheckAt: lostAt + minutes(5),
      updatedAt: lostAt,
    })
    t.clock.advance(hours(71) + minutes(30))
    await recheckDomains(t.app)
    expect(t.stored(t.id)).toMatchObject({ verifiedAt, nextCheckAt: lostAt + hours(72) })
    await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id)).toMatchObject({ verifiedAt: null, recordsLostAt: lostAt })
    expect(t.audited().slice(-2)).toEqual(['domain.records_lost by system', 'domain.unverified by system'])
    t.publish(t.domain)
    await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id)).toMatchObject({ verifiedAt: t.clock.now(), recordsLostAt: null })
  })

  // Proves: domain-23
  test('has events for lost and restored records in the feed', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    const until = isoTime(t.clock.now() + hours(72))
    delete t.dns.zone[dkimHost(t.domain)]
    t.publish(t.domain)
    await readNextCheckDelay(t, t.id)
    const about = { domain_id: t.id, domain: 'example.com', lost_records: ['dkim'] }
    const owner = { accountId: t.actor.accountId, accountUuid: t.actor.accountUuid }
    const { events } = readFeed(t.app, owner, { after: 0, upTo: 9, types: ALL_TYPES, limit: 9 })
    expect(events.map(({ type, email_id, raw_payload }) => ({ type, email_id, raw_payload }))).toEqual([
      { type: 'domain.records_lost', email_id: null, raw_payload: { ...about, sends_until: until } },
      { type: 'domain.records_restored', email_id: null, raw_payload: about },
    ])
  })

  // Proves: domain-22
  test('does not lose its verification by checks without a response, even at the end of 72 hours', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.break('SERVFAIL', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id)).toMatchObject({ verified: before.verified, recordsLostAt: null })
    t.break('NXDOMAIN', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    const lostAt = t.clock.now()
    t.break('SERVFAIL', dkimHost(t.domain))
    t.clock.advance(hours(73))
    await recheckDomains(t.app)
    expect(t.stored(t.id)).toMatchObject({ verifiedAt: before.verifiedAt, recordsLostAt: lostAt })
    expect(await readNextCheckDelay(t, t.id)).toBe(minutes(15))
    t.break('NXDOMAIN', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id).verifiedAt).toBeNull()
  })

  test('becomes verified again when the clock was ahead at the check that ended its 72 hours', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', dkimHost(t.domain))
    await readNextCheckDelay(t, t.id)
    const lostAt = t.clock.now()
    // Not a jump of the clock, which the service would ignore: the service started with this clock.
    t.clock.advance(days(40))
    await verifyDomain(t.app, t.actor, t.id)
    expect(t.stored(t.id).verifiedAt).toBeNull()
    t.clock.jumpTo(lostAt + minutes(1))
    await recheckDomains(t.app)
    expect(t.stored(t.id).recordsLostAt).toBe(lostAt)
    expect(t.stored(t.id).verifiedAt).not.toBeNull()
  })

  test('keeps the flag of a record that sending does not need until 3 checks over 24 hours missed it', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.break('NXDOMAIN', 'example.com')
    for (let look = 1; look <= 4; look++) await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id)).toEqual({
      ...before,
      checkedAt: t.clock.now(),
      nextCheckAt: t.clock.now() + hours(6),
      failing: { mx: { since: t.clock.now() - hours(18), looks: 4 } },
    })
    await readNextCheckDelay(t, t.id)
    expect(t.stored(t.id)).toMatchObject({
      verified: { ...before.verified, mx: false },
      recordsLostAt: null,
      failing: {},
    })
  })

  test('keeps such a flag when fewer than 3 checks missed the record, however far apart, and through checks without a response', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', 'example.com')
    const look = async () => {
      t.clock.advance(days(3))
      await recheckDomains(t.app)
      return t.stored(t.id).verified.mx
    }
    expect([await look(), await look()]).toEqual([true, true])
    t.break('SERVFAIL', 'example.com')
    expect([await look(), await look()]).toEqual([true, true])
    t.break('NXDOMAIN', 'example.com')
    expect(await look()).toBe(false)
  })
})

describe('a run', () => {
  test('immediately checks domains postponed by a clock that was ahead, but not those postponed by hand', async () => {
    await using t = await startVerified()
    const { id } = await t.register('other.example')
    t.app.db.run('UPDATE domains SET next_check_at = ? WHERE domain = ?', [t.clock.now() + days(40), 'example.com'])
    t.app.db.run('UPDATE domains SET next_check_at = 4000000000000 WHERE domain = ?', ['other.example'])
    expect(await recheckDomains(t.app)).toBe(1)
    expect(t.stored(t.id).nextCheckAt).toBe(t.clock.now() + hours(6))
    expect(t.stored(id).nextCheckAt).toBe(4_000_000_000_000)
  })

  test('checks each due domain once, even if there is more than one batch', async () => {
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

  test('ends early when aborted', async () => {
    await using t = await startDomainTest()
    await t.register('example.com')
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app, AbortSignal.abort())).toBe(0)
    expect(t.dns.queries).toEqual([])
  })

  test('skips deleted domains', async () => {
    await using t = await startDomainTest()
    await t.register('example.com')
    t.app.db.run('UPDATE domains SET deleted_at = 1')
    t.clock.advance(minutes(5))
    expect(await recheckDomains(t.app)).toBe(0)
  })

  test('discards its result when the result of a check on request was stored since it began', async () => {
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
