/**
 * @module Rewrites templates before minijinja compiles them, so that they work as in Jinja with StrictUndefined. Lines
 * stay where they are.
 *
 * Minijinja lets a missing variable pass through filters, comparisons, `~` and `not`, so `Dear {{ name|title }}` would
 * greet no one; and its errors do not name the variable. A guard around a variable solves both problems. Variables
 * are guarded only in forms such as `user.name`, `items[0].price` or `prices[code]`, and only where Jinja would not let
 * them be missing either; calls, slices and very long expressions stay as they are. Some filters are rewritten too,
 * because Jinja gives them arguments that minijinja does not know.
 */
import type { Charge } from './filter-arguments.ts'
import { findPaths, findTags, type Path, type Tag, type Token } from './scan.ts'

/** The filter that a guard calls with the variable's index in `variables`. */
export const MISSING_FILTER = '__missing'

export interface AdaptedSource {
  /** The rewritten template, with the same lines as the source. */
  readonly source: string
  readonly variables: readonly string[]
}

/** Units per token and per tag. Each character written costs one more unit. */
const TOKEN_UNITS = 40

/** A longer tag or path must come from an attack, and is left unchanged. */
const MAX_TOKENS_PER_TAG = 2000
const MAX_NAMES_PER_PATH = 50
const MAX_PATH_LENGTH = 1024

