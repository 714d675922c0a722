/**
 * @module Validates names of domains that an account registers, and finds the registrable part of a name (Public Suffix
 * List, by tldts).
 */
import { isIP } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { parse } from 'tldts'

export type DomainNameResult =
  /** `domain` is lower-case, in A-labels, without a trailing dot. */
  | { readonly kind: 'ok'; readonly domain: string }
  /** `reason` is a sentence for users. */
  | { readonly kind: 'invalid'; readonly reason: string }

const MAX_NAME_LENGTH = 253
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/**
 * Accepts a domain as a user types it, internationalised ones too (RFC 5890). Unknown top-level domains such as `.test`
 * pass.
 */
export function validateDomainName(text: string): DomainNameResult {
  const typed = text.trim()
  if (typed === '') return invalid('The domain is empty.')
  if (typed.length > MAX_NAME_LENGTH * 4) return invalid(`The domain must have at most ${MAX_NAME_LENGTH} characters.`)
  // domainToASCII also decodes percent signs and truncates at slashes, so such characters are rejected first.
  if (/[\s/\\@:%?#[\]]/.test(typed)) {
    return invalid(`${JSON.stringify(typed)} is not a domain; enter the bare name, such as example.com.`)
  }
  const bare = typed.replace(/[.\u3002\uff0e\uff61]$/, '')
  // RFC 3696 §2: a top-level domain is not all digits.
  if (isIP(bare) !== 0 || /(^|\.)\d+$/.test(bare)) return invalid(describeAddressGiven(bare))
  const domain = domainToASCII(bare).toLowerCase()
  if (domain === '') return invalid(`${JSON.stringify(bare)} is not a valid internationalised domain name.`)
  if (domain.length > MAX_NAME_LENGTH) return invalid(`The domain must have at most ${MAX_NAME_LENGTH} characters.`)
  const labels = domain.split('.')
  const invalidLabel = labels.find((label) => !LABEL.test(label))
  if (invalidLabel !== undefined) {
    return invalid(
      `${JSON.stringify(invalidLabel)} cannot be part of a domain: a part must have 1 to 63 letters, digits and hyphens, without a hyphen at either end.`,
    )
  }
  // A number such as 0x7f.1, which domainToASCII converts, is an address in disguise.
  if (isIP(domain) !== 0) return invalid(describeAddressGiven(bare))
  if (labels.length < 2) return invalid(`${bare} has no top-level domain; enter the whole name, such as example.com.`)
  if (domainToUnicode(domain) === '') return invalid(`${bare} is not a valid internationalised domain name.`)
  if (findRegistrableDomain(domain) === undefined) {
    return invalid(`${domain} is a public suffix, below which others register domains.`)
  }
  return { kind: 'ok', domain }
}

/**
 * The organisational domain: `example.co.uk` for `a.b.example.co.uk`. Undefined for a public suffix or an invalid
 * domain.
 */
export function findRegistrableDomain(domain: string): string | undefined {
  return parse(domain, { allowPrivateDomains: true, extractHostname: false }).domain ?? undefined
}

const describeAddressGiven = (text: string): string => `${text} is an IP address; enter a domain, such as example.com.`

const invalid = (reason: string): DomainNameResult => ({ kind: 'invalid', reason })
