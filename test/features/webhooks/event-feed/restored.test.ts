import { expect, test } from 'bun:test'
import { countNumbers, numberOfNth, skipNumbers } from '#features/core/events/gaps.ts'
import { listBounces } from '#features/drop-in/postmark/bounces.ts'
import { countReplay } from '#features/webhooks/webhooks/history/replay.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { openStream, page, readAll, recordEvents } from './feed-client.ts'

/** Skips numbers as a restored copy does; returns the last skipped one. */
const restore = ({ app }: Pick<TestApi, 'app'>): number =>
  app.db.transaction(() => skipNumbers(app.db, app.clock.now())).immediate()

const record = ({ app, actor }: TestApi, count: number): Promise<void> =>
  recordEvents(app, actor.accountId, Array<'insights.generated'>(count).fill('insights.generated'))

const seqsOf = (events: readonly { readonly seq: number }[]): number[] => events.map(({ seq }) => seq)

// Proves: feed-3
test('after a restore, readers at the end of the backup go on, and those beyond it get a 410 with where to go on', async () => {
  await using service = await createTestApi()
  const { api, url, key } = service
  await record(service, 3)
  const last = restore(service)
  expect(seqsOf((await page(api, '?after=3')).data)).toEqual([])
  await record(service, 2)
  const all = [1, 2, 3, last + 1, last + 2]
  for (const after of [3, last]) expect(seqsOf((await page(api, `?after=${after}`)).data)).toEqual(all.slice(3))
  expect(seqsOf(await readAll(api, 0, 1))).toEqual(all)
  for (const after of [4, 20_000, last - 1]) {
    const answer = await api('GET', `/v1/events?after=${after}`)
    expect(answer).toMatchObject({
      status: 410,
      body: { code: 'events_not_kept', next_after: last, first_seq: 1, last_seq: last + 2 },
    })
    expect(at(answer.body, 'message')).toContain(`after=${last}`)
  }
  expect((await api('GET', `/v1/events?after=${last + 3}`)).status).toBe(422)
  // Newest first, in pages that meet the gap, and with a place within it.
  const newest: number[] = []
  for (let before: number | null | undefined = last + 3; before; ) {
    const { data, next_before } = await page(api, `?order=newest&limit=2&before=${before}`)
    newest.push(...seqsOf(data))
    before = next_before
  }
  expect(newest).toEqual(all.toReversed())
  expect(seqsOf((await page(api, '?order=newest&before=20000')).data)).toEqual([3, 2, 1])
  using stream = await openStream(url, { key, query: '?after=2' })
  expect([(await stream.next())?.id, (await stream.next())?.id]).toEqual(['3', String(last + 1)])
  expectBalanced({ ...service, delivery: undefined })
})

test('the numbers of an account without events begin after those that a restore skipped, also after several', async () => {
  await using service = await createTestApi()
  const { api } = service
  const [first, second] = [restore(service), restore(service)]
  expect(second).toBeGreaterThan(first)
  expect(await page(api)).toMatchObject({ data: [], next_after: second, first_seq: second + 1, last_seq: second })
  expect((await api('GET', '/v1/events?after=5')).status).toBe(410)
  await record(service, 1)
  const third = restore(service)
  const fourth = restore(service)
  await record(service, 1)
  expect(seqsOf(await readAll(api, second))).toEqual([second + 1, fourth + 1])
  expect((await api('GET', `/v1/events?after=${third}`)).status).toBe(410)
  expectBalanced({ ...service, delivery: undefined })
})

test('lists that search through event numbers skip those of a restore', async () => {
  await using service = await createTestApi()
  const { app, actor } = service
  await recordEvents(app, actor.accountId, ['bounced', 'bounced'])
  const last = restore(service)
  await recordEvents(app, actor.accountId, ['bounced'])
  const { Bounces } = await listBounces(app, actor.accountId, { count: '10', offset: '0' }, async () => undefined)
  expect(Bounces.map(({ ID }) => ID)).toEqual([last + 1, 2, 1])
})

test('a replay over the numbers that a restore skipped counts and scans only events', async () => {
  await using service = await createTestApi()
  const { app, actor, api } = service
  const created = await api('POST', '/v1/webhooks', { url: 'https://hooks.test/', events: ['bounced'] })
  const id = String(at(created.body, 'data', 'id'))
  await recordEvents(app, actor.accountId, ['bounced', 'bounced'])
  const last = restore(service)
  await recordEvents(app, actor.accountId, ['bounced'])
  const webhook = app.db.query<{ id: number }, []>('SELECT id FROM webhooks').get()?.id ?? 0
  app.db.run('UPDATE webhooks SET cursor_seq = ? WHERE id = ?', [last + 1, webhook])
  const count = await countReplay(app, actor, id, { from_seq: 1 })
  expect(count).toEqual({ deliveries: 3, fromSeq: 1, toSeq: last + 1 })
  expect(countNumbers(app.db, actor.accountId, 1, last + 1)).toBe(3)
  expect([2, 3].map((n) => numberOfNth(app.db, actor.accountId, 1, n))).toEqual([2, last + 1])
  expect(countNumbers(app.db, actor.accountId, 20_000, last)).toBe(0)
  expect(numberOfNth(app.db, actor.accountId, 20_000, 1)).toBe(last + 1)
})
