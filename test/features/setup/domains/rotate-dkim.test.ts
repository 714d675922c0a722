import { describe, expect, test } from 'bun:test'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { getDomain, listDnsRecords } from '#features/setup/domains/domains.ts'
import { ROTATION_NOTICE } from '#features/setup/domains/notices.ts'

import { createZoneResolver } from '#features/setup/domains/published-dns.ts'
import { getKeepUntil, startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { recheckDomains, verifyDomain, vouchForDomain } from '#features/setup/domains/verify.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'

import { createTestAccount } from '#test/support/app.ts'
import { createNoticeSender, listServiceMail } from '#test/support/notices.ts'
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

/** Twenty addresses of four name servers, which get questions and never answer. */
function publishSilentServers({ dns }: DomainTest) {
  const addresses = Array.from({ length: 20 }, (_, i) => `127.77.9.${i + 1}`)
  const hosts = ['a', 'b', 'c', 'd'].map((name) => `${name}.example.com`)
  dns.zone['example.com'] = { NS: hosts }
  for (const [i, host] of hosts.entries()) dns.zone[host] = { A: addresses.slice(i * 5, i * 5 + 5) }
  return addresses.map((address) => createSocket('udp4').bind(53, address))
}

async function measure<T>({ clock }: DomainTest, work: Promise<T>) {
  const startMs = clock.monotonicMs()
  let isOver = false
  void work.finally(() => {
    isOver = true
  })
  while (!isOver) {
    clock.advance(50)
    await Bun.sleep(5)
  }
  return { result: await work, tookMs: clock.monotonicMs() - startMs }
}

describe('a rotation of DKIM keys', () => {
  // Port 53 is for root.
  test.skipIf(process.getuid?.() !== 0)('waits for all silent name servers at once', async () => {
    await using t = await startVerified()
    const silent = publishSilentServers(t)
    await startDkimRotation(t.app, t.actor, t.id)
    t.publish(t.stored(t.id), ['dkim_next'])
    const { result, tookMs } = await measure(t, verifyDomain(t.app, t.actor, t.id))
    expect(result.domain.nextDkim).toBeNull()
    // Each has two seconds.
    expect(tookMs).toBeLessThan(seconds(8))
    for (const socket of silent) socket.close()
  })

  test.skipIf(process.getuid?.() !== 0)('asks few addresses of silent name servers', async () => {
    await using t = await startVerified()
    const silent = publishSilentServers(t)
    const { result: resolver } = await measure(t, createZoneResolver(t.app, 'example.com'))
    const { result, tookMs } = await measure(t, resolver.txt('_dmarc.example.com'))
    expect(result.kind).toBe('ok')
    expect(tookMs).toBeLessThan(seconds(20))
    for (const socket of silent) socket.close()
  })

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

    // The former record may go after 7 days, and is named for another 30.
    const [former] = rotated.formerDkim
    expect(former && getKeepUntil(former)).toBe(t.clock.now() + days(7))
    t.clock.advance(days(36))
    await recheckDomains(t.app)
    expect(t.stored(t.id).formerDkim.length).toBe(1)
    t.clock.advance(days(2))
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
    expect(listDnsRecords(t.app, t.stored(t.id)).dkim_next?.host).toBe(`${nextDkim?.selector}._domainkey.example.com`)
  })
})

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
    expect(listDnsRecords(t.app, domain).dkim_ed25519).toEqual({
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
    ['of type RSA', (key: string) => `v=DKIM1; k=rsa; p=${key}`, 'has another type (k=)'],
    ['without a type, which means RSA', (key: string) => `v=DKIM1; p=${key}`, 'has another type (k=)'],
    ['that is revoked', () => 'v=DKIM1; k=ed25519; p=', 'is a different key'],
    ['of another domain', () => `v=DKIM1; k=ed25519; p=${'A'.repeat(43)}=`, 'is a different key'],
  ])('does not sign with a record %s', async (_, format, reason) => {
    await using t = await startPublished()
    const { ed25519PublicKey } = getDomain(t.app.db, t.actor.accountId, t.id)
    t.dns.zone[t.host] = { TXT: [format(ed25519PublicKey ?? '')] }
    const { checks } = await verifyDomain(t.app, t.actor, t.id)
    expect(checks.dkim_ed25519).toMatchObject({ verified: false, detail: expect.stringContaining(reason) })
  })
})

test('owners get one mail with the records to publish, and none about keys that they created or that sign already', async () => {
  await using t = await startDomainTest({ TASSIS_DKIM_ROTATE_DAYS: '90' })
  const { app, clock } = t
  const sendDue = createNoticeSender(app, ROTATION_NOTICE)
  const registerVerified = async (name: string, actor = t.actor) => {
    const { id, domain } = await t.register(name, actor)
    t.publish(domain, ['spf', 'dkim', 'dkim_ed25519', 'dmarc', 'return_path', 'mx'])
    await verifyDomain(app, actor, id)
    return id
  }
  const other = await createTestAccount(app)
  const byHand = await registerVerified('by-hand.test', other)
  const first = await registerVerified('first.test')
  const second = await registerVerified('second.test')
  const third = await registerVerified('third.test')
  const mails = () => listServiceMail(app)

  clock.advance(days(89))
  // The operator of this domain sees its records in the response.
  await startDkimRotation(app, other, byHand)
  clock.advance(days(1))
  await recheckDomains(app)
  expect(t.stored(second).nextDkim).not.toBeNull()
  // Published before the mail is due.
  t.publish(t.stored(third), ['dkim_next', 'dkim_ed25519_next'])
  await verifyDomain(app, t.actor, third)
  expect(t.stored(third).nextDkim).toBeNull()
  clock.advance(hours(5))
  await sendDue()
  expect(mails()).toEqual([])
  clock.advance(hours(1))
  await sendDue()

  const owner = app.db.query<{ email: string }, [number]>('SELECT email FROM accounts WHERE id = ?')
  expect(mails().map(({ to, subject }) => [to, subject])).toEqual([
    [owner.get(t.actor.accountId)?.email ?? '', 'New DKIM records to publish for 2 domains'],
  ])
  const text = mails()[0]?.text ?? ''
  for (const id of [first, second]) {
    const { domain, nextDkim } = t.stored(id)
    expect(text).toContain(
      [
        domain,
        '',
        `  Name:  ${nextDkim?.selector}._domainkey.${domain}`,
        `  Value: v=DKIM1; k=rsa; p=${nextDkim?.dkimPublicKey}`,
        '',
        `  Name:  ${nextDkim?.selector}e._domainkey.${domain}`,
        `  Value: v=DKIM1; k=ed25519; p=${nextDkim?.ed25519PublicKey}`,
      ].join('\n'),
    )
  }
  expect(text).toContain('There is no deadline, and nothing breaks without them')
  expect(text).not.toContain('third.test')

  // No reminder: the keys wait as long as it takes.
  clock.advance(days(30))
  await recheckDomains(app)
  await sendDue()
  expect(mails()).toHaveLength(1)
})
