/**
 * @module Finds which features of HTML and CSS a message uses, and where: tokens such as `element:video`,
 * `property:gap`, `unit:vh`. Reads leniently, in linear time, and runs nothing. Pure.
 */

/** Offsets in the HTML where a token was found. */
export interface Uses {
  count: number
  /** The first ones. */
  readonly offsets: number[]
}

const MAX_OFFSETS = 20
/** The ends of elements whose content is no markup. */
const END_TAGS: Readonly<Record<string, RegExp>> = {
  style: /<\/style(?=[\s/>])/gi,
  script: /<\/script(?=[\s/>])/gi,
  textarea: /<\/textarea(?=[\s/>])/gi,
  title: /<\/title(?=[\s/>])/gi,
}
const TAG_NAME = /[a-z][a-z0-9-]*/iy
const ATTRIBUTE = /[\s/]*([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>`]+)))?/y

/** The tokens that a message uses. */
export function scanHtml(html: string): ReadonlyMap<string, Uses> {
  const scan = new Scan()
  let at = html.indexOf('<')
  while (at !== -1) {
    at = html.startsWith('<!--', at) ? skipComment(scan, html, at) : readTag(scan, html, at)
    at = html.indexOf('<', at)
  }
  return scan.uses
}

class Scan {
  readonly uses = new Map<string, Uses>()

  add(token: string, offset: number): void {
    const known = this.uses.get(token)
    if (!known) this.uses.set(token, { count: 1, offsets: [offset] })
    else {
      known.count++
      if (known.offsets.length < MAX_OFFSETS) known.offsets.push(offset)
    }
  }
}

/** What is for Outlook only, in conditional comments, is no part of the message elsewhere. */
function skipComment(scan: Scan, html: string, at: number): number {
  scan.add('html-comment', at)
  const end = html.indexOf('-->', at + 4)
  return end === -1 ? html.length : end + 3
}

/** @returns where to continue */
function readTag(scan: Scan, html: string, at: number): number {
  TAG_NAME.lastIndex = at + 1
  const element = TAG_NAME.exec(html)?.[0].toLowerCase()
  if (element === undefined) return at + 1
  scan.add(`element:${element}`, at)
  const attributes = new Map<string, string>()
  let end = at + 1 + element.length
  for (;;) {
    ATTRIBUTE.lastIndex = end
    const match = ATTRIBUTE.exec(html)
    if (!match) break
    const [whole, name = '', double, single, bare] = match
    end += whole.length
    const value = double ?? single ?? bare ?? ''
    attributes.set(name.toLowerCase(), value)
    readAttribute(
      scan,
      { element, name: name.toLowerCase(), value, offset: end - value.length - (bare === undefined ? 1 : 0) },
      at,
    )
  }
  readTyped(scan, element, attributes, at)
  const close = html.indexOf('>', end)
  if (close === -1) return html.length
  const endTag = Object.hasOwn(END_TAGS, element) ? END_TAGS[element] : undefined
  if (!endTag) return close + 1
  endTag.lastIndex = close + 1
  const contentEnd = endTag.exec(html)?.index ?? html.length
  if (element === 'style') scanStylesheet(scan, html.slice(close + 1, contentEnd), close + 1)
  return contentEnd
}

interface Attribute {
  readonly element: string
  readonly name: string
  readonly value: string
  /** Where the value begins. */
  readonly offset: number
}

function readAttribute(scan: Scan, { element, name, value, offset }: Attribute, at: number): void {
  scan.add(`attribute:${name}`, at)
  if (name === 'style') scanDeclarations(scan, value, offset)
  else if (name === 'href') {
    if (/^\s*#./.test(value)) scan.add('anchor-link', at)
    if (/^\s*mailto:/i.test(value)) scan.add('mailto-link', at)
  } else if (name === 'background' || (name === 'src' && (element === 'img' || element === 'input')))
    addImage(scan, value, at)
  else if (name === 'srcset')
    for (const candidate of value.split(',').slice(0, 50)) addImage(scan, candidate.trim().split(/\s/)[0] ?? '', at)
}

/** Elements whose meaning is in an attribute. */
function readTyped(scan: Scan, element: string, attributes: ReadonlyMap<string, string>, at: number): void {
  const type = attributes.get('type')?.trim().toLowerCase()
  if (element === 'input') scan.add(`input:${type || 'text'}`, at)
  if (element === 'button') scan.add(`button:${type || 'submit'}`, at)
  if (element === 'meta') scan.add(`meta:${attributes.get('name')?.trim().toLowerCase()}`, at)
}

function addImage(scan: Scan, url: string, at: number): void {
  const [path = ''] = url.trim().split(/[?#]/, 1)
  const extension = /^data:/i.test(path) ? 'data' : /\.([a-z0-9]{2,5})$/i.exec(path)?.[1]
  if (extension !== undefined) scan.add(`image:${extension.toLowerCase()}`, at)
}

/** Replaces matches by spaces, so that offsets stay. */
function blank(css: string, pattern: RegExp, onMatch: (match: RegExpExecArray) => void = () => undefined): string {
  for (const match of css.matchAll(pattern)) onMatch(match)
  return css.replace(pattern, (match) => ' '.repeat(match.length))
}

/** Comments, addresses and strings could contain anything. */
function cleanCss(scan: Scan, css: string, offset: number): string {
  const withoutComments = blank(css, /\/\*[^*]*(?:\*(?!\/)[^*]*)*(?:\*\/|$)/g, ({ index }) =>
    scan.add('css-comment', offset + index),
  )
  const withoutUrls = blank(withoutComments, /url\(([^()]*)\)/gi, ({ 1: url = '', index }) =>
    addImage(scan, url.replace(/["']/g, ''), offset + index),
  )
  return blank(withoutUrls, /"[^"\n]*"|'[^'\n]*'/g)
}

type Block = 'rules' | 'keyframes' | 'declarations'

const BLOCK_OF: Readonly<Record<string, Block>> = {
  media: 'rules',
  supports: 'rules',
  layer: 'rules',
  container: 'rules',
  scope: 'rules',
  keyframes: 'keyframes',
}

function scanStylesheet(scan: Scan, css: string, offset: number): void {
  const text = cleanCss(scan, css, offset)
  const blocks: Block[] = []
  let start = 0
  for (const { 0: mark, index } of text.matchAll(/[{};]/g)) {
    const piece = text.slice(start, index)
    const at = offset + start + (piece.length - piece.trimStart().length)
    const block = blocks.at(-1) ?? 'rules'
    if (mark === '{') blocks.push(openBlock(scan, piece.trim(), at, block))
    else {
      if (piece.trim().startsWith('@')) readAtRule(scan, piece.trim(), at)
      else if (block === 'declarations') readDeclaration(scan, piece, at)
      if (mark === '}') blocks.pop()
    }
    start = index + 1
  }
}

function openBlock(scan: Scan, prelude: string, at: number, outer: Block): Block {
  if (prelude.startsWith('@')) return BLOCK_OF[readAtRule(scan, prelude, at)] ?? 'declarations'
  if (outer === 'keyframes') return 'declarations'
  if (outer === 'declarations') scan.add('nesting', at)
  scanSelector(scan, prelude, at)
  return 'declarations'
}

/** @returns its name */
function readAtRule(scan: Scan, prelude: string, at: number): string {
  const name = /^@(?:-\w+-)?([\w-]+)/.exec(prelude)?.[1]?.toLowerCase() ?? ''
  scan.add(`at:${name}`, at)
  if (name === 'media')
    for (const [, feature = ''] of prelude.matchAll(/\(\s*([\w-]+)/g)) scan.add(`media:${feature.toLowerCase()}`, at)
  return name
}

function scanSelector(scan: Scan, selector: string, at: number): void {
  const add = (token: string) => scan.add(token, at)
  const text = blank(selector, /\[[^[\]]*\]/g, () => add('selector:attribute'))
  if (text.includes(',')) add('selector:grouping')
  for (const [, name = ''] of text.matchAll(/::?([a-z-]+)/gi)) add(`pseudo:${name.toLowerCase()}`)
  // The arguments of pseudo-classes are selectors, numbers or languages.
  const plain = text.replace(/::?[\w-]+(?:\([^()]*\))?/g, '')
  if (/#[\w-]/.test(plain)) add('selector:id')
  if (/\.[\w-]/.test(plain)) add('selector:class')
  if (/\.[\w-]+\.[\w-]/.test(plain)) add('selector:chaining')
  if (plain.includes('*')) add('selector:universal')
  if (/(?:^|[\s>+~,])[a-z]/i.test(plain)) add('selector:type')
  for (const combinator of ['>', '+', '~']) if (plain.includes(combinator)) add(`combinator:${combinator}`)
  if (/[\w*-]\s+[\w.#*-]/.test(plain)) add('combinator: ')
}

function scanDeclarations(scan: Scan, css: string, offset: number): void {
  const text = cleanCss(scan, css, offset)
  let start = 0
  for (const piece of text.split(';')) {
    readDeclaration(scan, piece, offset + start)
    start += piece.length + 1
  }
}

function readDeclaration(scan: Scan, declaration: string, at: number): void {
  const colon = declaration.indexOf(':')
  if (colon === -1) return
  const name = declaration.slice(0, colon).trim().toLowerCase()
  if (!/^-{0,2}[a-z_][\w-]*$/.test(name)) return
  const add = (token: string) => scan.add(token, at)
  const value = declaration.slice(colon + 1).toLowerCase()
  if (name.startsWith('--') || value.includes('var(')) add('variable')
  add(`property:${name}`)
  if (/!\s*important/.test(value)) add('important')
  for (const [, word = ''] of value.matchAll(/(?<![\w#.-])([a-z][\w-]*)\(/g)) add(`function:${word}`)
  for (const [, unit = ''] of value.matchAll(/(?<![\w#-])(?:\d{1,10}(?:\.\d{1,10})?|\.\d{1,10})(%|[a-z]{1,10})/g))
    add(`unit:${unit}`)
  for (const [word] of value.matchAll(/(?<![\w#.-])[a-z][\w-]*(?![\w(-])/g)) {
    add(`keyword:${word}`)
    add(`value:${name}=${word}`)
  }
}
