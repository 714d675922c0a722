/**
 * @module Validates names of domains that an account registers, and finds the registrable part of a name (Public Suffix
 * List, by tldts).
 */
import { parse } from 'tldts'
import { type DomainResult, parseDomain } from '#protocols/address/domain.ts'

/**
 * Accepts a domain as a user types it, internationalised ones too (RFC 5890). Unknown top-level domains such as `.test`
 * pass. The result is lower-case, in A-labels, without a trailing dot.
 */
export function validateDomainName(text: string): DomainResult {
  const bare = text.trim().replace(/[.\u3002\uff0e\uff61]$/, '')
  if (bare === '') return invalid('The domain is empty.')
  const parsed = parseDomain(bare)
  if (parsed.kind === 'invalid') return invalid(`${parsed.reason} Enter the whole bare name, such as example.com.`)
  return findRegistrableDomain(parsed.domain) === undefined
    ? invalid(`${parsed.domain} is a public suffix, below which others register domains.`)
    : parsed
}

/**
 * The organisational domain: `example.co.uk` for `a.b.example.co.uk`. Undefined for a public suffix or an invalid
 * domain.
 */
export function findRegistrableDomain(domain: string): string | undefined {
  return parse(domain, { allowPrivateDomains: true, extractHostname: false }).domain ?? undefined
}

const invalid = (reason: string): DomainResult => ({ kind: 'invalid', reason })
