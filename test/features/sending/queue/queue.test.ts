import { describe, expect, test } from 'bun:test'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import {
  COUNTED_ENTRIES,
  claimDue,
  countOpen,
  findInterruptedRecipients,
  joinLanes,
  type OpenLane,
  QUEUE_START,
  type QueuePosition,
} from '#features/sending/queue/queue.ts'
import {
  addRule,
  findHold,
  findPool,
  findRedirect,
  hasProviderRules,
  listSelectedLanes,
  readSelected,
  removeRules,
} from '#features/sending/queue/queue-rules.ts'
import { deriveEmailStatus, type Status, statusCode } from '#features/sending/queue/status.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { createFolder } from '#test/support/folder.ts'

/** A service with one email, and `count` recipients in each of many lanes, which no counter counts. */
async function createLanes(lanes: number, count: number, accountId?: number): Promise<TestApp> {
  const service = await createTestApp()
  const { app } = service
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  const draft = { from: 'ada@sender.test', to: 'ann@d0.test', subject: 'Hi', text_body: 'Hi' }
  await acceptEmail(app, actor, createDraft(app, draft))
  app.db.run('DELETE FROM recipients')
  app.db.run(
    `INSERT INTO recipients (email_id, kind, address, status, lane, next_at)
     WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${lanes * count - 1})
     SELECT 1, 0, 'x@d', 0, iif(i % 3 = 0, 'bulk:', '') || ${accountId ?? 'i % 7 + 1'} || ':d' || i % ${lanes} || '.test', 1000 + i % 5 FROM n`,
  )
  return service
}

test('lanes are counted in batches of recipients, whatever their size', async () => {
  await using service = await createLanes(40, 11)
  const { db } = service.app
  const lanes = db
    .query<OpenLane, []>('SELECT lane, min(next_at) AS firstAt, count(*) AS waiting FROM recipients GROUP BY lane')
    .all()
    .sort((a, b) => (a.lane < b.lane ? -1 : 1))
  for (const limit of [1, 7, 100, COUNTED_ENTRIES]) {
    const found: OpenLane[] = []
    for (let place: QueuePosition | undefined = QUEUE_START; place; ) {
      const counted = countOpen(db, place, limit)
      expect(counted.lanes.reduce((sum, { waiting }) => sum + waiting, 0)).toBeLessThanOrEqual(limit)
      joinLanes(found, counted.lanes)
      place = counted.place
    }
    expect(found).toEqual(lanes)
  }
  expect(listSelectedLanes(db, {}, '', 10_000).lanes).toEqual(lanes.map(({ lane, firstAt }) => ({ lane, firstAt })))
  expect(listSelectedLanes(db, {}, lanes[4]?.lane ?? '', 2).lanes).toEqual(
    lanes.slice(5, 7).map(({ lane, firstAt }) => ({ lane, firstAt })),
  )
})

test('a claim takes what became due last or first, and returns it in the order in which it became due', async () => {
  await using service = await createLanes(1, 5, 1)
  const { app } = service
  const lane = listSelectedLanes(app.db, {}, '', 1).lanes[0]?.lane ?? ''
  app.db.run('UPDATE recipients SET lane = ?, next_at = 1000 + id', [lane])
  const rows = app.db.query<{ id: number }, []>('SELECT id FROM recipients ORDER BY id').all()
  const ids = rows.map(({ id }) => id)
  const claim = (isNewestFirst: boolean, limit: number) =>
    app.commit.write((tx) => {
      const claimed = claimDue(tx, lane, { now: 2000, eventTime: 2000, limit, retryAt: () => 3000, isNewestFirst })
      return claimed.map(({ recipientId }) => recipientId)
    })
  expect(await claim(true, 2)).toEqual(ids.slice(3))
  expect(await claim(false, 3)).toEqual(ids.slice(0, 3))
})

test('recipients that were claimed are found in batches, each once', async () => {
  await using service = await createLanes(20, 5)
  const { db } = service.app
  db.run('UPDATE recipients SET status = ? WHERE id % 9 = 0', [statusCode('processing')])
  const expected = db.query<{ id: number }, []>('SELECT id FROM recipients WHERE id % 9 = 0').all()
  for (const limit of [1, 3, 1000]) {
    const ids: number[] = []
    for (let place: QueuePosition | undefined = QUEUE_START; place; ) {
      const found = findInterruptedRecipients(db, place, limit)
      expect(found.interrupted.length).toBeLessThanOrEqual(limit)
      ids.push(...found.interrupted.map(({ id }) => id))
      place = found.place
    }
    expect(ids.sort((a, b) => a - b)).toEqual(expected.map(({ id }) => id))
  }
})

