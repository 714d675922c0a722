/** @module The ledger of a domain, over real DNS, real checks of the operator, real counters and real deliveries. */
import { describe, expect, test } from 'bun:test'
import { Doctor } from '#app/doctor/doctor.ts'
import { createHttp } from '#app/http.ts'
import { countDaily, type DailyField } from '#features/core/events/daily-stats.ts'
import data from '#features/reporting/sender-rules/rules.json' with { type: 'json' }
import { READERS } from '#features/reporting/sender-rules/states.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { verifyDomain } from '#features/setup/domains/verify.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { type DomainTest, startDomainTest } from '#test/features/setup/domains/fixture.ts'
import { createTestAccount } from '#test/support/app.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startSink } from '#test/support/sink.ts'

const LIST = 'bl.test'
const SETTINGS = { TASSIS_DOCTOR_BLOCK_LISTS: LIST, TASSIS_DOCTOR_TIME_SERVERS: 'none' }

interface Shown {
  readonly state: string
  readonly witness: string
  readonly evidence: string
  readonly seen_at: string | null
  readonly fix: string
}

interface Wire {
  readonly summary: string
  readonly badge_url: string
  readonly counts: Record<string, number>
  readonly receivers: readonly { id: string; rules: readonly (Shown & { check: string })[] }[]
}

interface RulesTest extends AsyncDisposable {
  readonly t: DomainTest
  readonly id: string
  /** Has the service check reverse DNS and block lists. */
  runDoctor(): Promise<void>
  check(): Promise<unknown>
  fetch(path: string): Promise<Response>
  read(): Promise<Wire & { rule(name: string): Shown }>
  /** Adds to today's counters as the service does. */
  count(domain: string, field: DailyField, delta: number, agoDays?: number): Promise<void>
}

