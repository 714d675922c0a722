/** @module Tests that docs/configuration.md and docs/commands.md match the program. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { formatCommandsPage, formatConfigurationPage } from '../scripts/reference.ts'

const docs = join(import.meta.dir, '../docs')

// Proves: inbound-17
test('docs/configuration.md lists every setting with its default and meaning (bun scripts/reference.ts)', async () => {
  expect(await Bun.file(join(docs, 'configuration.md')).text()).toBe(formatConfigurationPage())
})

test('docs/commands.md lists every command with its arguments and options (bun scripts/reference.ts)', async () => {
  expect(await Bun.file(join(docs, 'commands.md')).text()).toBe(formatCommandsPage())
})
