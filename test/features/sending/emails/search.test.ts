/**
 * @module GET /v1/emails by address, subject, tag, stream and Message-ID: which emails match, and that the index
 * follows the emails.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deleteEmail, findOldEmail } from '#features/sending/queue/retire.ts'
import { findTimeRange, indexPendingEmails, reindexEmail } from '#features/sending/queue/search.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { days } from '#platform/units.ts'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, NOW, VERIFIED } from '#test/support/email-api.ts'

const HOUR = 3_600_000

const list = (emails: EmailApi, query: Record<string, string>, options?: ApiOptions) =>
  emails.api('GET', `/v1/emails?${new URLSearchParams(query)}`, undefined, options)
const searchSubjects = async (emails: EmailApi, query: Record<string, string>, options?: ApiOptions) => {
  const { body } = await list(emails, query, options)
  const subjects = (at(body, 'data') as { subject: string }[]).map(({ subject }) => subject)
  expect(at(body, 'pagination', 'total')).toBe(subjects.length)
  return subjects
}

/** The subjects of all pages of a search, by cursor. */
const searchPages = async (emails: EmailApi, query: Record<string, string>) => {
  const subjects: string[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const { body } = await list(emails, { ...query, ...(cursor !== '' && { cursor }) })
    subjects.push(...(at(body, 'data') as { subject: string }[]).map(({ subject }) => subject))
    cursor = (at(body, 'pagination') as { next_cursor?: string }).next_cursor
  }
  return subjects
}

