/**
 * @module A deleted account is closed immediately, and finally nothing of it is left: in no row, no file and no free
 * page.
 */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startBackground } from '#app/schedules.ts'
import { listOpenDeletions, startAccountRemoval } from '#features/lifecycle/privacy/delete-account.ts'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import { pauseAccount } from '#features/reporting/abuse/pause.ts'
import { cancelWaitingMail, hasMailInFlight } from '#features/sending/queue/erase.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { hours, minutes } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createEmailApi, EMAIL, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'
import { grepData } from '#test/support/grep-data.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { createTestUser, postForm } from '#test/support/users.ts'

const CONFIRMED = { headers: { 'x-confirm-delete': 'DELETE' } }

/** For hundreds of deletions on a busy machine. */
const SLOW_MS = 200_000

/** Runs all deletions to their end by advancing the clock. */
async function untilGone(api: EmailApi, withinMs?: number): Promise<void> {
  const background = startBackground(api.app)
  try {
    await eventually(() => {
      api.clock.advance(minutes(1))
      api.app.removalDue.emit()
      return listOpenDeletions(api.app.db).length === 0
    }, withinMs)
  } finally {
    await background.stop()
  }
}

const rowsWith = (api: EmailApi, accountId: number): Record<string, number> =>
  Object.fromEntries(
    api.app.db
      .query<{ name: string }, []>(
        `SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name = 'account_id' ORDER BY 1`,
      )
      .all()
      .map(({ name }): [string, number] => [
        name,
        api.app.db
          .query<{ n: number }, [number]>(`SELECT count(*) AS n FROM ${name} WHERE account_id = ?`)
          .get(accountId)?.n ?? 0,
      ])
      .filter(([, n]) => n > 0),
  )

