import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import { createMailbox, findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { listMessages, searchMessages } from '#features/receiving/agent-mailboxes/messages.ts'
import { type InboundEmail, inboundStatusName, listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { markInboundDelivered } from '#features/receiving/inbound/api/model.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { InboundProcessor } from '#features/receiving/inbound/process/process.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import {
  listUnparsed,
  retryOperatorMail,
  retryUnparsed,
  START_POSITION,
} from '#features/receiving/inbound/process/retry.ts'
import { listOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { formatUuid } from '#platform/ids.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { receiveTestMail } from '#test/support/inbound.ts'

let service: TestApp
let actor: Actor
let domainId = 0
beforeEach(async () => {
  service = await createTestApp()
  actor = await createTestAccount(service.app)
  const { domain } = await createDomain(service.app, actor, 'inbound.test')
  service.app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  domainId = domain.id
  const domainUuid = formatUuid(domain.uuid)
  await createMailbox(service.app, actor, { local_part: 'agent', domain_id: domainUuid })
  await createRoute(service.app, actor, {
    domainId: domainUuid,
    pattern: 'support',
    matchType: 'exact',
    priority: 0,
    webhookUrl: null,
    isActive: true,
  })
})
afterEach(() => service[Symbol.asyncDispose]())

const ATTACHMENT = Buffer.from('attached')
const MESSAGE = [
  'From: Ada <ada@sender.test>',
  'Subject: Hello',
  'Message-ID: <1@sender.test>',
  'Content-Type: multipart/mixed; boundary=x',
  '',
  '--x',
  '',
  'The elephant is in the room.',
  '--x',
  'Content-Type: application/pdf; name=a.pdf',
  'Content-Transfer-Encoding: base64',
  '',
  ATTACHMENT.toString('base64'),
  '--x--',
  '',
].join('\r\n')

/** Stores a message as given up, as after deaths of the process. */
async function giveUp(localParts: readonly string[], attempts = 4, raw = MESSAGE): Promise<void> {
  const { accountId } = actor
  const destinations = localParts.map((name) => ({
    kind: 'domain',
    address: `${name}@inbound.test`,
    accountId,
    domainId,
  }))
  await receiveTestMail(service.app, destinations as Destination[], raw)
  service.app.db.run('UPDATE inbound_receipts SET attempts = ?', [attempts])
  const processor = new InboundProcessor(service.app, service.opened.parser)
  processor.start()
  await eventually(() => countQueueEntries(service.app.db) === 0)
  // Does not close the parser, which the retry needs.
  await eventually(() => unparsed().length === localParts.length)
}

const unparsed = () => listUnparsed(service.app, START_POSITION, 100).unparsed
const retryAll = () => Promise.all(unparsed().map(({ id }) => retryUnparsed(service.app, service.opened.parser, id)))
const inbound = () => listInbound(service.app.db, actor.accountId, {}, { limit: 10, offset: 0 }).emails
const bodyOf = ({ textRef }: InboundEmail) => createBodyReader(service.app).read(textRef)
const mailbox = () => {
  const found = findMailbox(service.app.db, 'inbound.test', 'agent')
  if (!found) throw new Error('there is no mailbox')
  return found
}
const messages = () => listMessages(service.app.db, mailbox(), 'all', { limit: 10, offset: 0 }).messages
const events = () => service.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM events').get()?.n

// Proves: inbound-25
test('a given-up message gets its content under its route, its domain and in its mailbox, without new events', async () => {
  await giveUp(['agent', 'support', 'nobody'])
  const before = { events: events(), ids: [...inbound(), ...messages()].map(({ uuid }) => formatUuid(uuid)) }
  expect(
    unparsed().map(({ kind, to, from, subject, parse_error }) => ({ kind, to, from, subject, parse_error })),
  ).toEqual(
    [
      ['inbound', 'support@inbound.test'],
      ['inbound', 'nobody@inbound.test'],
      ['mailbox', 'agent@inbound.test'],
    ].map(([kind, to]) => ({
      kind: kind as 'inbound',
      to: to ?? '',
      from: 'Ada <ada@sender.test>',
      subject: 'Hello',
      parse_error: 'The service crashed several times while parsing it.',
    })),
  )
  expect(await retryAll()).toEqual([undefined, undefined, undefined])
  expect(unparsed()).toEqual([])
  expect({ events: events(), ids: [...inbound(), ...messages()].map(({ uuid }) => formatUuid(uuid)) }).toEqual(before)
  expect(
    inbound()
      .map((email) => [inboundStatusName(email.status), email.errorMessage, bodyOf(email)])
      .toSorted(),
  ).toEqual([
    ['no_route', null, 'The elephant is in the room.'],
    ['received', null, 'The elephant is in the room.'],
  ])
  const [message] = messages()
  expect([message?.parseError, createBodyReader(service.app).read(message?.textRef ?? null), message?.readAt]).toEqual([
    null,
    'The elephant is in the room.',
    null,
  ])
  const refs = [...inbound(), ...messages()].map(({ attachments: [attachment] }) => attachment?.ref ?? 0)
  expect(refs.map((ref) => Buffer.from(service.app.content.get(ref)))).toEqual([ATTACHMENT, ATTACHMENT, ATTACHMENT])
  expect(searchMessages(service.app.db, mailbox(), 'elephant', { limit: 10, offset: 0 }).total).toBe(1)
  expect(mailbox()).toMatchObject({ messageCount: 1, unreadCount: 1, threadCount: 1 })
})

test('a message stored without its header gets that too, and its sender is counted once', async () => {
  await giveUp(['agent'], 6)
  expect(messages()[0]).toMatchObject({ subject: '', fromHeader: 'ada@sender.test' })
  await retryAll()
  expect(messages()[0]).toMatchObject({ subject: 'Hello', fromHeader: 'Ada <ada@sender.test>', parseError: null })
  expect(service.app.db.query('SELECT address, message_count AS n FROM mailbox_contacts').all()).toEqual([
    { address: 'ada@sender.test', n: 1 },
  ])
})

test('a message that its webhook accepted stays delivered', async () => {
  await giveUp(['support'])
  const { seq } = service.app.db.query<{ seq: number }, []>('SELECT event_seq AS seq FROM inbound_emails').get() ?? {
    seq: 0,
  }
  await service.app.commit.write((tx) => markInboundDelivered(tx, actor.accountId, seq, 1000))
  expect(await retryAll()).toEqual([undefined])
  expect(inbound().map(({ status }) => inboundStatusName(status))).toEqual(['delivered'])
})

test('a message that still cannot be parsed stays unchanged, with its reason', async () => {
  await giveUp(['agent'])
  const parser: Parser = {
    parse: async () => ({ problem: 'Too deep.', strippedText: null, authentication: UNKNOWN_AUTHENTICATION }),
    close() {},
  }
  const [message] = messages()
  const id = formatUuid(message?.uuid ?? new Uint8Array())
  expect(await retryUnparsed(service.app, parser, id)).toBe('Too deep.')
  expect(messages()).toEqual(message ? [message] : [])
})

test('the retry of a message that was parsed, even by another retry, is a 404', async () => {
  await giveUp(['support'])
  const id = formatUuid(inbound()[0]?.uuid ?? new Uint8Array())
  const retries = await Promise.allSettled([1, 2].map(() => retryUnparsed(service.app, service.opened.parser, id)))
  expect(retries.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  for (const unknown of [id, '01234567-89ab-7def-8123-456789abcdef', 'x'])
    await expect(retryUnparsed(service.app, service.opened.parser, unknown)).rejects.toMatchObject({ status: 404 })
  expect(inbound()).toHaveLength(1)
})

// Proves: inbound-26
test('given-up operator mail is processed again and takes effect', async () => {
  const { app } = service
  const postmaster = { kind: 'host', address: 'postmaster@mail.tassis.test' } as const
  await receiveTestMail(app, [postmaster])
  app.db.run('UPDATE inbound_receipts SET attempts = 4')
  const processor = new InboundProcessor(app, service.opened.parser)
  processor.start()
  const mail = () => listOperatorMail(app.db, { limit: 10 }).mail.map(({ uuid, reason }) => [formatUuid(uuid), reason])
  await eventually(() => mail().length === 1)
  const [[id = '', reason] = []] = mail()
  expect(reason).toBe('The service crashed several times while parsing it.')
  await retryOperatorMail(app, id)
  await eventually(() => countQueueEntries(app.db) === 0 && mail().length === 1)
  expect(mail()).toEqual([[expect.not.stringMatching(id), 'The message is addressed to the operator.']])
  await expect(retryOperatorMail(app, id)).rejects.toMatchObject({ status: 404 })
  app.db.run(`UPDATE operator_mail SET rcpt_to = '["x@elsewhere.test"]'`)
  const [[other = ''] = []] = mail()
  await expect(retryOperatorMail(app, other)).rejects.toMatchObject({ status: 409 })
  expect(mail()).toHaveLength(1)
  // A full mailbox among the recipients: its copy must not be lost.
  app.db.run(`UPDATE operator_mail SET rcpt_to = '["postmaster@mail.tassis.test", "agent@inbound.test"]'`)
  app.db.run('UPDATE agent_mailboxes SET unread_count = 1000000')
  await expect(retryOperatorMail(app, other)).rejects.toMatchObject({ status: 409, code: 'mailbox_full' })
  expect(mail()).toHaveLength(1)
  app.db.run('UPDATE agent_mailboxes SET unread_count = 0')
  await retryOperatorMail(app, other)
  await eventually(() => countQueueEntries(app.db) === 0 && mail().length === 1)
  expect(messages()).toHaveLength(1)
  await processor.stop(0)
})
