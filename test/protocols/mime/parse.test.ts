import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseMessage } from '#protocols/mime/parse.ts'
import { type ParsedMessage, UnparseableError } from '#protocols/mime/parsed.ts'
import { CORPUS, type Expected, type ExpectedAttachment } from './corpus.ts'

const FOLDER = join(import.meta.dir, '../../corpus/messages')
const ANN = { mailFrom: 'ann@sender.example' }

const parse = (text: string | Uint8Array): Promise<ParsedMessage> =>
  parseMessage(typeof text === 'string' ? Buffer.from(text) : text, ANN)

/** Returns the reason for which a message is rejected. */
const readRefusal = (text: string | Uint8Array): Promise<string> =>
  parse(text).then(
    () => 'it was parsed',
    (error: unknown) => (error instanceof UnparseableError ? error.message : `a bug: ${error}`),
  )

const hashOf = (content: Uint8Array): string =>
  new Bun.CryptoHasher('sha256').update(content).digest('hex').slice(0, 16)

function selectExpected(message: ParsedMessage, expected: Expected): Expected {
  const { subject, text, html } = message
  const attachments = message.attachments.map(
    (a): ExpectedAttachment => [
      a.filename,
      a.contentType,
      a.content.length,
      hashOf(a.content),
      a.disposition,
      a.contentId,
    ],
  )
  const all: Required<Expected> = {
    ...message,
    subject,
    text,
    html,
    attachments,
    referenceCount: message.references.length,
  }
  return Object.fromEntries(
    Object.keys(expected).map((key) => [key, all[key as keyof Expected]]),
  ) as unknown as Expected
}

describe('the corpus', () => {
  const names = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.eml'))
    .map((name) => name.slice(0, -4))

  test('has at least 60 messages, each listed in the table', () => {
    expect(names.sort()).toEqual(Object.keys(CORPUS).sort())
    expect(names.length).toBeGreaterThanOrEqual(60)
  })

  test.each(Object.entries(CORPUS))('%s is parsed as it was written', async (name, expected) => {
    expect(selectExpected(await parse(readFileSync(join(FOLDER, `${name}.eml`))), expected)).toEqual(expected)
  })

  test('every text of every message is well-formed Unicode without NUL, and headers have no control characters but tabs', async () => {
    for (const name of names) {
      const message = await parse(readFileSync(join(FOLDER, `${name}.eml`)))
      const { headers, text, html, attachments, fromAddresses, toAddresses, references, ...rest } = message
      const strings = [
        ...Object.values(rest),
        text,
        html,
        ...headers.flat(),
        ...fromAddresses,
        ...toAddresses,
        ...references,
      ]
        .concat(attachments.flatMap(({ filename, contentId, contentType }) => [filename, contentId, contentType]))
        .filter((value) => typeof value === 'string')
      expect({ name, bad: strings.filter((value) => !value.isWellFormed() || value.includes('\0')) }).toEqual({
        name,
        bad: [],
      })
      expect({ name, bad: headers.filter(([, value]) => /[\0-\x08\x0a-\x1f\x7f]/.test(value)) }).toEqual({
        name,
        bad: [],
      })
    }
  })
})

