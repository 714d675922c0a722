/**
 * @module Checks the rules of the interface: every rule has an id and a test that proves it, every comment "Proves:"
 * names existing rules, and the rules name every route of the service.
 */
import { describe, expect, test } from 'bun:test'
import { createRoutes } from '#app/http.ts'
import { checkProofs, parseRules, readConformance, readProofs } from '../scripts/conformance.ts'
import { isOfDialect } from './contract/routes.ts'
import { createTestApp } from './support/app.ts'

const NAMED_ROUTE = /`(GET|POST|PUT|PATCH|DELETE|OPTIONS) (\/[^`?\s]*)`/g

const conformance = await readConformance()

const routesIn = (sentence: string): string[] =>
  [...sentence.matchAll(NAMED_ROUTE)].map(([, method, path]) => `${method} ${path}`)

async function routesOfService(): Promise<string[]> {
  // In this mode, on loopback, the service has every page that it can have.
  await using service = await createTestApp({
    settings: {
      TASSIS_DELIVERY: 'capture',
      TASSIS_HTTP_ADDR: '127.0.0.1:0',
      TASSIS_OIDC_ISSUER: 'https://id.example.test',
      TASSIS_OIDC_CLIENT_ID: 'tassis',
    },
  })
  const routes = createRoutes(service.opened).flatMap((plugin) => plugin.routes)
  return routes
    .filter(({ path }) => !isOfDialect(path))
    .map(({ method, path }) => `${method} ${path.replace(/(.)\/$/, '$1').replace(/:(\w+)/g, '{$1}')}`)
}

test('every rule has an id and a test, and every comment "Proves:" names rules and stands above a test that runs', () => {
  expect(conformance.problems).toEqual([])
  console.log(`test/conformance/rules.md: ${conformance.rules.length} rules, ${conformance.proofs.length} tests`)
})

test('every route of the service is named in a rule, and no rule names a route that does not exist', async () => {
  const routes = await routesOfService()
  expect(routes).toEqual(expect.arrayContaining(['POST /v1/emails', 'GET /dev/captured']))
  const named = new Set(conformance.rules.flatMap(({ sentence }) => routesIn(sentence)))
  expect(routes.filter((route) => !named.has(route))).toEqual([])
  expect([...named].filter((route) => !routes.includes(route))).toEqual([])
})

describe('the check', () => {
  const proofsIn = (...lines: string[]) => readProofs('test/box.test.ts', lines.join('\n'))
  const problemsIn = (...lines: string[]) => proofsIn(...lines).problems

  test('finds the tests, groups and checks below the comments', () => {
    const { proofs, problems } = proofsIn(
      'const suite = describe.skipIf(isLocked)',
      '// Proves: box-1',
      "suite('a box', () => {",
      '  // Proves: box-2, box-3',
      '  // Proves: lid-1',
      '  // Why the box is closed.',
      "  test('opens', () => {})",
      '  // Proves: box-4',
      '  for (const size of sizes)',
      '    for (const colour of [',
      "      'red',",
      '    ])',
      '      test(size + colour, () => {})',
      '  // Proves: box-5',
      '  test.each<{',
      '    readonly lids: number',
      "  }>([{ lids: 2 }])('has two lids', () => {})",
      '})',
      "const text = ['// Proves: box-6']",
    )
    expect(problems).toEqual([])
    expect(proofs.map(({ ids, line }) => [line, ...ids])).toEqual([
      [3, 'box-1'],
      [7, 'box-2', 'box-3', 'lid-1'],
      [13, 'box-4'],
      [15, 'box-5'],
    ])
    const script = '  # Proves: box-1\n  check a-b 300 scripts/a --rounds 3\n'
    expect(readProofs('scripts/test', script).proofs.map(({ ids, line }) => [line, ...ids])).toEqual([[2, 'box-1']])
  })

  test.each([
    ['code', ['// Proves: box-1', 'open()']],
    ['a name that is no test', ['const box = "a test"', '// Proves: box-1', 'box(1)']],
    ['an empty line', ['// Proves: box-1', '', "test('opens', () => {})"]],
    ['a loop with braces', ['// Proves: box-1', 'for (const a of b) {', "  test('opens', () => {})", '}']],
    ['a loop without a test', ['// Proves: box-1', 'for (const a of b)', '  open(a)', "test('opens', () => {})"]],
    ['the end', ['// Proves: box-1']],
  ])('reports a comment above %s', (_, lines) => {
    expect(problemsIn(...lines)).toEqual([expect.stringContaining('is above no test')])
  })

  test.each([
    ['test.skip', ['// Proves: box-1', "test.skip('flies', () => {})"]],
    ['test.todo', ['// Proves: box-1', "test.todo('flies')"]],
    ['an alias of test.skip', ['const later = test.skip', '// Proves: box-1', "later('flies', () => {})"]],
    ['a test in describe.skip', ["describe.skip('a box', () => {", '  // Proves: box-1', "  test('flies', () => {})"]],
    ['a group of skipped tests', ['// Proves: box-1', "describe('a box', () => {", "  test.skip('flies', () => {})"]],
  ])('reports that %s proves nothing', (_, lines) => {
    expect(problemsIn(...lines)).toEqual([expect.stringContaining('is skipped')])
  })

  test.each([
    '//Proves: box-1',
    '// proves: box-1',
    '// Proves: box 1',
    '// Proves: box-1 and more',
    '// Proves:',
    '/* Proves: box-1 */',
    'open() // Proves: box-1',
  ])('reports the wrong form %j', (line) => {
    const problems = problemsIn(line, "describe('a box', () => {})")
    expect(problems.length).toBe(1)
  })

  test('reports an id that is repeated in a comment', () => {
    const problems = problemsIn('// Proves: box-1, box-1', "test('opens', () => {})")
    expect(problems).toEqual([expect.stringContaining('is repeated')])
  })

  test('reports a comment in a file that is not run, and one that is above no check of scripts/test', () => {
    const comment = "// Proves: box-1\ntest('opens', () => {})"
    expect(readProofs('test/support/box.ts', comment).problems).toEqual([expect.stringContaining('*.test.ts')])
    const script = '# Proves: box-1\nscripts/a\n'
    expect(readProofs('scripts/test', script).problems).toEqual([expect.stringContaining('is above no check')])
  })

  test('reports an id without a rule, and a rule without a test', () => {
    const { rules } = parseRules('## Boxes\n\n- box-1: A box opens\n- box-2: A box closes\n')
    const { proofs } = proofsIn('// Proves: box-1, box-3', "test('opens', () => {})")
    expect(checkProofs(rules, proofs)).toEqual([
      'test/box.test.ts:2: there is no rule box-3',
      'no test proves the rule box-2',
    ])
  })

  test('reports an id that is used twice, and a line that is not a rule', () => {
    const { rules, problems } = parseRules('# Rules\n\nText.\n\n## Boxes\n\n- box-1: A\n- box-1: B\n- box: C\n')
    expect(rules.map(({ section, id }) => [section, id])).toEqual([
      ['Boxes', 'box-1'],
      ['Boxes', 'box-1'],
    ])
    expect(problems).toEqual([expect.stringContaining('box-1 is used twice'), expect.stringContaining('must read')])
  })
})
