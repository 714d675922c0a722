import { describe, expect, test } from 'bun:test'
import { type EventType, record } from '#features/core/events/record.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { addContacts, createContacts, getOperation, newList, waitForOperation } from '#test/support/broadcasts.ts'
import { createEmailApi, type EmailApi, expectError, NOW, VERIFIED } from '#test/support/email-api.ts'

type Json = Record<string, unknown>

const NEWS = { from_address: `ada@${VERIFIED}`, subject: 'News', text_body: 'Hello.' }
const UNKNOWN = '01234567-89ab-7def-8123-456789abcdef'

async function createService(contacts: number): Promise<{ service: EmailApi; list: string } & AsyncDisposable> {
  const service = await createEmailApi({ runsTasks: true, delivers: true, settings: { TASSIS_DELIVERY: 'capture' } })
  const list = await newList(service, 'Everybody')
  await addContacts(service.app, list, createContacts(contacts))
  return { service, list, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
}

async function broadcast({ api }: EmailApi, list: string, request: Json = {}): Promise<string> {
  const { status, body } = await api('POST', '/v1/emails/broadcast', { contact_list_id: list, ...NEWS, ...request })
  if (status !== 202) throw new Error(`refused: ${JSON.stringify(body)}`)
  return String(at(body, 'data', 'operation_id'))
}

/** Waits until all emails of a broadcast are delivered, which is later than that they are enqueued. */
async function waitForSent(service: EmailApi, id: string, count: number): Promise<void> {
  await waitForOperation(service, id, 'done')
  await eventually(async () => (await getOperation(service, id)).metadata.emails['sent'] === count || undefined)
}

describe('the broadcasts of an account', () => {
  // Proves: broadcast-10
  test('are listed newest first, with those of newsletters, and each has its emails by status', async () => {
    await using created = await createService(3)
    const { service, list } = created
    const first = await broadcast(service, list)
    await waitForSent(service, first, 3)
    const draft = await service.api('POST', '/v1/newsletters', { list_id: list, ...NEWS, subject: 'Later' })
    const sendAt = new Date(NOW + 3_600_000).toISOString()
    const path = `/v1/newsletters/${String(at(draft.body, 'data', 'id'))}/send`
    const second = String(at((await service.api('POST', path, { send_at: sendAt })).body, 'data', 'operation_id'))
    const { body } = await service.api('GET', '/v1/broadcasts')
    expect(at(body, 'pagination', 'total')).toBe(2)
    expect((at(body, 'data') as Json[]).map(({ id, state, subject }) => [id, state, subject])).toEqual([
      [second, 'waiting', 'Later'],
      [first, 'done', 'News'],
    ])
    expect(at((await service.api('GET', `/v1/broadcasts/${first}`)).body, 'data')).toMatchObject({
      id: first,
      list_id: list,
      list_name: 'Everybody',
      list_deleted: false,
      from_address: NEWS.from_address,
      sandbox: false,
      total_recipients: 3,
      enqueued: 3,
      skipped: 0,
      message: null,
      emails: { sent: 3, queued: 0, bounced: 0 },
    })
    const pages = await service.api('GET', '/v1/broadcasts?per_page=1')
    const cursor = String(at(pages.body, 'pagination', 'next_cursor'))
    expect(at((await service.api('GET', `/v1/broadcasts?per_page=1&cursor=${cursor}`)).body, 'data', 0, 'id')).toBe(
      first,
    )
    await service.api('DELETE', `/v1/contact-lists/${list}`)
    expect(at((await service.api('GET', `/v1/broadcasts/${first}`)).body, 'data', 'list_deleted')).toBe(true)
  })

  // Proves: broadcast-11
  test('count what readers did once for each email', async () => {
    await using created = await createService(4)
    const { service, list } = created
    const id = await broadcast(service, list)
    await waitForSent(service, id, 4)
    const emails = service.app.db.query<{ id: number }, []>('SELECT id FROM emails ORDER BY id').all()
    const events: [number, EventType][] = [
      [0, 'opened'],
      [0, 'opened'],
      [1, 'opened'],
      [0, 'clicked'],
      [2, 'complained'],
      [3, 'unsubscribed'],
    ]
    await service.app.commit.write((tx) => {
      for (const [index, type] of events)
        record(tx, {
          accountId: service.actor.accountId,
          type,
          emailId: emails[index]?.id ?? 0,
          at: service.app.eventTime(),
        })
    })
    const { body } = await service.api('GET', `/v1/broadcasts/${id}/engagement`)
    expect(at(body, 'data')).toEqual({ opened: 2, clicked: 1, complained: 1, unsubscribed: 1 })
  })
})

describe('the recipients of a list', () => {
  // Proves: broadcast-12
  test('are those whom a broadcast would get, and the others are counted by the reason', async () => {
    await using created = await createService(6)
    const { service, list } = created
    await addContacts(service.app, list, [{ email: 'pending@receiver.test', status: 'pending' }])
    await service.api('POST', '/v1/suppressions', { email_address: 'contact-1@receiver.test' })
    for (const [email_address, reason] of [
      ['contact-2@receiver.test', 'unsubscribe'],
      ['contact-3@receiver.test', 'complaint'],
    ])
      await service.api('POST', '/v1/suppressions', { email_address, reason })
    const count = async () =>
      at((await service.api('GET', `/v1/contact-lists/${list}/recipients`)).body, 'data') as Json
    const { recipients, contacts, left_out: leftOut } = await count()
    expect(contacts).toBe(7)
    expect(Object.values(leftOut as Record<string, number>).reduce((sum, n) => sum + n, 0)).toBe(7 - Number(recipients))
    expect(leftOut).toMatchObject({ pending: 1, complained: 1 })
    const id = await broadcast(service, list)
    expect(at((await service.api('GET', `/v1/broadcasts/${id}`)).body, 'data', 'total_recipients')).toBe(recipients)
    expectError(await service.api('GET', `/v1/contact-lists/${UNKNOWN}/recipients`), 404, 'contact_list_not_found')
  })
})
