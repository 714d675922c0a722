/**
 * @module `verifyWebhook` with requests in every form in which receivers have them. Real deliveries and rotations:
 * test/features/webhooks/webhooks/standard-webhooks.test.ts.
 */
import { expect, test } from 'bun:test'
import { verifyWebhook, type WebhookHeaders } from '#client/index.ts'
import { generateSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { createRequestHeaders } from '#features/webhooks/webhooks/manage/signature.ts'
import { hours, seconds } from '#platform/units.ts'
import { NOW } from '#test/support/email-api.ts'

const SECRET = generateSecret()
const OTHER = generateSecret()
const BODY = '{"event":"bounced","recipient":"bob@receiver.test","smtp_response":"550 gibt es nicht, Grüße"}'
const sign = (body = BODY, previous?: string): Record<string, string> =>
  createRequestHeaders(
    { id: 'event-1', event: 'bounced', attempt: 1, at: NOW, body },
    { current: SECRET, previous: previous === undefined ? undefined : { secret: previous, until: NOW + hours(1) } },
    [],
  )
const HEADERS = sign()
const without = (pattern: RegExp): Record<string, string> =>
  Object.fromEntries(Object.entries(HEADERS).filter(([name]) => !pattern.test(name)))
const verify = (
  body: Parameters<typeof verifyWebhook>[0],
  headers: WebhookHeaders,
  secrets: string | string[] = SECRET,
) => verifyWebhook(body, headers, secrets, { now: new Date(NOW) })

test.each<[string, Parameters<typeof verify>]>([
  ['text and Headers', [BODY, new Headers(HEADERS)]],
  ['bytes and the headers of Node', [Buffer.from(BODY), { ...HEADERS, 'set-cookie': ['a=b'] }]],
  [
    'names in any case',
    [BODY, Object.fromEntries(Object.entries(HEADERS).map(([name, value]) => [name.toUpperCase(), value]))],
  ],
  ['an ArrayBuffer and the names of Svix', [new TextEncoder().encode(BODY).buffer, without(/^webhook-/)]],
  ['the other of two secrets', [BODY, HEADERS, [OTHER, SECRET]]],
  ['the secret before a rotation', [BODY, sign(BODY, OTHER), OTHER]],
])('a request is verified by %s', async (_, given) => {
  const event = await verify(...given)
  // The compiler knows the fields of a bounce here.
  expect(event.event === 'bounced' && event.smtp_response).toBe('550 gibt es nicht, Grüße')
})

test.each<[string, string, Parameters<typeof verify>]>([
  ['missing_header', 'no signature', [BODY, without(/-signature$/)]],
  ['wrong_signature', 'another secret', [BODY, HEADERS, OTHER]],
  ['wrong_signature', 'parsed and formatted JSON', [JSON.stringify(JSON.parse(BODY), undefined, 2), HEADERS]],
  [
    'wrong_signature',
    'signatures of another version',
    [BODY, { ...HEADERS, 'webhook-signature': 'v1a,AAAA v2,AAAA v1,%' }],
  ],
  ['outside_tolerance', 'a time that is none', [BODY, { ...HEADERS, 'webhook-timestamp': '0x1' }]],
  ['invalid_secret', 'an empty secret', [BODY, HEADERS, '']],
  ['invalid_secret', 'no secret', [BODY, HEADERS, []]],
  ['invalid_secret', 'a key of the API', [BODY, HEADERS, 'tassis_live_1']],
  ['invalid_payload', 'the format of another provider', ['{"type":"email.sent"}', sign('{"type":"email.sent"}')]],
  ['invalid_payload', 'text', ['Hello', sign('Hello')]],
])('%s: %s', async (code, _, given) => {
  await expect(verify(...given)).rejects.toMatchObject({ name: 'WebhookError', code })
})

test('the time of a request may be 300 seconds away, or as many as the receiver allows', async () => {
  const at = (away: number, toleranceSeconds?: number) =>
    verifyWebhook(BODY, HEADERS, SECRET, { now: new Date(NOW + seconds(away)), toleranceSeconds })
  for (const away of [-300, 300]) expect((await at(away)).event).toBe('bounced')
  for (const away of [-301, 301]) await expect(at(away)).rejects.toMatchObject({ code: 'outside_tolerance' })
  expect((await at(3600, 3600)).event).toBe('bounced')
})
