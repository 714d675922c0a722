/**
 * @module Scores how much an email resembles phishing: its links, forms and words each add points; links also by hosts
 * that imitate a brand. Pure. An indicator that also occurs in honest mail never reaches a threshold alone; only several
 * together do. The size of what it extracts from an email is limited, and no input makes the extraction throw.
 */

import { domainToUnicode } from 'node:url'
import { decodeHTML, decodeHTMLAttribute } from 'entities'
import { parse } from 'tldts'
import { KiB } from '#platform/units.ts'
import { readHtml } from '#protocols/mime/html-tags.ts'
import { HtmlVisibility } from '#protocols/mime/html-visibility.ts'
import data from './phishing.json' with { type: 'json' }

const CREDENTIAL_PHRASES = Object.values(data.credential_phrases).flat()
const PRESSURE_PHRASES = Object.values(data.pressure_phrases).flat()
const FREE_HOSTS: ReadonlySet<string> = new Set(data.free_hosts)
const SHORTENERS: ReadonlySet<string> = new Set(data.shorteners)

/** At this score the account is paused without a model's opinion. */
export const PAUSE_SCORE = 10
/** At this score the operator gets a finding, and the model is asked if one is configured. */
export const ALERT_SCORE = 6

export interface Indicator {
  readonly sign: string
  readonly points: number
  /** The host, phrase or sender name that matched. Never a whole link, which may contain a recipient's address. */
  readonly seen?: string
}

export interface Score {
  readonly points: number
  /** Each indicator once, with its highest points. */
  readonly signs: readonly Indicator[]
}

export interface Sender {
  /** The display name; empty when there is none. */
  readonly name: string
  readonly domain: string
}

export function scoreContent(parts: ContentParts, sender: Sender): Score {
  const ownDomain = toRegistrableDomain(sender.domain)
  const words = normaliseWords(`${parts.subject}\n${parts.text}`)
  const asks = CREDENTIAL_PHRASES.find((phrase) => words.includes(phrase))
  const presses = PRESSURE_PHRASES.find((phrase) => words.includes(phrase))
  const targets = distinctTargets(parts.links.map(parseTarget).filter((target) => target !== undefined))
  const best = new Map<string, Indicator>()
  const add = (sign: string, points: number, seen?: string): void => {
    if ((best.get(sign)?.points ?? 0) < points)
      best.set(sign, { sign, points, ...(seen !== undefined && { seen: seen.slice(0, 200) }) })
  }
  if (parts.hasPasswordField) add('password field', 7)
  else if (parts.hasForm) add('form', 2)
  if (parts.hiddenCharacters > 500) add('hidden text', 2)
  for (const link of parts.links)
    if (/^(?:data|javascript|vbscript):/i.test(link.href)) add('link that is code', 6, link.href.slice(0, 20))
  for (const target of targets) scoreLink(target, ownDomain, asks !== undefined, add)
  const inName = findNamedBrand(sender.name, ownDomain)
  if (inName) add("sender with another's name", inName.isCommon ? 3 : 5, sender.name)
  if (asks !== undefined) {
    add('asks for credentials', 2, asks)
    const named = inName ?? findNamedBrand(parts.subject, ownDomain)
    if (named && !named.isCommon) add('speaks for a brand', 3, named.names[0])
    if (targets.length > 0 && targets.every(({ domain }) => domain !== ownDomain))
      add('leads only elsewhere', 3, targets[0]?.host)
  }
  if (presses !== undefined) add('presses', asks === undefined ? 1 : 3, presses)
  const indicators = [...best.values()].sort((a, b) => b.points - a.points)
  return { points: indicators.reduce((sum, { points }) => sum + points, 0), signs: indicators }
}

interface Target extends Link {
  readonly url: URL
  readonly host: string
  /** Registrable domain. */
  readonly domain: string
}

/** The longest name that DNS allows. */
const MAX_HOST_LENGTH = 253

