import { describe, expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { type DomainTest, startDomainTest } from './fixture.ts'

interface Reply {
  readonly status: number
  readonly body: unknown
}

interface HttpTest extends AsyncDisposable {
  readonly t: DomainTest
  call(method: string, path: string, body?: unknown, scopes?: readonly string[]): Promise<Reply>
}

async function startHttpTest(): Promise<HttpTest> {
  const t = await startDomainTest()
  const http = createHttp(t.service.opened)
  const { port } = http.listen('127.0.0.1', 0)
  return {
    t,
    async call(method, path, body, scopes = ['domains:read', 'domains:write']) {
      const { key } = await createApiKey(t.app, t.actor, { name: 'test', scopes })
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
    },
    async [Symbol.asyncDispose]() {
      await http.stop(0)
      await t[Symbol.asyncDispose]()
    },
  }
}

/** The domain as the API shows it right after registration. */
function createPendingWire({ t }: HttpTest, name: string) {
  const row = t.app.db
    .query<{ uuid: Uint8Array; selector: string; publicKey: string; ed25519: string }, [string]>(
      'SELECT uuid, dkim_selector AS selector, dkim_public_key AS publicKey, ed25519_public_key AS ed25519 FROM domains WHERE domain = ? AND deleted_at IS NULL',
    )
    .get(name)
  if (!row) throw new Error(`${name} is not registered`)
  const at = isoTime(t.clock.now())
  const record = (type: string, host: string, value: string) => ({ type, host, value, verified: false })
  return {
    id: formatUuid(row.uuid),
    account_id: t.actor.accountUuid,
    domain: name,
    dkim_selector: row.selector,
    dkim_public_key: row.publicKey,
    dkim_key_bits: 2048,
    sending_subdomain: 'send',
    status: 'pending',
    spf_verified: false,
    dkim_verified: false,
    dkim_ed25519_verified: false,
    dmarc_verified: false,
    return_path_verified: false,
    mx_verified: false,
    mx_verified_at: null,
    inbound_enabled: false,
    tracking_domain: null,
    tracking_domain_verified: false,
    tracking_domain_verified_at: null,
    verified_at: null,
    checked_at: null,
    records_lost_at: null,
    lost_records: [],
    sends_until: null,
    dns_records: {
      spf: record('TXT', `send.${name}`, 'v=spf1 ip4:192.0.2.25 -all'),
      dkim: record('TXT', `${row.selector}._domainkey.${name}`, `v=DKIM1; k=rsa; p=${row.publicKey}`),
      dkim_ed25519: record('TXT', `${row.selector}e._domainkey.${name}`, `v=DKIM1; k=ed25519; p=${row.ed25519}`),
      dmarc: record('TXT', `_dmarc.${name}`, `v=DMARC1; p=none; rua=mailto:dmarc-reports@send.${name}`),
      return_path: { ...record('MX', `send.${name}`, 'mail.tassis.test'), priority: 10 },
      mx: { ...record('MX', name, 'mail.tassis.test'), priority: 10 },
    },
    created_at: at,
    updated_at: at,
  }
}

/** Present while inbound mail is enabled. */
const TLS_REPORTS = {
  type: 'TXT',
  host: '_smtp._tls.example.com',
  value: 'v=TLSRPTv1; rua=mailto:tls-reports@send.example.com',
  verified: false,
}

describe('/v1/domains', () => {
  // Proves: domain-38
  test('rotates the DKIM keys of a domain', async () => {
    await using http = await startHttpTest()
    const { t, call } = http
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    await call('POST', `/v1/domains/${id}/verify`)
    const started = await call('POST', `/v1/domains/${id}/rotate-dkim`)
    const host = expect.stringMatching(/^ts[a-z0-9]{8}e?\._domainkey\.example\.com$/)
    const record = { type: 'TXT', host, value: expect.stringContaining('v=DKIM1; '), verified: false }
    expect(started).toMatchObject({
      status: 200,
      body: {
        data: { dkim_selector: domain.dkimSelector, dns_records: { dkim_next: record, dkim_ed25519_next: record } },
      },
    })
    expect(await call('POST', `/v1/domains/${id}/rotate-dkim`)).toEqual(started)
    expect((await call('GET', `/v1/domains/${id}/dns`)).body).toMatchObject({
      data: { records: { dkim_next: { status: 'missing' }, dkim_ed25519_next: { status: 'missing' } } },
    })
    t.publish(t.stored(id), ['dkim_next'])
    expect((await call('POST', `/v1/domains/${id}/verify`)).body).toMatchObject({
      data: {
        dkim_selector: t.stored(id).dkimSelector,
        fully_verified: true,
        former_dkim_selectors: [{ selector: domain.dkimSelector, keep_until: isoTime(t.clock.now() + days(7)) }],
      },
    })
    expect(t.stored(id).dkimSelector).not.toBe(domain.dkimSelector)
    expect((await call('POST', '/v1/domains/00000000-0000-4000-8000-000000000000/rotate-dkim')).status).toBe(404)
    expect((await call('POST', `/v1/domains/${id}/rotate-dkim`, undefined, ['domains:read'])).status).toBe(403)
  })

  // Proves: domain-1, domain-2, domain-7, domain-13, domain-14
  test('registers a domain, then shows and lists it', async () => {
    await using http = await startHttpTest()
    const created = await http.call('POST', '/v1/domains', { domain: 'Example.com' })
    const wire = createPendingWire(http, 'example.com')
    expect(created).toEqual({ status: 201, body: { data: wire } })
    expect(await http.call('GET', `/v1/domains/${wire.id}`)).toEqual({ status: 200, body: { data: wire } })
    expect(await http.call('GET', '/v1/domains')).toEqual({
      status: 200,
      body: { data: [wire], pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 } },
    })
  })

  // Proves: domain-23
  test('shows which records a verified domain lacks since when, and until when it sends', async () => {
    await using http = await startHttpTest()
    const { t, call } = http
    const { id, domain } = await t.register('example.com')
    t.publish(domain)
    await call('POST', `/v1/domains/${id}/verify`)
    t.clock.advance(1000)
    t.break('NXDOMAIN', `${domain.dkimSelector}._domainkey.example.com`)
    const lostAt = t.clock.now()
    const facts = {
      records_lost_at: isoTime(lostAt),
      lost_records: ['dkim'],
      sends_until: isoTime(lostAt + 72 * 3_600_000),
    }
    const verified = await call('POST', `/v1/domains/${id}/verify`)
    expect(verified.body).toMatchObject({ data: { ...facts, status: 'verified', fully_verified: false } })
    expect((await call('GET', '/v1/domains')).body).toMatchObject({
      data: [{ ...facts, status: 'verified', dkim_verified: false }],
    })
    t.clock.advance(72 * 3_600_000)
    await call('POST', `/v1/domains/${id}/verify`)
    expect((await call('GET', `/v1/domains/${id}`)).body).toMatchObject({
      data: { ...facts, status: 'pending', verified_at: null },
    })
  })

  // Proves: domain-13
  test('name the verified domain that signs their mail until they are verified', async () => {
    await using http = await startHttpTest()
    const { t, call } = http
    const { id, domain } = await t.register('example.com')
    const created = await call('POST', '/v1/domains', { domain: 'news.eu.example.com' })
    expect(created.body).toEqual({ data: createPendingWire(http, 'news.eu.example.com') })
    t.publish(domain, ['spf', 'dkim', 'return_path'])
    await call('POST', `/v1/domains/${id}/verify`)
    const listed = (await call('GET', '/v1/domains')).body as { data: { domain: string; covered_by?: string }[] }
    expect(listed.data.map(({ domain: name, covered_by: by }) => [name, by])).toEqual([
      ['news.eu.example.com', 'example.com'],
      ['example.com', undefined],
    ])
  })

  // Proves: list-11, domain-3
  test('returns warnings beside the data', async () => {
    await using http = await startHttpTest()
    const created = await http.call('POST', '/v1/domains', { domain: 'send.example.com' })
    expect(created).toEqual({
      status: 201,
      body: {
        data: createPendingWire(http, 'send.example.com'),
        warnings: [expect.stringContaining('register example.com')],
      },
    })
  })

  // Proves: domain-4, domain-6
  test('rejects names that cannot be registered', async () => {
    await using http = await startHttpTest()
    await http.call('POST', '/v1/domains', { domain: 'example.com' })
    const refused = async (body: unknown) => {
      const reply = await http.call('POST', '/v1/domains', body)
      return [reply.status, (reply.body as { code: string }).code]
    }
    expect(await refused({ domain: 'example.com' })).toEqual([409, 'domain_exists'])
    expect(await refused({ domain: 'co.uk' })).toEqual([422, 'invalid_domain'])
    expect(await refused({ domain: '192.0.2.1' })).toEqual([422, 'invalid_domain'])
    expect(await refused({ domain: 'localhost' })).toEqual([422, 'invalid_domain'])
    for (const body of [undefined, {}, { domain: '' }, { domain: 5 }, { domain: 'b.example', tracking: true }])
      expect(await refused(body)).toEqual([422, 'validation_failed'])
  })

  // Proves: domain-11, domain-12, domain-20
  test('returns the fields of the verification, with the domain object in `domain`', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id, domain } = await t.register('example.com')
    t.publish(domain, ['spf', 'dkim', 'return_path', 'mx'])
    const { status, body } = await http.call('POST', `/v1/domains/${id}/verify`)
    const pending = createPendingWire(http, 'example.com')
    const at = isoTime(t.clock.now())
    const yes = { verified: true }
    const { dns_records: records } = pending
    const wire = {
      ...pending,
      status: 'verified',
      spf_verified: true,
      dkim_verified: true,
      return_path_verified: true,
      mx_verified: true,
      mx_verified_at: at,
      inbound_enabled: true,
      verified_at: at,
      checked_at: at,
      dns_records: {
        spf: { ...records.spf, ...yes },
        dkim: { ...records.dkim, ...yes },
        dkim_ed25519: records.dkim_ed25519,
        dmarc: records.dmarc,
        return_path: { ...records.return_path, ...yes },
        mx: { ...records.mx, ...yes },
        tls_reports: TLS_REPORTS,
      },
    }
    expect(status).toBe(200)
    expect(body).toEqual({
      data: {
        ...wire,
        domain: wire,
        checks: {
          spf: { verified: true, detail: 'The SPF record at send.example.com allows our sending addresses.' },
          dkim: { verified: true, detail: `The DKIM key at ${records.dkim.host} is ours.` },
          dkim_ed25519: {
            verified: false,
            detail: `There is no DKIM key at ${records.dkim_ed25519.host}. Publish a TXT record at ${records.dkim_ed25519.host} with the value ${records.dkim_ed25519.value}`,
          },
          dmarc: {
            verified: false,
            detail:
              'There is no DMARC record at _dmarc.example.com. Publish a TXT record at _dmarc.example.com with the value v=DMARC1; p=none; rua=mailto:dmarc-reports@send.example.com',
          },
          return_path: { verified: true, detail: 'The MX of send.example.com points to mail.tassis.test.' },
          mx: { verified: true, detail: 'The MX of example.com points to mail.tassis.test.' },
        },
        fully_verified: true,
      },
    })
  })

  // Proves: domain-8
  test('enables inbound mail with PATCH, which accepts no other field', async () => {
    await using http = await startHttpTest()
    const { id } = await http.t.register('example.com')
    const patched = await http.call('PATCH', `/v1/domains/${id}`, { inbound_enabled: true })
    const pending = createPendingWire(http, 'example.com')
    const wire = {
      ...pending,
      inbound_enabled: true,
      dns_records: { ...pending.dns_records, tls_reports: TLS_REPORTS },
    }
    expect(patched).toEqual({ status: 200, body: { data: wire } })
    for (const body of [{}, { inbound_enabled: 'false' }, { inbound_enabled: true, domain: 'b.example' }])
      expect((await http.call('PATCH', `/v1/domains/${id}`, body)).status).toBe(422)
  })

  // Proves: list-14, list-15, domain-15, domain-29, domain-30, domain-31
  test('sets, verifies and removes a tracking domain', async () => {
    await using http = await startHttpTest()
    const { t } = http
    const { id } = await t.register('example.com')
    const pending = createPendingWire(http, 'example.com')
    const at = isoTime(t.clock.now())
    const record = { type: 'CNAME', host: 'links.example.com', value: 'mail.tassis.test' }
    const wire = (verified: boolean) => ({
      ...pending,
      tracking_domain: 'links.example.com',
      tracking_domain_verified: verified,
      tracking_domain_verified_at: verified ? at : null,
      dns_records: { ...pending.dns_records, tracking: { ...record, verified } },
    })
    const path = `/v1/domains/${id}/tracking-domain`
    expect(await http.call('PUT', path, { tracking_domain: 'Links.example.com' })).toEqual({
      status: 200,
      body: { data: wire(false), cname_target: 'mail.tassis.test' },
    })
    expect(await http.call('GET', `/v1/domains/${id}`)).toEqual({ status: 200, body: { data: wire(false) } })
    expect(await http.call('POST', `/v1/domains/${id}/verify-tracking`)).toEqual({
      status: 200,
      body: {
        data: wire(false),
        tracking_check: {
          verified: false,
          detail:
            'There is no CNAME record at links.example.com. example.com itself does not exist in DNS: check its spelling and that it is registered and has name servers. Publish a CNAME record at links.example.com with the value mail.tassis.test',
        },
      },
    })
    t.dns.zone['links.example.com'] = { CNAME: 'mail.tassis.test' }
    expect(await http.call('POST', `/v1/domains/${id}/verify-tracking`)).toEqual({
      status: 200,
      body: {
        data: wire(true),
        tracking_check: {
          verified: true,
          detail: 'links.example.com is an alias (CNAME) of mail.tassis.test.',
        },
      },
    })
    expect(await http.call('DELETE', path)).toEqual({ status: 200, body: { data: pending } })
  })

  // Proves: domain-29, domain-31
  test('rejects a tracking domain that is invalid or in use, and verification when none is set', async () => {
    await using http = await startHttpTest()
    const { id } = await http.t.register('example.com')
    const other = await http.t.register('other.example')
    const path = `/v1/domains/${id}/tracking-domain`
    const refused = async (method: string, url: string, body?: unknown) => {
      const reply = await http.call(method, url, body)
      return [reply.status, (reply.body as { code: string }).code]
    }
    await http.call('PUT', `/v1/domains/${other.id}/tracking-domain`, { tracking_domain: 'links.example.com' })
    expect(await refused('PUT', path, { tracking_domain: 'links.example.com' })).toEqual([409, 'tracking_domain_taken'])
    for (const invalid of ['192.0.2.1', 'example.com', 'mail.tassis.test', 'links.example.com:80'])
      expect(await refused('PUT', path, { tracking_domain: invalid })).toEqual([422, 'invalid_tracking_domain'])
    for (const body of [{}, { tracking_domain: null }, { tracking_domain: 'a.example.com', domain: 'example.com' }])
      expect(await refused('PUT', path, body)).toEqual([422, 'validation_failed'])
    expect(await refused('POST', `/v1/domains/${id}/verify-tracking`)).toEqual([422, 'no_tracking_domain'])
  })

  // Proves: domain-7, domain-9, domain-11, domain-29, domain-30, domain-31
  test('deletes a domain with 204; afterwards the domain is not found', async () => {
    await using http = await startHttpTest()
    const { id } = await http.t.register('example.com')
    expect(await http.call('DELETE', `/v1/domains/${id}`)).toEqual({ status: 204, body: undefined })
    for (const [method, path, body] of [
      ['GET', `/v1/domains/${id}`],
      ['PATCH', `/v1/domains/${id}`, { inbound_enabled: true }],
      ['DELETE', `/v1/domains/${id}`],
      ['POST', `/v1/domains/${id}/verify`],
      ['PUT', `/v1/domains/${id}/tracking-domain`, { tracking_domain: 'links.example.com' }],
      ['DELETE', `/v1/domains/${id}/tracking-domain`],
      ['POST', `/v1/domains/${id}/verify-tracking`],
      ['GET', '/v1/domains/x'],
    ] as const) {
      const reply = await http.call(method, path, body)
      expect({ method, status: reply.status, code: (reply.body as { code: string }).code }).toEqual({
        method,
        status: 404,
        code: 'domain_not_found',
      })
    }
  })
})
