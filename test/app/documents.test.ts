/** @module Tests of /llms.txt and the documents as Markdown. */
import { expect, test } from 'bun:test'
import { dirname, join } from 'node:path'
import { createTestApi } from '#test/support/api.ts'

// Proves: http-26, http-27
test('every link of llms.txt and of the documents leads to a page that is served', async () => {
  await using service = await createTestApi()
  const read = async (path: string) => {
    const response = await fetch(service.url + path)
    return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
  }
  const llms = await read('/llms.txt')
  expect([llms.status, llms.type]).toEqual([200, 'text/plain; charset=utf-8'])
  expect(llms.text).toMatch(/^# Tassis\n\n> .+\n\n/)
  const linksOf = (text: string) => [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, link = '']) => link)
  const waiting = linksOf(llms.text)
  expect(waiting.length).toBeGreaterThan(40)
  const seen = new Set(waiting)
  expect(waiting.length).toBe(seen.size)
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const { status, type, text } = await read(path)
    expect([path, status]).toEqual([path, 200])
    if (!path.endsWith('.md')) continue
    expect([path, type]).toEqual([path, 'text/markdown; charset=utf-8'])
    for (const link of linksOf(text).map((target) => join(dirname(path as string), target)))
      if (!seen.has(link)) {
        seen.add(link)
        waiting.push(link)
      }
  }
  expect([...seen]).toContain('/docs/integrations/django.md')
  for (const path of ['/docs/architecture.md', '/docs/..%2FREADME.md', '/docs/integrations/..%2F..%2FREADME.md'])
    expect([path, (await read(path)).status]).toEqual([path, 404])
})
