/**
 * @module Parses domain names of email addresses: converts U-labels to A-labels (RFC 5890, UTS #46) and checks the
 * rules of a host name. Never queries DNS.
 */
import { domainToASCII } from 'node:url'

export type DomainResult =
  | { readonly kind: 'ok'; readonly domain: string }
  | { readonly kind: 'invalid'; readonly reason: string }

/** RFC 1035 §2.3.4: maximum length in octets, without the root label. */
const MAX_DOMAIN_LENGTH = 253
const MAX_LABEL_LENGTH = 63

const ASCII_ONLY = /^[\0-\x7f]*$/
// `domainToASCII` is a URL host parser: it decodes %61 and drops a tab, so only letters, digits, hyphens and dots may
// reach it.
const HOST_CHARACTERS = /^[A-Za-z0-9.\-\u0080-\u{10ffff}]*$/u
const ALL_DIGITS = /^[0-9]+$/

/**
 * Returns the lower-case A-label form of a domain, or the reason why it is not a fully qualified host name of at least
 * two labels. Rejects domain literals, a trailing root dot and underscores. RFC 5321 §2.3.5.
 */
export function parseDomain(text: string): DomainResult {
  if (text === '') return invalid('The address has no domain after the @.')
  if (text.startsWith('['))
    return invalid('The domain is an IP address in brackets; only domain names can receive mail here.')
  // Checked before the costly conversion, which makes practically no text shorter.
  if (text.length > MAX_DOMAIN_LENGTH) return invalid('The domain is longer than 253 characters.')
  if (!HOST_CHARACTERS.test(text)) return invalid(`The domain ${JSON.stringify(text)} has an invalid character.`)
  const domain = toALabels(text)
  if (domain === undefined) return invalid(`The domain ${JSON.stringify(text)} is not a valid internationalised name.`)
  if (domain.length > MAX_DOMAIN_LENGTH) return invalid('The domain is longer than 253 characters.')
  const labels = domain.split('.')
  if (labels.some((label) => label === '')) return invalid('The domain has an extra dot.')
  if (labels.length < 2) return invalid(`The domain ${JSON.stringify(text)} has no dot.`)
  if (labels.some((label) => label.length > MAX_LABEL_LENGTH))
    return invalid('A part of the domain is longer than 63 characters.')
  if (labels.some((label) => label.startsWith('-') || label.endsWith('-')))
    return invalid('A part of the domain starts or ends with a hyphen.')
  if (!labels.every((label) => /^[a-z0-9-]+$/.test(label)))
    return invalid(`The domain ${JSON.stringify(text)} has an invalid character.`)
  if (ALL_DIGITS.test(labels.at(-1) ?? '')) return invalid('The domain ends in a number; it looks like an IP address.')
  return { kind: 'ok', domain }
}

/**
 * Returns A-labels in lower case, or undefined when a label has no such form. Does not check lengths or label rules.
 */
export function toALabels(domain: string): string | undefined {
  if (!ASCII_ONLY.test(domain)) {
    // The text is not lower-cased first: JavaScript turns a capital sigma at the end of a word into a final sigma,
    // which would be another name.
    return domainToASCII(domain) || undefined
  }
  const lower = domain.toLowerCase()
  return lower.includes('xn--') ? domainToASCII(lower) || undefined : lower
}

/** Normalises any text as a domain for comparison: A-labels in lower case, without the root dot. */
export function toComparableDomain(text: string): string {
  const domain = text.replace(/(?<!\.)\.+$/, '')
  return (toALabels(domain) ?? domain).toLowerCase()
}

const invalid = (reason: string): DomainResult => ({ kind: 'invalid', reason })