describe('among five emails', () => {
  let emails: EmailApi
  let messageId = ''
  beforeAll(async () => {
    emails = await createEmailApi()
    await emails.api('POST', '/v1/streams', { slug: 'news', name: 'News' })
    const requests = [
      { subject: 'Your invoice 4711', to: 'Bob@Receiver.test', tags: ['invoice', 'q1'] },
      {
        subject: 'Ihre Rechnung für März',
        to: ['eve@x.test', 'Carl <carl@x.test>'],
        from: 'Billing <Billing@sender.test>',
      },
      { subject: 'Your invoice 4712, corrected', to: 'eve@x.test', cc: ['bob@receiver.test'], tags: ['invoice'] },
      { subject: 'News', to: 'dan@x.test', bcc: ['bob@receiver.test'], stream: 'news', tags: ['Invoice'] },
      { subject: 'a12 s1', to: 'bob@receiver.test.example', from: '"a <b" <odd@sender.test>' },
    ]
    for (const request of requests) {
      const sent = await emails.accepted(request)
      if (request.subject === 'News') messageId = String(sent['message_id'])
      emails.clock.advance(HOUR)
    }
  })
  afterAll(() => emails[Symbol.asyncDispose]())

  const [INVOICE, GERMAN, CORRECTED, NEWS, ODD] = [
    'Your invoice 4711',
    'Ihre Rechnung für März',
    'Your invoice 4712, corrected',
    'News',
    'a12 s1',
  ]
  const cases: readonly [query: Record<string, string>, subjects: string[]][] = [
    [{ to: 'bob@receiver.test' }, [NEWS, CORRECTED, INVOICE]],
    [{ to: 'BOB@RECEIVER.TEST' }, [NEWS, CORRECTED, INVOICE]],
    [{ to: 'Bob Smith <bob@receiver.test>' }, [NEWS, CORRECTED, INVOICE]],
    [{ to: 'nobody@receiver.test' }, []],
    [{ from: 'billing@sender.test' }, [GERMAN]],
    [{ from: 'odd@sender.test' }, [ODD]],
    [{ from: EMAIL.from }, [NEWS, CORRECTED, INVOICE]],
    [{ to: '@receiver.test' }, [NEWS, CORRECTED, INVOICE]],
    [{ to: ' @X.test ' }, [NEWS, CORRECTED, GERMAN]],
    [{ to: '@receiver.test', subject: 'invoice', tag: 'q1' }, [INVOICE]],
    [{ to: '@eceiver.test' }, []],
    [{ from: '@sender.test' }, [ODD, NEWS, CORRECTED, GERMAN, INVOICE]],
    [{ from: '@receiver.test' }, []],
    [{ domain: 'sender.test' }, [ODD, NEWS, CORRECTED, GERMAN, INVOICE]],
    [{ domain: ' Sender.TEST. ' }, [ODD, NEWS, CORRECTED, GERMAN, INVOICE]],
    [{ domain: 'sandbox.test' }, []],
    [{ domain: 'sender.test', stream: 'news' }, [NEWS]],
    [{ domain: 'sender.test', stream: 'transactional', to: '@x.test' }, [CORRECTED, GERMAN]],
    [{ domain: 'sender.test', status: 'queued', to: 'eve@x.test' }, [CORRECTED, GERMAN]],
    [{ domain: 'sender.test', from_date: '2026-03-15T16:00:00Z' }, [ODD]],
    [{ subject: 'invoice' }, [CORRECTED, INVOICE]],
    [{ subject: 'INVOICE your' }, [CORRECTED, INVOICE]],
    [{ subject: 'Your invoice 4712, corrected' }, [CORRECTED]],
    [{ subject: 'marz fur' }, [GERMAN]],
    [{ subject: 'invo' }, []],
    [{ subject: 'a1 OR invoice' }, []],
    [{ subject: '"invoice" *' }, [CORRECTED, INVOICE]],
    [{ tag: 'invoice' }, [CORRECTED, INVOICE]],
    [{ tag: 'Invoice' }, [NEWS]],
    [{ tag: 'q' }, []],
    [{ stream: 'news' }, [NEWS]],
    [{ stream: 'transactional' }, [ODD, CORRECTED, GERMAN, INVOICE]],
    [{ message_id: '<x@sender.test>' }, []],
    [{ to: 'bob@receiver.test', tag: 'invoice', subject: 'corrected', from: EMAIL.from }, [CORRECTED]],
    [{ to: 'bob@receiver.test', status: 'queued' }, [NEWS, CORRECTED, INVOICE]],
    [{ to: 'bob@receiver.test', status: 'bounced' }, []],
    [{ to: 'bob@receiver.test', from_date: '2026-03-15T14:30:00Z' }, [NEWS, CORRECTED]],
    [{ to: 'bob@receiver.test', to_date: '2026-03-15T14:30:00Z' }, [CORRECTED, INVOICE]],
    [{ to: 'bob@receiver.test', from_date: '2026-03-16' }, []],
    [{ to: 'bob@receiver.test', operation_id: '01234567-89ab-7def-8123-456789abcdef' }, []],
    [{ to: 'bob' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ to: 'bob@receiver.test.' }, [ODD]],
    [{ to: '@RECEIVER' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ from: 'bill' }, [GERMAN]],
    [{ from: 'sender.test' }, []],
    [{ q: 'b' }, [ODD, NEWS, CORRECTED, GERMAN, INVOICE]],
    [{ q: 'bob' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: 'bob@' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: 'Bob@rec' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: '<bob@receiver.test>, ' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: 'ob@receiver.test' }, []],
    [{ q: 'receiver.te' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: '@x' }, [NEWS, CORRECTED, GERMAN]],
    [{ q: '@bob' }, []],
    [{ q: 'carl' }, [GERMAN]],
    [{ q: 'odd a' }, [ODD]],
    [{ q: 'invo' }, [CORRECTED, INVOICE]],
    [{ q: 'nvoice' }, []],
    [{ q: 'invoice bob 4712,' }, [CORRECTED]],
    [{ q: 'marz' }, [GERMAN]],
    [{ q: 'fu\u0308r rech' }, [GERMAN]],
    [{ q: '\u202ebob \u200f"news"' }, [NEWS]],
    [{ q: 'bob', status: 'queued', from_date: '2026-03-15T15:00:00Z' }, [ODD, NEWS]],
    [{ q: 'bob', tag: 'Invoice' }, [NEWS]],
    [{ q: 'bob*' }, [ODD, NEWS, CORRECTED, INVOICE]],
    [{ q: 'bob AND news' }, []],
    [{ q: 'NEAR(bob' }, []],
    [{ q: 'NOT bob' }, []],
    [{ q: '-bob ^bob' }, []],
    [{ q: 'recipient:bob' }, []],
    [{ q: "bob' OR 1=1 --" }, []],
    [{ q: 'bo_ b%' }, []],
    [{ q: 'مرحبا' }, []],
    [{ q: 'x'.repeat(500) }, []],
  ]
  // Proves: email-1
  test.each(cases)('%j finds %j', async (query, subjects) => {
    expect(await searchSubjects(emails, query)).toEqual(subjects)
  })

  // Proves: email-1
  test('a Message-ID finds its email, with or without angle brackets, if the other conditions match too', async () => {
    expect(await searchSubjects(emails, { message_id: messageId })).toEqual([NEWS])
    expect(
      await searchSubjects(emails, { message_id: messageId.slice(1, -1), status: 'queued', tag: 'Invoice' }),
    ).toEqual([NEWS])
    expect(await searchSubjects(emails, { q: messageId })).toEqual([NEWS])
    expect(await searchSubjects(emails, { q: `${messageId.slice(1, 37)} `, to: 'dan' })).toEqual([NEWS])
    expect(await searchSubjects(emails, { q: messageId.slice(1, 37), to: 'eve' })).toEqual([])
    expect(await searchSubjects(emails, { message_id: messageId, subject: 'invoice' })).toEqual([])
    expect(await searchSubjects(emails, { message_id: messageId, to_date: '2026-03-15T12:30:00Z' })).toEqual([])
  })

  // Proves: email-1
  test('emails of another account do not match', async () => {
    const key = await emails.newKey([], await emails.newAccount())
    const queries: Record<string, string>[] = [
      { to: 'bob@receiver.test' },
      { to: '@receiver.test' },
      { from: EMAIL.from },
      { tag: 'invoice' },
      { stream: 'transactional' },
      { subject: 'invoice' },
      { subject: 'invoice', tag: 'invoice' },
      { message_id: messageId },
      { q: 'bob' },
      { q: messageId },
    ]
    for (const query of queries) expect(await searchSubjects(emails, query, { key })).toEqual([])
  })

  // Proves: email-1
  test.each([
    [{ to: 'bob smith' }, 'to'],
    [{ to: '' }, 'to'],
    [{ to: 'x'.repeat(321) }, 'to'],
    ...[
      '',
      ' ',
      '%',
      '_',
      '"',
      '*',
      '@',
      '\0',
      '🎉',
      '\u202e',
      'x'.repeat(501),
      'x'.repeat(10_000),
      'x '.repeat(21),
    ].map((q) => [{ q }, 'q'] as const),
    [{ subject: '' }, 'subject'],
    [{ subject: '…' }, 'subject'],
    [{ subject: 'x'.repeat(201) }, 'subject'],
    [{ subject: 'x '.repeat(21) }, 'subject'],
    [{ to: '@a@b.test' }, 'to'],
    [{ from: '@' }, 'from'],
    [{ domain: 'receiver.test' }, 'domain'],
    [{ domain: '' }, 'domain'],
    [{ domain: '<script>' }, 'domain'],
    [{ tag: '' }, 'tag'],
    [{ stream: 'nope' }, 'stream'],
    [{ to: 'a@b.test', status: 'SENT' }, 'status'],
  ])('%j is a 422', async (query, field) => {
    expectError(await list(emails, query as Record<string, string>), 422, 'validation_failed', field)
  })
})

