/**
 * @module Requests in which any field, id or parameter has a wrong value, at every route of the other providers'
 * interfaces: never an error of the service, and every error in the form that the provider's clients read.
 * DIALECT_FUZZ_REQUESTS=50000 makes a longer run, DIALECT_FUZZ_SEED another one.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { listOpenedRoutes } from '#test/contract/routes.ts'
import { at } from '#test/support/api.ts'
import { UNLIMITED_WORK } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type Random, seededRandom } from '#test/support/random.ts'

const REQUESTS = Number(process.env['DIALECT_FUZZ_REQUESTS'] ?? 1500)
const SEED = Number(process.env['DIALECT_FUZZ_SEED'] ?? 1)
const ID = '01234567-89ab-7def-8123-456789abcdef'

const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1.5, 1e300, 47, '', ' ', '\u0000', '\ud800', '\u202e', '\r\nX: y', 'x'.repeat(5000)],
  ...['bob@receiver.test', 'Bob <bob@receiver.test>', '<>', 'a@b@c', 'in 1 min', '2026-03-16T00:00:00Z', '{{ x', '%'],
  ...['https://127.0.0.1/', 'file:///etc/passwd', 'cid:', ID, 'application/pdf', 'constructor', '__proto__'],
  ...[[], [[]], [null], [{}], ['x'], {}, { a: {} }, { name: 'x' }, { type: 'Buffer', data: [1, 300, 'x'] }],
  ...[Array(200).fill('a@b.test'), JSON.parse('{"__proto__": {"a": 1}, "constructor": 1}')],
]
const SEGMENTS = [
  ID,
  ID.toUpperCase(),
  'x',
  '0',
  '1',
  '999999999999',
  '%ff',
  '%00',
  'a%2Fb',
  'none@receiver.test',
  '{}',
]
const PARAMETERS = [
  ...['limit', 'after', 'before', 'origin', 'html_format', 'token', 'count', 'offset', 'recipient', 'fromEmail', 'tag'],
  ...['subject', 'status', 'fromdate', 'todate', 'messagestream', 'type', 'inactive', 'emailFilter', 'messageID'],
  ...['begin', 'end', 'ascending', 'event', 'tags', 'severity', 'page', 'pivot', 'skip'],
  ...['SuppressionReason', 'Origin', 'EmailAddress', 'TemplateType', 'LayoutTemplate'],
]

const FILE = { filename: 'a.txt', content: 'SGk=', content_type: 'text/plain', content_id: 'a' }
const RESEND_EMAIL = {
  ...{
    from: 'Ada <ada@sender.test>',
    to: ['bob@receiver.test'],
    cc: 'c@receiver.test',
    bcc: [],
    reply_to: ['a@b.test'],
  },
  ...{ subject: 'Hello', html: '<p>Hello</p>', text: 'Hello', scheduled_at: 'in 1 min', headers: { 'X-Own': 'x' } },
  ...{ tags: [{ name: 'a', value: 'b' }], attachments: [FILE] },
}
const RESEND_CONTACT = {
  ...{ email: 'a@receiver.test', first_name: 'A', last_name: 'B', unsubscribed: true, properties: { a: 1, b: 'x' } },
  ...{ segments: [{ id: ID }], topics: [{ id: ID, subscription: 'opt_in' }] },
}
const RESEND_BROADCAST = {
  ...{ segment_id: ID, from: 'Ada <ada@sender.test>', subject: '{{{FIRST_NAME|x}}}', html: '{{{EMAIL}}}', text: 'x' },
  ...{ reply_to: ['a@b.test'], topic_id: null, send: false, scheduled_at: 'in 1 min' },
}
const RESEND_TEMPLATE = {
  ...{ name: 'A', alias: 'a', subject: 'S', html: '{{{X|y}}}', text: 'T' },
  variables: [{ key: 'X', type: 'string', fallback_value: 'y' }],
}
const POSTMARK_MESSAGE = {
  ...{ From: 'Ada <ada@sender.test>', To: 'bob@receiver.test', Cc: 'c@receiver.test', Bcc: '', ReplyTo: 'a@b.test' },
  ...{ Subject: 'Hello', HtmlBody: '<p>Hello</p>', TextBody: 'Hello', Tag: 'a', Metadata: { a: 'b' } },
  ...{ MessageStream: 'outbound', TrackOpens: true, TrackLinks: 'None', Headers: [{ Name: 'X-Own', Value: 'x' }] },
  Attachments: [{ Name: 'a.txt', Content: 'SGk=', ContentType: 'text/plain', ContentID: 'cid:a' }],
}
const TEMPLATED = { ...POSTMARK_MESSAGE, TemplateId: 1, TemplateAlias: 'welcome', TemplateModel: { name: 'Bob' } }
const POSTMARK_TEMPLATE = {
  ...{ Name: 'A', Alias: 'a', Subject: 'S', HtmlBody: 'H', TextBody: 'T', TestRenderModel: { a: 1 } },
}
const MAILGUN_MESSAGE = {
  ...{ from: 'Ada <ada@sender.test>', to: 'bob@receiver.test', subject: 'Hello', text: 'Hello', html: '<p>' },
  ...{ cc: '', bcc: '', 'recipient-variables': '{"bob@receiver.test": {}}', message: 'From: a', 't:variables': '{}' },
  ...{ 'o:tag': 'a', 'o:tracking': 'yes', 'o:deliverytime': '1773577800', 'v:a': 'b' },
  ...{ 'h:X-Own': 'x', 'h:Reply-To': 'a@b.test', 'h:Message-Id': '<a@b.test>' },
}
const ADDRESSES = { Suppressions: [{ EmailAddress: 'a@receiver.test' }] }

/** Bodies without errors, by the end of the path. */
const BODIES: readonly (readonly [path: RegExp, body: unknown])[] = [
  [/^\/(?:resend\/)?emails$/, RESEND_EMAIL],
  [/^\/(?:resend\/)?emails\/batch$/, [RESEND_EMAIL, RESEND_EMAIL]],
  [/^\/resend\/emails\/\{\w+\}$/, { scheduled_at: 'in 1 min' }],
  [
    /^\/resend\/domains/,
    { name: 'x.test', capabilities: { receiving: 'enabled' }, tracking_subdomain: 'a', region: 'x' },
  ],
  [/^\/resend\/api-keys/, { name: 'x', permission: 'sending_access', domain_id: ID }],
  [/^\/resend\/webhooks/, { endpoint: 'https://x.test/', events: ['email.sent'], status: 'disabled' }],
  [/^\/resend\/suppressions$/, { email: 'a@receiver.test' }],
  [/^\/resend\/suppressions\/batch/, { emails: ['a@receiver.test'], ids: [ID] }],
  [/^\/resend\/\w+\/\{\w+\}\/topics$/, [{ id: ID, subscription: 'opt_out' }]],
  [/^\/resend\/(?:contacts|\w+\/\{\w+\}\/contacts)/, RESEND_CONTACT],
  [/^\/resend\/broadcasts/, RESEND_BROADCAST],
  [/^\/resend\/templates/, RESEND_TEMPLATE],
  [/^\/resend\/(?:segments|audiences|topics)/, { name: 'x', default_subscription: 'opt_in' }],
  [/email$/, POSTMARK_MESSAGE],
  [/email\/bulk$/, { ...POSTMARK_MESSAGE, Messages: [{ To: 'a@receiver.test', TemplateModel: { a: 1 } }] }],
  [/email\/batch$/, [POSTMARK_MESSAGE, POSTMARK_MESSAGE]],
  [/email\/withTemplate$/, TEMPLATED],
  [/email\/batchWithTemplates$/, { Messages: [TEMPLATED, TEMPLATED] }],
  [/^\/postmark\/templates/, POSTMARK_TEMPLATE],
  [/suppressions/, ADDRESSES],
  [/messages(?:\.mime)?$/, MAILGUN_MESSAGE],
  [/(?:bounces|complaints|unsubscribes)$/, [{ address: 'a@receiver.test' }]],
  [/\/v[34]\/domains$/, { name: 'x.test' }],
]

