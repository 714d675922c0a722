import { expect, test } from 'bun:test'
import MailComposer from 'nodemailer/lib/mail-composer'
import { encodeBase64, encodeText } from '#protocols/mime/encode.ts'
import { serialiseTree } from '#protocols/mime/serialise.ts'
import { runSteps } from '#test/support/compose.ts'
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

test.each([
  ['an empty message', {}],
  ['short text', { text: 'hi\r\nthere\r\n' }],
  ['text without a last line end', { text: 'hi' }],
  ['text in base64', { text: 'привет 日本\r\n' }],
  ['text and HTML', { text: 'hi', html: '<p>hi</p>\r\n' }],
  ['an attachment alone', { attachments: [{ filename: 'a.bin', content: bytes(1_000) }] }],
  [
    'text, HTML in base64 and two attachments',
    {
      text: 'hi',
      html: '<p>привет, привет</p>',
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
  const { header, body } = serialiseTree(tree(), ({ content }) => {
    if (Buffer.isBuffer(content)) return runSteps(encodeBase64([content]))
    return typeof content === 'string' ? runSteps(encodeText(Buffer.from(content))) : undefined
  })
  expect(Buffer.concat([header, ...body]).toString('latin1')).toBe((await tree().build()).toString('latin1'))
})