// Proves: email-1
test('words of names and of local parts, and Message-IDs of clients, are found by q', async () => {
  await using emails = await createEmailApi()
  await emails.accepted({ subject: 'one', to: '"Brown, Bob" <b.b@x.test>' })
  await emails.accepted({ subject: 'two', to: 'bob.brown+shop@x.test', from: 'Zoë Müller <ada@sender.test>' })
  await emails.accepted({ subject: 'three', to: "Bob <o'brien@x.test>" })
  emails.app.db.run(`UPDATE emails SET extra = '{"message_id":"<Abc.1@client.test>"}' WHERE id = 3`)
  const cases = [
    ['Bob Brown', ['two', 'one']],
    ['brown b', ['two', 'one']],
    ['shop', ['two']],
    ['zoe mull', ['two']],
    ["o'brien", ['three']],
    ['brien', ['three']],
    ['<Abc.1@client.test>', ['three']],
    ['Abc.1@client.test', ['three']],
    ['abc.1@client.test', []],
  ] as const
  for (const [q, subjects] of cases) expect([q, await searchSubjects(emails, { q })]).toEqual([q, [...subjects]])
})

// Proves: email-1
test('the domain of a filter is the one that signs, also for senders at a subdomain and while it is being deleted', async () => {
  await using emails = await createEmailApi()
  await emails.accepted({ subject: 'sub', from: 'ada@shop.sender.test' })
  await emails.accepted({ subject: 'sandbox', from: 'ada@sandbox.test' })
  expect(await searchSubjects(emails, { domain: VERIFIED })).toEqual(['sub'])
  expect(await searchSubjects(emails, { from: `@${VERIFIED}` })).toEqual([])
  expect(await searchSubjects(emails, { from: `@shop.${VERIFIED}` })).toEqual(['sub'])
  const { body } = await emails.api('GET', '/v1/domains')
  const id = (at(body, 'data') as { id: string; domain: string }[]).find(({ domain }) => domain === VERIFIED)?.id
  expect((await emails.api('DELETE', `/v1/domains/${id}`)).status).toBe(204)
  expect(await searchSubjects(emails, { domain: VERIFIED })).toEqual(['sub'])
  await emails.addDomain(emails.actor)
  await emails.accepted({ subject: 'new' })
  expect(await searchSubjects(emails, { domain: VERIFIED })).toEqual(['new', 'sub'])
  const key = await emails.newKey([], await emails.newAccount())
  expectError(await list(emails, { domain: VERIFIED }, { key }), 422, 'validation_failed', 'domain')
})

