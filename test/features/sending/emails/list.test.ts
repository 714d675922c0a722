import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { STATUSES, statusCode } from '#features/sending/queue/status.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, NOW, UUID } from '#test/support/email-api.ts'

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
  for (const [query, field] of [
    ['operation_id=', 'operation_id'],
    ['operation_id=news', 'operation_id'],
    ['status=opened', 'status'],
    ['status=SENT', 'status'],
    ['status=', 'status'],
    ['from_date=yesterday', 'from_date'],
    ['from_date=2026-02-30', 'from_date'],
    ['from_date=2026-02-30T10:00:00Z', 'from_date'],
    ['from_date=2026-3-1', 'from_date'],
    ['from_date=', 'from_date'],
    ['to_date=2026-13-01', 'to_date'],
    ['to_date=1773578000', 'to_date'],
    ['to_date=2026-03-15T25:00:00Z', 'to_date'],
  ] as const)
    test(`${query} is a 422`, async () => expectError(await list(emails, query), 422, 'validation_failed', field))

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
  for (const [query, subjects] of ranges)
    test(`${query || 'no filter'} gives ${subjects.join(' ') || 'nothing'}`, async () => {
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

/** mulberry32: the same numbers for the same seed. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

test('totals equal a recount of the rows after two days of random changes, for any range', async () => {
  await using emails = await createEmailApi()
  const random = createRandom(20_260_315)
  const below = (n: number) => Math.floor(random() * n)
  const other = await emails.newAccount()
  await emails.addDomain(other, 'other.test')
  const keys = [emails.key, await emails.newKey([], other)] as const
  const froms = [EMAIL.from, 'x@other.test'] as const
  const accounts = [emails.actor.accountId, other.accountId] as const
  const scheduled: { id: string; key: string }[] = []
  for (let step = 0; step < 150; step++) {
    emails.clock.advance(below(3) === 0 ? 0 : below(40 * 60_000))
    // Tests the first and last instant of an hour, too.
    if (below(5) === 0) emails.clock.advance(HOUR - (emails.clock.now() % HOUR) - below(2))
    const accountIndex = below(2)
    const options = { key: keys[accountIndex] ?? '' }
    const from = froms[accountIndex] ?? ''
    switch (below(4)) {
      case 0: {
        const sent = await emails.accepted({ from, send_at: new Date(emails.clock.now() + DAY).toISOString() }, options)
        scheduled.push({ id: sent.id, key: options.key })
        break
      }
      case 1: {
        const [chosen] = scheduled.splice(below(Math.max(scheduled.length, 1)), 1)
        if (chosen)
          expect((await emails.api('POST', `/v1/emails/${chosen.id}/cancel`, undefined, chosen)).status).toBe(200)
        break
      }
      case 2:
        await emails.api(
          'POST',
          '/v1/emails/batch',
          {
            emails: [
              { ...EMAIL, from },
              { ...EMAIL, from, to: 'nobody' },
              { ...EMAIL, from },
            ],
          },
          options,
        )
        break
      default:
        await emails.accepted({ from }, options)
    }
  }
  const end = emails.clock.now()
  expect(end - NOW).toBeGreaterThan(DAY)
  const recount = (account: number, status: string | undefined, first: number, last: number): number =>
    emails.app.db
      .query<{ n: number }, [number, number, number, number, number]>(
        'SELECT COUNT(*) AS n FROM emails WHERE account_id = ?1 AND (?2 = -1 OR status = ?2) AND created_at BETWEEN ?3 AND ?4 AND ?5',
      )
      .get(account, status === undefined ? -1 : statusCode(status as (typeof STATUSES)[number]), first, last, 1)?.n ??
    -1
  const instant = () => {
    const at = NOW - HOUR + below(end - NOW + 2 * HOUR)
    return below(3) === 0 ? at - (at % HOUR) - below(2) : at
  }
  for (let round = 0; round < 80; round++) {
    const accountIndex = below(2)
    const [first, last] = [instant(), instant()]
    const status = [undefined, 'queued', 'scheduled', 'cancelled', 'sent'][below(5)]
    const query = new URLSearchParams({
      from_date: new Date(first).toISOString(),
      to_date: new Date(last).toISOString(),
      per_page: '1',
      ...(status !== undefined && { status }),
    })
    const total = await totalOf(emails, String(query))
    if (accountIndex === 0)
      expect({ query: String(query), total }).toEqual({
        query: String(query),
        total: recount(accounts[0], status, first, last),
      })
    else {
      const theirs = at((await list(emails, String(query), { key: keys[1] })).body, 'pagination', 'total')
      expect(theirs).toBe(recount(accounts[1], status, first, last))
    }
  }
  expect(await totalOf(emails, '')).toBe(recount(accounts[0], undefined, 0, end))
}, 120_000)
