import { describe, expect, test } from 'bun:test'
import { areDaemonsAvailable, type DaemonName } from '#test/support/dns-daemons.ts'
import { startPublishTest } from './fixture.ts'

const KEYS = ['spf', 'dkim', 'return_path', 'dkim_ed25519', 'dmarc']

describe.skipIf(!areDaemonsAvailable()).each<DaemonName>(['bind', 'knot'])('%s', (name) => {
  test.each([false, true])('an unverified domain is green after one request, DNSSEC %p', async (isSigned) => {
    await using t = await startPublishTest(name, { isSigned, records: ['@ TXT "of somebody else"', '* A 192.0.2.1'] })
    const before = await t.daemon.dump()
    const request = { provider: 'rfc2136', credentials: t.credentials }
    const planned = await t.post({ ...request, dry_run: true })
    expect(t.outcome(planned)).toEqual(KEYS.map((key) => `${key}: create planned`))
    expect(await t.daemon.dump()).toEqual(before)
    const done = await t.post(request)
    expect(t.outcome(done)).toEqual(KEYS.map((key) => `${key}: create published`))
    expect(done.summary).toBe('5 records were published. DNS shows all records of zone.test.')
    expect(await t.wire()).toMatchObject({ status: 'verified', dmarc_verified: true, dkim_ed25519_verified: true })
    const added = done.records.flatMap((one) => one.after.map((value) => [one.name, one.type, value] as const))
    const now = await t.daemon.dump()
    expect(now.map((line) => line.replaceAll('" "', '')).sort()).toEqual(
      [
        ...before,
        ...added.map(([at, type, value]) => `${at} ${type} ${type === 'TXT' ? JSON.stringify(value) : value}`),
      ].sort(),
    )
    // Again, with what was kept.
    const again = await t.post({})
    expect(t.outcome(again)).toEqual(KEYS.map((key) => `${key}: leave unchanged`))
    expect(await t.daemon.dump()).toEqual(now)
  })
})