/** The target of a link; undefined when it is not a web link, contains a template variable, or is invalid. */
function parseTarget(link: Link): Target | undefined {
  if (!/^(?:https?:|[/\\]{2})/i.test(link.href) || /\{[{%]/.test(link.href)) return undefined
  const url = URL.parse(link.href, 'http://none.invalid')
  const host = url?.hostname.replace(/\.$/, '') ?? ''
  if (url === null || host.length > MAX_HOST_LENGTH) return undefined
  return { ...link, url, host, domain: toRegistrableDomain(host) }
}

/** Keeps one target per host and label, the last of them: no indicator depends on the rest of a link. */
const distinctTargets = (targets: readonly Target[]): Target[] => [
  ...new Map(targets.map((target) => [`${target.url.origin} ${target.url.username} ${target.text}`, target])).values(),
]

type Add = (sign: string, points: number, seen?: string) => void

function scoreLink({ url, host, domain, text }: Target, ownDomain: string, asks: boolean, add: Add): void {
  if (url.username !== '' && url.username.includes('.')) add('address that hides the host', 7, host)
  if (isIpHost(host)) add('link to an IP address', 4, host)
  const borrowed = findBorrowedBrand(host)
  if (borrowed?.how === 'alike') add('look-alike host', 8, host)
  // The sender's own domain may honestly contain a brand name that is a common word or part of a longer word.
  else if (borrowed && !(domain === ownDomain && (borrowed.brand.isCommon || borrowed.how === 'within')))
    add("host with another's name", borrowed.brand.isCommon ? 2 : 5, host)
  if (host.includes('xn--') && domain !== ownDomain && borrowed === undefined) add('international host', 1, host)
  const shown = findOtherShownHost(text, domain)
  if (shown !== undefined) {
    const shownDomain = toRegistrableDomain(shown)
    const brand = findBrandByDomain(shownDomain)
    const isOwn = shownDomain === ownDomain || domain === ownDomain
    if (!brand?.domains.includes(domain))
      add('shows another host', brand && shownDomain !== ownDomain ? 7 : isOwn ? 1 : 3, `${shown} leads to ${host}`)
  }
  if (!asks) return
  if (FREE_HOSTS.has(domain) || FREE_HOSTS.has(host)) add('leads to a free host', 3, host)
  if (SHORTENERS.has(domain)) add('leads to a shortener', 2, host)
}

/** The host that a label shows while its link leads to another domain. */
function findOtherShownHost(text: string, domain: string): string | undefined {
  const shown = parseShownHost(text)
  return shown === undefined || toRegistrableDomain(shown) === domain ? undefined : shown
}

/** What a link says of itself; undefined: it leads to no web page. */
export function describeLink(link: Link) {
  const target = parseTarget(link)
  if (!target) return undefined
  const { host, domain, text, url } = target
  const facts = { isIp: isIpHost(host), isShortener: SHORTENERS.has(domain), isInsecure: url.protocol === 'http:' }
  return { host, ...facts, otherShown: findOtherShownHost(text, domain) }
}

/** Lower case, without accents and invisible characters, with single spaces. */
const normaliseWords = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}|\p{Cf}/gu, '')
    .toLowerCase()
    .replace(/[\s\u2019']+/g, (blank) => (/['\u2019]/.test(blank) ? "'" : ' '))

/** The file says what the fields mean. */
interface Brand {
  readonly token: string
  readonly names: readonly string[]
  readonly domains: readonly string[]
  readonly isCommon?: boolean | undefined
}

const BRANDS: readonly Brand[] = data.brands

/** The registrable domain, such as `example.co.uk`; the host itself where there is none. */
const toRegistrableDomain = (host: string): string => parse(host).domain ?? host

const isIpHost = (host: string): boolean => parse(host).isIp === true

type BorrowedBrand =
  /** A label of the host, split at dots and hyphens, is the name. */
  | { readonly brand: Brand; readonly how: 'named' }
  /** The name is part of a longer label; that label may be an ordinary word. */
  | { readonly brand: Brand; readonly how: 'within' }
  /** A label looks like the name, but differs from it. */
  | { readonly brand: Brand; readonly how: 'alike' }

