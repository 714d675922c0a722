import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'
import { startMailFlow } from '#test/support/mail-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { startSink } from '#test/support/sink.ts'

let emails: EmailApi
beforeAll(async () => {
  emails = await createEmailApi()
})
afterAll(() => emails[Symbol.asyncDispose]())

const detailOf = async (request: Record<string, unknown>) => emails.detail((await emails.accepted(request)).id)

describe('headers', () => {
  // Proves: send-27
  test('with scalar values become strings', async () => {
    const input = { 'X-A': 'text', 'X-B': 1.5, 'X-C': false, 'X-D': '', References: '<a@b.test>' }
    const { headers } = await detailOf({ headers: input })
    expect(headers).toEqual({ 'X-A': 'text', 'X-B': '1.5', 'X-C': 'false', 'X-D': '', References: '<a@b.test>' })
  })

  // Proves: http-7, list-28
  test.each([[[]], [{}], [null]])('%j means none, shown as {}', async (emptyValue) => {
    expect((await detailOf({ headers: emptyValue }))['headers']).toEqual({})
  })

  // Proves: send-27, send-33
  test('that are no object, or have a value that is no text of one line, are a 422', async () => {
    for (const wrong of ['X-A: 1', 5, true, ['X-A']])
      expectError(await emails.send({ headers: wrong }), 422, 'validation_failed', 'headers')
    for (const value of [null, {}, [], ['a'], 'a\r\nBcc: x@y.test', 'a\nb', 'a\rb', 'a\0b', '\r\n'])
      expectError(await emails.send({ headers: { 'X-A': value } }), 422, 'validation_failed', 'headers.X-A')
  })

  // Proves: send-27, send-33
  test.each(['', 'X A', 'X:A', 'X-A\r\nBcc', 'Bcc\0', 'X-Ä', 'x'.repeat(77)])('the name %j is a 422', async (name) =>
    expectError(await emails.send({ headers: { [name]: 'a' } }), 422, 'validation_failed', 'headers'),
  )

  const reserved =
    'From To Cc Bcc Subject Date Message-ID Return-Path Received DKIM-Signature DKIM-Foo MIME-Version MIME-Foo Content-Type Content-Transfer-Encoding Content-X Sender List-Unsubscribe-By'
  // Proves: send-29
  test.each(reserved.split(' '))('%s is reserved, in any case', async (name) => {
    for (const form of [name, name.toLowerCase(), name.toUpperCase()])
      expectError(await emails.send({ headers: { [form]: 'a' } }), 422, 'reserved_header', `headers.${form}`)
  })

  const oneClick = {
    'List-Unsubscribe': '<https://example.com/leave?u=1,2>, <mailto:leave@example.com?subject=u1>',
    'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  }

  // Proves: send-31
  test("the client's own List-Unsubscribe headers are allowed in transactional mail, and are in the message", async () => {
    await using sink = await startSink()
    await using flow = await startMailFlow({ zone: { 'r.test': { A: ['127.0.0.1'] } }, smtpPort: sink.port })
    await flow.settled(await flow.send({ to: 'a@r.test', headers: oneClick }))
    const { raw = '' } = sink.messages[0] ?? {}
    for (const [name, value] of Object.entries(oneClick))
      expect(raw.replace(/\r\n(?=[ \t])/g, '')).toContain(`\r\n${name}: ${value}\r\n`)
    expect(raw.match(/^List-Unsubscribe/gm)).toHaveLength(2)
  })

  // Proves: send-31
  test.each([
    ['(leave) <https://example.com/leave?u=1>', '<https://example.com/leave?u=1>'],
    ['<https://example.com/leave?u=1> (by a \\) click),', '<https://example.com/leave?u=1>'],
    ['< https://example.com/leave ?u=1 >,, <mailto:a@b.test>', '<https://example.com/leave?u=1>, <mailto:a@b.test>'],
    ['<mailto:a@b.test?subject=off(now)>', '<mailto:a@b.test?subject=off(now)>'],
    [
      '<https://example.com/leave\r\n ?u=1>,\n\t<mailto:a@b.test>',
      '<https://example.com/leave?u=1>, <mailto:a@b.test>',
    ],
  ])('List-Unsubscribe may be %j', async (value, stored) => {
    expect(await detailOf({ headers: { 'List-Unsubscribe': value } })).toMatchObject({
      headers: { 'List-Unsubscribe': stored },
    })
  })

  // Proves: send-31
  test.each(Object.keys(oneClick))('%s is reserved in mail that is not transactional', async (name) => {
    const headers = { [name]: oneClick[name as keyof typeof oneClick] }
    expectError(await emails.send({ headers, transactional: false }), 422, 'reserved_header', `headers.${name}`)
  })

  // Proves: send-31
  test.each<[headers: Record<string, string>, field: string]>([
    [{ 'List-Unsubscribe': 'https://example.com/leave' }, 'List-Unsubscribe'],
    [{ 'list-unsubscribe': '<https://example.com/leave>, leave@example.com' }, 'list-unsubscribe'],
    [{ 'List-Unsubscribe': '<javascript:alert(1)>' }, 'List-Unsubscribe'],
    [{ 'List-Unsubscribe': '' }, 'List-Unsubscribe'],
    [{ 'List-Unsubscribe': '<https://example.com/leave>\r\nBcc: x@y.test' }, 'List-Unsubscribe'],
    [{ 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }, 'List-Unsubscribe-Post'],
    [{ ...oneClick, 'List-Unsubscribe': '<http://example.com/leave>' }, 'List-Unsubscribe-Post'],
    [{ ...oneClick, 'List-Unsubscribe-Post': 'yes' }, 'List-Unsubscribe-Post'],
  ])('List-Unsubscribe headers that no mail program can use are a 422: %j', async (headers, field) => {
    expectError(await emails.send({ headers }), 422, 'validation_failed', `headers.${field}`)
  })

  // Proves: send-30
  test.each(['Reply-To', 'reply-to', 'Disposition-Notification-To', 'Return-Receipt-To', 'Errors-To', 'Resent-From'])(
    '%s must contain addresses',
    async (name) => {
      for (const value of ['not an address', '', 'a@b.test, nobody', 'a@b.test,'])
        expectError(await emails.send({ headers: { [name]: value } }), 422, 'invalid_address', `headers.${name}`)
      const value = 'Zoë <zoe@b.test>, "Doe, J" <j@b.test>'
      expect((await detailOf({ headers: { [name]: value } }))['headers']).toEqual({ [name]: value })
    },
  )

  // Proves: send-30
  test('a non-ASCII address in a header needs SMTPUTF8, like one in reply_to', async () => {
    await using receiver = await startScriptedSmtp({ extensions: ['8BITMIME'] })
    await using flow = await startMailFlow({ zone: { 'r.test': { A: ['127.0.0.1'] } }, smtpPort: receiver.port })
    const { recipient } = await flow.outcome('a@r.test', { headers: { 'Reply-To': 'zoë@b.test' } })
    expect([recipient.status, recipient.lastError]).toEqual(['bounced', expect.stringContaining('5.6.7')])
  })

  // Proves: send-27
  test('are accepted up to 50', async () => {
    const of = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`X-${i}`, 'a']))
    expect(Object.keys((await detailOf({ headers: of(50) }))['headers'] as object)).toHaveLength(50)
    expectError(await emails.send({ headers: of(51) }), 422, 'validation_failed', 'headers')
  })

  // Proves: send-28
  test('have lines of at most 998 octets', async () => {
    expect((await emails.send({ headers: { 'X-A': 'x'.repeat(998 - 5) } })).status).toBe(202)
    expectError(await emails.send({ headers: { 'X-A': 'x'.repeat(998 - 4) } }), 422, 'validation_failed', 'headers.X-A')
    expectError(await emails.send({ headers: { 'X-A': 'ü'.repeat(500) } }), 422, 'validation_failed', 'headers.X-A')
  })

  test('may appear only once, regardless of case, and Reply-To not beside the field reply_to', async () => {
    expectError(await emails.send({ headers: { 'X-A': '1', 'x-a': '2' } }), 422, 'validation_failed', 'headers.x-a')
    expect((await emails.send({ headers: { 'Reply-To': 'a@b.test' } })).status).toBe(202)
    const both = { headers: { 'reply-to': 'a@b.test' }, reply_to: 'c@d.test' }
    expectError(await emails.send(both), 422, 'validation_failed', 'headers.reply-to')
  })

  test('named like properties of JavaScript objects are ordinary headers', async () => {
    const headers = JSON.parse('{"__proto__":"a","constructor":"b"}')
    expect((await emails.raw('/v1/emails', JSON.stringify({ ...EMAIL, headers }))).status).toBe(202)
  })
})