async function startRulesTest(more: Readonly<Record<string, string>> = {}): Promise<RulesTest> {
  const t = await startDomainTest({ ...SETTINGS, ...more })
  const { app, actor, dns, service } = t
  const { id, domain } = await t.register('example.com')
  t.publish(domain)
  dns.zone['25.2.0.192.in-addr.arpa'] = { PTR: ['mail.tassis.test'] }
  dns.zone['mail.tassis.test'] = { A: ['192.0.2.25'] }
  dns.zone[`2.0.0.127.${LIST}`] = { A: ['127.0.0.2'] }
  const doctor = new Doctor({ app, sourceNames: service.opened.sourceNames })
  const http = createHttp(service.opened, { doctorReport: () => doctor.latest() })
  const { port } = http.listen('127.0.0.1', 0)
  const { key } = await createApiKey(app, actor, { name: 'test', scopes: ['domains:read'] })
  const get = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${key}` } })
  return {
    t,
    id,
    fetch: get,
    runDoctor: async () => void (await doctor.run(undefined)),
    check: () => verifyDomain(app, actor, id),
    async read() {
      const { data: found } = (await (await get(`/v1/domains/${id}/rules`)).json()) as { data: Wire }
      const rule = (name: string): Shown => {
        const [receiver, check] = name.split('.')
        const rules = found.receivers.find((one) => one.id === receiver)?.rules ?? []
        const shown = rules.find((one) => one.check === check)
        if (!shown) throw new Error(`no rule ${name}`)
        return shown
      }
      return { ...found, rule }
    },
    count: (domainName, field, delta, agoDays = 0) =>
      app.commit.write((tx) =>
        countDaily(
          tx,
          { accountId: actor.accountId, domain: domainName, at: t.clock.now() - days(agoDays) },
          field,
          delta,
        ),
      ),
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await t[Symbol.asyncDispose]()
    },
  }
}

test('each rule has a requirement with a title and a way to meet it, a source and the day on which it was read', () => {
  const checks: Record<string, { title: string; fix: string }> = data.checks
  for (const { id, url, read_at, read_on, text_date, rules } of data.receivers) {
    expect({ id, isComplete: [url, read_at].every((at) => URL.canParse(at)) && text_date !== '' }).toEqual({
      id,
      isComplete: true,
    })
    expect(read_on).toMatch(/^20\d\d-\d\d-\d\d$/)
    for (const { check, binds, text } of rules) {
      expect(['all', 'bulk', 'nobody']).toContain(binds)
      expect([checks[check]?.title, checks[check]?.fix, text].every(Boolean)).toBe(true)
    }
  }
  expect(Object.keys(READERS).filter((check) => !(check in checks))).toEqual([])
})

// Proves: domain-70
describe('GET /v1/domains/{id}/rules', () => {
  test('without data everything that is not done by Tassis itself is unknown, and never met', async () => {
    await using r = await startRulesTest()
    const { counts, rule, summary } = await r.read()
    for (const name of ['gmail.spf_or_dkim', 'gmail.reverse_dns', 'gmail.tls', 'gmail.spam_rate', 'gmail.block_lists'])
      expect([name, rule(name).state]).toEqual([name, 'unknown'])
    for (const name of ['gmail.opt_in', 'microsoft.ip_reputation', 't-online.contact_page', 'yahoo.bounces'])
      expect([name, rule(name).state]).toEqual([name, 'unknown'])
    expect(rule('gmail.format')).toMatchObject({ state: 'met', witness: 'tassis' })
    expect(rule('gmail.arc').state).toBe('not_applicable')
    // What would make it known; only what is wrong has something to do.
    expect([rule('gmail.tls'), rule('gmail.format')].map(({ evidence, fix }) => [evidence, fix])).toEqual([
      ['None of the newest deliveries of the account went to Gmail; the next one shows it.', ''],
      ['Tassis writes From, Date and Message-ID of each message, one of each.', ''],
    ])
    expect(rule('gmail.spam_rate').evidence).toContain('a rate takes 100 deliveries')
    // What only the owner or the receiver can tell.
    for (const name of ['apple.steady_from', 'seznam.steady_from', 't-online.reputation'])
      expect([name, rule(name).state, rule(name).witness]).toEqual([name, 'unknown', 'nobody'])
    expect(counts).toMatchObject({ broken: 0, at_risk: 0 })
    expect(summary).toContain('example.com meets ')
    expect(summary).toContain('None is known to be broken.')
  })

  test('ARC is at risk while an active route forwards mail', async () => {
    await using r = await startRulesTest()
    await r.check()
    const { app, actor } = r.t
    const target = { domainId: r.id, pattern: 'info', webhookUrl: null, forwardTo: ['ada@example.com'] } as const
    const { id } = await createRoute(app, actor, { ...target, matchType: 'exact', priority: 0, isActive: true })
    expect((await r.read()).rule('gmail.arc')).toMatchObject({ state: 'at_risk', witness: 'tassis' })
    app.db.run('UPDATE inbound_routes SET is_active = 0 WHERE id = ?', [id])
    expect((await r.read()).rule('gmail.arc').state).toBe('not_applicable')
  })

  test('is 404 for the domain of another account', async () => {
    await using r = await startRulesTest()
    const other = await r.t.register('other.com', await createTestAccount(r.t.app))
    expect((await r.fetch(`/v1/domains/${other.id}/rules`)).status).toBe(404)
  })

  test('records are met while DNS has them, broken once a check misses them, unknown when the check is old', async () => {
    await using r = await startRulesTest()
    await r.check()
    const before = await r.read()
    for (const name of ['spf', 'dkim', 'dmarc', 'alignment', 'spf_or_dkim', 'dkim_2048'])
      expect([name, before.rule(`gmail.${name}`).state]).toEqual([name, 'met'])
    expect(before.summary).toMatch(/^Nothing to do\. \d+ rules of 12 large mailbox providers are met; \d+ need mail,/)
    expect(before.rule('gmail.dmarc')).toMatchObject({ witness: 'dns', seen_at: '2026-01-01T00:00:00.000Z' })
    r.t.break('NXDOMAIN', '_dmarc.example.com', 'send.example.com')
    r.t.clock.advance(minutes(1))
    await r.check()
    const after = await r.read()
    expect(after.rule('apple.dmarc')).toMatchObject({
      state: 'broken',
      evidence: 'There is no valid DMARC record at _dmarc.example.com.',
      fix: expect.stringContaining('DMARC record'),
    })
    // Gmail demands it of bulk senders only, La Poste only advises it.
    expect(after.rule('gmail.dmarc')).toMatchObject({
      state: 'not_applicable',
      evidence: expect.stringContaining('from 5000 messages a day; at most 0 a day'),
    })
    expect(after.rule('laposte.dmarc').state).toBe('at_risk')
    expect(after.rule('laposte.spf').state).toBe('broken')
    expect(after.summary).toMatch(/Broken: \d+ \(.*DMARC policy/)
    r.t.clock.advance(days(4))
    expect((await r.read()).rule('apple.dmarc')).toMatchObject({ state: 'unknown', witness: 'dns' })
  })

  test('behind a relay nobody here knows SPF, reverse DNS and TLS; DKIM holds', async () => {
    await using r = await startRulesTest({ TASSIS_DELIVERY: 'relay', TASSIS_RELAY_URL: 'smtp://relay.test' })
    await r.check()
    const { rule } = await r.read()
    for (const name of ['apple.spf', 'gmail.reverse_dns', 'gmx.helo', 'gmail.tls'])
      expect([name, rule(name).state]).toEqual([name, 'unknown'])
    expect([rule('apple.dkim').state, rule('gmail.spf_or_dkim').state]).toEqual(['met', 'met'])
  })

  test('what receivers report of our mail goes before what DNS promises', async () => {
    await using r = await startRulesTest()
    await r.check()
    const report = (kind: string, count: number, isProven = true) =>
      r.t.app.db.run(
        `INSERT INTO report_rows (report_id, account_id, domain, day, reporter, is_proven, class, cause, source, sender, disposition, is_from_us, dkim, spf, count)
         VALUES (1, ?, 'example.com', ?, 'google.com', ?, ?, '', '192.0.2.25', '', 'none', 1, 0, 0, ?)`,
        [r.t.actor.accountId, Math.floor(r.t.clock.now() / days(1)), isProven, kind, count],
      )
    report('aligned', 1)
    report('broken', 1)
    // Too few for a rate.
    // Of a stranger.
    report('broken', 1000, false)
    expect((await r.read()).rule('gmx.alignment')).toMatchObject({ state: 'met', witness: 'dns' })
    report('aligned', 98)
    expect((await r.read()).rule('gmx.alignment')).toMatchObject({
      state: 'met',
      witness: 'dmarc_reports',
      evidence: 'Receivers reported 100 messages of our addresses in 30 days; 99 of them were aligned.',
      seen_at: '2026-01-01T00:00:00.000Z',
    })
    report('broken', 4)
    expect((await r.read()).rule('gmx.alignment').state).toBe('at_risk')
    report('broken', 20)
    expect((await r.read()).rule('gmx.alignment').state).toBe('broken')
  })

  test('a key of 1,024 bits meets the demand and misses the advice; a shorter one breaks it', async () => {
    await using r = await startRulesTest()
    await r.check()
    const setKey = async (modulusLength: number) => {
      const { publicKey } = (await import('node:crypto')).generateKeyPairSync('rsa', { modulusLength })
      const der = publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
      r.t.app.db.run('UPDATE domains SET dkim_public_key = ?', [der])
      const { rule } = await r.read()
      return [rule('gmail.dkim_1024').state, rule('gmail.dkim_2048').state]
    }
    expect(await setKey(1024)).toEqual(['met', 'at_risk'])
    expect(await setKey(768)).toEqual(['broken', 'at_risk'])
  })

  test('addresses are judged by reverse DNS, EHLO and block lists as the checks of the service saw them', async () => {
    await using r = await startRulesTest()
    await r.runDoctor()
    const { rule } = await r.read()
    for (const name of ['gmail.reverse_dns', 'gmx.helo', 'gmx.host_name', 'gmail.block_lists'])
      expect([name, rule(name).state, rule(name).witness]).toEqual([name, 'met', 'doctor'])
    r.t.dns.zone['25.2.0.192.in-addr.arpa'] = { PTR: ['192-0-2-25.static.host.test'] }
    r.t.dns.zone['192-0-2-25.static.host.test'] = { A: ['192.0.2.25'] }
    r.t.dns.zone[`25.2.0.192.${LIST}`] = { A: ['127.0.0.3'] }
    r.t.clock.advance(hours(2))
    await r.runDoctor()
    const listed = await r.read()
    expect(listed.rule('gmx.block_lists')).toMatchObject({
      state: 'broken',
      evidence: expect.stringContaining(`192.0.2.25 is listed in ${LIST}`),
    })
    // Gmail only advises it.
    expect(listed.rule('gmail.block_lists').state).toBe('at_risk')
    expect(listed.rule('gmail.reverse_dns').state).toBe('met')
    expect(listed.rule('gmx.helo')).toMatchObject({ state: 'broken', evidence: expect.stringContaining('EHLO') })
    r.t.dns.zone['25.2.0.192.in-addr.arpa'] = 'NXDOMAIN'
    r.t.clock.advance(hours(2))
    await r.runDoctor()
    const nameless = await r.read()
    expect(nameless.rule('gmail.reverse_dns')).toMatchObject({
      state: 'broken',
      evidence:
        '192.0.2.25 has no PTR record, so many receivers reject its mail. The record should be mail.tassis.test, and that name should have the address 192.0.2.25.',
      fix: expect.stringContaining('set its PTR record'),
    })
    // One cause, one thing to do.
    for (const name of ['gmx.helo', 'gmx.host_name'])
      expect([name, nameless.rule(name).state, nameless.rule(name).fix]).toEqual([name, 'unknown', ''])
  })

  test.each(['192-0-2-25.host.test', 'vps-1a2b3c4d.host.test', 'c0000219.dynamic.host.test'])(
    'a name that a provider gives to all its addresses is at risk: %s',
    async (name) => {
      await using r = await startRulesTest({ TASSIS_OUTBOUND_IPS: `192.0.2.25=${name}` })
      r.t.dns.zone['25.2.0.192.in-addr.arpa'] = { PTR: [name] }
      r.t.dns.zone[name] = { A: ['192.0.2.25'] }
      await r.runDoctor()
      expect((await r.read()).rule('gmx.host_name')).toMatchObject({ state: 'at_risk', witness: 'doctor' })
    },
  )

  test('an IPv6 address without reverse DNS breaks no rule while no mail leaves from it', async () => {
    const TASSIS_OUTBOUND_IPS = '192.0.2.25=mail.tassis.test,2001:db8::25=mail.tassis.test'
    for (const [TASSIS_IPV6, state] of Object.entries({ false: 'met', true: 'broken' })) {
      await using r = await startRulesTest({ TASSIS_OUTBOUND_IPS, TASSIS_IPV6 })
      await r.runDoctor()
      expect([TASSIS_IPV6, (await r.read()).rule('gmail.reverse_dns').state]).toEqual([TASSIS_IPV6, state])
    }
  })

  test('complaints and bounces are rates of the account at the receiver; silence of a receiver is no proof', async () => {
    await using r = await startRulesTest()
    for (const name of ['gmail.com', 'yahoo.com', 'web.de']) await r.count(name, 'delivered', 2000)
    const silent = await r.read()
    expect(silent.rule('gmail.spam_rate').state).toBe('unknown')
    expect(silent.rule('yahoo.spam_rate').state).toBe('unknown')
    expect(silent.rule('webde.bounces').state).toBe('met')
    r.t.app.db.run(
      "INSERT INTO complaints (account_id, email_id, feedback_type, feedback_loop, created_at) VALUES (?, 1, 'abuse', 'Yahoo', ?)",
      [r.t.actor.accountId, r.t.clock.now()],
    )
    await r.count('yahoo.com', 'complaints', 1)
    expect((await r.read()).rule('yahoo.spam_rate')).toMatchObject({
      state: 'met',
      evidence: '1 complaints about 2000 delivered recipients of the account at Yahoo and AOL in 30 days: 0.05 %.',
    })
    await r.count('yahoo.com', 'complaints', 2)
    await r.count('web.de', 'bounced', 150)
    const risky = await r.read()
    expect([risky.rule('yahoo.spam_rate').state, risky.rule('webde.bounces').state]).toEqual(['at_risk', 'at_risk'])
    await r.count('yahoo.com', 'complaints', 4)
    await r.count('web.de', 'bounced', 200)
    const broken = await r.read()
    expect([broken.rule('yahoo.spam_rate').state, broken.rule('webde.bounces').state]).toEqual(['broken', 'broken'])
    expect(broken.rule('yahoo.spam_rate').fix).toContain('unsubscribing easy')
    // Old mail does not count.
    r.t.clock.advance(days(40))
    expect((await r.read()).rule('webde.bounces').state).toBe('unknown')
  })

  test('one day of 4,000 messages to Gmail within a year binds the account to the rules for bulk senders', async () => {
    await using r = await startRulesTest()
    await r.check()
    r.t.break('NXDOMAIN', '_dmarc.example.com')
    r.t.clock.advance(minutes(1))
    await r.check()
    await r.count('gmail.com', 'sent', 3000, 200)
    expect((await r.read()).rule('gmail.dmarc').state).toBe('not_applicable')
    await r.count('googlemail.com', 'sent', 1000, 200)
    expect((await r.read()).rule('gmail.dmarc').state).toBe('broken')
  })

  test('deliveries show TLS, and marketing mail its one-click header', async () => {
    await using sink = await startSink({ disabledCommands: ['AUTH'] })
    await using plain = await startSink()
    for (const [receiver, publicUrl, tls, oneClick] of [
      [sink, 'https://mail.tassis.test', 'met', 'met'],
      [plain, 'http://mail.tassis.test', 'broken', 'not_applicable'],
    ] as const) {
      await using flow = await startMailFlow({
        smtpPort: receiver.port,
        zone: {
          'gmail.com': { MX: [{ preference: 10, exchange: 'mx.gmail.com' }] },
          'mx.gmail.com': { A: ['127.0.0.1'] },
        },
        settings: { TASSIS_PUBLIC_URL: publicUrl, TASSIS_OUTBOUND_IPS: '127.0.0.1' },
      })
      const http = createHttp(flow.service.opened)
      const { port } = http.listen('127.0.0.1', 0)
      const { key } = await createApiKey(flow.app, flow.actor, { name: 'test', scopes: [] })
      const get = async <T>(path: string): Promise<T> => {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${key}` } })
        return ((await response.json()) as { data: T }).data
      }
      const read = async (check: string): Promise<Shown | undefined> => {
        const [domain] = await get<{ id: string }[]>('/v1/domains')
        const { receivers } = await get<Wire>(`/v1/domains/${domain?.id}/rules`)
        return receivers[0]?.rules.find((rule) => rule.check === check)
      }
      await flow.outcome('ada@gmail.com')
      expect((await read('one_click'))?.evidence).toContain(
        'All 1 emails of the domain among the newest 1,000 of the account were sent as transactional.',
      )
      const sent = await flow.outcome('bob@gmail.com', { transactional: false })
      expect(sent.recipient.status).toBe('sent')
      expect(await read('tls')).toMatchObject({ state: tls, witness: 'counters' })
      expect((await read('one_click'))?.state).toBe(oneClick)
      if (oneClick === 'not_applicable') expect((await read('one_click'))?.evidence).toContain('is not https')
      await http.stop(0)
    }
  })
})

