import { describe, expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { loadConfig } from '#app/settings.ts'
import { deleteDomain } from '#features/sending/emails/delete-domain.ts'
import { listDnsRecords } from '#features/setup/domains/domains.ts'
import { removeTrackingDomain, setTrackingDomain } from '#features/setup/domains/set-tracking.ts'
import {
  findTrackingHost,
  findTrackingHostAccount,
  getCnameTarget,
  isTrackingHost,
} from '#features/setup/domains/tracking-domain.ts'
import { recheckDomains, verifyDomain, verifyTracking } from '#features/setup/domains/verify.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

const HOST = 'links.example.com'
const TARGET = 'mail.tassis.test'

type TrackingTest = DomainTest & { readonly id: string; readonly rowId: number }

/** A domain whose tracking host is set and unverified. */
async function startSet(): Promise<TrackingTest> {
  const t = await startDomainTest()
  const { id, domain } = await t.register('example.com')
  await setTrackingDomain(t.app, t.actor, id, HOST)
  return Object.assign(t, { id, rowId: domain.id })
}

/** A verified domain with a verified tracking host. */
async function startVerified(): Promise<TrackingTest> {
  const t = await startSet()
  t.publish(t.stored(t.id))
  await verifyDomain(t.app, t.actor, t.id)
  t.dns.zone[HOST] = { CNAME: TARGET }
  await verifyTracking(t.app, t.actor, t.id)
  return t
}

const readTracking = (t: TrackingTest) => {
  const { trackingDomain: host, trackingVerifiedAt: at } = t.stored(t.id)
  return { host, at }
}

/** Advances to the next scheduled check and runs it; returns the delay. */
async function readNextCheckDelay(t: TrackingTest): Promise<number> {
  const wait = t.stored(t.id).nextCheckAt - t.clock.now()
  t.clock.advance(wait)
  expect(await recheckDomains(t.app)).toBe(1)
  return wait
}

describe('setting a tracking host', () => {
  test('stores the host as unverified, shows its record and schedules a check soon', async () => {
    await using t = await startSet()
    const domain = t.stored(t.id)
    expect(readTracking(t)).toEqual({ host: HOST, at: null })
    expect(listDnsRecords(t.app, domain).tracking).toEqual({
      type: 'CNAME',
      host: HOST,
      value: TARGET,
      verified: false,
    })
    expect(domain.nextCheckAt).toBe(t.clock.now() + minutes(5))
    expect(t.audited()).toEqual(['domain.created by operator', 'domain.tracking_set by operator'])
  })

  test('of a verified domain schedules its next check earlier', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    await verifyDomain(t.app, t.actor, id)
    expect(t.stored(id).nextCheckAt).toBe(t.clock.now() + hours(6))
    await setTrackingDomain(t.app, t.actor, id, HOST)
    expect(t.stored(id).nextCheckAt).toBe(t.clock.now() + minutes(5))
  })

  test('accepts a name as a user types it, and stores A-labels in lower case', async () => {
    await using t = await startDomainTest()
    const { id } = await t.register('example.com')
    for (const [typed, stored] of [
      [' Links.Example.COM. ', HOST],
      ['klicks.b\u00fccher.example', 'klicks.xn--bcher-kva.example'],
      ['a.other.co.uk', 'a.other.co.uk'],
    ] as const) {
      expect((await setTrackingDomain(t.app, t.actor, id, typed)).trackingDomain).toBe(stored)
    }
  })

  // Proves: domain-29
  test('to a name that cannot be one fails with a 422 that says why', async () => {
    await using t = await startDomainTest()
    const { id, domain } = await t.register('example.com')
    await t.register('news.example.com')
    const app = { ...t.app, config: { ...t.app.config, publicUrl: 'https://t.tassis.test' } }
    for (const [text, reason] of [
      ['', 'is empty'],
      ['192.0.2.1', 'like an IP address'],
      ['[2001:db8::1]', 'is an IP address'],
      ['0x7f.1', 'like an IP address'],
      ['localhost', 'has no dot'],
      ['links.example.com:8080', 'invalid character'],
      ['https://links.example.com', 'invalid character'],
      ['links.example.com/t', 'invalid character'],
      ['user@links.example.com', 'invalid character'],
      ['*.example.com', 'invalid character'],
      ['_links.example.com', 'invalid character'],
      ['co.uk', 'is a public suffix'],
      ['other.co.uk', 'itself cannot have a CNAME record; use a name below it, such as links.other.co.uk.'],
      ['example.com', 'itself cannot have a CNAME record'],
      [TARGET, 'is the name of this service'],
      ['t.tassis.test', 'is the name of this service'],
      ['news.example.com', 'has mail records of a registered domain'],
      ['send.example.com', 'has mail records of a registered domain'],
      ['send.news.example.com', 'such as links.news.example.com.'],
    ] as const)
      await expect(setTrackingDomain(app, t.actor, id, text)).rejects.toMatchObject({
        status: 422,
        code: 'invalid_tracking_domain',
        details: [{ field: 'tracking_domain', message: expect.stringContaining(reason) }],
      })
    expect(t.stored(id)).toEqual(domain)
  })

  test('to the same name again changes nothing and keeps its verification', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.clock.advance(minutes(1))
    expect(await setTrackingDomain(t.app, t.actor, t.id, 'LINKS.example.com')).toEqual(before)
    expect(before.trackingVerifiedAt).not.toBeNull()
    expect(t.audited().filter((action) => action.startsWith('domain.tracking_set'))).toHaveLength(1)
  })

  test('to another name makes it unverified, and discards failed checks of the old name', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', HOST)
    await readNextCheckDelay(t)
    expect(Object.keys(t.stored(t.id).failing)).toEqual(['tracking'])
    await setTrackingDomain(t.app, t.actor, t.id, 'go.example.com')
    expect(readTracking(t)).toEqual({ host: 'go.example.com', at: null })
    expect(t.stored(t.id).failing).toEqual({})
  })
})

