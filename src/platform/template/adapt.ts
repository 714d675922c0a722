/**
 * @module Rewrites a template, as it is handed to minijinja, so that it works as in Jinja with StrictUndefined. Lines stay where they are.
 *
 * Minijinja lets a variable that is missing pass through filters, comparisons, `~` and `not`, so `Dear {{ name|title }}` would greet nobody; and its
 * faults do not name the variable. A variable gets a guard around it that does both. Only where it stands as `user.name`, `items[0].price` or `prices[code]`;
 * what is in calls and slices stays as it is, and so does what is very long. And some filters take arguments in Jinja that they do not take here.
 */
import type { Charge } from './filter-arguments.ts'
import { findPaths, findTags, type Path, type Tag, type Token } from './scan.ts'

/** The filter behind a guard; it gets the index of the variable in `variables`. */
export const MISSING_FILTER = '__missing'

export interface AdaptedSource {
  /** With the same lines. */
  readonly source: string
  readonly variables: readonly string[]
}

export interface AdaptOptions {
  /** Guards around all variables: to find the one that is missing. Otherwise only where minijinja would let it pass. */
  readonly guardsAll: boolean
  /** Takes units of work for what is read. */
  readonly charge: Charge
}

/** Units for a token that is read, and for a tag; one more for each character that is written. */
const TOKEN_UNITS = 40

/** What is longer was made to be long, and stays as it is. */
const MAX_TOKENS_PER_TAG = 2000
const MAX_NAMES_PER_PATH = 50
const MAX_PATH_LENGTH = 1024

interface Edit {
  /** Offsets of what is replaced. */
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Their answer depends on whether the variable is there. */
const FILTERS_FOR_MISSING = new Set(['default', 'd'])
const OPERATORS = ['~', '==', '!=', '<', '>', '<=', '>=', 'and', 'or', 'not', '+', '-', '*', '/', '//', '%', '**']
const OPERATORS_BEFORE = new Set(OPERATORS)
const OPERATORS_AFTER = new Set([...OPERATORS, 'in'])

export function adaptSource(source: string, { guardsAll: isForAll, charge }: AdaptOptions): AdaptedSource {
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
      if (!isForAll && (canBeMissing || !isMissingTolerated(tokens, path))) continue
      if (path.end - path.start > MAX_PATH_LENGTH) continue
      const names = listPrefixes(tokens.slice(path.first, path.after))
      if (names.length > MAX_NAMES_PER_PATH) continue
      const needed = canBeMissing ? names.slice(0, -1) : isForAll ? names : names.slice(-1)
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

/** Index of the first token at which a statement reads variables; beyond the last when it reads none that are looked at. */
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

/** Whether the template asks if it is there. */
function isExistenceTested(tokens: readonly Token[], { after }: Path): boolean {
  const [next, second] = [tokens[after]?.text, tokens[after + 1]?.text]
  return next === 'is' || (next === '|' && FILTERS_FOR_MISSING.has(second ?? ''))
}

/** Whether minijinja goes on although it is missing. */
const isMissingTolerated = (tokens: readonly Token[], { first, after }: Path): boolean =>
  tokens[after]?.text === '|' ||
  OPERATORS_AFTER.has(tokens[after]?.text ?? '') ||
  OPERATORS_BEFORE.has(tokens[first - 1]?.text ?? '')

/** `a`, `a.b` and `a.b[0]` of `a.b[0]`; `a`, `b` and `a[b]` of `a[b]`; none of one with a line break in it. */
function listPrefixes(tokens: readonly Token[]): readonly string[] {
  const names: string[] = []
  /** What stands before brackets that are open. */
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

/** What becomes of filters: another name for them, and a filter that is put behind them. */
interface FilterRewrite {
  readonly name: string
  readonly followedBy: string
  readonly applies?: (args: readonly Token[]) => boolean
}

const FILTER_REWRITES: ReadonlyMap<string, FilterRewrite> = new Map<string, FilterRewrite>([
  // Ours gives text, and escapes what it puts into it.
  ['xmlattr', { name: 'xmlattr', followedBy: 'safe' }],
  // What ours gives is a whole number to minijinja when it is one.
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
    // Where they lie in each other, the inner ones are read with each of the outer ones.
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

/** Index of the bracket that closes the arguments behind a name; its own without any. */
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
