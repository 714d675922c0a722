/**
 * @module Finds the web links of a captured message, and which of them must not be requested: those that unsubscribe,
 * and pages of this service. Pure.
 */
import { decodeHTMLAttribute } from 'entities'
import { readLink } from '#features/sending/tracking/tokens.ts'
import { getPublicHost } from '#features/setup/domains/tracking-domain.ts'

/** A link as written; of a tracked link, its target. */
export interface FoundLink {
  readonly url: string
  /** One sentence on why it is not requested; undefined: it may be. */
  readonly skipReason: string | undefined
}

export interface LinkOptions {
  /** The subkey `tracking`. */
  readonly trackingKeys: readonly Uint8Array[]
  /** Whether the pages of a host are those of this service; the host as `normaliseHost` returns it. */
  readonly isOwnHost: (host: string) => boolean
}

interface LinkSource {
  readonly html: string | null
  readonly text: string | null
  /** The List-Unsubscribe field; empty: none. */
  readonly unsubscribeField: string
}

/** The parser takes quadratic time for tags that are not closed: about 30 ms for so many. */
const MAX_TAGS = 5000
const MAX_URL_LENGTH = 8192
const WEB_URL = /^https?:\/\//i
const URL_IN_TEXT = /https?:\/\/[^\s<>"'`{}|\\^]{1,2048}/gi
/** Words for unsubscribing, in the languages in which mail often has them. */
const UNSUBSCRIBE_WORDS =
  /unsubscri|opt[-_ ]?out|abmeld|abbestell|austrag|d[ée]sabonn|d[ée]sinscri|darse de baja|cancelar suscripci|cancelar inscri|disiscri|annulla iscri|afmeld|uitschrijf|avregistrer|wypisz|отпис/i
const TRACKED_PATH = /\/t\/c\/([\w-]+)\/([\w-]+)$/

const UNSUBSCRIBES = 'It may unsubscribe the recipient, so it is not requested.'
const OWN_PAGE = 'It is a page of this service, which a request could change.'

/** The links in the order of the message, each once. */
export async function findLinks(source: LinkSource, options: LinkOptions): Promise<FoundLink[]> {
  const found = source.html === null ? findInText(source.text ?? '') : await findInHtml(source.html)
  const unsubscribing = new Set([...source.unsubscribeField.matchAll(/<([^<>]*)>/g)].map(([, url = '']) => url.trim()))
  const links = new Map<string, FoundLink>()
  for (const { url: written, label } of found) {
    const url = toTarget(written, options)
    const isNamed = unsubscribing.has(written) || unsubscribing.has(url) || UNSUBSCRIBE_WORDS.test(label)
    const skipReason = isNamed ? UNSUBSCRIBES : findRequestProblem(url, options.isOwnHost)
    // A link that unsubscribes in one place is never requested for another.
    if (!links.has(url) || skipReason !== undefined) links.set(url, { url, skipReason })
  }
  return [...links.values()]
}

/** Why a URL, such as the target of a redirect, must not be requested; undefined: it may be. */
export const findRequestProblem = (url: string, isOwnHost: LinkOptions['isOwnHost']): string | undefined =>
  isOwnPage(url, isOwnHost) ? OWN_PAGE : isUnsubscribing(url) ? UNSUBSCRIBES : undefined

/** Whether HTML has so many tags that the links of its end are not found. */
export const hasTooManyTags = (html: string): boolean => limitTags(html).length < html.length

interface WrittenLink {
  readonly url: string
  /** The text of the link. */
  readonly label: string
}

async function findInHtml(html: string): Promise<WrittenLink[]> {
  const links: { url: string; label: string }[] = []
  let open: { url: string; label: string } | undefined
  const rewriter = new HTMLRewriter()
    .on('a[href], area[href]', {
      element(element) {
        const url = decodeAttribute(element.getAttribute('href') ?? '')
        open = undefined
        if (!WEB_URL.test(url) || url.length > MAX_URL_LENGTH) return
        open = { url, label: `${element.getAttribute('title') ?? ''} ` }
        links.push(open)
      },
    })
    .on('a', {
      text(chunk) {
        if (open && open.label.length < MAX_URL_LENGTH) open.label += chunk.text
      },
    })
  await new Response(rewriter.transform(limitTags(html))).text()
  return links
}

/** The HTML up to its last tag that is parsed. */
function limitTags(html: string): string {
  let end = -1
  for (let tags = 0; tags <= MAX_TAGS; tags++) {
    end = html.indexOf('<', end + 1)
    if (end === -1) return html
  }
  return html.slice(0, end)
}

/** Like a browser, without white space at both ends and line breaks inside. */
const decodeAttribute = (value: string): string =>
  decodeHTMLAttribute(value)
    .replace(/[\t\r\n]/g, '')
    .trim()

/** Punctuation after a URL belongs to the sentence around it. */
const findInText = (text: string): WrittenLink[] =>
  [...text.matchAll(URL_IN_TEXT)].map(([url]) => ({ url: url.replace(/[.,;:!?)\]]{1,5}$/, ''), label: '' }))

/** A tracked link of this service counts a click when it is requested, so its target is used. */
function toTarget(url: string, { trackingKeys }: LinkOptions): string {
  const [, token, target] = TRACKED_PATH.exec(URL.parse(url)?.pathname ?? '') ?? []
  return (token && target && readLink(trackingKeys, token, target)?.url) || url
}

const isUnsubscribing = (url: string): boolean => UNSUBSCRIBE_WORDS.test(url) || UNSUBSCRIBE_WORDS.test(decodeUrl(url))

/** A URL as its server reads it: with spaces and percent-encoded characters. For bytes that are not UTF-8, U+FFFD. */
const decodeUrl = (url: string): string =>
  url
    .replaceAll('+', ' ')
    .replace(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll('%', ''), 'hex').toString())

/** Whatever the port: a proxy may serve the same pages at several. */
const isOwnPage = (url: string, isOwnHost: LinkOptions['isOwnHost']): boolean =>
  URL.canParse(url) && isOwnHost(getPublicHost({ publicUrl: url }))