/** Names of errors in Resend's own client. */
const RESEND_NAMES: ReadonlySet<unknown> = new Set([
  ...['application_error', 'internal_server_error', 'invalid_api_key', 'invalid_attachment', 'invalid_from_address'],
  ...['invalid_idempotency_key', 'invalid_idempotent_request', 'method_not_allowed', 'missing_api_key'],
  ...['missing_required_field', 'monthly_quota_exceeded', 'not_found', 'rate_limit_exceeded', 'restricted_api_key'],
  'validation_error',
])

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi({
    settings: { TASSIS_SEND_BURST: '1000000', TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' },
    workRate: UNLIMITED_WORK,
  })
})
afterAll(() => service[Symbol.asyncDispose]())

const pick = <T>(random: Random, list: readonly T[]): T => list[random.between(0, list.length - 1)] as T

/** A copy in which one value, at any depth, is another one, or has an unknown field beside it. */
function spoil(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random.chance(0.1)) return pick(random, VALUES)
  const copy = structuredClone(value) as Record<string, unknown>
  const names = Object.keys(copy)
  const name = names.length === 0 || random.chance(0.05) ? 'unknown' : pick(random, names)
  if (random.chance(0.05)) delete copy[name]
  else copy[name] = spoil(random, copy[name])
  return copy
}

