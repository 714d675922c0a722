/**
 * @module Requests the links of a captured message, on request only, and reports which are broken. Requests nothing in
 * private networks, nothing that may unsubscribe, and no page of this service.
 */

import { decodeHTMLAttribute } from 'entities'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { limitTags } from '#features/sending/tracking/rewrite.ts'
import { readLink } from '#features/sending/tracking/tokens.ts'
import { getPublicHost, isOwnHost } from '#features/setup/domains/tracking-domain.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import type { HeadOutcome } from '#platform/net/safe-fetch.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { minutes, seconds } from '#platform/units.ts'
import { decodeValue, readHead } from '#protocols/mime/header-fields.ts'
import { readCapturedMessage } from './captured.ts'
import type { CheckedLink, LinkCheck } from './model.ts'
import type { CaptureStore } from './store.ts'

/** Links of one message that are requested. */
export const MAX_CHECKED_LINKS = 50
const MAX_CONCURRENT_LINKS = 5
const MAX_REDIRECTS = 5
const REQUEST_TIMEOUT_MS = seconds(5)
/** A check ends after this time; links that were not requested by then are reported as skipped. */
const CHECK_TIMEOUT_MS = seconds(30)
const WORK_UNITS_PER_LINK = 10
/** Bytes of HTML whose tags are parsed for one unit. */
const HTML_BYTES_PER_WORK_UNIT = 256
/** Checks that an account may start in a minute. */
export const MAX_CHECKS_PER_MINUTE = 10
const RATE = { ratePerSecond: (MAX_CHECKS_PER_MINUTE * seconds(1)) / minutes(1), burst: MAX_CHECKS_PER_MINUTE }
const HEADERS = { 'user-agent': 'Tassis-Link-Check/1.0', accept: '*/*' }

type LinkApp = Pick<App, 'db' | 'workBudget' | 'fetch' | 'keys' | 'config' | 'clock'>

/** Returns a function that checks the links of a captured message: one check of an account at a time, ten a minute. */
export function createLinkChecker(app: LinkApp, store: CaptureStore) {
  const running = new Set<number>()
  const limiter = createRateLimiter(app.clock)
  return async (actor: Pick<Actor, 'accountId' | 'scopes'>, id: string): Promise<LinkCheck> => {
    const { accountId } = actor
    const tenantId = getTenantId(app.db, accountId)
    if (running.has(tenantId))
      throw tooManyRequests(
        'link_check_running',
        'A link check of this account is running; wait until it has ended.',
        5,
      )
    running.add(tenantId)
    try {
      const captured = await readCapturedMessage(app, store, actor, id)
      requireTaken(
        limiter.take(String(tenantId), 1, RATE),
        `At most ${MAX_CHECKS_PER_MINUTE} link checks a minute are allowed; wait as long as Retry-After says.`,
      )
      return await checkMessage(app, accountId, captured)
    } finally {
      running.delete(tenantId)
    }
  }
}

async function checkMessage(
  app: LinkApp,
  accountId: number,
  { message, parsed }: Awaited<ReturnType<typeof readCapturedMessage>>,
): Promise<LinkCheck> {
  const unsubscribeField = (readHead(message.head)?.rawFields ?? [])
    .filter(([name]) => name.toLowerCase() === 'list-unsubscribe')
    .map(([, value]) => decodeValue(value))
    .join(', ')
  const isOwn = (host: string) => isOwnHost(app.db, app.config, { accountId, host })
  const { html } = parsed
  if (html !== null) app.workBudget.spend(accountId, html.length / HTML_BYTES_PER_WORK_UNIT)
  const links = await findLinks(
    { html, text: parsed.text, unsubscribeField },
    { trackingKeys: app.keys.subkeys('tracking'), isOwnHost: isOwn },
  )
  const checked = links.slice(0, MAX_CHECKED_LINKS)
  app.workBudget.spend(accountId, checked.length * WORK_UNITS_PER_LINK)
  const endsAt = app.clock.monotonicMs() + CHECK_TIMEOUT_MS
  const check = (link: FoundLink) => checkLink(app, link, { isOwnHost: isOwn, endsAt })
  return {
    links: await mapConcurrently(checked, MAX_CONCURRENT_LINKS, check),
    truncated: parsed.isTruncated || links.length > checked.length || (html !== null && hasTooManyTags(html)),
  }
}

interface CheckLimits extends Pick<LinkOptions, 'isOwnHost'> {
  /** Monotonic time. */
  readonly endsAt: number
}

async function checkLink(app: LinkApp, { url, skipReason }: FoundLink, limits: CheckLimits): Promise<CheckedLink> {
  const toResult = (
    result: CheckedLink['result'],
    { current = url, status = null, reason = null }: Partial<CheckedLink> & { readonly current?: string },
  ): CheckedLink => ({ url, result, status, final_url: current === url ? null : current, reason })
  if (skipReason !== undefined) return toResult('skipped', { reason: skipReason })
  let current = url
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    if (app.clock.monotonicMs() >= limits.endsAt)
      return toResult('skipped', { current, reason: 'The check had taken too long before this link was requested.' })
    const outcome = await requestHead(app, current)
    if (outcome.kind === 'refused') return toResult('skipped', { current, reason: outcome.reason })
    if (outcome.kind === 'failed') return toResult('unreachable', { current, reason: outcome.reason })
    const { status } = outcome
    const next = findRedirect(outcome, current)
    if (next === undefined) {
      if (status >= 400 || status < 200) return toResult('broken', { current, status })
      return toResult(current === url ? 'ok' : 'redirected', { current, status })
    }
    const problem = findRequestProblem(next, limits.isOwnHost)
    if (problem !== undefined) return toResult('skipped', { current: next, status, reason: problem })
    current = next
  }
  return toResult('broken', { current, reason: `It redirects more than ${MAX_REDIRECTS} times.` })
}

/** Many servers answer a HEAD with an error, so the link is then requested with GET. */
async function requestHead(app: LinkApp, url: string): Promise<HeadOutcome> {
  // The part after "#" is for the browser.
  const [target = ''] = url.split('#', 1)
  const request = { headers: HEADERS, timeoutMs: REQUEST_TIMEOUT_MS }
  const head = await app.fetch.readHead(target, { ...request, method: 'HEAD' })
  if (head.kind !== 'response' || head.status < 400) return head
  return app.fetch.readHead(target, { ...request, method: 'GET' })
}

/** Where a response redirects to; undefined: nowhere. */
function findRedirect(outcome: HeadOutcome & { readonly kind: 'response' }, base: string): string | undefined {
  const { status, location } = outcome
  if (location === undefined || ![301, 302, 303, 307, 308].includes(status)) return undefined
  return URL.parse(location, base)?.href
}

/** A link as written; of a tracked link, its target. */
interface FoundLink {
  readonly url: string
  /** One sentence on why it is not requested; undefined: it may be. */
  readonly skipReason: string | undefined
}

interface LinkOptions {
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
const findRequestProblem = (url: string, isOwnHost: LinkOptions['isOwnHost']): string | undefined =>
  isOwnPage(url, isOwnHost) ? OWN_PAGE : isUnsubscribing(url) ? UNSUBSCRIBES : undefined

/** Whether HTML has so many tags that the links of its end are not found. */
const hasTooManyTags = (html: string): boolean => limitTags(html, MAX_TAGS) !== html

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
  await new Response(rewriter.transform(limitTags(html, MAX_TAGS))).text()
  return links
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
