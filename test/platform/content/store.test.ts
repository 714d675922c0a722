import { afterEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createZstdCompress } from 'node:zlib'
import { CorruptBlobError } from '#platform/content/frames.ts'
import { createContentReader, MissingBlobError, monthOf } from '#platform/content/read.ts'
import { ContentStore, type FinishedFile } from '#platform/content/store.ts'
import { sha256 } from '#platform/crypto/crypto.ts'
import { openDatabase } from '#platform/db/open.ts'
import { days, minutes } from '#platform/units.ts'
import { flipBit } from '#test/support/bit-flip.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-content-'))
  folders.push(folder)
  // The store has a file beside its folder.
  const content = join(folder, 'content')
  mkdirSync(content)
  return content
}

const NOVEMBER = Date.UTC(2026, 10, 21)
const bytes = (length: number, seed: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 31 + seed * 17 + (i >> 8) * seed) & 0xff)

const rows = (store: ContentStore): number =>
  store
    .databases()
    .reduce((sum, db) => sum + (db.query<{ n: number }, []>('SELECT count(*) AS n FROM parts').get()?.n ?? 0), 0)

test("blobs of every size are read byte for byte, also by another thread's reader", async () => {
  const folder = newFolder()
  const store = new ContentStore(folder)
  const parts = [0, 1, 199, 200, 16_383, 16_384, 262_144, 262_145, 3_000_000].map((length, seed) => bytes(length, seed))
  const refs = await store.put(parts, NOVEMBER)
  const reader = createContentReader(folder)
  expect(refs.map((ref) => Buffer.compare(store.get(ref), parts[refs.indexOf(ref)] ?? new Uint8Array()))).toEqual(
    parts.map(() => 0),
  )
  expect(refs.map((ref) => reader.get(ref).length)).toEqual(parts.map(({ length }) => length))
  // Two are larger than the database's limit.
  expect(readdirSync(join(folder, '2026-11')).length).toBe(2)
  reader.close()
  await store.close()
})

