import { expect, test } from 'bun:test'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')

test('every file that the README and the docs link to exists', async () => {
  const broken: string[] = []
  for (const page of [
    'README.md',
    'CONTRIBUTING.md',
    'docs/architecture.md',
    'docs/configuration.md',
    'docs/dependencies.md',
    'src/README.md',
  ]) {
    const text = await Bun.file(join(ROOT, page)).text()
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)/g)) {
      if (!(await Bun.file(join(ROOT, page, '..', target)).exists())) broken.push(`${page}: ${target}`)
    }
  }
  expect(broken).toEqual([])
})
