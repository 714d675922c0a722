import { describe, expect, test } from 'bun:test'
import { DataDecoder } from '#features/receiving/inbound/listener/input.ts'

/** Decodes octets in pieces of a size; returns the message, and the octets after its end, if it ended. */
function decode(octets: string, pieceBytes: number): { content: string; rest: string | undefined } {
  const decoder = new DataDecoder()
  const bytes = Buffer.from(octets, 'latin1')
  let content = ''
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    const rest = decoder.decode(bytes.subarray(from, from + pieceBytes), (piece) => {
      content += Buffer.from(piece).toString('latin1')
    })
    if (rest)
      return {
        content,
        rest: Buffer.from(rest).toString('latin1') + bytes.subarray(from + pieceBytes).toString('latin1'),
      }
  }
  return { content, rest: undefined }
}

describe('the octets after DATA', () => {
  test.each([
    ['an empty message', '.\r\n', { content: '', rest: '' }],
    ['a message ends at CRLF, dot, CRLF', 'a\r\n.\r\nNOOP\r\n', { content: 'a\r\n', rest: 'NOOP\r\n' }],
    ['a doubled dot is one', '..\r\n...\r\na..b\r\n.\r\n', { content: '.\r\n..\r\na..b\r\n', rest: '' }],
    [
      'a single dot before other characters is removed (RFC 5321 §4.5.2)',
      '.a\r\n.\r\n',
      { content: 'a\r\n', rest: '' },
    ],
    ['a dot in a line is a dot', 'a.\r\nb\r.\r\n.\r\n', { content: 'a.\r\nb\r.\r\n', rest: '' }],
    ['LF, dot, LF ends nothing', 'a\n.\nb\r\n.\r\n', { content: 'a\r\n.\r\nb\r\n', rest: '' }],
    ['LF, dot, CRLF ends nothing', 'a\n.\r\nb\r\n.\r\n', { content: 'a\r\n.\r\nb\r\n', rest: '' }],
    ['CRLF, dot, LF ends nothing', 'a\r\n.\nb\r\n.\r\n', { content: 'a\r\n\r\nb\r\n', rest: '' }],
    ['CRLF, dot, CR ends nothing', 'a\r\n.\rb\r\n.\r\n', { content: 'a\r\n\rb\r\n', rest: '' }],
    ['CR, dot, CR ends nothing', 'a\r.\rb\r\n.\r\n', { content: 'a\r.\rb\r\n', rest: '' }],
    ['CR, dot, CRLF ends nothing', 'a\r.\r\nb\r\n.\r\n', { content: 'a\r.\r\nb\r\n', rest: '' }],
    [
      'CR, LF with NUL between, dot does not end the message',
      'a\r\0\n.\r\nb\r\n.\r\n',
      { content: 'a\r\0\r\n.\r\nb\r\n', rest: '' },
    ],
    ['CRLF, dot, CR, CR, LF ends nothing', 'a\r\n.\r\r\nb\r\n.\r\n', { content: 'a\r\n\r\r\nb\r\n', rest: '' }],
    ['LF, two dots, CRLF keeps both', 'a\n..\r\n.\r\n', { content: 'a\r\n..\r\n', rest: '' }],
    ['LF at the start, then the end', '\n\r\n.\r\n', { content: '\r\n\r\n', rest: '' }],
    ['a lone LF becomes CRLF, also after another', 'a\n\nb\r\n.\r\n', { content: 'a\r\n\r\nb\r\n', rest: '' }],
    ['LF, CR is no line end', 'a\n\r.\r\n.\r\n', { content: 'a\r\n\r.\r\n', rest: '' }],
    ['a lone CR and NUL stay', 'a\rb\0\r\n.\r\n', { content: 'a\rb\0\r\n', rest: '' }],
    ['a message without an end continues', 'a\r\n.\r', { content: 'a\r\n', rest: undefined }],
  ])('%s', (_, octets, expected) => {
    expect([1, 2, 3, 4, 5, 64].map((pieceBytes) => decode(octets, pieceBytes))).toEqual(Array(6).fill(expected))
  })

  test('dot-stuffed content is restored, whatever its lines', () => {
    // Every line of up to three of these characters, three times in a row.
    const characters = ['.', '\r', 'x', '']
    const lines = characters.flatMap((a) => characters.flatMap((b) => characters.flatMap((c) => [`${a}${b}${c}`])))
    const wrong = lines.filter((line) => {
      const message = `${line}\r\n`.repeat(3)
      const stuffed = `${message.replaceAll(/(^|\r\n)\./g, '$1..')}.\r\n`
      return [1, 7].some((pieceBytes) => decode(stuffed, pieceBytes).content !== message)
    })
    expect(wrong).toEqual([])
  })
})
