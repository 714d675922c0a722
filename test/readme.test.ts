import { expect, test } from 'bun:test'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dir, '..')

const PAGES = ['README.md', 'CONTRIBUTING.md', ...[...new Bun.Glob('{docs,src}/**/*.md').scanSync(ROOT)].toSorted()]

const read = (page: string): Promise<string> => Bun.file(join(ROOT, page)).text()

/** Returns the text of a page without its code blocks. */
const readProse = async (page: string): Promise<string> => (await read(page)).replaceAll(/^ *```.*?^ *```$/gms, '')

/** Returns the anchors of a page's headings, as GitHub forms them. */
const anchorsOf = async (page: string): Promise<ReadonlySet<string>> =>
  new Set(
    [...(await readProse(page)).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )

test('the README has at most 8,000 bytes', () => {
  expect(Bun.file(join(ROOT, 'README.md')).size).toBeLessThanOrEqual(8000)
})

test('every file that the README and the docs link to exists', async () => {
  const broken: string[] = []
  for (const page of PAGES) {
    const text = await Bun.file(join(ROOT, page)).text()
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)/g)) {
      if (!(await Bun.file(join(ROOT, page, '..', target)).exists())) broken.push(`${page}: ${target}`)
    }
  }
  expect(broken).toEqual([])
})

test('every heading that the README and the docs link to exists', async () => {
  const broken: string[] = []
  for (const page of PAGES) {
    for (const [, file = '', anchor = ''] of (await readProse(page)).matchAll(/\]\(([\w./-]*\.md)?#([^)]+)\)/g)) {
      const target = file === '' ? page : join(dirname(page), file)
      if (!(await anchorsOf(target)).has(anchor)) broken.push(`${page}: ${file}#${anchor}`)
    }
  }
  expect(broken).toEqual([])
})

test('the index of the docs lists every document', async () => {
  const index = await read('docs/README.md')
  const documents = [...new Bun.Glob('*.md').scanSync(join(ROOT, 'docs'))].filter((name) => name !== 'README.md')
  expect(documents.filter((name) => !index.includes(`](${name})`))).toEqual([])
})
