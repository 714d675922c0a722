/** @module Mailgun's client, unmodified, does every covered call; wrong requests are errors in its form and store nothing. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { simpleParser } from 'mailparser'
import MailComposer from 'nodemailer/lib/mail-composer'
import { type EventType, record } from '#features/core/events/record.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { MiB } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import { type Sink, startSink } from '#test/support/sink.ts'
import { type SubmissionFixture, startSubmissionFixture } from '../submission/fixture.ts'
import { createGhostBatch, createMailgun, errorOf } from './fixture.ts'

const FROM = `Ada <ada@${VERIFIED}>`
const MESSAGE = { from: FROM, to: 'bob@receiver.test', subject: 'Hello', text: 'Hello, Bob.' }
const NOW = new Date('2026-03-14T10:00:00Z')
const ASCENDING = { ascending: 'yes', begin: '1000000000' } as const
type Data = Parameters<ReturnType<typeof createMailgun>['messages']['create']>[1]

let sink: Sink
let dns: DnsServer
let service: SubmissionFixture
let client: ReturnType<typeof createMailgun>
beforeAll(async () => {
  sink = await startSink()
  dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  service = await startSubmissionFixture({
    delivers: true,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_SMTP_PORT: String(sink.port) },
  })
  client = createMailgun(service)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await dns.close()
  await sink[Symbol.asyncDispose]()
})

const send = (data: object, domain = VERIFIED) => client.messages.create(domain, { ...MESSAGE, ...data } as Data)
/** The messages with a subject, as the receiving server got them. */
const receive = (subject: string, count = 1) =>
  eventually(async () => {
    const mails = await Promise.all(
      sink.messages.map(async ({ raw, rcptTo }) => ({ rcptTo, mail: await simpleParser(Buffer.from(raw, 'latin1')) })),
    )
    const found = mails.filter(({ mail }) => mail.subject === subject)
    return found.length >= count ? found : undefined
  })
const post = (path: string, init: RequestInit & { headers?: Record<string, string> }) =>
  fetch(`${service.url}/mailgun${path}`, {
    method: 'POST',
    ...init,
    headers: { authorization: `Basic ${btoa(`api:${service.key}`)}`, ...init.headers },
  })

/** What an accepted message adds to; deliveries of earlier ones go on and add to the rest. */
function stored() {
  const { emails, recipients, contentParts, recipientsUsed, idempotency_keys } = service.stored()
  return { emails, recipients, contentParts, recipientsUsed, idempotency_keys }
}

