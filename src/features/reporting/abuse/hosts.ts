/**
 * @module Analyses link hosts: their registrable domain, and whether they imitate a brand, also with look-alike
 * characters. Pure.
 */
import { domainToUnicode } from 'node:url'
import { parse } from 'tldts'
import { BRANDS, type Brand } from './brands.ts'

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

/** Digits and letters of other scripts that resemble Latin letters. */
const LOOKALIKES: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'l',
  '3': 'e',
  '5': 's',
  а: 'a',
  в: 'b',
  с: 'c',
  ԁ: 'd',
  е: 'e',
  һ: 'h',
  і: 'i',
  ј: 'j',
  к: 'k',
  ӏ: 'l',
  м: 'm',
  п: 'n',
  о: 'o',
  р: 'p',
  ԛ: 'q',
  г: 'r',
  ѕ: 's',
  т: 't',
  у: 'y',
  х: 'x',
  ѡ: 'w',
  α: 'a',
  ε: 'e',
  ι: 'i',
  κ: 'k',
  ν: 'v',
  ο: 'o',
  ρ: 'p',
  τ: 't',
  υ: 'u',
  ı: 'i',
  ł: 'l',
  ø: 'o',
  ɡ: 'g',
}

/**
 * Simplifies the text to what a reader takes it for: without accents, in Latin letters; `i` equals `l`, `rn` equals
 * `m`, `vv` equals `w`.
 */
const toSkeleton = (text: string): string =>
  [...text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()]
    .map((letter) => LOOKALIKES[letter] ?? letter)
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

/** Hosts on which anyone can publish pages within minutes; the domain does not identify the owner. */
export const FREE_HOSTS: ReadonlySet<string> = new Set(
  'netlify.app web.app firebaseapp.com weebly.com weeblysite.com github.io pages.dev workers.dev r2.dev vercel.app blogspot.com glitch.me wixsite.com square.site webflow.io herokuapp.com repl.co replit.app surge.sh 000webhostapp.com godaddysites.com ngrok.io ngrok-free.app trycloudflare.com duckdns.org dweb.link ipfs.io jotform.com formstack.com sites.google.com forms.gle docs.google.com'.split(
    ' ',
  ),
)

export const SHORTENERS: ReadonlySet<string> = new Set(
  'bit.ly t.co tinyurl.com goo.gl ow.ly is.gd buff.ly rb.gy cutt.ly shorturl.at rebrand.ly t.ly s.id tiny.cc qrco.de lnkd.in'.split(
    ' ',
  ),
)
