import { describe, expect, test } from 'bun:test'
import { parseMessage } from '#protocols/mime/parse.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import type { MessageSource } from '#protocols/mime/source.ts'

const ANN = { mailFrom: 'ann@sender.example' }
const KIB = 1024

/** Octets, one per character. */
const octets = (text: string): Buffer => Buffer.from(text, 'latin1')
const utf8 = (text: string): string => Buffer.from(text).toString('latin1')
const parse = (text: string): Promise<ParsedMessage> => parseMessage(octets(text), ANN)

/** A multipart/mixed with a text and an attachment, and `padding` after each delimiter. */
const padded = (padding: string, boundary = 'cut'): string =>
  [
    `Content-Type: multipart/mixed; boundary="${boundary}"`,
    '',
    'preamble',
    `--cut${padding}`,
    'Content-Type: text/plain',
    '',
    'the text',
    '-- ',
    'Ann',
    `--cut${padding}`,
    'Content-Type: application/pdf; name=a.pdf',
    'Content-Transfer-Encoding: base64',
    '',
    'YWJj',
    `--cut--${padding}`,
    'epilogue',
    '',
  ].join('\r\n')

const partsOf = ({ text, attachments }: ParsedMessage) => ({
  text,
  files: attachments.map(({ filename, contentType, content }) => [
    filename,
    contentType,
    Buffer.from(content).toString(),
  ]),
})

const TEXT_AND_FILE = { text: 'the text\n-- \nAnn', files: [['a.pdf', 'application/pdf', 'abc']] }

describe('white space after a delimiter (RFC 2046 §5.1.1)', () => {
  // Proves: inbound-8
  test.each([[' '], ['\t'], [' \t  \t'], [' '.repeat(1000)]])('%j is not part of it', async (padding) => {
    expect(partsOf(await parse(padded(padding)))).toEqual(TEXT_AND_FILE)
  })

  test('does not end a part unless it follows the whole delimiter', async () => {
    const message = padded('').replace('-- \r\nAnn', '--cut x\r\n--cut- \r\n--cut-- x\r\n-- cut')
    expect(partsOf(await parse(message)).text).toBe('the text\n--cut x\n--cut- \n--cut-- x\n-- cut')
  })

  test('a boundary declared with trailing white space matches without it', async () => {
    expect(partsOf(await parse(padded('', 'cut \t')))).toEqual(TEXT_AND_FILE)
    expect(partsOf(await parse(padded('  ', 'cut  ')))).toEqual(TEXT_AND_FILE)
  })

  test('a quoted boundary may have quoted pairs', async () => {
    expect(partsOf(await parse(padded(' ', '\\c\\u\\t')))).toEqual(TEXT_AND_FILE)
  })

  test('is recognised wherever the chunks of a streamed message end, and without a line end after the last delimiter', async () => {
    const bytes = octets(padded(' \t ').replace(/\r\nepilogue\r\n$/, ''))
    for (let size = 1; size < 60; size++) {
      const source: MessageSource = {
        *chunks() {
          for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
        },
      }
      expect({ size, ...partsOf(await parseMessage(source, ANN)) }).toEqual({ size, ...TEXT_AND_FILE })
    }
  })

  test('ends an attachment of 400 KiB', async () => {
    const content = `${'YWJj'.repeat(19)}\r\n`.repeat(5400)
    const { attachments, text } = await parse(padded(' ').replace('YWJj\r\n', content))
    expect([text, attachments.map((each) => each.content.length)]).toEqual([TEXT_AND_FILE.text, [5400 * 19 * 3]])
    expect(5400 * 19 * 3).toBeGreaterThan(256 * KIB)
  })

  test('in lines of 64 KiB is read in linear time', async () => {
    const line = `--cut${' '.repeat(64_000)}x\r\n`
    const { text } = await parse(padded('').replace('the text', line.repeat(20)))
    expect(text?.length).toBe(64_007 * 20 + '\n-- \nAnn'.length)
  })
})

