/**
 * @module An account with little work does not wait for an account with much work, even if that account requested
 * first.
 */
import { expect, test } from 'bun:test'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { createEmailApi, EMAIL, NOW } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

/**
 * Creates an account with much work and one with little; `finish` records the order in which requests got their
 * responses.
 */
async function startAccounts() {
  const emails = await createEmailApi({ settings: { TASSIS_WORK_PER_SECOND: '0' } })
  const other = await emails.newAccount()
  await emails.addDomain(other, 'other.test')
  const order: string[] = []
  return {
    emails,
    other: await emails.newKey([], other),
    order,
    finish: async (name: string, answer: ReturnType<typeof emails.api>, status: number) => {
      expect([name, (await answer).status]).toEqual([name, status])
      order.push(name)
    },
    [Symbol.asyncDispose]: () => emails[Symbol.asyncDispose](),
  }
}

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
  await using emails = await createEmailApi({ clock: new TickingClock(NOW), settings: { TASSIS_WORK_PER_SECOND: '0' } })
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
  await using accounts = await startAccounts()
  const { emails, order, finish, other } = accounts
  await emails.api('POST', '/v1/emails/batch', createBatch(EMAIL.from, 100, 10))
  const page = '/v1/emails?per_page=100'
  const many = Array.from({ length: 40 }, (_, n) => finish(`many ${n}`, emails.api('GET', page), 200))
  await Promise.all([...many, finish('one', emails.api('GET', page, undefined, { key: other }), 200)])
  expect(order.indexOf('one')).toBeLessThan(20)
})