describe('a tracking host that another domain uses', () => {
  const taken = { status: 409, code: 'tracking_domain_taken' }

  // Proves: domain-29
  test('fails with 409, within an account and across accounts', async () => {
    await using t = await startSet()
    const other = await createTestAccount(t.app)
    const mine = await t.register('second.example')
    const theirs = await t.register('third.example', other)
    await expect(setTrackingDomain(t.app, t.actor, mine.id, HOST)).rejects.toMatchObject({
      ...taken,
      message: `${HOST} is already the tracking domain of example.com.`,
    })
    await expect(setTrackingDomain(t.app, other, theirs.id, HOST)).rejects.toMatchObject(taken)
    expect(t.stored(theirs.id, other).trackingDomain).toBeNull()
  })

  test('is free again once it is removed or its domain is deleted', async () => {
    await using t = await startSet()
    const { id } = await t.register('second.example')
    await removeTrackingDomain(t.app, t.actor, t.id)
    expect((await setTrackingDomain(t.app, t.actor, id, HOST)).trackingDomain).toBe(HOST)
    await deleteDomain(t.app, t.actor, id)
    expect((await setTrackingDomain(t.app, t.actor, t.id, HOST)).trackingDomain).toBe(HOST)
  })

  test('goes to the account that has verified a domain above it, and the previous holder gets an audit entry', async () => {
    await using t = await startDomainTest()
    const squatter = await createTestAccount(t.app)
    const theirs = await t.register('squatter.example', squatter)
    await setTrackingDomain(t.app, squatter, theirs.id, HOST)
    const mine = await t.register('example.com')
    await expect(setTrackingDomain(t.app, t.actor, mine.id, HOST)).rejects.toMatchObject(taken)
    t.publish(mine.domain)
    await verifyDomain(t.app, t.actor, mine.id)
    expect((await setTrackingDomain(t.app, t.actor, mine.id, HOST)).trackingDomain).toBe(HOST)
    expect(t.stored(theirs.id, squatter).trackingDomain).toBeNull()
    expect(t.audited().slice(-2)).toEqual(['domain.tracking_removed by system', 'domain.tracking_set by operator'])
  })

  test('can be neither set nor verified at or below a domain that another account has verified', async () => {
    await using t = await startDomainTest()
    const owner = await createTestAccount(t.app)
    const mine = await t.register('mine.example')
    await setTrackingDomain(t.app, t.actor, mine.id, HOST)
    const theirs = await t.register('example.com', owner)
    t.publish(theirs.domain)
    await verifyDomain(t.app, owner, theirs.id)
    t.dns.zone[HOST] = { CNAME: TARGET }
    await expect(verifyTracking(t.app, t.actor, mine.id)).rejects.toMatchObject(taken)
    t.clock.advance(minutes(5))
    await recheckDomains(t.app)
    expect(t.stored(mine.id).trackingVerifiedAt).toBeNull()
    await expect(setTrackingDomain(t.app, t.actor, mine.id, 'deep.go.example.com')).rejects.toMatchObject(taken)
  })
})