interface Edit {
  /** Offsets of the replaced text. */
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Filters whose result depends on whether the variable exists. */
const FILTERS_FOR_MISSING = new Set(['default', 'd'])
const OPERATORS = new Set(
  ['~', '==', '!=', '<', '>', '<=', '>=', 'and', 'or', 'not', 'in', 'if', 'else'].concat([...'+-*/%', '//', '**']),
)

/** @param charge charges units of work for reading the template */
export function adaptSource(source: string, charge: Charge): AdaptedSource {
  const variables: string[] = []
  const pieces: string[] = []
  let copiedTo = 0
  for (const tag of findTags(source)) {
    charge(TOKEN_UNITS * (tag.tokens.length + 1))
    if (tag.tokens.length > MAX_TOKENS_PER_TAG) continue
    const edits: Edit[] = []
    const from = findExpressionStart(tag)
    for (const path of findPaths(tag)) {
      if (path.first < from) continue
      const { tokens } = tag
      const canBeMissing = isExistenceTested(tokens, path)
      if (!canBeMissing && !mustExist(tag, path, from)) continue
      if (path.end - path.start > MAX_PATH_LENGTH) continue
      const names = listPrefixes(tokens.slice(path.first, path.after))
      if (names.length > MAX_NAMES_PER_PATH) continue
      const needed = canBeMissing ? names.slice(0, -1) : names
      if (needed.length === 0) continue
      const condition = needed.map((name) => `${name} is defined`).join(' and ')
      const guard = ` if ${condition} else ${variables.length}|${MISSING_FILTER})`
      charge(guard.length)
      edits.push({ start: path.start, end: path.start, text: '(' }, { start: path.end, end: path.end, text: guard })
      variables.push(names.at(-1) ?? '')
    }
    edits.push(...createFilterEdits(tag, charge))
    for (const { start, end, text } of edits.sort((a, b) => a.start - b.start)) {
      pieces.push(source.slice(copiedTo, start), text)
      copiedTo = end
    }
  }
  pieces.push(source.slice(copiedTo))
  return { source: pieces.join(''), variables }
}

/**
 * Index of the first token from which a statement reads variables. If the statement reads no variables that must be
 * guarded, this is past the last token.
 */
function findExpressionStart({ type, tokens }: Tag): number {
  if (type === 'print') return 0
  switch (tokens[0]?.text) {
    case 'if':
    case 'elif':
    case 'with':
      return 1
    case 'set':
      return findIndexAfter(tokens, '=')
    case 'for':
      return findIndexAfter(tokens, 'in')
    default:
      return tokens.length
  }
}

function findIndexAfter(tokens: readonly Token[], text: string): number {
  const index = tokens.findIndex((token) => token.text === text)
  return index < 0 ? tokens.length : index + 1
}

/** Whether the template itself tests whether the variable exists. */
function isExistenceTested(tokens: readonly Token[], { after }: Path): boolean {
  const [next, second] = [tokens[after]?.text, tokens[after + 1]?.text]
  return next === 'is' || (next === '|' && FILTERS_FOR_MISSING.has(second ?? ''))
}

/** Whether the value of the variable is used here, not only passed on, as by `set`. */
function mustExist({ type, tokens }: Tag, { first, after }: Path, from: number): boolean {
  const [before, next] = [tokens[first - 1]?.text ?? '', tokens[after]?.text ?? '']
  if (next === '|' || OPERATORS.has(next) || OPERATORS.has(before)) return true
  const isWhole = first === from && after === tokens.length
  return isWhole && (type === 'print' || before === 'elif')
}

/**
 * Lists the prefixes of a path and the variables in its brackets: `a`, `a.b` and `a.b[0]` for `a.b[0]`; `a`, `b` and
 * `a[b]` for `a[b]`. A path with a line break has none.
 */
function listPrefixes(tokens: readonly Token[]): readonly string[] {
  const names: string[] = []
  /** The text before each open bracket. */
  const outer: string[] = []
  let name = ''
  for (const { type, text } of tokens) {
    if (text.includes('\n')) return []
    if (text === '[') {
      outer.push(name + text)
      name = ''
      continue
    }
    name = text === ']' ? `${outer.pop() ?? ''}${name}]` : name + text
    if (type === 'name' || text === ']') names.push(name)
  }
  return names
}

/** How a filter is rewritten: its new name, and the filter appended after it. */
interface FilterRewrite {
  readonly name: string
  readonly followedBy: string
  readonly applies?: (args: readonly Token[]) => boolean
}

const FILTER_REWRITES: ReadonlyMap<string, FilterRewrite> = new Map<string, FilterRewrite>([
  // Our filter returns text in which the values are escaped, so `safe` keeps minijinja from escaping it again.
  ['xmlattr', { name: 'xmlattr', followedBy: 'safe' }],
  // Our filters return text, because minijinja would take a whole number for an integer; minijinja's own `float`
  // converts the text.
  ['float', { name: '__float', followedBy: 'float' }],
  ['round', { name: '__round', followedBy: 'float', applies: (args) => args.some(({ type }) => type === 'string') }],
])
const ATTRIBUTE_FILTERS = new Set(['join', 'sum'])

function createFilterEdits({ tokens }: Tag, charge: Charge): readonly Edit[] {
  const edits: Edit[] = []
  for (const [index, token] of tokens.entries()) {
    if (token.type !== 'name' || tokens[index - 1]?.text !== '|') continue
    const change = FILTER_REWRITES.get(token.text)
    if (!change && !ATTRIBUTE_FILTERS.has(token.text)) continue
    const last = findArgumentsEnd(tokens, index)
    const args = tokens.slice(index + 1, last + 1)
    // Charged for each filter, because nested arguments are read again for each filter around them.
    charge(args.length)
    if (change && change.applies?.(args) !== false) {
      const end = tokens[last]?.end ?? token.end
      edits.push(
        { start: token.start, end: token.end, text: change.name },
        { start: end, end, text: `|${change.followedBy}` },
      )
    }
    if (ATTRIBUTE_FILTERS.has(token.text)) edits.push(...createAttributeEdits(token, args))
  }
  return edits
}

/** Index of the bracket that closes a filter's arguments; the filter's own index if it has none. */
function findArgumentsEnd(tokens: readonly Token[], index: number): number {
  if (tokens[index + 1]?.text !== '(') return index
  let depth = 0
  for (let at = index + 1; at < tokens.length; at++) {
    if (tokens[at]?.text === '(') depth++
    if (tokens[at]?.text === ')') depth--
    if (depth === 0) return at
  }
  return index
}

/** `join(', ', attribute='name')` becomes `map(attribute='name')|join(', ')`. */
function createAttributeEdits(filter: Token, args: readonly Token[]): readonly Edit[] {
  const at = args.findIndex(
    ({ text }, index) => text === 'attribute' && args[index + 1]?.text === '=' && args[index + 2]?.type === 'string',
  )
  const [before, value] = [args[at - 1], args[at + 2]]
  if (at < 0 || !before || !value) return []
  const isFirst = before.text !== ','
  const after = args[at + 3]
  return [
    { start: filter.start, end: filter.start, text: `map(attribute=${value.text})|` },
    {
      start: isFirst ? before.end : before.start,
      end: isFirst && after?.text === ',' ? after.end : value.end,
      text: '',
    },
  ]
}