describe('DELETE /v1/account', () => {
  // Proves: account-9
  test('without its header is a 400 with the reason, and deletes nothing', async () => {
    await using api = await createEmailApi()
    for (const headers of [{}, { 'x-confirm-delete': 'delete' }, { 'x-confirm-delete': 'true' }])
      expectError(await api.api('DELETE', '/v1/account', undefined, { headers }), 400, 'confirmation_missing')
    expect((await api.api('GET', '/v1/account')).status).toBe(200)
  })

  // Proves: auth-50, account-8
  test('closes the account immediately: keys get a 401, waiting mail ends, its domains accept no mail', async () => {
    await using api = await createEmailApi()
    const { app, actor } = api
    app.db.run('UPDATE domains SET inbound_enabled = 1')
    const decide = createRecipientDecider(app)
    expect(decide(`anybody@${VERIFIED}`)).toMatchObject({ kind: 'domain' })
    const key = await api.newKey(['emails:read'])
    await api.accepted()
    const later = new Date(api.clock.now() + hours(5)).toISOString()
    await api.accepted({ send_at: later, to: ['a@receiver.test', 'b@receiver.test'] })
    const answer = await api.api('DELETE', '/v1/account', undefined, CONFIRMED)
    expect([answer.status, answer.body]).toEqual([
      202,
      {
        data: {
          message: 'The account is deactivated. Its data is being deleted and cannot be restored.',
          account_id: actor.accountUuid,
        },
      },
    ])
    for (const each of [api.key, key])
      expect((await api.api('GET', '/v1/account', undefined, { key: each })).status).toBe(401)
    expect(decide(`anybody@${VERIFIED}`)).toMatchObject({ code: 550 })
    // The first step, before anything else: none of the mail is delivered.
    expect(listOpenDeletions(app.db)).toMatchObject([{ accountId: actor.accountId, step: 'mail' }])
    expect(await app.commit.write((tx) => cancelWaitingMail(tx, actor.accountId, app.eventTime()))).toBe(2)
    const cancelled = statusCode('cancelled')
    expect(app.db.query('SELECT status, next_at FROM recipients').all()).toEqual(
      Array(3).fill({ status: cancelled, next_at: null }),
    )
    expect(app.db.query('SELECT status FROM emails').all()).toEqual(Array(2).fill({ status: cancelled }))
    expect(hasMailInFlight(app.db, actor.accountId)).toBe(false)
  })

  // Proves: auth-50
  test('includes its sub-accounts, and leaves other accounts alone', async () => {
    await using api = await createEmailApi()
    const { app, actor } = api
    const [sub, other] = [await createTestAccount(app), await createTestAccount(app)]
    app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [actor.accountId, sub.accountId])
    const [subKey, otherKey] = [await api.newKey([], sub), await api.newKey([], other)]
    await api.addDomain(other, 'other.test')
    const kept = await api.accepted({ from: 'ada@other.test' }, { key: otherKey })
    await api.api('DELETE', '/v1/account', undefined, CONFIRMED)
    expect((await api.api('GET', '/v1/account', undefined, { key: subKey })).status).toBe(401)
    await untilGone(api)
    expect([rowsWith(api, actor.accountId), rowsWith(api, sub.accountId)].map((rows) => Object.keys(rows))).toEqual([
      ['audit_logs'],
      ['audit_logs'],
    ])
    expect(await api.detail(kept.id, { key: otherKey })).toMatchObject({ text_body: EMAIL.text_body })
  })

  test('leaves the data of other accounts consistent while it runs', async () => {
    await using api = await createEmailApi()
    const other = await createTestAccount(api.app)
    await api.addDomain(other, 'other.test')
    const otherKey = await api.newKey([], other)
    for (let i = 0; i < 130; i++) await api.accepted({ to: [`a${i}@receiver.test`, `b${i}@receiver.test`] })
    await api.accepted({ from: 'ada@other.test' }, { key: otherKey })
    await api.api('DELETE', '/v1/account', undefined, CONFIRMED)
    const steps = new Set<string>()
    for (let looks = 0; !steps.has('late'); looks++) {
      if (looks > 100) throw new Error(`stuck after ${[...steps].join()}`)
      const before = JSON.stringify(listOpenDeletions(api.app.db))
      const removal = startAccountRemoval(api.app)
      await eventually(() => JSON.stringify(listOpenDeletions(api.app.db)) !== before)
      await removal.stop()
      steps.add(listOpenDeletions(api.app.db)[0]?.step ?? 'none')
      expectBalanced(api)
    }
    expect([...steps]).toEqual(['rows', 'late'])
  })

  test('waits for long reads of the database, and removes rows written meanwhile', async () => {
    await using api = await createEmailApi()
    const { app, actor } = api
    await api.accepted({ to: 'vanish-me@receiver.test' })
    const reader = openReadOnly(join(api.dataDir, 'tassis.db'))
    reader.run('BEGIN')
    reader.query('SELECT count(*) FROM emails').get()
    await api.api('DELETE', '/v1/account', undefined, CONFIRMED)
    const background = startBackground(app)
    await eventually(() => {
      api.clock.advance(minutes(1))
      app.removalDue.emit()
      return (
        listOpenDeletions(app.db)[0]?.step === 'bytes' && (listOpenDeletions(app.db)[0]?.dueAt ?? 0) > api.clock.now()
      )
    })
    await background.stop()
    expect(grepData(api.dataDir, ['vanish-me']).length).toBeGreaterThan(0)
    // As written by a request that began before and outlasted the wait: the clock may have jumped.
    app.db.run(
      "INSERT INTO suppressions (uuid, account_id, address, covers, stream_id, list_id, reason, created_at) VALUES (x'01', ?, 'late-vanish-me@receiver.test', 0, 0, 0, 'manual', 1)",
      [actor.accountId],
    )
    reader.close()
    await untilGone(api)
    expect(rowsWith(api, actor.accountId)).toEqual({ audit_logs: expect.any(Number) })
    expect(grepData(api.dataDir, ['vanish-me'])).toEqual([])
  })

  test(
    'closes five hundred sub-accounts immediately, without delaying others',
    async () => {
      await using api = await createEmailApi()
      const { app, actor } = api
      const keys: string[] = []
      for (let i = 0; i < 500; i++) {
        const sub = await createTestAccount(app)
        app.db.run('UPDATE accounts SET parent_id = ? WHERE id = ?', [actor.accountId, sub.accountId])
        if (i % 100 === 0) keys.push(await api.newKey([], sub))
      }
      const [first, second] = await Promise.all(
        [1, 2].map(() => api.api('DELETE', '/v1/account', undefined, CONFIRMED)),
      )
      // The second request may fail because its key no longer exists.
      expect([first?.status, [202, 401].includes(second?.status ?? 0)]).toEqual([202, true])
      for (const key of keys) expect((await api.api('GET', '/v1/account', undefined, { key })).status).toBe(401)
      expect(listOpenDeletions(app.db)).toHaveLength(501)
      await untilGone(api, SLOW_MS)
      expect(app.db.query("SELECT count(*) AS n FROM accounts WHERE name <> '' OR deleted_at IS NULL").get()).toEqual({
        n: 0,
      })
    },
    SLOW_MS,
  )

  test('removes system mail to its users, which another account sent', async () => {
    await using api = await createEmailApi()
    const { app } = api
    const gone = await createTestAccount(app)
    app.db.run("UPDATE accounts SET name = 'vanish-company', email = 'vanish-owner@people.test' WHERE id = ?", [
      gone.accountId,
    ])
    const goneKey = await api.newKey([], gone)
    await createTestUser(app, gone, 'vanish-ada@people.test', 'owner')
    await createTestUser(app, api.actor, 'stays@people.test', 'owner')
    const invite = (key: string, email: string) =>
      api.api('POST', '/v1/team/invitations', { email, role: 'viewer' }, { key })
    await invite(goneKey, 'vanish-guest@people.test')
    await invite(api.key, 'kept-guest@people.test')
    for (const email of ['vanish-ada@people.test', 'stays@people.test'])
      await postForm(api.url, '/reset-password', { email })
    await app.commit.write((tx) => pauseAccount(app, tx, gone, { source: 'admin', reason: 'vanish-reason' }))
    const sent = () => app.db.query<{ n: number }, []>("SELECT count(*) AS n FROM emails WHERE subject <> ''").get()?.n
    const background = startBackground(app)
    await eventually(() => sent() === 6)
    await background.stop()
    await api.api('DELETE', '/v1/account', undefined, { ...CONFIRMED, key: goneKey })
    api.clock.advance(minutes(6))
    await untilGone(api)
    expect(sent()).toBe(2)
    expect(grepData(api.dataDir, ['vanish-'])).toEqual([])
    expectBalanced(api)
  })

  // Proves: account-8, privacy-3
  test('leaves no byte of the account in any file of the data directory', async () => {
    await using api = await createEmailApi()
    const { app, actor } = api
    const other = await createTestAccount(app)
    await api.addDomain(other, 'other.test')
    const otherKey = await createApiKey(app, other, { name: 'other' })
    const shared = { text_body: 'Shared words of two tenants. '.repeat(40) }
    const marks = ['vanish-me', 'vanishing-body', 'vanish-file']
    const domainId = app.db.query<{ id: number }, []>('SELECT id FROM domains LIMIT 1').get()?.id ?? 0
    for (let i = 0; i < 120; i++) {
      const name = `vanish-me-${i}`
      await api.accepted({
        to: `${name}@receiver.test`,
        subject: `Hello ${name}`,
        html_body: `<p>vanishing-body ${name} ${'lorem '.repeat(i * 3)}</p>`,
        ...(i % 10 === 0 ? shared : { text_body: `vanishing-body ${name}` }),
        tags: [name],
        metadata: { name },
        ...(i % 40 === 0 && {
          attachments: [
            {
              filename: `vanish-file-${i}.txt`,
              content_type: 'text/plain',
              content: Buffer.from(`vanish-file ${'x'.repeat(300_000)} vanish-file ${i}`).toString('base64'),
            },
          ],
        }),
      })
    }
    const kept = await api.accepted({ from: 'ada@other.test', ...shared }, { key: otherKey.key })
    await api.api('POST', '/v1/templates', { alias: 'vanish-me', name: 'vanish-me', subject: 'vanishing-body' })
    const list = await api.api('POST', '/v1/contact-lists', { name: 'vanish-me' })
    await api.api('POST', `/v1/contact-lists/${String(at(list.body, 'data', 'id'))}/contacts`, {
      contacts: Array.from({ length: 300 }, (_, i) => ({
        email: `vanish-me-${i}@contacts.test`,
        metadata: { n: `vanish-me ${i}` },
      })),
    })
    await api.api('POST', '/v1/suppressions', { email_address: 'vanish-me@receiver.test', reason: 'vanish-me' })
    await api.api('POST', '/v1/webhooks', { url: 'https://127.0.0.1/vanish-me', events: ['sent'] })
    await api.api(
      'POST',
      '/v1/emails/batch',
      { emails: [{ ...EMAIL, to: 'vanish-me-batch@receiver.test' }] },
      { headers: { 'idempotency-key': 'vanish-me' } },
    )
    for (let i = 0; i < 20; i++)
      await storeTestInbound(
        app,
        { accountId: actor.accountId, domainId },
        { text: `vanishing-body vanish-me ${i}`, message: { subject: `vanish-me ${i}` } },
      )
    app.db.run("UPDATE accounts SET name = 'vanish-me' WHERE id = ?", [actor.accountId])
    expect(grepData(api.dataDir, marks).length).toBeGreaterThan(5)

    await api.api('DELETE', '/v1/account', undefined, CONFIRMED)
    api.clock.advance(minutes(6))
    await untilGone(api)
    expect(grepData(api.dataDir, [...marks, actor.accountUuid])).toEqual([])
    expect(rowsWith(api, actor.accountId)).toEqual({ audit_logs: expect.any(Number) })
    expect(await api.detail(kept.id, { key: otherKey.key })).toMatchObject(shared)
    expect(app.db.query('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
    expect(readFileSync(join(api.dataDir, 'tassis.db')).length).toBeGreaterThan(0)
  })
})
