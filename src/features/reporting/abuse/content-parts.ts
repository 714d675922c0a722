/**
 * @module Extracts from an email what the content check reads: text, links with their labels, forms and hidden text.
 * The size of the result is limited, and no input makes the extraction throw. Scores nothing.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities'
import { KiB } from '#platform/units.ts'
import { readHtml } from '#protocols/mime/html-tags.ts'
import { HtmlVisibility } from '#protocols/mime/html-visibility.ts'

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