test('a whole message: every field of the result', async () => {
  const message = [
    'Received: from a.example by b.example;',
    '\tTue, 3 Nov 2026 10:15:01 +0100',
    'From: =?utf-8?Q?J=C3=B6rg?= <joerg@Sender.Example>',
    'To: Support <support@tassis.example>, other@tassis.example',
    'Cc: cc@tassis.example',
    'Reply-To: "Desk, Front" <desk@sender.example>',
    'Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=',
    'Date: Tue, 3 Nov 2026 10:15:00 +0100 (CET)',
    'Message-ID: <id-1@sender.example>',
    'In-Reply-To: <id-0@tassis.example>',
    'References: <root@tassis.example>',
    ' <id-0@tassis.example>',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'hello',
    '',
  ].join('\r\n')
  expect(await parse(message)).toEqual({
    headers: [
      ['Received', 'from a.example by b.example;\tTue, 3 Nov 2026 10:15:01 +0100'],
      ['From', 'Jörg <joerg@Sender.Example>'],
      ['To', 'Support <support@tassis.example>, other@tassis.example'],
      ['Cc', 'cc@tassis.example'],
      ['Reply-To', '"Desk, Front" <desk@sender.example>'],
      ['Subject', 'Grüße'],
      ['Date', 'Tue, 3 Nov 2026 10:15:00 +0100 (CET)'],
      ['Message-ID', '<id-1@sender.example>'],
      ['In-Reply-To', '<id-0@tassis.example>'],
      ['References', '<root@tassis.example> <id-0@tassis.example>'],
      ['Content-Type', 'text/plain; charset=utf-8'],
    ],
    from: 'Jörg <joerg@Sender.Example>',
    to: 'Support <support@tassis.example>, other@tassis.example',
    cc: 'cc@tassis.example',
    replyTo: '"Desk, Front" <desk@sender.example>',
    fromAddresses: ['joerg@Sender.Example'],
    toAddresses: ['support@tassis.example', 'other@tassis.example'],
    subject: 'Grüße',
    messageId: '<id-1@sender.example>',
    inReplyTo: '<id-0@tassis.example>',
    references: ['<root@tassis.example>', '<id-0@tassis.example>'],
    dateMs: Date.UTC(2026, 10, 3, 9, 15),
    text: 'hello\n',
    html: null,
    attachments: [],
    isAutomatic: false,
  })
})

describe('dates', () => {
  test.each([
    ['Tue, 3 Nov 2026 10:15:00 +0100', Date.UTC(2026, 10, 3, 9, 15)],
    ['3 Nov 2026 10:15 -0930', Date.UTC(2026, 10, 3, 19, 45)],
    ['Tue, 03 Nov 26 10:15:00 GMT', Date.UTC(2026, 10, 3, 10, 15)],
    ['Wed, 03 Nov 1999 10:15:00 EST', Date.UTC(1999, 10, 3, 15, 15)],
    ['Tuesday, 3-Nov-2026 10:15:00 (of no zone)', Date.UTC(2026, 10, 3, 10, 15)],
    ['2026-11-03T10:15:00Z', Date.UTC(2026, 10, 3, 10, 15)],
    ['2026-11-03 10:15:00+01:00', Date.UTC(2026, 10, 3, 9, 15)],
    ['Tue, 3 Nov 2026 10:15:00 +0200 CEST', Date.UTC(2026, 10, 3, 8, 15)],
    ['Tue, 3 Nov 2026 10:15:00EST', Date.UTC(2026, 10, 3, 15, 15)],
    ['Tue, 3 Nov 2026 10:15:00 XYZ', Date.UTC(2026, 10, 3, 10, 15)],
    ['yesterday', null],
    ['2', null],
    ['Tue, 3 Foo 2026 10:15:00 +0100', null],
    ['Thu, 1 Jan 1903 00:00:00 +0000', null],
    ['99 Nov 2026 10:15:00 +0100', null],
    ['', null],
  ])('%s', async (value, expected) => {
    expect((await parse(`Date: ${value}\r\n\r\n`)).dateMs).toBe(expected)
  })
})

describe('a message sent by a program (RFC 3834)', () => {
  test.each([
    ['Auto-Submitted: auto-generated', true],
    ['Auto-Submitted: Auto-Replied; owner-email="a@b.example"', true],
    ['Auto-Submitted: no', false],
    ['Auto-Submitted: No (a person wrote this)', false],
    ['Precedence: bulk', true],
    ['Precedence: LIST', true],
    ['Precedence: junk', true],
    ['Precedence: first-class', false],
    ['List-Id: <x.example>', true],
    ['X-Auto-Response-Suppress: OOF', true],
    ['X-Other: 1', false],
  ])('%s: %p', async (field, expected) => {
    expect((await parse(`From: a@b.example\r\n${field}\r\n\r\nx`)).isAutomatic).toBe(expected)
  })

  test('the null reverse-path', async () => {
    expect((await parseMessage(Buffer.from('From: a@b.example\r\n\r\nx'), { mailFrom: '' })).isAutomatic).toBe(true)
  })
})

