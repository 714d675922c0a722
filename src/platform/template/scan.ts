/**
 * @module Finds the tags of a template and their tokens, which minijinja does not expose. The result may be wrong for
 * templates that do not compile; nothing critical depends on it.
 */

export interface Token {
  /** `name` includes keywords. */
  readonly type: 'name' | 'string' | 'number' | 'operator'
  readonly text: string
  /** Offsets in the source. */
  readonly start: number
  readonly end: number
}

export interface Tag {
  /** `{{ … }}` or `{% … %}` */
  readonly type: 'print' | 'statement'
  readonly tokens: readonly Token[]
}

const OPENING = /\{\{|\{%|\{#/g
const RAW = /[-+]?\s*raw\s*[-+]?%\}/y
const RAW_END = /\{%[-+]?\s*endraw\s*[-+]?%\}/g
const TOKEN =
  /\s+|(?<string>"[^"\\]*(?:\\[\s\S]?[^"\\]*)*"?|'[^'\\]*(?:\\[\s\S]?[^'\\]*)*'?)|(?<name>[A-Za-z_][A-Za-z0-9_]*)|(?<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?<operator>\/\/|\*\*|==|!=|<=|>=|[\s\S])/y

/** A tag with more tokens cannot compile, because the work budget is too small for it. */
const MAX_TOKENS_PER_TAG = 50_000

export function* findTags(source: string): Generator<Tag> {
  let at = 0
  for (;;) {
    OPENING.lastIndex = at
    const opening = OPENING.exec(source)
    if (!opening) return
    at = opening.index + 2
    if (opening[0] === '{#') {
      const end = source.indexOf('#}', at)
      if (end < 0) return
      at = end + 2
      continue
    }
    RAW.lastIndex = at
    if (opening[0] === '{%' && RAW.test(source)) {
      RAW_END.lastIndex = RAW.lastIndex
      if (!RAW_END.test(source)) return
      at = RAW_END.lastIndex
      continue
    }
    const type = opening[0] === '{{' ? 'print' : 'statement'
    // `{{-` and `{%+` control the white space before the tag.
    if (source[at] === '-' || source[at] === '+') at++
    const { tokens, end } = readTokensUntil(source, at, type === 'print' ? '}}' : '%}')
    yield { type, tokens }
    at = end
  }
}

/**
 * Reads the tokens from `from` to the end of the tag. Inner brackets must close before the tag ends, as in a mapping
 * that ends with `}}`.
 */
function readTokensUntil(source: string, from: number, ending: string): { tokens: Token[]; end: number } {
  const tokens: Token[] = []
  let at = from
  let depth = 0
  while (at < source.length) {
    if (depth <= 0) {
      if (source.startsWith(ending, at)) return { tokens, end: at + 2 }
      const next = source[at]
      if ((next === '-' || next === '+') && source.startsWith(ending, at + 1)) return { tokens, end: at + 3 }
    }
    TOKEN.lastIndex = at
    const match = TOKEN.exec(source)
    if (!match?.groups) break
    const [text] = match
    const { string, name, number, operator } = match.groups
    const end = at + text.length
    if (operator !== undefined) {
      if ('([{'.includes(operator)) depth++
      else if (')]}'.includes(operator)) depth--
    }
    const type = string ? 'string' : name ? 'name' : number ? 'number' : 'operator'
    if (string ?? name ?? number ?? operator) tokens.push({ type, text, start: at, end })
    if (tokens.length > MAX_TOKENS_PER_TAG) break
    at = end
  }
  return { tokens, end: source.length }
}

/** A variable as written in the source: `user.name`, `items[0].price`, `prices[order.currency]`. */
export interface Path {
  readonly start: number
  readonly end: number
  /** Indexes of the path's first token and of the token after the path. */
  readonly first: number
  readonly after: number
}

const KEYWORDS = new Set('and or not if else in is true false none True False None recursive as'.split(' '))

/** The variables in a tag. Names of filters, tests, named arguments and called functions are not variables. */
export function* findPaths({ tokens }: Tag): Generator<Path> {
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]
    if (token?.type !== 'name' || KEYWORDS.has(token.text)) continue
    const first = index
    const last = findPathEnd(tokens, index)
    index = last
    const before = tokens[first - 1]?.text
    const isTest = before === 'is' || (before === 'not' && tokens[first - 2]?.text === 'is')
    const next = tokens[last + 1]?.text
    if (before === '.' || before === '|' || isTest || next === '(' || next === '[' || next === '=' || next === '.')
      continue
    yield { start: token.start, end: tokens[last]?.end ?? token.end, first, after: last + 1 }
  }
}

/** Index of the last token of the path that begins at `first`. */
function findPathEnd(tokens: readonly Token[], first: number): number {
  let last = first
  for (;;) {
    const [a, b, c] = [tokens[last + 1], tokens[last + 2], tokens[last + 3]]
    if (a?.text === '.' && b?.type === 'name') last += 2
    else if (a?.text === '[' && (b?.type === 'string' || b?.type === 'number') && c?.text === ']') last += 3
    else if (a?.text === '[' && b?.type === 'name' && !KEYWORDS.has(b.text)) {
      const end = findNamesEnd(tokens, last + 2) + 1
      if (tokens[end]?.text !== ']') return last
      last = end
    } else return last
  }
}

/** Index of the last token of `a.b.c`. */
function findNamesEnd(tokens: readonly Token[], first: number): number {
  let last = first
  while (tokens[last + 1]?.text === '.' && tokens[last + 2]?.type === 'name') last += 2
  return last
}
