/** @module Postal's interface: what its clients send arrives, and what is wrong is an error in its form that stores nothing. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { getRequestLog } from '#features/reporting/logs/request-log.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, VERIFIED } from '#test/support/email-api.ts'

const MESSAGE = {
  ...{ from: `Ada <ada@${VERIFIED}>`, to: ['Bob <bob@receiver.test>'], cc: [], bcc: [], headers: {}, attachments: [] },
  ...{ subject: 'Hello', plain_body: 'Hello, Bob.' },
}

const RAW = { mail_from: `ada@${VERIFIED}`, rcpt_to: ['bob@receiver.test'], data: btoa('From: a@b.test\r\n\r\nHello.') }

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi()
})
afterAll(() => service[Symbol.asyncDispose]())

async function post(action: string, body: unknown, key = service.key) {
  const response = await fetch(`${service.url}/api/v1/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-server-api-key': key },
    body: JSON.stringify(body),
  })
  return { http: response.status, headers: response.headers, ...((await response.json()) as Answer) }
}

interface Answer {
  readonly status: string
  readonly data: {
    readonly code?: string
    readonly message?: string
    readonly message_id?: string
    readonly messages?: Record<string, { readonly id: string; readonly token: string }>
  }
}

test('a message reaches each recipient with its fields, and each has its id', async () => {
  const { status, headers, data } = await post('send/message', {
    ...MESSAGE,
    ...{
      cc: ['cy@receiver.test'],
      bcc: ['di@receiver.test'],
      reply_to: 'reply@sender.test',
      html_body: '<p>Hello</p>',
    },
    ...{
      tag: 'welcome',
      headers: { 'X-Own': 'x', Sender: 'ada@sender.test' },
      sender: 'ada@sender.test',
      bounce: false,
    },
    attachments: [{ name: 'a.txt', content_type: 'text/plain', data: btoa('A file') }],
  })
  expect(status).toBe('success')
  expect(headers.get('tassis-ignored')).toBe('headers.Sender, sender, bounce')
  const addresses = ['bob@receiver.test', 'cy@receiver.test', 'di@receiver.test']
  expect(Object.keys(data.messages ?? {})).toEqual(addresses)
  const { id = '', token } = data.messages?.['bob@receiver.test'] ?? {}
  expect(token).toBe(id)
  const detail = await service.detail(id)
  expect(detail).toMatchObject({ subject: 'Hello', tags: ['welcome'], message_id: `<${data.message_id}>` })
  expect(detail).toMatchObject({ html_body: '<p>Hello</p>', text_body: 'Hello, Bob.', reply_to: 'reply@sender.test' })
  expect(at(detail, 'recipients')).toMatchObject(addresses.map((address) => ({ address })))
  expect(at(detail, 'attachments')).toMatchObject([{ filename: 'a.txt', content_type: 'text/plain' }])
  expect(at(detail, 'headers', 'X-Own')).toBe('x')
})

test('a whole message reaches its envelope, with the header that it has', async () => {
  const message = `From: ada@${VERIFIED}\r\nTo: list@receiver.test\r\nSubject: Raw\r\nX-Own: x\r\nX-Tassis-Idempotency-Key: raw\r\n\r\nHello.\r\n`
  const rcpt_to = ['bob@receiver.test', 'cy@receiver.test']
  const send = () => post('send/raw', { mail_from: `ada@${VERIFIED}`, rcpt_to, data: btoa(message) })
  const { data } = await send()
  expect((await send()).data).toEqual(data)
  expect(Object.keys(data.messages ?? {})).toEqual(rcpt_to)
  const detail = await service.detail(data.messages?.['bob@receiver.test']?.id)
  expect(detail).toMatchObject({ subject: 'Raw', text_body: 'Hello.\n', headers: { 'X-Own': 'x' } })
  expect(at(detail, 'recipients')).toMatchObject(rcpt_to.map((address) => ({ address, kind: 'bcc' })))
})

test.each([
  ['no recipient', { ...MESSAGE, to: [] }, 'parameter-error', 'validation_failed', 'to'],
  ['no sender', { ...MESSAGE, from: undefined }, 'parameter-error', 'invalid_address', 'from'],
  ['no text', { ...MESSAGE, plain_body: undefined }, 'parameter-error', 'validation_failed', 'plain_body'],
  [
    '51 recipients',
    {
      ...MESSAGE,
      to: Array(51)
        .fill(0)
        .map((_, i) => `${i}@receiver.test`),
    },
    'parameter-error',
    'too_many_recipients',
    '50',
  ],
  [
    'a file without data',
    { ...MESSAGE, attachments: [{ name: 'a.txt' }] },
    'parameter-error',
    'validation_failed',
    'data',
  ],
  ['another domain', { ...MESSAGE, from: 'ada@other.test' }, 'error', 'UnauthenticatedFromAddress', 'other.test'],
  ['no object', [], 'parameter-error', 'validation_failed', 'JSON object'],
  ...(['mail_from', 'rcpt_to', 'data'] as const).map(
    (field) => [`no ${field}`, { ...RAW, [field]: undefined }, 'parameter-error', 'validation_failed', field] as const,
  ),
  [
    'a raw message of another domain',
    { ...RAW, data: btoa('From: a@other.test\r\n\r\n') },
    'error',
    'UnauthenticatedFromAddress',
    'other.test',
  ],
  ['a raw message without octets', { ...RAW, data: '!' }, 'parameter-error', 'validation_failed', 'data'],
] as const)('%s is an error that says what to change, and stores nothing', async (_, body, status, code, text) => {
  const before = service.stored()
  const answer = await post('mail_from' in body || 'rcpt_to' in body ? 'send/raw' : 'send/message', body)
  expect([answer.http, answer.status, answer.data.code]).toEqual([200, status, code])
  expect(answer.data.message).toContain(text)
  expect(service.stored()).toEqual(before)
})

test('requests are in the log, an error with the status that /v1 has for it', async () => {
  await post('send/message', { ...MESSAGE, to: [] })
  await getRequestLog(service.app).flush()
  const { body } = await service.api('GET', '/v1/logs?kind=postal')
  expect(at(body, 'data', 0)).toMatchObject({ path: '/api/v1/send/message', status: 422 })
})

test('a wrong key and an absent route are errors as well', async () => {
  const wrong = await post('send/message', MESSAGE, 'wrong')
  expect(wrong).toMatchObject({ http: 200, status: 'error', data: { code: 'InvalidServerAPIKey' } })
  const absent = await post('messages/message', { id: 1 })
  expect(absent).toMatchObject({ http: 200, status: 'error' })
  expect(absent.data.message).toContain('from-postal.md')
})