test('identical blobs are stored once: small ones while they are cached, larger ones also after a restart', async () => {
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

test('each month has its own database, so that retention can drop it whole', async () => {
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

test('a month has pages that several bodies fit; one with the pages of an earlier version keeps them', async () => {
  const folder = newFolder()
  const old = openDatabase(join(folder, '2026-10.db'))
  old.run('VACUUM')
  old.close()
  const store = new ContentStore(folder)
  const bodies = Array.from({ length: 100 }, (_, seed) => randomBytes(3000 + seed))
  const refs = [...(await store.put(bodies, NOVEMBER)), ...(await store.put(bodies, NOVEMBER - days(30)))]
  expect(refs.map((ref, index) => Buffer.compare(store.get(ref), bodies[index % 100] ?? new Uint8Array()))).toEqual(
    refs.map(() => 0),
  )
  await store.close()
  const kibibytesOf = (month: string) => statSync(join(folder, `${month}.db`)).size / 1024
  // The bodies have 297 KiB; each would have a page of 4 KiB of its own.
  expect(kibibytesOf('2026-11')).toBeLessThan(390)
  expect(kibibytesOf('2026-10')).toBeGreaterThan(400)
})

test('an invalid reference throws', async () => {
  const store = new ContentStore(newFolder())
  const [ref = 0] = await store.put([bytes(10, 1)], NOVEMBER)
  expect(() => store.get(ref + 1)).toThrow('blob is missing')
  await store.close()
})

describe('a blob in chunks', () => {
  test('equals the blob, and a large one is never read as a whole', async () => {
    const store = new ContentStore(newFolder())
    const sizes = [0, 1, 200, 262_144, 262_145, 1_000_000]
    const parts = sizes.map((length, seed) => bytes(length, seed))
    const refs = await store.put(parts, NOVEMBER)
    for (const [index, ref] of refs.entries()) {
      const slices = [...store.chunks(ref)]
      expect([index, Buffer.compare(Buffer.concat(slices), parts[index] ?? new Uint8Array())]).toEqual([index, 0])
      expect(Math.max(0, ...slices.map(({ length }) => length))).toBeLessThanOrEqual(256 * 1024)
    }
    await store.close()
  })

  test('equals the blob for a file without frame sizes, and for frames of every size', async () => {
    const store = new ContentStore(newFolder())
    const part = bytes(700_000, 4)
    const streamed = await store.adopt(await spooled(newFolder(), part), NOVEMBER)
    expect(Buffer.compare(Buffer.concat([...store.chunks(streamed)]), part)).toBe(0)
    const lengths = [1, 255, 256, 1000, 4096, 65_535, 65_536, 65_791, 65_792, 131_072]
    const pieces = lengths.map((length, seed) => bytes(length, seed))
    const whole = Buffer.concat(pieces)
    const path = join(newFolder(), 'frames')
    writeFileSync(path, Buffer.concat(pieces.map((piece) => Bun.zstdCompressSync(piece))))
    const ref = await store.adopt({ path, hash: sha256(whole).subarray(0, 16), sizeBytes: whole.length }, NOVEMBER)
    expect(Buffer.compare(Buffer.concat([...store.chunks(ref)]), whole)).toBe(0)
    await store.close()
  })

  test('throws MissingBlobError immediately if the blob is missing', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const [small = 0, large = 0] = await store.put([bytes(10, 1), bytes(300_000, 2)], NOVEMBER)
    for (const read of [() => store.get(small + 10), () => store.chunks(small + 10)])
      expect(read).toThrow(MissingBlobError)
    rmSync(join(folder, '2026-11'), { recursive: true })
    for (const read of [() => store.get(large), () => store.chunks(large)]) expect(read).toThrow(MissingBlobError)
    rmSync(join(folder, '2026-11.db'))
    for (const read of [() => store.get(small), () => store.chunks(small)]) expect(read).toThrow(MissingBlobError)
    await store.close()
  })
})

/** A spooled file as the listener writes it: compressed as a stream, so its header lacks the size. */
async function spooled(folder: string, part: Uint8Array, name = 'spooled'): Promise<FinishedFile> {
  const path = join(folder, name)
  const stream = createZstdCompress()
  stream.end(part)
  const packed: Buffer[] = []
  for await (const chunk of stream) packed.push(chunk as Buffer)
  writeFileSync(path, Buffer.concat(packed))
  return { path, hash: sha256(part).subarray(0, 16), sizeBytes: part.length }
}

describe('an adopted file', () => {
  test('moves into place, and its blob is read byte for byte, also after a restart', async () => {
    const folder = newFolder()
    const part = bytes(700_000, 1)
    const file = await spooled(newFolder(), part)
    const store = new ContentStore(folder)
    const ref = await store.adopt(file, NOVEMBER)
    expect(Buffer.compare(store.get(ref), part)).toBe(0)
    expect(existsSync(file.path)).toBe(false)
    expect(readdirSync(join(folder, '2026-11'))).toEqual([`${file.hash.toHex()}.zst`])
    await store.close()
    const again = new ContentStore(folder)
    expect(Buffer.compare(again.get(ref), part)).toBe(0)
    await again.close()
  })

  test('is one blob with an identical one, in whichever order and way they are stored', async () => {
    const folder = newFolder()
    const other = newFolder()
    const store = new ContentStore(folder)
    const [first, second] = [bytes(700_000, 1), bytes(700_000, 2)]
    const adopted = await store.adopt(await spooled(other, first), NOVEMBER)
    expect(await store.put([first], NOVEMBER)).toEqual([adopted])
    const [put] = await store.put([second], NOVEMBER)
    expect(await store.adopt(await spooled(other, second), NOVEMBER)).toBe(put as number)
    const third = bytes(700_000, 3)
    const [one, two, three] = await Promise.all([
      store.adopt(await spooled(other, third, 'a'), NOVEMBER),
      store.adopt(await spooled(other, third, 'b'), NOVEMBER),
      store.put([third], NOVEMBER).then(([ref]) => ref),
    ])
    expect([two, three]).toEqual([one, one])
    expect([rows(store), readdirSync(other), readdirSync(join(folder, '2026-11')).length]).toEqual([3, [], 3])
    await store.close()
  })

  test('leaves no file when the database holds the blob', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const part = bytes(50_000, 1)
    const [put] = await store.put([part], NOVEMBER)
    const file = await spooled(newFolder(), part)
    expect(await store.adopt(file, NOVEMBER)).toBe(put as number)
    expect([existsSync(file.path), readdirSync(join(folder, '2026-11'))]).toEqual([false, []])
    expect(Buffer.compare(store.get(put as number), part)).toBe(0)
    await store.close()
  })

  test('that is missing rejects and leaves no row', async () => {
    const store = new ContentStore(newFolder())
    const file = { path: join(newFolder(), 'none'), hash: sha256(bytes(1, 1)).subarray(0, 16), sizeBytes: 300_000 }
    await expect(store.adopt(file, NOVEMBER)).rejects.toThrow('ENOENT')
    expect(rows(store)).toBe(0)
    await store.close()
  })
})

/** Includes deleted ones. */
function openFilesBelow(folder: string): number {
  const targets = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(join('/proc/self/fd', fd))]
    } catch {
      return []
    }
  })
  return targets.filter((path) => path.startsWith(folder)).length
}

