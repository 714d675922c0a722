import { describe, expect, test } from 'bun:test'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import { parseMessage } from '#protocols/mime/parse.ts'
import { composeToBuffer, type TestMessage } from '#test/support/compose.ts'
import { createTrickyInput, plainInput, randomText, seededRandom } from './sample.ts'

const compose = async (change: Partial<TestMessage> = {}): Promise<string> =>
  composeToBuffer({ ...plainInput, ...change }).toString('latin1')

const parse = async (change: Partial<TestMessage> = {}) => simpleParser(composeToBuffer({ ...plainInput, ...change }))

/**
 * Requirements for every message on the wire: CRLF only, 7-bit, lines of at most 998 octets, no blank line in a header.
 */
function expectCleanLines(message: string): void {
  expect(message.endsWith('\r\n')).toBe(true)
  const lines = message.split('\r\n')
  expect(lines.filter((line) => /[\r\n]/.test(line))).toEqual([])
  expect(lines.filter((line) => /[^\t\x20-\x7e]/.test(line))).toEqual([])
  expect(lines.filter((line) => line.length > 998)).toEqual([])
  expect(
    message
      .slice(0, message.indexOf('\r\n\r\n'))
      .split('\r\n')
      .filter((line) => line.trim() === ''),
  ).toEqual([])
}

test('a plain message has exactly these bytes', async () => {
  expect(await compose({ cc: ['c@example.org'], replyTo: 'Help Desk <h@example.com>, i@example.com' })).toBe(
    [
      'From: "Acme, Inc." <news@example.com>',
      'To: Jane <jane@example.net>',
      'Cc: c@example.org',
      'Reply-To: Help Desk <h@example.com>, i@example.com',
      'Subject: Hello',
      'Message-ID: <abc@example.com>',
      'Date: Fri, 02 Jan 2026 03:04:05 +0000',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 7bit',
      '',
      'Hello, world',
      '',
    ].join('\r\n'),
  )
})

test('the same input gives the same bytes, and another seed other boundaries', async () => {
  expect(composeToBuffer(createTrickyInput(1))).toEqual(composeToBuffer(createTrickyInput(1)))
  const boundaries = async (boundarySeed: string) =>
    (await compose({ html: '<p>x</p>', boundarySeed })).match(/boundary="([^"]+)"/)?.[1]
  expect(await boundaries('a')).toMatch(/^=_T-[0-9a-f]{24}-Part_1$/)
  expect(await boundaries('a')).not.toBe(await boundaries('b'))
})

test('200 tricky messages have clean lines and are parsed back part by part', async () => {
  for (let number = 0; number < 200; number++) {
    const input = createTrickyInput(number)
    const message = composeToBuffer(input)
    expectCleanLines(message.toString('latin1'))
    const parsed = await simpleParser(message, { skipTextToHtml: true, skipHtmlToText: true, skipTextLinks: true })
    expect(
      parsed.attachments.map(({ filename, contentType, content }) => ({ filename, contentType, content })),
    ).toEqual(
      input.attachments.map(({ filename, contentType, content }) => ({
        filename,
        contentType: contentType.split(';')[0] ?? '',
        content: Buffer.from(content),
      })),
    )
    const lineFeeds = (text = '') => text.replace(/\r\n?/g, '\n').toWellFormed()
    expect(lineFeeds(parsed.text).trimEnd()).toBe(lineFeeds(input.text).trimEnd())
    expect(lineFeeds(parsed.html || '').trimEnd()).toBe(lineFeeds(input.html).trimEnd())
  }
})

test('100 plain messages are read back by two parsers as they were written', async () => {
  for (let seed = 0; seed < 100; seed++) {
    const line = randomText(seededRandom(seed), 12)
      .replace(/[\0-\x1f\x7f-\x9f\u2028\u2029]/g, '')
      .toWellFormed()
    const subject = line.replace(/\s+/g, ' ').trim()
    const html = `<p>${line}</p>\n`
    const message = composeToBuffer({ ...plainInput, subject, text: `${line}\n`, html })
    expectCleanLines(message.toString('latin1'))
    const theirs = await simpleParser(message, { skipTextToHtml: true, skipHtmlToText: true, skipTextLinks: true })
    const ours = await parseMessage(message, { mailFrom: 'a@example.com' })
    expect([theirs.subject ?? '', theirs.text?.trimEnd(), theirs.html]).toEqual([subject, line.trimEnd(), html])
    expect([ours.subject ?? '', ours.text?.trimEnd()]).toEqual([subject, line.trimEnd()])
  }
})

