import { describe, expect, test } from 'bun:test'
import { monthOf, readMonthlyUsage } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { deleteDomain, removeDeletedDomains } from '#features/sending/emails/delete-domain.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { createDomain, listDomains } from '#features/setup/domains/domains.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { createTestAccount, createTestApp, type TestApp } from '#test/support/app.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

interface MailTest extends AsyncDisposable {
  readonly service: TestApp
  readonly app: App
  readonly actor: Actor
  readonly clock: ManualClock
  /** Registers a verified domain and returns its ids. */
  register(name: string): Promise<{ id: string; rowId: number }>
  send(from: string, options?: { inMinutes?: number }): Promise<string>
  /** Counts the emails by status. */
  statuses(): Record<string, number>
  used(): number
  actions(): string[]
}

async function startMailTest(): Promise<MailTest> {
  const clock = new ManualClock()
  const service = await createTestApp({ clock })
  const { app } = service
  const actor = await createTestAccount(app, 'free')
  return {
    service,
    app,
    actor,
    clock,
    async register(name) {
      const { domain } = await createDomain(app, actor, name)
      app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
      return { id: formatUuid(domain.uuid), rowId: domain.id }
    },
    async send(from, { inMinutes } = {}) {
      const request = {
        from,
        to: ['bob@receiver.test', 'eve@receiver.test'],
        subject: 'Hello',
        text_body: 'Hello.',
        ...(inMinutes !== undefined && { send_at: new Date(clock.now() + minutes(inMinutes)).toISOString() }),
      }
      return (await acceptEmail(app, actor, createDraft(app, request, undefined))).response.id
    },
    statuses() {
      const rows = app.db
        .query<{ status: number; n: number }, []>('SELECT status, COUNT(*) AS n FROM emails GROUP BY status')
        .all()
      return Object.fromEntries(rows.map((row) => [statusName(row.status), row.n]))
    },
    used: () => readMonthlyUsage(app.db, actor.accountId, monthOf(clock.now())),
    actions: () =>
      app.db
        .query<{ action: string; actor_type: string }, []>('SELECT action, actor_type FROM audit_logs ORDER BY id')
        .all()
        .map((row) => `${row.action} by ${row.actor_type}`),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

/** Claims the due recipients of the lane, as delivery does. */
const claim = (t: MailTest) =>
  t.app.commit.write((tx) =>
    claimDueTo(tx, 'receiver.test', {
      now: t.clock.now(),
      eventTime: t.clock.now(),
      limit: 10,
      retryAt: () => t.clock.now() + minutes(5),
    }),
  )

describe('deleting a domain', () => {
  // Proves: domain-10
  test('cancels its scheduled mail, refunds the quota, and does not change other mail', async () => {
    await using t = await startMailTest()
    const gone = await t.register('gone.example')
    await t.register('kept.example')
    await t.send('a@gone.example', { inMinutes: 60 })
    await t.send('a@sub.gone.example', { inMinutes: 90 })
    await t.send('a@gone.example')
    await t.send('a@kept.example', { inMinutes: 60 })
    expect({ used: t.used(), statuses: t.statuses() }).toEqual({ used: 8, statuses: { scheduled: 3, queued: 1 } })
    await deleteDomain(t.app, t.actor, gone.id)
    expect({ used: t.used(), statuses: t.statuses() }).toEqual({
      used: 4,
      statuses: { scheduled: 1, queued: 1, cancelled: 2 },
    })
    expect(t.actions().slice(-3)).toEqual([
      'domain.deleted by operator',
      'email.cancelled by operator',
      'email.cancelled by operator',
    ])
  })

  test('cancels its scheduled mail in several batches, also behind other mail', async () => {
    await using t = await startMailTest()
    const { id } = await t.register('gone.example')
    await t.register('kept.example')
    const send = (from: string, count: number) =>
      Promise.all(Array.from({ length: count }, () => t.send(from, { inMinutes: 60 })))
    await send('a@kept.example', 120)
    await send('a@gone.example', 230)
    await send('a@kept.example', 1)
    await deleteDomain(t.app, t.actor, id)
    expect(t.statuses()).toEqual({ scheduled: 121, cancelled: 230 })
    expect(t.used()).toBe(242)
  })

  test('removes it from the account immediately and frees its name', async () => {
    await using t = await startMailTest()
    const { id } = await t.register('gone.example')
    await deleteDomain(t.app, t.actor, id)
    expect(listDomains(t.app.db, t.actor.accountId, { limit: 10, offset: 0 })).toEqual({ domains: [], total: 0 })
    await expect(t.send('a@gone.example')).rejects.toMatchObject({ status: 422, code: 'domain_not_found' })
    await expect(deleteDomain(t.app, t.actor, id)).rejects.toMatchObject({ status: 404, code: 'domain_not_found' })
    await t.register('gone.example')
  })
})

describe('a deleted domain', () => {
  // Proves: domain-10
  test('keeps its key while any of its mail is open, and loses it once all has ended', async () => {
    await using t = await startMailTest()
    const { id, rowId } = await t.register('gone.example')
    const emailId = await t.send('a@gone.example')
    const key = findSigningDomain(t.app.db, t.app.keys, rowId)
    await deleteDomain(t.app, t.actor, id)

    const isKept = async () => {
      expect(await removeDeletedDomains(t.app)).toBe(0)
      expect(findSigningDomain(t.app.db, t.app.keys, rowId)).toEqual(key)
    }
    expect(key?.domain).toBe('gone.example')
    expect(t.statuses()).toEqual({ queued: 1 })
    await isKept()
    const [first, second] = await claim(t)
    if (!first || !second) throw new Error(`email ${emailId} was not claimed`)
    expect(t.statuses()).toEqual({ processing: 1 })
    await isKept()
    const finish = ({ recipientId, emailId }: typeof first) =>
      t.app.commit.write((tx) => finishRecipient(tx, { recipientId, emailId, now: t.clock.now() }, { status: 'sent' }))
    await finish(first)
    await isKept()
    await finish(second)
    expect(t.statuses()).toEqual({ sent: 1 })
    expect(await removeDeletedDomains(t.app)).toBe(1)
    expect(findSigningDomain(t.app.db, t.app.keys, rowId)).toBeUndefined()
    expect(await removeDeletedDomains(t.app)).toBe(0)
  })

  test('is removed even if other domains of the account have open mail', async () => {
    await using t = await startMailTest()
    const { id } = await t.register('gone.example')
    await t.register('kept.example')
    await t.send('a@kept.example')
    await t.send('a@kept.example', { inMinutes: 5 })
    await deleteDomain(t.app, t.actor, id)
    expect(await removeDeletedDomains(t.app)).toBe(1)
    expect(t.statuses()).toEqual({ queued: 1, scheduled: 1 })
  })

  test('whose deletion a crash interrupted has its scheduled mail cancelled later, by the system', async () => {
    await using t = await startMailTest()
    const { rowId } = await t.register('gone.example')
    await t.send('a@gone.example', { inMinutes: 60 })
    t.app.db.run('UPDATE domains SET deleted_at = 1 WHERE id = ?', [rowId])
    expect(await removeDeletedDomains(t.app)).toBe(1)
    expect({ used: t.used(), statuses: t.statuses() }).toEqual({ used: 0, statuses: { cancelled: 1 } })
    expect(t.actions().at(-1)).toBe('email.cancelled by system')
  })

  test('never passes its row id to another domain, whose key would then sign its old mail', async () => {
    await using t = await startMailTest()
    const { id, rowId } = await t.register('gone.example')
    await deleteDomain(t.app, t.actor, id)
    expect(await removeDeletedDomains(t.app)).toBe(1)
    expect((await t.register('next.example')).rowId).toBeGreaterThan(rowId)
  })

  test('is removed, but no other domain is', async () => {
    await using t = await startMailTest()
    await t.register('kept.example')
    expect(await removeDeletedDomains(t.app)).toBe(0)
    expect(listDomains(t.app.db, t.actor.accountId, { limit: 10, offset: 0 }).total).toBe(1)
  })
})
