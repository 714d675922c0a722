import { expect, test } from 'bun:test'
import { encodeBase64, encodeText } from '#protocols/mime/encode.ts'
import { runSteps } from '#test/support/compose.ts'
import { createTrickyInput, seededRandom } from './sample.ts'

const KiB = 1024

/** RFC 2045 §6.7, strictly. */
const decode = (wire: string): string =>
  Buffer.from(
    wire
      .replaceAll('=\r\n', '')
      .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString()

const encoded = (text: string) => {
  const { encoding, pieces } = runSteps(encodeText(Buffer.from(text)))
  return { encoding, wire: Buffer.concat(pieces).toString('latin1') }
}

function decoded({ encoding, wire }: { encoding: string; wire: string }): string {
  if (encoding === 'base64') return Buffer.from(wire, 'base64').toString()
  return encoding === '7bit' ? wire : decode(wire)
}

const withCrlf = (text: string) => text.toWellFormed().replaceAll(/\r\n?|\n/g, '\r\n')

test.each([
  ['English', 'A few words, and nothing else.\n'.repeat(9), '7bit'],
  ['English in a long line', 'A few words, and nothing else. '.repeat(9), 'quoted-printable'],
  ['German', 'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.\n', 'quoted-printable'],
  ['Russian', 'Съешь же ещё этих мягких французских булок.\n', 'base64'],
  ['Japanese', 'いろはにほへと\n', 'base64'],
  ['escaped characters', '='.repeat(80), 'base64'],
  ['nothing', '', '7bit'],
])('%s is sent unchanged, or in the shorter encoding', (_, text, expected) => {
  const result = encoded(text)
  expect(result.encoding).toBe(expected as '7bit')
  expect(decoded(result)).toBe(withCrlf(text))
})

test('300 texts in quoted-printable and base64 are decoded again, from short lines without trailing white space', () => {
  for (let number = 0; number < 300; number++) {
    const { text = '', html = '' } = createTrickyInput(number)
    for (const source of [text, html, `${'a plain beginning, so that it is quoted '.repeat(40)}${text}`]) {
      const result = encoded(source)
      expect(decoded(result)).toBe(withCrlf(source))
      for (const line of result.wire.split('\r\n')) {
        expect(line.length).toBeLessThanOrEqual(76)
        expect(line).not.toMatch(/[ \t]$|^From |=_T|[^\t -~]/)
      }
    }
  }
})

test('quoted-printable never splits a character across two lines', () => {
  for (const character of ['é', '日', '🎉'])
    for (let before = 0; before < 80; before++) {
      const { encoding, wire } = encoded(`${'x'.repeat(before)}${character}${'y'.repeat(80)}`)
      expect(encoding).toBe('quoted-printable')
      for (const line of wire.split('=\r\n')) expect(decode(line)).not.toContain('\ufffd')
    }
})

test('a "From " after a soft line break is escaped', () => {
  expect(encoded(`${'x'.repeat(75)}From me`).wire).toBe(`${'x'.repeat(75)}=\r\n=46rom me`)
})

test('a large attachment is encoded in many chunks, and decoded again for pieces of any size', () => {
  const random = seededRandom(5)
  const content = Buffer.alloc(
    1024 * KiB,
    Uint8Array.from({ length: 999 }, () => random(256)),
  )
  const steps = encodeBase64([content.subarray(0, 100), content.subarray(100, 70_000), content.subarray(70_000)])
  let yields = 0
  let step = steps.next()
  for (; !step.done; step = steps.next()) yields++
  expect(yields).toBeGreaterThanOrEqual(17)
  const wire = Buffer.concat(step.value.pieces).toString('latin1')
  expect(wire).toMatch(/^(?:[^\r\n]{76}\r\n)+[^\r\n]{1,76}\r\n$/)
  expect(Buffer.from(wire, 'base64').equals(content)).toBe(true)
})

test.each([
  ['line feeds', '\n'],
  ['blanks at line ends', ' \n'],
  ['carriage returns', '\r'],
  ['one long word', 'x'],
  ['escaped characters', '='],
  ['emoji', '🎉'],
])(
  'a body of 2 MiB of %s is encoded in chunks of at most 64 KiB, to at most one and a half times its size',
  (_, unit) => {
    const text = Buffer.alloc(2048 * KiB, unit)
    const steps = encodeText(text)
    let yields = 0
    let step = steps.next()
    for (; !step.done; step = steps.next()) yields++
    expect(yields).toBeGreaterThanOrEqual(2 * 31)
    const crlfBytes = Buffer.byteLength(withCrlf(text.toString()))
    const wireBytes = step.value.pieces.reduce((sum, piece) => sum + piece.length, 0)
    expect(wireBytes).toBeLessThanOrEqual(crlfBytes * 1.5)
  },
)