describe('a tracking host that was verified before the domain above it was', () => {
  /** Account A has `HOST` verified for its own domain; account B, which owns the name, has verified nothing yet. */
  async function startSquatted(name = 'squatter.example') {
    const t = await startDomainTest()
    const owner = await createTestAccount(t.app)
    const held = await t.register(name)
    await setTrackingDomain(t.app, t.actor, held.id, HOST)
    t.dns.zone[HOST] = { CNAME: TARGET }
    await verifyTracking(t.app, t.actor, held.id)
    const owned = await t.register('example.com', owner)
    const { db } = t.app
    return Object.assign(t, {
      owner,
      held,
      owned,
      async verifyOwned() {
        t.publish(owned.domain)
        expect((await verifyDomain(t.app, owner, owned.id)).fullyVerified).toBe(true)
      },
      inUse: () => ({
        links: findTrackingHost(db, held.domain.id),
        certificate: isTrackingHost(db, HOST),
        serves: [held, owned].find(({ domain }) => {
          const account = findTrackingHostAccount(db, HOST)
          return account !== undefined && formatUuid(account) === formatUuid(domain.accountUuid)
        })?.domain.domain,
      }),
      of: () => t.stored(held.id).trackingDomain,
    })
  }

  // Proves: domain-26
  test('stops working for its holder as soon as the owner verifies the domain above, and is removed at the next check', async () => {
    await using t = await startSquatted()
    expect(t.inUse()).toEqual({ links: HOST, certificate: true, serves: 'squatter.example' })
    await t.verifyOwned()
    expect([t.inUse(), t.of()]).toEqual([{ links: null, certificate: false, serves: 'example.com' }, HOST])
    const taken = { status: 409, code: 'tracking_domain_taken' }
    await expect(verifyTracking(t.app, t.actor, t.held.id)).rejects.toMatchObject(taken)
    await expect(setTrackingDomain(t.app, t.actor, t.held.id, HOST)).rejects.toMatchObject(taken)
    // Whatever DNS returns for the host, the holder does not keep it, even when the look-up fails.
    t.break('SERVFAIL', HOST)
    t.clock.advance(minutes(15))
    expect(await recheckDomains(t.app)).toBe(1)
    expect([t.of(), t.stored(t.held.id).trackingVerifiedAt]).toEqual([null, null])
    expect(t.inUse()).toEqual({ links: null, certificate: false, serves: undefined })
    expect(t.audited().at(-1)).toBe('domain.tracking_removed by system')
    t.clock.advance(days(1))
    await recheckDomains(t.app)
    expect(t.audited().filter((action) => action.startsWith('domain.tracking_removed'))).toHaveLength(1)
  })

  // Proves: domain-26
  test('moves to the owner when the owner sets the host', async () => {
    await using t = await startSquatted()
    await t.verifyOwned()
    await setTrackingDomain(t.app, t.owner, t.owned.id, HOST)
    expect([t.of(), t.inUse().serves]).toEqual([null, undefined])
    await verifyTracking(t.app, t.owner, t.owned.id)
    expect([findTrackingHost(t.app.db, t.owned.domain.id), t.inUse()]).toEqual([
      HOST,
      { links: null, certificate: true, serves: 'example.com' },
    ])
  })

  test('is removed even if its holder keeps verifying the domain on request', async () => {
    await using t = await startSquatted()
    await t.verifyOwned()
    const { domain } = await verifyDomain(t.app, t.actor, t.held.id)
    expect([domain.trackingDomain, t.of()]).toEqual([null, null])
    expect(t.audited().at(-1)).toBe('domain.tracking_removed by system')
  })

  test('is removed even from a domain that is not checked because another account has verified it', async () => {
    await using t = await startSquatted('example.com')
    await t.verifyOwned()
    expect(t.inUse().links).toBeNull()
    t.clock.advance(minutes(15))
    expect(await recheckDomains(t.app)).toBe(1)
    expect([t.of(), t.audited().at(-1)]).toEqual([null, 'domain.tracking_removed by system'])
  })

  test('is removed even if the owner verifies during the check', async () => {
    await using t = await startSquatted()
    t.clock.advance(minutes(5))
    t.app.db.run('UPDATE domains SET next_check_at = ? WHERE id = ?', [t.clock.now() + days(1), t.owned.domain.id])
    const looking = recheckDomains(t.app)
    t.app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [t.owned.domain.id])
    expect(await looking).toBe(1)
    expect(t.of()).toBeNull()
  })

  test('stays with its holder if the holder has verified a nearer domain', async () => {
    await using t = await startSquatted()
    const nearer = await t.register(HOST)
    t.app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [nearer.domain.id])
    await t.verifyOwned()
    expect(t.inUse()).toEqual({ links: HOST, certificate: true, serves: 'squatter.example' })
  })
})

