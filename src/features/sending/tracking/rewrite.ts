/**
 * @module Adds tracking to the HTML of one recipient: links redirect through this service, and a pixel is appended.
 * Runs in the delivery Workers. Pure: the same input gives the same text, so a retry sends the same message while the
 * base of its links is the same. Tracks only http and https links in `<a href>`; leaves links that their author marked,
 * links to this service and unfilled template variables unchanged. All other bytes stay the same, except that white
 * space between the attributes of a tracked link becomes one blank. HTML that cannot be parsed or is very large is sent
 * unchanged: mail without tracking is better than none.
 *
 * Links inside comments stay unchanged, so Outlook's conditional comments are not tracked; nor are links inside
 * `<noscript>`, which the parser treats as text. If HTML ends within a comment, a tag or a `<style>`, the pixel ends up
 * there and is never loaded.
 */
import { decodeHTMLAttribute } from 'entities'
import type { TrackingChoice } from '#features/sending/queue/email.ts'
import { escapeHtml } from '#platform/http/html.ts'
import { MiB } from '#platform/units.ts'
import { createLinkUrl, createPixelUrl, MAX_TARGET_OCTETS, type TrackedRecipient } from './tokens.ts'

export interface Tracking {
  readonly recipient: TrackedRecipient
  /** The subkey `tracking`. */
  readonly key: Uint8Array
  /** Base of the tracked links, without a trailing slash. */
  readonly baseUrl: string
  /** URLs of this service, without a trailing slash: links to its own pages are never tracked. */
  readonly ownUrls: readonly string[]
  /** What is tracked. */
  readonly parts: TrackingChoice
}

/** In UTF-16 units: the parser needs about 100 bytes per unit if the HTML is all attributes. */
const MAX_HTML_LENGTH = MiB
/** For each unmatched end tag the parser searches all open elements, so its time is quadratic. */
const MAX_TAGS = 20_000
/** Links beyond this number stay untracked, which limits the growth of a message and the rows of its statistics. */
const MAX_LINKS = 1000
/** Windows and Outlook truncate longer links (INTERNET_MAX_URL_LENGTH is 2,083). */
const MAX_LINK_LENGTH = 2048
/** Length of an `href` as written. It may be long, because each octet of a target may be written as an entity. */
const MAX_HREF_LENGTH = 20_000

/** The HTML with tracked links and a pixel; the same HTML if it cannot be parsed or is too large. */
export function addTracking(html: string, tracking: Tracking): string {
  if (html.length > MAX_HTML_LENGTH || limitTags(html, MAX_TAGS) !== html) return html
  const pixel = tracking.parts.opens ? renderPixel(tracking) : ''
  let linkCount = 0
  let hasBody = false
  let hasPixel = false
  const rewriter = new HTMLRewriter()
    .on('a[href]', {
      element(link) {
        // Amazon SES removes its mark, which is not valid HTML.
        const isMarked = [...link.attributes].some(isNoTrackMark)
        if (link.hasAttribute('ses:no-track')) link.removeAttribute('ses:no-track')
        if (!tracking.parts.clicks || linkCount >= MAX_LINKS || isMarked) return
        const target = readTarget(link.getAttribute('href') ?? '', tracking)
        if (target === undefined) return
        const tracked = createLinkUrl(tracking.key, tracking.baseUrl, tracking.recipient, target)
        if (tracked.length > MAX_LINK_LENGTH) return
        linkCount++
        link.setAttribute('href', escapeHtml(tracked))
      },
    })
    .on('body', {
      element(body) {
        // HTML has one body, so only the first `<body>` counts: end handlers for many nested ones would take quadratic
        // time.
        if (hasBody) return
        hasBody = true
        body.onEndTag((end) => {
          hasPixel = true
          end.before(pixel, { html: true })
        })
      },
    })
    .onDocument({
      end(document) {
        if (!hasPixel) document.append(pixel, { html: true })
      },
    })
  try {
    // Restores a byte order mark, which the rewriter drops.
    return (html.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '') + rewriter.transform(html)
  } catch {
    return html
  }
}

/**
 * By which authors keep a link untracked: `data-pm-no-track` (Postmark), `ses:no-track` (Amazon SES), `nolinktrack`,
 * `disable-tracking` (Mailgun), `mc:disable-tracking` (Mandrill), `class="untracked"` (Customer.io), and
 * `data-tracking="off"`, `clicktracking="off"` (SendGrid), `data-msys-clicktrack="0"` (SparkPost), `track="no"`.
 */
const NO_TRACK_NAME = /(?:no|not|un|disable|dont|skip)[-_]?(?:click|link|open)?s?[-_]?track(?:ed|ing)?$/
const TRACK_NAME = /track(?:ing)?$/
const OFF = /^\s*(?:off|no|none|false|0|disabled?)\s*$/i

const isNoTrackMark = ([name = '', value = '']: readonly string[]): boolean =>
  name === 'class'
    ? /(?:^|\s)(?:untracked|no-?track)(?:\s|$)/i.test(value)
    : NO_TRACK_NAME.test(name)
      ? !OFF.test(value)
      : TRACK_NAME.test(name) && OFF.test(value)

const BYTE_ORDER_MARK = '\uFEFF'

/** The HTML up to its last tag that is parsed. */
export function limitTags(html: string, maxTags: number): string {
  let end = -1
  for (let tags = 0; tags <= maxTags; tags++) {
    end = html.indexOf('<', end + 1)
    if (end === -1) return html
  }
  return html.slice(0, end)
}

/** !important, because many mails stretch all images on phones: the pixel would become a blank square. */
const PIXEL_STYLE = [
  'display:block',
  'width:1px',
  'height:1px',
  'min-width:0',
  'min-height:0',
  'margin:0',
  'padding:0',
  'border:0',
]
  .map((declaration) => `${declaration} !important`)
  .join(';')

/** The empty `alt` keeps screen readers silent. */
const renderPixel = ({ key, baseUrl, recipient }: Tracking): string =>
  `<img src="${escapeHtml(createPixelUrl(key, baseUrl, recipient))}" width="1" height="1" alt="" border="0" style="${PIXEL_STYLE}">`

/** Template variables that another system left unfilled; such a target is not a working URL. */
const TEMPLATE_LEFTOVER = /\{\{|%\}|\$\{|<%|\*\|/
const WEB_URL = /^https?:\/\//i

/** The target of a link as written; undefined if the link is not tracked. @param href raw value of the attribute */
function readTarget(href: string, { ownUrls }: Tracking): string | undefined {
  if (href.length > MAX_HREF_LENGTH) return undefined
  const target = stripWhitespace(decodeHTMLAttribute(href.replaceAll('\0', '\uFFFD')))
  if (!WEB_URL.test(target) || TEMPLATE_LEFTOVER.test(target)) return undefined
  if (Buffer.byteLength(target) > MAX_TARGET_OCTETS) return undefined
  const url = URL.parse(target)
  if (!url || ownUrls.some((own) => isOwnPage(url.href, own))) return undefined
  return target
}

/** Strips white space like a browser (WHATWG URL): at both ends all, inside tabs and line breaks. NUL comes first. */
const stripWhitespace = (url: string): string =>
  url.replace(/[\t\r\n]/g, '').replace(/^[\x01- ]+|(?<![\x01- ])[\x01- ]+$/g, '')

/** The pages that this service shows to recipients: tracked links, pixels and unsubscribe pages. */
const isOwnPage = (href: string, baseUrl: string): boolean =>
  href.startsWith(`${baseUrl}/t/`) || href.startsWith(`${baseUrl}/u/`)
