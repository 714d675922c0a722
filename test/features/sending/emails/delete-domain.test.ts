import { describe, expect, test } from 'bun:test'
import { deleteDomain, removeDeletedDomains } from '#features/sending/emails/delete-domain.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { createDomain, listDomains } from '#features/setup/domains/domains.ts'
import { findSigningDomain } from '#features/setup/domains/sending.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import { createEmailApi, expectError, shareEmailApi } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

const emails = shareEmailApi(createEmailApi)

/** Registers a verified domain and returns its ids. */
async function register(name: string): Promise<{ id: string; rowId: number }> {
  const { domain } = await createDomain(emails.app, emails.actor, name)
  emails.app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  return { id: formatUuid(domain.uuid), rowId: domain.id }
}

const send = async (from: string, inMinutes?: number): Promise<void> => {
  const request = {
    from,
    to: ['bob@receiver.test', 'eve@receiver.test'],
    ...(inMinutes !== undefined && { send_at: new Date(emails.clock.now() + minutes(inMinutes)).toISOString() }),
  }
  await emails.accepted(request)
}

/** Counts the emails by status. */
function statuses(): Record<string, number> {
  const rows = emails.app.db
    .query<{ status: number; n: number }, []>('SELECT status, COUNT(*) AS n FROM emails GROUP BY status')
    .all()
  return Object.fromEntries(rows.map((row) => [statusName(row.status), row.n]))
}

const actions = (): string[] =>
  emails.app.db
    .query<{ action: string; actor_type: string }, []>('SELECT action, actor_type FROM audit_logs ORDER BY id')
    .all()
    .map((row) => `${row.action} by ${row.actor_type}`)

/** Names of the account's domains. */
const listNames = () =>
  listDomains(emails.app.db, emails.actor.accountId, { limit: 10, offset: 0 }).domains.map(({ domain }) => domain)

/** Claims the due recipients of the lane, as delivery does. */
const claim = () => {
  const now = emails.clock.now()
  return emails.app.commit.write((tx) =>
    claimDueTo(tx, 'receiver.test', { now, eventTime: now, limit: 10, retryAt: () => now + minutes(5) }),
  )
}

describe('deleting a domain', () => {
  // Proves: domain-10
  test('cancels its scheduled mail, refunds the quota, and does not change other mail', async () => {
    const gone = await register('gone.example')
    await register('kept.example')
    await send('a@gone.example', 60)
    await send('a@sub.gone.example', 90)
    await send('a@gone.example')
    await send('a@kept.example', 60)
    expect({ used: emails.used(), statuses: statuses() }).toEqual({ used: 8, statuses: { scheduled: 3, queued: 1 } })
    await deleteDomain(emails.app, emails.actor, gone.id)
    expect({ used: emails.used(), statuses: statuses() }).toEqual({
      used: 4,
      statuses: { scheduled: 1, queued: 1, cancelled: 2 },
    })
    expect(actions().slice(-3)).toEqual([
      'domain.deleted by operator',
      'email.cancelled by operator',
      'email.cancelled by operator',
    ])
  })

  test('cancels its scheduled mail in several batches, also behind other mail', async () => {
    const { id } = await register('gone.example')
    await register('kept.example')
    const sendMany = (from: string, count: number) => Promise.all(Array.from({ length: count }, () => send(from, 60)))
    await sendMany('a@kept.example', 120)
    await sendMany('a@gone.example', 230)
    await sendMany('a@kept.example', 1)
    await deleteDomain(emails.app, emails.actor, id)
    expect(statuses()).toEqual({ scheduled: 121, cancelled: 230 })
    expect(emails.used()).toBe(242)
  })

  test('removes it from the account immediately and frees its name', async () => {
    const { id } = await register('gone.example')
    await deleteDomain(emails.app, emails.actor, id)
    expect(listNames()).not.toContain('gone.example')
    expectError(await emails.send({ from: 'a@gone.example' }), 422, 'domain_not_found', 'from')
    await expect(deleteDomain(emails.app, emails.actor, id)).rejects.toMatchObject({
      status: 404,
      code: 'domain_not_found',
    })
    await register('gone.example')
  })
})

describe('a deleted domain', () => {
  // Proves: domain-10
  test('keeps its key while any of its mail is open, and loses it once all has ended', async () => {
    const { id, rowId } = await register('gone.example')
    await send('a@gone.example')
    const key = findSigningDomain(emails.app.db, emails.app.keys, rowId)
    await deleteDomain(emails.app, emails.actor, id)

    const isKept = async () => {
      expect(await removeDeletedDomains(emails.app)).toBe(0)
      expect(findSigningDomain(emails.app.db, emails.app.keys, rowId)).toEqual(key)
    }
    expect(key?.domain).toBe('gone.example')
    expect(statuses()).toEqual({ queued: 1 })
    await isKept()
    const [first, second] = await claim()
    if (!first || !second) throw new Error('the email was not claimed')
    expect(statuses()).toEqual({ processing: 1 })
    await isKept()
    const finish = ({ recipientId, emailId }: typeof first) =>
      emails.app.commit.write((tx) =>
        finishRecipient(tx, { recipientId, emailId, now: emails.clock.now() }, { status: 'sent' }),
      )
    await finish(first)
    await isKept()
    await finish(second)
    expect(statuses()).toEqual({ sent: 1 })
    expect(await removeDeletedDomains(emails.app)).toBe(1)
    expect(findSigningDomain(emails.app.db, emails.app.keys, rowId)).toBeUndefined()
    expect(await removeDeletedDomains(emails.app)).toBe(0)
  })

  test('is removed even if other domains of the account have open mail', async () => {
    const { id } = await register('gone.example')
    await register('kept.example')
    await send('a@kept.example')
    await send('a@kept.example', 5)
    await deleteDomain(emails.app, emails.actor, id)
    expect(await removeDeletedDomains(emails.app)).toBe(1)
    expect(statuses()).toEqual({ queued: 1, scheduled: 1 })
  })

  test('whose deletion a crash interrupted has its scheduled mail cancelled later, by the system', async () => {
    const { rowId } = await register('gone.example')
    await send('a@gone.example', 60)
    emails.app.db.run('UPDATE domains SET deleted_at = 1 WHERE id = ?', [rowId])
    expect(await removeDeletedDomains(emails.app)).toBe(1)
    expect({ used: emails.used(), statuses: statuses() }).toEqual({ used: 0, statuses: { cancelled: 1 } })
    expect(actions().at(-1)).toBe('email.cancelled by system')
  })

  test('never passes its row id to another domain, whose key would then sign its old mail', async () => {
    const { id, rowId } = await register('gone.example')
    await deleteDomain(emails.app, emails.actor, id)
    expect(await removeDeletedDomains(emails.app)).toBe(1)
    expect((await register('next.example')).rowId).toBeGreaterThan(rowId)
    expect([await removeDeletedDomains(emails.app), listNames()]).toEqual([0, expect.arrayContaining(['next.example'])])
  })
})