describe('tags', () => {
  // Proves: send-36
  test('are accepted up to 20, with up to 128 characters each; repeated ones are merged', async () => {
    const tags = Array.from({ length: 20 }, (_, i) => String(i).padStart(128, 'ü'))
    expect((await detailOf({ tags }))['tags']).toEqual(tags)
    expect((await detailOf({ tags: ['b', 'a', 'b'] }))['tags']).toEqual(['b', 'a'])
  })

  const wrong: readonly [rule: string, tags: unknown, field: string][] = [
    ['21 tags', Array.from({ length: 21 }, (_, i) => `t${i}`), 'tags'],
    ['129 characters', ['a', 'x'.repeat(129)], 'tags.1'],
    ['an empty tag', [''], 'tags.0'],
    ['a line break', ['a\nb'], 'tags.0'],
    ['a NUL', ['a\0b'], 'tags.0'],
  ]
  // Proves: send-36
  test.each(wrong)('%s: 422', async (_, tags, field) =>
    expectError(await emails.send({ tags }), 422, 'validation_failed', field),
  )
})

describe('metadata', () => {
  // Proves: http-7, http-15, list-28, send-35
  test('is returned as given, nested or empty; [] and null mean none', async () => {
    for (const metadata of [{ a: { b: [1, { c: null }, 'ü'] }, n: 1e21, '': true }, {}])
      expect((await detailOf({ metadata }))['metadata']).toEqual(metadata)
    for (const metadata of [[], null]) expect((await detailOf({ metadata }))['metadata']).toEqual({})
    for (const metadata of ['text', 5, true, [1], [{}]])
      expectError(await emails.send({ metadata }), 422, 'validation_failed', 'metadata')
  })

  // Proves: send-35
  test('has at most 16 KiB of JSON', async () => {
    const of = (bytes: number) => ({ a: 'x'.repeat(bytes - '{"a":""}'.length) })
    expect((await emails.send({ metadata: of(16_384) })).status).toBe(202)
    expectError(await emails.send({ metadata: of(16_385) }), 422, 'validation_failed', 'metadata')
    expectError(await emails.send({ metadata: { a: 'ü'.repeat(8_200) } }), 422, 'validation_failed', 'metadata')
  })
})

