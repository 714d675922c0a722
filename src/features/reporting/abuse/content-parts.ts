/**
 * @module Extracts from an email what the content check reads: text, links with their labels, forms and hidden text.
 * The size of the result is limited, and no input makes the extraction throw. Scores nothing.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities'
import { KiB } from '#platform/units.ts'

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
/** Limited, because the parser scans all open elements for each unmatched end tag. */
const MAX_TAGS = 5000

const HIDDEN = [
  'display:none',
  'display: none',
  'visibility:hidden',
  'visibility: hidden',
  'font-size:0',
  'font-size: 0',
]
  .map((style) => `[style*="${style}" i]`)
  .join(', ')

export function extractParts({ subject, html, text }: { subject: string; html: string; text: string }): ContentParts {
  const fromHtml = extractHtmlParts(truncateTags(html.slice(0, MAX_BODY_LENGTH)))
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

/** Cuts the HTML before the tag that exceeds MAX_TAGS. */
function truncateTags(html: string): string {
  let end = -1
  for (let tags = 0; tags < MAX_TAGS; tags++) {
    end = html.indexOf('<', end + 1)
    if (end === -1) return html
  }
  return html.slice(0, end)
}

function extractHtmlParts(html: string): Omit<ContentParts, 'subject'> {
  const links: { href: string; text: string }[] = []
  let text = ''
  let hiddenCharacters = 0
  let hasPasswordField = false
  let hasForm = false
  let isRaw = false
  let base: string | undefined
  const rewriter = new HTMLRewriter()
    .on('base[href]', {
      element(element) {
        base ??= readHref(element, undefined)
      },
    })
    .on('style, script, title', {
      element(element) {
        isRaw = true
        element.onEndTag(() => {
          isRaw = false
        })
      },
    })
    .on('a[href], area[href]', {
      element(link) {
        if (links.length < MAX_LINKS) links.push({ href: readHref(link, base), text: '' })
      },
      text(chunk) {
        const link = links.at(-1)
        if (link && link.text.length < MAX_LINK_TEXT_LENGTH) link.text += chunk.text
      },
    })
    .on('form', {
      element() {
        hasForm = true
      },
    })
    .on('input[type="password" i]', {
      element() {
        hasPasswordField = true
      },
    })
    .on(HIDDEN, {
      text(chunk) {
        hiddenCharacters += chunk.text.replace(/&[#\w]{1,10};|\s|\u034f|\p{Cf}/gu, '').length
      },
    })
    .onDocument({
      text(chunk) {
        if (!isRaw && text.length < MAX_TEXT_LENGTH * 2) text += chunk.lastInTextNode ? `${chunk.text} ` : chunk.text
      },
    })
  try {
    rewriter.transform(html)
  } catch {
    // The parser has limits that browsers do not have. When an email exceeds one of them, the parts read so far are
    // scored.
  }
  return {
    text: decodeHTML(text),
    links: links.map((link) => ({ href: link.href, text: decodeHTML(link.text).replace(/\s+/g, ' ').trim() })),
    hasPasswordField: hasPasswordField,
    hasForm,
    hiddenCharacters,
  }
}

/** Browsers ignore tabs, line ends and leading control characters. */
function readHref(element: HTMLRewriterTypes.Element, base: string | undefined): string {
  const href = decodeHTMLAttribute(element.getAttribute('href') ?? '')
    .slice(0, MAX_HREF_LENGTH)
    .replace(/[\t\n\r]/g, '')
    .replace(/^[\0-\u0020]+/, '')
    .trimEnd()
  return (base !== undefined && URL.parse(href, base)?.href.slice(0, MAX_HREF_LENGTH)) || href
}
