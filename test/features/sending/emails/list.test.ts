import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { STATUSES, type Status, statusCode } from '#features/sending/queue/status.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, NOW, UUID } from '#test/support/email-api.ts'
import { seededRandom } from '#test/support/random.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

const list = (emails: EmailApi, query: string, options?: ApiOptions) =>
  emails.api('GET', `/v1/emails?${query}`, undefined, options)
const totalOf = async (emails: EmailApi, query: string) => at((await list(emails, query)).body, 'pagination', 'total')
const subjectsOf = async (emails: EmailApi, query: string) => {
  const answer = await list(emails, query)
  return (at(answer.body, 'data') as { subject: string }[]).map(({ subject }) => subject)
}

describe('a list of five emails', () => {
  let emails: EmailApi
  beforeAll(async () => {
    emails = await createEmailApi()
    // At 12:30, 13:30, ... of 15 March 2026.
    for (const subject of ['1', '2', '3', '4', '5']) {
      await emails.accepted({
        subject,
        ...(subject === '4' && { send_at: new Date(emails.clock.now() + DAY).toISOString() }),
      })
      if (subject !== '5') emails.clock.advance(HOUR)
    }
  })
  afterAll(() => emails[Symbol.asyncDispose]())

  // Proves: email-3, email-4
  test('is newest first, with its pagination, without bodies and attachments', async () => {
    const answer = await list(emails, 'per_page=2')
    const rows = at(answer.body, 'data') as Record<string, unknown>[]
    expect(Object.keys(answer.body as object).sort()).toEqual(['data', 'pagination'])
    expect(at(answer.body, 'pagination')).toEqual({
      page: 1,
      per_page: 2,
      total: 5,
      total_pages: 3,
      next_cursor: expect.any(String),
    })
    expect(rows.map((row) => [row['subject'], row['status'], row['to']])).toEqual([
      ['5', 'queued', 'bob@receiver.test'],
      ['4', 'scheduled', 'bob@receiver.test'],
    ])
    for (const row of rows) {
      expect(row['id']).toMatch(UUID)
      for (const absent of ['html_body', 'text_body', 'recipients', 'events', 'email'])
        expect(row).not.toHaveProperty(absent)
    }
  })

  // Proves: list-9, email-6
  test('what is no time, status or operation is a 422', async () => {
    for (const text of [
      'yesterday',
      '2026-02-30',
      '2026-02-30T10:00:00Z',
      '2026-3-1',
      '',
      '1773578000',
      '2026-03-15T25:00:00Z',
    ])
      for (const field of ['from_date', 'to_date'])
        expectError(await list(emails, `${field}=${text}`), 422, 'validation_failed', field)
    for (const query of ['operation_id=', 'operation_id=news', 'status=opened', 'status=SENT'])
      expectError(await list(emails, query), 422, 'validation_failed', query.slice(0, query.indexOf('=')))
  })

  const ranges: readonly [query: string, subjects: string[]][] = [
    ['from_date=2026-03-15', ['5', '4', '3', '2', '1']],
    ['to_date=2026-03-15', ['5', '4', '3', '2', '1']],
    ['from_date=2026-03-15&to_date=2026-03-15', ['5', '4', '3', '2', '1']],
    ['from_date=2026-03-16', []],
    ['to_date=2026-03-14', []],
    ['from_date=2026-03-15T14:30:00Z', ['5', '4', '3']],
    ['from_date=2026-03-15T14:30:00.001Z', ['5', '4']],
    ['to_date=2026-03-15T14:30:00Z', ['3', '2', '1']],
    ['to_date=2026-03-15T14:29:59.999Z', ['2', '1']],
    ['from_date=2026-03-15T13:30:00&to_date=2026-03-15T14:30:00', ['3', '2']],
    ['from_date=2026-03-15T13%3A30%3A00%2B00%3A00&to_date=2026-03-15T16%3A30%3A00%2B02%3A00', ['3', '2']],
    ['from_date=2026-03-16&to_date=2026-03-15', []],
    ['from_date=0000-01-01&to_date=9999-12-31', ['5', '4', '3', '2', '1']],
    ['status=queued&from_date=2026-03-15T15:00:00Z', ['5']],
  ]
  // Proves: email-6
  test.each(ranges)('%s gives %j', async (query, subjects) => {
    expect(await subjectsOf(emails, query)).toEqual(subjects)
    expect(await totalOf(emails, query)).toBe(subjects.length)
  })
})

