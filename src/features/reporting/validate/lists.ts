/**
 * @module What is known of domains and local parts from lists that others keep: disposable domains (disposable-email-domains-js), free providers
 * (email-providers), roles (role-based-email-addresses). Each list becomes a set when it is first asked; nothing is fetched.
 */
import { disposableEmailBlocklist } from 'disposable-email-domains-js'
import providers from 'email-providers/all.json' with { type: 'json' }
import bigProviders from 'email-providers/common.json' with { type: 'json' }
import roles from 'role-based-email-addresses'
import { getPublicSuffix } from 'tldts'
import { toALabels } from '#protocols/address/domain.ts'

/** Providers that the list does not have. */
const EXTRA_PROVIDERS = ['tutanota.com', 'tutanota.de', 'tutamail.com', 'tuta.com', 'tuta.io', 'keemail.me']
/** In the list of providers, and none: RFC 2606 §3 and domains that stand for any. */
const NOT_PROVIDERS = new Set([
  'example.com',
  'example.net',
  'example.org',
  'yourdomain.com',
  'mydomain.com',
  'test.com',
])

const lazy = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

const toDomainSet = (domains: readonly string[]): ReadonlySet<string> =>
  new Set(domains.flatMap((domain) => toALabels(domain.toLowerCase()) ?? []))

const disposableDomains = lazy(() => toDomainSet(disposableEmailBlocklist()))
const freeDomains = lazy(() =>
  toDomainSet([...providers, ...EXTRA_PROVIDERS].filter((domain) => !NOT_PROVIDERS.has(domain))),
)
const roleNames = lazy(() => new Set(roles))
const bigDomains = lazy(() =>
  toDomainSet(bigProviders.filter((domain) => !NOT_PROVIDERS.has(domain) && !isDisposable(domain))),
)

/** Whether a domain (A-labels, lower case), or a parent of it that somebody registered, hands out addresses to throw away. */
export function isDisposable(domain: string): boolean {
  const listed = disposableDomains()
  if (listed.has(domain)) return true
  // With those that registries are not alone in selling under: the neighbours below such a suffix have nothing to do with each other.
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

/** Whether anybody can have an address at the domain (A-labels, lower case), without paying. */
export const isFreeProvider = (domain: string): boolean => freeDomains().has(domain)

/** Whether the domain is a provider so large that its name tells nothing of whoever is written to there. */
export const isBigProvider = (domain: string): boolean => bigDomains().has(domain)

/** Whether a local part names a role (`info`, `sales`), in any case and before a `+`, and no person. */
export const isRole = (localPart: string): boolean =>
  roleNames().has(
    localPart
      .toLowerCase()
      .replace(/^"(.*)"$/s, '$1')
      .replace(/(?<=.)\+.*$/s, ''),
  )