const isMailgunPath = (path: string): boolean => /^\/(?:mailgun|v[34])\//.test(path)

/** Whether an error has the form that the clients of the path's provider read. */
function isTheirError(route: string, isPostmark: boolean, status: number, body: unknown): boolean {
  const message = at(body, isPostmark ? 'Message' : 'message')
  if (typeof message !== 'string' || message === '') return false
  if (isMailgunPath(route)) return status !== 422 && Object.keys(body as object).length === 1
  if (isPostmark) return Number.isInteger(at(body, 'ErrorCode')) && Object.keys(body as object).length === 2
  return at(body, 'statusCode') === status && RESEND_NAMES.has(at(body, 'name'))
}

test("wrong values at every route are errors of the client at most, in the original's form", async () => {
  const random = seededRandom(SEED)
  const routes = listOpenedRoutes(service, { ofDialects: true }).filter((route) => route !== 'POST /mcp')
  const sends = routes.filter((route) => /\/emails?(?:\/\w+)?$/.test(route) && route.startsWith('POST'))
  expect([routes.length > 60, sends.length]).toEqual([true, 14])
  const odd: unknown[] = []
  const counts: Record<string, number> = {}
  for (let sent = 0; sent < REQUESTS; sent++) {
    const [method = '', route = ''] = pick(random, random.chance(0.5) ? sends : routes).split(' ')
    const isPostmark = /^\/(?:postmark|email)(?:\/|$)/.test(route)
    const path = route.replace(/\{\w+\}/g, () => pick(random, SEGMENTS))
    const value = pick(random, VALUES)
    const query = random.chance(0.5) ? '' : `?${pick(random, PARAMETERS)}=${encodeURIComponent(toWellFormed(value))}`
    const base = BODIES.find(([pattern]) => pattern.test(route))?.[1] ?? {}
    const isForm = base === MAILGUN_MESSAGE && random.chance(0.9)
    const spoilt = random.chance(0.05) ? value : spoil(random, base)
    const body = isForm ? toForm(spoilt) : random.chance(0.03) ? '{"' : JSON.stringify(spoilt)
    const response = await fetch(`${service.url}${path}${method === 'GET' ? query : ''}`, {
      method,
      headers: {
        'content-type': isForm ? 'application/x-www-form-urlencoded' : 'application/json',
        ...(isMailgunPath(route)
          ? { authorization: `Basic ${btoa(`api:${service.key}`)}` }
          : isPostmark
            ? { 'x-postmark-server-token': service.key }
            : { authorization: `Bearer ${service.key}` }),
      },
      ...(method !== 'GET' && { body }),
    })
    const { status } = response
    const text = await response.text()
    counts[status] = (counts[status] ?? 0) + 1
    const isRight = status < 400 || (status < 500 && isTheirError(route, isPostmark, status, tryParse(text)))
    // A link to a file is opened in a browser, not by a client.
    if (!isRight && route !== '/resend/files') odd.push([method, path, query, body, status, text])
  }
  if (REQUESTS > 10_000) console.log(counts)
  expect(odd.slice(0, 5)).toEqual([])
  // Accepted as well as rejected, and not because of a limit.
  expect([(counts['200'] ?? 0) > REQUESTS / 10, (counts['422'] ?? 0) > REQUESTS / 5, counts['429']]).toEqual([
    true,
    true,
    undefined,
  ])
})

const toForm = (value: unknown): string =>
  new URLSearchParams(
    Object.entries(value ?? {}).map(([name, item]) => [name.toWellFormed(), toWellFormed(item)] as [string, string]),
  ).toString()

const toWellFormed = (value: unknown): string =>
  (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 500).toWellFormed()

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
