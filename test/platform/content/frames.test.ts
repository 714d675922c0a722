import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync } from 'node:zlib'
import { createBlobFile } from '#platform/content/blob-file.ts'
import { readFrames } from '#platform/content/frames.ts'
import { ContentStore } from '#platform/content/store.ts'

const NOW = Date.UTC(2026, 10, 21)
const KIB = 1024

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tassis-frames-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const contentOf = (path: string): Buffer => Buffer.concat([...readFrames(path)])

describe('a blob that is written as it arrives', () => {
  const sizes = [0, 1, 128 * KIB - 1, 128 * KIB, 128 * KIB + 1, 5_000_000]

  test.each(sizes)('of %d octets is read octet by octet, in chunks of at most 128 KiB', (size) => {
    const path = join(folder, 'part.zst')
    const content = randomBytes(size)
    const file = createBlobFile(path)
    for (let at = 0; at < size; at += 70_001) file.write(content.subarray(at, at + 70_001))
    expect(file.finish()).toEqual({
      path,
      hash: new Uint8Array(createHash('sha256').update(content).digest()).slice(0, 16),
      sizeBytes: size,
    })
    expect(contentOf(path).equals(content)).toBe(true)
    expect([...readFrames(path)].filter((slice) => slice.length > 128 * KIB)).toEqual([])
  })

  test('is adopted by a store, which returns it whole and in chunks', async () => {
    const store = new ContentStore(join(folder, 'content'))
    const content = Buffer.alloc(1_000_000, 'tassis')
    const file = createBlobFile(join(folder, 'content', 'incoming.zst'))
    file.write(content)
    const ref = await store.adopt(file.finish(), NOW)
    const small = await store.put([Buffer.from('small'), Buffer.alloc(0)], NOW)
    expect(content.equals(store.get(ref))).toBe(true)
    const inPieces = [ref, ...small].map((each) => [...store.chunks(each)])
    expect(inPieces.map((pieces) => pieces.length)).toEqual([8, 1, 0])
    expect(inPieces.map((pieces) => Buffer.concat(pieces).toString().slice(0, 6))).toEqual(['tassis', 'small', ''])
    expect(() => store.chunks(ref + 1000)).toThrow('blob is missing')
    await store.close()
  })

  test('is never written over an existing file', () => {
    const path = join(folder, 'part.zst')
    writeFileSync(path, 'mine')
    expect(() => createBlobFile(path)).toThrow('EEXIST')
    expect(readFileSync(path, 'utf8')).toBe('mine')
  })
})

describe('frames', () => {
  test('written by other programs are read: of any size, with a checksum, of equal octets, and several in a row', () => {
    const path = join(folder, 'frames.zst')
    const contents = [randomBytes(3_000_000), Buffer.alloc(2_000_000), Buffer.from('a'), Buffer.alloc(300, 'b')]
    writeFileSync(path, Buffer.concat(contents.map((content) => Bun.zstdCompressSync(content))))
    expect(contentOf(path).equals(Buffer.concat(contents))).toBe(true)
    const checked = contents.map((content) => zstdCompressSync(content, { params: { 201: 1 } }))
    writeFileSync(path, Buffer.concat(checked))
    expect(contentOf(path).equals(Buffer.concat(contents))).toBe(true)
  })

  test.each([
    ['without their end', (whole: Buffer) => whole.subarray(0, -3)],
    ['followed by other data', (whole: Buffer) => Buffer.concat([whole, Buffer.from('garbage')])],
    ['with changed octets', (whole: Buffer) => whole.fill(0xff, 9, 60)],
    ['that are plain text', () => Buffer.from('plain text')],
  ])('%s throw when they are read', (_, damaged) => {
    const path = join(folder, 'damaged.zst')
    writeFileSync(path, damaged(Buffer.from(Bun.zstdCompressSync(randomBytes(1000)))))
    expect(() => contentOf(path)).toThrow()
  })

  test('of a missing file throw when they are read', () => {
    expect(() => contentOf(join(folder, 'none.zst'))).toThrow('ENOENT')
  })
})
