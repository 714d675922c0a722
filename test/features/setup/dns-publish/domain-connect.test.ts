import { expect, test } from 'bun:test'
import { createTestApi } from '#test/support/api.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type HttpsHandler, startHttpsReceiver } from '#test/support/https-receiver.ts'
import template from '../../../../contrib/domain-connect/example.com.mail.json' with { type: 'json' }

async function start(setting: string, domain = 'example.com') {
  const provider = await startHttpsReceiver({ names: ['localhost'] })
  const url = provider.url('localhost', '')
  const dns = await startDnsServer({
    'example.com': { NS: ['ns.example.net'] },
    '_domainconnect.example.com': { TXT: [url.slice(8)] },
  })
  const settings = { urlAPI: `${url}/api`, urlSyncUX: 'https://dns.example.net/ux', providerName: 'Example DNS' }
  const answer =
    (given: Partial<typeof settings> = {}, status = 200): HttpsHandler =>
    (request) =>
      request.url === '/v2/example.com/settings'
        ? { body: JSON.stringify({ ...settings, ...given }) }
        : { status: request.url === '/api/v2/domainTemplates/providers/example.com/services/mail' ? status : 404 }
  provider.answer(answer())
  const service = await createTestApi({
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_EXTRA_CA_FILE: provider.caFile,
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
      TASSIS_OUTBOUND_IPS: '192.0.2.25',
      TASSIS_DOMAIN_CONNECT: setting,
    },
  })
  const { id } = ((await service.api('POST', '/v1/domains', { domain })).body as { data: { id: string } }).data
  return {
    ...{ provider, dns, service, id },
    answer: (...given: Parameters<typeof answer>) => provider.answer(answer(...given)),
    link: async () => {
      const { body } = await service.api('GET', `/v1/domains/${id}/publish`)
      return (body as { data: { domain_connect_url: string | null } }).data.domain_connect_url
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    },
  }
}

test.each(['example.com', 'news.example.com'])('the link has all variables of its groups: %s', async (domain) => {
  await using t = await start('example.com/mail', domain)
  const link = new URL((await t.link()) ?? 'none:')
  expect(link.origin + link.pathname).toBe(
    'https://dns.example.net/ux/v2/domainTemplates/providers/example.com/services/mail/apply',
  )
  expect(link.search).not.toContain('+')
  const query = Object.fromEntries(link.searchParams)
  expect(query).toMatchObject({
    domain: 'example.com',
    groupId: 'spf,dkim,return_path,dkim_ed25519,dmarc',
    spf: 'ip4:192.0.2.25',
    dmarc_host: '_dmarc',
    return_path_host: 'send',
  })
  expect(query['host']).toBe(domain === 'example.com' ? undefined : 'news')
  expect(query['dkim']).toStartWith('v=DKIM1; k=rsa; p=')
  const groups = query['groupId']?.split(',') ?? []
  const used = template.records.filter(({ groupId }) => groups.includes(groupId))
  const variables = JSON.stringify(used).match(/(?<=%)\w+(?=%)/g) ?? []
  expect(used.length).toBe(groups.length)
  expect([...new Set(variables)].sort()).toEqual(
    Object.keys(query)
      .filter((name) => !/^(domain|host|groupId)$/.test(name))
      .sort(),
  )
})

test('the link leaves out what would replace records of others, and what is there', async () => {
  await using t = await start('example.com/mail')
  await t.service.api('PATCH', `/v1/domains/${t.id}`, { inbound_enabled: true })
  Object.assign(t.dns.zone, {
    'send.example.com': { MX: [{ preference: 5, exchange: 'mx.example.net' }] },
    '_dmarc.example.com': { CNAME: 'dmarc.example.net' },
    '_smtp._tls.example.com': { TXT: ['v=TLSRPTv1; rua=mailto:me@example.net'] },
  })
  const query = new URL((await t.link()) ?? 'none:').searchParams
  expect(query.get('groupId')).toBe('spf,dkim,dkim_ed25519,mx')
})

test('there is no link without the template, with a page of another scheme, or with the setting off', async () => {
  await using t = await start('example.com/mail')
  t.answer({}, 404)
  expect(await t.link()).toBeNull()
  t.answer({ urlSyncUX: 'javascript:alert(1)//' })
  expect(await t.link()).toBeNull()
  t.provider.answer({ body: '<html>' })
  expect(await t.link()).toBeNull()
  await using off = await start('')
  expect(await off.link()).toBeNull()
  expect(off.provider.requests).toEqual([])
})
