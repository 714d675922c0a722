/**
 * @module The names of the tests in a source file, read from its text: nothing is run. Relies on formatted code, in which each `describe` and
 * `test` begins a line and what it contains is indented further. Tests that are always skipped have no name here.
 */

/** Titles from the outermost `describe` to the test; a title made at run time is a pattern. */
export type TitlePath = readonly Title[]

export interface Title {
  /** As written, such as `${rule} is a 422` or `%s, without any session`. */
  readonly source: string
  /** What it becomes at run time; undefined when too little of it is fixed to tell anything. */
  readonly pattern: RegExp | undefined
}

const SEPARATOR = ' › '
/** A pattern with fewer fixed letters than this could be any test. */
const FEWEST_FIXED_LETTERS = 4
const ALIAS = /^const (\w+) = .*\b(describe|test)\b/gm
const LITERAL = /\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/y
/** Between the table of `each`, or the condition of `skipIf`, and the title. */
const SECOND_CALL = /\)\((?=\s*['"`])/g
const PLACEHOLDER = /(\$\{[^}]*\}|%[psdifjoc#])/

/** The names of all tests in `source`. */
export function testTitles(source: string): TitlePath[] {
  const groups = new Set(['describe'])
  const tests = new Set(['test', 'it'])
  for (const [, alias = '', kind] of source.matchAll(ALIAS)) (kind === 'describe' ? groups : tests).add(alias)

  const opener = new RegExp(`^( *)(${[...groups, ...tests].join('|')})((?:\\.\\w+)*)\\(`, 'gm')
  const open: { indent: number; isSkipped: boolean; title: Title }[] = []
  const found: TitlePath[] = []
  for (const match of source.matchAll(opener)) {
    const [text, spaces = '', name = '', modifiers = ''] = match
    const indent = spaces.length
    while ((open.at(-1)?.indent ?? -1) >= indent) open.pop()
    const title = titleAt(source, match.index + text.length, modifiers)
    if (!title) continue
    const isSkipped = /\.(skip|todo)\b/.test(modifiers) || (open.at(-1)?.isSkipped ?? false)
    if (groups.has(name)) open.push({ indent, isSkipped, title })
    else if (!isSkipped) found.push([...open.map((group) => group.title), title])
  }
  return found
}

function titleAt(source: string, position: number, modifiers: string): Title | undefined {
  let start = position
  if (/\.(each|skipIf|if|todoIf)\b/.test(modifiers)) {
    SECOND_CALL.lastIndex = position
    const call = SECOND_CALL.exec(source)
    if (!call) return undefined
    start = call.index + call[0].length
  }
  LITERAL.lastIndex = start
  const literal = LITERAL.exec(source)
  if (!literal) return undefined
  const text = (literal[1] ?? literal[2] ?? literal[3] ?? '').replace(/\\(.)/g, '$1')
  return { source: text, pattern: patternOf(text) }
}

function patternOf(text: string): RegExp | undefined {
  const parts = text.split(PLACEHOLDER)
  const fixed = parts.filter((part) => !PLACEHOLDER.test(part))
  if (fixed.join('').replace(/[^\p{L}\d]/gu, '').length < FEWEST_FIXED_LETTERS) return undefined
  const source = parts.map((part) => (PLACEHOLDER.test(part) ? '.+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
  return new RegExp(`^${source.join('')}$`, 's')
}

/** Whether `name` is the name of a test: its title alone, or with those of the groups around it, `group › test`. */
export function namesTest(path: TitlePath, name: string): boolean {
  return path.some((_, index) => {
    const titles = path.slice(index)
    const names = name.split(SEPARATOR)
    return (
      titles.map((title) => title.source).join(SEPARATOR) === name ||
      (names.length === titles.length && titles.every(({ pattern }, i) => pattern?.test(names[i] ?? '')))
    )
  })
}

/** The full name as it is written in the source. */
export const sourceName = (path: TitlePath): string => path.map((title) => title.source).join(SEPARATOR)
