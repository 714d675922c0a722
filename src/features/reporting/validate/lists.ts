/**
 * @module Looks up domains and local parts in public lists: disposable domains (disposable-email-domains-js), free
 * providers (email-providers), roles (role-based-email-addresses). Each list becomes a set on first use; nothing is
 * fetched.
 */
import { disposableEmailBlocklist } from 'disposable-email-domains-js'
import providers from 'email-providers/all.json' with { type: 'json' }
import bigProviders from 'email-providers/common.json' with { type: 'json' }
import roles from 'role-based-email-addresses'
import { getPublicSuffix } from 'tldts'
import { once } from '#platform/http/route-table.ts'
import { toALabels } from '#protocols/address/domain.ts'

/** Free providers that the list lacks. */
const EXTRA_PROVIDERS = ['tutanota.com', 'tutanota.de', 'tutamail.com', 'tuta.com', 'tuta.io', 'keemail.me']
/** Domains listed as free providers by mistake: those of RFC 2606 §3, and placeholders. */
const NOT_PROVIDERS = new Set([
  'example.com',
  'example.net',
  'example.org',
  'yourdomain.com',
  'mydomain.com',
  'test.com',
])

const toDomainSet = (domains: readonly string[]): ReadonlySet<string> =>
  new Set(domains.flatMap((domain) => toALabels(domain.toLowerCase()) ?? []))

const disposableDomains = once(() => toDomainSet(disposableEmailBlocklist()))
const freeDomains = once(() =>
  toDomainSet([...providers, ...EXTRA_PROVIDERS].filter((domain) => !NOT_PROVIDERS.has(domain))),
)
const roleNames = once(() => new Set(roles))
const bigDomains = once(() =>
  toDomainSet(bigProviders.filter((domain) => !NOT_PROVIDERS.has(domain) && !isDisposable(domain))),
)

/** Whether a domain (A-labels, lower case), or one of its registrable parents, offers disposable addresses. */
export function isDisposable(domain: string): boolean {
  const listed = disposableDomains()
  if (listed.has(domain)) return true
  // The public suffix, which may be a private one: unrelated parties own the domains below such a suffix, so no parent
  // up to it is looked up.
  const suffix = getPublicSuffix(domain, { allowPrivateDomains: true }) ?? ''
  let parent = domain
  for (;;) {
    const dot = parent.indexOf('.')
    if (dot === -1) return false
    parent = parent.slice(dot + 1)
    if (parent.length <= suffix.length) return false
    if (listed.has(parent)) return true
  }
}

/** Whether the domain (A-labels, lower case) offers free addresses to everyone. */
export const isFreeProvider = (domain: string): boolean => freeDomains().has(domain)

/** Whether the domain is a provider so large that its name reveals nothing about a recipient. */
export const isBigProvider = (domain: string): boolean => bigDomains().has(domain)

/** Whether a local part names a role (`info`, `sales`) instead of a person; ignores case and a `+` suffix. */
export const isRole = (localPart: string): boolean =>
  roleNames().has(
    localPart
      .toLowerCase()
      .replace(/^"(.*)"$/s, '$1')
      .replace(/(?<=.)\+.*$/s, ''),
  )
