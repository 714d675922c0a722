/** @module The consistency rules that the features declare are those that `tassis check` checks. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { CONSISTENCY_RULES } from '#app/consistency-rules.ts'

const ROOT = join(import.meta.dir, '../..')

/** Every exported rule, by file and name. */
async function declaredRules(): Promise<ReadonlyMap<string, unknown>> {
  const rules = new Map<string, unknown>()
  for (const file of new Bun.Glob('src/features/*/*/consistency.ts').scanSync(ROOT)) {
    const exported = (await import(join(ROOT, file))) as Readonly<Record<string, unknown>>
    for (const [name, value] of Object.entries(exported))
      if (typeof value === 'object') rules.set(`${file} ${name}`, value)
  }
  return rules
}

test('every consistency rule that a feature exports is checked once', async () => {
  const declared = await declaredRules()
  const checked = new Set<unknown>(CONSISTENCY_RULES)
  expect([...declared].filter(([, rule]) => !checked.has(rule)).map(([name]) => name)).toEqual([])
  expect(CONSISTENCY_RULES.length).toBe(checked.size)
  expect(CONSISTENCY_RULES.length).toBe(declared.size)
})

test('no two consistency rules are the same statement', () => {
  const statements = CONSISTENCY_RULES.map(({ rule }) => rule)
  expect(statements).toEqual([...new Set(statements)])
})
