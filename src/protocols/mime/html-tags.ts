/**
 * @module Divides HTML into texts and tags, as browsers do (WHATWG HTML, 13.2.5), without comments, scripts and titles.
 * Takes time linear in any input; builds no tree.
 */

export interface HtmlToken {
  readonly kind: 'text' | 'style' | 'start' | 'end'
  /** A text or style sheet as written; of a tag, the name of its element in lower case. */
  readonly text: string
  /** Values as written, by lower-case name; of a repeated attribute the first. */
  readonly attributes: ReadonlyMap<string, string>
}

const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map()
const TAG_START = /<(?=[a-z!?/])/gi
const TAG_NAME = /<(\/?)([a-z][^\s/>]*)/iy
const ATTRIBUTE = /[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?/y
const TAG_END = />/g
const COMMENT_END = /--!?>/g
/** Elements whose content is no markup, with their ends. Nothing of it is shown. */
const RAW_ELEMENTS = new Map(
  ['script', 'style', 'title', 'iframe', 'noembed', 'noframes'].map((name) => [
    name,
    new RegExp(`</${name}(?=[\\s/>])`, 'gi'),
  ]),
)

export function* readHtml(html: string): Generator<HtmlToken> {
  let svgDepth = 0
  for (let at = 0; at < html.length; ) {
    const open = find(TAG_START, html, at)?.index ?? html.length
    if (open > at) yield { kind: 'text', text: html.slice(at, open), attributes: NO_ATTRIBUTES }
    const [, slash, name] = find(TAG_NAME, html, open) ?? []
    if (name === undefined) {
      // The end of a comment may overlap its start: <!-->.
      at = findEnd(html.startsWith('<!--', open) ? COMMENT_END : TAG_END, html, open + 2)
      continue
    }
    const attributes = new Map<string, string>()
    at = TAG_NAME.lastIndex
    for (let found = find(ATTRIBUTE, html, at); found; found = find(ATTRIBUTE, html, at)) {
      const key = found[1]?.toLowerCase() ?? ''
      if (!attributes.has(key)) attributes.set(key, found[2] ?? found[3] ?? found[4] ?? '')
      at = ATTRIBUTE.lastIndex
    }
    at = findEnd(TAG_END, html, at)
    const kind = slash === '/' ? 'end' : 'start'
    const text = name.toLowerCase()
    if (text === 'svg') svgDepth = Math.max(0, svgDepth + (kind === 'start' ? 1 : -1))
    const isEmpty = svgDepth > 0 && html[at - 2] === '/'
    const rawEnd = kind === 'start' && !isEmpty ? RAW_ELEMENTS.get(text) : undefined
    if (!rawEnd) {
      yield { kind, text, attributes }
      if (isEmpty) yield { kind: 'end', text, attributes }
      continue
    }
    const start = at
    at = find(rawEnd, html, start)?.index ?? html.length
    if (text === 'style') yield { kind: 'style', text: html.slice(start, at), attributes }
  }
}

function find(pattern: RegExp, text: string, from: number): RegExpExecArray | null {
  pattern.lastIndex = from
  return pattern.exec(text)
}

const findEnd = (pattern: RegExp, text: string, from: number): number =>
  find(pattern, text, from) ? pattern.lastIndex : text.length
