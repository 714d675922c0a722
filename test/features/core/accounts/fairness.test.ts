/**
 * @module An account with little work does not wait for an account with much work, even if that account requested
 * first.
 */
import { expect, test } from 'bun:test'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import type { ApiOptions } from '#test/support/api.ts'
import { eventually, UNLIMITED_WORK } from '#test/support/app.ts'
import { createEmailApi, EMAIL, NOW } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const createBatch = (from: string, items: number, recipients: number) => ({
  emails: Array.from({ length: items }, (_, i) => ({
    ...EMAIL,
    from,
    to: Array.from({ length: recipients }, (_, j) => `u${i}-${j}@r.test`),
  })),
})

/** A clock whose monotonic time advances by a millisecond whenever it is read. */
class TickingClock extends ManualClock {
  #ticks = 0

  override monotonicMs(): number {
    return ++this.#ticks
  }
}

// Proves: quota-10
test('a batch is validated in chunks of a few milliseconds, and other work runs between them', async () => {
  await using emails = await createEmailApi({ clock: new TickingClock(NOW), workRate: UNLIMITED_WORK })
  let reads = 0
  let mostInTurn = 0
  const items = createBatch(EMAIL.from, 500, 2).emails.map((item) => ({
    ...item,
    get subject() {
      reads++
      return 'Hello'
    },
  }))
  const batch = acceptBatch(emails.app, emails.actor, { emails: items, idempotencyKey: undefined })
  mostInTurn = reads
  for (let isOver = false; !isOver; ) {
    const before = reads
    isOver = await Promise.race([batch.then(() => true), new Promise<false>((done) => setImmediate(() => done(false)))])
    mostInTurn = Math.max(mostInTurn, reads - before)
  }
  expect((await batch).data).toHaveLength(500)
  // Chunks last 4 ms, and each email takes 1 ms.
  expect(mostInTurn).toBeLessThan(10 * (reads / 500))
})

// Proves: quota-10
test('a single page is served before the many pages that another account requested earlier', async () => {
  await using emails = await createEmailApi({ workRate: UNLIMITED_WORK })
  const other = await emails.newAccount()
  const key = await emails.newKey([], other)
  await emails.api('POST', '/v1/emails/batch', createBatch(EMAIL.from, 100, 10))
  // All requests wait before the first gets its turn, however slowly they arrive.
  const all = Promise.withResolvers<void>()
  const { fairScheduler } = emails.app
  const { waitForTurn } = fairScheduler
  const arrived: unknown[] = []
  const served: unknown[] = []
  fairScheduler.waitForTurn = async (owner, options) => {
    const isNew = options?.isNew !== false
    if (isNew && arrived.push(owner) === 41) all.resolve()
    await all.promise
    await waitForTurn.call(fairScheduler, owner, options)
    if (isNew) served.push(owner)
  }
  const ask = async (options?: ApiOptions) =>
    (await emails.api('GET', '/v1/emails?per_page=100', undefined, options)).status
  const many = Array.from({ length: 40 }, () => ask())
  await eventually(() => arrived.length === 40)
  expect(new Set(await Promise.all([...many, ask({ key })]))).toEqual(new Set([200]))
  expect(arrived.indexOf(other.accountId)).toBe(40)
  expect(served.indexOf(other.accountId)).toBeLessThan(20)
})