// Proves: email-1
test('pages by cursor and by number have the same rows', async () => {
  await using emails = await createEmailApi()
  for (let batch = 0; batch < 3; batch++) {
    const items = Array.from({ length: 100 }, (_, i) => {
      const n = batch * 100 + i
      return { ...EMAIL, subject: `${n % 2 ? 'odd' : 'even'} mail ${n}`, tags: ['all'] }
    })
    await emails.api('POST', '/v1/emails/batch', { emails: items })
  }
  emails.app.db.run(
    `UPDATE emails SET status = CASE WHEN id % 3 = 0 THEN ${statusCode('failed')} ELSE ${statusCode('bounced')} END`,
  )
  const counters = emails.app.db.query('UPDATE counters SET metric = ?, value = ? WHERE metric = ? RETURNING 1')
  expect(counters.all('email:bounced', 200, 'email:queued').length).toBe(1)
  const stored = emails.app.db
    .query<{ subject: string; status: number }, []>('SELECT subject, status FROM emails ORDER BY id DESC')
    .all()
  const subjectsOf = ({ body }: ApiResponse) =>
    (at(body, 'data') as { subject: string }[]).map(({ subject }) => subject)
  // An address, a common and a rarer word, a status, and a rare one.
  const queries: readonly Record<string, string>[] = [
    { to: 'bob@receiver.test' },
    { subject: 'odd mail' },
    { q: 'od mai' },
    { tag: 'all', status: 'bounced' },
    { tag: 'all', status: 'failed' },
  ]
  for (const query of queries) {
    const expected = stored
      .filter(({ subject }) => !('subject' in query || 'q' in query) || subject.startsWith('odd'))
      .filter(({ status }) => !('status' in query) || status === statusCode(query['status'] as 'bounced'))
      .map(({ subject }) => subject)
    expect(await searchPages(emails, { ...query, per_page: '60' })).toEqual(expected)
    const second = await list(emails, { ...query, per_page: '100', page: '2' })
    expect(subjectsOf(second)).toEqual(expected.slice(100, 200))
  }
})