describe('removing a tracking host', () => {
  // Proves: domain-15
  test('removes the host with its verification and record; a second removal changes nothing', async () => {
    await using t = await startVerified()
    t.clock.advance(minutes(1))
    const domain = await removeTrackingDomain(t.app, t.actor, t.id)
    expect(readTracking(t)).toEqual({ host: null, at: null })
    expect(domain.updatedAt).toBe(t.clock.now())
    expect(listDnsRecords(t.app, domain)).not.toHaveProperty('tracking')
    expect(await removeTrackingDomain(t.app, t.actor, t.id)).toEqual(domain)
    expect(t.audited().filter((action) => action === 'domain.tracking_removed by operator')).toHaveLength(1)
  })
})

describe('verifying a tracking host', () => {
  test('verifies it once it leads to us, and leaves the rest of the domain and its next check alone', async () => {
    await using t = await startSet()
    t.clock.advance(minutes(1))
    const before = t.stored(t.id)
    const missing = await verifyTracking(t.app, t.actor, t.id)
    expect(missing.check).toEqual({ verified: false, detail: expect.stringContaining('Publish a CNAME record at') })
    expect(missing.domain).toEqual(before)
    t.dns.zone[HOST] = { CNAME: TARGET }
    const found = await verifyTracking(t.app, t.actor, t.id)
    const now = t.clock.now()
    expect(found).toEqual({
      domain: { ...before, trackingVerifiedAt: now, updatedAt: now },
      check: { verified: true, detail: `${HOST} is an alias (CNAME) of ${TARGET}.` },
    })
    expect(t.audited().at(-1)).toBe('domain.tracking_verified by operator')
  })

  test('does not affect the domain, whatever its records are', async () => {
    await using t = await startSet()
    t.app.db.run('UPDATE domains SET verified_at = 1')
    t.dns.zone[HOST] = { CNAME: TARGET }
    const { domain } = await verifyTracking(t.app, t.actor, t.id)
    expect([domain.verifiedAt, domain.checkedAt]).toEqual([1, null])
    expect(t.audited()).not.toContain('domain.unverified by operator')
  })

  test('unverifies the host immediately when it definitely leads elsewhere', async () => {
    await using t = await startVerified()
    t.dns.zone[HOST] = { CNAME: 'elsewhere.test' }
    const { check, domain } = await verifyTracking(t.app, t.actor, t.id)
    expect(check.verified).toBe(false)
    expect(domain.trackingVerifiedAt).toBeNull()
    expect(domain.verifiedAt).not.toBeNull()
    expect(domain.nextCheckAt).toBe(t.clock.now() + minutes(5))
    expect(t.audited().at(-1)).toBe('domain.tracking_unverified by operator')
  })

  // Proves: domain-25
  test('leaves the host unchanged when DNS fails, and says so', async () => {
    await using t = await startVerified()
    const before = t.stored(t.id)
    t.break('SERVFAIL', HOST)
    const { check, domain } = await verifyTracking(t.app, t.actor, t.id)
    expect(domain).toEqual(before)
    expect(check).toEqual({
      verified: true,
      detail: expect.stringMatching(/could not be looked up: .* Until then the record stays verified\.$/),
    })
  })

  test('fails with 409 and stores nothing when the host changes during the check', async () => {
    await using t = await startSet()
    t.dns.zone[HOST] = { CNAME: TARGET }
    const verifying = verifyTracking(t.app, t.actor, t.id)
    const changing = setTrackingDomain(t.app, t.actor, t.id, 'go.example.com')
    await expect(verifying).rejects.toMatchObject({ status: 409, code: 'tracking_domain_changed' })
    await changing
    expect(readTracking(t)).toEqual({ host: 'go.example.com', at: null })
  })

  test('is not part of verifying the domain; that response shows the stored state of the host', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', HOST)
    const asked = t.dns.queries.length
    const { checks, domain } = await verifyDomain(t.app, t.actor, t.id)
    expect(Object.keys(checks)).toEqual(['spf', 'dkim', 'dkim_ed25519', 'dmarc', 'return_path', 'mx'])
    expect(domain.trackingVerifiedAt).not.toBeNull()
    expect(t.dns.queries.slice(asked).filter(({ name }) => name === HOST)).toEqual([])
  })
})

