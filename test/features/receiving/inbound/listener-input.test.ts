import { describe, expect, test } from 'bun:test'
import { parsePath } from '#features/receiving/inbound/listener/commands.ts'
import { CommandInput, DataDecoder } from '#features/receiving/inbound/listener/input.ts'
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

/** The address, then the parameters; or the kind of error. */
function read(command: 'MAIL' | 'RCPT', line: string): unknown {
  const path = parsePath(command, line)
  if ('code' in path) return path.code === 555 ? `unknown ${path.text.split(' ').at(-1)}` : 'syntax'
  return [path.address, Object.fromEntries(path.parameters), ...(path.needsSmtpUtf8 ? ['SMTPUTF8'] : [])]
}

describe('MAIL', () => {
  test.each([
    ['the null reverse-path', 'MAIL FROM:<>', ['', {}]],
    [
      'parameters',
      'MAIL FROM:<a@b.test> SIZE=100 body=8BITMIME SMTPUTF8',
      ['a@b.test', { SIZE: '100', BODY: '8BITMIME', SMTPUTF8: true }],
    ],
    ['spaces where none should be', 'mail from : <a@b.test>  SIZE=1 ', ['a@b.test', { SIZE: '1' }]],
    ['AUTH, which says nothing', 'MAIL FROM:<a@b.test> AUTH=<>', ['a@b.test', { AUTH: '<>' }]],
    ['AUTH with xtext', 'MAIL FROM:<a@b.test> AUTH=e+3Dmc2@b.test', ['a@b.test', { AUTH: 'e+3Dmc2@b.test' }]],
    ['a source route is ignored', 'MAIL FROM:<@one.test,@two.test:a@b.test>', ['a@b.test', {}]],
    [
      'a quoted local part with everything',
      'MAIL FROM:<"a b@c>\\"d"@b.test> SIZE=1',
      ['"a b@c>\\"d"@b.test', { SIZE: '1' }],
    ],
    ['dots at the edges, as some senders have them', 'MAIL FROM:<.a..b.@b.test>', ['.a..b.@b.test', {}]],
    ['an underscore in a domain', 'MAIL FROM:<a@my_host.b.test>', ['a@my_host.b.test', {}]],
    ['a domain of one label', 'MAIL FROM:<root@localhost>', ['root@localhost', {}]],
    ['a domain literal', 'MAIL FROM:<a@[IPv6:2001:db8::1]>', ['a@[IPv6:2001:db8::1]', {}]],
    ['an internationalised domain, as A-labels', 'MAIL FROM:<a@bücher.test>', ['a@xn--bcher-kva.test', {}]],
    [
      'a local part that is not ASCII',
      'MAIL FROM:<jürgen@b.test> SMTPUTF8',
      ['jürgen@b.test', { SMTPUTF8: true }, 'SMTPUTF8'],
    ],
    ['no brackets', 'MAIL FROM:a@b.test', 'syntax'],
    ['no closing bracket', 'MAIL FROM:<a@b.test', 'syntax'],
    ['no domain', 'MAIL FROM:<postmaster>', 'syntax'],
    ['nothing before the @', 'MAIL FROM:<@b.test>', 'syntax'],
    ['two unquoted @', 'MAIL FROM:<a@b@c.test>', 'syntax'],
    ['a root dot', 'MAIL FROM:<a@b.test.>', 'syntax'],
    ['a control character', 'MAIL FROM:<a\rb@c.test>', 'syntax'],
    ['a control character in quotes', 'MAIL FROM:<"a\tb"@c.test>', 'syntax'],
    ['a zero-width space', 'MAIL FROM:<a\u200bb@c.test>', 'syntax'],
    ['octets that are no UTF-8', 'MAIL FROM:<a\ufffd@c.test>', 'syntax'],
    ['a parameter twice', 'MAIL FROM:<a@b.test> SIZE=1 SIZE=2', 'syntax'],
    ['a parameter glued to the path', 'MAIL FROM:<a@b.test>SIZE=1', 'syntax'],
    ['a parameter that the server did not offer', 'MAIL FROM:<a@b.test> RET=HDRS', 'unknown RET'],
    ['another command', 'MAIL TO:<a@b.test>', 'syntax'],
    ['254 octets', `MAIL FROM:<${'a'.repeat(247)}@b.test>`, [`${'a'.repeat(247)}@b.test`, {}]],
    ['255 octets', `MAIL FROM:<${'a'.repeat(248)}@b.test>`, 'syntax'],
  ])('%s', (_, line, expected) => {
    expect(read('MAIL', line)).toEqual(expected)
  })
})

describe('RCPT', () => {
  test.each([
    ['postmaster without a domain (RFC 5321 §4.1.1.3)', 'RCPT TO:<PostMaster>', ['PostMaster', {}]],
    ['an address', 'RCPT TO:<a@B.Test>', ['a@b.test', {}]],
    ['no address at all', 'RCPT TO:<>', 'syntax'],
    ['a parameter that the server did not offer', 'RCPT TO:<a@b.test> NOTIFY=NEVER', 'unknown NOTIFY'],
  ])('%s', (_, line, expected) => {
    expect(read('RCPT', line)).toEqual(expected)
  })
})