test('selected mail is read in batches, each recipient once, with its ordinary and its broadcast lanes', async () => {
  await using service = await createLanes(900, 2)
  const { db } = service.app
  for (const selector of [{ accountId: 3 }, { domain: 'd8.test' }, { accountId: 2, domain: 'd8.test' }, {}]) {
    const ids: number[] = []
    for (let place: QueuePosition | undefined = QUEUE_START; place; ) {
      const read = readSelected(db, selector, place, 7)
      expect(read.recipients.length).toBeLessThanOrEqual(7)
      ids.push(...read.recipients.map(({ id }) => id))
      place = read.place
    }
    const { accountId, domain } = selector as { accountId?: number; domain?: string }
    const rows = db.query<{ id: number; lane: string }, []>('SELECT id, lane FROM recipients ORDER BY id').all()
    const expected = rows.filter(({ lane }) => {
      const [account, name] = lane.replace('bulk:', '').split(':')
      return (accountId === undefined || account === String(accountId)) && (domain === undefined || name === domain)
    })
    expect(ids.sort((a, b) => a - b)).toEqual(expected.map(({ id }) => id))
    const lanes: string[] = []
    for (let after: string | undefined = ''; after !== undefined; ) {
      const listed = listSelectedLanes(db, selector, after)
      lanes.push(...listed.lanes.map(({ lane }) => lane))
      after = listed.next
    }
    expect(lanes).toEqual([...new Set(expected.map(({ lane }) => lane))].sort())
  }
})

test('a start wakes every lane, however many there are', async () => {
  using folder = createFolder()
  const domains = 70
  const settings = { TASSIS_DELIVERY: 'capture' }
  {
    await using service = await createTestApp({ dataDir: folder.path, settings })
    const actor = await createTestAccount(service.app)
    await createDomain(service.app, actor, 'sender.test')
    service.app.db.run('UPDATE domains SET verified_at = 1')
    for (let i = 0; i < domains; i++) {
      const draft = { from: 'ada@sender.test', to: `ann@d${i}.test`, subject: 'Hi', text_body: 'Hi' }
      await acceptEmail(service.app, actor, createDraft(service.app, draft))
    }
  }
  await using service = await createTestApp({ dataDir: folder.path, settings, delivers: true })
  await eventually(() => listSelectedLanes(service.app.db, {}, '', 1).lanes.length === 0)
})

const RULE = { reason: 'a test', createdBy: 'operator', createdAt: 0 } as const

test('rules are found in their transaction and after its commit, and not after a failed one', async () => {
  await using service = await createTestApp()
  const { app } = service
  const { db, commit } = app
  const { accountId } = await createTestAccount(app)
  const lane = `${accountId}:held.test`
  const look = (database = db) => ({
    hold: findHold(database, lane)?.reason,
    redirect: findRedirect(database, lane),
    pool: findPool(database, accountId),
    ofProviders: hasProviderRules(database),
  })
  const none = { hold: undefined, redirect: undefined, pool: undefined, ofProviders: false }
  expect(look()).toEqual(none)

  const seen = await commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'hold', selector: { domain: 'held.test' } })
    return look(tx.db)
  })
  expect(seen).toEqual({ ...none, hold: 'a test' })
  expect(look()).toEqual({ ...none, hold: 'a test' })

  const failing = commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'redirect', selector: { accountId }, target: 'mx.other.test' })
    expect(look(tx.db).redirect).toBe('mx.other.test')
    throw new Error('refused')
  })
  await expect(failing).rejects.toThrow('refused')
  expect(look()).toEqual({ ...none, hold: 'a test' })

  await commit.write((tx) => {
    addRule(tx, { ...RULE, kind: 'redirect', selector: { provider: 'gmail' }, target: 'mx.other.test' })
    addRule(tx, { ...RULE, kind: 'pool', selector: { accountId }, target: 'news' })
  })
  expect(look()).toEqual({ hold: 'a test', redirect: undefined, pool: 'news', ofProviders: true })
  expect(findRedirect(db, lane, 'gmail')).toBe('mx.other.test')

  await commit.write((tx) => removeRules(tx, {}, undefined))
  await commit.write((tx) => removeRules(tx, {}, 'pool'))
  expect(look()).toEqual(none)
})

const cases: readonly [recipients: Status[], email: Status][] = [
  [['queued'], 'queued'],
  [['scheduled'], 'scheduled'],
  [['queued', 'queued'], 'queued'],
  [['scheduled', 'scheduled'], 'scheduled'],
  [['queued', 'rejected'], 'queued'],
  [['queued', 'scheduled'], 'queued'],
  [['sent', 'scheduled'], 'processing'],
  [['processing', 'queued'], 'processing'],
  [['sent', 'queued'], 'processing'],
  [['bounced', 'processing'], 'processing'],
  [['sent', 'sent'], 'sent'],
  [['sent', 'bounced'], 'bounced'],
  [['uncertain', 'bounced', 'sent'], 'uncertain'],
  [['failed', 'uncertain', 'sent'], 'failed'],
  [['sent', 'rejected'], 'sent'],
  [['rejected', 'bounced'], 'bounced'],
  [['rejected', 'rejected'], 'rejected'],
  [['cancelled', 'cancelled'], 'cancelled'],
  [['rejected', 'cancelled'], 'cancelled'],
  [['rejected', 'scheduled'], 'scheduled'],
]

describe('the status of an email follows from its recipients', () => {
  // Proves: status-3, status-10
  test.each(cases)('%j = %s', (recipients, email) => expect(deriveEmailStatus(recipients)).toBe(email))
})
