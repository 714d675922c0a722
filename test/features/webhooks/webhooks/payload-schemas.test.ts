/** Every payload of our own format is as the API description says. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import type { EventData, EventType } from '#features/core/events/record.ts'
import { storeInsight } from '#features/reporting/insights/insights.ts'
import { WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { buildPayload } from '#features/webhooks/webhooks/payload/payload.ts'
import { fetchDescription, resolveSchemas } from '#test/contract/api-description.ts'
import { closeObjects, findProblem, type JsonSchema } from '#test/contract/json-schema.ts'
import { at } from '#test/support/api.ts'
import { UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { createWebhookApi, type Json, type WebhookApi } from './fixture.ts'

setDefaultTimeout(60_000)

interface Served {
  readonly webhooks: Readonly<Record<string, { readonly post: Json }>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

let service: WebhookApi
let schemas: ReadonlyMap<string, JsonSchema>
const unused = new Set<string>()
beforeAll(async () => {
  service = await createWebhookApi()
  const served = await fetchDescription<Served>(service.url)
  const webhooks = Object.entries(resolveSchemas(served.webhooks, served))
  schemas = new Map(
    webhooks.map(([name, { post }]) => [
      name,
      closeObjects(at(post, 'requestBody', 'content', 'application/json', 'schema')),
    ]),
  )
  for (const name of schemas.keys()) unused.add(name)
})
afterAll(() => service[Symbol.asyncDispose]())

function expectDescribed(body: Json | undefined): void {
  const name = String(body?.['event'])
  const schema = schemas.get(name)
  // A round trip, because fields that are undefined are not sent.
  const problem = schema && findProblem(schema, JSON.parse(JSON.stringify(body)))
  expect([name, schema !== undefined, problem]).toEqual([name, true, undefined])
  unused.delete(name)
}

const RICH: EventData = {
  smtp_response: '550 5.1.1 No such user',
  ip_address: '192.0.2.25',
  bounce_type: 'hard',
  bounce_category: 'invalid_recipient',
  rule: 'X.1.1',
  reason: 'No answer',
  suppression: 'hard_bounce',
  next_retry_at: 1,
  link_url: 'https://shop.test/',
  user_agent: 'Mail/1',
  complainer: 'erin@receiver.test',
  feedback_type: 'abuse',
  stream: 'news',
  list_id: null,
  scope: 'stream',
}

/** What the events have that belong to no email. */
async function createOthers(): Promise<Partial<Record<EventType, EventData>>> {
  const { app, actor, api } = service
  const domainId = app.db.query<{ id: number }, []>('SELECT id FROM domains LIMIT 1').get()?.id ?? 0
  const file = { filename: 'a.txt', contentType: 'text/plain', content: Buffer.from('a') }
  const inbound = await storeTestInbound(
    app,
    { accountId: actor.accountId, domainId },
    { text: 'x'.repeat(300_000), html: '<p>', attachments: [file], problem: 'It is no mail.' },
  )
  app.db.run('UPDATE domains SET inbound_enabled = 1')
  const made = await api('POST', '/v1/agent-mailboxes', {})
  const mailbox = getTestMailbox(app, actor.accountId, at(made.body, 'data', 'id'))
  const message = await deliverMessage(app, mailbox, {
    html: '<p>',
    strippedText: 'x',
    attachments: [{ ...file, filename: null, contentId: '1@x.test' }],
    classification: { label: 'question', confidence: 0.5 },
  })
  const finding = { severity: 'info', area: 'security', observation: 'All is well.', recommendation: 'None.' }
  const insight = await app.commit.write((tx) =>
    storeInsight(app, tx, actor, {
      periodStart: 0,
      periodEnd: 1,
      model: 'test-model',
      inputTokens: 1,
      outputTokens: 1,
      summary: 'All is well.',
      findings: JSON.stringify([finding]),
      rawMarkdown: '',
    }),
  )
  const domain = { domain_id: actor.accountUuid, domain: VERIFIED, lost_records: ['dkim'] }
  const lost = { ...domain, sends_until: new Date(0).toISOString() }
  return {
    'email.inbound': { inbound_email_id: inbound },
    'mailbox.message.received': { mailbox_message_id: message },
    'insights.generated': { insight_id: insight },
    'account.auto_paused': { source: 'admin', reason: 'Spam.' },
    'domain.records_lost': lost,
    'domain.records_restored': domain,
    'domain.unverified': lost,
  }
}

test('every payload has the fields of its schema, and no others', async () => {
  const { app, actor, accepted, rowsOf, tell, api, addWebhook } = service
  const others = await createOthers()
  const emails = [VERIFIED, UNVERIFIED].map((domain) =>
    accepted({ from: `ada@${domain}`, to: ['bob@receiver.test'], tags: ['kind:receipt'], metadata: { order: 7 } }),
  )
  const subjects = await Promise.all(
    emails.map(async (email) => {
      const { emailId, recipientIds } = rowsOf((await email).id)
      return { emailId, recipientId: recipientIds[0] ?? 0 }
    }),
  )
  for (const type of WEBHOOK_EVENTS) {
    const data = others[type]
    // With all data, and with none, as after an attempt without a session.
    const given = data ? [{ data }] : subjects.flatMap((email) => [{ ...email, data: RICH }, email])
    const seqs = await Promise.all(given.map((event) => tell([type], event)))
    for (const [seq = 0] of seqs) expectDescribed(buildPayload(app, actor.accountId, seq)?.body)
  }
  const { id } = await addWebhook({ events: ['delivered'] })
  const tested = await api('POST', `/v1/webhooks/${id}/test`)
  const path = `/v1/webhooks/${id}/deliveries/${String(at(tested.body, 'data', 'delivery_id'))}`
  expectDescribed(JSON.parse(String(at((await api('GET', path)).body, 'data', 'payload'))) as Json)
  // Nothing is described that is never sent.
  expect([...unused]).toEqual([])
})

test('the headers of a request are described', async () => {
  const { app, addWebhook, api } = service
  const { id } = await addWebhook()
  const tested = await api('POST', `/v1/webhooks/${id}/test`)
  const deliveryId = String(at(tested.body, 'data', 'delivery_id'))
  app.db.run('UPDATE webhook_deliveries SET attempts = 1, attempted_at = 1 WHERE webhook_id > 0')
  const { body } = await api('GET', `/v1/webhooks/${id}/deliveries/${deliveryId}`)
  const sent = Object.keys(at(body, 'data', 'headers') as Json).map((name) => name.toLowerCase())
  const served = await fetchDescription<Served>(service.url)
  const parameters = at(served.webhooks, 'sent', 'post', 'parameters') as {
    name: string
    description: string
  }[]
  const described = parameters.flatMap(({ name, description }) => [
    name,
    ...[...description.matchAll(/\b[Aa]lso as `([\w-]+)`/g)].map(([, other = '']) => other),
  ])
  const usual = ['content-type', 'user-agent']
  expect(sent.sort()).toEqual([...usual, ...described.map((name) => name.toLowerCase())].sort())
})
