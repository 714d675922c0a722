/**
 * @module Finds every regular expression in src: literals from TypeScript's syntax trees, and those that modules build
 * while they are imported.
 */
import { join } from 'node:path'
import type { Node } from 'typescript/unstable/ast'
import { isCallExpression, isIdentifier, isNewExpression, isRegularExpressionLiteral } from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/async'

const ROOT = join(import.meta.dir, '../..')
const SOURCES = `${join(ROOT, 'src')}/`

export interface FoundRegex {
  /** `features/sending/accept/draft.ts:74`, below src. */
  readonly place: string
  readonly source: string
  readonly flags: string
}

export interface FoundRegexes {
  readonly literals: readonly FoundRegex[]
  /** Places of `new RegExp(…)`. */
  readonly built: readonly string[]
}

/** Finds the expressions in the sources. Skips files for which `isExcluded` returns true. */
export async function findRegexes(isExcluded: (file: string) => boolean): Promise<FoundRegexes> {
  const api = new API({ cwd: ROOT })
  try {
    const literals: FoundRegex[] = []
    const built: string[] = []
    const snapshot = await api.updateSnapshot({ openProject: join(ROOT, 'tsconfig.json') })
    for (const project of snapshot.getProjects()) {
      for (const name of await project.program.getSourceFileNames()) {
        if (!name.startsWith(SOURCES) || isExcluded(name.slice(SOURCES.length))) continue
        const file = await project.program.getSourceFile(name)
        if (!file) throw new Error(`no syntax tree of ${name}`)
        const placeOf = ({ end }: Node) => `${name.slice(SOURCES.length)}:${file.text.slice(0, end).split('\n').length}`
        const visit = (node: Node): undefined => {
          if (isRegularExpressionLiteral(node)) {
            const end = node.text.lastIndexOf('/')
            const [source, flags] = [node.text.slice(1, end), node.text.slice(end + 1)]
            literals.push({ place: placeOf(node), source, flags })
          } else if (isNewExpression(node) || isCallExpression(node)) {
            if (isIdentifier(node.expression) && node.expression.text === 'RegExp') built.push(placeOf(node.expression))
          }
          node.forEachChild(visit)
        }
        visit(file)
      }
    }
    return { literals, built }
  } finally {
    await api.close()
  }
}

/**
 * Records the regular expressions that modules build while they are imported, in a process of its own. @param files
 * below src
 */
export async function recordBuiltOnImport(files: readonly string[]): Promise<FoundRegex[]> {
  const recorder = join(import.meta.dir, 'record.ts')
  await using child = Bun.spawn([process.execPath, recorder, SOURCES, ...files], { cwd: ROOT, stderr: 'inherit' })
  const found: unknown = JSON.parse(await child.stdout.text())
  if ((await child.exited) !== 0) throw new Error('modules could not be imported')
  return found as FoundRegex[]
}