describe('dropped months', () => {
  const DECEMBER = Date.UTC(2026, 11, 1)
  const JANUARY = Date.UTC(2027, 0, 1)

  test('are those that ended before the time, with database, log and files; their blobs are missing from then on', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const [small = 0, large = 0] = await store.put([bytes(500, 1), bytes(700_000, 2)], NOVEMBER)
    const [kept = 0] = await store.put([bytes(500, 1)], DECEMBER)
    const reader = createContentReader(folder)
    expect(reader.get(small).length + reader.get(large).length + store.get(small).length).toBe(701_000)
    expect(await store.dropMonthsBefore(DECEMBER - 1)).toBe(0)
    expect(store.get(small).length).toBe(500)
    expect(await store.dropMonthsBefore(DECEMBER)).toBe(1)
    for (const ref of [small, large]) {
      expect(() => store.get(ref)).toThrow('blob is missing')
      expect(() => reader.get(ref)).toThrow('blob is missing')
    }
    expect([store.get(kept).length, reader.get(kept).length]).toEqual([500, 500])
    expect(readdirSync(folder).filter((name) => name.startsWith('2026-11'))).toEqual([])
    reader.close()
    await store.close()
  })

  test('free their disk space even if a reader had them open', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const [ref = 0] = await store.put([bytes(500, 1)], NOVEMBER)
    const reader = createContentReader(folder)
    reader.get(ref)
    await store.dropMonthsBefore(DECEMBER)
    const before = openFilesBelow(folder)
    expect(() => reader.get(ref)).toThrow('blob is missing')
    expect(openFilesBelow(folder)).toBeLessThan(before)
    reader.close()
    await store.close()
  })

  test('are found in the folder, even partly dropped ones after a crash; other files stay', async () => {
    const folder = newFolder()
    const before = new ContentStore(folder)
    await before.put([bytes(700_000, 1)], NOVEMBER)
    await before.put([bytes(500, 1)], JANUARY)
    await before.close()
    rmSync(join(folder, '2026-11.db'))
    mkdirSync(join(folder, '2026-10'))
    writeFileSync(join(folder, '2026-10', 'part.zst'), 'x')
    writeFileSync(join(folder, '2026-09.db-wal'), 'x')
    writeFileSync(join(folder, 'notes-2026-01.txt'), 'x')
    const store = new ContentStore(folder)
    expect(await store.dropMonthsBefore(JANUARY)).toBe(3)
    expect(readdirSync(folder).filter((name) => !name.startsWith('2027-01'))).toEqual(['notes-2026-01.txt'])
    await store.close()
  })

  test('can be filled again, and identical blobs are stored again', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    await store.put([bytes(500, 1), bytes(700_000, 2)], NOVEMBER)
    await store.dropMonthsBefore(DECEMBER)
    const refs = await store.put([bytes(500, 1), bytes(700_000, 2)], NOVEMBER)
    expect(refs.map((ref) => store.get(ref).length)).toEqual([500, 700_000])
    await store.close()
  })
})