describe('scheduled checks', () => {
  test('verify a tracking host automatically, with the system as actor', async () => {
    await using t = await startSet()
    await readNextCheckDelay(t)
    expect(readTracking(t).at).toBeNull()
    t.dns.zone[HOST] = { CNAME: TARGET }
    await readNextCheckDelay(t)
    expect(readTracking(t).at).toBe(t.clock.now())
    expect(t.audited().at(-1)).toBe('domain.tracking_verified by system')
  })

  test('are frequent while the tracking host of a verified domain is new and unverified, then every 6 hours', async () => {
    await using t = await startVerified()
    await setTrackingDomain(t.app, t.actor, t.id, 'go.example.com')
    expect([await readNextCheckDelay(t), await readNextCheckDelay(t)]).toEqual([minutes(5), minutes(5)])
    t.clock.advance(days(1))
    await recheckDomains(t.app)
    expect(await readNextCheckDelay(t)).toBe(hours(1))
    t.clock.advance(days(7))
    await recheckDomains(t.app)
    expect(await readNextCheckDelay(t)).toBe(hours(6))
  })

  // Proves: domain-25
  test('unverify it only after 3 checks in a row over 24 hours found it missing or wrong', async () => {
    await using t = await startVerified()
    const { at } = readTracking(t)
    t.break('NXDOMAIN', HOST)
    for (let look = 1; look <= 4; look++) {
      await readNextCheckDelay(t)
      expect(readTracking(t).at).toBe(at)
    }
    expect(findTrackingHost(t.app.db, t.rowId)).toBe(HOST)
    await readNextCheckDelay(t)
    expect(readTracking(t)).toEqual({ host: HOST, at: null })
    expect(t.stored(t.id).verifiedAt).not.toBeNull()
    expect(t.stored(t.id).failing).toEqual({})
    expect(t.audited().at(-1)).toBe('domain.tracking_unverified by system')
  })

  test('tolerate failures of a tracking host even while the domain itself is unverified', async () => {
    await using t = await startVerified()
    t.app.db.run('UPDATE domains SET verified_at = NULL')
    for (const host of Object.keys(t.dns.zone)) t.break('NXDOMAIN', host)
    await readNextCheckDelay(t)
    expect(readTracking(t).at).not.toBeNull()
  })

  // Proves: domain-25
  test('without a response never unverify it, and do not reset the count of failed checks', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', HOST)
    await readNextCheckDelay(t)
    const { failing } = t.stored(t.id)
    t.break('SERVFAIL', HOST)
    for (let look = 0; look < 10; look++) {
      t.clock.advance(hours(6))
      await recheckDomains(t.app)
    }
    expect(t.stored(t.id).failing).toEqual(failing)
    expect(readTracking(t).at).not.toBeNull()
    t.break('NXDOMAIN', HOST)
    await readNextCheckDelay(t)
    await readNextCheckDelay(t)
    expect(readTracking(t).at).toBeNull()
  })

  test('that find it again reset the count of failed checks', async () => {
    await using t = await startVerified()
    t.break('NXDOMAIN', HOST)
    await readNextCheckDelay(t)
    t.dns.zone[HOST] = { CNAME: TARGET }
    await readNextCheckDelay(t)
    expect(t.stored(t.id).failing).toEqual({})
  })

  test('do not apply to a host that was set while another was checked', async () => {
    await using t = await startSet()
    t.dns.zone[HOST] = { CNAME: TARGET }
    t.clock.advance(minutes(5))
    const running = recheckDomains(t.app)
    const changing = setTrackingDomain(t.app, t.actor, t.id, 'go.example.com')
    expect(await running).toBe(1)
    await changing
    expect(readTracking(t)).toEqual({ host: 'go.example.com', at: null })
    expect(t.stored(t.id).checkedAt).toBe(t.clock.now())
  })

  // Proves: domain-25
  test('do not overwrite the result of a later check on request', async () => {
    await using t = await startVerified()
    t.clock.advance(hours(6))
    // Delays the end of the scheduled check, which has already found the host unchanged.
    t.break('SILENCE', '_dmarc.example.com')
    const asked = t.dns.queries.length
    let looked: number | undefined
    void recheckDomains(t.app).then((checked) => {
      looked = checked
    })
    await eventually(() => t.dns.queries.slice(asked).some(({ name }) => name === HOST))
    t.dns.zone[HOST] = { CNAME: 'elsewhere.test' }
    // The first check on request may still join the question of the scheduled one, and get its answer.
    await eventually(async () => {
      await verifyTracking(t.app, t.actor, t.id)
      return readTracking(t).at === null
    })
    expect(looked).toBeUndefined()
    await eventually(() => {
      t.clock.advance(seconds(1))
      return looked
    })
    expect([looked, readTracking(t)]).toEqual([1, { host: HOST, at: null }])
  })
})

