/**
 * @module Generates docs/conformance.md from test/conformance/rules.md and the comments `Proves:` of the tests.
 * `bun scripts/conformance.ts` writes it, and `bun scripts/conformance.ts send-12` lists the tests that prove a rule.
 * test/conformance.test.ts checks that the document is up to date.
 */
import { join } from 'node:path'
import { type Proof, type ProofReading, readProofs } from './proofs.ts'

export interface Rule {
  readonly section: string
  readonly id: string
  readonly sentence: string
}

export interface Conformance {
  readonly rules: readonly Rule[]
  readonly proofs: readonly Proof[]
  /** Problems in the rules or the comments; the document is written only if there are none. */
  readonly problems: readonly string[]
}

const ROOT = join(import.meta.dir, '..')
const RULES_FILE = 'test/conformance/rules.md'
const DOCUMENT_FILE = 'docs/conformance.md'
const RULE = /^- ([a-z]+-\d+): (\S.*)$/
const INTRODUCTION = `# Conformance

Every endpoint, status, field, rule and limit of the interface and of its contract, with the number of tests that prove
it. Made by \`bun scripts/conformance.ts\` from \`${RULES_FILE}\` and the comments above the tests: do not edit it.
The tests of a rule: \`bun scripts/conformance.ts send-12\`, or \`grep -rnw "Proves:.*send-12" test scripts/test\`.
`

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

/** Formats the document: one table per section, one line per rule. */
export function formatDocument({ rules, proofs }: Pick<Conformance, 'rules' | 'proofs'>): string {
  const counts = new Map<string, number>()
  for (const id of proofs.flatMap(({ ids }) => ids)) counts.set(id, (counts.get(id) ?? 0) + 1)
  const lines: string[] = []
  for (const [index, { section, id, sentence }] of rules.entries()) {
    if (rules[index - 1]?.section !== section) lines.push('', `## ${section}`, '', 'Id|Rule|Tests', '-|-|-')
    lines.push(`${id}|${sentence.replaceAll('|', '\\|')}|${counts.get(id) ?? 0}`)
  }
  return `${INTRODUCTION}${lines.join('\n')}\n`
}

const readText = (file: string): Promise<string> => Bun.file(join(ROOT, file)).text()

/** Reads the stored document. */
export const readDocument = (): Promise<string> => readText(DOCUMENT_FILE)

/** Prints a rule and the tests that prove it. */
function printRule({ rules, proofs }: Conformance, requestedId: string): void {
  const rule = rules.find(({ id }) => id === requestedId)
  if (!rule) throw new Error(`there is no rule ${requestedId}`)
  console.log(`${rule.id}: ${rule.sentence}`)
  for (const { ids, file, line, source } of proofs)
    if (ids.includes(requestedId)) console.log(`${file}:${line}: ${source}`)
}

async function writeDocument(conformance: Conformance): Promise<void> {
  if (conformance.problems.length > 0) throw new Error(conformance.problems.join('\n'))
  await Bun.write(join(ROOT, DOCUMENT_FILE), formatDocument(conformance))
}

if (import.meta.main) {
  const requestedId = process.argv[2]
  try {
    const conformance = await readConformance()
    if (requestedId === undefined) await writeDocument(conformance)
    else printRule(conformance, requestedId)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