describe('comments (RFC 2045 §5.1)', () => {
  const part = (...fields: string[]): string =>
    `Content-Type: multipart/mixed; boundary=(to be found) cut (here)\r\n\r\n--cut\r\n${fields.join('\r\n')}\r\n\r\nYWJj\r\n--cut--\r\n`
  const oneOf = async (...fields: string[]) => {
    const { attachments, text } = await parse(part(...fields))
    const [first] = attachments
    return first ? [first.filename, first.contentType, Buffer.from(first.content).toString()] : text
  }

  test.each([
    ['Content-Type: text/plain; charset=us-ascii (Plain text)', 'abc'],
    ['Content-Type: (a type) text/plain (nested (more)) ; (a) charset (b) = (c) "us-ascii" (d)', 'abc'],
    ['Content-Type: text (a) / (b) plain', 'abc'],
    ['Content-Type: text/plain (with a \\) and a ")', 'abc'],
    ['Content-Type: text/plain (that is never closed', 'abc'],
  ])('%s is a text', async (field, expected) => {
    expect(await oneOf(field, 'Content-Transfer-Encoding: (as said) base64 (indeed)')).toEqual(expected)
  })

  // Proves: inbound-8
  test.each([
    ['attachment (kept) ; filename="a.pdf" (the bill)', 'a.pdf'],
    ['attachment; filename=a.pdf (the bill)', 'a.pdf'],
    ['attachment; filename="a (1).pdf"', 'a (1).pdf'],
    ['attachment; filename=a (1).pdf', 'a (1).pdf'],
    ['attachment; filename=(1) a.pdf', '(1) a.pdf'],
    ['attachment; filename=a (1.pdf', 'a (1.pdf'],
    ['attachment; filename="a \\"1\\".pdf"', 'a "1".pdf'],
    ['attachment; filename="C:\\bills\\a.pdf"', 'a.pdf'],
    ['attachment; (x) filename (y) = (z) "a.pdf"; size=3', 'a.pdf'],
  ])('Content-Disposition: %s', async (value, filename) => {
    expect(
      await oneOf(
        'Content-Type: application/pdf (x)',
        `Content-Disposition: ${value}`,
        'Content-Transfer-Encoding: base64',
      ),
    ).toEqual([filename, 'application/pdf', 'abc'])
  })

  test('a type with a million parentheses is read in linear time', async () => {
    expect((await parse(`Content-Type: text/plain ${'('.repeat(1_000_000)}\r\n\r\nx`)).text).toBe('x')
    expect((await parse(`Content-Type: text/plain ${'(a)'.repeat(300_000)}\r\n\r\nx`)).text).toBe('x')
  })
})

describe('unencoded text of a header', () => {
  const message = (header: string, type: string): Promise<ParsedMessage> =>
    parse(`${header}\r\nContent-Type: ${type}\r\n\r\nx`)

  // Proves: inbound-8
  test.each<[what: string, raw: string, type: string, expected: string]>([
    ['is UTF-8 if valid, whatever the body', utf8('Grüße, 日本'), 'text/plain; charset=koi8-r', 'Grüße, 日本'],
    ['is in the charset of the body', '\xf0\xd2\xc9\xd7\xc5\xd4', 'text/plain; charset=koi8-r', 'Привет'],
    ['is in the charset of the body: two octets', '\x93\xfa\x96\x7b', 'text/plain; charset="shift_jis"', '日本'],
    ['is in the charset of the body: GBK', '\xc4\xe3\xba\xc3', 'text/html; charset=gb2312', '你好'],
    ['is in the charset of the body: ISO-2022-JP', '\x1b$BF|K\\\x1b(B', 'text/plain; charset=iso-2022-jp', '日本'],
    ['is windows-1252 when the body is in UTF-8', 'Gr\xfc\xdfe', 'text/plain; charset=utf-8', 'Grüße'],
    ['is windows-1252 when the body declares none', 'Gr\xfc\xdfe \x80', 'text/plain', 'Grüße €'],
    ['is windows-1252 when the body is US-ASCII', 'Gr\xfc\xdfe', 'text/plain; charset=us-ascii', 'Grüße'],
    [
      "is windows-1252 when the body's charset cannot be used in headers",
      'Gr\xfc\xdfe',
      'text/plain; charset=utf-16',
      'Grüße',
    ],
    ['is windows-1252 when the charset of the body is unknown', 'Gr\xfc\xdfe', 'text/plain; charset=x-nobody', 'Grüße'],
  ])('%s', async (_, raw, type, expected) => {
    const { subject, from, fromAddresses, headers } = await message(
      `Subject: ${raw}\r\nFrom: "${raw}" <ann@sender.example>\r\nX-Note: ${raw}`,
      type,
    )
    expect({ subject, from, fromAddresses, note: headers[2]?.[1] }).toEqual({
      subject: expected,
      from: expected.includes(',') ? `"${expected}" <ann@sender.example>` : `${expected} <ann@sender.example>`,
      fromAddresses: ['ann@sender.example'],
      note: expected,
    })
  })

  test('is in the charset of the first text part that names one, as are file names, even before that part', async () => {
    const { subject, attachments } = await parse(
      [
        'Subject: \xcf\xf0\xe8\xe2\xe5\xf2',
        'Content-Type: multipart/mixed; boundary=cut',
        '',
        '--cut',
        'Content-Type: application/pdf; name="\xcf\xf0\xe8\xe2\xe5\xf2.pdf"',
        '',
        'abc',
        '--cut',
        'Content-Type: multipart/alternative; boundary=in',
        '',
        '--in',
        'Content-Type: text/plain',
        '',
        'x',
        '--in',
        'Content-Type: text/html; charset=windows-1251',
        '',
        'x',
        '--in--',
        '--cut',
        'Content-Type: text/csv; charset=koi8-r',
        `Content-Disposition: attachment; filename="${utf8('Привет')}.csv"`,
        '',
        'x',
        '--cut--',
      ].join('\r\n'),
    )
    expect([subject, ...attachments.map(({ filename }) => filename)]).toEqual(['Привет', 'Привет.pdf', 'Привет.csv'])
  })
})

