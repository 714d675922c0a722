/**
 * @module Finds certain errors in templates that compile: unknown filters and tests, and statements that need other
 * templates.
 */
import { createFaultAt } from './faults.ts'
import type { TemplateFault, TemplatePart } from './renderer.ts'
import { findTags, type Tag, type Token } from './scan.ts'

/** Statements that read other templates. They are errors, because a template is always rendered alone. */
const CROSS_TEMPLATE_STATEMENTS = new Set(['include', 'extends', 'import', 'from'])

/** Whether there is a filter or test with this name. */
export type IsKnown = (kind: 'filter' | 'test', name: string) => boolean

/** Filters that take the name of a filter or test as text, in their first or second argument. */
const FILTERS_TAKING_NAMES: ReadonlyMap<string, { readonly kind: 'filter' | 'test'; readonly place: 0 | 1 }> = new Map([
  ['map', { kind: 'filter', place: 0 }],
  ['select', { kind: 'test', place: 0 }],
  ['reject', { kind: 'test', place: 0 }],
  ['selectattr', { kind: 'test', place: 1 }],
  ['rejectattr', { kind: 'test', place: 1 }],
] as const)

/** Returns the first error found; undefined: there is none. */
export function lint(part: TemplatePart, source: string, isKnown: IsKnown): TemplateFault | undefined {
  for (const tag of findTags(source)) {
    const [keyword] = tag.tokens
    if (tag.type === 'statement' && keyword && CROSS_TEMPLATE_STATEMENTS.has(keyword.text))
      return createFaultAt(
        part,
        lineOf(source, keyword),
        'syntax',
        `"${keyword.text}" is not available: a template cannot use other templates`,
      )
    for (const [token, kind] of [...findNames(tag), ...findQuotedNames(tag)]) {
      const name = token.type === 'string' ? token.text.slice(1, -1) : token.text
      if (!isKnown(kind, name))
        return createFaultAt(part, lineOf(source, token), 'syntax', `the ${kind} "${name}" is unknown`)
    }
  }
  return undefined
}

function* findNames({ type, tokens }: Tag): Generator<readonly [Token, 'filter' | 'test']> {
  for (const [index, token] of tokens.entries()) {
    if (token.type !== 'name') continue
    const [before, first] = [tokens[index - 1], tokens[index - 2]]
    if (before?.text === '|' || (index === 1 && type === 'statement' && before?.text === 'filter'))
      yield [token, 'filter']
    const isTested = before?.text === 'is' || (before?.text === 'not' && first?.text === 'is')
    // In `x is not none` the test's name follows `not`. An `is` that is a mapping key or follows a dot is not an
    // operator.
    if (isTested && token.text !== 'not' && before?.type === 'name') yield [token, 'test']
  }
}

/** Finds names in texts: `map("upper")`, `selectattr("price", "gt", 5)`. */
function* findQuotedNames({ tokens }: Tag): Generator<readonly [Token, 'filter' | 'test']> {
  for (const [index, { text }] of tokens.entries()) {
    const found =
      tokens[index - 1]?.text === '|' && tokens[index + 1]?.text === '(' ? FILTERS_TAKING_NAMES.get(text) : undefined
    if (!found) continue
    const at = index + 2 + 2 * found.place
    const [before, token, next] = [tokens[at - 1], tokens[at], tokens[at + 1]]
    const isArgument = before?.text === (found.place === 0 ? '(' : ',') && (next?.text === ',' || next?.text === ')')
    if (isArgument && token?.type === 'string' && /^.[A-Za-z_]\w*.$/.test(token.text)) yield [token, found.kind]
  }
}

const lineOf = (source: string, { start }: Token): number => source.slice(0, start).split('\n').length
