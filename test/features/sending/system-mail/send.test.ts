/** @module System mail: its sender, its independence of quotas, and that repeated calls send it once. */
import { describe, expect, test } from 'bun:test'
import { requireSystemSender, sendSystemMail, sendSystemMailAndMark } from '#features/sending/system-mail/send.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { createEmailApi, expectError, UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'

const MAIL = { to: 'ada@example.com', subject: 'Reset your password', text: 'Open this link.', about: [] }

const sentMail = (db: import('bun:sqlite').Database) =>
  db
    .query<Record<string, unknown>, []>(
      `SELECT account_id AS account, from_address AS sender, subject, address, sandbox, quota_month AS quotaMonth
       FROM emails JOIN recipients ON email_id = emails.id ORDER BY emails.id`,
    )
    .all()

describe('system mail', () => {
  test('is sent from no-reply at the first verified domain of the oldest account, and counts against no quota', async () => {
    await using api = await createEmailApi()
    const younger = await createTestAccount(api.app)
    await api.addDomain(younger, 'younger.test')
    expect(await sendSystemMail(api.app, MAIL)).toBe(true)
    expect(sentMail(api.app.db)).toEqual([
      {
        account: api.actor.accountId,
        sender: `no-reply@${VERIFIED}`,
        subject: MAIL.subject,
        address: MAIL.to,
        sandbox: 0,
        quotaMonth: null,
      },
    ])
    expect(api.used()).toBe(0)
  })

  test('is sent from the sender of the setting, by the account that has its domain', async () => {
    await using api = await createEmailApi({ settings: { TASSIS_SYSTEM_FROM: 'Mail Desk <desk@younger.test>' } })
    const younger = await createTestAccount(api.app)
    await api.addDomain(younger, 'younger.test')
    expect(await sendSystemMail(api.app, MAIL)).toBe(true)
    expect(sentMail(api.app.db)).toMatchObject([
      { account: younger.accountId, sender: 'Mail Desk <desk@younger.test>', sandbox: 0 },
    ])
  })

  test('is captured only when the domain of its sender is not verified', async () => {
    await using api = await createEmailApi({ settings: { TASSIS_SYSTEM_FROM: `desk@${UNVERIFIED}` } })
    expect(await sendSystemMail(api.app, MAIL)).toBe(true)
    expect(sentMail(api.app.db)).toMatchObject([{ sender: `desk@${UNVERIFIED}`, sandbox: 1 }])
  })

  // Proves: send-8
  test('is sent from another verified domain if that of the setting lost its records, and never to the sandbox', async () => {
    await using api = await createEmailApi({ settings: { TASSIS_SYSTEM_FROM: `desk@${VERIFIED}` } })
    const younger = await createTestAccount(api.app)
    await api.addDomain(younger, 'younger.test')
    api.app.db.run('UPDATE domains SET verified_at = NULL, records_lost_at = 1 WHERE domain = ?', [VERIFIED])
    expect(await sendSystemMail(api.app, MAIL)).toBe(true)
    expect(sentMail(api.app.db)).toMatchObject([{ sender: 'no-reply@younger.test', sandbox: 0 }])
  })

  test('is sent from a lapsed domain if none is verified, preferring that of the setting, and never to the sandbox', async () => {
    for (const settings of [{ TASSIS_SYSTEM_FROM: 'desk@younger.test' }, {}]) {
      await using api = await createEmailApi({ settings })
      await api.addDomain(await createTestAccount(api.app), 'younger.test')
      api.app.db.run('UPDATE domains SET verified_at = NULL, records_lost_at = 1 WHERE verified_at IS NOT NULL')
      expect(await sendSystemMail(api.app, MAIL)).toBe(true)
      const sender = settings.TASSIS_SYSTEM_FROM ?? `no-reply@${VERIFIED}`
      expect(sentMail(api.app.db)).toMatchObject([{ sender, sandbox: 0 }])
    }
  })

  test('is sent from a domain that lacks records only if no other is verified', async () => {
    await using api = await createEmailApi()
    api.app.db.run('UPDATE domains SET records_lost_at = 1 WHERE domain = ?', [VERIFIED])
    await sendSystemMail(api.app, MAIL)
    await api.addDomain(await createTestAccount(api.app), 'younger.test')
    await sendSystemMail(api.app, MAIL)
    expect(sentMail(api.app.db)).toMatchObject([
      { sender: `no-reply@${VERIFIED}`, sandbox: 0 },
      { sender: 'no-reply@younger.test', sandbox: 0 },
    ])
  })

  test('cannot be read by the sending account, because it may contain a sign-in link', async () => {
    await using api = await createEmailApi({ delivers: true, settings: { TASSIS_DELIVERY: 'capture' } })
    await sendSystemMail(api.app, { ...MAIL, html: '<p>Open this link.</p>' })
    const { body } = await api.api('GET', '/v1/emails')
    const id = at(body, 'data', 0, 'id')
    await eventually(async () => (await api.detail(id))['status'] === 'sent')
    expect(await api.detail(id)).toMatchObject({ subject: MAIL.subject, text_body: null, html_body: null })
    expectError(await api.api('GET', `/v1/emails/${String(id)}/captured`), 404, 'not_captured')
    const sent = await api.accepted()
    await eventually(async () => (await api.detail(sent.id))['status'] === 'sent')
    expect((await api.api('GET', `/v1/emails/${sent.id}/captured`)).status).toBe(200)
  })

  test('is sent once per key, also for concurrent calls', async () => {
    await using api = await createEmailApi()
    await Promise.all(Array.from({ length: 10 }, () => sendSystemMail(api.app, { ...MAIL, idempotencyKey: 'pause:1' })))
    await sendSystemMail(api.app, { ...MAIL, idempotencyKey: 'pause:2' })
    expect(sentMail(api.app.db)).toHaveLength(2)
  })

  test('to several addresses is stored with its mark, or not at all', async () => {
    await using api = await createEmailApi()
    const send = (mark: () => void) =>
      sendSystemMailAndMark(
        api.app,
        ['ada@example.com', 'Ada@example.com', 'no address', 'bea@example.com'],
        MAIL,
        mark,
      )
    const killed = new Error('killed')
    await expect(
      send(() => {
        throw killed
      }),
    ).rejects.toThrow(killed)
    expect(sentMail(api.app.db)).toEqual([])
    let seen: unknown
    const isSent = await send(() => {
      seen = sentMail(api.app.db).map(({ address }) => address)
    })
    expect([isSent, seen]).toEqual([true, ['ada@example.com', 'bea@example.com']])
  })

  test('is not sent without a sender', async () => {
    await using api = await createEmailApi({ settings: { TASSIS_SYSTEM_FROM: 'desk@nobody.test' } })
    expect(await sendSystemMail(api.app, MAIL)).toBe(false)
    expect(sentMail(api.app.db)).toEqual([])
  })
})

test('a sender that is not a mailbox prevents the start, and the error names the setting', () => {
  expect(() => requireSystemSender({ systemFrom: 'nobody' })).toThrow(
    /^TASSIS_SYSTEM_FROM must be a mailbox such as .*"nobody"/,
  )
  expect(requireSystemSender({ systemFrom: '' })).toBeUndefined()
})
