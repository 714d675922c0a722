/** @module System mail: its sender, its independence of quotas, and that repeated calls send it once. */
import { describe, expect, test } from 'bun:test'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { at } from '#test/support/api.ts'
import { createTestAccount, eventually } from '#test/support/app.ts'
import { createEmailApi, expectError, UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'

const MAIL = { to: ['ada@example.com'], subject: 'Reset your password', text: 'Open this link.', about: [] }

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
        address: MAIL.to[0],
        sandbox: 0,
        quotaMonth: null,
      },
    ])
    expect(api.used()).toBe(0)
  })

  const OTHER = 'younger.test'
  const LAPSE = 'UPDATE domains SET verified_at = NULL, records_lost_at = 1 WHERE verified_at IS NOT NULL'
  // Proves: send-8
  test.each<[what: string, from: string, change: string, sender: string, sandbox: 0 | 1]>([
    ['of the setting, whose domain another account has', `Desk <desk@${OTHER}>`, '', `Desk <desk@${OTHER}>`, 0],
    ['of the setting, captured, when its domain is not verified', `desk@${UNVERIFIED}`, '', `desk@${UNVERIFIED}`, 1],
    [
      'at another domain when that of the setting lapsed',
      `desk@${VERIFIED}`,
      `${LAPSE} AND domain = '${VERIFIED}'`,
      `no-reply@${OTHER}`,
      0,
    ],
    ['of the setting, not captured, when all domains lapsed', `desk@${OTHER}`, LAPSE, `desk@${OTHER}`, 0],
    ['at the first domain, not captured, when all lapsed', '', LAPSE, `no-reply@${VERIFIED}`, 0],
    [
      'at a domain that lacks no record, if there is one',
      '',
      `UPDATE domains SET records_lost_at = 1 WHERE domain = '${VERIFIED}'`,
      `no-reply@${OTHER}`,
      0,
    ],
    [
      'at a domain that lacks records, if there is no other',
      '',
      `UPDATE domains SET records_lost_at = 1, verified_at = iif(domain = '${VERIFIED}', 1, NULL)`,
      `no-reply@${VERIFIED}`,
      0,
    ],
  ])('is sent from the sender %s', async (_, systemFrom, change, sender, sandbox) => {
    await using api = await createEmailApi({ settings: { TASSIS_SYSTEM_FROM: systemFrom } })
    await api.addDomain(await createTestAccount(api.app), OTHER)
    if (change !== '') api.app.db.run(change)
    expect(await sendSystemMail(api.app, MAIL)).toBe(true)
    expect(sentMail(api.app.db)).toMatchObject([{ sender, sandbox }])
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

  test('to several addresses is stored with its mark, or not at all', async () => {
    await using api = await createEmailApi()
    const send = (mark: () => void) =>
      sendSystemMail(
        api.app,
        { ...MAIL, to: ['Ada@example.com', 'ada@example.com', 'no address', 'bea@example.com'] },
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