describe('header fields', () => {
  test('UTF-8 names, commas and quotes are preserved', async () => {
    const change = {
      from: '"Zoë, \\"Z\\" Ünï" <z@bücher.example>',
      to: ['日本 🎉 <a@example.com>', 'Doe, Jane <b@example.com>', '"a,b"@example.com'],
      subject: 'Grüße aus Köln, 日本 🎉 und "mehr" =?utf-8?Q?nicht?=',
    }
    expect(await compose(change)).toContain('<z@xn--bcher-kva.example>')
    const parsed = await parse(change)
    expect([parsed.from?.value, parsed.to, parsed.subject]).toMatchObject([
      [{ name: 'Zoë, "Z" Ünï', address: 'z@bücher.example' }],
      {
        value: [
          { name: '日本 🎉', address: 'a@example.com' },
          { name: 'Doe, Jane', address: 'b@example.com' },
          { address: '"a,b"@example.com' },
        ],
      },
      'Grüße aus Köln, 日本 🎉 und "mehr" =?utf-8?Q?nicht?=',
    ])
  })

  // Proves: send-32
  test.each([
    '=?utf-8?q?not_encoded?=',
    'see =?utf-8?Q?a b?= here',
    '=?utf-8?B?YQ==?= =?utf-8?B?Yg==?=',
    'Grüße =?utf-8?q?=FC?=',
    `=?utf-8?q?${'x'.repeat(900)}?=`,
    '=?',
  ])('text that looks like an encoded word is preserved: %s', async (text) => {
    const name = text.slice(0, 200)
    const change: Partial<TestMessage> = {
      subject: text,
      from: `"${name}" <a@example.com>`,
      to: [`"${name}" <b@example.com>`],
      cc: [`"${name}" <c@example.com>`],
      replyTo: `"${name}" <d@example.com>`,
      headers: [['X-Note', text]],
      attachments: [{ filename: `${name}.txt`, contentType: 'x/y', content: new Uint8Array() }],
    }
    expectCleanLines(await compose(change))
    const theirs = await parse(change)
    const namesIn = (list: unknown) => (list as { value: { name: string }[] }).value.map((each) => each.name)
    expect({
      subject: theirs.subject,
      names: [theirs.from, theirs.to, theirs.cc, theirs.replyTo].flatMap(namesIn),
    }).toEqual({ subject: text, names: [name, name, name, name] })
    // mailparser decodes file names twice, and other fields not at all.
    const ours = await parseMessage(composeToBuffer({ ...plainInput, ...change }), { mailFrom: 'a@example.com' })
    expect([
      ours.subject,
      ours.headers.find(([field]) => field === 'X-Note')?.[1],
      ours.attachments[0]?.filename,
    ]).toEqual([text, text, `${name}.txt`])
  })

  test('mailboxes in further fields are encoded name by name, URLs not at all', async () => {
    const url = `<https://example.com/u?a=?b?q?c?=&d=${'e'.repeat(300)}>`
    const message = await compose({
      headers: [
        ['Reply-To', 'Zoë <z@example.com>, "Doe, J" <j@example.com>'],
        ['Disposition-Notification-To', 'Zoë <z@example.com>'],
        ['List-Unsubscribe', `${url}, <mailto:u@example.com>`],
      ],
    })
    expectCleanLines(message)
    const unfolded = message.replace(/\r\n(?=[ \t])/g, '')
    expect(unfolded).toContain('Reply-To: =?UTF-8?Q?Zo=C3=AB?= <z@example.com>, "Doe, J" <j@example.com>\r\n')
    expect(unfolded).toContain('Disposition-Notification-To: =?UTF-8?Q?Zo=C3=AB?= <z@example.com>\r\n')
    expect(unfolded).toContain(`List-Unsubscribe: ${url}, <mailto:u@example.com>\r\n`)
  })

  test('custom fields keep their names, their order and their duplicates', async () => {
    const message = await compose({
      headers: [
        ['X-MyApp-ID', '1'],
        ['x-lower', 'Zoë'],
        ['X-MyApp-ID', '2'],
        ['Feedback-ID', 'a:b'],
      ],
    })
    expect(message.split('\r\n').slice(0, 4)).toEqual([
      'X-MyApp-ID: 1',
      'x-lower: =?UTF-8?Q?Zo=C3=AB?=',
      'X-MyApp-ID: 2',
      'Feedback-ID: a:b',
    ])
  })

  // Proves: send-44
  test('nothing is added without request: no X-Mailer, no Bcc', async () => {
    const names = (await compose())
      .split('\r\n\r\n')[0]
      ?.split('\r\n')
      .map((line) => line.split(':')[0])
    expect(names).toEqual([
      'From',
      'To',
      'Subject',
      'Message-ID',
      'Date',
      'MIME-Version',
      'Content-Type',
      'Content-Transfer-Encoding',
    ])
  })

  test('long words, long blanks, long lists and raw UTF-8 in message ids have clean lines', async () => {
    for (const change of [
      { subject: 'x'.repeat(5_000) },
      { subject: 'ü'.repeat(5_000) },
      { subject: `a${' '.repeat(3_000)}b${'\t'.repeat(300)}` },
      { headers: [['X-Long', `short ${'y'.repeat(3_000)} short`]] },
      {
        headers: [
          ['References', '<ü@example.com>'],
          ['In-Reply-To', '<ü@example.com>'],
        ],
      },
      { from: `${'n'.repeat(256)} <a@example.com>` },
      { from: `"${'\\"'.repeat(256)}" <a@example.com>` },
      { to: Array.from({ length: 50 }, (_, i) => `Person ${i} <${'p'.repeat(60)}${i}@example.com>`) },
    ] satisfies Partial<TestMessage>[])
      expectCleanLines(await compose(change))
    expect((await parse({ subject: 'x'.repeat(5_000) })).subject).toBe('x'.repeat(5_000))
    expect((await parse({ subject: `a${' '.repeat(3_000)}b` })).subject).toBe('a b')
  })

  test('only an SMTPUTF8 address makes a header 8-bit, and only the header', async () => {
    const [header = '', ...body] = (await compose({ to: ['用户@例え.jp'], text: 'ü' })).split('\r\n\r\n')
    expect(Buffer.from(header, 'latin1').toString()).toContain('To: 用户@例え.jp')
    expect(body.join('')).toMatch(/^[\x20-\x7e\r\n]+$/)
  })

  test.each([
    ['a header value with a line break', { headers: [['X-A', 'b\r\nBcc: x@example.com']] }],
    ['a header value with a NUL', { headers: [['X-A', 'b\0']] }],
    ['a header name with a colon', { headers: [['X-A: b', 'c']] }],
    ['a Bcc header', { headers: [['bcc', 'x@example.com']] }],
    ['a second Subject', { headers: [['SUBJECT', 'x']] }],
    ['a Content-Type header', { headers: [['content-type', 'text/html']] }],
    ['a subject with a line break', { subject: 'a\nb' }],
    ['an invalid mailbox', { to: ['jane'] }],
    ['a mailbox with a line break', { to: ['a@example.com\r\nX: y'] }],
    ['a Message-ID without brackets', { messageId: 'a@example.com' }],
    ['an invalid date', { date: new Date(Number.NaN) }],
  ] satisfies [string, Partial<TestMessage>][])('%s throws', async (_, change) => {
    await expect(compose(change)).rejects.toThrow(Error)
  })
})