describe('message ids', () => {
  test.each([
    ['<a@b.example>', ['<a@b.example>']],
    ['a@b.example', ['<a@b.example>']],
    ['<a@b.example>,<c@d.example>', ['<a@b.example>', '<c@d.example>']],
    ['<a@b.\r\n example> (a comment)', ['<a@b.example>']],
    ['<> <a@b.example>', ['<a@b.example>']],
    [`<${'x'.repeat(997)}>`, []],
    ['', []],
  ])('References: %j', async (value, expected) => {
    expect((await parse(`References: ${value}\r\n\r\n`)).references).toEqual(expected)
  })

  test('of more than 1,000 references the first and the last 999 are kept', async () => {
    const ids = Array.from({ length: 1500 }, (_, index) => `<${index}@b.example>`)
    const { references } = await parse(`References: ${ids.join('\r\n ')}\r\n\r\n`)
    expect(references).toEqual(['<0@b.example>', ...ids.slice(501)])
  })
})

test.each([
  ['cp437', 'gQ==', 'ü'],
  ['utf-7', 'K0FPUS0=', 'ä'],
  ['x-nobody-knows-it', 'Z3LDvG4=', 'grün'],
])('a charset unknown to the platform is decoded in base64 too: %s', async (charset, body, text) => {
  const head = `Content-Type: text/plain; charset=${charset}\r\nContent-Transfer-Encoding: base64\r\n\r\n`
  expect((await parse(head + body)).text).toBe(text)
})

const mixed = (parts: readonly string[]): string =>
  `Content-Type: multipart/mixed; boundary=x\r\n\r\n${parts.map((part) => `--x\r\n${part}\r\n`).join('')}--x--\r\n`

test.each([
  ['', 'another part'],
  ['', 'the end'],
  ['\r\n', 'another part'],
  ['\r\n', 'the end'],
  ['a', 'the end'],
  ['\r\n\r\n--', 'another part'],
  ['a\r\n', 'another part'],
])('a part of the octets %j before %s', async (content, next) => {
  const part = `Content-Type: a/b\r\n\r\n${content}`
  const { attachments } = await parse(mixed(next === 'the end' ? [part] : [part, 'Content-Type: a/c\r\n\r\nb']))
  expect(Buffer.from(attachments[0]?.content ?? []).toString()).toBe(content)
})

