/** @module Tests that what is generated of the documentation, and the commands in all documents, match the program. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createProgram } from '#app/cli/program.ts'
import { addBenchCommand } from '#bench/sending.ts'
import { generateClient } from '../scripts/client.ts'
import { formatFacesPage, readCapabilities } from '../scripts/faces.ts'
import {
  CLIENT,
  formatCommandsPage,
  formatConfigurationPage,
  formatTableFacts,
  TABLE_FACTS_FILE,
  withToolTable,
} from '../scripts/reference.ts'

const ROOT = join(import.meta.dir, '..')
const docs = join(ROOT, 'docs')

// Proves: inbound-17
test('docs/configuration.md lists every setting with its default and meaning (bun scripts/reference.ts)', async () => {
  expect(await Bun.file(join(docs, 'configuration.md')).text()).toBe(formatConfigurationPage())
})

test('docs/commands.md lists every command with its arguments and options (bun scripts/reference.ts)', async () => {
  expect(await Bun.file(join(docs, 'commands.md')).text()).toBe(formatCommandsPage())
})

test('docs/mcp.md lists every tool with its scopes and effect (bun scripts/reference.ts)', async () => {
  const page = await Bun.file(join(docs, 'mcp.md')).text()
  expect(page).toBe(withToolTable(page))
})

test('table-facts.json has what each tables.ts states (bun scripts/reference.ts)', async () => {
  expect(await Bun.file(TABLE_FACTS_FILE).text()).toBe(await formatTableFacts())
})

/** What an operator needs at night, in the browser and at the command line. */
const AT_NIGHT = `
  operator.getQueue operator.holdQueue operator.releaseQueue operator.retryQueue operator.bounceQueue operator.dropQueue
  emails.get emails.list|operator.listEmails emails.cancel operator.listAccounts operator.getAccount operator.pauseAccount
  operator.resumeAccount domains.list domains.verify apiKeys.list apiKeys.create apiKeys.delete
  operator.getFence operator.releaseFence operator.dropFence operator.listProviders operator.resumeProvider
`

test('docs/faces.md shows which faces have which capability, and none lacks what is needed at night', async () => {
  expect(await Bun.file(join(docs, 'faces.md')).text()).toBe(await formatFacesPage())
  const capabilities = new Map((await readCapabilities()).map(({ method, faces }) => [method, faces]))
  const lacking = AT_NIGHT.trim()
    .split(/\s+/)
    .flatMap((method) =>
      (['command', 'dashboard'] as const).flatMap((face) =>
        method.split('|').some((name) => capabilities.get(name)?.has(face)) ? [] : [`${method} has no ${face}`],
      ),
    )
  expect(lacking).toEqual([])
})

test('src/client has the types and methods of every route (bun scripts/reference.ts)', async () => {
  for (const [file, text] of Object.entries(await generateClient()))
    expect(await Bun.file(`${CLIENT}${file}`).text()).toBe(text)
})

/** What is wrong with a command line as the documents write it; undefined if nothing. A bare name may lack arguments. */
function findMistake(line: string): string | undefined {
  const [, ...words] = line.replace(' ...', '').match(/"[^"]*"|\S+/g) ?? []
  const chain = [createProgram([], addBenchCommand)]
  const findNext = () => chain.at(-1)?.commands.find((command) => command.name() === words[0])
  for (let next = findNext(); next; next = findNext()) {
    chain.push(next)
    words.shift()
  }
  const command = chain.at(-1)
  if (!command || chain.length === 1) return 'no such command'
  if (words.length === 0) return undefined
  const options = chain.flatMap((one) => one.options)
  let positional = 0
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ''
    if (!word.startsWith('--')) {
      positional++
      continue
    }
    const option = options.find(({ long }) => long === word)
    if (!option) return `no option ${word}`
    if (option.required) i++
  }
  if (positional > command.registeredArguments.length) return 'too many arguments'
  const missing = command.options.find(({ mandatory, long }) => mandatory && !words.includes(long ?? ''))
  return missing && `${missing.long} is missing`
}

test('every command that documents, messages and comments name exists, with its options and arguments', async () => {
  const mistakes: string[] = []
  const sources = ['docs/**/*.md', 'src/**/*.{ts,tsx}'].flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(ROOT)])
  for (const path of ['README.md', ...sources]) {
    if (path === 'docs/commands.md') continue
    // In a template, an inserted value may be any number of arguments and options.
    const text = (await Bun.file(join(ROOT, path)).text()).replaceAll('\\`', '`').replace(/\$\{[^}]*\}/g, '')
    for (const [, line = ''] of text.matchAll(/`(tassis [a-z][^`|]*)`/g)) {
      const mistake = findMistake(line)
      if (mistake !== undefined) mistakes.push(`${path}: ${line}: ${mistake}`)
    }
  }
  expect(mistakes).toEqual([])
})
