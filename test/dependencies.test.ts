/**
 * @module Tests that docs/dependencies.md lists every package of package.json with exact version, licence and reasons.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { listUnexplained, readDependencies, withDependenciesTable } from '../scripts/dependencies-table.ts'

const document = await Bun.file(join(import.meta.dir, '../docs/dependencies.md')).text()
const dependencies = await readDependencies()

/** Used by tests only, unchanged, and part of nothing that is distributed: axe-core is MPL-2.0. */
const TEST_TOOLS_OF_OTHER_LICENCES = ['axe-core']
/** Licences that require only a notice; OFL-1.1, of fonts, also that the font is not sold alone. The maintainers must approve any other one first. */
const PERMISSIVE = [
  '(MIT OR EUPL-1.1+)',
  'Apache-2.0',
  'BSD-2-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT OR Apache-2.0',
  'MIT-0',
  'OFL-1.1',
  'Unlicense',
]

test('docs/dependencies.md lists every dependency with its version and licence (bun scripts/dependencies-table.ts)', () => {
  expect(document).toBe(withDependenciesTable(document, dependencies))
})

test('docs/dependencies.md gives the purpose of every dependency and the reason for its choice', () => {
  expect(listUnexplained(document)).toEqual([])
})

test('every dependency has an exact version', () => {
  expect(dependencies.filter(({ version }) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([])
})

test('every dependency has a permissive licence, except test tools that are named here', () => {
  const isAllowed = ({ name, licence, isForDevelopment }: (typeof dependencies)[number]) =>
    PERMISSIVE.includes(licence) || (isForDevelopment && TEST_TOOLS_OF_OTHER_LICENCES.includes(name))
  expect(dependencies.filter((dependency) => !isAllowed(dependency))).toEqual([])
})

test('the script adds missing packages to the table and updates wrong versions and licences', () => {
  const one = { name: 'one', version: '1.0.0', licence: 'MIT', isForDevelopment: false }
  const table = withDependenciesTable(
    'Before.\n\n| Package | Version | Licence | Used for | Why this one |\n|---|---|---|---|---|\n\nAfter.\n',
    [one],
  )
  const explained = table.replace('MIT |  |  |', 'MIT | counting | it counts |')
  expect(listUnexplained(table)).toEqual(['one'])
  expect(listUnexplained(explained)).toEqual([])
  const two = { name: 'two', version: '2.0.0', licence: 'ISC', isForDevelopment: true }
  const updated = withDependenciesTable(explained, [{ ...one, version: '1.1.0', licence: 'ISC' }, two])
  expect(updated).toContain(
    '| `one` | 1.1.0 | ISC | counting | it counts |\n| `two` (development) | 2.0.0 | ISC |  |  |\n\nAfter.',
  )
  expect(withDependenciesTable(updated, [two])).not.toContain('`one`')
})
