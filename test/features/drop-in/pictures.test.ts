/**
 * @module An inline picture, by each way in: sent by an unmodified client, delivered over SMTP, read by an independent
 * parser, and seen in a browser.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { type ParsedMail, simpleParser } from 'mailparser'
import { createTransport } from 'nodemailer'
import { ServerClient } from 'postmark'
import { eventually } from '#test/support/app.ts'
import { isChromiumAvailable, startBrowser } from '#test/support/browser.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { createResend, dataOf } from './resend/fixture.ts'
import { type SubmissionFixture, startSubmissionFixture } from './submission/fixture.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

/** 3 x 2 pixels, all of the colour #1e7d34. */
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR42mOQqzWBIAY4CwAwFATbl6Z+ZAAAAABJRU5ErkJggg==',
  'base64',
)
const HTML = '<p>Logo</p><img src="cid:logo@shop">'
const FROM = 'Ada <ada@sender.test>'
const TO = 'bob@receiver.test'

let sink: Sink
let dns: DnsServer
let service: SubmissionFixture
beforeAll(async () => {
  sink = await startSink()
  dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  service = await startSubmissionFixture({
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(sink.port) },
  })
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await dns.close()
  await sink[Symbol.asyncDispose]()
})

/** The message with a subject, as the receiving server got it. */
const receive = (subject: string): Promise<ParsedMail> =>
  eventually(async () => {
    for (const { raw } of sink.messages) {
      const mail = await simpleParser(raw)
      if (mail.subject === subject) return mail
    }
    return undefined
  })

const WAYS: readonly (readonly [name: string, send: (subject: string) => Promise<unknown>])[] = [
  [
    'the interface',
    (subject) =>
      service.accepted({
        ...{ from: FROM, to: TO, subject, html_body: HTML },
        attachments: [{ filename: 'logo.png', content: PICTURE.toString('base64'), content_id: 'logo@shop' }],
      }),
  ],
  [
    "Resend's client",
    (subject) =>
      dataOf(
        createResend(service).emails.send({
          ...{ from: FROM, to: TO, subject, html: HTML },
          attachments: [{ filename: 'logo.png', content: PICTURE, contentId: 'logo@shop' }],
        }),
      ),
  ],
  [
    "Postmark's client",
    (subject) => {
      const requestHost = `${service.url.replace('http://', '')}/postmark`
      const file = { Name: 'logo.png', Content: PICTURE.toString('base64'), ContentType: 'image/png' }
      return new ServerClient(service.key, { useHttps: false, requestHost }).sendEmail({
        ...{ From: FROM, To: TO, Subject: subject, HtmlBody: HTML },
        Attachments: [{ ...file, ContentID: 'cid:logo@shop' }],
      })
    },
  ],
  [
    'Nodemailer',
    (subject) =>
      createTransport({
        host: '127.0.0.1',
        port: service.port,
        auth: { user: 'apikey', pass: service.key },
        tls: { rejectUnauthorized: false },
      }).sendMail({
        ...{ from: FROM, to: TO, subject, html: HTML },
        attachments: [{ filename: 'logo.png', content: PICTURE, cid: 'logo@shop' }],
      }),
  ],
]

describe.skipIf(!isChromiumAvailable())('an inline picture is seen in a browser, sent by', () => {
  let browser: Awaited<ReturnType<typeof startBrowser>>
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(() => browser.close())

  test.each(WAYS)('%s', async (name, send) => {
    const subject = `Picture by ${name}`
    await send(subject)
    const { html, attachments } = await receive(subject)
    expect(attachments.map(({ related, cid, content }) => [related, cid, content.equals(PICTURE)])).toEqual([
      [true, 'logo@shop', true],
    ])
    await using context = await browser.newContext()
    const page = await context.newPage()
    // The parser has replaced the reference by the part that it names.
    await page.setContent(html || '')
    const seen = await page.evaluate(`(async () => {
      const [image] = document.images
      await image.decode()
      const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d')
      canvas.drawImage(image, 0, 0)
      return [image.naturalWidth, image.naturalHeight, ...canvas.getImageData(1, 1, 1, 1).data]
    })()`)
    expect(seen).toEqual([3, 2, 0x1e, 0x7d, 0x34, 255])
  })
})
