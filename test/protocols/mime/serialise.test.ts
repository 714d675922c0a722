import { expect, test } from 'bun:test'
import MailComposer from 'nodemailer/lib/mail-composer'
import { serialiseTree } from '#protocols/mime/serialise.ts'
import { seededRandom } from './sample.ts'

const random = seededRandom(11)
const bytes = (count: number) => Buffer.from(Uint8Array.from({ length: count }, () => random(256)))
const common = {
  from: 'a@example.com',
  messageId: '<a@example.com>',
  date: new Date(0),
  baseBoundary: 'b',
  subject: 'Zoë',
}
const longHtml = '<p>some words, é and = signs.</p> '.repeat(6_000)

test.each([
  ['an empty message', {}],
  ['short text', { text: 'hi\r\nthere\r\n' }],
  ['text without a last line end', { text: 'hi' }],
  ['text in quoted-printable', { text: 'grüße, with some more latin letters\r\n' }],
  ['text in base64', { text: 'привет 日本\r\n' }],
  ['text and HTML', { text: 'hi', html: '<p>hi</p>' }],
  ['an attachment alone', { attachments: [{ filename: 'a.bin', content: bytes(1_000) }] }],
  [
    'text, HTML and two attachments',
    {
      text: 'hi',
      html: longHtml.slice(0, 9_000),
      attachments: [
        { filename: 'a', content: bytes(56) },
        { filename: 'b', content: bytes(57) },
      ],
    },
  ],
  [
    'attachments around the block size',
    {
      text: 'hi',
      attachments: [58_367, 58_368, 58_369, 200_000, 0].map((size) => ({ filename: 'a', content: bytes(size) })),
    },
  ],
])('%s has the bytes of MimeNode.build', async (_, options) => {
  const tree = () => new MailComposer({ ...common, ...options }).compile()
  expect(Buffer.from(serialiseTree(tree())).toString('latin1')).toBe((await tree().build()).toString('latin1'))
})

test('HTML over 64 KB decodes to what it was', () => {
  const message = Buffer.from(serialiseTree(new MailComposer({ ...common, html: longHtml }).compile())).toString(
    'latin1',
  )
  const body = message.slice(message.indexOf('\r\n\r\n') + 4).replace(/=\r\n/g, '')
  const decoded = Buffer.from(
    body.replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString()
  expect(decoded.trimEnd()).toBe(longHtml.trimEnd())
})

test('a reference to a file is refused, not read', () => {
  expect(() => serialiseTree(new MailComposer({ ...common, text: { path: import.meta.path } }).compile())).toThrow(
    'neither text nor bytes',
  )
})