describe('messages', () => {
  test('a message arrives with its fields, files and headers', async () => {
    const { id, message, status } = await send({
      ...{ subject: 'All fields', html: '<p>Hi <img src="cid:dot.png"></p>', 'v:order': '42', 'o:tag': ['a', 'b'] },
      ...{ cc: 'Cy <cy@receiver.test>', bcc: ['di@receiver.test'] },
      ...{ 'h:Reply-To': 'desk@sender.test', 'h:X-Own': 'yes', 'h:Sender': 'x@y.test' },
      attachment: { data: Buffer.from('one'), filename: 'a.txt', contentType: 'text/plain' },
      inline: { data: Buffer.from('GIF89a'), filename: 'dot.png', contentType: 'image/png' },
    })
    expect([status, message]).toEqual([200, 'Queued. Thank you.'])
    const [{ mail } = { mail: undefined }] = await receive('All fields', 3)
    expect(mail).toMatchObject({
      messageId: id,
      html: expect.stringContaining('Hi'),
      text: expect.stringContaining('Hello, Bob.'),
    })
    expect([mail?.replyTo?.text, mail?.headers.get('x-own'), mail?.headers.has('sender')]).toEqual([
      'desk@sender.test',
      'yes',
      false,
    ])
    expect(mail?.attachments.map(({ filename, cid, content }) => [filename, cid, content.toString()])).toContainEqual([
      'a.txt',
      undefined,
      'one',
    ])
    expect(mail?.attachments.map(({ cid }) => cid)).toContain('dot.png')
  })

  test('a batch sends each recipient an email of its own with its variables', async () => {
    const to = ['Eve <eve@receiver.test>', 'fay@receiver.test']
    const variables = {
      'eve@receiver.test': { n: 'E%recipient.n%', deep: { a: 1 } },
      'FAY@receiver.test': { n: 'F\r\nX: y' },
    }
    const { id } = await send({
      ...{
        to: to.join(', '),
        subject: 'Hi %recipient.n%!',
        text: '%recipient_fname% %recipient_email% %recipient.gone% %recipient.deep%',
      },
      'recipient-variables': JSON.stringify(variables),
    })
    const [{ mail: eve, rcptTo } = { mail: undefined, rcptTo: [] }] = await receive('Hi E%recipient.n%!')
    expect([eve?.text?.trim(), eve?.to, rcptTo]).toEqual([
      'Eve eve@receiver.test %recipient.gone% {"a":1}',
      expect.objectContaining({ text: '"Eve" <eve@receiver.test>' }),
      ['eve@receiver.test'],
    ])
    const [{ mail: fay } = { mail: undefined }] = await receive('Hi F X: y!')
    expect([fay?.messageId, fay?.headers.has('x')]).toEqual([id, false])
  })

  test('names and values of variables are plain texts, whatever they are, in headers without line ends', async () => {
    const to = ['Bö <P+1@receiver.test>', 'p+1@Receiver.test', 'none@receiver.test']
    const variables =
      '{"p+1@receiver.test": {"__proto__": "P", "constructor": "C", "name": "x\\r\\nBcc: y@y.test", "n": null, "l": [1]}}'
    await send({
      ...{ to, subject: 'Odd %recipient.__proto__%%recipient.constructor%', 'v:__proto__': 'kept' },
      html: '<b>%recipient.toString%|%recipient.constructor%|%recipient.n%|%recipient.l%|%recipient_name%|%recipient.%</b>',
      ...{ 'h:X-Name': '<%recipient.name%>', 'recipient-variables': variables },
    })
    const [{ mail, rcptTo } = { mail: undefined, rcptTo: [] }] = await receive('Odd PC')
    expect([rcptTo, mail?.headers.get('x-name'), mail?.headers.has('bcc')]).toEqual([
      ['p+1@receiver.test'],
      '<x Bcc: y@y.test>',
      false,
    ])
    expect(mail?.html).toContain('<b>%recipient.toString%|C||[1]||%recipient.%</b>')
    expect(await receive('Odd %recipient.__proto__%%recipient.constructor%')).toHaveLength(1)
    const stored = service.app.db.query("SELECT extra FROM emails WHERE subject = 'Odd PC'").get()
    expect(at(stored, 'extra')).toContain('"__proto__":"kept"')
  })

  test('a key with drafts makes drafts of a batch, and does nothing else here', async () => {
    const { key } = await createApiKey(service.app, service.actor, { name: 'a', limits: { drafts: true } })
    const agent = createMailgun({ ...service, key })
    const batch = { ...MESSAGE, to: ['d1@receiver.test', 'd2@receiver.test'], 'recipient-variables': '{}' }
    for (const data of [batch, { ...MESSAGE, to: 'd3@receiver.test' }])
      expect((await agent.messages.create(VERIFIED, data as Data)).message).toContain('a person must release it')
    const { data } = (await service.api('GET', '/v1/emails?status=draft')).body as { data: object[] }
    expect(data).toHaveLength(3)
    const refused = [
      () => agent.suppressions.create(VERIFIED, 'bounces', { address: 'a@b.test' }),
      () => agent.domains.destroy(VERIFIED),
    ]
    for (const call of refused) expect((await errorOf(call()))[0]).toBe(403)
  })

  test("Ghost's batch is sent once however often it is repeated, with its own link to leave", async () => {
    const readers = ['g1@receiver.test', 'g2@receiver.test']
    const ghost = createMailgun(service, '')
    const batch = createGhostBatch(readers, FROM, '<p>%recipient.first_name%</p>')
    const { id } = await ghost.messages.create(VERIFIED, batch)
    // With one more recipient, as after a change of its batches.
    const again = createGhostBatch([...readers, 'g3@receiver.test'], FROM, '<p>%recipient.first_name%</p>')
    expect((await ghost.messages.create(VERIFIED, again)).id).toBe(id)
    const mails = await receive('The news', 3)
    expect(mails.map(({ rcptTo }) => rcptTo[0]).toSorted()).toEqual([...readers, 'g3@receiver.test'])
    expect(mails[0]?.mail.headerLines.find(({ key }) => key === 'list-unsubscribe')?.line).toContain(
      'https://blog.test/unsubscribe/?uuid=',
    )
    expect(mails[0]?.mail.headerLines.find(({ key }) => key === 'list-unsubscribe')?.line).not.toContain('%')
    // Other mail of Ghost, such as that of an automation, may be meant to come again.
    for (const more of [{ 'o:tag': ['ghost-email', 'automation-email'] }, { 'v:email-id': 'not an id' }])
      for (const _ of [1, 2]) await ghost.messages.create(VERIFIED, { ...batch, ...more, subject: 'Again' })
    await receive('Again', 8)
  })

  test('a form that is broken off or has too many fields is an error', async () => {
    const part = (name: string) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n\n--\r\n`
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    const before = stored()
    for (const [body, message] of [
      [part('to').slice(0, -9), 'cannot be read'],
      [part('to'), 'cannot be read'],
      [`${part('to').repeat(5001)}--b--\r\n`, 'at most 5000 fields'],
      [`${part('x').repeat(5000)}--b--\r\n`, 'to at least one address'],
    ] as const)
      expect(await (await post(`/v3/${VERIFIED}/messages`, { body, headers })).text()).toContain(message)
    expect(stored()).toEqual(before)
  })

  test('a key makes a repeated request send nothing again', async () => {
    const message = { ...MESSAGE, 'h:X-Tassis-Idempotency-Key': 'order 42' }
    expect((await send(message)).id).toBe((await send(message)).id)
    const body = new URLSearchParams({ ...MESSAGE, subject: 'URL-encoded' })
    const ids = [0, 1].map(async () =>
      (await post(`/v3/${VERIFIED}/messages`, { body, headers: { 'idempotency-key': 'k' } })).json(),
    )
    const [first, second] = (await Promise.all(ids)) as { id: string }[]
    expect(first?.id).toBe(second?.id as string)
  })

  test('a client sets the Message-ID of each recipient', async () => {
    const variables = { 'h1@receiver.test': { message_id: 'one@sender.test' } }
    const { id } = await send({
      ...{ to: 'h1@receiver.test', subject: 'Own id', 'h:Message-Id': '<%recipient.message_id%>' },
      'recipient-variables': JSON.stringify(variables),
    })
    expect(id).toBe('<%recipient.message_id%>')
    expect((await receive('Own id'))[0]?.mail.messageId).toBe('<one@sender.test>')
  })

  test('a template of the account is named by its alias', async () => {
    await service.api('POST', '/v1/templates', {
      name: 'Hi',
      alias: 'hi',
      subject: 'T {{name}}',
      html_body: '<p>{{name}} {{who}}</p>',
    })
    const variables = { 't:variables': '{"name": "N", "who": "%recipient.w%"}', 't:version': 'v1' }
    const data = { template: 'hi', subject: '', text: '', ...variables }
    await send({ ...data, 'recipient-variables': '{"bob@receiver.test": {"w": "W"}}', 'o:tracking': 'htmlonly' })
    expect((await receive('T N'))[0]?.mail.html).toContain('N W')
  })

  test('a scheduled message waits; a time that has passed is now', async () => {
    const later = new Date(service.clock.now() + 3_600_000).toUTCString()
    await send({ subject: 'Later', 'o:deliverytime': later })
    await send({ subject: 'Now', 'o:deliverytime': 'Fri, 14 Oct 2011 23:10:10 +0000' })
    await receive('Now')
    const { data } = (await service.api('GET', '/v1/emails?status=scheduled')).body as { data: { subject: string }[] }
    expect(data.map(({ subject }) => subject)).toEqual(['Later'])
  })

  test('what has no effect is named, and a test message stores nothing', async () => {
    const before = stored()
    const unused = { 'o:dkim': 'no', 'amp-html': '<p>', 'h:Sender': 'a@b.test' }
    const form = new URLSearchParams({ ...MESSAGE, 'o:testmode': 'yes', ...unused })
    const response = await post(`/v3/${VERIFIED}/messages`, { body: form })
    expect(await response.json()).toMatchObject({ message: 'Queued. Thank you.' })
    expect(response.headers.get('tassis-ignored')).toBe('o:dkim, amp-html, h:Sender')
    expect(stored()).toEqual(before)
  })

  const many = (count: number) => Array.from({ length: count }, (_, index) => `r${index}@receiver.test`)
  test.each<[string, object, number, RegExp]>([
    ['recipient-variables without to', { to: '', 'recipient-variables': '{}' }, 400, /Set "to"/],
    [
      'variables of an address that is not in to',
      { 'recipient-variables': '{"x@y.test": {}}' },
      400,
      /"x@y.test", which is not in "to"/,
    ],
    ['1,001 recipients', { to: many(1001), 'recipient-variables': '{}' }, 400, /"to" has 1001 addresses; at most 1000/],
    ['1,001 recipients in one field', { to: many(1001).join(','), 'recipient-variables': '{}' }, 400, /at most 1000/],
    ['51 recipients that see each other', { to: many(51) }, 400, /at most 50 are allowed/],
    [
      'broken JSON',
      { 'recipient-variables': '{"bob@receiver.test": {' },
      400,
      /recipient-variables must be a JSON object/,
    ],
    [
      'variables that are no object',
      { 'recipient-variables': '{"bob@receiver.test": 1}' },
      400,
      /must be a JSON object/,
    ],
    ['JSON that is nested deeply', { 'recipient-variables': '['.repeat(100) }, 400, /nested deeper than 64/],
    [
      'variables that make a text huge',
      {
        html: '%recipient.x%'.repeat(5000),
        'recipient-variables': JSON.stringify({ 'bob@receiver.test': { x: 'x'.repeat(50_000) } }),
      },
      413,
      /at most 134217728 characters together/,
    ],
    [
      'a batch that is too large',
      { to: many(1000), html: 'x'.repeat(200_000), 'recipient-variables': '{}' },
      413,
      /send fewer recipients/,
    ],
    [
      'cc with recipient-variables',
      { cc: 'a@b.test', 'recipient-variables': '{}' },
      400,
      /cc and bcc cannot be combined/,
    ],
    ['opens that are tracked htmlonly', { 'o:tracking-opens': 'htmlonly' }, 400, /must be yes, no, true or false/],
    ['tracking that is neither yes nor no', { 'o:tracking': 'maybe' }, 400, /o:tracking must be/],
    ['TLS that is demanded', { 'o:require-tls': true }, 400, /o:require-tls is not available/],
    ['a link of Mailgun', { html: '<a href="%unsubscribe_url%">' }, 400, /%unsubscribe_url% is not available/],
    ['a recipient that is no address', { to: 'nobody' }, 400, /'to' parameter is not a valid address/],
    ['no text', { text: '' }, 400, /text/],
    ['a From domain that is not registered', { from: 'a@other.test' }, 400, /not registered/],
    ['a template that does not exist', { template: 'none', text: '' }, 400, /no template/],
    ['an own Message-ID that is none', { 'h:Message-Id': 'x' }, 400, /must be like/],
    ['a time that is none', { 'o:deliverytime': 'soon' }, 400, /o:deliverytime must be like/],
    ['a time that is too far', { 'o:deliverytime': '99999999999' }, 400, /^o:deliverytime must be within 366 days/],
    ['own data that is too large', { 'v:a': 'x'.repeat(17_000) }, 400, /^v:\* must have at most 16384 bytes/],
    [
      'a batch with one wrong header',
      { to: many(3), 'h:List-Unsubscribe': '%recipient.u%', 'recipient-variables': '{}' },
      400,
      /Nothing was sent/,
    ],
    ['a program as an attachment', { attachment: { data: 'MZ', filename: 'x.exe' } }, 400, /Files of type .exe/],
  ])('%s: an error, and nothing is stored', async (_, data, status, message) => {
    const before = stored()
    const error = await errorOf(send(data))
    expect([error[0], message.test(error[1]) || error[1]]).toEqual([status, true])
    expect(stored()).toEqual(before)
  })

  test('a wrong domain, key or scope is an error in the form of the client', async () => {
    const other = createMailgun({ ...service, key: `tassis_live_${'x'.repeat(32)}` })
    const { key } = await createApiKey(service.app, service.actor, { name: 'a', limits: { domains: [UNVERIFIED] } })
    const limited = createMailgun({ ...service, key })
    expect(await errorOf(send({}, 'nowhere.test'))).toEqual([404, 'Domain not found: nowhere.test'])
    expect((await errorOf(other.messages.create(VERIFIED, MESSAGE as Data)))[0]).toBe(401)
    expect((await errorOf(limited.messages.create(VERIFIED, MESSAGE as Data)))[0]).toBe(403)
    const response = await post(`/v3/${VERIFIED}/messages`, { headers: { authorization: '' } })
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Basic realm="MG API"'])
    expect(await response.json()).toEqual({ message: expect.stringContaining('HTTP Basic with the user "api"') })
  })

  test('mail from a domain that is not verified is captured, and says so', async () => {
    const { message } = await send({ from: `a@${UNVERIFIED}` }, UNVERIFIED)
    expect(message).toContain(`the domain ${UNVERIFIED} is not verified`)
  })
})

describe('messages.mime', () => {
  const sendMime = (message: unknown, more: object = {}) =>
    client.messages.create(VERIFIED, { to: 'bob@receiver.test', message, ...more } as unknown as Data)

  test('a whole message goes to the recipients of the form, with its header, files and the options', async () => {
    const message = await new MailComposer({
      ...{ from: FROM, to: 'Bob <bob@receiver.test>, list@elsewhere.test', subject: 'Whole', text: 'Grüße', date: NOW },
      ...{ html: '<p>Grüße <img src="cid:dot"></p>', headers: { 'X-Own': 'yes' }, messageId: '<own@sender.test>' },
      attachments: [{ filename: 'dot.gif', content: Buffer.from('GIF89a'), cid: 'dot' }],
    })
      .compile()
      .build()
    const options = { 'o:tag': ['whole'], 'v:order': '7', 'o:deliverytime': 'Fri, 14 Oct 2011 23:10:10 +0000' }
    const to = ['Bob <bob@receiver.test>', 'hidden@receiver.test', 'BOB@receiver.test']
    const sent = await sendMime(message, { ...options, to, subject: 'no effect' })
    expect(sent).toMatchObject({ status: 200, id: '<own@sender.test>', message: 'Queued. Thank you.' })
    const mails = await receive('Whole', 2)
    expect(mails.map(({ rcptTo }) => rcptTo.join()).toSorted()).toEqual(['bob@receiver.test', 'hidden@receiver.test'])
    expect(mails[0]?.mail).toMatchObject({
      ...{ messageId: '<own@sender.test>', text: expect.stringContaining('Grüße'), date: NOW },
      to: { text: '"Bob" <bob@receiver.test>, list@elsewhere.test' },
      attachments: [{ filename: 'dot.gif', cid: 'dot', related: true }],
    })
    expect(mails[0]?.mail.headers.get('x-own')).toBe('yes')
    const query = { event: 'accepted', tags: 'whole' }
    const { items } = await client.events.get(VERIFIED, query)
    expect(items.map((item) => item['user-variables'])).toEqual([{ order: '7' }])
  })

  test('recipient-variables make an email for each, a key and a test message work as with fields', async () => {
    const batch = {
      to: ['m1@receiver.test', 'm2@receiver.test'],
      'recipient-variables': '{"m1@receiver.test": {"n": "One"}, "m2@receiver.test": {"n": "Two"}}',
      'h:X-Tassis-Idempotency-Key': 'mime',
    }
    const message = `From: ${FROM}\r\nTo: all@lists.test\r\nSubject: Dear %recipient.n%\r\nX-N: %recipient.n%\r\n\r\nHi %recipient.n%`
    const before = stored()
    await sendMime(message, { ...batch, 'o:testmode': 'yes' })
    expect(stored()).toEqual(before)
    const ids = [await sendMime(message, batch), await sendMime(message, batch)].map(({ id }) => id)
    expect(ids[0]).toBe(ids[1] as string)
    const [{ mail, rcptTo } = { mail: undefined, rcptTo: [] }, ...others] = await receive('Dear Two')
    expect([rcptTo, mail?.text?.trim(), mail?.headers.get('x-n'), others.length]).toEqual([
      ...[['m2@receiver.test'], 'Hi Two', 'Two', 0],
    ])
    expect(mail?.to).toMatchObject({ text: 'm2@receiver.test' })
  })

  test('a file may be as large as any', async () => {
    const attachments = [{ filename: 'a.bin', content: Buffer.alloc(25 * MiB) }]
    const message = await new MailComposer({ from: FROM, subject: 'Large', attachments }).compile().build()
    expect(await sendMime(message, { 'o:testmode': 'yes' })).toMatchObject({ status: 200 })
  })

  test('a message may be a field, must be there, and what has no effect is named', async () => {
    const path = `/v3/${VERIFIED}/messages.mime`
    const form = { to: 'bob@receiver.test', subject: 'x', 'h:X-Own': 'x', 'o:testmode': 'yes' }
    const missing = await post(path, { body: new URLSearchParams(form) })
    expect([missing.status, await missing.json()]).toEqual([400, { message: expect.stringContaining('Set "message"') }])
    const checked = await post(path, { body: new URLSearchParams({ ...form, message: SMALL }) })
    expect([checked.status, checked.headers.get('tassis-ignored')]).toEqual([200, 'subject, h:X-Own'])
  })

  const SMALL = `From: ${FROM}\r\nSubject: S\r\n\r\nText`
  test.each<[string, unknown, object, RegExp]>([
    ['no recipient', SMALL, { to: '' }, /Set "to" to at least one address/],
    ['a recipient that is none', SMALL, { to: 'nobody' }, /'to' parameter is not a valid address/],
    ['51 recipients', SMALL, { to: Array.from({ length: 51 }, (_, n) => `r${n}@receiver.test`) }, /at most 50/],
    ['no From', 'Subject: S\r\n\r\nText', {}, /header From is missing/],
    ['no header', 'Text', {}, /header From is missing/],
    ['octets', Buffer.from([0, 255, 13, 10, 13, 13, 0, 10]), {}, /header From is missing/],
    ['a From domain that is not registered', 'From: a@other.test\r\n\r\nText', {}, /not registered/],
    ['a link of Mailgun', `${SMALL} %unsubscribe_url%`, {}, /%unsubscribe_url% is not available/],
    ['a loop', `${'Received: by x\r\n'.repeat(101)}${SMALL}`, {}, /Too many hops/],
    ['variables of an address that is not in to', SMALL, { 'recipient-variables': '{"x@y.test": {}}' }, /not in "to"/],
    ['a tracking that is none', SMALL, { 'o:tracking': 'maybe' }, /o:tracking must be/],
  ])('%s: an error, and nothing is stored', async (_, message, more, text) => {
    const before = stored()
    expect(await errorOf(sendMime(message, more))).toEqual([400, expect.stringMatching(text)])
    expect(stored()).toEqual(before)
  })
})

describe('events', () => {
  const list = (query: object, domain = VERIFIED) =>
    client.events.get(domain, query as Parameters<typeof client.events.get>[1])

  test('events have the fields that clients read, and are found by each condition', async () => {
    const { id } = await send({
      ...{ subject: 'Findable', to: 'kim@receiver.test', 'v:email-id': 'e1', 'o:tag': ['red', 'blue'] },
    })
    const bare = String(id).replace(/[<>]/g, '')
    const found = await eventually(async () => {
      const { items } = await list({ 'message-id': bare, event: 'delivered OR failed', ...ASCENDING })
      return items.length > 0 ? items : undefined
    })
    expect(found).toEqual([
      expect.objectContaining({
        ...{ event: 'delivered', recipient: 'kim@receiver.test', 'recipient-domain': 'receiver.test' },
        tags: ['red', 'blue'],
        'user-variables': { 'email-id': 'e1' },
        timestamp: expect.any(Number),
        message: expect.objectContaining({
          headers: expect.objectContaining({ 'message-id': bare, subject: 'Findable' }),
        }),
        'delivery-status': expect.objectContaining({ code: 250 }),
      }),
    ])
    const conditions = [
      { tags: 'red AND blue' },
      { recipient: 'KIM@receiver.test' },
      { to: 'kim' },
      { subject: 'findable' },
      { from: 'ada', tags: '(green OR red)' },
    ]
    for (const condition of conditions) expect((await list({ ...condition, event: 'delivered' })).items).toHaveLength(1)
    for (const condition of [
      { tags: 'red AND green' },
      { severity: 'permanent', recipient: 'kim@receiver.test' },
      { begin: '9999999999', end: '99999999999' },
    ])
      expect((await list(condition)).items).toEqual([])
    const others = (await list({ from: UNVERIFIED }, UNVERIFIED)).items
    expect(others.every(({ message }) => message.headers.from.includes(UNVERIFIED))).toBe(true)
    expect((await errorOf(list({ event: 'melted' })))[1]).toMatch(/^event must be one of accepted/)
    expect((await errorOf(list({ tags: 'red AND NOT blue' })))[1]).toMatch(/without "NOT"/)
    expect((await errorOf(list({ page: '%%%' })))[0]).toBe(400)
  })

  test('failures have their severity, and a suppressed address the code that Ghost reads', async () => {
    await client.suppressions.create(VERIFIED, 'bounces', { address: 'gone@receiver.test', code: 550, error: 'x' })
    await send({ to: 'gone@receiver.test', subject: 'Stopped' })
    const { items } = await list({ event: 'failed', severity: 'permanent', recipient: 'gone@receiver.test' })
    expect(items[0]).toMatchObject({
      severity: 'permanent',
      reason: 'suppress-bounce',
      'delivery-status': { code: 605 },
    })
  })

  test('events of every type have the name and the severity that clients know', async () => {
    const { id } = await send({ subject: 'Each type', to: 'lou@receiver.test' })
    const bare = String(id).replace(/[<>]/g, '')
    await eventually(async () => (await list({ 'message-id': bare, event: 'delivered' })).items[0])
    const { app, actor } = service
    const { id: emailId } = app.db
      .query<{ id: number }, []>("SELECT id FROM emails WHERE subject = 'Each type'")
      .get() ?? { id: 0 }
    const link = { user_agent: 'Mail 1.0', ip_address: '192.0.2.1', link_url: 'https://a.test/' }
    const data = { ...link, smtp_response: '452 4.2.2 Full' }
    const names = 'opened clicked complained unsubscribed deferred bounced failed uncertain cancelled'
    const types = names.split(' ') as EventType[]
    await app.commit.write((tx) => {
      for (const type of types) record(tx, { accountId: actor.accountId, type, at: app.eventTime(), emailId, data })
    })
    const { items } = await list({ 'message-id': bare, ...ASCENDING })
    expect(items.slice(2).map(({ event, severity }) => (severity ? `${event} ${severity}` : event))).toEqual([
      ...['opened', 'clicked', 'complained', 'unsubscribed'],
      ...['failed temporary', 'failed permanent', 'failed permanent'],
    ])
    const client = { 'client-info': { 'user-agent': 'Mail 1.0' } }
    expect(items[3]).toMatchObject({ url: 'https://a.test/', ip: '192.0.2.1', ...client })
    const reply = { code: 452, 'enhanced-code': '4.2.2', message: '452 4.2.2 Full' }
    expect(items[6]?.['delivery-status']).toMatchObject(reply)
  })

  test('mail of another From domain has its events at the domain of its request', async () => {
    await send({ subject: 'By another', 'v:a': 'b' }, UNVERIFIED)
    const { items } = await list({ event: 'accepted', subject: 'By another' }, UNVERIFIED)
    expect(items.map((item) => item['user-variables'])).toEqual([{ a: 'b' }])
    expect((await list({ event: 'accepted', subject: 'By another' })).items).toEqual([])
  })

  test('pages have no gap and no double while events come, in both directions', async () => {
    await send({
      to: Array.from({ length: 20 }, (_, index) => `p${index}@receiver.test`),
      'recipient-variables': '{}',
      'o:tag': 'paged',
    })
    const query = { event: 'accepted', tags: 'paged', limit: 7, ...ASCENDING }
    const ids: string[] = []
    let page = await list(query)
    for (let sent = 0; page.items.length > 0; page = await list({ ...query, page: page.pages.next?.page })) {
      ids.push(...page.items.map(({ id }) => id))
      if (sent++ < 3) await send({ to: `q${sent}@receiver.test`, 'o:tag': 'paged' })
    }
    expect([ids.length, new Set(ids).size]).toEqual([23, 23])
    const next = await list({ ...query, page: page.pages.next?.page })
    expect(next.items).toEqual([])
    const back = await list({
      page: (await list({ ...query, page: page.pages.previous?.page })).pages.first?.page,
      limit: 50,
    })
    expect(back.items.map(({ id }) => id)).toEqual(ids.toReversed())
    expect((await list({ page: back.pages.last?.page, limit: 50 })).items.map(({ id }) => id)).toEqual(ids)
    const newest = await list({ event: 'accepted', tags: 'paged', limit: 2 })
    expect(newest.items.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, 2))
  })
})

describe('lists', () => {
  test.each(['bounces', 'complaints', 'unsubscribes'] as const)(
    '%s are added, listed, read and removed',
    async (type) => {
      const { suppressions } = client
      expect((await suppressions.create(VERIFIED, type, { address: 'one@receiver.test' })).message).toContain(
        `to the ${type} table`,
      )
      await suppressions.create(VERIFIED, type, [
        { address: 'two@receiver.test' },
        { address: 'three@receiver.test' },
      ] as never)
      const first = await suppressions.list(VERIFIED, type, { limit: 2 })
      const second = await suppressions.list(VERIFIED, type, { limit: 2, page: first.pages.next?.page ?? '' })
      const addresses = [...first.items, ...second.items].map((item) => (item as { address: string }).address)
      expect(addresses.filter((address) => /^(?:one|two|three)@/.test(address))).toEqual([
        'one@receiver.test',
        'two@receiver.test',
        'three@receiver.test',
      ])
      const back = await suppressions.list(VERIFIED, type, { limit: 2, page: second.pages.previous?.page ?? '' })
      expect(back.items).toEqual(first.items)
      expect(await suppressions.get(VERIFIED, type, 'ONE@receiver.test')).toMatchObject({
        address: 'one@receiver.test',
      })
      await suppressions.destroy(VERIFIED, type, 'one@receiver.test')
      expect(await errorOf(suppressions.get(VERIFIED, type, 'one@receiver.test'))).toEqual([
        404,
        `Address not found in ${type} table`,
      ])
      expect((await errorOf(suppressions.create(VERIFIED, type, { address: 'nobody' })))[0]).toBe(400)
      // An address has one entry for all mail, with one reason.
      for (const name of ['two', 'three']) await suppressions.destroy(VERIFIED, type, `${name}@receiver.test`)
      expect(JSON.stringify((await suppressions.list(VERIFIED, type)).items)).not.toContain('two@')
      expect((await errorOf(suppressions.destroyAll(VERIFIED, type)))[1]).toContain('not part of this service')
    },
  )

  test('the removal of a bounce keeps an unsubscription', async () => {
    for (const type of ['bounces', 'unsubscribes'] as const)
      await client.suppressions.create(VERIFIED, type, { address: 'lea@receiver.test' })
    await client.suppressions.destroy(VERIFIED, 'bounces', 'lea@receiver.test')
    expect(await client.suppressions.get(VERIFIED, 'unsubscribes', 'lea@receiver.test')).toMatchObject({ tags: ['*'] })
  })
})

test('domains are created, listed, read, verified and deleted', async () => {
  const created = await client.domains.create({ name: 'new.test' })
  expect([created.state, created.sending_dns_records?.map(({ record_type }) => record_type)]).toEqual([
    'unverified',
    ['TXT', 'TXT', 'MX'],
  ])
  expect((await client.domains.list({ limit: 10 })).map(({ name }) => name)).toContain('new.test')
  expect((await client.domains.get(VERIFIED)).state).toBe('active')
  expect((await client.domains.verify('new.test')).state).toBe('unverified')
  expect((await client.domains.destroy('new.test')).message).toBe('Domain has been deleted')
  expect(await errorOf(client.domains.get('new.test'))).toEqual([404, 'Domain not found: new.test'])
})