describe('attachments', () => {
  const file = (change: Record<string, unknown>) => ({
    filename: 'a.txt',
    content: 'aGk=',
    content_type: 'text/plain',
    ...change,
  })
  const sendFile = (change: Record<string, unknown>) => emails.send({ attachments: [file(change)] })

  // Proves: send-39
  test('with a name of a program are forbidden, however it is written', async () => {
    for (const name of 'x.exe|x.EXE|x.exe |x.exe.|x.exe. .|x.tar.Bat|.cmd|x.scr|x.com|x.msi|x.js|x.vbs|x.ws|x.ps1'.split(
      '|',
    ))
      expectError(await sendFile({ filename: name }), 422, 'attachment_type_forbidden', 'attachments.0.filename')
    for (const filename of 'exe|x.exe.txt|executable.pdf|x.json|Grüße ✉.pdf|../../etc/passwd|.'.split('|'))
      expect({ filename, status: (await sendFile({ filename })).status }).toMatchObject({ status: 202 })
  })

  // Proves: send-37
  test('are base64', async () => {
    for (const content of ['', 'aGk=', 'aGkh', 'aGk=\r\n', 'aG\r\nkh', 'AA=='])
      expect({ content, status: (await sendFile({ content })).status }).toMatchObject({ status: 202 })
    for (const content of 'a|aGk|aGk==|====|aGk=aGk=|a-_b|aG k*|data:text/plain;base64,aGk=|ü'.split('|'))
      expectError(await sendFile({ content }), 422, 'invalid_base64', 'attachments.0.content')
  })

  test('a megabyte of white space with an error at its end is rejected quickly', async () => {
    const answer = await sendFile({ content: `${' '.repeat(1_000_000)}*` })
    expectError(answer, 422, 'invalid_base64', 'attachments.0.content')
  })

  // Proves: send-37
  test.each([
    ['filename', 'a\r\nb.txt'],
    ['filename', 'a\0.txt'],
    ['content_type', 'text/plain\r\nX-A: b'],
    ['content_id', 'a b'],
    ['content_id', 'a>b'],
    ['content_id', 'é'],
    ['content_id', 'a\r\nb'],
  ])('a %s of %j is a 422', async (field, value) =>
    expectError(await sendFile({ [field]: value }), 422, 'validation_failed', `attachments.0.${field}`),
  )

  // Proves: http-10, send-38
  test('are accepted up to 25 MiB together, and not a byte more', async () => {
    const half = Buffer.alloc(12.5 * 1024 * 1024).toString('base64')
    const more = Buffer.alloc(12.5 * 1024 * 1024 + 1).toString('base64')
    const { attachments } = await detailOf({ attachments: [file({ content: half }), file({ content: half })] })
    expect(attachments).toMatchObject([{ size: 13_107_200 }, { size: 13_107_200 }])
    const answer = await emails.send({ attachments: [file({ content: half }), file({ content: more })] })
    expectError(answer, 422, 'attachments_too_large', 'attachments')
  })

  test.each([
    ['report.pdf', 'application/pdf'],
    ['photo.JPG', 'image/jpeg'],
    ['notes', 'application/octet-stream'],
  ])('%s without a type gets that of its name', async (filename, content_type) => {
    const { attachments } = await detailOf({ attachments: [{ filename, content: 'aGk=' }] })
    expect(attachments).toMatchObject([{ content_type }])
  })

  test('a content_id used twice is a 422', async () => {
    const answer = await emails.send({ attachments: [file({ content_id: 'logo' }), file({ content_id: '<logo>' })] })
    expectError(answer, 422, 'validation_failed', 'attachments.1.content_id')
  })

  test('are parts of the HTML where it refers to them, and ordinary files elsewhere', async () => {
    await using sink = await startSink()
    await using flow = await startMailFlow({ zone: { 'r.test': { A: ['127.0.0.1'] } }, smtpPort: sink.port })
    const sent = await flow.send({
      to: 'a@r.test',
      html_body: '<p><img src="cid:logo@1"><img src=\'cid:caf%C3%A9%20%2B\'><div style="background:url(cid:paper)">',
      attachments: [
        { filename: 'logo.png', content: btoa('logo'), content_id: '<logo@1>' },
        { filename: 'paper.png', content: btoa('paper'), content_id: 'paper' },
        { filename: 'unused.png', content: btoa('unused'), content_id: 'unused' },
        { filename: 'bill.pdf', content: btoa('bill') },
      ],
    })
    expect((await flow.settled(sent)).attachments).toContain('"content_id":"logo@1"')
    const { attachments } = await simpleParser(sink.messages[0]?.raw ?? '', { skipImageLinks: true })
    expect(
      attachments.map((part) => [part.filename, part.cid, part.related, part.contentDisposition, String(part.content)]),
    ).toEqual([
      ['logo.png', 'logo@1', true, 'inline', 'logo'],
      ['paper.png', 'paper', true, 'inline', 'paper'],
      ['unused.png', undefined, undefined, 'attachment', 'unused'],
      ['bill.pdf', undefined, undefined, 'attachment', 'bill'],
    ])
  })

  test('are limited in number', async () => {
    const answer = await emails.send({ attachments: Array.from({ length: 5_000 }, () => file({})) })
    expectError(answer, 422, 'validation_failed', 'attachments')
  })
})

test('headers, tags and metadata have limits', async () => {
  const headers = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`X-${n}`, '1']))
  const tags = (count: number) => Array.from({ length: count }, (_, n) => `tag-${n}`)
  const fits = {
    headers: { ...headers(49), 'X-A': 'x'.repeat(993) },
    tags: tags(20),
    metadata: { a: 'x'.repeat(16_376) },
  }
  expect((await emails.send(fits)).status).toBe(202)
  expectError(await emails.send({ headers: headers(51) }), 422, 'validation_failed', 'headers')
  expectError(await emails.send({ headers: { 'X-A': 'x'.repeat(994) } }), 422, 'validation_failed', 'headers.X-A')
  expectError(await emails.send({ tags: tags(21) }), 422, 'validation_failed', 'tags')
  expectError(await emails.send({ tags: ['x'.repeat(129)] }), 422, 'validation_failed', 'tags.0')
  expectError(await emails.send({ metadata: { a: 'x'.repeat(16_377) } }), 422, 'validation_failed', 'metadata')
})
