/**
 * @module Reads which rules the tests prove: the comments `// Proves: send-12, send-13` directly above `test` or
 * `describe`, and `# Proves: ...` above a check of scripts/test. Reads text and runs nothing; relies on formatted code,
 * in which `describe` and `test` begin a line and what they contain is indented further.
 */

/** A test, group or check that proves rules. */
export interface Proof {
  readonly ids: readonly string[]
  readonly file: string
  /** The line of the test, from 1. */
  readonly line: number
  /** The text of that line, such as `test('a box opens', () => {`. */
  readonly source: string
}

export interface ProofReading {
  readonly proofs: readonly Proof[]
  /** Problems, each with file and line. */
  readonly problems: readonly string[]
}

interface Opener {
  readonly indent: number
  readonly isGroup: boolean
  readonly isSkipped: boolean
}

interface OpenGroup extends Opener {
  readonly line: number
  /** Whether the group contains a test that is not skipped. */
  hasTest: boolean
}

const ID_LIST = '[a-z]+-\\d+(?:, [a-z]+-\\d+)*'
const PROVES = new RegExp(`^ *(?://|#) Proves: (${ID_LIST})$`)
/** Matches anything that looks like such a comment, also after code but not in a string. */
const LOOKS_LIKE_PROVES = /^[^'"`]*(?:\/\/|\/\*|#)[ *]*proves\s*:/i
const COMMENT = /^ *\/\//
const OPENER = /^( *)([a-z]\w*)((?:\.\w+)*)[<(]/
/** A name for a group or test, such as `const suite = describe.skipIf(!hasPostfix)`. */
const ALIAS = /^const (\w+) = (describe|test|it)\b((?:\.\w+)*)/
const SKIPS = /\.(?:skip|todo)\b/
const CHECK = /^ *check [\w-]+ \d+ \S/

/**
 * Reads the proofs in one file, which is scripts/test or TypeScript. Of TypeScript files, only `*.test.ts` may prove
 * rules.
 */
export function readProofs(file: string, text: string): ProofReading {
  const lines = text.split('\n')
  if (!lines.some((line) => LOOKS_LIKE_PROVES.test(line))) return { proofs: [], problems: [] }
  if (file.endsWith('.test.ts')) return readTestProofs(file, lines)
  if (!file.endsWith('.ts')) return readCheckProofs(file, lines)
  return { proofs: [], problems: [`${file}: only a file *.test.ts can prove a rule`] }
}

function readTestProofs(file: string, lines: readonly string[]): ProofReading {
  const openers = findOpeners(lines)
  const skipped = findSkipped(openers)
  return readComments(file, lines, (start) => {
    const line = findTest(lines, openers, start)
    if (line === undefined) return 'is above no test'
    return skipped.has(line) ? 'is above a test that is skipped' : line
  })
}

function readCheckProofs(file: string, lines: readonly string[]): ProofReading {
  return readComments(file, lines, (start) => (CHECK.test(lines[start] ?? '') ? start : 'is above no check'))
}

/** Collects the comments; `locate` returns the line of the test after a comment, or the problem. */
function readComments(
  file: string,
  lines: readonly string[],
  locate: (start: number) => number | string,
): ProofReading {
  const proofs: Proof[] = []
  const problems: string[] = []
  let ids: string[] = []
  for (const [index, line] of lines.entries()) {
    const list = PROVES.exec(line)?.[1]
    if (list === undefined) {
      if (LOOKS_LIKE_PROVES.test(line)) problems.push(`${file}:${index + 1}: must read "// Proves: id, id"`)
      continue
    }
    ids.push(...list.split(', '))
    if (PROVES.test(lines[index + 1] ?? '')) continue
    const found = locate(index + 1)
    if (typeof found === 'string') problems.push(`${file}:${index + 1}: "Proves: ${ids.join(', ')}" ${found}`)
    else proofs.push({ ids, file, line: found + 1, source: lines[found]?.trim() ?? '' })
    if (new Set(ids).size < ids.length) problems.push(`${file}:${index + 1}: an id is repeated in the comment`)
    ids = []
  }
  return { proofs, problems }
}

/** The lines that open a group or a test. */
function findOpeners(lines: readonly string[]): Map<number, Opener> {
  const kinds = new Map([
    ['describe', { isGroup: true, isSkipped: false }],
    ['test', { isGroup: false, isSkipped: false }],
    ['it', { isGroup: false, isSkipped: false }],
  ])
  const openers = new Map<number, Opener>()
  for (const [index, line] of lines.entries()) {
    const [, alias, kind, modifiers = ''] = ALIAS.exec(line) ?? []
    if (alias) kinds.set(alias, { isGroup: kind === 'describe', isSkipped: SKIPS.test(modifiers) })
    const [, spaces = '', name = '', calls = ''] = OPENER.exec(line) ?? []
    const opened = kinds.get(name)
    if (!opened) continue
    openers.set(index, {
      indent: spaces.length,
      isGroup: opened.isGroup,
      isSkipped: opened.isSkipped || SKIPS.test(calls),
    })
  }
  return openers
}

/** The lines of tests that never run, and of groups without a test that runs. */
function findSkipped(openers: ReadonlyMap<number, Opener>): Set<number> {
  const skipped = new Set<number>()
  const groups: OpenGroup[] = []
  const open: OpenGroup[] = []
  for (const [line, { indent, isGroup, isSkipped }] of openers) {
    while ((open.at(-1)?.indent ?? -1) >= indent) open.pop()
    const isNeverRun = isSkipped || (open.at(-1)?.isSkipped ?? false)
    if (isGroup) {
      const group = { indent, isGroup, isSkipped: isNeverRun, line, hasTest: false }
      groups.push(group)
      open.push(group)
    } else if (isNeverRun) skipped.add(line)
    else for (const group of open) group.hasTest = true
  }
  for (const { line, hasTest } of groups) if (!hasTest) skipped.add(line)
  return skipped
}

/**
 * Finds the test that a comment before line `start` belongs to: in that line, after other comments, or as the body of
 * the loop that begins there, because the formatter moves a comment above a loop without braces.
 */
function findTest(lines: readonly string[], openers: ReadonlyMap<number, Opener>, start: number): number | undefined {
  let line = start
  while (COMMENT.test(lines[line] ?? '')) line++
  while (lines[line]?.trimStart().startsWith('for (')) {
    const indent = measureIndent(lines[line])
    while (line < lines.length && !(measureIndent(lines[line]) === indent && /[)]$|\{$/.test(lines[line] ?? ''))) line++
    if (!lines[line]?.endsWith(')')) return undefined
    line++
  }
  return openers.has(line) ? line : undefined
}

const measureIndent = (line = ''): number => line.length - line.trimStart().length
