import { expect, test } from 'bun:test'
import { CommandInput } from '#features/receiving/inbound/listener/input.ts'
import { seededRandom } from '#test/support/random.ts'

const MAX_LINE_BYTES = 20

/** The lines of an input that arrives in these pieces, and the rest. */
function readLines(pieces: readonly Buffer[]): { lines: string[]; rest: string } {
  const input = new CommandInput(MAX_LINE_BYTES)
  const lines: string[] = []
  for (const piece of pieces) {
    input.add(piece)
    for (let line = input.takeLine(); line !== undefined; line = input.takeLine()) {
      lines.push(line)
      if (line === 'too long') return { lines, rest: '' }
    }
  }
  return { lines, rest: input.takeAll().toString() }
}

test.each([
  ['CRLF and LF alone end a line', 'EHLO a\r\nNOOP\n\r\n\nQUIT', ['EHLO a', 'NOOP', '', ''], 'QUIT'],
  ['CR alone ends none, and one CR before LF belongs to the line end', 'a\rb\r\r\nc\r', ['a\rb\r'], 'c\r'],
  ['a line is UTF-8, also where a piece divides a character', 'jürgen 😀\r\n', ['jürgen 😀'], ''],
  ['a line of the largest size is read', `${'x'.repeat(20)}\r\n${'y'.repeat(20)}`, ['x'.repeat(20)], 'y'.repeat(20)],
  ['one octet more is too long', `NOOP\r\n${'x'.repeat(21)}\r\n`, ['NOOP', 'too long'], ''],
])('%s, wherever the input is split', (_, text, lines, rest) => {
  const octets = Buffer.from(text)
  const random = seededRandom(1)
  const results = Array.from({ length: 50 }, () => {
    const pieces: Buffer[] = []
    for (let from = 0; from < octets.length; ) {
      const to = from + random.between(1, 8)
      pieces.push(octets.subarray(from, to))
      from = to
    }
    return readLines(pieces)
  })
  expect([readLines([octets]), ...results]).toEqual(Array.from({ length: 51 }, () => ({ lines, rest })))
})

test('an endless line is too long as soon as it exceeds the limit', () => {
  const input = new CommandInput(MAX_LINE_BYTES)
  input.add(Buffer.from('x'.repeat(20)))
  const before = input.takeLine()
  input.add(Buffer.from('x'))
  expect([before, input.takeLine()]).toEqual([undefined, 'too long'])
})
