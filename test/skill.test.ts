/** @module Every route, command, option and tool that contrib/skill and llms.txt name exists. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TOOLS } from '#features/drop-in/mcp/tools.ts'
import { createTestApi } from '#test/support/api.ts'
import { listWords } from '../scripts/command-files.ts'

const SKILL = join(import.meta.dir, '../contrib/skill')
const files = [...new Bun.Glob('**/*.md').scanSync(SKILL)]
const texts = new Map(files.map((file) => [file, readFileSync(join(SKILL, file), 'utf8')] as const))
const all = [...texts.values()].join('\n')

test('the front matter names the skill and says when to use it', () => {
  const [, matter = ''] = texts.get('SKILL.md')?.split('---\n') ?? []
  const { name, description } = Bun.YAML.parse(matter) as Record<string, string>
  expect([name, (description?.length ?? 0) < 1024, description?.includes('Use when')]).toEqual(['tassis', true, true])
  const [, , ...body] = texts.get('SKILL.md')?.split('---\n') ?? []
  const links = [...body.join('').matchAll(/\]\((references\/[^)]+)\)/g)].map(([, link]) => link)
  expect(links.toSorted()).toEqual(files.filter((file) => file !== 'SKILL.md').toSorted())
})

test('every route exists, with the parameters that are named', async () => {
  await using service = await createTestApi()
  const description = (await (await fetch(`${service.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { parameters?: { name: string }[] }>>
  }
  const llms = await (await fetch(`${service.url}/llms.txt`)).text()
  const named = [
    ...`${all}\n${llms}`.matchAll(/(GET|POST|PUT|PATCH|DELETE) "?(?:\$TASSIS_URL)?(\/[\w/{}.-]+)(?:\?([^\s`"]+))?/g),
  ]
  expect(named.length).toBeGreaterThan(15)
  const shape = (path: string): string => path.replaceAll(/\{\w+\}/g, '{}')
  for (const [, method = '', path = '', query = ''] of named) {
    if (!path.startsWith('/v1/')) {
      expect([path, (await fetch(service.url + path)).status]).toEqual([path, 200])
      continue
    }
    const known = Object.entries(description.paths).find(([other]) => shape(other) === shape(path))?.[1]
    const operation = known?.[method.toLowerCase()]
    expect([method, path, operation !== undefined]).toEqual([method, path, true])
    const names = operation?.parameters?.map(({ name }) => name) ?? []
    for (const parameter of new URLSearchParams(query).keys())
      expect([path, names]).toEqual([path, expect.arrayContaining([parameter])])
  }
})

test('every command and option exists', () => {
  const words = new Map(listWords())
  const commands = [...all.matchAll(/(?:^|`)(tassis [a-z][^`\n]*)/gm)].map(([, command = '']) => command.split(' '))
  expect(commands.length).toBeGreaterThan(12)
  for (const [, ...rest] of commands) {
    let path = 'tassis'
    for (const word of rest) if (words.has(`${path} ${word}`)) path += ` ${word}`
    expect([rest, path]).not.toEqual([rest, 'tassis'])
    const known = words.get(path)?.map(([word]) => word) ?? []
    for (const option of rest.filter((word) => word.startsWith('--'))) expect(known).toContain(option)
    // A group is no command of its own: the next word was one.
    if (known[0] && !known[0].startsWith('--')) expect([rest, rest.length]).toEqual([rest, 1])
  }
})

test('every tool exists', () => {
  const known: readonly string[] = TOOLS.map(({ name }) => name)
  const tables = (texts.get('references/mcp.md') ?? '').split('\n').filter((line) => line.startsWith('| '))
  const named = tables.flatMap((row) => [...row.matchAll(/`(\w+)`/g)].map(([, name = '']) => name))
  expect(named.filter((name) => name !== 'idempotency_key' && !known.includes(name))).toEqual([])
  expect(named.length).toBeGreaterThan(12)
})
