import { expect, test } from 'bun:test'
import { getOperation, insertOperation, updateOperationProgress } from '#features/core/operations/operations.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const email = (to: string) => ({ from: 'ada@sender.test', to, subject: 'Hi', text_body: 'Hi' })

// Proves: list-28, operation-2, operation-3, operation-4
test('a batch is listed as a completed operation, with its invalid items counted as failed', async () => {
  await using service = await createTestApi({ clock: new ManualClock(Date.UTC(2026, 0, 1)) })
  const { api, app, actor } = service
  await createDomain(app, actor, 'sender.test')
  const batch = await api('POST', '/v1/emails/batch', {
    emails: [email('a@x.test'), email('nobody'), email('b@x.test')],
  })
  const id = at(batch.body, 'operation_id')
  const read = await api('GET', `/v1/operations/${id}`)
  expect(read.status).toBe(200)
  expect(read.body).toEqual({
    data: {
      id,
      account_id: actor.accountUuid,
      operation_type: 'batch',
      status: 'completed',
      total_items: 3,
      completed_items: 2,
      failed_items: 1,
      error_summary: { message: expect.stringContaining('1 of 3') },
      metadata: null,
      created_at: '2026-01-01T00:00:00.000Z',
      updated_at: '2026-01-01T00:00:00.000Z',
      completed_at: '2026-01-01T00:00:00.000Z',
      expires_at: '2026-04-01T00:00:00.000Z',
    },
  })
  const list = await api('GET', '/v1/operations')
  expect(list.body).toEqual({
    data: [at(read.body, 'data')],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })
})

test('an error summary is truncated to 1,000 characters, both at creation and in updates', async () => {
  await using service = await createTestApi()
  const { app, actor } = service
  const long = `${'x'.repeat(999)}😀${'x'.repeat(1_000_000)}`
  const summaries = await app.commit.write((tx) => {
    const begun = { type: 'broadcast', status: 'processing', total: 1, completed: 0, failed: 0 } as const
    const { id, uuid } = insertOperation(app, tx, actor, { ...begun, errorSummary: long })
    const first = getOperation(tx.db, actor.accountId, uuid).errorSummary
    updateOperationProgress(app, tx, id, { errorSummary: `again ${long}` })
    return [first, getOperation(tx.db, actor.accountId, uuid).errorSummary]
  })
  expect(summaries).toEqual([`${'x'.repeat(999)}\ufffd`, `again ${'x'.repeat(994)}`])
})

// Proves: operation-1
test('operations are paged, newest first', async () => {
  await using service = await createTestApi()
  const { api, app, actor } = service
  await createDomain(app, actor, 'sender.test')
  const ids: unknown[] = []
  for (const to of ['a@x.test', 'b@x.test', 'c@x.test'])
    ids.unshift(at((await api('POST', '/v1/emails/batch', { emails: [email(to)] })).body, 'operation_id'))
  const idsOf = (body: unknown) => (at(body, 'data') as { id: string }[]).map(({ id }) => id)
  const first = await api('GET', '/v1/operations?per_page=2')
  const second = await api('GET', '/v1/operations?per_page=2&page=2')
  expect([...idsOf(first.body), ...idsOf(second.body)]).toEqual(ids as string[])
  expect(at(second.body, 'pagination')).toEqual({ page: 2, per_page: 2, total: 3, total_pages: 2 })
  expect(idsOf((await api('GET', '/v1/operations?per_page=2&page=3')).body)).toEqual([])
  expect((await api('GET', '/v1/operations?per_page=101')).status).toBe(422)
})
