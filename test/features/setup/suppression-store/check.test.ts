import { describe, expect, test } from 'bun:test'
import { listSuppressions } from '#features/audience/suppressions/suppressions.ts'
import { suppressionOf, toSuppressionKey } from '#features/setup/suppression-store/check.ts'
import {
  eraseSuppressions,
  suppress,
  unsuppress,
  unsuppressAddress,
} from '#features/setup/suppression-store/suppress.ts'
import type { Tx } from '#platform/db/open.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'

describe('the key of an address', () => {
  // Proves: suppress-7
  test.each([
    ['Bob@Example.COM', 'bob@example.com'],
    ['JOS\u00c9@Example.com', 'jos\u00e9@example.com'],
    ['jose\u0301@example.com', 'jos\u00e9@example.com'],
    ['bob@B\u00dcCHER.example', 'bob@xn--bcher-kva.example'],
    ['bob@XN--BCHER-KVA.example', 'bob@xn--bcher-kva.example'],
    ['"bob"@example.com', 'bob@example.com'],
    ['"b\\ ob"@example.com', '"b ob"@example.com'],
    ['\u0391\u03a3@example.com', '\u03b1\u03c3@example.com'],
    [' bob@example.com ', 'bob@example.com'],
    ['\u0130rem@example.com', 'i\u0307rem@example.com'],
    ['no address', 'no address'],
    ['', ''],
  ])('of %j is %j', (address, key) => expect(toSuppressionKey(address)).toBe(key))
})

