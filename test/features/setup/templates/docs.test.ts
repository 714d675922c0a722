/** @module Checks the examples in docs/templates.md: each source renders to the stated output. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createTestApp, type TestApp } from '#test/support/app.ts'

const markdown = await Bun.file(join(import.meta.dir, '../../../../docs/templates.md')).text()
const dataJson = /^```json\n(.*?)^```$/ms.exec(markdown)?.[1] ?? ''
/** Table rows of two code spans: a source and its output. A vertical bar in a table is escaped. */
const rows = [...markdown.matchAll(/^\| `(.+)` \| `(.+)` \|$/gm)].map(
  ([, source = '', gives = '']) => [source.replaceAll('\\|', '|'), gives] as const,
)

let service: TestApp
beforeAll(async () => {
  service = await createTestApp()
})
afterAll(() => service[Symbol.asyncDispose]())

const render = (source: { text?: string; html?: string }) =>
  service.app.renderer.render({ accountId: 1, urgency: 'now', source, dataJson })

test('docs/templates.md has examples', () => {
  expect(rows.length).toBeGreaterThan(25)
})

// Proves: template-9
test.each(rows)('docs/templates.md: %s renders to %s', async (source, gives) => {
  expect(await render({ text: source })).toEqual({ kind: 'rendered', parts: { text: gives } })
})

test('docs/templates.md: escaping', async () => {
  const [, source = '', gives = ''] = /`([^`]+)` gives `([^`]+)` there/.exec(markdown) ?? []
  const [, safe = ''] = /`([^`]+)` prints as it is/.exec(markdown) ?? []
  expect(await render({ html: source })).toEqual({ kind: 'rendered', parts: { html: gives } })
  expect(await render({ html: safe })).toEqual({ kind: 'rendered', parts: { html: 'a < b' } })
})
