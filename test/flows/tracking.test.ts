/**
 * @module Tracking from the send to the event: real SMTP to a receiver, whose links and pixel are then requested over
 * real HTTP.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type ParsedMail, simpleParser } from 'mailparser'
import { hours, minutes } from '#platform/units.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type SmtpScript, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { verifyWithMailauth } from '../protocols/dkim/verifiers.ts'

const PUBLIC_URL = 'https://mail.tassis.test'
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0'
const HTML = `<!doctype html><html><body>
<p>Hello B\u00f6b, <a href="https://shop.test/?item=1&amp;colour=gr\u00fcn">your order</a> is <a href='https://other.test/way'>on its way</a>.</p>
<p><a href="mailto:ada@sender.test">Write to us</a>, <a data-tracking="off" href="https://shop.test/reset?secret=1">or start anew</a>.</p>
</body></html>`
const SHOP = 'https://shop.test/?item=1&colour=gr\u00fcn'

interface TrackingFlow extends EmailApi, AsyncDisposable {
  /** The messages as received. */
  messages(): readonly Buffer[]
  /** The n-th message received since the last `forget`. */
  received(count: number): Promise<{ raw: Buffer; parsed: ParsedMail; html: string; hrefs: string[]; pixels: string[] }>
  /** Forgets what was received, and the default of the account. */
  forget(): Promise<void>
  /** Requests a URL of ours as a browser does, up to the redirect. */
  follow(url: string): Promise<Response>
  /** Events after the acceptance, once there are `count`. */
  events(id: string, count: number): Promise<Record<string, unknown>[]>
}