async function startService() {
  const service = await createTestApp()
  const { app } = service
  const { accountId } = await createTestAccount(app)
  const place = { accountId, address: 'Bob@x.test' }
  return {
    service,
    accountId,
    put: (more: Partial<Parameters<typeof suppress>[2]>) =>
      app.commit.write((tx) => suppress(app, tx, { ...place, reason: 'unsubscribe', covers: 'marketing', ...more })),
    take: (more: Partial<Parameters<typeof unsuppress>[1]>) =>
      app.commit.write((tx) => unsuppress(tx, { ...place, covers: 'marketing', ...more })),
    /** The reason of the suppression that stops mail of a stream, to a list. */
    stopped: (transactional: boolean, streamId = 1, listId?: number) =>
      suppressionOf(app.db, { accountId, address: 'bob@X.test', transactional, streamId, listId })?.reason,
    write: (run: (tx: Tx) => undefined) => app.commit.write(run),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

test('the first suppression of all mail stays, and each unsubscription has its own row', async () => {
  await using t = await startService()
  expect(await t.put({ covers: 'all', reason: 'hard_bounce' })).toBe(true)
  expect(await t.put({ covers: 'all', reason: 'complaint', streamId: 7 })).toBe(false)
  expect(await t.put({ streamId: 7 })).toBe(true)
  expect(await t.put({ streamId: 7 })).toBe(false)
  expect(await t.put({})).toBe(true)
  expect(await t.put({ listId: 3 })).toBe(true)
  expect(
    t.service.app.db.query('SELECT covers, stream_id, list_id, reason FROM suppressions ORDER BY id').all(),
  ).toEqual([
    { covers: 0, stream_id: 0, list_id: 0, reason: 'hard_bounce' },
    { covers: 1, stream_id: 7, list_id: 0, reason: 'unsubscribe' },
    { covers: 1, stream_id: 0, list_id: 0, reason: 'unsubscribe' },
    { covers: 1, stream_id: 0, list_id: 3, reason: 'unsubscribe' },
  ])
  expectBalanced(t.service)
})

test('an unsubscription stops marketing mail of its stream, of its list, or all marketing mail', async () => {
  await using t = await startService()
  await t.put({ streamId: 7 })
  expect([t.stopped(false, 7), t.stopped(false, 8), t.stopped(true, 7), t.stopped(false, 7, 3)]).toEqual([
    'unsubscribe',
    undefined,
    undefined,
    'unsubscribe',
  ])
  await t.take({ streamId: 7 })
  await t.put({ listId: 3 })
  expect([t.stopped(false, 7), t.stopped(false, 7, 3), t.stopped(false, 7, 4)]).toEqual([
    undefined,
    'unsubscribe',
    undefined,
  ])
  await t.put({})
  expect([t.stopped(false, 8), t.stopped(false, 9, 4), t.stopped(true, 7, 3)]).toEqual([
    'unsubscribe',
    'unsubscribe',
    undefined,
  ])
})

test('unsubscriptions from any number of streams are found, and a suppression of all mail comes first', async () => {
  await using t = await startService()
  for (let streamId = 1; streamId <= 50; streamId++) await t.put({ streamId })
  await t.put({ streamId: 60, listId: 3 })
  expect([1, 50, 51].map((streamId) => t.stopped(false, streamId))).toEqual(['unsubscribe', 'unsubscribe', undefined])
  expect([t.stopped(false, 60), t.stopped(false, 60, 3), t.stopped(true, 50)]).toEqual([
    undefined,
    'unsubscribe',
    undefined,
  ])
  await t.put({ covers: 'all', reason: 'hard_bounce' })
  expect([t.stopped(false, 51), t.stopped(false, 50), t.stopped(true, 51)]).toEqual(Array(3).fill('hard_bounce'))
})

test('an address that is listed in clear and, after an old import, by hash is stopped, erased and removed in both forms', async () => {
  await using t = await startService()
  const { app } = t.service
  await t.put({})
  await app.commit.write((tx) => eraseSuppressions(tx, t.accountId, 'bob@x.test'))
  const hash = String(app.db.query<{ address: string }, []>('SELECT address FROM suppressions').get()?.address)
  const takeOff = () => app.commit.write((tx) => unsuppressAddress(tx, t.accountId, 'bob@x.test'))
  expect([await takeOff(), t.stopped(true)]).toEqual([['unsubscribe'], undefined])
  await t.put({ covers: 'all', reason: 'complaint' })
  await t.put({ streamId: 7 })
  await t.put({ address: hash, streamId: 7 })
  await t.put({ address: hash, streamId: 8 })
  expect([t.stopped(true), t.stopped(false, 8)]).toEqual(['complaint', 'complaint'])
  const listed = listSuppressions(app.db, t.accountId, { address: 'bob@x.test' }, { limit: 9, offset: 0 })
  expect([listed.total, listed.suppressions.length]).toEqual([4, 4])
  expect(await app.commit.write((tx) => ({ rows: eraseSuppressions(tx, t.accountId, 'bob@x.test') }))).toEqual({
    rows: 2,
  })
  expect(app.db.query('SELECT address, stream_id, reason FROM suppressions ORDER BY id').values()).toEqual([
    [hash, 0, 'complaint'],
    [hash, 7, 'unsubscribe'],
    [hash, 8, 'unsubscribe'],
  ])
  expectBalanced(t.service)
  await t.put({ address: hash, covers: 'all', reason: 'manual' })
  expect([await takeOff(), t.stopped(true)]).toEqual([['complaint', 'unsubscribe', 'unsubscribe'], undefined])
  expectBalanced(t.service)
})

test('the counter of a reason is deleted with its last row', async () => {
  await using t = await startService()
  for (const reason of ['one', 'two', 'three']) {
    await t.put({ covers: 'all', reason })
    await t.take({ covers: 'all' })
  }
  expect(t.service.app.db.query("SELECT metric FROM counters WHERE metric LIKE 'suppressions%'").all()).toEqual([])
})

test('unsuppress removes one row, and only if it has the requested reason', async () => {
  await using t = await startService()
  await t.put({ streamId: 7 })
  await t.put({})
  expect(await t.take({ streamId: 7, reason: 'complaint' })).toBe(false)
  expect(await t.take({ streamId: 8 })).toBe(false)
  expect(await t.take({ streamId: 7, reason: 'unsubscribe' })).toBe(true)
  expect(await t.take({ streamId: 7 })).toBe(false)
  expect(t.stopped(false, 7)).toBe('unsubscribe')
  expect(await t.take({})).toBe(true)
  expect(t.stopped(false, 7)).toBeUndefined()
  expectBalanced(t.service)
})

test('a write that rolls back leaves neither a row nor a count', async () => {
  await using t = await startService()
  const { app } = t.service
  const undone = app.commit.write((tx) => {
    suppress(app, tx, { accountId: t.accountId, address: 'bob@x.test', reason: 'manual', covers: 'all' })
    throw new Error('undo')
  })
  await expect(undone).rejects.toThrow('undo')
  expect(t.stopped(true)).toBeUndefined()
  expectBalanced(t.service)
})
