/**
 * @module Transitions of broadcast recipients: begun recipients are counted, and recipients without an attempt can be
 * withdrawn or held.
 */
import { expect, test } from 'bun:test'
import { giveQuotaBack } from '#features/core/accounts/accounts.ts'
import { deferRecipient, releaseRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { suppressedOutcome } from '#features/sending/queue/insert.ts'
import { claimDue, noteWaiting, readWaiting } from '#features/sending/queue/queue.ts'
import { begunMetric } from '#features/sending/queue/settle.ts'
import {
  cancelWaiting,
  holdWaiting,
  rejectRecipient,
  releaseHeld,
} from '#features/sending/queue/waiting-transitions.ts'
import type { Tx } from '#platform/db/open.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

const BROADCAST = 7
const LANE = 'bulk:1:receiver.test'

interface Row {
  readonly id: number
  readonly emailId: number
  readonly status: number
  readonly attempts: number
  readonly lane: string | null
  readonly nextAt: number | null
}

interface Queue extends AsyncDisposable {
  readonly service: EmailApi
  /** The row of the recipient with this local part. */
  row(local: string): Row
  /** What transitions of this recipient begin with. */
  of(local: string): { recipientId: number; emailId: number; now: number }
  begun(): number
  move<T>(run: (tx: Tx) => T extends PromiseLike<unknown> ? never : T): Promise<T>
  release(local: string): Promise<void>
  /** For five minutes. */
  defer(local: string): Promise<void>
  claim(limit?: number): Promise<string[]>
}

/** A broadcast with one waiting email per recipient. */
async function startQueue(locals: readonly string[]): Promise<Queue> {
  const service = await createEmailApi()
  const { app } = service
  for (const local of locals) await service.accepted({ to: `${local}@receiver.test` })
  app.db.run(
    `INSERT INTO operations (id, uuid, account_id, operation_type, status, total_items, completed_items, failed_items, created_at, updated_at, expires_at)
     SELECT ?, uuid, account_id, 'broadcast', 'processing', 0, 0, 0, 0, 0, 0 FROM emails LIMIT 1`,
    [BROADCAST],
  )
  app.db.run('UPDATE emails SET broadcast_id = ?1, operation_id = ?1', [BROADCAST])
  app.db.run('UPDATE recipients SET lane = ?', [LANE])
  const rows = () =>
    app.db
      .query<Row & { address: string }, []>(
        'SELECT id, email_id AS emailId, address, status, attempts, lane, next_at AS nextAt FROM recipients ORDER BY id',
      )
      .all()
  const row = (local: string): Row => {
    const found = rows().find(({ address }) => address === `${local}@receiver.test`)
    if (!found) throw new Error(`there is no ${local}`)
    const { address: _, ...rest } = found
    return rest
  }
  const of: Queue['of'] = (local) => ({ recipientId: row(local).id, emailId: row(local).emailId, now: app.clock.now() })
  return {
    service,
    row,
    of,
    begun: () =>
      app.db
        .query<{ value: number }, [string]>('SELECT value FROM counters WHERE hour = 0 AND metric = ?')
        .get(begunMetric(BROADCAST))?.value ?? 0,
    move: (run) => app.commit.write(run),
    release: (local) =>
      app.commit.write((tx) => {
        const { recipientId, emailId, now } = of(local)
        releaseRecipient(tx, recipientId, emailId, now, now)
      }),
    defer: (local) =>
      app.commit.write((tx) => {
        const deferral = { ...of(local), nextAt: app.clock.now() + minutes(5), reason: 'later' }
        deferRecipient(tx, deferral, { lastError: 'later' })
      }),
    claim: (limit = 100) =>
      app.commit.write((tx) => {
        const now = app.clock.now()
        const claimed = claimDue(tx, LANE, { now, eventTime: now, limit, retryAt: () => now + minutes(5) })
        return claimed.map(
          ({ recipientId }) =>
            rows()
              .find(({ id }) => id === recipientId)
              ?.address.replace(/@.*/, '') ?? '',
        )
      }),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

const events = ({ service }: Queue, { emailId }: Row): string[] =>
  service.app.db
    .query<{ type: number; recipient: number | null }, [number]>(
      'SELECT type, recipient_id AS recipient FROM events WHERE email_id = ? ORDER BY seq',
    )
    .all(emailId)
    .map(({ type, recipient }) => `${type}${recipient === null ? '' : ` of ${recipient}`}`)

test('a recipient counts as begun once, however often it is attempted, and not if it is released without an attempt', async () => {
  await using queue = await startQueue(['a', 'b', 'c'])
  const { service, begun, claim } = queue
  const { app, clock } = service
  expect(begun()).toBe(0)
  expect(await claim(1)).toEqual(['a'])
  expect(begun()).toBe(1)
  await queue.release('a')
  expect(begun()).toBe(0)
  expectBalanced(service)
  await claim()
  expect(begun()).toBe(3)
  await queue.defer('b')
  clock.advance(minutes(6))
  expect(await claim()).toEqual(['b'])
  expect(begun()).toBe(3)
  await queue.release('b')
  expect(begun()).toBe(3)
  expect(app.db.query('SELECT count(*) AS n FROM counters WHERE value < 0').get()).toEqual({ n: 0 })
  expectBalanced(service)
})

test('a deferred recipient counts as begun once', async () => {
  await using queue = await startQueue(['a'])
  const { service, begun, move, claim } = queue
  const { clock } = service
  for (const wait of [0, hours(1)]) {
    clock.advance(wait)
    const now = clock.now()
    const why = { reason: 'rests', rule: 'site-backoff', category: 'connection_failure' }
    await move((tx) => {
      for (const waiting of readWaiting(tx.db, LANE, { dueBy: now, after: { nextAt: 0, id: 0 }, limit: 10 }))
        noteWaiting(tx, waiting, { now, eventTime: now, until: now + hours(1), ...why })
    })
    expect(begun()).toBe(1)
  }
  clock.advance(hours(1))
  await claim()
  await queue.release('a')
  expect(begun()).toBe(1)
  expectBalanced(service)
})

test('a recipient that is suppressed or cancelled before any attempt counts as begun', async () => {
  await using queue = await startQueue(['a', 'b'])
  const { service, of, begun, move } = queue
  await move((tx) => {
    rejectRecipient(tx, of('a'), suppressedOutcome('unsubscribe'))
    cancelWaiting(tx, of('b'))
    refundQuota(service, tx, 2)
  })
  expect(begun()).toBe(2)
  expectBalanced(service)
})

function refundQuota({ actor, app }: EmailApi, tx: Tx, recipients: number): void {
  const month = app.db.query<{ month: number }, []>('SELECT quota_month AS month FROM emails').get()?.month ?? 0
  giveQuotaBack(tx, actor.accountId, month, recipients)
}

test('a recipient without an attempt is cancelled with one event; an attempted one is not cancelled', async () => {
  await using queue = await startQueue(['tried', 'waits'])
  const { service, row, move, claim } = queue
  await claim(1)
  const cancel = (local: string) => move((tx) => cancelWaiting(tx, queue.of(local)))
  expect([await cancel('tried'), await cancel('waits'), await cancel('waits')]).toEqual([false, true, false])
  await move((tx) => refundQuota(service, tx, 1))
  expect(row('waits')).toMatchObject({ status: 7, lane: null, nextAt: null })
  expect(events(queue, row('waits'))).toEqual(['0', `2 of ${row('waits').id}`])
  expect(row('tried')).toMatchObject({ status: 2, lane: LANE })
  expect(events(queue, row('tried'))).toEqual(['0'])
  const emails = at((await service.api('GET', '/v1/emails')).body, 'data') as { to: string; status: string }[]
  expect(Object.fromEntries(emails.map(({ to, status }) => [to.replace(/@.*/, ''), status]))).toEqual({
    tried: 'processing',
    waits: 'cancelled',
  })
  await queue.release('tried')
  expect(await cancel('tried')).toBe(true)
  await move((tx) => refundQuota(service, tx, 1))
  expectBalanced(service)
})

test('held recipients wait without an event or a change of status until the broadcast is resumed; attempted ones keep their due time', async () => {
  await using queue = await startQueue(['tried', 'a', 'b'])
  const { service, row, begun, move, claim } = queue
  const { clock } = service
  await claim(1)
  await queue.defer('tried')
  const until = clock.now() + days(365)
  const held = await move((tx) => ({
    held: ['tried', 'a', 'b'].map((local) => holdWaiting(tx, { recipientId: row(local).id, until })),
  }))
  expect(held).toEqual({ held: [false, true, true] })
  expect(await claim()).toEqual([])
  expect([row('a'), events(queue, row('a')), begun()]).toEqual([
    expect.objectContaining({ status: 0, nextAt: until }),
    ['0'],
    1,
  ])
  const retryAt = row('tried').nextAt
  const release = (broadcastId: number, limit?: number) =>
    move((tx) => ({ lanes: [...releaseHeld(tx, broadcastId, clock.now(), limit)] }))
  expect(await release(BROADCAST + 1)).toEqual({ lanes: [] })
  expect(await release(BROADCAST, 1)).toEqual({ lanes: [LANE] })
  expect(await claim()).toEqual(['a'])
  expect(await release(BROADCAST)).toEqual({ lanes: [LANE] })
  expect(await release(BROADCAST)).toEqual({ lanes: [] })
  expect(await claim()).toEqual(['b'])
  expect(row('tried').nextAt).toBe(retryAt)
  expectBalanced(service)
})

test('the time until expiry restarts when held recipients are released', async () => {
  await using queue = await startQueue(['a'])
  const { service, row, move } = queue
  const { app, clock } = service
  await move((tx) => holdWaiting(tx, { recipientId: row('a').id, until: clock.now() + days(365) }))
  clock.advance(days(30))
  await move((tx) => ({ lanes: releaseHeld(tx, BROADCAST, clock.now()) }))
  const now = clock.now()
  const due = { now, eventTime: now, limit: 1, retryAt: () => now }
  const dueSince = now - hours(app.config.retryExpiryHours)
  expect(await move((tx) => claimDue(tx, LANE, { ...due, dueSince }))).toEqual([])
})
