import { describe, expect, test } from 'bun:test'
import { LOST_RECIPIENT } from '#features/sending/queue/email.ts'
import { type MailRequest, unsubscribeByMail } from '#features/sending/unsubscribe/by-mail.ts'
import { openUnsubscribeToken } from '#features/sending/unsubscribe/headers.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { shareEmailApi } from '#test/support/email-api.ts'
import { ADDRESS, createUnsubscribable, pressButton, requestPage } from './fixture.ts'

const service = shareEmailApi(createUnsubscribable)

/** Sends an email and returns the message that a mail program makes of its mailto link. */
async function requested(email: Record<string, unknown> = {}): Promise<MailRequest> {
  const subject = (await service.link(email)).replace('/u/', '')
  const recipientId = openUnsubscribeToken(service.app.keys, subject)?.recipientId ?? 0
  return { recipientId, subject, mailFrom: ADDRESS, headers: [['Subject', subject]] }
}

const byMail = (request: MailRequest) => service.app.commit.write((tx) => unsubscribeByMail(service.app, tx, request))

const NEW = { kind: 'unsubscribed', isNew: true } as const
const ignored = { kind: 'ignored', why: expect.stringMatching(/^[A-Z].*\.$/) } as const
const suppressed = { address: ADDRESS, covers: 1, stream: null, reason: 'unsubscribe', sourceEmailId: 1 }

// Proves: suppress-14
test('a mail to the address of List-Unsubscribe unsubscribes, with the event and the audit row of the page', async () => {
  expect(await byMail(await requested())).toEqual(NEW)
  expect(service.suppressions()).toEqual([suppressed])
  expect(service.events()).toEqual([
    {
      emailId: 1,
      recipient: ADDRESS,
      data: { stream: 'transactional', list_id: null, scope: 'all', reason: 'mailto' },
    },
  ])
  expect(service.auditRows()).toEqual([
    { actorType: 'system', action: 'suppression.created', metadata: { reason: 'unsubscribe', by: 'recipient' } },
  ])
})

test('a mail for a stream stops only the stream', async () => {
  expect(await byMail(await requested({ stream: 'news' }))).toEqual(NEW)
  expect(service.suppressions()).toEqual([{ ...suppressed, stream: 'news' }])
  expect(service.events().map(({ data }) => data)).toEqual([
    { stream: 'news', list_id: null, scope: 'stream', reason: 'mailto' },
  ])
})

// Proves: suppress-14
test('repeated requests, by mail or on the page, change nothing', async () => {
  const path = await service.link()
  const subject = path.replace('/u/', '')
  const request = { recipientId: 1, subject, mailFrom: ADDRESS, headers: [] }
  expect(await byMail(request)).toEqual(NEW)
  expect(await byMail(request)).toEqual({ kind: 'unsubscribed', isNew: false })
  await requestPage(service, 'POST', path)
  expect([service.suppressions().length, service.events().length, service.auditRows().length]).toEqual([1, 1, 1])
  await pressButton(service, path, 'resubscribe')
  expect(await byMail(request)).toEqual(NEW)
  expect(service.events()).toHaveLength(2)
})

describe('the token is found', () => {
  const subjects: readonly (readonly [how: string, subject: (token: string) => string])[] = [
    ['after words of the mail program', (token) => `Unsubscribe: ${token}`],
    ['before them', (token) => `${token} (sent by my mail program)`],
    ['with spaces where it was folded', (token) => `${token.slice(0, 60)} ${token.slice(60, 90)}\t${token.slice(90)}`],
    ['between spaces', (token) => `   ${token}  `],
  ]
  test.each(subjects)('%s', async (_, subject) => {
    const request = await requested({ stream: 'news' })
    service.app.db.run('DELETE FROM recipients')
    service.app.db.run('DELETE FROM emails')
    expect(await byMail({ ...request, subject: subject(request.subject) })).toEqual(NEW)
    expect(service.suppressions()).toEqual([{ ...suppressed, stream: 'news' }])
  })
})

