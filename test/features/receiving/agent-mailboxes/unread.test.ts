import { expect, test } from 'bun:test'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import {
  MAX_UNREAD_BYTES_PER_ACCOUNT,
  MAX_UNREAD_BYTES_PER_MAILBOX,
  MAX_UNREAD_PER_MAILBOX,
  type Mailbox,
} from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { createRecipientDecider } from '#features/receiving/inbound/process/decide.ts'
import { formatUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { createMailboxApi, createReceivedMessage, type MailboxApi } from '#test/support/mailboxes.ts'

const MAILBOX_FULL = { code: 452, text: '4.2.2 Mailbox full' }
const MESSAGES_OF_ACCOUNT = MAX_UNREAD_BYTES_PER_ACCOUNT / MAX_UNREAD_BYTES_PER_MAILBOX

/** Delivers a message of this size to a mailbox; returns its public id. */
async function deliverSized({ app }: MailboxApi, mailbox: Mailbox, sizeBytes: number): Promise<string> {
  const received = await createReceivedMessage(app)
  const envelope = { ...received.envelope, sizeBytes }
  const { uuid } = await app.commit.write((tx) => deliverToMailbox(app, tx, mailbox, { ...received, envelope }))
  return formatUuid(uuid)
}

// Proves: inbound-9
test('a mailbox at its limit of unread octets is full until some are acknowledged or deleted', async () => {
  await using service = await createMailboxApi()
  const { app, api, newMailbox, path } = service
  const [mailbox, other] = [await newMailbox({ local_part: 'jobs' }), await newMailbox({ local_part: 'other' })]
  const decide = createRecipientDecider(app)
  const rcpt = (address = mailbox.address) => decide(address)
  await deliverSized(service, mailbox, MAX_UNREAD_BYTES_PER_MAILBOX - 1)
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  const last = await deliverSized(service, mailbox, 1)
  expect([rcpt(), rcpt(`jobs+x@${mailbox.domain}`)]).toEqual([MAILBOX_FULL, MAILBOX_FULL])
  expect([rcpt(other.address), rcpt(`routed@${mailbox.domain}`)]).toMatchObject([
    { kind: 'domain' },
    { kind: 'domain' },
  ])
  expect(at((await api('GET', path(mailbox))).body, 'data')).toMatchObject({
    unread_count: 2,
    unread_bytes: MAX_UNREAD_BYTES_PER_MAILBOX,
  })
  expectBalanced(service)
  expect((await api('DELETE', path(mailbox, `/messages/${last}`))).status).toBe(204)
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  await deliverSized(service, mailbox, 1)
  expect(rcpt()).toEqual(MAILBOX_FULL)
  const next = await api('GET', path(mailbox, '/messages/next?timeout=0'))
  const [id, lease] = [at(next.body, 'data', 'id'), at(next.body, 'lease_token')]
  await api('POST', path(mailbox, `/messages/${String(id)}/ack`), { lease_token: lease })
  expect(rcpt()).toMatchObject({ kind: 'domain' })
  expectBalanced(service)
})

// Proves: inbound-9
test('a mailbox at its limit of unread messages is full', async () => {
  await using service = await createMailboxApi()
  const { app, newMailbox } = service
  const mailbox = await newMailbox()
  app.db.run('UPDATE agent_mailboxes SET unread_count = ?', [MAX_UNREAD_PER_MAILBOX])
  expect(createRecipientDecider(app)(mailbox.address)).toEqual(MAILBOX_FULL)
})

// Proves: inbound-9
test('all mailboxes of an account at its limit of unread mail are full', async () => {
  await using service = await createMailboxApi()
  const { app, api, newMailbox, path } = service
  const decide = createRecipientDecider(app)
  const empty = await newMailbox()
  const mailboxes: Mailbox[] = []
  for (let n = 0; n < MESSAGES_OF_ACCOUNT; n++) mailboxes.push(await newMailbox())
  const [first, ...others] = mailboxes
  for (const mailbox of others) await deliverSized(service, mailbox, MAX_UNREAD_BYTES_PER_MAILBOX)
  expect(decide(empty.address)).toMatchObject({ kind: 'domain' })
  if (first) await deliverSized(service, first, MAX_UNREAD_BYTES_PER_MAILBOX)
  expect(decide(empty.address)).toEqual(MAILBOX_FULL)
  if (first) expect((await api('DELETE', path(first))).status).toBe(204)
  expect(decide(empty.address)).toMatchObject({ kind: 'domain' })
  expectBalanced(service)
})