const nested = (levels: number): string =>
  `${Array.from({ length: levels - 1 }, (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\r\n\r\n--b${i}\r\n`).join('')}\r\ninnermost`

describe('limits', () => {
  const HEADER = 'The header of the message is longer than 1 MiB or has more than 100,000 lines.'

  test('a header of 1 MiB is parsed, a longer one rejected', async () => {
    const filler = (length: number): string => `X-A: ${'a'.repeat(994)}\r\n`.repeat(length / 1001)
    const head = filler(1001 * 1047)
    expect((await parse(`${head}Subject: end\r\n\r\nx`)).subject).toBe('end')
    expect(await readRefusal(`${head}X-B: ${'b'.repeat(1000)}\r\n\r\nx`)).toBe(HEADER)
    expect(await readRefusal(`X: ${'a'.repeat(2 * 1024 * 1024)}`)).toBe(HEADER)
  })

  test('a header of 100,000 lines is parsed, a longer one rejected', async () => {
    expect((await parse(`${'X:\r\n'.repeat(99_999)}\r\nx`)).headers.length).toBe(99_999)
    expect(await readRefusal(`${'X:\n'.repeat(100_001)}\nx`)).toBe(HEADER)
    expect((await parse(`X: a${'\r\n b'.repeat(90_000)}\r\n\r\nx`)).headers.length).toBe(1)
  })

  test('the header of a part may have 1 MiB, and all of them 200,000 fields and 8 MiB', async () => {
    const refused = 'The headers of the parts of the message have more than 200,000 fields or 8 MiB.'
    expect(await readRefusal(mixed([`X: ${'a'.repeat(1024 * 1024)}\r\n\r\nx`]))).toBe(
      'The header of a part of the message is longer than 1 MiB.',
    )
    const part = `${'X:\r\n'.repeat(50_000)}\r\nx`
    expect((await parse(mixed([part, part, part]))).text).toBe('x\nx\nx')
    expect(await readRefusal(mixed([part, part, part, part]))).toBe(refused)
    const long = `X: ${'a'.repeat(1_000_000)}\r\n\r\nx`
    expect((await parse(mixed(Array.from({ length: 8 }, () => long)))).text).toBe('x\nx\nx\nx\nx\nx\nx\nx')
    expect(await readRefusal(mixed(Array.from({ length: 9 }, () => long)))).toBe(refused)
  })

  test('9,999 parts besides the message itself are parsed, more are rejected', async () => {
    expect((await parse(mixed(Array.from({ length: 9999 }, () => '\r\na')))).text?.length).toBe(9999 * 2 - 1)
    expect(await readRefusal(mixed(Array.from({ length: 10_001 }, () => '\r\na')))).toBe(
      'The message has more than 10000 parts.',
    )
  })

  test('100 levels are parsed, 101 are rejected', async () => {
    expect((await parse(nested(100))).text).toBe('innermost')
    expect(await readRefusal(nested(101))).toBe('The parts of the message are nested more than 100 levels deep.')
    expect(await readRefusal(nested(9000))).toBe('The parts of the message are nested more than 100 levels deep.')
  })

  test('1,000 attachments are parsed, 1,001 are rejected', async () => {
    const attachment = 'Content-Type: a/b\r\n\r\na'
    expect((await parse(mixed(Array.from({ length: 1000 }, () => attachment)))).attachments.length).toBe(1000)
    expect(await readRefusal(mixed(Array.from({ length: 1001 }, () => attachment)))).toBe(
      'The message has more than 1000 attachments.',
    )
  })

  test('a message inside a message inside a message… is one attachment', async () => {
    const inner = 'Content-Type: message/rfc822\r\n\r\n'.repeat(5000)
    const { attachments } = await parse(inner)
    expect(attachments.map(({ contentType, content }) => [contentType, content.length])).toEqual([
      ['message/rfc822', inner.length - 32],
    ])
  })

  test('more than 1,000 carriage returns in a row are rejected', async () => {
    const refused = 'The message has more than 1,000 carriage returns in a row.'
    const fill = (count: number) => `Content-Type: a/b; x=${'\r'.repeat(count)}a\r\n\r\nx`
    expect([await readRefusal(fill(1000)), await readRefusal(fill(1001))]).toEqual(['it was parsed', refused])
    // The chunks in which it is read end after 65,536 octets.
    const across = (count: number) => `X: y\r\n\r\n${'x'.repeat(65_000)}${'\r'.repeat(count)}x`
    expect([await readRefusal(across(1000)), await readRefusal(across(1001))]).toEqual(['it was parsed', refused])
  })

  test('of a list of addresses 1,000 are returned', async () => {
    const { to, toAddresses } = await parse(
      `To: ${Array.from({ length: 3000 }, (_, i) => `a${i}@b.example`).join(',\r\n ')}\r\n\r\n`,
    )
    expect([toAddresses.length, toAddresses[999], to?.endsWith('a2999@b.example')]).toEqual([
      1000,
      'a999@b.example',
      true,
    ])
  })
})

describe('hostile content is read in linear time', () => {
  const MB = 1_000_000
  /** No more of a text than this is decoded. */
  const MOST = 2 * 1024 * 1024
  const encoded = (encoding: string, body: string): string => `Content-Transfer-Encoding: ${encoding}\r\n\r\n${body}`
  const cases: readonly (readonly [string, () => string, (message: ParsedMessage) => unknown, unknown])[] = [
    ['a line of 40 MB', () => `A: b\r\n\r\n${'x'.repeat(40 * MB)}`, (m) => m.text?.length, MOST],
    ['3 million empty lines', () => `A: b\r\n\r\n${'\n'.repeat(3 * MB)}`, (m) => m.text?.length, MOST],
    ['base64 of nothing but dots', () => encoded('base64', '.'.repeat(10 * MB)), (m) => m.text, null],
    ['base64 that is padded everywhere', () => encoded('base64', 'YQ=='.repeat(2 * MB)), (m) => m.text?.length, 2 * MB],
    [
      'quoted-printable of nothing but soft breaks',
      () => encoded('quoted-printable', '=\r\n'.repeat(2 * MB)),
      (m) => m.text,
      null,
    ],
    [
      'quoted-printable with a line of spaces',
      () => encoded('quoted-printable', `${' '.repeat(10 * MB)}x`),
      (m) => m.text?.length,
      MOST,
    ],
    [
      'quoted-printable of nothing but equals signs',
      () => encoded('quoted-printable', '='.repeat(10 * MB)),
      (m) => m.text?.length,
      MOST,
    ],
    ['60,000 References fields', () => `${'References: a\r\n'.repeat(60_000)}\r\n`, (m) => m.references.length, 1000],
    ['a reference that opens a million times', () => `References: ${'<'.repeat(MB)}\r\n\r\n`, (m) => m.references, []],
    [
      '40,000 encoded words',
      () => `Subject: ${'=?utf-8?B?YQ==?= '.repeat(40_000)}\r\n\r\n`,
      (m) => m.subject.length,
      40_000,
    ],
    [
      'encoded words that never end',
      () => `Subject: ${'=?utf-8?B?'.repeat(100_000)}\r\n\r\n`,
      (m) => m.subject.length > 0,
      true,
    ],
    [
      'an encoded word of spaces',
      () => `Subject: =?utf-8?Q?${'= '.repeat(400_000)}?=\r\n\r\n`,
      (m) => m.subject.length > 0,
      true,
    ],
    ['groups in groups', () => `To: ${'g:'.repeat(400_000)}\r\n\r\n`, (m) => m.toAddresses, []],
    ['comments in comments', () => `To: ${'('.repeat(MB)}\r\n\r\n`, (m) => m.toAddresses, []],
    ['quotes', () => `To: ${'"a" '.repeat(200_000)}\r\n\r\n`, (m) => m.toAddresses, []],
    ['angle brackets', () => `To: ${'<'.repeat(MB)}\r\n\r\n`, (m) => m.toAddresses, []],
    [
      '80,000 parameters',
      () => `Content-Type: text/plain; ${Array.from({ length: 80_000 }, (_, i) => `a${i}=b;`).join('')}\r\n\r\nx`,
      (m) => m.text,
      'x',
    ],
    [
      '70,000 continued parameters',
      () => `Content-Type: text/plain; ${Array.from({ length: 70_000 }, (_, i) => `n*${i}*=b;`).join('')}\r\n\r\nx`,
      (m) => m.text,
      'x',
    ],
    [
      'a parameter of backslashes',
      () => `Content-Type: text/plain; a="${'\\'.repeat(900_000)}\r\n\r\nx`,
      (m) => m.text,
      'x',
    ],
    ['brackets in an encoding', () => encoded('('.repeat(900_000), 'x'), (m) => m.text, 'x'],
    [
      'a boundary of 900 kB that nearly matches',
      () =>
        `Content-Type: multipart/mixed; boundary="${'x'.repeat(900_000)}"\r\n\r\n${`--${'x'.repeat(899_999)}\r\n`.repeat(20)}`,
      (m) => m.attachments.map(({ content }) => content.length),
      [900_003 * 20],
    ],
    [
      'soft line breaks',
      () => `Content-Type: text/plain; format=flowed\r\n\r\n${'a \r\n'.repeat(MB)}`,
      (m) => m.text?.length,
      MOST / 2,
    ],
    [
      'escapes of ISO-2022-JP',
      () => `Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n${'\x1b$B$"'.repeat(2 * MB)}`,
      (m) => (m.text?.length ?? 0) > MOST / 6,
      true,
    ],
    [
      'a page that opens meta a thousand times',
      () => `Content-Type: text/html; charset=none\r\n\r\n${'<meta charset '.repeat(5000)}`,
      (m) => m.html?.length,
      70_000,
    ],
    ['a date of a megabyte', () => `Date: ${'1 '.repeat(400_000)}\r\n\r\n`, (m) => m.dateMs, null],
  ]
  // Content that is not read in linear time would take minutes to hours, so the default time limit of tests is enough.
  test.each(cases)('%s', async (_, make, of, expected) => {
    expect(of(await parse(make()))).toEqual(expected)
  })
})