// Proves: domain-71
describe('the badge', () => {
  test('says only how many rules are met, at a sealed address, for as long as the domain is there', async () => {
    await using r = await startRulesTest()
    await r.check()
    const { badge_url: url, counts } = await r.read()
    const path = new URL(url).pathname
    const response = await r.fetch(path)
    const binding = Object.entries(counts).reduce((sum, [state, n]) => sum + (state === 'not_applicable' ? 0 : n), 0)
    const svg = await response.text()
    expect(svg).toContain(`Sender rules: ${counts['met']} of ${binding} met`)
    expect(svg).not.toContain('example')
    // Most of it is unknown, so green would say too much.
    expect(svg).toContain('#1d4ed8')
    expect(response.headers.get('content-type')).toBe('image/svg+xml')
    expect(response.headers.get('cache-control')).toBe('public, max-age=600')
    const token = path.slice('/badges/'.length)
    const others = [`${token.startsWith('A') ? 'B' : 'A'}${token.slice(1)}`, '.svg', `${'A'.repeat(5000)}.svg`].map(
      (other) => `/badges/${other}`,
    )
    for (const other of others) expect([other.length, (await r.fetch(other)).status]).toEqual([other.length, 404])
    // Kept for ten minutes.
    r.t.break('NXDOMAIN', '_dmarc.example.com')
    r.t.clock.advance(minutes(1))
    await r.check()
    expect(await (await r.fetch(path)).text()).toBe(svg)
    r.t.clock.advance(minutes(11))
    expect(await (await r.fetch(path)).text()).not.toBe(svg)
    r.t.app.db.run('UPDATE domains SET deleted_at = 1')
    r.t.clock.advance(minutes(11))
    expect((await r.fetch(path)).status).toBe(404)
  })
})
