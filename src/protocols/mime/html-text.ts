/**
 * @module Creates the text of HTML: the text part of a message that has only HTML, and what is searched and classified
 * of a received one. Reads it once, tag by tag, so the time is linear in any input and no depth of elements matters.
 * Never fetches anything and never throws.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities'
import { type HtmlToken, readHtml } from './html-tags.ts'
import { HtmlVisibility } from './html-visibility.ts'

const MAX_TEXT_LENGTH = 256 * 1_024
const TOKENS_PER_STEP = 5_000
/** Levels of lists and quotations that are shown. */
const MAX_LEVELS = 10

const listNames = (names: string): ReadonlySet<string> => new Set(names.split(' '))
const PARAGRAPHS = listNames('p h1 h2 h3 h4 h5 h6 blockquote dl hr pre')
const LINES = listNames(
  'address article aside body caption center dd details div dt fieldset figcaption figure footer form header legend li main nav optgroup option section select summary table tbody textarea tfoot thead tr',
)
/** Elements that look divided from what is beside them. */
const SPACED = listNames('button img input object svg td th')

/**
 * Converts HTML to readable text: links as `text <https://...>`, no images, nothing that is hidden, at most 256 Ki
 * characters, lines not wrapped.
 */
export function htmlToText(html: string): string {
  const steps = convertHtml(html)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

/** The same in steps, for a thread that has other work: a step takes milliseconds. */
export function* convertHtml(html: string): Generator<void, string> {
  let tokenCount = 0
  const visibility = new HtmlVisibility()
  const text = new TextWriter()
  for (const token of readHtml(html)) {
    if (++tokenCount % TOKENS_PER_STEP === 0) yield
    if (token.kind === 'style') visibility.addStyles(token)
    else if (token.kind === 'text') {
      if (visibility.isShown) text.write(decodeHTML(token.text))
      if (text.isFull) break
    } else {
      // Before the start and after the end of a hidden element: they divide lines.
      const wasShown = visibility.isShown
      const isBlock = visibility[token.kind](token)
      if (visibility.isShown || (wasShown && token.text !== 'a')) text.tag(token, isBlock)
    }
  }
  return text.end()
}

/** White space but the ideographic one, and what looks like it. */
const WHITE_SPACE = /[\t\n\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800]+/g
/** Characters without width, which fill previews. */
const FILLER = /\u00ad|\u034f|\u115f|\u1160|\u17b4|\u17b5|\u180e|\u200b|[\u2060-\u2064]|\u3164|\ufeff|\uffa0/g
/** Joiners and marks of direction, which mean something only beside letters. */
const LONE_JOINERS = /(?<!\S)(?:\u200c|\u200d|\u200e|\u200f)+(?!\S)/g

class TextWriter {
  readonly #pieces: string[] = []
  #length = 0
  /** Line ends before the next text; 2: an empty line. */
  #breaks = 0
  /** White space before the next text, unless that begins a line. */
  #space = ''
  #bullet = ''
  #quoteDepth = 0
  #preDepth = 0
  /** Open lists: the number of the last item; NaN: without numbers. */
  readonly #lists: number[] = []
  #link: { readonly url: string; readonly from: number } | undefined

  get isFull(): boolean {
    return this.#length > MAX_TEXT_LENGTH
  }

  write(text: string): void {
    if (this.#preDepth > 0) {
      this.#writeLines(text.replaceAll('\r\n', '\n'))
      return
    }
    const visible = text.replace(FILLER, '').replace(WHITE_SPACE, ' ').replace(LONE_JOINERS, '').replace(/ {2,}/g, ' ')
    if (visible.startsWith(' ')) this.#space ||= ' '
    if (visible.trim() === '') return
    this.#append(visible.trim())
    this.#space = visible.endsWith(' ') ? ' ' : ''
  }

  /** Writes text as it is; its elements may divide it anywhere, also between lines. */
  #writeLines(text: string): void {
    const shown = text.trimEnd()
    if (shown !== '') this.#append(this.#breaks > 1 ? shown.replace(/^\n+/, '') : shown)
    this.#space += text.slice(shown.length)
  }

  /** @param isBlock whether it begins or ends a line, although its name does not say so */
  tag({ kind, text: name, attributes }: HtmlToken, isBlock: boolean): void {
    const isStart = kind === 'start'
    const step = isStart ? 1 : -1
    if (name === 'br') this.#breaks = Math.min(this.#breaks + 1, 2)
    else if (name === 'a') {
      this.#endLink()
      if (isStart) this.#link = { url: readUrl(attributes.get('href')), from: this.#pieces.length }
    } else if (SPACED.has(name)) this.#space ||= ' '
    else if (name === 'ul' || name === 'ol') this.#changeList(isStart, name === 'ol' ? attributes.get('start') : 'none')
    else if (PARAGRAPHS.has(name)) this.#breakLine(2)
    else if (LINES.has(name)) this.#breakLine(1)
    if (isBlock) this.#breakLine(1)
    if (name === 'li') this.#bullet = isStart ? this.#nextBullet() : ''
    if (name === 'blockquote') this.#quoteDepth = Math.max(0, this.#quoteDepth + step)
    if (name === 'pre') {
      this.#preDepth = Math.max(0, this.#preDepth + step)
      this.#space = ''
    }
  }

  end(): string {
    this.#endLink()
    const text = this.#pieces.join('')
    return text.length <= MAX_TEXT_LENGTH ? text : `${text.slice(0, MAX_TEXT_LENGTH).toWellFormed()}…`
  }

  /** @param count 2: with an empty line */
  #breakLine(count: 1 | 2): void {
    this.#breaks = Math.max(this.#breaks, count)
  }

  #changeList(isStart: boolean, first: string | undefined): void {
    if (!isStart) this.#lists.pop()
    this.#breakLine(this.#lists.length === 0 ? 2 : 1)
    if (isStart)
      this.#lists.push(first === 'none' ? Number.NaN : (Number.parseInt(first?.slice(0, 9) ?? '', 10) || 1) - 1)
  }

  #nextBullet(): string {
    const last = this.#lists.length - 1
    const number = (this.#lists[last] ?? Number.NaN) + 1
    this.#lists[Math.max(0, last)] = number
    return `${'   '.repeat(Math.min(Math.max(0, last), MAX_LEVELS))} ${Number.isNaN(number) ? '*' : `${number}.`} `
  }

  /** The URL follows the text of the link, unless it is that text. */
  #endLink(): void {
    const { url = '', from = 0 } = this.#link ?? {}
    this.#link = undefined
    const label = this.#pieces.slice(from).join('').trim()
    if (url === '' || url.replace(/^(?:mailto|tel):/i, '') === label || url === label) return
    if (label === '') this.#append(`<${url}>`)
    else this.#push(` <${url}>`)
  }

  /** Appends text after what is due before it: line ends or a blank, marks of quotations, a bullet. */
  #append(text: string): void {
    const quote = '> '.repeat(Math.min(this.#quoteDepth, MAX_LEVELS))
    if (this.#pieces.length > 0 && this.#breaks > 0)
      this.#push(`${this.#breaks > 1 ? `\n${quote.trimEnd()}` : ''}\n${quote}`)
    else if (this.#pieces.length === 0) this.#push(quote)
    else this.#push(this.#space.replaceAll('\n', `\n${quote}`))
    this.#push(this.#bullet + text.replaceAll('\n', `\n${quote}`))
    this.#breaks = 0
    this.#space = ''
    this.#bullet = ''
  }

  #push(piece: string): void {
    this.#pieces.push(piece)
    this.#length += piece.length
  }
}

/** Web addresses and their like; empty for a place in the page, and for what no reader can follow. */
function readUrl(href: string | undefined): string {
  const url = decodeHTMLAttribute(href ?? '').replace(/\s/g, '')
  return /^(?:#|javascript:|data:)/i.test(url) ? '' : url
}
