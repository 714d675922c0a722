/** @module Limits on what a browser downloads for the dashboard, and what the bundle must not contain. */
import { expect, test } from 'bun:test'
import { bundleDashboard } from '#app/dashboard/bundle.ts'
import { ASSET_HEADERS, ASSETS_PATH, findEntries } from '#app/dashboard/routes.ts'
import { compress, compressWhenRead, sendBuiltFile } from '#platform/http/built-files.ts'

const MAX_FIRST_LOAD_BYTES = 200_000
const MAX_LAZY_PART_BYTES = 190_000

const files = await bundleDashboard()
type BundledFile = (typeof files)[number]
const byName = new Map(files.map((file) => [file.name, file]))
const entries = findEntries(byName)
const decoder = new TextDecoder()
const textOf = ({ content }: BundledFile): string => decoder.decode(content)
const isScript = ({ name }: BundledFile): boolean => name.endsWith('.js')

const brotliBytes = (file: BundledFile): number => compress(file.content, 'br').length

/** The file with the scripts that it imports, directly or not; dynamic imports are not followed. */
function withImports(name: string, found = new Set<string>()): Set<string> {
  const file = byName.get(name)
  if (!file || found.has(name)) return found
  found.add(name)
  for (const [, imported = ''] of textOf(file).matchAll(/(?:from|import)\s*"\/app\/assets\/([^"]+)"/g))
    withImports(imported, found)
  return found
}

/** What the browser downloads for /app: the script, the styles and the screen. */
function firstLoad(): Set<string> {
  const overview = files.find((file) => isScript(file) && textOf(file).includes('Hide this list'))
  if (!overview) throw new Error('no part has the Overview')
  return new Set([entries.style, ...withImports(entries.script), ...withImports(overview.name)])
}

test('the first load of /app is at most 200 kB in brotli', () => {
  const names = firstLoad()
  // Otherwise the imports were not found.
  expect(names.size).toBeGreaterThan(3)
  const bytes = [...names].flatMap((name) => byName.get(name) ?? []).reduce((sum, file) => sum + brotliBytes(file), 0)
  expect(bytes).toBeLessThan(MAX_FIRST_LOAD_BYTES)
})

test('a part that is loaded later is at most 190 kB in brotli', () => {
  const names = firstLoad()
  // A small file is not larger in brotli, and compressing takes long.
  const parts = files.filter(({ name, content }) => !names.has(name) && content.length > MAX_LAZY_PART_BYTES)
  expect(parts.length).toBeGreaterThan(0)
  const large = parts.filter((file) => brotliBytes(file) > MAX_LAZY_PART_BYTES)
  expect(large.map(({ name }) => name)).toEqual([])
})

test('the bundle is the production build of React', () => {
  const all = files.filter(isScript).map(textOf).join('\n')
  expect(all).not.toContain('Download the React DevTools')
  // A component asks whether there is such a thing, and reads nothing from it.
  expect(all).not.toMatch(/process\.env\b(?!\))/)
  expect(all).not.toContain('jsxDEV')
})

/** XML namespaces, links in error messages, the base of relative URLs, examples: no request is made to them. */
const NAMED_ONLY =
  /^https?:\/\/(www\.w3\.org|react\.dev\/errors|mantine\.dev\/theming|simplewebauthn\.dev\/docs|localhost$|[^/]*\bexample\b)/

test('the bundle names no other host that it could load from', () => {
  const urls = files.flatMap((file) =>
    [...textOf(file).matchAll(/https?:\/\/[\w.-]+[^\s"'`)\\]*/g)].map(([url]) => url),
  )
  expect([...new Set(urls)].filter((url) => !NAMED_ONLY.test(url))).toEqual([])
  for (const file of files) expect(textOf(file)).not.toMatch(/\beval\(|new Function\(/)
  for (const file of files.filter((each) => !isScript(each))) expect(textOf(file)).not.toContain('@import')
})

test('imports of parts are paths of this server', () => {
  const imports = files
    .filter(isScript)
    .flatMap((file) => [...textOf(file).matchAll(/\bimport\("([^"]+)"\)/g)].map(([, path = '']) => path))
  expect(imports.length).toBeGreaterThan(2)
  expect(imports.filter((path) => !path.startsWith(ASSETS_PATH))).toEqual([])
})

// Proves: dash-2
test('a file is compressed as the client accepts and cached for good; an unknown name has no response', async () => {
  const content = 'const x = 1;'.repeat(100)
  const assets = compressWhenRead([{ name: 'a-1.js', content }])
  const ask = (headers: Record<string, string>, name = 'a-1.js') =>
    sendBuiltFile(assets, name, new Request('http://localhost', { headers }), ASSET_HEADERS)
  const answers = await Promise.all(
    ['br, gzip', 'BR ; q=1', 'gzip', 'br;q=0, gzip;q=0.5', ''].map((accept) => ask({ 'accept-encoding': accept })),
  )
  expect(answers.map(({ headers }) => headers.get('content-encoding'))).toEqual(['br', 'br', 'gzip', 'gzip', null])
  for (const { headers } of answers)
    expect(Object.fromEntries(headers)).toMatchObject({
      'cache-control': 'public, max-age=31536000, immutable',
      'content-type': 'text/javascript; charset=utf-8',
      vary: 'accept-encoding',
    })
  expect(await answers.at(-1)?.text()).toEqual(content)
  expect(Bun.gunzipSync(new Uint8Array((await answers[2]?.arrayBuffer()) ?? []))).toEqual(Buffer.from(content))
  const known = await ask({ 'if-none-match': answers[0]?.headers.get('etag') ?? '' })
  expect([known.status, await known.text()]).toEqual([304, ''])
  await expect(ask({}, 'a-2.js')).rejects.toThrow('No such route')
})
