import { expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError } from '#test/support/email-api.ts'

const ROWS = 10_150

/** An account with more emails than an offset may skip; several share each millisecond. */
async function createLongList(): Promise<EmailApi> {
  const emails = await createEmailApi()
  const { id } = await emails.accepted()
  const columns =
    'account_id, domain_id, stream_id, status, sandbox, transactional, tracked, from_address, subject, recipient_count, size_bytes'
  emails.app.db.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS - 1})
     INSERT INTO emails (uuid, created_at, updated_at, ${columns}) SELECT randomblob(16), created_at + i / 40, updated_at, ${columns} FROM emails, n`,
  )
  emails.app.db.run('UPDATE counters SET value = ? WHERE metric = ?', [ROWS, 'email:queued'])
  expect(id).toBeString()
  return emails
}

// Proves: list-7
test('a page beyond 10,000 rows is rejected with a hint at the cursor, which reaches the end without a gap', async () => {
  await using emails = await createLongList()
  const deep = await emails.api('GET', '/v1/emails?per_page=100&page=102')
  expectError(deep, 422, 'validation_failed', 'page')
  expect(at(deep.body, 'message')).toContain('next_cursor')
  // A cursor that counts rows, as lists of limited length use, reaches no further.
  const counting = Buffer.from('[10001]').toString('base64url')
  expectError(await emails.api('GET', `/v1/emails?cursor=${counting}`), 422, 'validation_failed', 'cursor')
  // Past the end, no page is rejected.
  expect((await emails.api('GET', '/v1/emails?per_page=100&page=103')).body).toMatchObject({ data: [] })

  const ids: unknown[] = []
  let last: unknown
  for (let query: string | undefined = 'page=100'; query !== undefined; ) {
    const { status, body } = await emails.api('GET', `/v1/emails?per_page=100&${query}`)
    expect(status).toBe(200)
    ids.push(...(at(body, 'data') as { id: string }[]).map(({ id }) => id))
    last = at(body, 'pagination')
    const cursor = (last as { next_cursor?: string }).next_cursor
    query = cursor === undefined ? undefined : `cursor=${cursor}`
  }
  expect(last).toEqual({ page: 102, per_page: 100, total: ROWS, total_pages: 102 })
  const newestFirst = emails.app.db
    .query<{ id: string }, []>(
      'SELECT lower(hex(uuid)) AS id FROM emails ORDER BY created_at DESC, emails.id DESC LIMIT -1 OFFSET 9900',
    )
    .all()
    .map(({ id }) => id)
  expect(ids.map((id) => String(id).replaceAll('-', ''))).toEqual(newestFirst)
})

// Proves: list-6
test('paging by cursor neither repeats nor skips rows when newer ones are added', async () => {
  await using emails = await createEmailApi()
  const ids: string[] = []
  for (let i = 0; i < 4; i++) ids.unshift((await emails.accepted({ ...EMAIL, subject: `number ${i}` })).id)
  const first = await emails.api('GET', '/v1/emails?per_page=2')
  await emails.accepted({ ...EMAIL, subject: 'newer' })
  const cursor = String(at(first.body, 'pagination', 'next_cursor'))
  const second = await emails.api('GET', `/v1/emails?per_page=2&cursor=${cursor}`)
  const shown = [first, second].flatMap(({ body }) => (at(body, 'data') as { id: string }[]).map(({ id }) => id))
  expect(shown).toEqual(ids)
})

test('paging by cursor reaches every row even if each page leaves the list after it was read', async () => {
  await using emails = await createEmailApi()
  const { api } = emails
  for (let i = 0; i < 40; i++)
    expect((await api('POST', '/v1/suppressions', { email_address: `u${i}@x.test` })).status).toBe(201)
  const sizes: number[] = []
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const { body } = await api('GET', `/v1/suppressions?per_page=10${cursor && `&cursor=${cursor}`}`)
    const addresses = (at(body, 'data') as { email_address: string }[]).map(({ email_address }) => email_address)
    sizes.push(addresses.length)
    for (const address of addresses)
      expect((await api('DELETE', `/v1/suppressions/${encodeURIComponent(address)}`)).status).toBe(204)
    cursor = (at(body, 'pagination') as { next_cursor?: string }).next_cursor
  }
  expect(sizes).toEqual([10, 10, 10, 10, 0])
})

test.each([
  [
    'emails',
    'emails',
    'account_id = 1 AND created_at BETWEEN 0 AND 5 AND (created_at, id) < (5, 9) ORDER BY created_at DESC, id DESC LIMIT 5',
  ],
  ['contacts', 'contacts INDEXED BY contacts_list', 'list_id = 1 AND id < 5 ORDER BY id DESC LIMIT 5'],
  [
    'threads',
    'mailbox_threads',
    'mailbox_id = 1 AND (last_message_at, id) < (5, 9) ORDER BY last_message_at DESC, id DESC LIMIT 5',
  ],
])('the page of %s after a cursor uses an index without a sort', async (_, from, where) => {
  await using emails = await createEmailApi()
  const plan = emails.app.db
    .query<{ detail: string }, []>(`EXPLAIN QUERY PLAN SELECT id FROM ${from} WHERE ${where}`)
    .all()
  expect(plan.map(({ detail }) => detail)).toEqual([expect.stringMatching(/^SEARCH .* USING .*INDEX .*[<>]/)])
})
