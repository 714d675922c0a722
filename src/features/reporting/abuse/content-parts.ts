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
  readonly asksPassword: boolean
  readonly hasForm: boolean
  /** Characters that are there and not shown. */
  readonly hiddenCharacters: number
}

/** Of each body; what is beyond is not looked at. */
export const LONGEST_BODY = 256 * KiB
const MOST_TEXT = 64 * KiB
const MOST_LINKS = 200
const MOST_LINK_TEXT = 300
const LONGEST_HREF = 2000
/** The parser looks through all open elements at each end tag that ends none. */
const MOST_TAGS = 5000

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

export function partsOf({ subject, html, text }: { subject: string; html: string; text: string }): ContentParts {
  const seen = htmlParts(cutTags(html.slice(0, LONGEST_BODY)))
  const plain = text.slice(0, LONGEST_BODY)
  const plainLinks = [...plain.slice(0, MOST_TEXT).matchAll(/https?:\/\/[^\s<>"')\]]{1,2000}/gi)].map(([href]) => ({
    href,
    text: '',
  }))
  return {
    ...seen,
    subject,
    text: `${seen.text.slice(0, MOST_TEXT)}\n${plain.slice(0, MOST_TEXT)}`,
    links: [...seen.links, ...plainLinks].slice(0, MOST_LINKS),
  }
}

/** Up to the tag that would be too many. */
function cutTags(html: string): string {
  let end = -1
  for (let tags = 0; tags < MOST_TAGS; tags++) {
    end = html.indexOf('<', end + 1)
    if (end === -1) return html
  }
  return html.slice(0, end)
}

function htmlParts(html: string): Omit<ContentParts, 'subject'> {
  const links: { href: string; text: string }[] = []
  let text = ''
  let hiddenCharacters = 0
  let asksPassword = false
  let hasForm = false
  let isRaw = false
  let base: string | undefined
  const rewriter = new HTMLRewriter()
    .on('base[href]', {
      element(element) {
        base ??= hrefOf(element, undefined)
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
        if (links.length < MOST_LINKS) links.push({ href: hrefOf(link, base), text: '' })
      },
      text(chunk) {
        const link = links.at(-1)
        if (link && link.text.length < MOST_LINK_TEXT) link.text += chunk.text
      },
    })
    .on('form', {
      element() {
        hasForm = true
      },
    })
    .on('input[type="password" i]', {
      element() {
        asksPassword = true
      },
    })
    .on(HIDDEN, {
      text(chunk) {
        hiddenCharacters += chunk.text.replace(/&[#\w]{1,10};|\s|\u034f|\p{Cf}/gu, '').length
      },
    })
    .onDocument({
      text(chunk) {
        if (!isRaw && text.length < MOST_TEXT * 2) text += chunk.lastInTextNode ? `${chunk.text} ` : chunk.text
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
    asksPassword,
    hasForm,
    hiddenCharacters,
  }
}

/** Browsers pass over tabs, line ends and what stands before a scheme. */
function hrefOf(element: HTMLRewriterTypes.Element, base: string | undefined): string {
  const href = decodeHTMLAttribute(element.getAttribute('href') ?? '')
    .slice(0, LONGEST_HREF)
    .replace(/[\t\n\r]/g, '')
    .replace(/^[\0-\u0020]+/, '')
    .trimEnd()
  return (base !== undefined && URL.parse(href, base)?.href.slice(0, LONGEST_HREF)) || href
}
