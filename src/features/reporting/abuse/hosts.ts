/**
 * @module Analyses link hosts: their registrable domain, and whether they imitate a brand, also with look-alike
 * characters. Pure.
 */
import { domainToUnicode } from 'node:url'
import { parse } from 'tldts'
import data from './phishing.json' with { type: 'json' }

/** The file says what the fields mean. */
export interface Brand {
  readonly token: string
  readonly names: readonly string[]
  readonly domains: readonly string[]
  readonly isCommon?: boolean | undefined
}

const BRANDS: readonly Brand[] = data.brands

/** The registrable domain, such as `example.co.uk`; the host itself where there is none. */
export const toRegistrableDomain = (host: string): string => parse(host).domain ?? host

export const isIpHost = (host: string): boolean => parse(host).isIp === true

export type BorrowedBrand =
  /** A label of the host, split at dots and hyphens, is the name. */
  | { readonly brand: Brand; readonly how: 'named' }
  /** The name is part of a longer label; that label may be an ordinary word. */
  | { readonly brand: Brand; readonly how: 'within' }
  /** A label looks like the name, but differs from it. */
  | { readonly brand: Brand; readonly how: 'alike' }

/** The brand that a host imitates; undefined if the host imitates none, or belongs to the brand. */
export function findBorrowedBrand(host: string): BorrowedBrand | undefined {
  const domain = toRegistrableDomain(host)
  const parts = host.split(/[.-]/)
  const shown = host.includes('xn--') ? domainToUnicode(host).split(/[.-]/) : parts
  const labels = shown.map((part) => ({ part, read: toSkeleton(part) }))
  let found: BorrowedBrand | undefined
  for (const brand of BRANDS) {
    if (brand.domains.includes(domain)) return undefined
    if (found) continue
    const { token } = brand
    if (parts.includes(token)) found = { brand, how: 'named' }
    else if (!brand.isCommon && token.length >= 6 && host.includes(token)) found = { brand, how: 'within' }
    else if (
      token.length >= 5 &&
      labels.some(({ part, read }) => part !== token && read === BRAND_SKELETONS.get(brand))
    )
      found = { brand, how: 'alike' }
  }
  return found
}

const LOOKALIKES: ReadonlyMap<string, string> = new Map(
  Object.entries(data.lookalikes).flatMap(([letter, lookalikes]) =>
    [...lookalikes].map((one) => [one, letter] as const),
  ),
)

/**
 * Simplifies the text to what a reader takes it for: without accents, in Latin letters; `i` equals `l`, `rn` equals
 * `m`, `vv` equals `w`.
 */
const toSkeleton = (text: string): string =>
  [...text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()]
    .map((letter) => LOOKALIKES.get(letter) ?? letter)
    .join('')
    .replaceAll('rn', 'm')
    .replaceAll('vv', 'w')
    .replaceAll('i', 'l')

const BRAND_SKELETONS: ReadonlyMap<Brand, string> = new Map(BRANDS.map((brand) => [brand, toSkeleton(brand.token)]))

/** The brand that owns a registrable domain. */
export const findBrandByDomain = (domain: string): Brand | undefined =>
  BRANDS.find(({ domains }) => domains.includes(domain))

/** The brand that a text names as whole words, unless the brand owns `ownDomain`. */
export function findNamedBrand(text: string, ownDomain: string): Brand | undefined {
  const plain = ` ${text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')} `
  return BRANDS.find(
    ({ names, domains }) =>
      !domains.includes(ownDomain) && names.some((name) => plain.includes(` ${name.replaceAll('-', ' ')} `)),
  )
}

/** The host that a link's label displays, if any: `www.bank.example`, `https://bank.example/login`. */
export function parseShownHost(text: string): string | undefined {
  const found = /^(?:https?:\/\/)?((?:[\p{L}\p{N}-]{1,63}\.){1,6}\p{L}{2,20})(?:[/:?#]\S*)?$/iu.exec(text.trim())?.[1]
  if (found === undefined) return undefined
  const { hostname, isIcann } = parse(found.toLowerCase())
  return isIcann && hostname !== null ? hostname : undefined
}
