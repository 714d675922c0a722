/** @module Tests that the program reads exactly the settings that the platform and the features declare. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { loadConfig, SETTING_GROUPS } from '#app/settings.ts'
import type { Settings } from '#platform/config.ts'

const ROOT = join(import.meta.dir, '../..')

/** Finds every exported group of settings, by file and name. */
async function declaredGroups(): Promise<ReadonlyMap<string, Settings>> {
  const groups = new Map<string, Settings>()
  for (const file of new Bun.Glob('src/**/settings.ts').scanSync(ROOT)) {
    if (/^src\/(?:app\/settings\.ts|dashboard\/)/.test(file)) continue
    const exported = (await import(join(ROOT, file))) as Readonly<Record<string, Settings | (() => void)>>
    for (const [name, group] of Object.entries(exported))
      if (typeof group === 'object') groups.set(`${file} ${name}`, group)
  }
  return groups
}

test('the settings of the program contain every group that a settings.ts exports exactly once', async () => {
  const declared = await declaredGroups()
  const joined = SETTING_GROUPS.map(({ settings }) => settings)
  expect([...declared].filter(([, group]) => !joined.includes(group)).map(([name]) => name)).toEqual([])
  expect(new Set(joined).size).toBe(joined.length)
  expect(joined.length).toBe(declared.size)
})

test('no two groups declare the same setting', () => {
  const names = SETTING_GROUPS.flatMap(({ settings }) => Object.keys(settings))
  expect(names).toEqual([...new Set(names)])
  expect(loadConfig({}).report.map(({ name }) => String(name))).toEqual(names)
})