describe('30 emails, the tenth sent with a clock that was 40 days ahead', () => {
  let emails: EmailApi
  let ids: string[] = []
  beforeAll(async () => {
    emails = await createEmailApi()
    const sent: string[] = []
    for (let n = 1; n <= 30; n++) {
      const { id } = await emails.accepted({ subject: `mail ${n}` })
      sent.push(id)
      const createdAt = NOW + n * HOUR + (n === 10 ? days(40) : 0)
      emails.app.db.run('UPDATE emails SET created_at = ? WHERE id = ?', [createdAt, n])
    }
    ids = sent
  })
  afterAll(() => emails[Symbol.asyncDispose]())

  const mails = (...numbers: number[]) => numbers.map((n) => `mail ${n}`)
  /** The numbers from first to last, descending. */
  const down = (first: number, last: number) => Array.from({ length: first - last + 1 }, (_, i) => first - i)
  const timeAfter = (hour: number) => new Date(NOW + hour * HOUR).toISOString()

  test.each([
    ['without dates, all are found', {}, down(30, 1)],
    [
      'up to the time of the last, all but the tenth are found',
      { to_date: timeAfter(30) },
      down(30, 1).filter((n) => n !== 10),
    ],
    ['from the time of the last, the last and the tenth are found', { from_date: timeAfter(30) }, [30, 10]],
    [
      'in a time range around the place of the tenth, only the others are found',
      { from_date: timeAfter(8), to_date: timeAfter(12) },
      [12, 11, 9, 8],
    ],
    ['from 30 days later, only the tenth is found', { from_date: timeAfter(24 * 30) }, [10]],
  ])('%s', async (_, dates, numbers) => {
    for (const filter of [{}, { status: 'queued' }])
      expect(
        await searchSubjects(emails, { subject: 'mail', per_page: '50', ...filter, ...dates } as Record<
          string,
          string
        >),
      ).toEqual(mails(...numbers))
  })

  test('pages by cursor contain every row once, in order', async () => {
    for (const filter of [{}, { status: 'queued' }])
      expect(
        await searchPages(emails, { subject: 'mail', per_page: '7', ...filter } as Record<string, string>),
      ).toEqual(mails(...down(30, 1)))
  })

  test.each([
    [8, 12, { first: 8, last: 12 }],
    [30, 24 * 50, { first: 10, last: 30 }],
    [24 * 30, 24 * 50, { first: 10, last: 10 }],
    [31, 32, undefined],
  ])('the row ids of the hours %d to %d are enclosed', (first, last, expected) => {
    const [from, to] = [NOW + first * HOUR, NOW + last * HOUR]
    expect(findTimeRange(emails.app.db, emails.actor.accountId, from, to)).toEqual(
      expected && { ...expected, time: { from, to } },
    )
  })

  test('the Message-ID of the tenth finds it only in a time range that contains its own date', async () => {
    const message_id = `<${ids[9]}@${VERIFIED}>`
    expect(await searchSubjects(emails, { message_id })).toEqual(mails(10))
    expect(await searchSubjects(emails, { message_id, to_date: timeAfter(30) })).toEqual([])
    expect(await searchSubjects(emails, { message_id, from_date: timeAfter(31) })).toEqual(mails(10))
  })
})

/** The content of the index, as FTS5 reports it. */
const wordsOf = ({ app }: EmailApi): unknown[] => {
  app.db.run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab('main', 'email_search', 'instance')")
  return app.db.query('SELECT term, doc, col FROM temp.words ORDER BY 1, 2, 3').all()
}

