import { expect, test } from 'bun:test'
import { generateDataBlocks } from '#protocols/smtp/dot-stuffing.ts'

const sent = (message: string, blockBytes?: number, pieceBytes = message.length) => {
  const bytes = Buffer.from(message, 'latin1')
  const pieces: Buffer[] = []
  for (let from = 0; from < bytes.length; from += pieceBytes) pieces.push(bytes.subarray(from, from + pieceBytes))
  return Buffer.concat([...generateDataBlocks(pieces, blockBytes)]).toString('latin1')
}

// Proves: delivery-14
test.each([
  ['an empty message', '', '.\r\n'],
  ['one line', 'a\r\n', 'a\r\n.\r\n'],
  ['a last line without an end', 'a', 'a\r\n.\r\n'],
  ['a last line with half an end', 'a\r', 'a\r\r\n.\r\n'],
  ['a bare LF at the end', 'a\n', 'a\n\r\n.\r\n'],
  ['an empty line', '\r\n', '\r\n.\r\n'],
  ['empty lines at the end', 'a\r\n\r\n', 'a\r\n\r\n.\r\n'],
  ['a lone dot', '.', '..\r\n.\r\n'],
  ['a line of a dot', 'a\r\n.\r\nb\r\n', 'a\r\n..\r\nb\r\n.\r\n'],
  ['a line of two dots', 'a\r\n..\r\n', 'a\r\n...\r\n.\r\n'],
  ['a dot at the start of the message', '.a\r\n', '..a\r\n.\r\n'],
  ['a dot as the last octet', 'a\r\n.', 'a\r\n..\r\n.\r\n'],
  ['dots elsewhere', 'a.b\r\nc.\r\n', 'a.b\r\nc.\r\n.\r\n'],
  ['lines of dots only', '.\r\n.\r\n.\r\n', '..\r\n..\r\n..\r\n.\r\n'],
])('%s is sent correctly for blocks and pieces of any size', (_, message, expected) => {
  for (let blockBytes = 1; blockBytes <= message.length + 1; blockBytes++)
    for (let pieceBytes = 1; pieceBytes <= message.length + 1; pieceBytes++)
      expect(sent(message, blockBytes, pieceBytes)).toBe(expected)
  expect(sent(message)).toBe(expected)
})

test('a message of many blocks is unchanged after the dots are removed', () => {
  const message = Array.from({ length: 20_000 }, (_, i) => `${'.'.repeat(i % 4)}${'x'.repeat(i % 90)}\r\n`).join('')
  const wire = sent(message, 1000)
  expect(wire.endsWith('\r\n.\r\n')).toBe(true)
  expect(wire.slice(0, -3).replace(/(^|\r\n)\./g, '$1')).toBe(message)
  expect(wire.slice(0, -3)).not.toContain('\r\n.\r\n')
})

test('blocks without a dot to double are views of the message, not copies', () => {
  const message = Buffer.alloc(10_000, 'a')
  const blocks = [...generateDataBlocks([message], 1000)]
  expect(blocks).toHaveLength(10)
  expect(blocks.filter((block) => block.buffer === message.buffer)).toHaveLength(9)
})

test('a message that is a view of a larger buffer sends only its own octets', () => {
  const whole = Buffer.from('\r\n.before.after\r\n.')
  expect(
    Buffer.concat([...generateDataBlocks([new Uint8Array(whole.buffer, whole.byteOffset + 3, 6)])]).toString(),
  ).toBe('before\r\n.\r\n')
})
