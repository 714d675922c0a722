/** @module The examples of docs/sending.md, as requests to a service, and whether the page has every field of a send. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Attachment, SendRequest } from '#features/sending/accept/model.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

type Json = Readonly<Record<string, unknown>>

const page = await Bun.file(join(import.meta.dir, '../../../../docs/sending.md')).text()
/** The JSON blocks of the page: those with a mark above them by that name, and the others by their headings. */
const examples = new Map(
  page.split(/^## /m).flatMap((section) =>
    [...section.matchAll(/^(?:<!-- (\S+) -->\n)?```json\n(.*?)^```$/gms)].map(([, mark, text = '']) => {
      const heading = section.slice(0, section.indexOf('\n'))
      return [mark ?? heading, JSON.parse(text) as Json] as const
    }),
  ),
)
const { 'email.json': complete = {}, response = {}, batch = {}, check: _, ...additions } = Object.fromEntries(examples)

let api: EmailApi

beforeAll(async () => {
  api = await createEmailApi()
  await api.addDomain(api.actor, 'example.com')
  await api.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
  await api.api('POST', '/v1/templates', {
    alias: 'order-shipped',
    name: 'Shipped',
    subject: 'Order {{ order.id }}',
    text_body: 'Hello {{ name }}: {{ order["items"]|join(", ") }}',
  })
})
afterAll(() => api[Symbol.asyncDispose]())

const namesOf = ({ properties }: { readonly properties: Readonly<Record<string, unknown>> }): string[] =>
  Object.keys(properties)

test('the complete example has the response that the page shows', async () => {
  const { status, body } = await api.api('POST', '/v1/emails', complete, { headers: { 'idempotency-key': 'first' } })
  expect({ status, fields: Object.keys(at(body, 'data') as Json) }).toEqual({
    status: 202,
    fields: Object.keys(response['data'] as Json),
  })
  expect(body).toMatchObject({ data: { status: 'queued', to: 'bob@example.net', sandbox: false } })
})

/** Where an email has another name or form for what was sent; elsewhere it has the same. */
const STORED: Readonly<Record<string, Json>> = {
  'Sender and recipients': {
    from_address: 'Ada Lovelace <ada@example.com>',
    to: 'bob@example.net, carol@example.net',
    cc: ['dora@example.net'],
    bcc: ['archive@example.com'],
    reply_to: 'Support <help@example.com>, sales@example.com',
  },
  Template: { subject: 'Order 1017', text_body: 'Hello Bob: Nuts, Bolts', template_id: expect.any(String) },
  'Attachments and pictures': {
    attachments: [
      { filename: 'invoice.pdf', content_type: 'application/pdf', size: 9 },
      { filename: 'ticket.png', content_type: 'image/png', content_id: 'ticket', size: 8 },
    ],
  },
  invitation: {
    attachments: [
      {
        filename: 'invite.ics',
        content_type: 'text/calendar; charset=utf-8; method=REQUEST',
        alternative: true,
        size: 32,
      },
    ],
  },
  Time: { status: 'scheduled', scheduled_at: '2026-04-01T07:00:00.000Z', expires_in: 600 },
  'Kind of mail': {
    stream_id: expect.any(String),
    suppress_list_management_header: false,
    tracking_override: true,
  },
}

test.each(Object.entries(additions))('the example of "%s" is accepted and stored', async (heading, addition) => {
  const { id } = await api.accepted({ ...complete, ...addition })
  expect(await api.detail(id)).toMatchObject(STORED[heading] ?? addition)
})

test('the batch of the page is accepted', async () => {
  const { status, body } = await api.api('POST', '/v1/emails/batch', batch)
  expect({ status, errors: at(body, 'errors') }).toEqual({ status: 202, errors: [] })
})

test('the page has every field of a send in an example, and explains it', () => {
  const fields = namesOf(SendRequest)
  expect(Object.keys(Object.assign({}, complete, ...Object.values(additions))).toSorted()).toEqual(fields.toSorted())
  const files = Object.values(additions).flatMap(({ attachments }) => (attachments as Json[] | undefined) ?? [])
  expect(Object.keys(Object.assign({}, ...files)).toSorted()).toEqual(namesOf(Attachment).toSorted())
  const names = [...fields, ...namesOf(Attachment), 'replayed', 'mismatch']
  const prose = page.replaceAll(/^```.*?^```$/gms, '')
  expect(names.filter((name) => !prose.includes(`\`${name}\``))).toEqual([])
})
