/** @module The DNS providers with an HTTP API, described in providers.json. */
import { DnsApiError, type DnsProviderEntry } from '../dns-api.ts'
import { ApiClient } from './api-client.ts'
import data from './providers.json' with { type: 'json' }
import { cloudflare, digitalocean, ovh } from './record-providers.ts'
import { route53 } from './route53.ts'
import { desec, gandi, hetzner } from './rrset-providers.ts'
import { type Connect, createDnsApi } from './zone-api.ts'

const CONNECT: Readonly<Record<string, Connect>> = { cloudflare, hetzner, desec, ovh, gandi, digitalocean, route53 }

export const HTTP_PROVIDERS: readonly DnsProviderEntry[] = data.map(({ apiUrl, paceMs, scheme, ...entry }) => {
  const { name, title, rights } = entry
  const connect = CONNECT[name]
  if (!connect) throw new Error(`providers.json has an unknown provider ${name}`)
  const url = { name: 'api_url', label: 'API URL', isSecret: false, isRequired: false, hint: `Default: ${apiUrl}` }
  const fields = [...entry.fields, url]
  const create: DnsProviderEntry['create'] = (deps, credentials) => {
    const unclean = fields.find(({ name }) => /[^\x21-\x7e]/.test(credentials[name] ?? ''))
    if (unclean) throw new DnsApiError('rejected', `${unclean.label}: there must be no spaces in it. Copy it again.`)
    const secrets = fields.flatMap(({ name, isSecret }) => (isSecret && credentials[name]) || [])
    const baseUrl = (credentials['api_url'] || apiUrl).replace(/\/$/, '')
    const authorization = `${scheme} ${credentials['token']}`
    const api: ApiClient = new ApiClient(deps, {
      ...{ title, rights, baseUrl, secrets, paceMs },
      authenticate: (request) => backend.authenticate?.(request) ?? { authorization },
      parse: (text) => (backend.parse ?? JSON.parse)(text),
    })
    const backend = connect(api, credentials, deps)
    return createDnsApi(api, backend, title)
  }
  return { ...entry, fields, create }
})