describe('the host of tracked links', () => {
  test('belongs to the domain only while the host is verified and the domain is not deleted', async () => {
    await using t = await startSet()
    const { db } = t.app
    const seen = () => [
      findTrackingHost(db, t.rowId),
      isTrackingHost(db, HOST),
      isTrackingHost(db, 'LINKS.Example.com.'),
    ]
    expect(seen()).toEqual([null, false, false])
    t.dns.zone[HOST] = { CNAME: TARGET }
    await verifyTracking(t.app, t.actor, t.id)
    expect(seen()).toEqual([HOST, true, true])
    expect([findTrackingHost(db, t.rowId + 1), isTrackingHost(db, 'go.example.com')]).toEqual([null, false])
    await deleteDomain(t.app, t.actor, t.id)
    expect(seen()).toEqual([null, false, false])
  })

  test.each([
    ['https://API.Tassis.test/base', 'api.tassis.test'],
    ['https://api.tassis.test:8443', 'api.tassis.test'],
    ['http://127.0.0.1:8080', 'mx.tassis.test'],
    ['http://[2001:db8::1]:8080', 'mx.tassis.test'],
    ['http://localhost:8080', 'mx.tassis.test'],
  ])('with the public URL %s has the CNAME target %s', (publicUrl, target) => {
    const { config } = loadConfig({ TASSIS_PUBLIC_URL: publicUrl, TASSIS_HOSTNAME: 'MX.Tassis.test' })
    expect(getCnameTarget(config)).toBe(target)
  })

  // Proves: domain-29
  test('cannot be set while this service has no fully qualified name as a CNAME target', async () => {
    await using t = await startSet()
    const nameless = { ...t.app.config, publicUrl: 'http://192.0.2.1:8080', hostname: 'vm' }
    const app = { ...t.app, config: nameless }
    const refusal = { status: 409, code: 'no_cname_target', message: expect.stringContaining('TASSIS_PUBLIC_URL') }
    await expect(setTrackingDomain(app, t.actor, t.id, 'go.example.com')).rejects.toMatchObject(refusal)
    await expect(verifyTracking(app, t.actor, t.id)).rejects.toMatchObject(refusal)
    expect(readTracking(t)).toEqual({ host: HOST, at: null })
    expect((await removeTrackingDomain(app, t.actor, t.id)).trackingDomain).toBeNull()
    const named = { ...t.app, config: { ...nameless, hostname: 'vm.tassis.test' } }
    expect((await setTrackingDomain(named, t.actor, t.id, 'go.example.com')).trackingDomain).toBe('go.example.com')
  })

  // Proves: domain-32
  test('may get a certificate once it is verified, as may our public host, and no other host', async () => {
    await using t = await startSet()
    const { opened } = t.service
    const config = { ...t.app.config, publicUrl: 'https://api.tassis.test' }
    const http = createHttp({ ...opened, app: { ...opened.app, config } })
    const { port } = http.listen('127.0.0.1', 0)
    const ask = async (query: string) => {
      const response = await fetch(`http://127.0.0.1:${port}/t/tls-allowed${query}`)
      return [response.status, await response.text()]
    }
    try {
      expect(await ask('?domain=API.tassis.test')).toEqual([200, ''])
      expect(await ask(`?domain=${HOST}`)).toEqual([404, ''])
      t.dns.zone[HOST] = { CNAME: TARGET }
      t.app.db.run('UPDATE domains SET tracking_verified_at = 1')
      expect(await ask(`?domain=${HOST}`)).toEqual([200, ''])
      expect([await ask(`?domain=${HOST}.`), await ask('?domain=api.Tassis.test.')]).toEqual([
        [200, ''],
        [200, ''],
      ])
      for (const query of ['', '?domain=', '?domain=127.0.0.1', '?domain=x.test', `?domain=${'x'.repeat(5000)}.test`])
        expect([query, await ask(query)]).toEqual([query, [404, '']])
    } finally {
      await http.stop(0)
    }
  })
})