describe('bodies', () => {
  test('a lone attachment still has a text part before it', async () => {
    const { text: _, ...noText } = plainInput
    const parsed = await simpleParser(
      Buffer.from(
        composeToBuffer({
          ...noText,
          attachments: [{ filename: 'a.bin', contentType: 'x/y', content: new Uint8Array([0]) }],
        }),
      ),
    )
    expect([parsed.text?.trim(), parsed.attachments.map((a) => a.filename)]).toEqual(['', ['a.bin']])
  })

  test('ASCII text that relays and mbox files change is sent quoted-printable', async () => {
    for (const text of ['-- \nJane', 'a\nFrom b', '--=_T-x', 'x'.repeat(77)])
      expect(await compose({ text })).toContain('Content-Transfer-Encoding: quoted-printable')
    for (const text of ['--\nJane', 'a\n.\nb', 'x'.repeat(76)])
      expect(await compose({ text })).toContain('Content-Transfer-Encoding: 7bit')
  })

  test('a data: image stays in the HTML', async () => {
    const html = '<img src="data:image/png;base64,iVBORw0KGgo=">'
    const parsed = await parse({ html })
    expect([parsed.html, parsed.attachments]).toEqual([`${html}\n`.trimEnd(), []])
  })
})

describe('attachments', () => {
  test('a picture of the HTML is beside it, and other files are after all forms of the text', async () => {
    const file = { contentType: 'image/png', content: new Uint8Array([1]) }
    const message = await compose({
      html: '<img src="cid:logo">',
      attachments: [
        { filename: 'logo.png', contentId: 'logo', ...file },
        { filename: 'Größe.png', ...file },
      ],
    })
    expectCleanLines(message)
    const of = (depth: number) => `boundary="=_T-${/=_T-([0-9a-f]+)/.exec(message)?.[1]}-Part_${depth}"`
    const unfolded = message.replace(/\r\n(?=[ \t])/g, '')
    expect(unfolded.match(/^Content-(?!Transfer).*$/gm)).toEqual([
      `Content-Type: multipart/mixed; ${of(1)}`,
      `Content-Type: multipart/alternative; ${of(2)}`,
      'Content-Type: text/plain; charset=utf-8',
      `Content-Type: multipart/related; type="text/html"; ${of(3)}`,
      'Content-Type: text/html; charset=utf-8',
      'Content-Type: image/png; name=logo.png',
      'Content-Id: <logo>',
      'Content-Disposition: inline; filename=logo.png',
      'Content-Type: image/png; name="=?UTF-8?Q?Gr=C3=B6=C3=9Fe=2Epng?="',
      "Content-Disposition: attachment; filename*0*=utf-8''Gr%C3%B6%C3%9Fe.png",
    ])
  })

  test('message/* and invalid types are sent as octet streams, byte for byte', async () => {
    const content = Buffer.from('From: x\n\nbare LF \xff\0', 'latin1')
    const attachments = ['message/rfc822', 'multipart/mixed; boundary=x', 'text', 'a/b\r\nX-Injected: 1', ''].map(
      (contentType) => ({
        filename: 'x.x-unknown',
        contentType,
        content,
      }),
    )
    const message = await compose({ attachments })
    expectCleanLines(message)
    expect(message).not.toContain('X-Injected')
    const parsed = await parse({ attachments })
    expect(parsed.attachments.map((a) => [a.contentType, a.content])).toEqual(
      attachments.map(() => ['application/octet-stream', content]),
    )
  })

  test('hostile file names have clean lines and a name without a path', async () => {
    const names = [
      '../../etc/passwd',
      'C:\\temp\\a.txt',
      'a\r\nX-Injected: 1.txt',
      '',
      '.',
      `${'n'.repeat(5_000)}.pdf`,
      '"; x=y',
      "a'b.txt",
    ]
    const attachments = names.map((filename) => ({ filename, contentType: 'x/y', content: new Uint8Array() }))
    const message = await compose({ attachments })
    expectCleanLines(message)
    expect(message).not.toMatch(/^X-Injected/m)
    expect((await parse({ attachments })).attachments.map((a) => a.filename)).toEqual([
      'passwd',
      'a.txt',
      'aX-Injected: 1.txt',
      'attachment',
      'attachment',
      `${'n'.repeat(251)}.pdf`,
      '"; x=y',
      "a'b.txt",
    ])
  })

  test('a path or an href in an attachment is neither opened nor fetched', async () => {
    let hits = 0
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => {
        hits++
        return new Response('fetched')
      },
    })
    const path = join(tmpdir(), `tassis-compose-${process.pid}.txt`)
    await Bun.write(path, 'opened')
    try {
      const smuggled = Object.assign(
        { filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('kept') },
        { path, href: server.url.href },
      )
      const parsed = await parse({ attachments: [smuggled] })
      expect([parsed.attachments.map((a) => a.content.toString()), hits]).toEqual([['kept'], 0])
      await expect(compose({ text: Object.assign({}, { path }) as unknown as string })).rejects.toThrow()
    } finally {
      await rm(path)
    }
  })
})
