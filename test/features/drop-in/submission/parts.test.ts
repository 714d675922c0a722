/** @module The parts of a submitted message, as Python's email package reads the message that is delivered. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createTransport } from 'nodemailer'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { expectError, VERIFIED } from '#test/support/email-api.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import type { RawSmtp } from '#test/support/smtp-client.ts'
import { createMessage, idOf, type SubmissionFixture, sendMessage, startSubmissionFixture } from './fixture.ts'

let dns: DnsServer
let sink: Sink
let service: SubmissionFixture
let client: RawSmtp

beforeAll(async () => {
  dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  sink = await startSink()
  service = await startSubmissionFixture({
    delivers: true,
    resolver: createResolver(dns, { timeoutMs: 60_000, attempts: 1 }),
    settings: { TASSIS_SMTP_PORT: String(sink.port) },
  })
  client = await service.connectLoggedIn()
})
afterAll(async () => {
  await client[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
  await sink[Symbol.asyncDispose]()
  await dns[Symbol.asyncDispose]()
})

interface Part {
  readonly type: string
  readonly parameters: Record<string, string>
  readonly encoding: string | null
  readonly filename: string | null
  /** In base64; null for a part with parts. */
  readonly content: string | null
  readonly parts: readonly Part[]
}

const READ_TREE = `
import base64, email, json, sys
def read(part):
    parts = part.get_payload() if part.is_multipart() else []
    content = None if parts else base64.b64encode(part.get_payload(decode=True)).decode()
    keys = dict((name, value) for name, value in (part.get_params() or [None])[1:] if name not in ('boundary', 'name'))
    return dict(type=part.get_content_type(), parameters=keys, encoding=part['content-transfer-encoding'],
                filename=part.get_filename(), content=content, parts=[read(each) for each in parts])
print(json.dumps(read(email.message_from_bytes(sys.stdin.buffer.read()))))
`

async function readTree(raw: string): Promise<Part> {
  const python = Bun.spawn(['python3', '-c', READ_TREE], { stdin: Buffer.from(raw, 'latin1') })
  return (await new Response(python.stdout).json()) as Part
}

/** The tree of the next message that the receiver gets, and the message. */
async function receive(accept: () => Promise<unknown>): Promise<{ tree: Part; raw: string }> {
  const count = sink.messages.length
  await accept()
  const { raw } = await eventually(() => sink.messages[count])
  return { tree: await readTree(raw), raw }
}

const submit = (type: string, ...body: readonly string[]) =>
  receive(async () => idOf(await sendMessage(client, createMessage([`Content-Type: ${type}`], body.join('\r\n')))))

/** One line a part: type, parameters, and the types in it. */
const outline = ({ type, parameters, parts }: Part): unknown => {
  const keys = Object.entries(parameters).map(([name, value]) => `${name}=${value}`)
  const own = [type, ...keys.sort()].join('; ')
  return parts.length === 0 ? own : [own, ...parts.map(outline)]
}

const textOf = ({ content }: Part): string => Buffer.from(content ?? '', 'base64').toString('latin1')

const part = (type: string, content: string, ...fields: readonly string[]) =>
  ['', '--x', `Content-Type: ${type}`, ...fields, '', content].join('\r\n')
const mix = (kind: string, ...parts: readonly string[]) => submit(`multipart/${kind}; boundary=x`, ...parts, '--x--')

const TEXT = part('text/plain; charset=utf-8', 'Meeting')
const HTML = part('text/html; charset=utf-8', '<p>Meeting</p>')
const EVENT = 'BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nSUMMARY:Réunion\r\nEND:VCALENDAR'
const ALTERNATIVES = [
  'multipart/alternative',
  'text/plain; charset=utf-8',
  'text/html; charset=utf-8',
  'text/calendar; charset=utf-8; method=REQUEST',
]