test('indexing a sent email and reindexing it from its rows give the same entry', async () => {
  await using emails = await createEmailApi()
  await emails.accepted({
    subject: 'Ünïcode İ ﬁ ß — 12½ 日本語',
    from: '"A > <B" <Ada.Ärger@Sender.test>',
    to: ['Ünal@Receiver.test', 'B@x.test'],
    tags: ['A', 'ä b', '"'],
  })
  await emails.accepted({})
  await indexPendingEmails(emails.app)
  const before = wordsOf(emails)
  await emails.app.commit.write((tx) => {
    for (const id of [1, 2]) reindexEmail(tx, id)
  })
  expect(wordsOf(emails)).toEqual(before)
  expect(before.length).toBeGreaterThan(15)
})

test('a deleted or erased email no longer matches, and its words are removed from the files', async () => {
  await using emails = await createEmailApi({ runsTasks: true })
  await emails.accepted({ to: 'zebra@x.test', subject: 'zebrasecret one' })
  await emails.accepted({ to: ['zebra@x.test', 'bob@receiver.test'], subject: 'two' })
  await emails.accepted({ subject: 'three' })
  const { app } = emails
  app.db.run(`UPDATE recipients SET status = ${statusCode('cancelled')}, lane = NULL, next_at = NULL`)
  await app.commit.write((tx) => {
    const third = findOldEmail(app.db, 3)
    if (third) deleteEmail(app, tx, third)
  })
  expect(await searchSubjects(emails, { subject: 'three' })).toEqual([])
  const erased = await emails.api('DELETE', '/v1/gdpr/erase?email=zebra@x.test')
  const id = at(erased.body, 'operation_id')
  await eventually(async () => {
    emails.clock.advance(1000)
    const { body } = await emails.api('GET', `/v1/operations/${id}`)
    return at(body, 'data', 'status') === 'completed' || undefined
  })
  expect(await searchSubjects(emails, { to: 'zebra@x.test' })).toEqual([])
  expect(await searchSubjects(emails, { subject: 'zebrasecret' })).toEqual([])
  await app.scrubFiles()
  await app.commit.runExclusive((db) => void db.query('PRAGMA wal_checkpoint(TRUNCATE)').all())
  const file = readFileSync(join(emails.dataDir, 'tassis.db'), 'latin1')
  for (const word of ['zebrasecr', Buffer.from('zebra@x').toString('hex')]) expect(file).not.toContain(word)
})

// Proves: email-2
test('totals of a search end at 10,001, and a cursor reaches the pages beyond 10,000 rows', async () => {
  await using emails = await createEmailApi()
  await emails.accepted({})
  const { app } = emails
  await app.commit.write((tx) => {
    const columns = tx.db
      .query<{ name: string }, []>(
        "SELECT name FROM pragma_table_info('emails') WHERE name NOT IN ('id', 'uuid', 'created_at')",
      )
      .all()
      .map(({ name }) => name)
      .join(', ')
    tx.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
       INSERT INTO emails (id, uuid, created_at, ${columns}) SELECT i, randomblob(16), created_at + i, ${columns} FROM emails, n WHERE id = 1`,
    )
  })
  const first = await list(emails, { from: EMAIL.from, per_page: '100', page: '100' })
  expect(at(first.body, 'pagination', 'total')).toBe(10_001)
  const cursor = String(at(first.body, 'pagination', 'next_cursor'))
  const next = await list(emails, { from: EMAIL.from, per_page: '100', cursor })
  expect((at(next.body, 'data') as unknown[]).length).toBe(100)
  expect(at(next.body, 'pagination', 'next_cursor')).toBeDefined()
  expectError(await list(emails, { from: EMAIL.from, per_page: '100', page: '102' }), 422, 'validation_failed', 'page')
  expect(at((await list(emails, { to: EMAIL.to, per_page: '100', page: '102' })).body, 'data')).toEqual([])
})
