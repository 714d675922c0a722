import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSubscriptionKinds } from '#features/audience/contact-lists/subscription-notices.ts'
import { startNotices } from '#features/core/notices/notices.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { ADDRESS, type ConfirmingService, createConfirmingService, leave } from './confirmation-fixture.ts'

const CHILD = join(import.meta.dir, 'outbox-child.ts')

const addresses = (count: number, prefix = 'c') =>
  Array.from({ length: count }, (_, n) => ({ email: `${prefix}${n}@receiver.test` }))

/**
 * Waits for the expected number of sent emails, and until the loop has checked for others that are due; returns the
 * number sent.
 */
const sentNow = async (service: ConfirmingService, expected: number): Promise<number> => {
  const { app, clock } = service
  await eventually(() => service.sent().length >= expected)
  for (let round = 0; round < 3; round++) {
    app.noticeDue.emit()
    // These writes wait behind the content and the rows of everything that the loop has started.
    await app.content.put([Buffer.of(round)], clock.now())
    await app.commit.barrier()
  }
  return service.sent().length
}

describe('the outbox', () => {
  // Proves: contact-15
  test('bulk confirmations are sent at 600 per minute, and a single one does not wait for them', async () => {
    await using service = await createConfirmingService()
    const list = await service.list()
    await service.add(list, { contacts: addresses(30) })
    const counts = [await sentNow(service, 10)]
    await service.add(list, { email: ADDRESS })
    counts.push(await sentNow(service, 11))
    for (const waitMs of [999, 1, 999, 1]) {
      service.clock.advance(waitMs)
      counts.push(await sentNow(service, (counts.at(-1) ?? 0) + (waitMs === 1 ? 10 : 0)))
    }
    expect(counts).toEqual([10, 11, 11, 21, 21, 31])
    expect(service.sent()[10]?.to).toBe(ADDRESS)
  })

  test('a pause does not increase the number of bulk confirmations sent at a time', async () => {
    await using service = await createConfirmingService()
    service.app.db.run('UPDATE accounts SET paused_at = 1')
    const list = await service.list()
    await service.add(list, { contacts: addresses(20) })
    service.clock.advance(hours(30))
    service.app.db.run('UPDATE accounts SET paused_at = NULL')
    service.clock.advance(hours(2))
    const before = await sentNow(service, 10)
    service.clock.advance(seconds(1))
    expect([before, await sentNow(service, before + 10)]).toEqual([10, 20])
  })

  test('each account has a queue of its own: one with very many contacts delays no other', async () => {
    await using service = await createConfirmingService({ runsTasks: false })
    const { app, actor } = service
    const other = await service.newAccount()
    const key = await service.newKey([], other)
    await service.addDomain(other, 'other.test')
    const welcome = {
      double_opt_in: false,
      welcome_email_enabled: true,
      welcome_email_subject: 'Hi',
      welcome_email_text_body: 'Hi',
    }
    await service.add(await service.list(welcome), { contacts: addresses(200) })
    await service.add(await service.list(welcome, { key }), { email: ADDRESS }, { key })
    const loop = startNotices(app, createSubscriptionKinds(app))
    await service.drained()
    await loop.stop()
    const order = app.db
      .query<{ accountId: number }, []>('SELECT account_id AS accountId FROM emails ORDER BY id')
      .all()
      .map(({ accountId }) => accountId)
    expect(order).toHaveLength(201)
    expect(order.filter((id) => id !== actor.accountId)).toEqual([other.accountId])
    // Two batches of at most 25 were sent before.
    expect(order.indexOf(other.accountId)).toBeLessThan(50)
  })

  test('mail held by a paused account or an exhausted quota is sent when that has ended', async () => {
    await using service = await createConfirmingService()
    const { app, clock } = service
    const list = await service.list()
    app.db.run('UPDATE accounts SET paused_at = 1')
    await service.add(list, { email: ADDRESS })
    clock.advance(hours(3))
    await sentNow(service, 0)
    expect([service.sent(), service.waiting()]).toEqual([[], [{ kind: 'confirmation', email: ADDRESS }]])
    app.db.run('UPDATE accounts SET paused_at = NULL, monthly_quota = 0')
    clock.advance(hours(3))
    await sentNow(service, 0)
    expect([service.sent(), service.waiting()]).toEqual([[], [{ kind: 'confirmation', email: ADDRESS }]])
    app.db.run('UPDATE accounts SET monthly_quota = NULL')
    clock.advance(hours(1))
    await service.drained()
    expect(service.sent().map(({ to }) => to)).toEqual([ADDRESS])
  })

  test('mail that an account cannot send for three days is given up, with one audit row for all of it', async () => {
    await using service = await createConfirmingService({ runsTasks: false })
    const { app, clock } = service
    const list = await service.list()
    await service.add(list, { contacts: addresses(30) })
    app.db.run('UPDATE accounts SET paused_at = 1')
    const loop = startNotices(app, createSubscriptionKinds(app))
    clock.advance(days(3))
    await sentNow(service, 0)
    expect(service.waiting()).toHaveLength(30)
    clock.advance(hours(1))
    await eventually(() => service.waiting().length === 0)
    await loop.stop()
    expect(service.audited('contact.confirmation_failed')).toEqual([
      {
        count: 30,
        reason: 'The account is paused: The operator of the service paused it. Contact the operator of the service.',
      },
    ])
    expect(await service.contact(list, 'c0@receiver.test')).toMatchObject({ status: 'pending' })
  })

  test('a confirmation waits for a verified domain if the last one was deleted meanwhile', async () => {
    await using service = await createConfirmingService({ runsTasks: false })
    const { app, clock } = service
    const list = await service.list()
    await service.add(list, { email: ADDRESS })
    app.db.run('UPDATE domains SET verified_at = NULL')
    const loop = startNotices(app, createSubscriptionKinds(app))
    expect([await sentNow(service, 0), service.waiting()]).toEqual([0, [{ kind: 'confirmation', email: ADDRESS }]])
    app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'sandbox.test'")
    clock.advance(minutes(1))
    await service.drained()
    await loop.stop()
    expect(service.sent().map(({ from }) => from)).toEqual(['no-reply@sandbox.test'])
  })

  test('nothing is sent to a contact that left, was removed or was suppressed before its turn', async () => {
    await using service = await createConfirmingService({ runsTasks: false })
    const { app } = service
    const list = await service.list()
    await service.add(list, { contacts: addresses(4) })
    await leave(service, list, 'c0@receiver.test')
    await service.api('DELETE', `/v1/contact-lists/${list}/contacts/c1@receiver.test`)
    await service.api('POST', '/v1/suppressions', { email_address: 'c2@receiver.test' })
    const loop = startNotices(app, createSubscriptionKinds(app))
    await service.drained()
    await loop.stop()
    expect([service.sent().map(({ to }) => to), service.waiting()]).toEqual([['c3@receiver.test'], []])
  })

  // Proves: contact-15
  test('each contact gets exactly one email although the process is killed in the middle, again and again', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tassis-test-'))
    const settings = {
      TASSIS_DATA_DIR: dataDir,
      TASSIS_LOG_LEVEL: 'silent',
      TASSIS_MIN_FREE_DISK: '0',
    }
    // Ten are sent a second.
    const count = 240
    try {
      {
        await using service = await createConfirmingService({
          dataDir,
          settings,
          runsTasks: false,
          clock: new ManualClock(1),
        })
        await service.add(await service.list(), { contacts: addresses(count) })
      }
      const db = openReadOnly(join(dataDir, 'tassis.db'))
      const sent = () => db.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM recipients').get()?.n ?? 0
      const killedAt: number[] = []
      // A child stops sending when it has written this often, however late its kill comes.
      const env = { ...settings, MAX_WRITES: '80' }
      for (let least = 1; least <= count; least = Math.max(sent() + 1, least + 60)) {
        await using child = Bun.spawn([process.execPath, CHILD], { env, stdin: 'ignore', stdout: 'ignore' })
        await eventually(() => sent() >= least || child.exitCode !== null, 60_000)
        child.kill('SIGKILL')
        await child.exited
        expect(child.signalCode).toBe('SIGKILL')
        killedAt.push(sent())
      }
      expect(killedAt.filter((n) => n < count).length).toBeGreaterThanOrEqual(3)
      await using last = Bun.spawn([process.execPath, CHILD], { env: settings, stdin: 'ignore', stdout: 'ignore' })
      await eventually(() => db.query('SELECT id FROM notices LIMIT 1').get() === null, 60_000)
      last.kill('SIGKILL')
      await last.exited
      const once = db.query('SELECT COUNT(DISTINCT address) AS addresses, COUNT(*) AS emails FROM recipients').get()
      db.close()
      expect(once).toEqual({ addresses: count, emails: count })
    } finally {
      rmSync(dataDir, { recursive: true, force: true })
    }
  }, 300_000)
})
