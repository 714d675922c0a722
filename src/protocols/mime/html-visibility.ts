/**
 * @module Follows which elements of HTML are shown, by what mail programs agree on: attributes, inline styles, and rules
 * for classes and ids. Needs no tree: an element that changes what is shown ends with its end tag, or with a tag that
 * cannot be in it. Takes time linear in the number of tags.
 */
import { decodeHTMLAttribute } from 'entities'
import type { HtmlToken } from './html-tags.ts'

/** An element that changes what is shown, or is a block by its style. */
interface Region {
  readonly name: string
  /** `tiny`: of font size 0, unless an element in it sets another. */
  readonly visibility: 'shown' | 'tiny' | 'hidden'
  readonly isBlock: boolean
  /** Open elements in it: of the same name, tables, and other blocks. What is in one of the tables is not counted. */
  same: number
  tables: number
  blocks: number
}

type Style = ReadonlyMap<string, string>

const VOID_ELEMENTS = new Set('area base br col embed hr img input link meta param source track wbr'.split(' '))
const HIDDEN_ELEMENTS = new Set('template audio video canvas datalist desc metadata defs symbol'.split(' '))
/** Their end tags also end what is open in them; those of the blocks are never left out. */
const TABLE_PART = /^(?:table|tbody|thead|tfoot|tr|td|th)$/
const BLOCK = /^(?:div|center|section|article|ul|ol|dl|select|blockquote)$/
const CELL_END = /^(?:t[dhr]|tbody|tfoot)$/
/** Start tags that end an open element (WHATWG HTML, 13.1.2.4). */
const IMPLIED_ENDS: Readonly<Record<string, RegExp>> = {
  ...{ td: CELL_END, th: CELL_END, tr: /^(?:tr|tbody|tfoot)$/, li: /^li$/, dt: /^d[td]$/, dd: /^d[td]$/ },
  p: /^(?:p|div|table|ul|ol|dl|h[1-6]|blockquote|center|section|article|header|footer|hr|pre|form|address)$/,
  option: /^opt(?:ion|group)$/,
}
const BLOCK_STYLE = /display\s*:\s*(?:block|flex|grid|table|list-item)/i
const ELEMENT_SELECTOR = /(?<![^\s>])([a-z][a-z\d]*)$/i
const SELECTOR = /^[a-z\d]*([.#][\w-]+)$/i

export class HtmlVisibility {
  readonly #regions: Region[] = []
  readonly #hidden = new Map<string, boolean>()
  /** Elements whose font size a rule may set. */
  readonly #sized = new Set<string>()

  get isShown(): boolean {
    return this.#visibility === 'shown'
  }

  get #visibility(): Region['visibility'] {
    return this.#regions.at(-1)?.visibility ?? 'shown'
  }

  /** Reads the rules that apply to a class or an id alone, on every screen, and which elements have a font size. */
  addStyles({ text: css, attributes }: HtmlToken): void {
    if (!/^(?:all|screen|)$/i.test(attributes.get('media') ?? '')) return
    let depth = 0
    let selectors = ''
    for (const piece of withoutComments(css).split(/([{}])/)) {
      if (piece === '{') depth++
      else if (piece === '}') depth = Math.max(0, depth - 1)
      else if (depth === 0) selectors = piece.slice(piece.lastIndexOf(';') + 1).replace(/^\s*<!--/, '')
      else if (depth === 1 && !selectors.includes('@')) {
        const style = parseStyle(piece)
        const decidesHiding = isHiding(style) || style.has('display')
        const decidesSize = setsSize(style)
        if (!decidesHiding && !decidesSize) continue
        for (const selector of selectors.split(',')) {
          const text = selector.trim()
          const [, name] = SELECTOR.exec(text) ?? []
          if (decidesHiding && name !== undefined) this.#hidden.set(name, isHiding(style))
          const [, element] = ELEMENT_SELECTOR.exec(text) ?? []
          if (decidesSize && element !== undefined) this.#sized.add(element.toLowerCase())
        }
      }
    }
  }

  /** Returns whether the element is a block by its style. */
  start({ text: name, attributes }: HtmlToken): boolean {
    let region = this.#regions.at(-1)
    while (region && isEndedBy(region, name)) {
      this.#regions.pop()
      region = this.#regions.at(-1)
    }
    if (VOID_ELEMENTS.has(name)) return false
    const visibility = this.#judge(name, attributes)
    const isBlock = visibility !== 'hidden' && BLOCK_STYLE.test(attributes.get('style') ?? '')
    if (visibility !== this.#visibility || isBlock)
      this.#regions.push({ name, visibility, isBlock, same: 0, tables: 0, blocks: 0 })
    else if (region && name === 'table') region.tables++
    else if (region?.tables === 0 && name === region.name) region.same++
    else if (region?.tables === 0 && BLOCK.test(name)) region.blocks++
    return isBlock
  }

  /** Returns whether the element was a block by its style. */
  end({ text: name }: HtmlToken): boolean {
    for (let region = this.#regions.at(-1); region; region = this.#regions.at(-1)) {
      if (region.tables > 0) {
        if (name === 'table') region.tables--
        return false
      }
      if (name === region.name) {
        if (region.same-- > 0) return false
        this.#regions.pop()
        return region.isBlock
      }
      if (!TABLE_PART.test(name) && !(BLOCK.test(name) && region.blocks-- === 0)) return false
      // The element around the region ends.
      this.#regions.pop()
    }
    return false
  }

  #judge(name: string, attributes: HtmlToken['attributes']): Region['visibility'] {
    if (this.#visibility === 'hidden' || HIDDEN_ELEMENTS.has(name)) return 'hidden'
    const isSized = this.#sized.has(name)
    if (attributes.size === 0) return isSized ? 'shown' : this.#visibility
    const style = parseStyle(decodeHTMLAttribute(attributes.get('style') ?? ''))
    const hasDisplay = style.has('display')
    const names = (attributes.get('class') ?? '').split(/\s+/).map((each) => `.${each}`)
    const isHiddenByRule = this.#hidden.get(`#${attributes.get('id')}`) ?? names.some((each) => this.#hidden.get(each))
    if (!hasDisplay && (attributes.has('hidden') || isHiddenByRule)) return 'hidden'
    // Outlook alone does not show such a link, because it draws a button in its place.
    const isHiddenInOutlook = style.get('mso-hide') === 'all' && name !== 'a' && !hasDisplay
    if (isHiding(style) || isHiddenInOutlook || (attributes.get('data-skip-in-text') ?? 'false') !== 'false')
      return 'hidden'
    if (isZero(style.get('font-size'))) return 'tiny'
    const hasSize = isSized || setsSize(style) || attributes.has('class') || attributes.has('size')
    return hasSize ? 'shown' : this.#visibility
  }
}

/** In a cell or row, blocks that were not closed are ignored. */
const isEndedBy = ({ name, tables, blocks }: Region, start: string): boolean =>
  IMPLIED_ENDS[name]?.test(start) === true && tables === 0 && (blocks === 0 || TABLE_PART.test(name))

/** Without comments; one that is not closed extends to the end. */
const withoutComments = (css: string): string =>
  css.includes('/*')
    ? css
        .split('/*')
        .map((piece, index) => (index === 0 ? piece : (piece.split('*/')[1] ?? '')))
        .join('')
    : css

/** The declarations, in lower case; an important one is not replaced by another. */
function parseStyle(css: string): Style {
  const style = new Map<string, string>()
  const important = new Set<string>()
  for (const declaration of withoutComments(css.toLowerCase()).split(';')) {
    const [name = '', ...rest] = declaration.split(':')
    const [value = '', mark] = rest.join(':').split('!')
    if (mark !== undefined) important.add(name.trim())
    else if (important.has(name.trim())) continue
    style.set(name.trim(), value.trim())
  }
  return style
}

const isZero = (size: string | undefined): boolean => size !== undefined && Number.parseFloat(size) === 0

const setsSize = (style: Style): boolean => style.has('font') || !isZero(style.get('font-size') ?? '0')

const isHiding = (style: Style): boolean =>
  style.get('display') === 'none' ||
  /^(?:hidden|collapse)$/.test(style.get('visibility') ?? '') ||
  isZero(style.get('opacity')) ||
  (style.get('overflow') === 'hidden' && (isZero(style.get('max-height')) || isZero(style.get('height'))))
