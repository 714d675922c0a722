import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { CanonicalBody } from '#protocols/dkim/body-hash.ts'
import { seededRandom } from '../mime/sample.ts'

/** RFC 6376 §3.4.4, literally. */
const canonical = (body: string): string => {
  const lines = body.split('\r\n').map((line) => line.replaceAll(/[ \t]+/g, ' ').replace(/ $/, ''))
  while (lines.at(-1) === '') lines.pop()
  return lines.map((line) => `${line}\r\n`).join('')
}

const hashOf = (pieces: readonly string[]): string => {
  const body = new CanonicalBody('relaxed')
  const hash = body.addHash('sha256')
  for (const piece of pieces) body.update(Buffer.from(piece))
  return hash.digest('base64')
}

const expected = (body: string): string => createHash('sha256').update(canonical(body)).digest('base64')

test.each([
  ['nothing', ''],
  ['an empty line', '\r\n'],
  ['blanks alone', ' \t\r\n \r\n'],
  ['an open last line', 'a'],
  ['an open last line of blanks', 'a\r\n \t'],
  ['empty lines within and at the end', 'a\r\n\r\n\r\nb\r\n\r\n\r\n'],
  ['a carriage return within a line', 'a\rb \r c\r\n'],
  ['base64 between empty lines', `\r\n\r\n${'QUJD'.repeat(19)}\r\n${'QUJD'.repeat(19)}\r\n\r\n--b\r\n`],
  ['the example of RFC 6376 §3.4.5', ' C \r\nD \t E\r\n\r\n\r\n'],
])('%s has the hash of its canonical form, wherever it is split', (_, body) => {
  for (let pieceBytes = 1; pieceBytes <= body.length + 1; pieceBytes++)
    expect(hashOf(body.match(new RegExp(`[^]{1,${pieceBytes}}`, 'g')) ?? [])).toBe(expected(body))
})

test('300 random bodies have the hash of their canonical form, split at line ends and elsewhere', () => {
  const random = seededRandom(3)
  const PARTS = ['\r\n', '\r\n', 'QUJDREVG', ' ', '\t ', 'word', '.', '=\r\n', `${'x'.repeat(76)}\r\n`]
  for (let number = 0; number < 300; number++) {
    const parts = Array.from({ length: random(60) }, () => PARTS[random(PARTS.length)] ?? '')
    expect(hashOf(parts)).toBe(expected(parts.join('')))
    const lines = parts.join('').split(/(?<=\r\n)/)
    expect(hashOf(lines)).toBe(expected(parts.join('')))
    const groups = Array.from({ length: 10 }, (_, i) => lines.slice(i * 3, i === 9 ? undefined : i * 3 + 3).join(''))
    expect(hashOf(groups)).toBe(expected(parts.join('')))
  }
})
