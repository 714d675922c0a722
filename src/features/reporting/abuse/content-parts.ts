/**
 * @module What the look at content sees of an email: its text, its links with the words they stand behind, its forms, what is hidden. Bounded, and never
 * throws for what is in it. Judges nothing.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities'
import { KiB } from '#platform/units.ts'

export interface Link {
  /** As the mail has it, without what browsers pass over, and from its `base` on where it has one. */
  readonly href: string
  /** What the reader sees; empty for an image, and for a link of the plain text. */
  readonly text: string
}

export interface ContentParts {
  readonly subject: string
  /** What can be read, of HTML and plain text. */
  readonly text: string
  readonly links: readonly Link[]
  readonly hasPasswordField: boolean
  readonly hasForm: boolean
  /** Characters that are there and not shown. */
  readonly hiddenCharacters: number
}

/** Of each body; what is beyond is not looked at. */
export const MAX_BODY_LENGTH = 256 * KiB
const MAX_TEXT_LENGTH = 64 * KiB
const MAX_LINKS = 200
const MAX_LINK_TEXT_LENGTH = 300
const MAX_HREF_LENGTH = 2000
/** The parser looks through all open elements at each end tag that ends none. */
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
  const seen = extractHtmlParts(truncateTags(html.slice(0, MAX_BODY_LENGTH)))
  const plain = text.slice(0, MAX_BODY_LENGTH)
  const plainLinks = [...plain.slice(0, MAX_TEXT_LENGTH).matchAll(/https?:\/\/[^\s<>"')\]]{1,2000}/gi)].map(
    ([href]) => ({
      href,
      text: '',
    }),
  )
  return {
    ...seen,
    subject,
    text: `${seen.text.slice(0, MAX_TEXT_LENGTH)}\n${plain.slice(0, MAX_TEXT_LENGTH)}`,
    links: [...seen.links, ...plainLinks].slice(0, MAX_LINKS),
  }
}

/** Up to the tag that would be too many. */
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
    // It reads what a browser reads, but not without bounds: what it saw until then is judged.
  }
  return {
    text: decodeHTML(text),
    links: links.map((link) => ({ href: link.href, text: decodeHTML(link.text).replace(/\s+/g, ' ').trim() })),
    hasPasswordField: hasPasswordField,
    hasForm,
    hiddenCharacters,
  }
}

/** Browsers pass over tabs, line ends and what stands before a scheme. */
function readHref(element: HTMLRewriterTypes.Element, base: string | undefined): string {
  const href = decodeHTMLAttribute(element.getAttribute('href') ?? '')
    .slice(0, MAX_HREF_LENGTH)
    .replace(/[\t\n\r]/g, '')
    .replace(/^[\0-\u0020]+/, '')
    .trimEnd()
  return (base !== undefined && URL.parse(href, base)?.href.slice(0, MAX_HREF_LENGTH)) || href
}