describe.skipIf(Bun.which('python3') === null)('a delivered message', () => {
  test('of nodemailer with icalEvent has the event as an alternative and as a file', async () => {
    const transport = createTransport({
      host: '127.0.0.1',
      port: service.port,
      auth: { user: 'apikey', pass: service.key },
      tls: { rejectUnauthorized: false },
    })
    const content = 'BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nSUMMARY:Réunion\r\nEND:VCALENDAR\r\n'
    const mail = {
      from: `ada@${VERIFIED}`,
      to: 'bob@receiver.test',
      subject: 'S',
      text: 'Meeting',
      amp: '<html ⚡4email>',
    }
    const { tree, raw } = await receive(() =>
      transport.sendMail({ ...mail, html: '<p>Meeting</p>', icalEvent: { method: 'REQUEST', content } }),
    )
    const [plain, html, calendar] = ALTERNATIVES.slice(1)
    expect(outline(tree)).toEqual([
      'multipart/mixed',
      ['multipart/alternative', plain, 'text/x-amp-html; charset=utf-8', html, calendar],
      'application/ics',
    ])
    const [alternatives, file] = tree.parts
    expect([file?.filename, alternatives?.parts[3]?.filename]).toEqual(['invite.ics', null])
    for (const event of [file, alternatives?.parts[3]])
      expect(Buffer.from(event?.content ?? '', 'base64').toString()).toBe(content)
    expect(raw).toContain('DKIM-Signature: ')
  })

  const CALENDAR = part('text/calendar; charset="utf-8"; method=REQUEST', EVENT, 'Content-Transfer-Encoding: 8bit')

  test('keeps an invitation beside text and HTML, without and with other files', async () => {
    const { tree } = await mix('alternative', TEXT, HTML, CALENDAR)
    expect(outline(tree)).toEqual(ALTERNATIVES)
    expect(Buffer.from(tree.parts[2]?.content ?? '', 'base64').toString()).toBe(EVENT)
    const wrapped = await submit(
      'multipart/mixed; boundary=y',
      ...['--y', 'Content-Type: multipart/alternative; boundary=x', '', TEXT, HTML, CALENDAR, '--x--'],
      ...['--y', 'Content-Type: text/calendar; method=REQUEST; name=invite.ics'],
      ...['Content-Disposition: attachment; filename=invite.ics', '', EVENT, '--y--'],
    )
    expect(outline(wrapped.tree)).toEqual(['multipart/mixed', ALTERNATIVES, 'text/calendar; method=REQUEST'])
    expect(wrapped.tree.parts[1]).toMatchObject({ filename: 'invite.ics' })
  })

  test('has the footer of a mailing list in its text and in its HTML', async () => {
    const FOOTER = part('text/plain; charset=us-ascii', '____\r\nList <a@b.test> & more', 'Content-Disposition: inline')
    const both = ['--y', 'Content-Type: multipart/alternative; boundary=x', '', TEXT, HTML, '--x--']
    const footer = FOOTER.replace('--x', '--y')
    for (const content of [both, [HTML.replace('\r\n--x', '--y')]]) {
      const { tree } = await submit('multipart/mixed; boundary=y', ...content, footer, '--y--')
      expect(outline(tree)).toEqual(ALTERNATIVES.slice(0, 3))
      const [text = '', html = ''] = tree.parts.map(textOf)
      expect(text).toMatch(/^Meeting\s+____\r?\nList <a@b\.test> & more/)
      expect(html).toMatch(/^<p>Meeting<\/p>\s*<br\/>\r?\n____<br\/>\r?\nList &lt;a@b\.test&gt; &amp; more/)
    }
  })

  test('keeps an invitation that is the whole message', async () => {
    const { tree } = await submit('text/calendar; method=REPLY; charset=utf-8', EVENT)
    expect(outline(tree)).toEqual([
      'multipart/alternative',
      'text/plain; charset=utf-8',
      'text/calendar; charset=utf-8; method=REPLY',
    ])
  })

  test.each([
    ['text/csv; charset=iso-8859-1; header=present', 'Stra\xdfe;Gr\xf6\xdfe\r\n1;2'],
    ['text/x-patch; charset=utf-8', '--- a\n+++ b\n\r\n-x \r\n'],
    ['text/plain; charset=windows-1252; format=flowed; delsp=yes', 'a \r\nb'],
    ['text/vcard; charset=utf-8; version=4.0', 'BEGIN:VCARD'],
    ['image/svg+xml; charset=utf-8', '<svg/>'],
    ['application/json; profile="https://example.test/a;b"', '{}'],
    ['application/ics; component=VEVENT', EVENT],
  ])('keeps a file of type %s with its parameters, octet by octet', async (type, content) => {
    const encoded = Buffer.from(content, 'latin1').toString('base64')
    const fields = ['Content-Transfer-Encoding: base64', 'Content-Disposition: attachment; filename="a.x"']
    const { tree } = await mix('mixed', TEXT, part(`${type}; name="b.x"`, encoded, ...fields))
    const [name, ...parameters] = type.replaceAll('"', '').split('; ')
    expect(outline(tree.parts[1] as Part)).toBe([name, ...parameters.sort()].join('; '))
    expect([tree.parts[1]?.filename, textOf(tree.parts[1] as Part)]).toEqual(['a.x', content])
  })

  const FORWARDED = 'From: eve@other.test\r\nSubject: F\r\n\r\nforwarded \r\nFrom me'

  test.each([
    ['in ASCII', FORWARDED, '7bit'],
    ['with octets above 127', `${FORWARDED}\r\nGrüße`, '8bit'],
  ])('keeps a message in it %s as a message', async (_, content, encoding) => {
    const { tree, raw } = await mix('mixed', TEXT, part('message/rfc822', content))
    expect(outline(tree)).toEqual(['multipart/mixed', 'text/plain; charset=utf-8', ['message/rfc822', 'text/plain']])
    expect(tree.parts[1]?.encoding).toBe(encoding)
    expect(raw).toContain(`\r\n\r\n${Buffer.from(content).toString('latin1')}\r\n--`)
  })

  test('has a message with a line that is too long to be sent as a file, octet by octet', async () => {
    const content = `${FORWARDED}\r\n${'x'.repeat(999)}\r\n`
    const { tree } = await mix('mixed', TEXT, part('message/rfc822', content))
    expect(tree.parts[1]).toMatchObject({ type: 'application/octet-stream', filename: 'attachment-1.eml' })
    expect(textOf(tree.parts[1] as Part)).toBe(content)
  })

  test('that is a report stays one, with its parts in order', async () => {
    const status = 'Reporting-MTA: dns; mx.test\r\n\r\nFinal-Recipient: rfc822; a@b.test\r\nAction: failed'
    const { tree } = await submit(
      'multipart/report; report-type=delivery-status; boundary=x',
      TEXT,
      part('message/delivery-status', status),
      part('text/rfc822-headers; charset=us-ascii', 'Subject: F'),
      '--x--',
    )
    expect(outline(tree)).toEqual([
      'multipart/report; report-type=delivery-status',
      'text/plain; charset=utf-8',
      ['message/delivery-status', 'text/plain', 'text/plain'],
      'text/rfc822-headers; charset=us-ascii',
    ])
    expect(tree.parts[2]?.encoding).toBe('7bit')
  })

  test.each([
    'multipart/signed; micalg=pgp-sha256; protocol="application/pgp-signature"',
    'multipart/encrypted; protocol="application/pgp-encrypted"',
  ])('that is sealed keeps every octet of its body: %s', async (type) => {
    const body = ['preamble', part('text/plain', 'Hello \t'), part('application/pgp-signature', 'SIG'), '--x--', ' end']
    const { tree, raw } = await submit(`${type}; boundary=x`, ...body)
    const [header = '', ...rest] = raw.split('\r\n\r\n')
    expect(rest.join('\r\n\r\n')).toBe(`${body.join('\r\n')}\r\n`)
    expect(header).toContain('DKIM-Signature: ')
    expect([tree.type, tree.parts.length]).toEqual([type.split(';')[0] ?? '', 2])
  })

  test('that is sealed and has a line that is too long to be sent has its body as a file', async () => {
    const body = part('text/plain', 'x'.repeat(999))
    const { tree } = await submit('multipart/signed; micalg=sha-256; boundary=x', body, '--x--')
    expect(outline(tree)).toEqual(['multipart/mixed', 'text/plain; charset=utf-8', 'application/octet-stream'])
    expect(textOf(tree.parts[1] as Part)).toBe(`${body}\r\n--x--\r\n`)
  })

  test('has a file of a type multipart, octet by octet', async () => {
    const content = Buffer.from('--x\n\na\n--x--').toString('base64')
    const attachments = ['multipart/signed; boundary=x', 'multipart/mixed; boundary=x'].map((content_type) => ({
      ...{ filename: 'a.mht', content, content_type },
    }))
    const { tree } = await receive(() => service.accepted({ attachments }))
    expect(tree.parts.slice(1).map(({ type, content: got }) => [type, got])).toEqual([
      ['application/octet-stream', content],
      ['application/octet-stream', content],
    ])
  })

  test('that is enciphered by S/MIME stays so', async () => {
    const type = 'application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m'
    const { tree } = await submit(`${type}\r\nContent-Disposition: attachment; filename=smime.p7m`, 'octets')
    expect(outline(tree)).toBe('application/pkcs7-mime; smime-type=enveloped-data')
    expect(textOf(tree)).toBe('octets\r\n')
  })

  // Proves: send-37
  test('of the API has parameters of types, and alternatives', async () => {
    const content = Buffer.from(EVENT).toString('base64')
    let id = ''
    const { tree } = await receive(async () => {
      const calendar = { content_type: 'text/calendar; charset=utf-8; method=REQUEST', alternative: true }
      const sent = await service.accepted({
        text_body: 'Meeting',
        html_body: '<p>Meeting</p>',
        attachments: [
          { filename: 'invite.ics', content, ...calendar },
          { filename: 'a.csv', content, content_type: 'text/csv; charset=iso-8859-1' },
        ],
      })
      id = sent.id
      const { attachments } = await service.detail(id)
      expect(attachments).toMatchObject([calendar, { content_type: 'text/csv; charset=iso-8859-1' }])
    })
    expect(outline(tree)).toEqual(['multipart/mixed', ALTERNATIVES, 'text/csv; charset=iso-8859-1'])
    await eventually(async () => (await service.detail(id))['status'] === 'sent')
    const repeated = await receive(() => service.api('POST', `/v1/emails/${id}/resend`, {}))
    expect(outline(repeated.tree)).toEqual(outline(tree))
  })

  // Proves: send-37
  test.each(['text/plain', 'text/html; charset=utf-8', 'application/pdf', 'multipart/mixed; boundary=x'])(
    'cannot have an alternative of type %s',
    async (content_type) => {
      const attachments = [{ filename: 'a', content: '', content_type, alternative: true }]
      expectError(await service.send({ attachments }), 422, 'validation_failed', 'attachments.0.alternative')
    },
  )
})
