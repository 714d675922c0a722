/**
 * @module Puts tracking into the HTML of one recipient: links lead by way of us, and a pixel stands at the end. Pure, and the same input gives the
 * same text, so that a retry sends what was sent before as long as the base of its links stays. Runs in the delivery Workers. Whatever it does not have to
 * change stays byte for byte: all but http and https links in `<a href>`, links with `data-tracking="off"`, links to ourselves, what a template left open.
 * In the tag of a link that is tracked, what stands between its attributes becomes one blank.
 * What it cannot read goes out as it is, and so does what is very large: mail without tracking is better than none.
 *
 * Links inside of comments stay too, so Outlook's conditional comments are not tracked; nor are links inside of `<noscript>`, which a parser takes for text.
 * HTML that ends within a comment, a tag or a `<style>` has its pixel there, where nobody loads it.
 */
import { decodeHTMLAttribute } from 'entities'
import { escapeHtml } from '#platform/http/html.ts'
import { MiB } from '#platform/units.ts'
import { createLinkUrl, createPixelUrl, MAX_TARGET_OCTETS, type TrackedRecipient } from './tokens.ts'

export interface Tracking {
  readonly recipient: TrackedRecipient
  /** Subkey `tracking`. */
  readonly key: Uint8Array
  /** Under which links are made, without a slash at the end. */
  readonly baseUrl: string
  /** URLs at which the service is reached, without a slash at the end: links to its own pages are never tracked. */
  readonly ownUrls: readonly string[]
}

/** In UTF-16 units: the parser needs about 100 bytes for one of the input when all of it is attributes. */
const MAX_HTML_LENGTH = MiB
/** Closing ones too: each that closes nothing makes the parser look through all elements that are open, so that time grows with the square. */
const MAX_TAGS = 20_000
/** What is beyond stays untracked: it bounds how much a message grows, and the rows of its statistics. */
const MAX_LINKS = 1000
/** Of a link as it is sent. Windows and Outlook cut longer ones (INTERNET_MAX_URL_LENGTH is 2,083), also those that were shorter before. */
const MAX_LINK_LENGTH = 2048
/** An `href` as written: a target of 2,000 octets may have all of them as entities. */
const MAX_HREF_LENGTH = 20_000

/** The HTML with tracked links and a pixel; the same HTML when it cannot be read or is too large. */
export function addTracking(html: string, tracking: Tracking): string {
  if (html.length > MAX_HTML_LENGTH || hasTooManyTags(html)) return html
  const pixel = renderPixel(tracking)
  let linkCount = 0
  let hasBody = false
  let hasPixel = false
  const rewriter = new HTMLRewriter()
    .on('a[href]', {
      element(link) {
        if (linkCount >= MAX_LINKS || link.getAttribute('data-tracking')?.trim().toLowerCase() === 'off') return
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
        // HTML has one. Handlers for the ends of many that are nested would cost the square of their number.
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
    // The rewriter drops a byte order mark.
    return (html.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '') + rewriter.transform(html)
  } catch {
    return html
  }
}

const BYTE_ORDER_MARK = '\uFEFF'

function hasTooManyTags(html: string): boolean {
  let tags = 0
  for (let i = html.indexOf('<'); i !== -1; i = html.indexOf('<', i + 1)) if (++tags > MAX_TAGS) return true
  return false
}

/** Of importance, because many mails stretch all their pictures on a phone, and this one would be a blank as high as the screen is wide. */
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

/** What a template that was filled in elsewhere may have left open; a target with it leads nowhere. */
const TEMPLATE_LEFTOVER = /\{\{|%\}|\$\{|<%|\*\|/
const WEB_URL = /^https?:\/\//i

/** Where a link leads, as it was written; undefined when it is not to be tracked. @param href raw value of the attribute */
function readTarget(href: string, { ownUrls }: Tracking): string | undefined {
  if (href.length > MAX_HREF_LENGTH) return undefined
  const target = stripWhitespace(decodeHTMLAttribute(href.replaceAll('\0', '\uFFFD')))
  if (!WEB_URL.test(target) || TEMPLATE_LEFTOVER.test(target)) return undefined
  if (Buffer.byteLength(target) > MAX_TARGET_OCTETS) return undefined
  const url = URL.parse(target)
  if (!url || ownUrls.some((own) => isOwnPage(url.href, own))) return undefined
  return target
}

/** As a browser reads it, which has no NUL any more (WHATWG URL, "URL parsing"): no white space around, no tab or line break inside. */
const stripWhitespace = (url: string): string =>
  url.replace(/[\t\r\n]/g, '').replace(/^[\x01- ]+|(?<![\x01- ])[\x01- ]+$/g, '')

/** The pages that recipients get from us: tracked links and pixels, and unsubscribing. */
const isOwnPage = (href: string, baseUrl: string): boolean =>
  href.startsWith(`${baseUrl}/t/`) || href.startsWith(`${baseUrl}/u/`)
