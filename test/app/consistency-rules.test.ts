/** @module Tests that `tassis check` checks exactly the consistency rules that the features declare. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { CONSISTENCY_RULES } from '#app/cli/check.ts'

const ROOT = join(import.meta.dir, '../..')

/** Finds every exported rule, by file and name. */
async function declaredRules(): Promise<ReadonlyMap<string, unknown>> {
  const rules = new Map<string, unknown>()
  for (const file of new Bun.Glob('src/features/*/*/**/consistency.ts').scanSync(ROOT)) {
    const exported = (await import(join(ROOT, file))) as Readonly<Record<string, unknown>>
    for (const [name, value] of Object.entries(exported))
      if (typeof value === 'object') rules.set(`${file} ${name}`, value)
  }
  return rules
}

test('`tassis check` checks every exported consistency rule once', async () => {
  const declared = await declaredRules()
  const checked = new Set<unknown>(CONSISTENCY_RULES)
  expect([...declared].filter(([, rule]) => !checked.has(rule)).map(([name]) => name)).toEqual([])
  expect(CONSISTENCY_RULES.length).toBe(checked.size)
  expect(CONSISTENCY_RULES.length).toBe(declared.size)
})

test('no two consistency rules have the same text', () => {
  const statements = CONSISTENCY_RULES.map(({ rule }) => rule)
  expect(statements).toEqual([...new Set(statements)])
})
