/** @module Attachments of every form and bodies of React, as a real service has them afterwards. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createReadStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { simpleParser } from 'mailparser'
import { createElement } from 'react'
import { attachFile, Tassis } from '#client/index.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, EMAIL, type EmailApi, UNVERIFIED } from '#test/support/email-api.ts'

let service: EmailApi
let tassis: Tassis
let folder: string
beforeAll(async () => {
  service = await createEmailApi({ delivers: true })
  tassis = new Tassis({ url: service.url, key: service.key })
  folder = await mkdtemp(join(tmpdir(), 'tassis-client-'))
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

test('bytes, files and streams arrive octet by octet', async () => {
  // Longer than a step of the encoder, and no multiple of three.
  const bytes = Uint8Array.from({ length: 70_001 }, (_, index) => index % 256)
  const path = join(folder, 'invoice 1.pdf')
  await writeFile(path, bytes)
  const { data } = await tassis.emails.send({
    ...EMAIL,
    // Captured, so that its content can be read.
    from: `ada@${UNVERIFIED}`,
    attachments: [
      { filename: 'bytes', content: bytes },
      { filename: 'buffer', content: bytes.buffer },
      { filename: 'blob', content: new Blob([bytes], { type: 'image/png' }) },
      { filename: 'base64', content: Buffer.from(bytes).toString('base64') },
      { filename: 'web stream', content: new Blob([bytes]).stream() },
      { filename: 'stream of Node', content: createReadStream(path) },
      await attachFile(path),
      await attachFile(Bun.pathToFileURL(path), { content_id: 'logo', content_type: 'image/gif' }),
    ],
  })
  const captured = await eventually(() => tassis.emails.getCaptured(data.id).catch(() => undefined))
  const { attachments } = await simpleParser(captured.data.raw)
  expect(attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([
    ['bytes', 'application/octet-stream'],
    ['buffer', 'application/octet-stream'],
    ['blob', 'image/png'],
    ['base64', 'application/octet-stream'],
    ['web stream', 'application/octet-stream'],
    ['stream of Node', 'application/octet-stream'],
    ['invoice 1.pdf', 'application/pdf'],
    ['invoice 1.pdf', 'image/gif'],
  ])
  for (const { content } of attachments) expect(Buffer.compare(content, bytes)).toBe(0)
})

test('a file that does not exist is the error of the file system', async () => {
  await expect(attachFile(join(folder, 'missing.pdf'))).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a React element becomes both bodies, also in a batch, unless the email has its own text', async () => {
  const { text_body: _, ...email } = EMAIL
  const react = createElement('p', {}, 'Hello ', createElement('b', {}, 'Bob & Co'))
  const first = (await tassis.emails.send({ ...email, react })).data.id
  const batch = await tassis.emails.sendBatch({ emails: [EMAIL, { ...email, react, text_body: 'Mine.' }] })
  const bodies = await Promise.all(
    [first, ...batch.data.map(({ id }) => id)].map(async (id) => {
      const { data } = await tassis.emails.get(id)
      return [data.html_body?.replaceAll('<!-- -->', ''), data.text_body]
    }),
  )
  expect(bodies).toEqual([
    [expect.stringContaining('<p>Hello <b>Bob &amp; Co</b></p>'), 'Hello Bob & Co'],
    [undefined, EMAIL.text_body],
    [expect.stringContaining('<p>Hello <b>Bob &amp; Co</b></p>'), 'Mine.'],
  ])
  await expect(tassis.emails.send({ ...email, react, html_body: '<p>' })).rejects.toThrow(
    'either `react` or `html_body`',
  )
})
