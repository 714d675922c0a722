/** @module Faults that a template has for certain although it compiles: names of filters and tests that nobody has, and statements that need other templates. */
import { faultAt } from './faults.ts'
import type { TemplateFault, TemplatePart } from './renderer.ts'
import { type Tag, type Token, tagsOf } from './scan.ts'

/** They read other templates, and there are none. */
const OF_OTHER_TEMPLATES = new Set(['include', 'extends', 'import', 'from'])

export interface KnownNames {
  isFilter(name: string): boolean
  isTest(name: string): boolean
}

/** The first such fault; undefined: none. */
export function lint(part: TemplatePart, source: string, known: KnownNames): TemplateFault | undefined {
  for (const tag of tagsOf(source)) {
    const [keyword] = tag.tokens
    if (tag.type === 'statement' && keyword && OF_OTHER_TEMPLATES.has(keyword.text))
      return faultAt(
        part,
        lineOf(source, keyword),
        'syntax',
        `"${keyword.text}" is not available, a template stands by itself`,
      )
    for (const [token, kind] of namesIn(tag)) {
      const isKnown = kind === 'filter' ? known.isFilter(token.text) : known.isTest(token.text)
      if (!isKnown) return faultAt(part, lineOf(source, token), 'syntax', `the ${kind} "${token.text}" is unknown`)
    }
  }
  return undefined
}

function* namesIn({ type, tokens }: Tag): Generator<readonly [Token, 'filter' | 'test']> {
  for (const [index, token] of tokens.entries()) {
    if (token.type !== 'name') continue
    const [before, first] = [tokens[index - 1], tokens[index - 2]]
    if (before?.text === '|' || (index === 1 && type === 'statement' && before?.text === 'filter'))
      yield [token, 'filter']
    const isTested = before?.text === 'is' || (before?.text === 'not' && first?.text === 'is')
    // `x is not none`: the name is the one behind `not`. What is called `is` in a mapping or behind a point is no operator.
    if (isTested && token.text !== 'not' && before?.type === 'name') yield [token, 'test']
  }
}

const lineOf = (source: string, { start }: Token): number => source.slice(0, start).split('\n').length
