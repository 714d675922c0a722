/** @module `POST /v1/emails/check`: each finding by a real request, what is composed, and Debian's rspamd. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dkimVerify } from 'mailauth/lib/dkim/verify'
import type { CheckEmailsResult } from '#client/api.ts'
import { at } from '#test/support/api.ts'
import {
  createEmailApi,
  EMAIL,
  type EmailApi,
  expectError,
  shareEmailApi,
  UNVERIFIED,
} from '#test/support/email-api.ts'
import { GTUBE, isRspamdAvailable, type Rspamd, shareRspamdStub, startRspamd } from '#test/support/rspamd.ts'

type Json = Record<string, unknown>
const verifyRecords = ({ app }: EmailApi) =>
  app.db.run('UPDATE domains SET spf_verified = 1, dkim_verified = 1, return_path_verified = 1, dmarc_verified = 1')

async function check({ api }: EmailApi, request: Json = {}): Promise<CheckEmailsResult> {
  const { status, body } = await api('POST', '/v1/emails/check', { ...EMAIL, ...request })
  expect([status, status === 200 ? '' : body]).toEqual([200, ''])
  return at(body, 'data') as CheckEmailsResult
}

const service = shareEmailApi(async () => {
  const created = await createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.service.test' } })
  verifyRecords(created)
  return created
})
const ids = ({ findings }: CheckEmailsResult) => findings.map(({ id, severity }) => `${severity} ${id}`)
const link = (href: string, text: string) => ({
  html_body: `<p>Hello there, dear Bob.</p><a href="${href}">${text}</a>`,
})

describe('findings', () => {
  // Proves: validate-5
  test('an ordinary email has none, and nothing is stored or counted', async () => {
    const before = service.stored()
    const found = await check(service, { html_body: '<p>Hello, <a href="https://sender.test/a">Bob</a>.</p>' })
    expect(found).toMatchObject({
      ...{ verdict: 'ok', score: null, findings: [], rspamd: null, html_bytes: 54 },
      authentication: { from_domain: 'sender.test', dkim_domain: 'sender.test', dkim: 'pass', dmarc: 'pass' },
    })
    expect(service.stored()).toEqual(before)
  })

  test.each<[string, Json]>([
    ['warning html_clipped', { html_body: `<p>${'word '.repeat(25_000)}</p>` }],
    [
      'warning message_large',
      { attachments: [{ filename: 'a.zip', content: Buffer.alloc(8 << 20).toString('base64') }] },
    ],
    [
      'problem message_large',
      { attachments: [{ filename: 'a.zip', content: Buffer.alloc(20 << 20).toString('base64') }] },
    ],
    [
      'warning picture_large',
      {
        html_body: '<p>Hello, Bob, and all of you.</p><img alt="" src="cid:a">',
        attachments: [{ filename: 'a.png', content_id: 'a', content: Buffer.alloc(300 << 10).toString('base64') }],
      },
    ],
    ['warning text_empty', { text_body: ' ', html_body: '<p>Hello.</p>' }],
    ['warning subject_long', { subject: 'word '.repeat(20) }],
    ['warning subject_capitals', { subject: 'BUY NOW' }],
    ['problem unsubscribe_missing', { stream: 'news' }],
    ['warning unsubscribe_not_one_click', { headers: { 'List-Unsubscribe': '<mailto:leave@sender.test>' } }],
    ['info reply_to_elsewhere', { reply_to: 'Ada <ada@other.test>' }],
    ['warning link_empty', link('#', 'Start')],
    ['warning link_http', link('http://sender.test/', 'Start')],
    ['problem link_ip', link('https://192.0.2.1/', 'Start')],
    ['problem link_shortener', link('https://bit.ly/x', 'Start')],
    ['problem link_mismatch', link('https://other.com/', 'www.example.com')],
    ['info link_tracking_host', { ...link('https://sender.test/', 'Start'), tracking: true }],
    ['warning image_alt', { html_body: '<p>Hello, Bob.</p><img src="https://sender.test/a.png">' }],
    ['warning image_data', { html_body: '<p>Hello, Bob.</p><img alt="A" src="data:image/png;base64,AAAA">' }],
    ['info preheader', { html_body: '<p>Trouble? View this email in your browser.</p>' }],
  ])('%s, alone', async (expected, request) => {
    await service.api('POST', '/v1/streams', { slug: 'news', name: 'News', priority: 'low' })
    const found = await check(service, request)
    expect(ids(found)).toEqual([expected])
    const severity = expected.split(' ')[0] ?? ''
    expect({ problem: 'problems', warning: 'warnings', info: 'ok' }[severity]).toBe(found.verdict)
  })

  test('bulk mail by transactional: false has one-click unsubscribe, and repeated findings are limited to five', async () => {
    expect(await check(service, { transactional: false })).toMatchObject({ findings: [] })
    const html_body = `<p>Hello, Bob, and all.</p>${'<img src="https://sender.test/a.png">'.repeat(9)}`
    expect((await check(service, { html_body })).findings).toHaveLength(5)
  })

  test('a domain without records fails DMARC, and an unverified one says so', async () => {
    service.app.db.run('UPDATE domains SET spf_verified = 0, dkim_verified = 0, dmarc_verified = 0')
    const found = await check(service, { from: `ada@${UNVERIFIED}` })
    expect(ids(found)).toEqual(['problem domain_unverified', 'problem dmarc_fail', 'warning dmarc_missing'])
    expect(found.authentication).toMatchObject({ is_verified: false, dkim: 'fail', spf: 'fail', dmarc: 'fail' })
  })

  // Proves: validate-5
  test('a template is rendered, and what a send refuses is refused alike', async () => {
    const { api } = service
    const template = { alias: 'hi', name: 'Hi', subject: '{{ word }}', text_body: 'Hello, {{ word }}.' }
    await api('POST', '/v1/templates', template)
    const request = { subject: undefined, text_body: undefined, template_alias: 'hi' }
    expect(ids(await check(service, { ...request, template_data: { word: 'HELLO' } }))).toEqual([
      'warning subject_capitals',
    ])
    const ask = (body: Json) => api('POST', '/v1/emails/check', { ...EMAIL, ...body })
    expectError(await ask(request), 422, 'template_error', 'subject')
    expectError(await ask({ from: 'ada@nowhere.test' }), 422, 'domain_not_found', 'from')
    expectError(await ask({ to: 'nobody' }), 422, 'invalid_address', 'to')
    expectError(
      await api('POST', '/v1/emails/check', EMAIL, { key: await service.newKey(['emails:read']) }),
      403,
      'insufficient_scope',
    )
  })

  test('too many checks are a 429', async () => {
    const answers = await Promise.all(Array.from({ length: 80 }, () => service.api('POST', '/v1/emails/check', EMAIL)))
    expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThan(0)
    service.clock.advance(60_000)
  })
})

describe('rspamd', () => {
  const stub = shareRspamdStub({ score: 3, required_score: 15, action: 'no action', symbols: {} })

  test('gets the message as it would be sent, signed, without a token that unsubscribes', async () => {
    await using own = await createEmailApi({ settings: { TASSIS_RSPAMD_URL: stub.url } })
    verifyRecords(own)
    const attachments = [{ filename: 'a.txt', content: Buffer.from('Files').toString('base64') }]
    const found = await check(own, {
      html_body: '<p>Hello, Bob.</p>',
      cc: 'Eve <eve@receiver.test>',
      attachments,
      transactional: false,
    })
    expect(found).toMatchObject({ verdict: 'warnings', score: 3, rspamd: { verdict: 'ham', action: 'no action' } })
    const message = stub.asked[0]?.message ?? ''
    expect(message.length).toBe(found.size_bytes)
    for (const field of [
      /^Date: /m,
      /^Message-ID: <\S+@sender\.test>/m,
      /^Cc: Eve <eve@receiver\.test>/m,
      /^List-Unsubscribe: <\S+\/hidden>/m,
    ])
      expect(message).toMatch(field)
    expect(message).toContain(attachments[0]?.content ?? '-')
    const key = own.app.db
      .query<{ key: string }, []>("SELECT dkim_public_key AS key FROM domains WHERE domain = 'sender.test'")
      .get()
    const { results } = await dkimVerify(Buffer.from(message), {
      resolver: async () => [[`v=DKIM1; k=rsa; p=${key?.key}`]],
    })
    expect(results.map(({ status, signingDomain }) => [status.result, signingDomain])).toEqual([
      ['pass', 'sender.test'],
    ])
  })

  test('that fails is a finding and no error', async () => {
    stub.answer = () => new Response('no', { status: 500 })
    await using own = await createEmailApi({ settings: { TASSIS_RSPAMD_URL: stub.url } })
    verifyRecords(own)
    const asked = check(own)
    while ((await Promise.race([asked, Bun.sleep(5)])) === undefined) own.clock.advance(100)
    const found = await asked
    expect([found.verdict, found.rspamd, ids(found)]).toEqual(['ok', null, ['info rspamd_unavailable']])
    expect(found.findings[0]?.message).toContain('it responded with 500')
  })
})

describe.skipIf(!isRspamdAvailable())('the rspamd of Debian', () => {
  let rspamd: Rspamd
  beforeAll(async () => {
    rspamd = await startRspamd()
  }, 60_000)
  afterAll(() => rspamd?.[Symbol.asyncDispose]())

  test('finds the test pattern, and scores the links of ordinary mail', async () => {
    await using own = await createEmailApi({ settings: { TASSIS_RSPAMD_URL: rspamd.url } })
    verifyRecords(own)
    expect(await check(own, { text_body: GTUBE })).toMatchObject({
      verdict: 'problems',
      score: 15,
      findings: [{ id: 'rspamd', severity: 'problem' }],
      rspamd: { verdict: 'spam', action: 'reject' },
    })
    const found = await check(own, link('http://192.0.2.1/', 'Start'))
    expect(found.rspamd?.symbols).toContainEqual({
      name: 'HTTP_TO_IP',
      score: 1,
      description: 'Anchor points to an IP address',
    })
  })
})
