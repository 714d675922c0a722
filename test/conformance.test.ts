/**
 * @module Keeps docs/conformance.md true: every row says which test proves it or that it is open, every such test exists, and every route of
 * the service is in a row.
 */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createRoutes } from '#app/http.ts'
import { createTestApp } from './support/app.ts'
import { namesTest, type TitlePath, testTitles } from './support/test-titles.ts'

const ROOT = join(import.meta.dir, '..')

interface Row {
  readonly section: string
  readonly rule: string
  readonly proof: string
}

const OPEN = 'open'
const TABLE_ROW = /^\|(.*)\|$/
const CELL_BORDER = /(?<!\\)\|/
const REFERENCE = /^(test\/[\w./-]+\.test\.ts) › (.+)$/
/** A check that is no test of `bun test`, such as `scripts/kill-test --webhooks`, as a line of scripts/test that runs it. */
const CHECK = /^\s*check [\w-]+ \d+ (scripts\/[\w-]+.*)$/gm
/** How long a check goes on says nothing of what it proves. */
const ROUNDS = / --rounds \d+/
const NAMED_ROUTE = /`(GET|POST|PUT|PATCH|DELETE|OPTIONS) (\/[^`?\s]*)`/g

/** The rows of all tables of a Markdown text, their heads left out. */
function rowsOf(markdown: string): Row[] {
  const rows: Row[] = []
  let section = ''
  for (const line of markdown.split('\n')) {
    if (line.startsWith('## ')) section = line.slice(3)
    const cells = TABLE_ROW.exec(line)?.[1]?.split(CELL_BORDER)
    if (!cells) continue
    const [rule = '', proof = '', ...more] = cells.map((cell) => cell.trim().replaceAll('\\|', '|'))
    if (more.length > 0) throw new Error(`more than two cells in: ${line}`)
    if (rule !== 'Rule' && !/^-+$/.test(rule)) rows.push({ section, rule, proof })
  }
  return rows
}

const referencesOf = ({ proof }: Row): string[] =>
  proof === OPEN ? [] : proof.split('<br>').map((part) => part.trim())

/** The commands that a script like scripts/test checks with, without their rounds. */
const checksIn = (script: string): string[] =>
  [...script.matchAll(CHECK)].map(([, command = '']) => command.replace(ROUNDS, ''))

const CHECKS = checksIn(await Bun.file(join(ROOT, 'scripts/test')).text())

/** What is wrong with a reference; undefined when its test exists. */
async function faultOf(reference: string, titlesOf: (file: string) => Promise<TitlePath[] | undefined>) {
  const [, file = '', name = ''] = REFERENCE.exec(reference) ?? []
  if (file === '') {
    if (CHECKS.includes(reference)) return undefined
    return `"${reference}" is neither "${OPEN}" nor "test/path/file.test.ts › name" nor what scripts/test runs`
  }
  const titles = await titlesOf(file)
  if (!titles) return `there is no file ${file}`
  return titles.some((path) => namesTest(path, name)) ? undefined : `${file} has no test "${name}"`
}

function createTitleReader(): (file: string) => Promise<TitlePath[] | undefined> {
  const known = new Map<string, Promise<TitlePath[] | undefined>>()
  return (file) => {
    const titles = known.get(file) ?? read(file)
    known.set(file, titles)
    return titles
  }
  async function read(file: string) {
    const source = Bun.file(join(ROOT, file))
    return (await source.exists()) ? testTitles(await source.text()) : undefined
  }
}

const routesIn = (rule: string): string[] =>
  [...rule.matchAll(NAMED_ROUTE)].map(([, method, path]) => `${method} ${path}`)

async function routesOfService(): Promise<string[]> {
  // In this mode, on loopback, the service has all the pages that it can have.
  await using service = await createTestApp({
    settings: { TASSIS_DELIVERY: 'capture', TASSIS_HTTP_ADDR: '127.0.0.1:0' },
  })
  const routes = createRoutes(service.opened).flatMap((plugin) => plugin.routes)
  return routes.map(({ method, path }) => `${method} ${path.replace(/(.)\/$/, '$1').replace(/:(\w+)/g, '{$1}')}`)
}

const rows = rowsOf(await Bun.file(join(ROOT, 'docs/conformance.md')).text())

test('every row has a rule, once, and a proof or the word open', () => {
  expect(rows.filter(({ rule, proof }) => rule === '' || proof === '')).toEqual([])
  const names = rows.map(({ section, rule }) => `${section}: ${rule}`)
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  const open = rows.filter(({ proof }) => proof === OPEN).length
  console.log(`docs/conformance.md: ${rows.length - open} rows proven, ${open} open`)
})

test('every proof names a test that exists', async () => {
  const titlesOf = createTitleReader()
  const faults = await Promise.all(
    rows.flatMap((row) => referencesOf(row).map(async (reference) => [row.rule, await faultOf(reference, titlesOf)])),
  )
  expect(faults.filter(([, fault]) => fault !== undefined)).toEqual([])
})

test('every route of the service is in a row, and no proven row is about a route that is not there', async () => {
  const routes = await routesOfService()
  expect(routes).toEqual(expect.arrayContaining(['POST /v1/emails', 'GET /dev/captured']))
  const named = new Set(rows.flatMap(({ rule }) => routesIn(rule)))
  expect(routes.filter((route) => !named.has(route))).toEqual([])
  const proven = rows.filter(({ proof }) => proof !== OPEN).flatMap(({ rule }) => routesIn(rule))
  expect(proven.filter((route) => !routes.includes(route))).toEqual([])
})

test('the check sees a file that is missing, a name that is wrong, and a test that is skipped', async () => {
  const source = [
    "describe('a box', () => {",
    "  test('opens', () => {})",
    '  for (const size of sizes)',
    '    test(`of size $'.concat('{size} closes`, () => {})'),
    "  test.each([['a)'], [1]])(",
    "    '%s is no size', () => {})",
    "  test.each<[string, (box: Box) => Promise<void>]>([['a)', (box) => close(box)]])(",
    "    'with %s holds', () => {})",
    '  test.each<{',
    '    readonly lids: number',
    "  }>([{ lids: 2 }])('has two lids', () => {})",
    "  test.skip('flies', () => {})",
    '})',
    "test('it\\'s alone', () => {})",
    "describe('a lid', () => {",
    '  for (const rule of rules)',
    '    test(rule, () => {})',
    '})',
  ].join('\n')
  const titlesOf = async (file: string) => (file === 'test/box.test.ts' ? testTitles(source) : undefined)
  const good = [
    'a box › opens',
    'opens',
    'of size 3 closes',
    'a box › 0 is no size',
    'a box › with a lock holds',
    'a box › has two lids',
    "it's alone",
    'a lid › fits',
  ]
  const bad = ['a box', 'open', 'a box › opens wide', 'flies', "a box › it's alone", 'another box › opens', 'fits']
  const faults = async (names: string[]) =>
    (await Promise.all(names.map((name) => faultOf(`test/box.test.ts › ${name}`, titlesOf)))).filter(Boolean).length
  expect([await faults(good), await faults(bad)]).toEqual([0, bad.length])
  expect(await faultOf('test/gone.test.ts › opens', titlesOf)).toBe('there is no file test/gone.test.ts')
  expect(await faultOf('soon', titlesOf)).toContain('neither')
})

test('the check sees a script that scripts/test does not run, or not with these words', async () => {
  expect(
    checksIn('  check a 300 scripts/a --rounds 3 --b\n# check c 1 scripts/c\ncheck d 1 bun d\nscripts/e\n'),
  ).toEqual(['scripts/a --b'])
  const names = ['scripts/kill-test', 'scripts/kill-test --webhooks', 'scripts/kill-test --web', 'scripts/test', 'soon']
  const faults = await Promise.all(names.map((name) => faultOf(name, async () => undefined)))
  expect(names.filter((_, index) => faults[index] === undefined)).toEqual([
    'scripts/kill-test',
    'scripts/kill-test --webhooks',
  ])
})
