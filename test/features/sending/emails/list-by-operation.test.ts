/** @module GET /v1/emails?operation_id=: the emails of one batch or broadcast. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { days, hours } from '#platform/units.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import {
  addContacts,
  createContacts,
  newList,
  readBroadcastEmails,
  waitForOperation,
} from '#test/support/broadcasts.ts'
import { createEmailApi, EMAIL, type EmailApi, NOW } from '#test/support/email-api.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

let emails: EmailApi
let batch: string
let broadcast: string

const list = (query: string, options?: ApiOptions) => emails.api('GET', `/v1/emails?${query}`, undefined, options)
/** The subjects on a page, joined by spaces, and the total. */
const found = async (query: string): Promise<[string, unknown]> => {
  const { body } = await list(query)
  const rows = at(body, 'data') as { subject: string }[]
  return [rows.map(({ subject }) => subject).join(' '), at(body, 'pagination', 'total')]
}

beforeAll(async () => {
  emails = await createEmailApi({ runsTasks: true, delivers: true, settings: { TASSIS_DELIVERY: 'capture' } })
  await emails.accepted({ subject: 'alone' })
  const tomorrow = new Date(NOW + days(1)).toISOString()
  const answer = await emails.api('POST', '/v1/emails/batch', {
    emails: [
      { ...EMAIL, subject: 'b1', send_at: tomorrow },
      { ...EMAIL, subject: 'b2', send_at: tomorrow },
    ],
  })
  batch = String(at(answer.body, 'operation_id'))
  const listId = await newList(emails, 'News')
  await addContacts(emails.app, listId, [...createContacts(6), { email: 'numberless@receiver.test' }])
  emails.clock.advance(hours(1))
  const started = await emails.api('POST', '/v1/emails/broadcast', {
    contact_list_id: listId,
    from_address: 'ada@sender.test',
    subject: 'c{{ contact.number }}',
    text_body: 'Hello',
  })
  broadcast = String(at(started.body, 'data', 'operation_id'))
  await waitForOperation(emails, broadcast, 'done')
  // When the operation is done, delivery has begun for every email, but may not have ended.
  await eventually(() =>
    readBroadcastEmails(emails.app).every(({ status }) => status === 'sent' || status === 'failed'),
  )
  emails.clock.advance(hours(1))
  await emails.accepted({ subject: 'late' })
})
afterAll(() => emails[Symbol.asyncDispose]())

describe('the filter operation_id', () => {
  test('returns the emails of a batch, newest first, and no others', async () => {
    expect(await found(`operation_id=${batch}`)).toEqual(['b2 b1', 2])
    expect((await list(`operation_id=${batch}`)).body).toMatchObject({
      data: [{ operation_id: batch }, { operation_id: batch }],
    })
  })

  // Proves: email-3
  test('returns the emails of a broadcast by page, with their total', async () => {
    const page = (number: number) => found(`operation_id=${broadcast}&per_page=3&page=${number}`)
    expect(await Promise.all([1, 2, 3, 4].map(page))).toEqual([
      ['c{{ contact.number }} c6 c5', 7],
      ['c4 c3 c2', 7],
      ['c1', 7],
      ['', 7],
    ])
    expect((await list(`operation_id=${broadcast}&per_page=3&page=2`)).body).toMatchObject({
      pagination: { page: 2, per_page: 3, total: 7, total_pages: 3, next_cursor: expect.any(String) },
    })
  })

  test('can be combined with status, and delivered means sent', async () => {
    expect(await found(`operation_id=${broadcast}&status=failed`)).toEqual(['c{{ contact.number }}', 1])
    expect(await found(`operation_id=${broadcast}&status=sent`)).toEqual(['c6 c5 c4 c3 c2 c1', 6])
    expect(await found(`operation_id=${broadcast}&status=delivered&per_page=2`)).toEqual(['c6 c5', 6])
    expect(await found(`operation_id=${batch}&status=scheduled`)).toEqual(['b2 b1', 2])
    expect(await found(`operation_id=${batch}&status=sent`)).toEqual(['', 0])
  })

  test('can be combined with dates', async () => {
    const at = (hour: number) => encodeURIComponent(new Date(NOW + hours(hour)).toISOString())
    expect(await found(`operation_id=${broadcast}&from_date=${at(1)}&to_date=${at(1)}&per_page=1`)).toEqual([
      'c{{ contact.number }}',
      7,
    ])
    expect(await found(`operation_id=${broadcast}&from_date=${at(2)}`)).toEqual(['', 0])
    expect(await found(`operation_id=${broadcast}&to_date=${at(0)}`)).toEqual(['', 0])
  })

  test('can be combined with an engagement, also a status', async () => {
    const { app } = emails
    const [row] = app.db
      .query<{ id: number }, []>(
        "SELECT recipients.id FROM recipients JOIN emails ON emails.id = email_id WHERE emails.subject = 'c{{ contact.number }}' LIMIT 1",
      )
      .all()
    await app.commit.write((tx) => {
      const recipient = readTrackedRecipient(tx.db, row?.id ?? 0)
      recordEngagement(app, tx, { recipient, url: undefined, visitor: 'human', ipAddress: null, userAgent: null })
    })
    expect(await found(`operation_id=${broadcast}&engagement=opened`)).toEqual(['c{{ contact.number }}', 1])
    expect(await found(`operation_id=${broadcast}&engagement=opened&status=sent`)).toEqual(['', 0])
    expect(await found(`operation_id=${batch}&engagement=opened`)).toEqual(['', 0])
  })

  test('returns nothing for an operation of another account or an unknown one', async () => {
    const key = await emails.newKey([], await emails.newAccount())
    const empty = { data: [], pagination: { page: 1, per_page: 25, total: 0, total_pages: 0 } }
    for (const id of [broadcast, batch]) expect((await list(`operation_id=${id}`, { key })).body).toEqual(empty)
    expect((await list('operation_id=01234567-89ab-7def-8123-456789abcdef')).body).toEqual(empty)
  })
})
