/** @module The DNS providers whose zones this service can change. */
import type { DnsProviderEntry } from './dns-provider.ts'
import { RFC2136 } from './rfc2136.ts'

export const PROVIDERS: readonly DnsProviderEntry[] = [RFC2136]
