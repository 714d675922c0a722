import { expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { capturedPages } from '#features/sending/capture/pages.ts'
import { captureRoutes } from '#features/sending/capture/routes.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { escapeHtml } from '#platform/http/html.ts'
import { BunHttpServer } from '#platform/http/server.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { KiB, MiB } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'

interface ServedCapture extends AsyncDisposable {
  get(
    path: string,
    actor?: Actor,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: unknown; text: string }>
}

/** The routes and pages of the feature on a socket; the key of an actor is its account. */
function serve({ app, service, actor }: MailFlow): ServedCapture {
  const actors = new Map<string, Actor>()
  const http = new BunHttpServer<Actor>({
    config: { maxBodyBytes: 1000, trustedProxies: [], requestTimeoutSeconds: 10 },
    log: app.log,
    clock: app.clock,
    memory: app.memory,
    newRequestId: () => formatUuid(newUuid()),
    authenticate: (key) => actors.get(key),
    hasScope: (requester, scope) => hasScope(requester.scopes, scope),
    routes: [captureRoutes(app, service.opened.captures), capturedPages(service.opened.captures)],
  })
  const { port } = http.listen('127.0.0.1', 0)
  return {
    async get(path, requester = actor, extraHeaders = {}) {
      const key = `tassis_live_${requester.accountUuid}${[...requester.scopes].join('')}`
      actors.set(key, requester)
      const headers = { ...(path.startsWith('/v1') && { authorization: `Bearer ${key}` }), ...extraHeaders }
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
      const text = await response.text()
      return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : undefined, text }
    },
    [Symbol.asyncDispose]: () => http.stop(0),
  }
}

// Proves: email-22
test('an email from an unverified domain is delivered to the capture store, one message per recipient, and shown to its account', async () => {
  await using flow = await startMailFlow({ verified: false })
  await using served = serve(flow)
  const sent = await flow.send({
    to: ['bob@x.test', 'Cy <cy@y.test>'],
    bcc: ['secret@z.test'],
    subject: 'Grüße',
    text_body: 'Hello.\n.\n..two\n',
  })
  const email = await flow.settled(sent)
  expect({ sandbox: sent.sandbox, statuses: email.recipients.map((r) => r.status) }).toEqual({
    sandbox: true,
    statuses: ['sent', 'sent', 'sent'],
  })
  const { status, body, text } = await served.get(`/v1/emails/${sent.id}/captured`)
  expect(status).toBe(200)
  expect(body).toEqual({
    data: {
      mail_from: expect.stringMatching(/^b-[a-z2-7]{32}@/),
      rcpt_to: ['bob@x.test', 'cy@y.test', 'secret@z.test'],
      received_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      size_bytes: expect.any(Number),
      raw: expect.stringMatching(/^DKIM-Signature: [\s\S]*\r\n\r\nHello\.\r\n\.\r\n\.\.two\r\n$/),
    },
  })
  expect(text).not.toContain('Bcc')
  const { size_bytes, raw } = (body as { data: { size_bytes: number; raw: string } }).data
  expect(raw.length).toBe(size_bytes)
})

// Proves: email-22
test('an email that was not captured is 404 not_captured; an unknown id and one of another account are 404 email_not_found', async () => {
  await using flow = await startMailFlow({ verified: false })
  await using served = serve(flow)
  const later = await flow.send({ to: 'bob@x.test', send_at: new Date(flow.app.clock.now() + 3_600_000).toISOString() })
  const captured = await flow.send({ to: 'bob@x.test' })
  await flow.settled(captured)
  const stranger = await createTestAccount(flow.app)
  const answers = [
    await served.get(`/v1/emails/${later.id}/captured`),
    await served.get(`/v1/emails/${formatUuid(newUuid())}/captured`),
    await served.get('/v1/emails/none/captured'),
    await served.get(`/v1/emails/${captured.id}/captured`, stranger),
    await served.get(`/v1/emails/${captured.id}/captured`),
  ]
  expect(answers.map(({ status, body }) => [status, (body as { code?: string }).code])).toEqual([
    [404, 'not_captured'],
    [404, 'email_not_found'],
    [404, 'email_not_found'],
    [404, 'email_not_found'],
    [200, undefined],
  ])
})

