/**
 * @module Reads the rules of test/conformance/rules.md and which tests prove them: the comments
 * `// Proves: send-12, send-13` directly above `test` or `describe`, and `# Proves: ...` above a check of scripts/test.
 * `bun scripts/conformance.ts` prints each rule with the number of its tests, `bun scripts/conformance.ts send-12` the
 * tests of a rule. Runs no test; relies on formatted code, in which `describe` and `test` begin a line and what they
 * contain is indented further.
 */
import { join } from 'node:path'

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

export interface Rule {
  readonly section: string
  readonly id: string
  readonly sentence: string
}

export interface Conformance {
  readonly rules: readonly Rule[]
  readonly proofs: readonly Proof[]
  /** Problems in the rules or the comments. */
  readonly problems: readonly string[]
}

const ROOT = join(import.meta.dir, '..')
const RULES_FILE = 'test/conformance/rules.md'
const RULE = /^- ([a-z]+-\d+): (\S.*)$/

/** Reads the rules in a Markdown text; a repeated id or a list item that is not a rule is a problem. */
export function parseRules(markdown: string): { rules: Rule[]; problems: string[] } {
  const rules: Rule[] = []
  const problems: string[] = []
  const ids = new Set<string>()
  let section = ''
  for (const [index, line] of markdown.split('\n').entries()) {
    if (line.startsWith('## ')) section = line.slice(3)
    const [, id, sentence] = RULE.exec(line) ?? []
    if (id && sentence) {
      if (ids.has(id)) problems.push(`${RULES_FILE}:${index + 1}: the id ${id} is used twice`)
      ids.add(id)
      rules.push({ section, id, sentence })
    } else if (section !== '' && line !== '' && !line.startsWith('## ')) {
      problems.push(`${RULES_FILE}:${index + 1}: must read "- id: sentence"`)
    }
  }
  return { rules, problems }
}

/** Checks that each id of a proof belongs to a rule and that each rule has a proof. */
export function checkProofs(rules: readonly Rule[], proofs: readonly Proof[]): string[] {
  const known = new Set(rules.map(({ id }) => id))
  const proven = new Set(proofs.flatMap(({ ids }) => ids))
  return [
    ...proofs.flatMap(({ ids, file, line }) =>
      ids.filter((id) => !known.has(id)).map((id) => `${file}:${line}: there is no rule ${id}`),
    ),
    ...rules.filter(({ id }) => !proven.has(id)).map(({ id }) => `no test proves the rule ${id}`),
  ]
}

/** Reads the rules and all tests of the project. */
export async function readConformance(): Promise<Conformance> {
  const { rules, problems } = parseRules(await readText(RULES_FILE))
  const files = [...new Bun.Glob('test/**/*.ts').scanSync({ cwd: ROOT }), 'scripts/test'].sort()
  const readings: ProofReading[] = []
  for (const file of files) readings.push(readProofs(file, await readText(file)))
  const proofs = readings.flatMap((reading) => reading.proofs)
  return {
    rules,
    proofs,
    problems: [...problems, ...readings.flatMap((reading) => reading.problems), ...checkProofs(rules, proofs)],
  }
}

/** Prints all rules with the number of their tests. */
function printRules({ rules, proofs }: Conformance): void {
  const counts = new Map<string, number>()
  for (const id of proofs.flatMap(({ ids }) => ids)) counts.set(id, (counts.get(id) ?? 0) + 1)
  for (const [index, { section, id, sentence }] of rules.entries()) {
    if (rules[index - 1]?.section !== section) console.log(`\n## ${section}\n`)
    console.log(`${id} (${counts.get(id) ?? 0}): ${sentence}`)
  }
}

const readText = (file: string): Promise<string> => Bun.file(join(ROOT, file)).text()

/** Prints a rule and the tests that prove it. */
function printRule({ rules, proofs }: Conformance, requestedId: string): void {
  const rule = rules.find(({ id }) => id === requestedId)
  if (!rule) throw new Error(`there is no rule ${requestedId}`)
  console.log(`${rule.id}: ${rule.sentence}`)
  for (const { ids, file, line, source } of proofs)
    if (ids.includes(requestedId)) console.log(`${file}:${line}: ${source}`)
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
const CHECK = /^ *(?:check|begin) [\w-]+ \d+ \S/

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

if (import.meta.main) {
  const requestedId = process.argv[2]
  try {
    const conformance = await readConformance()
    if (conformance.problems.length > 0) throw new Error(conformance.problems.join('\n'))
    if (requestedId === undefined) printRules(conformance)
    else printRule(conformance, requestedId)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