test('without a token the address is enough while the email exists, and has the same effect', async () => {
  for (const subject of ['', 'unsubscribe', 'x'.repeat(10_000), 'word '.repeat(5000)]) {
    const request = await requested({ stream: 'news', to: `${subject.length}@receiver.test` })
    expect(await byMail({ ...request, subject })).toEqual(NEW)
  }
  expect(service.suppressions().map(({ address, stream }) => [address, stream])).toEqual(
    [0, 11, 10_000, 25_000].map((length) => [`${length}@receiver.test`, 'news']),
  )
  const request = await requested({ to: 'gone@receiver.test' })
  service.app.db.run('DELETE FROM recipients WHERE id = ?', [request.recipientId])
  expect(await byMail({ ...request, subject: 'unsubscribe' })).toEqual(ignored)
  expect(service.suppressions()).toHaveLength(4)
})

test('after a restored backup lost the email, the address identifies nobody, but the token still works', async () => {
  const request = { ...(await requested({ stream: 'news' })), recipientId: LOST_RECIPIENT }
  expect(await byMail({ ...request, subject: 'unsubscribe' })).toEqual(ignored)
  expect(service.suppressions()).toEqual([])
  expect(await byMail(request)).toEqual(NEW)
  expect(service.suppressions()).toEqual([{ ...suppressed, stream: 'news' }])
})

// Proves: suppress-14
test('for an erased recipient the address identifies nobody, but the token still works', async () => {
  const request = await requested({ stream: 'news' })
  service.app.db.run('UPDATE recipients SET address = ?', [ERASED_ADDRESS])
  expect(await byMail({ ...request, subject: 'unsubscribe' })).toEqual(ignored)
  expect([service.suppressions(), service.events(), service.auditRows()]).toEqual([[], [], []])
  expect(await byMail(request)).toEqual(NEW)
  expect(service.suppressions()).toEqual([
    { ...suppressed, address: expect.stringMatching(/^erased:/), stream: 'news' },
  ])
})

test('a mail from another address works: mail is forwarded, and the address proves the request', async () => {
  const request = await requested()
  expect(await byMail({ ...request, mailFrom: 'alias-owner@elsewhere.test' })).toEqual(NEW)
  expect(service.suppressions()).toEqual([suppressed])
})

test('the token of another recipient is ignored', async () => {
  const [one, other] = [await requested(), await requested({ to: 'carl@receiver.test' })]
  expect(await byMail({ ...one, subject: other.subject })).toEqual(ignored)
  expect(service.suppressions()).toEqual([])
})

describe('an automatic reply is not a request:', () => {
  const answers: readonly (readonly [string, Partial<MailRequest>])[] = [
    ['a null reverse-path', { mailFrom: '' }],
    ['an out-of-office reply', { headers: [['Auto-Submitted', 'auto-replied']] }],
    [
      'an out-of-office reply with a comment in the field',
      { headers: [['AUTO-SUBMITTED', ' Auto-Replied (vacation)']] },
    ],
    ['a notification', { headers: [['Auto-Submitted', 'auto-notified; owner-email="bob@receiver.test"']] }],
    ['a report', { headers: [['Content-Type', 'multipart/report; report-type=delivery-status; boundary=b']] }],
    [
      'a receipt',
      { headers: [['content-type', 'Multipart/Report; report-type=disposition-notification; boundary=b']] },
    ],
  ]
  // Proves: suppress-14
  test.each(answers)('%s', async (_, change) => {
    expect(await byMail({ ...(await requested()), ...change })).toEqual(ignored)
    expect([service.suppressions(), service.events(), service.auditRows()]).toEqual([[], [], []])
  })

  test('but a message that a mail program sends for its unsubscribe button is a request', async () => {
    const headers = [
      ['Auto-Submitted', 'auto-generated'],
      ['Precedence', 'bulk'],
      ['Content-Type', 'text/plain'],
    ] as const
    expect(await byMail({ ...(await requested()), headers })).toEqual(NEW)
  })
})

test('nothing is written if the account was deleted', async () => {
  const request = await requested()
  service.app.db.run('PRAGMA foreign_keys = OFF')
  service.app.db.run('DELETE FROM accounts')
  expect(await byMail(request)).toEqual(ignored)
  expect(service.suppressions()).toEqual([])
})
