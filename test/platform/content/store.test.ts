import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createContentReader } from '#platform/content/read.ts'
import { ContentStore } from '#platform/content/store.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-content-'))
  folders.push(folder)
  return folder
}

const NOVEMBER = Date.UTC(2026, 10, 21)
const bytes = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8) * seed) & 0xff)

const rows = (store: ContentStore): number =>
  store
    .databases()
    .reduce((sum, db) => sum + (db.query<{ n: number }, []>('SELECT count(*) AS n FROM parts').get()?.n ?? 0), 0)

test('parts of every size come back byte for byte, also through a reader of another thread', async () => {
  const folder = newFolder()
  const store = new ContentStore(folder)
  const parts = [0, 1, 199, 200, 16_383, 16_384, 262_144, 262_145, 3_000_000].map((length, seed) => bytes(length, seed))
  const refs = await store.put(parts, NOVEMBER)
  const reader = createContentReader(folder)
  expect(refs.map((ref) => Buffer.compare(store.get(ref), parts[refs.indexOf(ref)] ?? new Uint8Array()))).toEqual(
    parts.map(() => 0),
  )
  expect(refs.map((ref) => reader.get(ref).length)).toEqual(parts.map(({ length }) => length))
  // Two are larger than what the database holds.
  expect(readdirSync(join(folder, '2026-11')).length).toBe(2)
  reader.close()
  await store.close()
})

test('identical parts are stored once: small ones while they are remembered, larger ones also after a restart', async () => {
  const folder = newFolder()
  const store = new ContentStore(folder)
  const [small, large] = [bytes(5000, 1), bytes(50_000, 2)]
  const first = await store.put([small, large], NOVEMBER)
  expect(await store.put([small, large], NOVEMBER)).toEqual(first)
  expect(rows(store)).toBe(2)
  await store.close()
  const again = new ContentStore(folder)
  const second = await again.put([small, large], NOVEMBER)
  expect([second[0] === first[0], second[1] === first[1]]).toEqual([false, true])
  expect(rows(again)).toBe(3)
  await again.close()
})

test('each month has a database of its own, so that retention can drop it whole', async () => {
  const folder = newFolder()
  const store = new ContentStore(folder)
  const [november] = await store.put([bytes(500, 1)], NOVEMBER)
  const [december] = await store.put([bytes(500, 1)], Date.UTC(2026, 11, 1))
  expect(november).not.toBe(december)
  expect(
    readdirSync(folder)
      .filter((name) => name.endsWith('.db'))
      .sort(),
  ).toEqual(['2026-11.db', '2026-12.db'])
  await store.close()
})

test('a reference that leads nowhere throws', async () => {
  const store = new ContentStore(newFolder())
  const [ref = 0] = await store.put([bytes(10, 1)], NOVEMBER)
  expect(() => store.get(ref + 1)).toThrow('content part is missing')
  await store.close()
})
