import { describe, expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { hasGarbage, sweep } from '#features/core/content-gc/sweep.ts'
import { computeFairShare, findExcesses } from '#features/lifecycle/retention/cuts.ts'
import { runRetention } from '#features/lifecycle/retention/run.ts'
import { randomBelow } from '#platform/ids.ts'
import { createLog } from '#platform/log/log.ts'
import { hours, KiB, MiB, minutes } from '#platform/units.ts'
import { endAttempts, rowsOf, sizeFor } from '#test/features/lifecycle/retention/year.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import type { EmailApi } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createMailboxApi } from '#test/support/mailboxes.ts'

const random = (bytes: number): string => crypto.getRandomValues(new Uint8Array(bytes)).toHex()

const domainOf = ({ app }: Pick<EmailApi, 'app'>, { accountId }: Actor): number =>
  app.db
    .query<{ id: number }, [number]>('SELECT id FROM domains WHERE account_id = ? ORDER BY id LIMIT 1')
    .get(accountId)?.id ?? 0

/** Another account with a verified domain. */
async function newTenant(service: EmailApi, domain: string): Promise<Actor> {
  const actor = await service.newAccount()
  await service.addDomain(actor, domain)
  return actor
}

/** Inserts received messages of the given size. */
async function receive(
  service: EmailApi,
  owner: Actor,
  { count, bytes, routeId }: { readonly count: number; readonly bytes: number; readonly routeId?: number },
): Promise<void> {
  const domainId = domainOf(service, owner)
  for (let n = 0; n < count; n++)
    await storeTestInbound(
      service.app,
      { accountId: owner.accountId, domainId },
      { raw: `Subject: ${n}\r\n\r\n${random(bytes)}\r\n`, ...(routeId !== undefined && { routeId }) },
    )
}

const inboundOf = (service: EmailApi, { accountId }: Actor): number =>
  rowsOf(service, `inbound_emails WHERE account_id = ${accountId}`)

const isDue = (kinds: Record<string, number>): boolean => Object.values(kinds).some((removed) => removed > 0)

// Proves: storage-10
test("a stranger's mail to another tenant's addresses removes nothing of an account within its share", async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', 2 * MiB) } })
  const { app, actor, clock, newMailbox, deliver } = service
  const attacked = await newTenant(service, 'attacked.test')
  const mailbox = await newMailbox({ local_part: 'jobs' })
  await deliver(mailbox, { subject: 'a job' })
  await receive(service, actor, { count: 10, bytes: 20_000, routeId: 1 })
  clock.advance(hours(1))
  await receive(service, attacked, { count: 60, bytes: 100_000 })
  clock.advance(hours(1))
  await runRetention(app)
  expect({
    victim: inboundOf(service, actor),
    jobs: rowsOf(service, 'mailbox_messages'),
    attackedLost: inboundOf(service, attacked) < 60,
  }).toEqual({ victim: 10, jobs: 1, attackedLost: true })
  expectBalanced(service)
})

// Proves: inbound-11
test('an account above its share loses unrouted mail first, then the oldest', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', MiB) } })
  const { app, actor, clock } = service
  await receive(service, actor, { count: 8, bytes: 88_000, routeId: 1 })
  clock.advance(hours(1))
  await receive(service, actor, { count: 6, bytes: 88_000 })
  await runRetention(app)
  const left = () => [
    rowsOf(service, 'inbound_emails WHERE route_id = 1'),
    rowsOf(service, 'inbound_emails WHERE route_id IS NULL'),
  ]
  const [routed, unrouted = 0] = left()
  expect({ routed, isUnroutedCut: unrouted < 6 }).toEqual({ routed: 8, isUnroutedCut: true })
  clock.advance(hours(1))
  await receive(service, actor, { count: 5, bytes: 88_000, routeId: 1 })
  await runRetention(app)
  const { first } = app.db.query<{ first: number }, []>('SELECT min(id) AS first FROM inbound_emails').get() ?? {}
  expect({
    unrouted: left()[1],
    isOldestGone: (first ?? 0) > 1,
    isNewestKept: rowsOf(service, 'inbound_emails WHERE id > 14'),
  }).toEqual({
    unrouted: 0,
    isOldestGone: true,
    isNewestKept: 5,
  })
  expectBalanced(service)
})

