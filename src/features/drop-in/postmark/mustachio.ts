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
  /** The value, or nothing when a part of the path is missing. */
  readonly safe: string
  readonly parent: Scope | undefined
}

interface OpenSection {
  readonly name: string
  readonly index: number
  readonly closing: string
  readonly outer: Scope
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

/** `#`, `^`, `/`, `&`, `!`, `>` and the words of Handlebars, with what follows them. */
const CONSTRUCT_PARTS = /^(#(?:each|if|unless)(?=\s)|[#^/&!>]|else$)?\s*(.*)$/s

class ConversionError extends Error {}

/** Converts a source into our syntax. @param isHtml whether `{{ }}` escapes values */
export function convertMustachio(source: string, isHtml: boolean): Conversion {
  const pieces: string[] = []
  const problems: string[] = []
  const open: OpenSection[] = []
  let scope: Scope = { expression: '', safe: '', parent: undefined }
  let items = 0
  const addProblem = (index: number, problem: string): void => {
    if (problems.length < MAX_PROBLEMS) problems.push(`line ${lineAt(source, index)}: ${problem}`)
  }
  /** Adds text; what would open a tag of Jinja in it is printed by one. */
  const addText = (from: number, to?: number): void => {
    pieces.push(source.slice(from, to).replace(JINJA_OPENING, (opening) => `{{ '${opening}' }}`))
  }
  const addValue = (path: string, isUnescaped: boolean): void => {
    pieces.push(`{{ ${resolve(path).safe}|default('')${isUnescaped && isHtml ? '|safe' : ''} }}`)
  }
  const enter = (name: string, index: number, [opening, closing]: readonly [string, string], inner: Scope): void => {
    pieces.push(opening)
    open.push({ name, index, closing, outer: scope })
    scope = inner
  }
  const enterIf = (name: string, index: number, condition: string, inner: Scope): void =>
    enter(name, index, [`{% if ${condition}|default(false) %}`, '{% endif %}'], inner)
  const enterLoop = (path: string, index: number): void => {
    const list = resolve(path).safe
    const item = items++ === 0 ? 'item' : `item${items}`
    // In Mustachio `../` leads to the list, and `../../` to what is around it; both are taken as the latter.
    const inner = { expression: item, safe: item, parent: { ...scope, parent: scope } }
    enter('each', index, [`{% for ${item} in ${list}|default([], true) %}`, '{% endfor %}'], inner)
  }
  const close = (name: string): void => {
    const section = open.at(-1)
    if (section?.name !== name)
      throw new ConversionError(section ? `"${section.name}" is open here` : 'nothing is open here')
    open.pop()
    scope = section.outer
    pieces.push(section.closing)
  }
  /** Handlebars: what is shown for no value, or for an empty list. */
  const addElse = (): void => {
    const section = open.at(-1)
    if (!section || !/^(?:if|unless|each)$/.test(section.name))
      throw new ConversionError('this stands in if, unless and each only')
    scope = section.outer
    pieces.push('{% else %}')
  }
  const addTag = (tag: string, index: number): void => {
    const [, sign = '', path = ''] = CONSTRUCT_PARTS.exec(tag) ?? []
    if (sign === '!') return
    if (sign === '>') throw new ConversionError('Mustachio has no partials')
    if (sign === 'else') addElse()
    else if (sign === '/') close(path)
    else if (sign === '#each') enterLoop(path, index)
    // Handlebars: names inside are those around it.
    else if (sign === '#if') enterIf('if', index, resolve(path).safe, scope)
    else if (sign === '#unless') enterIf('unless', index, `not ${resolve(path).safe}`, scope)
    else if (sign === '#' || sign === '^') {
      const { expression, safe, parent } = resolve(path)
      const value = sign === '#' ? expression : `(${safe}|default({}))`
      enterIf(path, index, sign === '#' ? safe : `not ${safe}`, { expression: value, safe: value, parent })
    } else addValue(path, sign === '&')
  }
  const resolve = (path: string): Scope => {
    if (path.includes(LAYOUT_CONTENT)) throw new ConversionError('this stands in layouts only')
    if (path.startsWith('pm:'))
      throw new ConversionError(
        'Postmark fills this in; mail with transactional: false has its own unsubscribe headers here',
      )
    const loop = LOOP_VALUES.get(path)
    if (loop && open.some(({ name }) => name === 'each')) return { expression: loop, safe: loop, parent: scope }
    let names = path.replace(/^this(?:[./]|$)/, '')
    if (/\s/.test(names)) throw new ConversionError('helpers and their arguments are not converted')
    let base = scope
    for (; /^\.\.(?:[\\/]|$)/.test(names); names = names.slice(3)) base = base.parent ?? base
    return resolveNames(base, names)
  }
  let at = 0
  for (const match of source.matchAll(TAG)) {
    // Within a comment.
    if (match.index < at) continue
    addText(at, match.index)
    at = match.index + match[0].length
    const [whole, unescaped, tag = ''] = match
    try {
      // Handlebars: `~` only removes white space around it.
      if (whole.endsWith('!--')) {
        at = findCommentEnd(source, at)
        if (at > source.length) throw new ConversionError('this is not closed by --}}')
      } else if (unescaped !== undefined) addValue(unescaped.trim(), true)
      else addTag(tag.replace(/^~|~$/g, '').trim(), match.index)
    } catch (error) {
      if (!(error instanceof ConversionError)) throw error
      addProblem(match.index, `${whole.slice(0, MAX_SHOWN_LENGTH)}: ${error.message}`)
    }
  }
  addText(at)
  for (const { name, index } of open) addProblem(index, `the section "${name}" is not closed`)
  return { source: pieces.join(''), problems }
}

/** @param names with dots in between; '' or '.' for the value itself */
function resolveNames(base: Scope, names: string): Scope {
  if (names === '.' || names === '') {
    if (base.expression === '') throw new ConversionError('the whole model is no value')
    return base
  }
  let scope = base
  for (const [index, name] of names.split('.').entries()) {
    const isRoot = scope.expression === ''
    if (/^[@[]/.test(name)) throw new ConversionError('this has no counterpart')
    if (name === '') throw new ConversionError('this is no name')
    const isName = NAME.test(name) && !KEYWORDS.has(name)
    if (isRoot && !isName)
      throw new ConversionError(`"${name}" cannot be a variable here; rename it in the template and in the model`)
    const step = isRoot ? name : isName ? `.${name}` : `['${name.replace(/['\\]/g, '\\$&')}']`
    // The value in which the path begins is known to be there.
    const safe = (index === 0 ? scope.safe : `(${scope.safe}|default({}))`) + step
    scope = { expression: scope.expression + step, safe, parent: scope }
  }
  return scope
}

/** Handlebars: such a comment may have tags in it. Behind the source: it has no end. */
function findCommentEnd(source: string, from: number): number {
  const end = source.slice(from).search(/--~?\}\}/)
  return end === -1 ? source.length + 1 : source.indexOf('}}', from + end) + 2
}
