/** @module Unmodified mail clients, each with nothing but its documented settings, against the service. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createTransport } from 'nodemailer'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, VERIFIED } from '#test/support/email-api.ts'

let service: EmailApi
let starttlsPort = 0
let tlsPort = 0

beforeAll(async () => {
  service = await createEmailApi({ submits: true })
  const [starttls, tls] = service.submission?.endpoints ?? []
  starttlsPort = starttls?.port ?? 0
  tlsPort = tls?.port ?? 0
})
afterAll(() => service[Symbol.asyncDispose]())

const idOf = (response: string): string => /queued as (\S+)/.exec(response)?.[1] ?? response

const readSource = async (id: string): Promise<string> =>
  String(at((await service.api('GET', `/v1/emails/${id}/source`)).body, 'data', 'source'))

for (const secure of [false, true])
  test(`Nodemailer sends with ${secure ? 'TLS' : 'STARTTLS'}`, async () => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: secure ? tlsPort : starttlsPort,
      secure,
      auth: { user: 'apikey', pass: service.key },
      tls: { rejectUnauthorized: false },
    })
    const sent = await transport.sendMail({
      from: `Ada <ada@${VERIFIED}>`,
      to: 'Bob <bob@receiver.test>',
      cc: 'carol@receiver.test',
      bcc: 'dora@receiver.test',
      subject: 'Grüße',
      text: 'Hello',
      html: '<img src="cid:logo">',
      attachments: [{ filename: 'a.png', content: Buffer.from([1, 2, 3]), cid: 'logo' }],
    })
    const detail = await service.detail(idOf(sent.response))
    expect(detail).toMatchObject({
      message_id: sent.messageId,
      from_address: `Ada <ada@${VERIFIED}>`,
      to: 'bob@receiver.test',
      cc: ['carol@receiver.test'],
      bcc: ['dora@receiver.test'],
      subject: 'Grüße',
      text_body: 'Hello',
      html_body: '<img src="cid:logo">',
      attachments: [{ filename: 'a.png', content_type: 'image/png', content_id: 'logo', size: 3 }],
    })
    expect(await readSource(idOf(sent.response))).toContain(`Message-ID: ${sent.messageId}\r\n`)
  })