// Proves: email-27
test('/dev/captured lists the message of each recipient and shows it', async () => {
  await using flow = await startMailFlow({ verified: false })
  await using served = serve(flow)
  expect((await served.get('/dev/captured')).text).toContain('No mail is captured')
  const mail = { to: ['bob@x.test', 'cy@y.test'], subject: 'Grüße', text_body: 'Hello\n', html_body: '<p>Grüße</p>' }
  const { recipients } = await flow.settled(await flow.send(mail))
  const { text: list } = await served.get('/dev/captured')
  for (const { id, address } of recipients) {
    expect(list).toContain(`<a href="/dev/captured/${id}"><bdi>Grüße</bdi></a>`)
    const { status, text } = await served.get(`/dev/captured/${id}`)
    expect([status, text.includes(`to <bdi>${address}</bdi>`)]).toEqual([200, true])
    for (const shown of ['\nHello\n', '&lt;p&gt;Grüße&lt;/p&gt;', '\nDKIM-Signature: ']) expect(text).toContain(shown)
  }
  for (const other of ['0', '-1', 'x', '99999999999999999999', '12345'])
    expect(`${other} ${(await served.get(`/dev/captured/${other}`)).status}`).toBe(`${other} 404`)
})

const ATTACK = `"'><script>alert(1)</script><img src=x onerror=alert(1)></pre></title></style></iframe><svg onload=alert(1)>`

/** Every element of a page as a browser's tokenizer sees it, each once, with the names of its attributes. */
function elementsOf(page: string): string {
  const found = new Set<string>()
  new HTMLRewriter()
    .on('*', {
      element: ({ tagName, attributes }) =>
        void found.add([tagName, ...[...attributes].map(([name]) => name)].join(' ')),
    })
    .transform(page)
  return [...found].sort().join(', ')
}

// Proves: email-27
test('hostile mail adds no element to /dev/captured; its HTML is in a frame that runs and loads nothing', async () => {
  await using flow = await startMailFlow({ verified: false })
  await using served = serve(flow)
  const encoded = `=?utf-8?B?${btoa(ATTACK)}?=`
  const toRaw = (body: string) =>
    Buffer.from(`From: ${encoded} <ada@x.test>\r\nSubject: ${encoded}\r\nContent-Type: ${body}`)
  const save = (recipientId: number, raw: Uint8Array) =>
    flow.service.opened.captures.save({ recipientId, emailId: 1, ownerId: 1, mailFrom: '', rcptTo: ATTACK, raw })
  await save(901, toRaw(`text/html\r\n\r\n<meta http-equiv="refresh" content="0;url=https://evil.test/">${ATTACK}`))
  await save(902, toRaw(`text/plain\r\n\r\n${ATTACK}${'a'.repeat(MiB)}`))
  await save(903, Buffer.from('\0\xff\xfe no header at all'))
  const page = 'body, h1, head, html lang, link rel href, main, meta charset, meta name content, p, style, title'
  const withMore = (more: string) => [...page.split(', '), ...more.split(', ')].sort().join(', ')
  expect(elementsOf((await served.get('/dev/captured')).text)).toBe(withMore('a href, bdi, br, li, ul'))
  const { text } = await served.get('/dev/captured/901')
  const block = 'h2 id, pre tabindex role aria-labelledby'
  expect(elementsOf(text)).toBe(withMore(`a href, bdi, h2, iframe title sandbox srcdoc, ${block}`))
  expect(text).toContain(
    escapeHtml(
      `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><meta http-equiv="refresh"`,
    ),
  )
  const large = (await served.get('/dev/captured/902')).text
  expect(elementsOf(large)).toBe(withMore(`a href, bdi, ${block}`))
  expect([large.includes(escapeHtml(`\n${ATTACK}aaa`)), large.length < 600 * KiB]).toEqual([true, true])
  expect((await served.get('/dev/captured/903')).text).toContain('no header at all</pre>')
})

// Proves: email-27
test('/dev/captured is hidden from requests through a proxy and under other host names', async () => {
  await using flow = await startMailFlow({ verified: false })
  await using served = serve(flow)
  const { recipients } = await flow.settled(await flow.send({ to: 'bob@x.test', subject: 'Secret' }))
  for (const header of [
    'x-forwarded-for: 127.0.0.1',
    'X-Forwarded-Host: mail.example.com',
    'forwarded: for=127.0.0.1',
    'via: 1.1 proxy',
    'x-real-ip: ',
    'cf-ray: 1',
    'host: mail.example.com',
    'host: 127.0.0.1.example.com',
  ])
    for (const path of ['/dev/captured', `/dev/captured/${recipients[0]?.id}`]) {
      const [name = '', value = ''] = header.split(': ')
      const { status, text } = await served.get(path, flow.actor, { [name]: value })
      expect([header, status, text.includes('Secret')]).toEqual([header, 404, false])
    }
  expect((await served.get('/dev/captured', flow.actor, { host: '[::1]:8080' })).text).toContain('Secret')
})