describe('unreferenced blobs', () => {
  test('are deleted with their files, and reading one throws MissingBlobError', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const refs = await store.put([bytes(100, 1), bytes(50_000, 2), bytes(300_000, 3), bytes(100, 4)], NOVEMBER)
    const [small = 0, middle = 0, large = 0, stays = 0] = refs
    expect(await store.deleteBlobs([small, middle, large], NOVEMBER)).toEqual([])
    for (const ref of [small, middle, large]) expect(() => store.get(ref)).toThrow(MissingBlobError)
    expect(store.get(stays)).toEqual(bytes(100, 4))
    expect(readdirSync(join(folder, '2026-11'))).toEqual([])
    await store.close()
  })

  test('are not reused for identical content stored later', async () => {
    const store = new ContentStore(newFolder())
    const parts = [bytes(100, 1), bytes(50_000, 2), bytes(300_000, 3)]
    await store.deleteBlobs(await store.put(parts, NOVEMBER), NOVEMBER)
    const again = await store.put(parts, NOVEMBER)
    expect(again.map((ref) => store.get(ref))).toEqual(parts)
    await store.close()
  })

  test('stay for some minutes after `put` has returned them again, however the wall clock jumps', async () => {
    const clock = new ManualClock(NOVEMBER)
    const store = new ContentStore(newFolder(), { clock })
    const parts = [bytes(100, 1), bytes(50_000, 2), bytes(300_000, 3)]
    const refs = await store.put(parts, NOVEMBER)
    expect(await store.put(parts, NOVEMBER + 1000)).toEqual(refs)
    clock.advance(minutes(4))
    expect(await store.deleteBlobs(refs, NOVEMBER + days(365))).toEqual(refs)
    expect(refs.map((ref) => store.get(ref))).toEqual(parts)
    clock.advance(minutes(2))
    expect(await store.deleteBlobs(refs, NOVEMBER - days(1))).toEqual([])
    for (const ref of refs) expect(() => store.get(ref)).toThrow(MissingBlobError)
    await store.close()
  })

  test('are distinguished from new ones, which a row not yet written may reference', async () => {
    const clock = new ManualClock(NOVEMBER)
    const store = new ContentStore(newFolder(), { clock })
    const [old = 0] = await store.put([bytes(100, 1)], NOVEMBER)
    const month = monthOf(NOVEMBER)
    expect(store.settledBelow(month)).toBe(old)
    clock.advance(minutes(6))
    const [first = 0] = await store.put([bytes(100, 2)], NOVEMBER)
    clock.advance(minutes(4))
    await store.put([bytes(100, 3)], NOVEMBER)
    expect(store.settledBelow(month)).toBe(first)
    clock.advance(minutes(10))
    expect(store.settledBelow(month)).toBeGreaterThan(first + 1e9)
    await store.close()
  })

  test('have references that are never issued again', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const first = await store.put([bytes(100, 1), bytes(100, 2)], NOVEMBER)
    await store.deleteBlobs(first, NOVEMBER)
    await store.close()
    const again = new ContentStore(folder)
    const second = await again.put([bytes(100, 3), bytes(100, 4)], NOVEMBER)
    expect(second.filter((ref) => first.includes(ref))).toEqual([])
    await again.close()
  })

  test('keep their file while the same blob is being stored', async () => {
    const clock = new ManualClock(NOVEMBER)
    const store = new ContentStore(newFolder(), { clock })
    const part = bytes(300_000, 3)
    for (let round = 0; round < 30; round++) {
      const [ref = 0] = await store.put([part], NOVEMBER)
      const storing = store.put([part], NOVEMBER)
      if (round % 2 === 1) clock.advance(minutes(6))
      await store.deleteBlobs([ref], NOVEMBER)
      const [second = 0] = await storing
      expect(store.get(second)).toEqual(part)
      clock.advance(minutes(6))
      await store.deleteBlobs([second], NOVEMBER)
    }
    await store.close()
  })

  test('drop a past month when they were its last', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const refs = await store.put([bytes(100, 1), bytes(300_000, 2)], NOVEMBER)
    await store.deleteBlobs(refs, NOVEMBER + 40 * 86_400_000)
    expect(readdirSync(folder)).toEqual([])
    await store.close()
  })
})

describe('orphaned files', () => {
  const file = (folder: string): string[] => readdirSync(join(folder, '2026-11'))

  test('are deleted after a crash between file and row, between row and file, or while a file was written', async () => {
    const folder = newFolder()
    const before = new ContentStore(folder)
    const [kept = 0] = await before.put([bytes(300_000, 1)], NOVEMBER)
    await before.put([bytes(400_000, 2)], NOVEMBER)
    const names = file(folder)
    expect(names).toHaveLength(2)
    // As after kill -9 between the commit of `deleteBlobs` and the deletion of the file.
    for (const db of before.databases()) db.run('DELETE FROM parts WHERE size_bytes = 400000')
    await before.close()
    const strange = '0'.repeat(32)
    for (const name of [`${strange}.zst`, `${strange}.zst.7.tmp`])
      writeFileSync(join(folder, '2026-11', name), 'secret')
    // A partly dropped month: its database is deleted first.
    mkdirSync(join(folder, '2026-10'))
    writeFileSync(join(folder, '2026-10', `${strange}.zst`), 'secret')
    const after = new ContentStore(folder)
    await after.removeOrphanFiles()
    expect([file(folder).length, readdirSync(join(folder, '2026-10'))]).toEqual([1, []])
    expect(after.get(kept)).toEqual(bytes(300_000, 1))
    await after.close()
  })

  test('are deleted when their row does not fit onto the disk; existing files stay', async () => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const [kept = 0] = await store.put([bytes(300_000, 1)], NOVEMBER)
    for (const db of store.databases()) {
      const { page_count: pages } = db.query<{ page_count: number }, []>('PRAGMA page_count').get() ?? { page_count: 0 }
      db.run(`PRAGMA max_page_count = ${pages}`)
    }
    const storing = store.put(
      [bytes(300_000, 1), bytes(400_000, 2), crypto.getRandomValues(new Uint8Array(60_000))],
      NOVEMBER,
    )
    await expect(storing).rejects.toMatchObject({ code: 'insufficient_storage' })
    expect(file(folder)).toHaveLength(1)
    expect(store.get(kept)).toEqual(bytes(300_000, 1))
    await store.close()
  })
})

