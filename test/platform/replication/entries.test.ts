/** @module What a row of the log holds: packed and unpacked again. */
import { describe, expect, test } from 'bun:test'
import { type Entry, packEntries, unpackEntries } from '#platform/replication/entries.ts'

const toPart = (size: number): Entry => ({
  kind: 'part',
  upload: 1,
  file: `content/2026-11/${'a'.repeat(32)}.zst`,
  offset: 0,
  isLast: true,
  bytes: crypto.getRandomValues(new Uint8Array(Math.min(size, 65_536))),
})

describe('packed entries', () => {
  test('are the same when unpacked, also after others were packed', () => {
    const groups: Entry[][] = [
      [toPart(10), toPart(0)],
      [toPart(65_536)],
      [{ kind: 'scrub', file: 'tassis.db', pages: [3, 70_000], bytes: new Uint8Array(0) }],
      [{ kind: 'remove', files: ['content/2026-10.db', 'content/2026-10'], bytes: new Uint8Array(0) }, toPart(3)],
      [
        {
          kind: 'pages',
          file: 'content/2026-11.db',
          pageBytes: 16_384,
          databasePages: 3,
          wal: { salt: '0011223344556677', end: 16_440 },
          bytes: new Uint8Array(16_408).fill(7),
        },
      ],
    ]
    const packed = groups.map((entries) => packEntries(entries) as Uint8Array<ArrayBuffer>)
    const unpacked = packed.map(unpackEntries)
    expect(unpacked.map((entries) => entries.map(toText))).toEqual(groups.map((entries) => entries.map(toText)))
  })

  test.each([
    'master.key',
    '../tassis.db',
    'content/../tassis.db',
    '/etc/passwd',
    'certificates/..',
    'certificates/a/b',
    'content/2026-11/x.zst',
    'tassis.db-wal',
    'replica.json',
    '',
  ])('that name %p are refused, because it is no file of a data directory', (file) => {
    const data = packEntries([{ kind: 'file', file, bytes: new Uint8Array(1) }]) as Uint8Array<ArrayBuffer>
    expect(() => unpackEntries(data)).toThrow('is no file of a data directory')
  })
})

const toText = ({ bytes, ...header }: Entry) => ({ ...header, bytes: Buffer.from(bytes).toHex() })