// Proves: email-5
test('the filter status accepts every status, and delivered means sent', async () => {
  await using emails = await createEmailApi()
  for (const status of STATUSES) {
    const { id } = await emails.accepted({ subject: status })
    // Delivery tests cover the states; this one covers only the filter.
    emails.app.db.run('UPDATE emails SET status = ? WHERE uuid = ?', [
      statusCode(status),
      Uint8Array.fromHex(id.replaceAll('-', '')),
    ])
  }
  for (const status of STATUSES) expect(await subjectsOf(emails, `status=${status}`)).toEqual([status])
  expect(await subjectsOf(emails, 'status=delivered')).toEqual(['sent'])
})

test('totals equal a recount of the rows after a day of random changes, for any range', async () => {
  await using emails = await createEmailApi()
  const { between } = seededRandom(20_260_315)
  const below = (n: number) => between(0, n - 1)
  const other = await emails.newAccount()
  await emails.addDomain(other, 'other.test')
  const senders = [
    { from: EMAIL.from, key: emails.key, accountId: emails.actor.accountId, scheduled: [] as string[] },
    {
      from: 'x@other.test',
      key: await emails.newKey([], other),
      accountId: other.accountId,
      scheduled: [] as string[],
    },
  ] as const
  const senderOf = () => senders[below(2) as 0 | 1]
  for (let step = 0; step < 90; step++) {
    emails.clock.advance(below(3) === 0 ? 0 : below(60 * 60_000))
    // Tests the first and last instant of an hour, too.
    if (below(5) === 0) emails.clock.advance(HOUR - (emails.clock.now() % HOUR) - below(2))
    const { from, key, scheduled } = senderOf()
    const item = { ...EMAIL, from }
    const kind = below(4)
    if (kind === 0) {
      const send_at = new Date(emails.clock.now() + DAY).toISOString()
      scheduled.push((await emails.accepted({ from, send_at }, { key })).id)
    } else if (kind === 1) {
      const [id] = scheduled.splice(below(Math.max(scheduled.length, 1)), 1)
      if (id) expect((await emails.api('POST', `/v1/emails/${id}/cancel`, undefined, { key })).status).toBe(200)
    } else if (kind === 2)
      await emails.api('POST', '/v1/emails/batch', { emails: [item, { ...item, to: 'nobody' }, item] }, { key })
    else await emails.accepted({ from }, { key })
  }
  const end = emails.clock.now()
  expect(end - NOW).toBeGreaterThan(DAY)
  const recount = (accountId: number, status: Status | undefined, first: number, last: number): number =>
    emails.app.db
      .query<{ n: number }, [number, number, number, number]>(
        'SELECT COUNT(*) AS n FROM emails WHERE account_id = ?1 AND (?2 = -1 OR status = ?2) AND created_at BETWEEN ?3 AND ?4',
      )
      .get(accountId, status === undefined ? -1 : statusCode(status), first, last)?.n ?? -1
  const instant = () => {
    const at = NOW - HOUR + below(end - NOW + 2 * HOUR)
    return below(3) === 0 ? at - (at % HOUR) - below(2) : at
  }
  for (let round = 0; round < 60; round++) {
    const { accountId, key } = senderOf()
    const [first, last] = [instant(), instant()]
    const status = ([undefined, 'queued', 'scheduled', 'cancelled', 'sent'] as const)[below(5)]
    const dates = { from_date: new Date(first).toISOString(), to_date: new Date(last).toISOString() }
    const query = String(new URLSearchParams({ ...dates, per_page: '1', ...(status && { status }) }))
    const total = at((await list(emails, query, { key })).body, 'pagination', 'total')
    expect({ query, total }).toEqual({ query, total: recount(accountId, status, first, last) })
  }
  expect(await totalOf(emails, '')).toBe(recount(emails.actor.accountId, undefined, 0, end))
}, 120_000)