// Proves: storage-12
test('unread mailbox messages are never removed for size, but the excess is logged; read ones are removed', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', MiB) } })
  const { app, api, path, newMailbox, deliver, clock } = service
  const mailbox = await newMailbox({ local_part: 'jobs' })
  for (let n = 0; n < 20; n++) await deliver(mailbox, { subject: `job ${n}`, text: 'x', raw: random(100_000) })
  clock.advance(hours(1))
  const lines: string[] = []
  const logged = { ...app, log: createLog('warn', { write: (line) => void lines.push(line) }) }
  expect(isDue(await runRetention(logged))).toBe(false)
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({ kind: 'inbound', accounts: 1, first: [expect.objectContaining({ before: null })] }),
  ])
  for (let n = 0; n < 10; n++) {
    const next = await api('GET', path(mailbox, '/messages/next?timeout=0'))
    const [id, lease] = [at(next.body, 'data', 'id'), at(next.body, 'lease_token')]
    const ack = await api('POST', path(mailbox, `/messages/${String(id)}/ack`), { lease_token: lease })
    expect(ack.status).toBe(204)
  }
  await runRetention(app)
  // Unread messages count for at most half of what the account may keep, some 500,000 bytes.
  expect({
    unread: rowsOf(service, 'mailbox_messages WHERE read_at IS NULL'),
    read: rowsOf(service, 'mailbox_messages WHERE read_at IS NOT NULL'),
  }).toEqual({ unread: 10, read: 4 })
  expectBalanced(service)
})

// Proves: storage-12
test('unread mailbox messages use at most half of the share; the newest other mail keeps the rest', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', MiB) } })
  const { app, actor, clock, newMailbox, deliver } = service
  const mailbox = await newMailbox({ local_part: 'jobs' })
  await receive(service, actor, { count: 8, bytes: 44_000, routeId: 1 })
  clock.advance(hours(1))
  for (let n = 0; n < 20; n++) await deliver(mailbox, { subject: `${n}`, text: 'x', raw: random(100_000) })
  clock.advance(hours(1))
  await runRetention(app)
  expect({ routed: inboundOf(service, actor), unread: rowsOf(service, 'mailbox_messages') }).toEqual({
    routed: 8,
    unread: 20,
  })
  await receive(service, actor, { count: 8, bytes: 100_000, routeId: 1 })
  clock.advance(hours(1))
  await runRetention(app)
  expect(rowsOf(service, 'inbound_emails WHERE id > 8')).toBe(inboundOf(service, actor))
  expect(inboundOf(service, actor)).toBeGreaterThan(2)
  expectBalanced(service)
})

// Proves: storage-10
test('budgets apply before the sweep has run, and do not count removed data that is still in the files', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', MiB) } })
  const { app, actor, clock } = service
  await receive(service, actor, { count: 20, bytes: 100_000, routeId: 1 })
  // Creates garbage, as every message to a mailbox does.
  await app.commit.write((tx) => dropContent(app, tx, { content: [1] }))
  const first = await runRetention(app)
  expect(first.inbound).toBeGreaterThan(8)
  clock.advance(hours(1))
  // The removed data is still in the files, and nothing more is removed for it.
  expect(hasGarbage(app.db)).toBe(true)
  expect(await runRetention(app)).toMatchObject({ inbound: 0 })
  await sweep(app)
  expectBalanced(service)
})

/** Sends emails with bodies of the given size, and completes them. */
async function send(service: EmailApi, key: string, from: string, count: number, bytes: number): Promise<void> {
  for (let n = 0; n < count; n++)
    await service.accepted({ from, to: `${n}@receiver.test`, text_body: random(bytes) }, { key })
  service.clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
  service.clock.advance(hours(1))
}

// Proves: storage-10, storage-12
test('content, events and emails of an account within its share stay, those of one above it are removed', async () => {
  await using service = await createMailboxApi({
    settings: { TASSIS_DATA_MAX_BYTES: sizeFor('logs', 160 * KiB) },
  })
  const { app, key, actor, accepted } = service
  const heavy = await newTenant(service, 'heavy.test')
  const heavyKey = await service.newKey([], heavy)
  await send(service, key, 'ada@sender.test', 20, 500)
  const waiting = await accepted(
    { from: 'a@heavy.test', to: 'later@waiting.test', text_body: random(5000) },
    { key: heavyKey },
  )
  await send(service, heavyKey, 'a@heavy.test', 250, 1000)
  for (let run = 0; run < 4; run++) await runRetention(app)
  const of = ({ accountId }: Actor) => ({
    content: rowsOf(service, `emails WHERE account_id = ${accountId} AND text_ref IS NOT NULL`),
    events: rowsOf(service, `events WHERE account_id = ${accountId}`),
    emails: rowsOf(service, `emails WHERE account_id = ${accountId}`),
  })
  expect(of(actor)).toEqual({ content: 20, events: 60, emails: 20 })
  const { content, events, emails } = of(heavy)
  expect({ content: content < 200, events: events < 500, emails: emails < 200 && emails > 20 }).toEqual({
    content: true,
    events: true,
    emails: true,
  })
  expect(await service.detail(waiting.id, { key: heavyKey })).toMatchObject({
    status: 'queued',
    text_body: expect.any(String),
  })
  expectBalanced(service)
})

