import { expect, test } from 'bun:test'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const readme = await Bun.file(join(ROOT, 'README.md')).text()

test('the README says why of every dependency', async () => {
  const manifest = await Bun.file(join(ROOT, 'package.json')).json()
  const rows = readme.split('\n').filter((line) => line.startsWith('| '))
  const unexplained = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.devDependencies)].filter(
    (name) => !name.startsWith('@types/') && !rows.some((row) => row.split('|')[1]?.includes(name)),
  )
  expect(unexplained).toEqual([])
})

test('every dependency has an exact version', async () => {
  const manifest = await Bun.file(join(ROOT, 'package.json')).json()
  const versions = Object.values<string>({ ...manifest.dependencies, ...manifest.devDependencies })
  expect(versions.filter((version) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([])
})

test('every file that the README and the docs link to exists', async () => {
  const broken: string[] = []
  for (const page of [
    'README.md',
    'CONTRIBUTING.md',
    'docs/architecture.md',
    'docs/configuration.md',
    'src/README.md',
  ]) {
    const text = await Bun.file(join(ROOT, page)).text()
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)/g)) {
      if (!(await Bun.file(join(ROOT, page, '..', target)).exists())) broken.push(`${page}: ${target}`)
    }
  }
  expect(broken).toEqual([])
})