describe('names and words split inside a character', () => {
  const nameOf = async (parameters: string): Promise<string | null | undefined> =>
    (await parse(`Content-Type: application/pdf;\r\n ${parameters}\r\n\r\nx`)).attachments[0]?.filename
  const [first, second] = [utf8('日').slice(0, 2), utf8('日').slice(2)]

  // Proves: inbound-8
  test.each([
    ['percent-encoded', "name*0*=utf-8''a%E6%97;\r\n name*1*=%A5.pdf"],
    ['percent-encoded, then as they are', `name*0*=utf-8''a%E6%97;\r\n name*1="${second}.pdf"`],
    ['unchanged', `name*0="a${first}";\r\n name*1="${second}.pdf"`],
    ['in the wrong order', `name*1="${second}.pdf";\r\n name*0="a${first}"`],
    ['encoded words in base64', 'name="=?utf-8?B?YeaX?=\r\n =?UTF-8?B?pS5wZGY=?="'],
    ['encoded words in base64 with padding', 'name="=?utf-8?B?YQ==?= =?utf-8?B?5pc=?= =?utf-8?B?pS5wZGY=?="'],
    ['encoded words of both encodings', 'name="=?utf-8?Q?a=E6=97?= =?utf-8?B?pS5wZGY=?="'],
    ['encoded words in continuations', 'name*0="=?utf-8?Q?a=E6=97?=";\r\n name*1="=?utf-8?Q?=A5.pdf?="'],
    ['encoded words with a language', 'name="=?utf-8*ja?Q?a=E6=97?= =?utf-8?Q?=A5.pdf?="'],
  ])('file names: %s', async (_, parameters) => {
    expect(await nameOf(parameters)).toBe('a日.pdf')
  })

  test('text that looks like an encoded word in a percent-encoded name is part of the name', async () => {
    expect(await nameOf("name*=utf-8''%3D%3Futf-8%3FQ%3Fa%3F%3D.pdf")).toBe('=?utf-8?Q?a?=.pdf')
  })

  test.each([
    ['utf-8', '=?utf-8?Q?=E6=97?= =?utf-8?Q?=A5?=', '日'],
    ['both encodings', '=?utf-8?B?5pc=?=\r\n =?utf-8?Q?=A5?=', '日'],
    ['gb18030', '=?gb18030?B?xA==?= =?GB18030?B?4w==?=', '你'],
    ['different charsets are decoded separately', '=?utf-8?Q?=C3=BC?= =?iso-8859-1?Q?=FC?=', 'üü'],
    ['plain text separates them', '=?utf-8?Q?=C3=BC?= x =?utf-8?Q?=C3=BC?=', 'ü x ü'],
    ['words without white space between them', '=?utf-8?Q?=E6=97?==?utf-8?Q?=A5?=', '日'],
    ['names of one charset', '=?latin1?Q?=FC?= =?iso-8859-1?Q?=FC?=', 'üü'],
  ])('subjects: %s', async (_, subject, expected) => {
    expect((await parse(`Subject: ${subject}\r\n\r\nx`)).subject).toBe(expected)
  })
})

describe('charsets of 7 bits that the runtime does not know', () => {
  const KOREAN = '\x1b$)C\x0eH#GQ19\x0f abc\r\n\x0eGQ19\x0f.'

  // Proves: inbound-8
  test.each<[charset: string, body: string, expected: string]>([
    ['iso-2022-kr', KOREAN, '호한국 abc\n한국.'],
    ['ISO-2022-KR', `Hello\r\n${KOREAN}`, 'Hello\n호한국 abc\n한국.'],
    ['csISO2022KR', KOREAN, '호한국 abc\n한국.'],
    ['hz-gb-2312', 'This: ~{<:Ky2;S{#,NpJ)l6HK!#~}Bye. ~~ a~\r\nb~\nc', 'This: 己所不欲，勿施於人。Bye. ~ abc'],
    ['HZ-GB-2312', '~{VP\r\nabc~\n~{9z~}', '中\nabc国'],
    ['hz', '~{VP~}~x', '中~x'],
  ])('%s', async (charset, body, expected) => {
    expect((await parse(`Content-Type: text/plain; charset=${charset}\r\n\r\n${body}`)).text).toBe(expected)
  })

  test('subjects and file names', async () => {
    const { subject, attachments } = await parse(
      [
        'Subject: =?ISO-2022-KR?B?GyQpQw5HUTE5Dw==?= =?hz-gb-2312?Q?~{VP9z~}?=',
        "Content-Type: application/pdf; name*=iso-2022-kr''%1B$)C%0EGQ19%0F.pdf",
        '',
        'x',
      ].join('\r\n'),
    )
    expect([subject, attachments[0]?.filename]).toEqual(['한국中国', '한국.pdf'])
  })

  test('joined ISO-2022-JP has no replacement characters', async () => {
    const body = '\x1b$BF|\x1b(B\x1b$BK\\\x1b(B'
    expect((await parse(`Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n${body}`)).text).toBe('日本')
  })
})