test('a shared blob is counted once, and not against an account that sends it often', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('content', MiB) } })
  const { app, key, accepted, clock } = service
  const content = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString('base64')
  for (let n = 0; n < 30; n++)
    await accepted(
      { to: `${n}@receiver.test`, attachments: [{ filename: 'a.bin', content, content_type: 'text/plain' }] },
      { key },
    )
  clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test', [{ kind: 'sent', reply: '250 OK' }])
  clock.advance(hours(1))
  const heavy = await newTenant(service, 'heavy.test')
  await send(service, await service.newKey([], heavy), 'a@heavy.test', 150, 8000)
  await runRetention(app)
  expect(rowsOf(service, `emails WHERE account_id = ${heavy.accountId} AND text_ref IS NULL`)).toBeGreaterThan(0)
  expect(rowsOf(service, `emails WHERE account_id <> ${heavy.accountId} AND text_ref IS NOT NULL`)).toBe(30)
})

// Proves: storage-10
test('sub-accounts divide the share of their parent, and one that uses little loses nothing', async () => {
  await using service = await createMailboxApi({ settings: { TASSIS_DATA_MAX_BYTES: sizeFor('inbound', 3 * MiB) } })
  const { app, actor, clock } = service
  const parent = await newTenant(service, 'parent.test')
  const children: Actor[] = []
  for (const domain of ['one.test', 'two.test', 'small.test']) {
    const child = await newTenant(service, domain)
    app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [parent.accountId, child.accountId])
    children.push(child)
  }
  const [one, two, small] = children
  if (!one || !two || !small) throw new Error('there are three')
  await receive(service, small, { count: 3, bytes: 20_000, routeId: 1 })
  await receive(service, actor, { count: 12, bytes: 100_000, routeId: 1 })
  clock.advance(hours(1))
  for (const child of [one, two]) await receive(service, child, { count: 12, bytes: 100_000, routeId: 1 })
  await runRetention(app)
  // Three separate accounts with 1.2 MB each would lose equally.
  expect({
    other: inboundOf(service, actor),
    small: inboundOf(service, small),
    isOneCut: inboundOf(service, one) < 10,
    isTwoCut: inboundOf(service, two) < 10,
  }).toEqual({ other: 12, small: 3, isOneCut: true, isTwoCut: true })
})

describe('a fair share', () => {
  test('is an equal part of what accounts below it leave over', () => {
    expect(computeFairShare([1, 2, 30, 40], 23)).toBe(10)
    expect(computeFairShare([40, 30], 20)).toBe(10)
    expect(computeFairShare([5], 4)).toBe(4)
  })

  test('is unlimited when everything fits', () => {
    expect([computeFairShare([], 1), computeFairShare([1, 2, 30], 33)]).toEqual([
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    ])
  })

  test('brings any use within the budget, and takes nothing from an account below an equal share', () => {
    for (let round = 0; round < 500; round++) {
      const uses = new Map(Array.from({ length: 1 + (round % 9) }, (_, id) => [id + 1, randomBelow(1000)]))
      const budget = 1 + randomBelow(3000)
      const kept = new Map(uses)
      for (const { accountId, keptBytes, usedBytes, shareBytes } of findExcesses(uses, budget, new Map())) {
        expect({ usedBytes, isAbove: usedBytes > shareBytes }).toEqual({
          usedBytes: uses.get(accountId) ?? 0,
          isAbove: true,
        })
        expect(shareBytes).toBeGreaterThanOrEqual(budget / uses.size - 1e-6)
        kept.set(accountId, keptBytes)
      }
      expect([...kept.values()].reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(budget)
    }
  })
})
