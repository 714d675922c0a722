/**
 * @module Received messages for tests of replies: a small one from a person, with overrides; and a service with a
 * mailbox to deliver them to.
 */

import type { App } from '#features/core/app/app.ts'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { getMailbox, type Mailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import type { Envelope, ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { formatUuid } from '#platform/ids.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { AUTHENTICATION } from '#test/support/mailboxes.ts'

export type ReceivedMessage = ReceivedMail & { readonly message: StoredMessage }

export const MAILBOX_DOMAIN = 'sender.test'
export const MAILBOX_ADDRESS = `agent@${MAILBOX_DOMAIN}`

export const createMessage = (change: Partial<StoredMessage> = {}): StoredMessage => ({
  headers: [
    ['From', 'Bob <bob@receiver.test>'],
    ['To', MAILBOX_ADDRESS],
    ['Subject', 'A question'],
  ],
  from: 'Bob <bob@receiver.test>',
  to: MAILBOX_ADDRESS,
  cc: null,
  replyTo: null,
  fromAddresses: ['bob@receiver.test'],
  toAddresses: [MAILBOX_ADDRESS],
  subject: 'A question',
  messageId: '<question@receiver.test>',
  inReplyTo: null,
  references: [],
  dateMs: null,
  text: 'How do I begin?\n',
  html: null,
  isAutomatic: false,
  headersRef: null,
  textRef: null,
  htmlRef: null,
  strippedText: null,
  strippedRef: null,
  attachments: [],
  ...change,
})

const AUTHENTIC: AuthenticationResult = { ...AUTHENTICATION, dkim: 'none', dmarc: 'none', iprev: 'none' }

/** Authentication results, with DMARC's policy next to its result. */
export const createAuthentication = (
  change: Partial<Omit<AuthenticationResult, 'details'>>,
  policy: string | null = null,
): AuthenticationResult => ({
  ...AUTHENTIC,
  ...change,
  details: { ...AUTHENTIC.details, dmarc: { ...AUTHENTIC.details.dmarc, result: change.dmarc ?? 'none', policy } },
})

export const createReceived = (
  message: Partial<StoredMessage> = {},
  envelope: Partial<Envelope> = {},
  authentication: AuthenticationResult = AUTHENTIC,
): ReceivedMessage => ({
  envelope: {
    mailFrom: 'bob@receiver.test',
    sourceIp: '127.0.0.1',
    helo: 'mx.receiver.test',
    tls: null,
    receivedAt: 1,
    rawRef: 1,
    sizeBytes: 100,
    ...envelope,
  },
  message: createMessage(message),
  problem: undefined,
  authentication,
  report: undefined,
})

/** Delivers a message to a mailbox like the processing of received mail; returns its public id. */
export async function deliver(app: App, mailbox: Mailbox, received: ReceivedMessage): Promise<string> {
  const { uuid } = await app.commit.write((tx) => deliverToMailbox(app, tx, mailbox, received))
  return formatUuid(uuid)
}

export interface MailboxApi extends EmailApi {
  /** Path of the mailbox agent@sender.test. */
  readonly path: string
  /** Its current state. */
  mailbox(): Mailbox
  /** Delivers a message to it; returns the path of the message. */
  receive(...given: Parameters<typeof createReceived>): Promise<string>
}

/** A service with the mailbox agent@sender.test, named "Agent Smith". */
export async function createMailboxApi(options: TestAppOptions = {}): Promise<MailboxApi> {
  const service = await createEmailApi(options)
  service.app.db.run('UPDATE domains SET inbound_enabled = 1')
  const created = await service.api('POST', '/v1/agent-mailboxes', { local_part: 'agent', display_name: 'Agent Smith' })
  const id = String(at(created.body, 'data', 'id'))
  const path = `/v1/agent-mailboxes/${id}`
  const mailbox = () => getMailbox(service.app.db, service.actor.accountId, id)
  return {
    ...service,
    path,
    mailbox,
    receive: async (...given) => `${path}/messages/${await deliver(service.app, mailbox(), createReceived(...given))}`,
  }
}
