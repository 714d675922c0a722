import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import type { Actor } from '#features/core/app/app.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, expectError } from '#test/support/email-api.ts'

const SMALL = { ratePerSecond: 100, burst: 1000 }

async function startService() {
  const emails = await createEmailApi({ workRate: SMALL })
  const list = await emails.api('POST', '/v1/contact-lists', { name: 'A list' })
  const listId = String(at(list.body, 'data', 'id'))
  const contacts = (count: number, from = 0) => ({
    contacts: Array.from({ length: count }, (_, i) => ({ email: `c${from + i}@r.test` })),
  })
  return {
    emails,
    addContacts: (count: number, from?: number) =>
      emails.api('POST', `/v1/contact-lists/${listId}/contacts`, contacts(count, from)),
    batch: (count: number, key?: string) =>
      emails.api(
        'POST',
        '/v1/emails/batch',
        { emails: Array.from({ length: count }, (_, i) => ({ ...EMAIL, to: [`a${i}@r.test`, `b${i}@r.test`] })) },
        key === undefined ? {} : { headers: { 'idempotency-key': key } },
      ),
    [Symbol.asyncDispose]: () => emails[Symbol.asyncDispose](),
  }
}

describe('the work of an account', () => {
  // Proves: quota-9
  test('is limited over all routes: contacts, recipients and rows are one unit each, and 429 says when to retry', async () => {
    await using service = await startService()
    expect((await service.addContacts(900)).status).toBe(201)
    const before = service.emails.stored()
    const refused = await service.batch(100)
    expectError(refused, 429, 'work_limit')
    expect(Number(refused.headers.get('retry-after'))).toBe(2)
    const larger = await service.addContacts(500, 900)
    expectError(larger, 429, 'work_limit')
    expect(service.emails.stored()).toEqual(before)
    service.emails.clock.advance(Number(larger.headers.get('retry-after')) * 1000)
    expect((await service.batch(100)).status).toBe(202)
  })

  // Proves: quota-9
  test('includes rows that are read', async () => {
    await using service = await startService()
    const { clock, api } = service.emails
    await service.batch(100)
    clock.advance(60_000)
    const page = () => api('GET', '/v1/emails?per_page=100')
    for (let i = 0; i < 10; i++) expect((await page()).status).toBe(200)
    expectError(await page(), 429, 'work_limit')
    clock.advance(1_000)
    expect((await page()).status).toBe(200)
  })

  // Proves: quota-9
  test('includes the bytes of bodies, rejected ones too', async () => {
    await using service = await startService()
    const { api } = service.emails
    const large = { ...EMAIL, from: 'nobody', text_body: 'x'.repeat(1_900_000) }
    for (let i = 0; i < 3; i++) expect((await api('POST', '/v1/emails', large)).status).toBe(422)
    expectError(await api('GET', '/v1/account'), 429, 'work_limit')
  })

  // Proves: quota-9
  test("includes the recipients of other services' batches", async () => {
    await using service = await startService()
    const { url, key } = service.emails
    const send = (to: string) =>
      fetch(`${url}/postmark/email/bulk`, {
        method: 'POST',
        headers: { 'x-postmark-server-token': key, 'content-type': 'application/json' },
        body: JSON.stringify({
          ...{ From: EMAIL.from, Subject: 'S', TextBody: 'T', MessageStream: 'outbound' },
          Messages: Array.from({ length: 100 }, (_, i) => ({ To: to.replaceAll('#', String(i)) })),
        }),
      })
    const six = 'abcdef'.split('').map((name) => `${name}#@r.test`)
    expect((await send(six.join(', '))).status).toBe(200)
    expect((await send(six.join(', '))).status).toBe(429)
  })

  // Proves: quota-9
  test('includes the values of bodies', async () => {
    await using service = await startService()
    const { api } = service.emails
    const many = { ...EMAIL, from: 'nobody', template_data: Array(150_000).fill(1) }
    expect((await api('POST', '/v1/emails', many)).status).toBe(422)
    expectError(await api('GET', '/v1/account'), 429, 'work_limit')
  })

  // Proves: quota-9
  test.each([
    ['sends', '/v1/emails'],
    ['batches', '/v1/emails/batch'],
    ['other requests', '/v1/webhooks'],
  ])('used up: large bodies of %s are refused before they are read', async (_, path) => {
    await using service = await startService()
    service.emails.app.workBudget.charge(service.emails.actor.accountId, 1001)
    const { hostname, port } = new URL(service.emails.url)
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), hostname, () =>
        socket.write(
          `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.emails.key}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{`,
        ),
      )
      socket.on('error', reject)
      // The rest of the body is never sent.
      socket.once('data', (data) => {
        resolve(data.toString())
        socket.destroy()
      })
    })
    expect(answer).toStartWith('HTTP/1.1 429 ')
  })

  // Proves: quota-9
  test('is separate from other accounts, but shared with its sub-accounts', async () => {
    await using service = await startService()
    const { app, api, actor, newKey, newAccount } = service.emails
    const [child, stranger] = [await newAccount(), await newAccount()]
    app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [actor.accountId, child.accountId])
    const ask = async (of: Actor) => api('GET', '/v1/account', undefined, { key: await newKey([], of) })
    app.workBudget.charge(child.accountId, 1001)
    expectError(await ask(actor), 429, 'work_limit')
    expectError(await ask(child), 429, 'work_limit')
    expect((await ask(stranger)).status).toBe(200)
  })

  // Proves: quota-9
  test('beyond the limit does not block the stored response to a repeated idempotent request', async () => {
    await using service = await startService()
    const first = await service.emails.accepted({ idempotency_key: 'k' })
    const batch = await service.batch(2, 'b')
    service.emails.app.workBudget.charge(service.emails.actor.accountId, 1001)
    expectError(await service.emails.send(), 429, 'work_limit')
    expect(await service.emails.accepted({ idempotency_key: 'k' })).toMatchObject({ id: first.id })
    expect((await service.batch(2, 'b')).body).toEqual(batch.body)
  })
})
