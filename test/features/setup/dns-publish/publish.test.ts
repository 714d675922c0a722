import { describe, expect, test } from 'bun:test'
import { createServer, type Socket } from 'node:net'
import type { Actor } from '#features/core/app/app.ts'
import { removeDeletedDomains } from '#features/sending/emails/delete-domain.ts'
import { publishAutomatically } from '#features/setup/dns-publish/auto-publish.ts'
import { putPublication, sealFields } from '#features/setup/dns-publish/credentials.ts'
import { DnsApiError } from '#features/setup/dns-publish/dns-api.ts'
import { PROVIDERS, type PublishBody } from '#features/setup/dns-publish/model.ts'
import { publishDomain } from '#features/setup/dns-publish/publish.ts'
import { RFC2136 } from '#features/setup/dns-publish/rfc2136.ts'
import { closeDomains, createDomain, getDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { type Clock, systemClock } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { createTestApi } from '#test/support/api.ts'
import { areDaemonsAvailable, type DaemonName, SECRET, startDaemon } from '#test/support/dns-daemons.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startUpdateServer } from '#test/support/update-server.ts'
import { changeRfc2136, connectTo, type PublishTest, startPublishTest } from './fixture.ts'

const KEYS = ['spf', 'dkim', 'return_path', 'dkim_ed25519', 'dmarc']

describe.skipIf(!areDaemonsAvailable()).each<DaemonName>(['bind', 'knot'])('%s', (name) => {
  // Proves: domain-40
  test.each([false, true])('an unverified domain is green after one request, DNSSEC %p', async (isSigned) => {
    await using t = await startPublishTest(name, { isSigned, records: ['@ TXT "of somebody else"', '* A 192.0.2.1'] })
    const before = await t.daemon.dump()
    const request = { provider: 'rfc2136', credentials: t.credentials }
    const planned = await t.post({ ...request, dry_run: true })
    expect(t.outcome(planned)).toEqual(KEYS.map((key) => `${key}: create planned`))
    expect(await t.daemon.dump()).toEqual(before)
    const done = await t.post(request)
    expect(t.outcome(done)).toEqual(KEYS.map((key) => `${key}: create published`))
    expect(done.summary).toBe('5 published. DNS shows all records of zone.test.')
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

describe.skipIf(!areDaemonsAvailable())('records of others', () => {
  const setUp = (t: PublishTest) =>
    Promise.all([
      t.service.api('PATCH', `/v1/domains/${t.id}`, { inbound_enabled: true }),
      t.service.api('PUT', `/v1/domains/${t.id}/tracking-domain`, { tracking_domain: 'links.zone.test' }),
    ])

  // Proves: domain-40
  test.each<[DaemonName, string[], Record<string, RegExp>]>([
    [
      'bind',
      [
        '_domainkey NS ns.elsewhere.test.',
        'send CNAME mailer.elsewhere.test.',
        '_dmarc TXT "v=DMARC1; p=reject"',
        '_dmarc TXT "v=DMARC1; p=none"',
        '@ MX 10 mx.elsewhere.test.',
        'links A 192.0.2.7',
        '_smtp._tls CNAME elsewhere.test.',
      ],
      {
        dkim: /_domainkey\.zone\.test is a zone of its own, at ns\.elsewhere\.test/,
        dkim_ed25519: /is a zone of its own/,
        spf: /alias \(CNAME\) of mailer\.elsewhere\.test, beside which DNS allows no record/,
        return_path: /alias \(CNAME\)/,
        dmarc: /There are 2 DMARC records/,
        mx: /points to mx\.elsewhere\.test/,
        tls_reports: /alias \(CNAME\)/,
        tracking: /has records \(A\), beside which DNS allows no CNAME/,
      },
    ],
    [
      'knot',
      [
        '_domainkey NS ns.elsewhere.test.',
        'send MX 5 mx.elsewhere.test.',
        'send TXT "v=spf1 include:a.zone.test include:a.zone.test include:b.zone.test include:c.zone.test include:d.zone.test ~all"',
        ...['a', 'b', 'c', 'd'].map((at) => `${at} TXT "v=spf1 a:w.zone.test a:x.zone.test -all"`),
        '_dmarc TXT "v=DMARC1; p=maybe"',
        '@ MX 10 mail.tassis.test.',
        '@ MX 5 mx.elsewhere.test.',
        'links CNAME elsewhere.test.',
        '_smtp._tls CNAME elsewhere.test.',
      ],
      {
        spf: /With our record it would fail: .*\(Too many void DNS results\)/,
        return_path: /points to mx\.elsewhere\.test/,
        dmarc: /no valid policy/,
        mx: /but also mx\.elsewhere\.test/,
        tracking: /alias \(CNAME\) of elsewhere\.test and not of/,
      },
    ],
  ])('each conflict is named and never overwritten (%s)', async (name, records, reasons) => {
    await using t = await startPublishTest(name, { records })
    await setUp(t)
    const before = await t.daemon.dump()
    const done = await t.post({ provider: 'rfc2136', credentials: t.credentials })
    expect([...new Set(t.outcome(done).map((text) => text.replace(/^\w+: /, '')))]).toEqual(['conflict unchanged'])
    expect(done.summary).toMatch(/Still missing in DNS: .* Mend what is said about each/)
    expect(Object.fromEntries(done.records.map(({ key, reason }) => [key, reason]))).toMatchObject(
      Object.fromEntries(Object.entries(reasons).map(([key, reason]) => [key, expect.stringMatching(reason)])),
    )
    expect(await t.daemon.dump()).toEqual(before)
  })

  test('SPF is merged, a broken key of ours is replaced, a policy gets our report address, others stay', async () => {
    const policy = 'v=DMARC1; p=reject; rua=mailto:me@zone.test'
    await using t = await startPublishTest('bind', {
      records: ['send TXT "other"', 'send TXT "v=spf1 ip4:192.0.2.9 -all"', `_dmarc TXT "${policy}"`],
    })
    const { dkim_selector: selector } = await t.wire()
    const before = await t.daemon.dump()
    const key = { name: `${selector}._domainkey.zone.test`, type: 'TXT', ttlSeconds: 300 } as const
    await connectTo(t.daemon).write('zone.test', { ...key, before: [], after: ['v=DKIM1; p=AAAA'] })
    const done = await t.post({ provider: 'rfc2136', credentials: t.credentials })
    expect(t.outcome(done)).toEqual([
      ...['spf: change published', 'dkim: change published', 'return_path: create published'],
      ...['dkim_ed25519: create published', 'dmarc: change published'],
    ])
    const now = await t.daemon.dump()
    expect(before.filter((line) => !now.includes(line))).toEqual([
      `_dmarc.zone.test TXT "${policy}"`,
      'send.zone.test TXT "v=spf1 ip4:192.0.2.9 -all"',
    ])
    expect(now).toContain(`_dmarc.zone.test TXT "${policy},mailto:dmarc-reports@send.zone.test"`)
    expect(now).toContain('send.zone.test TXT "v=spf1 ip4:192.0.2.25 ip4:192.0.2.9 -all"')
    expect(now.filter((line) => line.startsWith(`${key.name} `))).toHaveLength(1)
    expect(await t.wire()).toMatchObject({ status: 'verified' })
    // Another TXT at our selector is not ours to remove.
    const mine = done.records.find((one) => one.key === 'dkim')?.after ?? []
    await connectTo(t.daemon).write('zone.test', { ...key, before: mine, after: ['a note'] })
    expect(t.outcome(await t.post({}))).toContain('dkim: conflict unchanged')
  })

  test.each<[string[], RegExp]>([
    [['v=spf1 include:spf.elsewhere.test -all'], /a name in it could not be looked up/],
    [['v=spf1 include:spf.elsewhere.test -all', 'v=spf1 -all'], /A name in the SPF record could not be looked up/],
    [['v=spf1 include:none.zone.test -all'], /\(no SPF records found for none\.zone\.test\)/],
  ])('an SPF record of which it is not known that it will work is not merged: %j', async (values, reason) => {
    await using t = await startPublishTest('bind', { records: values.map((value) => `send TXT "${value}"`) })
    const { records } = await t.post({ provider: 'rfc2136', credentials: t.credentials, dry_run: true })
    const spf = records.find(({ key }) => key === 'spf')
    expect([spf?.action, spf?.reason]).toEqual(['conflict', expect.stringMatching(reason)])
  })

  test.each([
    [['* A 192.0.2.1'], 'conflict'],
    [['* A 192.0.2.1', 'news A 192.0.2.1'], 'create'],
    [['* A 192.0.2.1', 'www.news A 192.0.2.1'], 'create'],
    [['*.news A 192.0.2.1'], 'create'],
  ])('a domain that a wildcard covers stays in DNS: %j', async (records, action) => {
    await using t = await startPublishTest('bind', { records }, {}, 'news.zone.test')
    const plan = await t.post({ provider: 'rfc2136', credentials: t.credentials, dry_run: true })
    expect(plan.records.map((one) => one.action)).toEqual(KEYS.map(() => action))
    if (action === 'conflict')
      expect(plan.records[0]?.reason).toContain('The wildcard *.zone.test (A) covers news.zone.test')
  })

  test('what somebody wrote between reading and writing is not overwritten', async () => {
    await using t = await startPublishTest('bind')
    const racing = changeRfc2136((api) => ({
      async write(zone, change) {
        if (change.type === 'MX') await connectTo(t.daemon).write(zone, { ...change, after: ['5 mx.elsewhere.test'] })
        return api.write(zone, change)
      },
    }))
    const request = { provider: 'rfc2136', credentials: t.credentials }
    const done = await publishDomain(t.service.app, t.service.actor, t.id, request, [racing])
    const states = Object.fromEntries(done.records.map(({ key, state }) => [key, state]))
    expect(states).toMatchObject({ spf: 'published', dkim: 'published', return_path: 'failed' })
    expect(done.records.find(({ key }) => key === 'return_path')?.error).toContain('changed since it was read')
    expect(await t.daemon.dump()).toContain('send.zone.test MX 5 mx.elsewhere.test')
  })

  test('credentials are kept, and the reason is shown, when only the reading afterwards fails', async () => {
    await using t = await startPublishTest('bind')
    let reads = 0
    const failing = changeRfc2136((api) => ({
      async read(zone, names) {
        if (reads++ > 0) throw new DnsApiError('rate_limited', 'Wait a minute.')
        return api.read(zone, names)
      },
    }))
    const request = { provider: 'rfc2136', credentials: t.credentials }
    const done = await publishDomain(t.service.app, t.service.actor, t.id, request, [failing])
    expect(done.records.map(({ state, error }) => `${state} ${error}`)).toEqual(KEYS.map(() => 'failed Wait a minute.'))
    expect(done.is_kept).toBe(true)
    expect(t.outcome(await t.post({}))).toEqual(KEYS.map((key) => `${key}: leave unchanged`))
  })

  // Port 53 is for root.
  test.skipIf(process.getuid?.() !== 0)(
    'a resolver that has cached the absence of records delays nothing',
    async () => {
      await using stale = await startDnsServer({
        'zone.test': { NS: ['ns1.zone.test'] },
        'ns1.zone.test': { A: ['127.77.0.53'] },
      })
      const settings = { TASSIS_DNS_SERVERS: stale.address }
      await using t = await startPublishTest('knot', { nsAddress: '127.77.0.53' }, settings)
      const done = await t.post({ provider: 'rfc2136', credentials: t.credentials })
      expect(done.summary).toBe('5 published. DNS shows all records of zone.test.')
      // Nor was it asked, so that it has nothing to cache.
      expect(stale.queries.filter(({ name }) => /^(send|_dmarc|\w+\._domainkey)\.zone\.test$/.test(name))).toEqual([])
    },
  )

  test.skipIf(process.getuid?.() !== 0)('a new DKIM key signs only once all name servers have it', async () => {
    await using stale = await startDnsServer({
      'zone.test': { NS: ['ns1.zone.test', 'ns2.zone.test'] },
      'ns1.zone.test': { A: ['127.77.0.54'] },
      'ns2.zone.test': { A: ['127.77.0.55'] },
    })
    await using t = await startPublishTest('knot', { nsAddress: '127.77.0.54' }, { TASSIS_DNS_SERVERS: stale.address })
    await using second = await startDaemon('knot', { zone: 'zone.test', nsAddress: '127.77.0.55' })
    await t.post({ provider: 'rfc2136', credentials: t.credentials })
    const { api } = t.service
    await api('POST', `/v1/domains/${t.id}/rotate-dkim`)
    const { records, summary } = await t.post({})
    expect(summary).toContain('do not show yet: dkim_next')
    for (const one of records.filter(({ key }) => key.endsWith('_next'))) {
      expect(await t.wire()).toHaveProperty('dns_records.dkim_next')
      await connectTo(second).write('zone.test', { ...one, type: 'TXT', ttlSeconds: 60 })
    }
    await t.post({})
    expect(await t.wire()).not.toHaveProperty('dns_records.dkim_next')
  })

  test('a zone that the world does not ask is found out', async () => {
    await using t = await startPublishTest('bind')
    await using inner = await startDaemon('knot', { zone: 'zone.test' })
    const done = await t.post({ provider: 'rfc2136', credentials: { ...t.credentials, server: inner.address } })
    expect(t.outcome(done)).toEqual(KEYS.map((key) => `${key}: create published`))
    // Also when it has the records from before: the command repeats, and shows the last summary.
    for (const { summary } of [done, await t.post({})])
      expect(summary).toContain('The world asks its name servers ns1.zone.test for zone.test, which do not show yet:')
    expect(await t.wire()).toMatchObject({ status: 'pending' })
  })

  test('a provider that accepts records and drops them is found out', async () => {
    await using t = await startPublishTest('bind')
    const { credentials } = await startUpdateServer()
    const done = await t.post({ provider: 'rfc2136', credentials })
    expect(t.outcome(done)).toEqual(KEYS.map((key) => `${key}: create failed`))
    expect(done.records[0]?.error).toContain('accepted the record, but its zone zone.test does not have it')
    expect(done.summary).toContain(
      'Still missing in DNS: spf, dkim, return_path, dkim_ed25519, dmarc. Mend what is said',
    )
  })
})

describe.skipIf(!areDaemonsAvailable())('kept credentials', () => {
  const request = (t: PublishTest) => ({ provider: 'rfc2136', credentials: t.credentials })
  const show = async (t: PublishTest) =>
    ((await t.service.api('GET', `/v1/domains/${t.id}/publish`)).body as { data: Record<string, unknown> }).data

  // Proves: domain-41
  test('publish new keys, inbound mail and what is lost, are never shown, and end with the domain', async () => {
    await using t = await startPublishTest('bind')
    const { app, api } = t.service
    await t.post(request(t))
    await api('POST', `/v1/domains/${t.id}/rotate-dkim`)
    await api('PATCH', `/v1/domains/${t.id}`, { inbound_enabled: true })
    await publishAutomatically(app)
    expect(await t.wire()).toMatchObject({ mx_verified: true, dkim_verified: true })
    expect(await t.wire()).not.toHaveProperty('dns_records.dkim_next')
    expect((await t.daemon.dump()).filter((line) => line.includes('DKIM1'))).toHaveLength(4)
    // The new keys are the current ones now, so the records are others.
    await publishAutomatically(app)
    // A record that somebody removes comes back, once an attempt is due.
    const spf = { name: 'send.zone.test', type: 'TXT', ttlSeconds: 300 } as const
    await connectTo(t.daemon).write('zone.test', { ...spf, before: ['v=spf1 ip4:192.0.2.25 -all'], after: ['other'] })
    await api('POST', `/v1/domains/${t.id}/verify`)
    const listSpf = async () => (await t.daemon.dump()).filter((line) => line.startsWith('send.zone.test TXT'))
    await publishAutomatically(app)
    expect(await listSpf()).toEqual(['send.zone.test TXT "other"'])
    app.db.run('UPDATE dns_credentials SET next_attempt_at = 0')
    app.db.run(`INSERT INTO meta (key, value) VALUES ('fence', '{"fencedAt":1,"lastIds":{},"released":[]}')`)
    await publishAutomatically(app)
    expect(await listSpf()).toEqual(['send.zone.test TXT "other"'])
    app.db.run("DELETE FROM meta WHERE key = 'fence'")
    await publishAutomatically(app)
    expect(await listSpf()).toEqual(['send.zone.test TXT "other"', 'send.zone.test TXT "v=spf1 ip4:192.0.2.25 -all"'])
    const { body } = await api('GET', '/v1/audit-logs?per_page=100')
    const actions = (body as { data: { action: string; actor_type: string }[] }).data.map(
      (one) => `${one.action} ${one.actor_type}`,
    )
    expect(actions.filter((action) => action === 'domain.dns_published api_key')).toHaveLength(5)
    expect(actions.filter((action) => action === 'domain.dns_published system')).toHaveLength(5)
    expect(actions).toContain('domain.dns_credentials_stored api_key')
    expect(await show(t)).toMatchObject({ provider: 'rfc2136', zone: 'zone.test', error: null })
    expect(JSON.stringify([await show(t), body])).not.toContain(SECRET)
    expect(Buffer.from(app.db.serialize()).includes(SECRET)).toBe(false)
    await api('DELETE', `/v1/domains/${t.id}`)
    expect(app.db.query('SELECT * FROM dns_credentials').all()).toEqual([])
  })

  // Proves: domain-41, domain-42
  test('errors of automatic attempts are shown, which are repeated after an hour', async () => {
    await using t = await startPublishTest('knot')
    const { app, api } = t.service
    await t.post(request(t))
    await t.daemon[Symbol.asyncDispose]()
    await api('POST', `/v1/domains/${t.id}/rotate-dkim`)
    await publishAutomatically(app)
    expect((await show(t))['error']).toContain('No answer from 127.0.0.1')
    const { next } = app.db
      .query<{ next: number }, []>('SELECT next_attempt_at AS next FROM dns_credentials')
      .get() ?? { next: 0 }
    expect(next - app.clock.now()).toBeGreaterThan(minutes(59))
    expect((await api('DELETE', `/v1/domains/${t.id}/publish`)).status).toBe(204)
    expect(await show(t)).toMatchObject({ provider: null, error: null })
    expect((await api('POST', `/v1/domains/${t.id}/publish`, {})).body).toMatchObject({ code: 'no_credentials' })
    expect((await api('POST', `/v1/domains/${t.id}/publish`, { provider: 'desec' })).body).toMatchObject({
      message: expect.stringContaining('deSEC needs token'),
    })
  })

  const write = (t: PublishTest, body: object, onWrite: () => Promise<unknown>) => {
    const provider = changeRfc2136((api) => ({
      async write(zone, change) {
        await api.write(zone, change)
        await onWrite()
      },
    }))
    return publishDomain(t.service.app, t.service.actor, t.id, body, [provider])
  }

  test('what is deleted during a run stays deleted, and ends the run', async () => {
    await using t = await startPublishTest('bind')
    const { app, api } = t.service
    await t.post(request(t))
    await api('PATCH', `/v1/domains/${t.id}`, { inbound_enabled: true })
    const done = await write(t, {}, () => api('DELETE', `/v1/domains/${t.id}/publish`))
    expect([done.is_kept, (await show(t))['provider']]).toEqual([false, null])
    await t.post(request(t))
    await api('POST', `/v1/domains/${t.id}/rotate-dkim`)
    const rest = await write(t, {}, () => api('DELETE', `/v1/domains/${t.id}`))
    const again = (await api('POST', '/v1/domains', { domain: 'zone.test' })).body as { data: { id: string } }
    await publishDomain(app, t.service.actor, again.data.id, request(t))
    await app.commit.write((tx) => closeDomains(tx, t.service.actor.accountId, app.clock.now()))
    await removeDeletedDomains(app)
    expect(rest.records.flatMap(({ key, error }) => (error === null ? [] : [key, error]))).toEqual([
      'dkim_ed25519_next',
      expect.stringContaining('zone.test was deleted'),
    ])
    expect(app.db.query('SELECT * FROM dns_credentials').all()).toEqual([])
  })

  test('others, tried once or not to be kept, neither replace them nor are about them', async () => {
    await using t = await startPublishTest('bind')
    await t.post(request(t))
    expect((await t.post({ ...request(t), keep: false })).is_kept).toBe(true)
    const wrong = { ...t.credentials, secret: Buffer.alloc(32).toString('base64') }
    const { status } = await t.service.api('POST', `/v1/domains/${t.id}/publish`, { ...request(t), credentials: wrong })
    expect([status, await show(t)]).toEqual([422, expect.objectContaining({ provider: 'rfc2136', error: null })])
    expect(t.outcome(await t.post({}))).toEqual(KEYS.map((key) => `${key}: leave unchanged`))
  })

  test('only an operator may name a private address where the service does not allow them', async () => {
    await using t = await startPublishTest('bind', {}, { TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' })
    const { app, api, actor } = t.service
    const { body } = await api('POST', `/v1/domains/${t.id}/publish`, request(t))
    expect(body).toMatchObject({ code: 'dns_rejected', message: expect.stringContaining('is private, loopback') })
    const done = await publishDomain(app, { ...actor, type: 'operator' }, t.id, request(t), [RFC2136])
    expect(done.records.map(({ state }) => state)).toEqual(KEYS.map(() => 'published'))
  })
})

describe('a server that never answers', () => {
  async function start(clock?: Clock) {
    const sockets: Socket[] = []
    const server = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
    const service = await createTestApi(clock ? { clock } : {})
    const { port } = server.address() as { port: number }
    return {
      ...{ service, sockets },
      request: { provider: 'rfc2136', credentials: { server: `127.0.0.1:${port}`, key_name: 'full', secret: SECRET } },
      async register(actor: Actor, domain: string) {
        const { uuid } = (await createDomain(service.app, actor, domain)).domain
        return formatUuid(uuid)
      },
      async [Symbol.asyncDispose]() {
        for (const socket of sockets) socket.destroy()
        server.close()
        await service[Symbol.asyncDispose]()
      },
    }
  }
  const hastened = {
    ...systemClock,
    after: (ms: number, run: () => void) => systemClock.after(ms === seconds(60) ? 200 : ms, run),
  }

  test.each<[string, Clock | undefined, () => AbortSignal | undefined]>([
    ['after a minute', hastened, () => undefined],
    ['with the service', undefined, () => AbortSignal.timeout(200)],
  ])('a run ends %s', async (_, clock, stop) => {
    await using t = await start(clock)
    const { app, actor } = t.service
    const id = await t.register(actor, 'zone.test')
    const startedMs = performance.now()
    const run = publishDomain(app, actor, id, t.request as PublishBody, PROVIDERS, stop())
    await expect(run).rejects.toMatchObject({ code: 'dns_unavailable', message: expect.stringContaining('aborted') })
    // Its own time limit is 10 seconds.
    expect(performance.now() - startedMs).toBeLessThan(8000)
  })

  test('holds up one domain of a tenant at a time, and no other tenant', async () => {
    await using t = await start()
    const { app } = t.service
    for (const [i, actor] of [t.service.actor, await t.service.newAccount()].entries())
      for (const name of ['a', 'b', 'c']) {
        const id = await t.register(actor, `${name}${i}.test`)
        const domain = getDomain(app.db, actor.accountId, id)
        const fields = sealFields(app, domain, t.request.credentials)
        const kept = { domainId: domain.id, provider: 'rfc2136', zone: '', fields, allowsPrivate: 0, keptAt: 1 }
        const rest = { publishedAt: null, error: null, recordsHash: '', nextAttemptAt: 0 }
        await app.commit.write((tx) => putPublication(tx, { ...kept, ...rest }))
      }
    await publishAutomatically(app, AbortSignal.timeout(1000))
    expect(t.sockets.length).toBe(2)
  })
})
