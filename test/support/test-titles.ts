/**
 * @module The names of the tests in a source file, read from its text: nothing is run. Relies on formatted code, in which each `describe` and
 * `test` begins a line and what it contains is indented further. Tests that are always skipped have no name here.
 */

/** Titles from the outermost `describe` to the test; a title made at run time is a pattern. */
export type TitlePath = readonly Title[]

export interface Title {
  /** As written, such as `${rule} is a 422` or `%s, without any session`. */
  readonly source: string
  /** What it becomes at run time. */
  readonly pattern: RegExp
  readonly fixedLetters: number
}

const SEPARATOR = ' › '
/** A name that is told by fewer fixed letters than this could be that of any test. */
const FEWEST_FIXED_LETTERS = 4
const ALIAS = /^const (\w+) = .*\b(describe|test)\b/gm
const LITERAL = /\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`)/y
const EXPRESSION = /\s*([\w.]+)\s*,/y
/** Between the table of `each`, or the condition of `skipIf`, and the title. */
const SECOND_CALL = /\)\((?=\s*['"`])/g
/** The types of a table that says them: `each<[string, (box: Box) => void]>`. */
const TYPES = '(?:<[^]*?>(?=\\())?'
const PLACEHOLDER = /(\$\{[^}]*\}|%[psdifjoc#])/

/** The names of all tests in `source`. */
export function testTitles(source: string): TitlePath[] {
  const groups = new Set(['describe'])
  const tests = new Set(['test', 'it'])
  for (const [, alias = '', kind] of source.matchAll(ALIAS)) (kind === 'describe' ? groups : tests).add(alias)

  const opener = new RegExp(`^( *)(${[...groups, ...tests].join('|')})((?:\\.\\w+)*)${TYPES}\\(`, 'gm')
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
  const literal = matchAt(LITERAL, source, start)
  if (literal) return titleOf((literal[1] ?? literal[2] ?? literal[3] ?? '').replace(/\\(.)/g, '$1'))
  const expression = matchAt(EXPRESSION, source, start)
  return expression ? titleOf(`\${${expression[1]}}`) : undefined
}

function matchAt(pattern: RegExp, source: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position
  return pattern.exec(source)
}

function titleOf(text: string): Title {
  const parts = text.split(PLACEHOLDER)
  const fixed = parts.filter((part) => !PLACEHOLDER.test(part)).join('')
  const pattern = parts.map((part) => (PLACEHOLDER.test(part) ? '.+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
  return {
    source: text,
    pattern: new RegExp(`^${pattern.join('')}$`, 's'),
    fixedLetters: fixed.replace(/[^\p{L}\d]/gu, '').length,
  }
}

/** Whether `name` is the name of a test: its title alone, or with those of the groups around it, `group › test`. */
export function namesTest(path: TitlePath, name: string): boolean {
  return path.some((_, index) => {
    const titles = path.slice(index)
    const names = name.split(SEPARATOR)
    const fixedLetters = titles.reduce((sum, title) => sum + title.fixedLetters, 0)
    return (
      names.length === titles.length &&
      fixedLetters >= FEWEST_FIXED_LETTERS &&
      titles.every(({ source, pattern }, i) => names[i] === source || pattern.test(names[i] ?? ''))
    )
  })
}

/** The full name as it is written in the source. */
export const sourceName = (path: TitlePath): string => path.map((title) => title.source).join(SEPARATOR)
