/** @module The DNS providers whose zones this service can change. */
import type { DnsProviderEntry } from './dns-provider.ts'
import { HTTP_PROVIDERS } from './http/providers.ts'
import { RFC2136 } from './rfc2136.ts'

export const PROVIDERS: readonly DnsProviderEntry[] = [...HTTP_PROVIDERS, RFC2136]
