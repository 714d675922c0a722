/**
 * @module Creates the text part of a message that has only HTML: with html-to-text, or, if the HTML exceeds certain
 * limits, by removing the tags. Takes time linear in any input; never fetches anything and never throws.
 */
import { compile } from 'html-to-text'

/** Limit in UTF-16 units. HTML that is longer, or has too many tags, is not converted; its tags are only removed. */
const MAX_CONVERTED_LENGTH = 128 * 1_024
/**
 * html-to-text's parser takes time quadratic in the number of open elements: 45,000 unclosed tags and as many wrong end
 * tags take 6 s. The number of `<` is limited, because every tag needs one, and no comment or attribute can hide a tag
 * from this count.
 */
const MAX_CONVERTED_TAGS = 6_000
const MAX_TEXT_LENGTH = 256 * 1_024

const convert = compile({
  wordwrap: false,
  limits: { maxDepth: 32, maxChildNodes: 5_000, ellipsis: '…' },
  selectors: [
    { selector: 'img', format: 'skip' },
    { selector: 'a', options: { hideLinkHrefIfSameAsText: true, linkBrackets: ['<', '>'] } },
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
  ],
})

/**
 * Converts HTML to readable text: links as `text <https://...>`, no images, at most 256 Ki characters, lines not
 * wrapped.
 */
export function htmlToText(html: string): string {
  return truncate(isConvertible(html) ? convertOrStrip(html) : stripTags(html))
}

function isConvertible(html: string): boolean {
  if (html.length > MAX_CONVERTED_LENGTH) return false
  let count = 0
  for (let at = html.indexOf('<'); at !== -1; at = html.indexOf('<', at + 1)) {
    if (++count > MAX_CONVERTED_TAGS) return false
  }
  return true
}

function convertOrStrip(html: string): string {
  try {
    return convert(html)
  } catch {
    // html-to-text throws on some hostile attributes, such as <ol type="I" start="1e300">.
    return stripTags(html)
  }
}

const TAG_START = /^<[a-z/!?]/i
const HIDDEN_ELEMENT = /^<(script|style|head|title)[\s>/]/i
const LINE_ENDING_TAG = /^<\/?(?:p|div|br|tr|table|ul|ol|li|h[1-6]|hr|blockquote|section|article)[\s>/]/i
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' }

/** Removes tags in one pass from left to right; a tag that is never closed extends to the end of the text. */
function stripTags(html: string): string {
  const pieces: string[] = []
  let length = 0
  let position = 0
  while (position < html.length && length <= MAX_TEXT_LENGTH) {
    const open = html.indexOf('<', position)
    const textEnd = open === -1 ? html.length : open
    const text = html.slice(position, Math.min(textEnd, position + MAX_TEXT_LENGTH)).replace(/\s+/g, ' ')
    if (text !== '' && !(text === ' ' && pieces.at(-1) === ' ')) pieces.push(text)
    length += text.length
    if (open === -1) break
    const tag = html.slice(open, open + 16)
    if (!TAG_START.test(tag)) {
      pieces.push('<')
      position = open + 1
      continue
    }
    if (LINE_ENDING_TAG.test(tag) && pieces.at(-1) !== '\n') pieces.push('\n')
    position = findTagEnd(html, open, tag)
  }
  return decodeEntities(pieces.join(''))
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n')
}

function findTagEnd(html: string, open: number, tag: string): number {
  if (tag.startsWith('<!--')) return findAfter(html, '-->', open)
  const hidden = HIDDEN_ELEMENT.exec(tag)?.[1]
  return findAfter(html, '>', hidden === undefined ? open : findAfter(html, `</${hidden}`, open))
}

function findAfter(html: string, mark: string, from: number): number {
  const at = html.indexOf(mark, from)
  return at === -1 ? html.length : at + mark.length
}

const decodeEntities = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (entity, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? entity
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code > 31 && code <= 0x10ffff ? String.fromCodePoint(code) : ' '
  })

const truncate = (text: string): string =>
  text.length <= MAX_TEXT_LENGTH ? text : `${text.slice(0, MAX_TEXT_LENGTH).toWellFormed()}…`