describe('an id is never reused', () => {
  const SECRET = bytes(500, 1)
  const OTHERS = [bytes(500, 2), bytes(500, 3)]

  test.each([
    ['in order', true],
    ['by a crash', false],
  ])('when the database of the month is lost after an end %s', async (_, inOrder) => {
    const folder = newFolder()
    const before = new ContentStore(folder)
    const [lost = 0] = await before.put([SECRET], NOVEMBER)
    if (inOrder) await before.close()
    rmSync(folder, { recursive: true })
    const after = new ContentStore(folder)
    const others = await after.put(OTHERS, NOVEMBER)
    expect(others).not.toContain(lost)
    expect(() => after.get(lost)).toThrow(MissingBlobError)
    expect(others.map((ref) => Buffer.compare(after.get(ref), OTHERS[others.indexOf(ref)] ?? SECRET))).toEqual([0, 0])
    await after.close()
    if (!inOrder) await before.close().catch(() => undefined)
  })

  test('when the database of the month is restored to an earlier state', async () => {
    const folder = newFolder()
    const path = join(folder, '2026-11.db')
    const before = new ContentStore(folder)
    await before.put([bytes(500, 4)], NOVEMBER)
    await before.close()
    copyFileSync(path, `${path}.backup`)
    const later = new ContentStore(folder)
    const [lost = 0] = await later.put([SECRET], NOVEMBER)
    await later.close()
    copyFileSync(`${path}.backup`, path)
    const after = new ContentStore(folder)
    expect(await after.put(OTHERS, NOVEMBER)).not.toContain(lost)
    expect(() => after.get(lost)).toThrow(MissingBlobError)
    await after.close()
  })

  test('and after an orderly close no id is skipped', async () => {
    const folder = newFolder()
    const before = new ContentStore(folder)
    const [first = 0] = await before.put([SECRET], NOVEMBER)
    await before.close()
    const after = new ContentStore(folder)
    expect(await after.put(OTHERS, NOVEMBER)).toEqual([first + 1, first + 2])
    await after.close()
  })
})

// Proves: storage-17
describe('a blob with a flipped bit', () => {
  const random = (length: number): Uint8Array => new Uint8Array(randomBytes(length))

  test.each([
    ['a short one', random(100), 0],
    ['one of several pages', random(60_000), 30_000],
    ['one that is partly compressed', Buffer.concat([bytes(60_000, 3).fill(65), random(60_000)]), 90_000],
    ['one in a file', random(700_000), 400_000],
    ['the last bytes of one in a file', random(700_000), 699_960],
  ])('is corrupt, and others are not: %s', async (_, blob, at) => {
    const folder = newFolder()
    const store = new ContentStore(folder)
    const [ref = 0, other = 0] = await store.put([blob, random(500)], NOVEMBER)
    await store.close()
    const read = (whole: number) => {
      const reader = createContentReader(folder)
      try {
        return [reader.get(whole).length, [...reader.chunks(whole)].reduce((sum, { length }) => sum + length, 0)]
      } finally {
        reader.close()
      }
    }
    expect(read(ref)).toEqual([blob.length, blob.length])
    flipBit(folder, blob.subarray(at))
    const reader = createContentReader(folder)
    expect(() => reader.get(ref)).toThrow(CorruptBlobError)
    const chunks: Uint8Array[] = []
    expect(() => {
      for (const chunk of reader.chunks(ref)) chunks.push(chunk)
    }).toThrow(CorruptBlobError)
    // Nobody who reads to the end gets all of it.
    expect(chunks.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(blob.length)
    reader.close()
    expect(read(other)).toEqual([500, 500])
  })
})
