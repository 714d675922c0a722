/** @module The DNS providers with an HTTP API, described in providers.json. */
import { DnsApiError } from '../dns-api.ts'
import type { DnsProviderEntry } from '../dns-provider.ts'
import { ApiClient, type ApiOptions } from './api-client.ts'
import data from './providers.json' with { type: 'json' }
import { cloudflare, digitalocean, ovh } from './record-providers.ts'
import { route53 } from './route53.ts'
import { desec, gandi, hetzner } from './rrset-providers.ts'
import { type Connect, createDnsApi } from './zone-api.ts'

const CONNECT: Readonly<Record<string, Connect>> = { cloudflare, hetzner, desec, ovh, gandi, digitalocean, route53 }

export const HTTP_PROVIDERS: readonly DnsProviderEntry[] = data.map(({ apiUrl, paceMs, scheme, ...entry }) => {
  const { name: provider, title, rights } = entry
  const url = { name: 'api_url', label: 'API URL', isSecret: false, isRequired: false, hint: `Default: ${apiUrl}` }
  const fields = [...entry.fields, url]
  const create: DnsProviderEntry['create'] = (deps, credentials) => {
    const unclean = fields.find(({ name }) => /[^\x21-\x7e]/.test(credentials[name] ?? ''))
    if (unclean) throw new DnsApiError('rejected', `${unclean.label}: there must be no spaces in it. Copy it again.`)
    const secrets = fields.flatMap(({ name, isSecret }) => (isSecret && credentials[name]) || [])
    const baseUrl = (credentials['api_url'] || apiUrl).replace(/\/$/, '')
    const authenticate = () => ({ authorization: `${scheme} ${credentials['token']}` })
    const open = (options: Partial<ApiOptions> = {}) =>
      new ApiClient(deps, { title, rights, baseUrl, secrets, paceMs, authenticate, ...options })
    const backend = CONNECT[provider]?.(open, credentials, deps)
    if (!backend) throw new Error(`providers.json has an unknown provider ${provider}`)
    return createDnsApi(backend, title)
  }
  return { ...entry, fields, create }
})
