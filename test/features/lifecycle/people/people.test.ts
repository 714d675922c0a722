import { expect, test } from 'bun:test'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import { minutes } from '#platform/units.ts'
import { endAttempts } from '#test/features/lifecycle/retention/year.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError, NOW, shareEmailApi } from '#test/support/email-api.ts'
import { storeTestInbound } from '#test/support/inbound.ts'
import { deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

type Json = Record<string, unknown>

const service = shareEmailApi(() => createEmailApi())

const ask = (address: string, key?: string) =>
  service.api('GET', `/v1/people/${encodeURIComponent(address)}`, undefined, key === undefined ? {} : { key })

async function read(address: string, key?: string) {
  const answer = await ask(address, key)
  expect(answer.status).toBe(200)
  return at(answer.body, 'data') as Json & { emails: Json; suppressions: Json[]; recent_emails: Json[] }
}

const SENT = { kind: 'sent', reply: '250 OK' } as const
const BOUNCED = {
  kind: 'bounced',
  bounceType: 'hard',
  category: 'invalid_recipient',
  reply: '550 5.1.1 No such user',
  isAddressDead: true,
} as const

const engage = ({ app }: EmailApi, recipientId: number, url?: string) =>
  app.commit.write((tx) => {
    const recipient = readTrackedRecipient(tx.db, recipientId)
    recordEngagement(app, tx, { recipient, url, visitor: 'human', ipAddress: null, userAgent: null })
  })

// Proves: person-1, person-2
test('a person has names, states, opens and lists, and the suppression with the email that caused it', async () => {
  const { api, clock } = service
  const list = at((await api('POST', '/v1/contact-lists', { name: 'News' })).body, 'data', 'id')
  await api('POST', `/v1/contact-lists/${String(list)}/contacts`, { email: 'BOB@receiver.test' })
  await service.accepted({ to: 'Bob Brown <Bob@Receiver.test>' })
  await endAttempts(service, 'receiver.test', [SENT])
  await engage(service, 1)
  clock.advance(minutes(1))
  await engage(service, 1, 'https://shop.test/')
  const second = await service.accepted({
    to: 'ada@receiver.test',
    cc: ['"B. Brown" <bob@receiver.test>'],
    subject: 'Two',
  })
  await endAttempts(service, 'receiver.test', [SENT, BOUNCED])
  expect(await read(' bob@RECEIVER.test')).toMatchObject({
    address: 'bob@receiver.test',
    display_names: ['B. Brown', 'Bob Brown'],
    can_receive: false,
    sentence: 'No mail is sent to this address, because its server said that there is no such mailbox.',
    suppressions: [
      {
        reason: 'hard_bounce',
        created_at: new Date(clock.now()).toISOString(),
        source_email: { id: second.id, subject: 'Two', created_at: new Date(clock.now()).toISOString() },
        added_by: { type: 'system' },
      },
    ],
    emails: {
      total: 2,
      counted: 2,
      by_state: { sent: 1, bounced: 1 },
      first_at: new Date(NOW).toISOString(),
      last_at: new Date(clock.now()).toISOString(),
      last_opened_at: new Date(NOW).toISOString(),
      last_clicked_at: new Date(clock.now()).toISOString(),
    },
    recent_emails: [{ id: second.id, recipient_state: 'bounced' }, { recipient_state: 'sent' }],
    lists: [{ id: list, name: 'News', status: 'bounced' }],
    erasure: null,
  })
  // Of the same email, her copy.
  expect(await read('ada@receiver.test')).toMatchObject({
    can_receive: true,
    emails: { by_state: { sent: 1 } },
    recent_emails: [{ id: second.id, status: 'bounced', recipient_state: 'sent' }],
  })
})

// Proves: person-2
test('a suppression says which mail it stops and who added it', async () => {
  const { api, app, actor } = service
  const { user } = await createTestUser(app, actor, 'owner@people.test', 'owner')
  const session = await signIn(service, 'owner@people.test')
  await session.ask('POST', '/v1/suppressions', { email_address: 'bob@receiver.test', reason: 'moved to Rome' })
  await api('POST', '/v1/suppressions', { email_address: 'cara@receiver.test', reason: 'unsubscribe' })
  const [bob, cara] = [await read('bob@receiver.test'), await read('cara@receiver.test')]
  expect([bob['can_receive'], cara['can_receive']]).toEqual([false, true])
  expect(bob['sentence']).toEndWith('because the account put it on its suppression list: moved to Rome.')
  expect(cara['sentence']).toContain('mail with transactional: false')
  expect(bob.suppressions[0]?.['added_by']).toMatchObject({ type: 'user', name: user.name })
  expect(cara.suppressions[0]?.['added_by']).toMatchObject({ type: 'api_key' })
  await app.commit.write((tx) => {
    for (let streamId = 1; streamId <= 20; streamId++)
      suppress(app, tx, {
        accountId: actor.accountId,
        address: 'bob@receiver.test',
        reason: 'unsubscribe',
        covers: 'marketing',
        streamId,
      })
  })
  expect(await read('bob@receiver.test')).toMatchObject({ can_receive: false, sentence: bob['sentence'] })
})

// Proves: person-1
test('an address that is unknown here has nothing, whatever other accounts have; a malformed one is a 422', async () => {
  await service.accepted({ to: 'bob@receiver.test' })
  const other = await service.newAccount()
  expect(await read('bob@receiver.test', await service.newKey([], other))).toMatchObject({
    can_receive: true,
    display_names: [],
    suppressions: [],
    emails: { total: 0, counted: 0, by_state: {}, first_at: null, last_at: null },
    recent_emails: [],
    lists: [],
  })
  for (const text of ['bob', '%', 'bob@', `${'b'.repeat(70)}@receiver.test`, '‮@', 'x'.repeat(2000)])
    expectError(await ask(text), 422, 'invalid_address', 'address')
})

// Proves: person-1
test('received mail and lists are for keys with their scopes', async () => {
  const { api, app, actor } = service
  app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE verified_at IS NOT NULL')
  const inbound = await storeTestInbound(app, { accountId: actor.accountId, domainId: 1 })
  const created = await api('POST', '/v1/agent-mailboxes', {})
  const mailbox = getTestMailbox(app, actor.accountId, at(created.body, 'data', 'id'))
  await deliverMessage(app, mailbox, { fromAddress: 'ada@customer.test' })
  expect(await read('ada@customer.test')).toMatchObject({
    received: [{ id: inbound, subject: 'Hello' }],
    mailboxes: [{ messages: 1 }],
  })
  const key = await service.newKey(['emails:read', 'suppressions:read'])
  expect(await read('ada@customer.test', key)).toMatchObject({ received: null, mailboxes: null, lists: null })
})

// Proves: person-1
test('a person who is erased has nothing but the suppression', async () => {
  const { api, app } = service
  await service.accepted({ to: 'Bob <bob@receiver.test>' })
  await api('POST', '/v1/suppressions', { email_address: 'bob@receiver.test' })
  await api('DELETE', '/v1/gdpr/erase?email=bob@receiver.test')
  await app.commit.barrier()
  expect(await read('bob@receiver.test')).toMatchObject({
    can_receive: false,
    display_names: [],
    emails: { total: 0 },
    erasure: { state: expect.stringMatching(/^(?:running|erased)$/) },
  })
})
