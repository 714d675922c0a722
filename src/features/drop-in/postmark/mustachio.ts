/**
 * @module Mustachio, the template syntax of Postmark: finds its constructs, and converts it into our syntax, with the
 * plain constructs of Handlebars: if, unless, else, this, @index. A variable
 * that the model lacks is empty in Mustachio, so converted templates print it with `default`. A null is empty as well,
 * so `message` removes nulls from the model. Pure.
 *
 * Names inside of a section are those of its value only; `../` names the value around it. Sections skip false, 0, empty
 * texts and empty lists, as `if` does here.
 */

/** Constructs that Jinja does not have: sections, unescaped values, comments, partials, paths upwards. */
const CONSTRUCT = /\{\{\{[^{}]*\}\}\}|\{\{\s*(?:[#^/&>!][^{}]*|\.{1,2}(?:\/[^{}]*|\s*)|(?:pm:|@)[^{}]*)\}\}/
const MAX_SHOWN_LENGTH = 60
const MAX_PROBLEMS = 50

/** The first construct of Mustachio that our syntax lacks; undefined when there is none. */
export function findMustachio(source: string): { readonly text: string; readonly line: number } | undefined {
  const found = CONSTRUCT.exec(source)
  return found ? { text: found[0].slice(0, MAX_SHOWN_LENGTH), line: lineAt(source, found.index) } : undefined
}

const lineAt = (source: string, index: number): number => source.slice(0, index).split('\n').length

/** A value that names can be resolved in. */
interface Scope {
  /** Expression of the value; empty: the model. */
  readonly expression: string
  readonly parent: Scope | undefined
}

interface Resolved extends Scope {
  /** The value, or nothing when a part of the path is missing. */
  readonly safeExpression: string
}

export interface Conversion {
  readonly source: string
  /** What could not be converted; empty: everything was. */
  readonly problems: readonly string[]
}

const TAG = /\{\{~?!--|\{\{\{([^{}]*)\}\}\}|\{\{([^{}]*)\}\}/g
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const KEYWORDS = new Set(
  'and or not if else elif in is true false none True False None for endfor loop self recursive as'.split(' '),
)
/** Of Handlebars, in a loop. */
const LOOP_VALUES = new Map([
  ['@index', 'loop.index0'],
  ['@first', 'loop.first'],
  ['@last', 'loop.last'],
])
/** What would open a tag or comment of Jinja. */
const JINJA_OPENING = /\{%|\{#/g
const LAYOUT_CONTENT = '@content'

class ConversionError extends Error {}

interface OpenSection {
  readonly name: string
  readonly index: number
  readonly closing: string
  readonly outer: Scope
}

class Converter {
  readonly #pieces: string[] = []
  readonly #problems: string[] = []
  readonly #open: OpenSection[] = []
  readonly #isHtml: boolean
  #scope: Scope = { expression: '', parent: undefined }
  #items = 0

  constructor(isHtml: boolean) {
    this.#isHtml = isHtml
  }

  convert(source: string): Conversion {
    let at = 0
    for (const match of source.matchAll(TAG)) {
      // Within a comment.
      if (match.index < at) continue
      this.#addText(source.slice(at, match.index))
      at = match.index + match[0].length
      const [whole, unescaped, tag] = match
      try {
        // Handlebars: `~` only removes white space around it.
        if (whole.endsWith('!--')) {
          at = findCommentEnd(source, at)
          if (at > source.length) throw new ConversionError('this is not closed by --}}')
        } else if (unescaped !== undefined) this.#addValue(unescaped.trim(), true)
        else this.#addTag((tag ?? '').replace(/^~|~$/g, '').trim(), match.index)
      } catch (error) {
        if (!(error instanceof ConversionError)) throw error
        this.#addProblem(source, match.index, `${whole.slice(0, MAX_SHOWN_LENGTH)}: ${error.message}`)
      }
    }
    this.#addText(source.slice(at))
    for (const { name, index } of this.#open) this.#addProblem(source, index, `the section "${name}" is not closed`)
    return { source: this.#pieces.join(''), problems: this.#problems }
  }

  #addProblem(source: string, index: number, problem: string): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(`line ${lineAt(source, index)}: ${problem}`)
  }

  /** Adds text; what would open a tag of Jinja in it is printed by one. */
  #addText(text: string): void {
    this.#pieces.push(text.replace(JINJA_OPENING, (opening) => `{{ '${opening}' }}`))
  }

  #addTag(tag: string, index: number): void {
    const rest = tag.slice(1).trim()
    const [, condition, path = ''] = /^#(if|unless)\s+(\S.*)$/.exec(tag) ?? []
    if (tag.startsWith('!')) return
    if (tag.startsWith('>')) throw new ConversionError('Mustachio has no partials')
    if (/^#each\s/.test(tag)) this.#openLoop(tag.slice(5).trim(), index)
    else if (condition) this.#openCondition(condition, path, index)
    else if (tag === 'else') this.#addElse()
    else if (tag.startsWith('#')) this.#openSection(rest, index, '')
    else if (tag.startsWith('^')) this.#openSection(rest, index, 'not ')
    else if (tag.startsWith('/')) this.#close(rest)
    else if (tag.startsWith('&')) this.#addValue(rest, true)
    else this.#addValue(tag, false)
  }

  #addValue(path: string, isUnescaped: boolean): void {
    const { safeExpression } = this.#resolve(path)
    this.#pieces.push(`{{ ${safeExpression}|default('')${isUnescaped && this.#isHtml ? '|safe' : ''} }}`)
  }

  /** Handlebars: names inside are those around it. */
  #openCondition(name: string, path: string, index: number): void {
    const negation = name === 'unless' ? 'not ' : ''
    this.#pieces.push(`{% if ${negation}${this.#resolve(path).safeExpression}|default(false) %}`)
    this.#push(name, index, 'endif', this.#scope)
  }

  /** Handlebars: what is shown for no value, or for an empty list. */
  #addElse(): void {
    const section = this.#open.at(-1)
    if (!section || !/^(?:if|unless|each)$/.test(section.name))
      throw new ConversionError('this stands in if, unless and each only')
    this.#scope = section.outer
    this.#pieces.push('{% else %}')
  }

  /** @param negation `'not '` for a section that is shown when there is no value */
  #openSection(path: string, index: number, negation: '' | 'not '): void {
    const { expression, safeExpression, parent } = this.#resolve(path)
    this.#pieces.push(`{% if ${negation}${safeExpression}|default(false) %}`)
    const value = negation === '' ? expression : `(${safeExpression}|default({}))`
    this.#push(path, index, 'endif', { expression: value, parent })
  }

  #openLoop(path: string, index: number): void {
    const list = this.#resolve(path)
    const item = this.#items++ === 0 ? 'item' : `item${this.#items}`
    this.#pieces.push(`{% for ${item} in ${list.safeExpression}|default([], true) %}`)
    // In Mustachio `../` leads to the list, and `../../` to what is around it; both are taken as the latter.
    this.#push('each', index, 'endfor', { expression: item, parent: { ...this.#scope, parent: this.#scope } })
  }

  #push(name: string, index: number, closing: string, scope: Scope): void {
    this.#open.push({ name, index, closing, outer: this.#scope })
    this.#scope = scope
  }

  #close(name: string): void {
    const section = this.#open.at(-1)
    if (section?.name !== name)
      throw new ConversionError(section ? `"${section.name}" is open here` : 'nothing is open here')
    this.#open.pop()
    this.#scope = section.outer
    this.#pieces.push(`{% ${section.closing} %}`)
  }

  #resolve(path: string): Resolved {
    if (path.includes(LAYOUT_CONTENT)) throw new ConversionError('this stands in layouts only')
    if (path.startsWith('pm:'))
      throw new ConversionError(
        'Postmark fills this in; mail with transactional: false has its own unsubscribe headers here',
      )
    let scope: Scope = this.#scope
    const loop = LOOP_VALUES.get(path)
    if (loop && this.#open.some(({ name }) => name === 'each'))
      return { expression: loop, safeExpression: loop, parent: scope }
    let names = path.replace(/^this(?:[./]|$)/, '')
    if (/\s/.test(names)) throw new ConversionError('helpers and their arguments are not converted')
    while (/^\.\.[\\/]/.test(names)) {
      scope = scope.parent ?? scope
      names = names.slice(3)
    }
    if (names === '..') return toResolved(scope.parent ?? scope)
    if (names === '.' || names === '') return toResolved(scope)
    let safe = scope.expression
    for (const [index, name] of names.split('.').entries()) {
      if (/^[@[]/.test(name)) throw new ConversionError('this has no counterpart')
      const isName = NAME.test(name) && !KEYWORDS.has(name)
      if (name === '') throw new ConversionError('this is no name')
      if (scope.expression === '' && !isName)
        throw new ConversionError(`"${name}" cannot be a variable here; rename it in the template and in the model`)
      const step = isName ? `.${name}` : `['${name.replace(/['\\]/g, '\\$&')}']`
      // The value in which the path begins is known to be there.
      const base = index === 0 ? safe : `(${safe}|default({}))`
      safe = scope.expression === '' ? name : base + step
      scope = { expression: scope.expression === '' ? name : scope.expression + step, parent: scope }
    }
    return { ...scope, safeExpression: safe }
  }
}

/** Handlebars: such a comment may have tags in it. Behind the source: it has no end. */
function findCommentEnd(source: string, from: number): number {
  const end = source.slice(from).search(/--~?\}\}/)
  return end === -1 ? source.length + 1 : source.indexOf('}}', from + end) + 2
}

function toResolved(scope: Scope): Resolved {
  if (scope.expression === '') throw new ConversionError('the whole model is no value')
  return { ...scope, safeExpression: scope.expression }
}

/** Converts a source into our syntax. @param isHtml whether `{{ }}` escapes values */
export const convertMustachio = (source: string, isHtml: boolean): Conversion => new Converter(isHtml).convert(source)
