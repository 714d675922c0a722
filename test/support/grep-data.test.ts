import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { grepData } from './grep-data.ts'

const WORD = 'Marker-Person@victim.test'

/** The result of `grepData` for a file with this content. */
function grepOf(content: string | Uint8Array): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-grep-'))
  try {
    writeFileSync(join(folder, 'file'), content)
    return grepData(folder, [WORD])
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test.each([0, 1, 2, 3, 4, 5])(
  'a word is found in base64 at any offset, even across line ends: after %i characters',
  (before) => {
    const encoded = Buffer.from(`${'x'.repeat(before)}${WORD} and more`).toString('base64')
    expect(grepOf(`${encoded.slice(0, 10)}\r\n${encoded.slice(10)}`)).toEqual([`file: base64 ${WORD}`])
  },
)

test.each([
  ['raw', `some ${WORD.toUpperCase()} text`],
  ['utf-16le', Buffer.from(`some ${WORD} text`, 'utf16le')],
  ['quoted-printable', WORD.replace('@', '=40').replace('victim', 'vic=\r\ntim')],
  ['percent-encoded', encodeURIComponent(WORD)],
  [
    'zstd, raw',
    Buffer.concat([Buffer.from('before'), Bun.zstdCompressSync(`${'x'.repeat(300)}${WORD}`), Buffer.from('after')]),
  ],
] as const)('a word is found: %s', (how, content) => {
  expect(grepOf(content)).toContain(`file: ${how} ${WORD}`)
})

test('a word split over two compressed frames is found, and another word is not', () => {
  const frames = Buffer.concat([
    Bun.zstdCompressSync(`a ${WORD.slice(0, 9)}`),
    Bun.zstdCompressSync(`${WORD.slice(9)} b`),
  ])
  expect([grepOf(frames), grepOf(Bun.zstdCompressSync('somebody@else.test'))]).toEqual([
    [`file: zstd, raw ${WORD}`],
    [],
  ])
})

test('a database is searched row by row, its search indexes word by word', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-grep-'))
  try {
    const db = new Database(join(folder, 'a.db'))
    db.run("PRAGMA page_size = 512; CREATE VIRTUAL TABLE found USING fts5(text, content='')")
    db.run("CREATE TABLE rows (a); INSERT INTO found (rowid, text) VALUES (1, 'markera markerperson')")
    // Longer than a page, with the word at the end of one.
    for (let at = 440; at < 520; at++)
      db.run('INSERT INTO rows VALUES (?)', [`${'x'.repeat(at)}markerperson${'y'.repeat(900)}`])
    db.close()
    const found = grepData(folder, ['markerperson'])
    expect({
      rows: found.filter((line) => line === 'a.db: rows.a, raw markerperson').length,
      words: found.filter((line) => line === 'a.db: word markerperson in found'),
    }).toEqual({ rows: 80, words: ['a.db: word markerperson in found'] })
  } finally {
    rmSync(folder, { recursive: true })
  }
})