/** The brand that a host imitates; undefined if the host imitates none, or belongs to the brand. */
function findBorrowedBrand(host: string): BorrowedBrand | undefined {
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
const findBrandByDomain = (domain: string): Brand | undefined => BRANDS.find(({ domains }) => domains.includes(domain))

/** The brand that a text names as whole words, unless the brand owns `ownDomain`. */
function findNamedBrand(text: string, ownDomain: string): Brand | undefined {
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
function parseShownHost(text: string): string | undefined {
  const found = /^(?:https?:\/\/)?((?:[\p{L}\p{N}-]{1,63}\.){1,6}\p{L}{2,20})(?:[/:?#]\S*)?$/iu.exec(text.trim())?.[1]
  if (found === undefined) return undefined
  const { hostname, isIcann } = parse(found.toLowerCase())
  return isIcann && hostname !== null ? hostname : undefined
}

export interface Link {
  /** As in the email, without characters that browsers ignore, resolved against `base` where there is one. */
  readonly href: string
  /** The visible label; empty for an image, and for a link in plain text. */
  readonly text: string
}

export interface ContentParts {
  readonly subject: string
  /** The readable text of the HTML and plain text bodies. */
  readonly text: string
  readonly links: readonly Link[]
  readonly hasPasswordField: boolean
  readonly hasForm: boolean
  /** Characters that are present but not displayed. */
  readonly hiddenCharacters: number
}

/** Maximum number of characters of each body that are checked. */
export const MAX_BODY_LENGTH = 256 * KiB
const MAX_TEXT_LENGTH = 64 * KiB
const MAX_LINKS = 200
const MAX_LINK_TEXT_LENGTH = 300
const MAX_HREF_LENGTH = 2000
/** Some milliseconds of the main thread. */
const MAX_TAGS = 5000
export function extractParts({ subject, html, text }: { subject: string; html: string; text: string }): ContentParts {
  const fromHtml = extractHtmlParts(html.slice(0, MAX_BODY_LENGTH))
  const plain = text.slice(0, MAX_BODY_LENGTH)
  const plainLinks = [...plain.slice(0, MAX_TEXT_LENGTH).matchAll(/https?:\/\/[^\s<>"')\]]{1,2000}/gi)].map(
    ([href]) => ({
      href,
      text: '',
    }),
  )
  return {
    ...fromHtml,
    subject,
    text: `${fromHtml.text.slice(0, MAX_TEXT_LENGTH)}\n${plain.slice(0, MAX_TEXT_LENGTH)}`,
    links: [...fromHtml.links, ...plainLinks].slice(0, MAX_LINKS),
  }
}

function extractHtmlParts(html: string): Omit<ContentParts, 'subject'> {
  const links: { href: string; text: string }[] = []
  const visibility = new HtmlVisibility()
  let open: (typeof links)[number] | undefined
  let text = ''
  let hiddenCharacters = 0
  let hasPasswordField = false
  let hasForm = false
  let base: string | undefined
  let tags = 0
  for (const token of readHtml(html)) {
    const { kind, text: name, attributes } = token
    if (kind === 'text') {
      const readable = decodeHTML(name)
      if (!visibility.isShown) hiddenCharacters += readable.replace(/\s|\u034f|\p{Cf}/gu, '').length
      if (text.length < MAX_TEXT_LENGTH * 2) text += `${readable} `
      if (open && open.text.length < MAX_LINK_TEXT_LENGTH) open.text += readable
    } else if (kind !== 'style') {
      if (++tags > MAX_TAGS) break
      visibility[kind](token)
      const href = kind === 'start' ? attributes.get('href') : undefined
      const isLink = name === 'a' || name === 'area'
      if (isLink) open = undefined
      if (name === 'base' && href !== undefined) base ??= readHref(href, undefined)
      if (isLink && href !== undefined && links.length < MAX_LINKS) {
        const link = { href: readHref(href, base), text: '' }
        links.push(link)
        if (name === 'a') open = link
      }
      hasForm ||= name === 'form'
      hasPasswordField ||= name === 'input' && attributes.get('type')?.toLowerCase() === 'password'
    }
  }
  return {
    text,
    links: links.map((link) => ({ href: link.href, text: link.text.replace(/\s+/g, ' ').trim() })),
    hasPasswordField,
    hasForm,
    hiddenCharacters,
  }
}

/** Browsers ignore tabs, line ends and leading control characters. */
function readHref(written: string, base: string | undefined): string {
  const href = decodeHTMLAttribute(written)
    .slice(0, MAX_HREF_LENGTH)
    .replace(/[\t\n\r]/g, '')
    .replace(/^[\0-\u0020]+/, '')
    .trimEnd()
  return (base !== undefined && URL.parse(href, base)?.href.slice(0, MAX_HREF_LENGTH)) || href
}