async function startFlow(
  script: SmtpScript = {},
  settings: Readonly<Record<string, string>> = {},
): Promise<TrackingFlow> {
  const server = await startScriptedSmtp(script)
  const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  const service = await createEmailApi({
    delivers: true,
    resolver: createResolver(dns),
    settings: { TASSIS_SMTP_PORT: String(server.port), TASSIS_PUBLIC_URL: PUBLIC_URL, ...settings },
  })
  let forgotten = 0
  const messages = () => server.sessions.flatMap((session) => session.messages).slice(forgotten)
  return {
    ...service,
    messages,
    async received(count) {
      const raw = await eventually(() => messages()[count - 1])
      const parsed = await simpleParser(raw, { skipTextToHtml: true, skipHtmlToText: true, skipTextLinks: true })
      const html = parsed.html || ''
      const urls = (pattern: RegExp) => [...html.matchAll(pattern)].map(([, url = '']) => url)
      return { raw, parsed, html, hrefs: urls(/href=["']([^"']*)["']/g), pixels: urls(/<img src="([^"]*)"/g) }
    },
    async forget() {
      forgotten += messages().length
      await service.api('PATCH', '/v1/account', { tracking_default: false })
    },
    follow: (url) =>
      fetch(url.replace(PUBLIC_URL, service.url), { redirect: 'manual', headers: { 'user-agent': BROWSER } }),
    events: (id, count) =>
      eventually(async () => {
        const events = at(await service.detail(id), 'events') as Record<string, unknown>[]
        return events.length > count && events.slice(1)
      }),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}

let flow: TrackingFlow
beforeAll(async () => {
  flow = await startFlow()
})
beforeEach(() => flow.forget())
afterAll(() => flow[Symbol.asyncDispose]())

// Proves: email-23, status-20
test('a tracked email reaches its receiver with tracked links and a pixel, which record each open and click', async () => {
  await using flow = await startFlow()
  const { id } = await flow.accepted({ text_body: undefined, html_body: HTML, tracking: true })
  const { raw, parsed, html, hrefs, pixels } = await flow.received(1)
  const { key } = flow.app.db
    .query<{ key: string }, []>("SELECT dkim_public_key AS key FROM domains WHERE domain = 'sender.test'")
    .get() ?? { key: '' }
  expect(await verifyWithMailauth(raw, formatDkimRecord(key))).toBe('pass')
  expect(hrefs).toEqual([
    expect.stringMatching(/^https:\/\/mail\.tassis\.test\/t\/c\/[\w-]+\/[\w-]+$/),
    expect.stringMatching(/^https:\/\/mail\.tassis\.test\/t\/c\/[\w-]+\/[\w-]+$/),
    'mailto:ada@sender.test',
    'https://shop.test/reset?secret=1',
  ])
  expect(pixels).toEqual([expect.stringMatching(/^https:\/\/mail\.tassis\.test\/t\/o\/[\w-]+$/)])
  expect(html.trimEnd()).toEndWith('border:0 !important"></body></html>')
  // The text keeps the sender's own links: people read and copy them.
  expect(parsed.text).toContain(SHOP)
  expect(parsed.text).not.toContain('mail.tassis.test')
  await flow.events(id, 2)

  expect((await flow.follow(pixels[0] ?? '')).status).toBe(200)
  const answers = [
    await flow.follow(hrefs[0] ?? ''),
    await flow.follow(hrefs[1] ?? ''),
    await flow.follow(hrefs[1] ?? ''),
  ]
  expect(answers.map((answer) => [answer.status, answer.headers.get('location')])).toEqual([
    [302, 'https://shop.test/?item=1&colour=gr%C3%BCn'],
    [302, 'https://other.test/way'],
    [302, 'https://other.test/way'],
  ])
  const [, , ...told] = await flow.events(id, 5)
  const person = { recipient: 'bob@receiver.test', ip_address: '127.0.0.1', user_agent: BROWSER }
  expect(told).toMatchObject([
    { type: 'opened', link_url: null, ...person },
    { type: 'clicked', link_url: SHOP, ...person },
    { type: 'clicked', link_url: 'https://other.test/way', ...person },
  ])
  // The last click, which has no event, is stored after its response.
  await flow.app.commit.barrier()
  const now = new Date(flow.clock.now()).toISOString()
  expect((await flow.api('GET', `/v1/emails/${id}/links`)).body).toMatchObject({
    data: [
      { url: 'https://other.test/way', clicks: 2, unique_clicks: 1, machine_clicks: 0, last_clicked_at: now },
      { url: SHOP, clicks: 1, unique_clicks: 1, machine_clicks: 0, last_clicked_at: now },
    ],
  })
  // The detail shows what the sender submitted, not the tracked version.
  expect((await flow.detail(id))['html_body']).toBe(HTML)
  expectBalanced(flow)
})

test('a retry a day later sends the same bytes, whose pixel still records opens, and every recipient has their own links', async () => {
  let refusals = 2
  await using flow = await startFlow({ body: () => (refusals-- > 0 ? '450 4.2.0 Later' : '250 2.0.0 Queued') })
  const { id } = await flow.accepted({
    to: ['bob@receiver.test', 'carol@receiver.test'],
    html_body: HTML,
    tracking: true,
  })
  await flow.events(id, 2)
  flow.clock.advance(hours(12))
  await flow.events(id, 6)
  const messages = flow.messages().map((message) => message.toString('latin1'))
  expect([messages.length, new Set(messages).size]).toEqual([4, 2])
  const links = await Promise.all([1, 2, 3, 4].map(async (n) => (await flow.received(n)).hrefs[0]))
  expect(new Set(links).size).toBe(2)
  const { pixels } = await flow.received(4)
  expect((await flow.follow(pixels[0] ?? '')).status).toBe(200)
  expect((await flow.events(id, 7)).at(-1)).toMatchObject({ type: 'opened' })
})

test('a retry uses the tracking host that the domain has by then, and is otherwise the same message', async () => {
  let refusals = 1
  await using flow = await startFlow({ body: () => (refusals-- > 0 ? '450 4.2.0 Later' : '250 2.0.0 Queued') })
  const { id } = await flow.accepted({ html_body: HTML, tracking: true })
  await flow.events(id, 1)
  flow.app.db.run(
    "UPDATE domains SET tracking_domain = 'links.sender.test', tracking_verified_at = 1 WHERE domain = 'sender.test'",
  )
  flow.clock.advance(minutes(6))
  await flow.events(id, 3)
  const [first, second] = [await flow.received(1), await flow.received(2)]
  const bases = ({ hrefs, pixels }: typeof first) => [...hrefs.slice(0, 2), ...pixels].map((url) => new URL(url).origin)
  const vanity = 'https://links.sender.test'
  expect([bases(first), bases(second)]).toEqual([Array(3).fill(PUBLIC_URL), Array(3).fill(vanity)])
  expect(second.html).toBe(first.html.replaceAll(PUBLIC_URL, vanity))
  expect([second.parsed.messageId, second.parsed.text]).toEqual([first.parsed.messageId, first.parsed.text])
})

// Proves: track-18
test('`tracking` overrides the default of the account; opens and clicks are chosen apart, and a no counts whatever the default', async () => {
  let count = 0
  const tracked = async () => {
    const { html } = await flow.received(++count)
    return [html.includes(`${PUBLIC_URL}/t/o/`), html.includes(`${PUBLIC_URL}/t/c/`)]
  }
  const send = async (tracking: unknown) => {
    await flow.accepted({ html_body: HTML, tracking })
    return tracked()
  }
  const sendToPostmark = async (fields: object) => {
    const response = await fetch(`${flow.url}/email`, {
      method: 'POST',
      headers: { 'x-postmark-server-token': flow.key, 'content-type': 'application/json' },
      body: JSON.stringify({
        From: 'ada@sender.test',
        To: 'bob@receiver.test',
        Subject: 'x',
        HtmlBody: HTML,
        ...fields,
      }),
    })
    expect(response.status).toBe(200)
    return tracked()
  }
  expect([
    await send(undefined),
    await send(true),
    await send({ opens: true, clicks: false }),
    await send({ opens: false, clicks: true }),
    await send({ opens: true }),
    await send({ clicks: false }),
    await sendToPostmark({ TrackOpens: true, TrackLinks: 'None' }),
    await sendToPostmark({ TrackOpens: false, TrackLinks: 'HtmlOnly' }),
    await sendToPostmark({ TrackOpens: true }),
  ]).toEqual([
    [false, false],
    [true, true],
    [true, false],
    [false, true],
    [true, false],
    [false, false],
    [true, false],
    [false, true],
    [true, false],
  ])
  await flow.api('PATCH', '/v1/account', { tracking_default: true })
  expect([
    await send(null),
    await send(false),
    await send({ opens: false }),
    await send({ clicks: false }),
    await sendToPostmark({ TrackLinks: 'None' }),
    await sendToPostmark({ TrackLinks: 'TextOnly' }),
    await sendToPostmark({ TrackOpens: false }),
    await sendToPostmark({}),
  ]).toEqual([
    [true, true],
    [false, false],
    [false, true],
    [true, false],
    [true, false],
    [true, false],
    [false, true],
    [true, true],
  ])
})

test('whether an email is tracked is decided when it is accepted', async () => {
  const sendAt = new Date(flow.clock.now() + hours(1)).toISOString()
  await flow.accepted({ html_body: HTML, send_at: sendAt })
  await flow.api('PATCH', '/v1/account', { tracking_default: true })
  flow.clock.advance(hours(1))
  expect((await flow.received(1)).html).not.toContain(PUBLIC_URL)
})

test('an email that is not tracked is sent unchanged, and so is a text, alone or beside tracked HTML', async () => {
  await flow.accepted({ html_body: HTML })
  expect((await flow.received(1)).html.replaceAll('\r\n', '\n').replace(/\n$/, '')).toBe(HTML)
  await flow.accepted({ text_body: 'See https://shop.test/', tracking: true })
  const { parsed, html } = await flow.received(2)
  expect([parsed.text?.trimEnd(), html]).toEqual(['See https://shop.test/', ''])
  await flow.accepted({ html_body: HTML, text_body: 'See https://shop.test/', tracking: true })
  const both = await flow.received(3)
  expect([both.parsed.text?.trimEnd(), both.html.includes(PUBLIC_URL)]).toEqual(['See https://shop.test/', true])
})

test('on a plan without tracking, an email that requests tracking is sent without it', async () => {
  await using flow = await startFlow({}, { TASSIS_PLANS: 'unlimited.tracking_enabled=false' })
  const { id } = await flow.accepted({ html_body: HTML, tracking: true })
  expect((await flow.received(1)).html).not.toContain(PUBLIC_URL)
  expect((await flow.detail(id))['tracking_override']).toBe(true)
})
