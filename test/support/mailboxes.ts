/** @module Received messages of agent mailboxes, for tests: stored as the processing stores them, without a socket. */

import type { App } from '#features/core/app/app.ts'
import { deliverToMailbox } from '#features/receiving/agent-mailboxes/deliver.ts'
import { getMailbox, type Mailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Timer } from '#platform/time/clock.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { at } from './api.ts'
import type { TestAppOptions } from './app.ts'
import { createEmailApi, type EmailApi, NOW } from './email-api.ts'

export const AUTHENTICATION: AuthenticationResult = {
  spf: 'pass',
  dkim: 'pass',
  dmarc: 'pass',
  arc: 'none',
  iprev: 'pass',
  details: {
    spf: { result: 'pass', domain: 'example.com', client_ip: '192.0.2.7', helo: 'mx.example.com', comment: null },
    dkim: [],
    dmarc: { result: 'pass', domain: 'example.com', policy: 'reject', comment: null },
    arc: { result: 'none', instances: 0, comment: null },
    iprev: { result: 'pass', name: 'mx.example.com' },
  },
}

export interface TestMessage {
  readonly from?: string
  readonly fromAddress?: string
  readonly mailFrom?: string
  readonly to?: string
  readonly cc?: string
  readonly replyTo?: string
  readonly subject?: string
  readonly text?: string | null
  readonly strippedText?: string
  readonly html?: string
  readonly messageId?: string | null
  readonly inReplyTo?: string
  readonly references?: readonly string[]
  readonly headers?: readonly (readonly [string, string])[]
  readonly isAutomatic?: boolean
  readonly attachments?: readonly {
    readonly filename: string | null
    readonly contentType: string
    readonly content: Uint8Array
    readonly contentId?: string
    readonly disposition?: 'attachment' | 'inline'
  }[]
  readonly classification?: { readonly label: string; readonly confidence: number }
  /** As received. */
  readonly raw?: string
  readonly tls?: string
}

let made = 0

/** A received message with its blobs stored; missing fields get small values. */
export async function createReceivedMessage(
  app: App,
  given: TestMessage = {},
): Promise<ReceivedMail & { readonly message: StoredMessage }> {
  const store = async (bytes: string | Uint8Array | null | undefined) =>
    bytes === null || bytes === undefined
      ? null
      : ((await app.content.put([Buffer.from(bytes)], app.clock.now()))[0] ?? null)
  const fromAddress = given.fromAddress ?? 'ada@example.com'
  const text = given.text === undefined ? 'Hello, mailbox.' : given.text
  const attachments = await Promise.all(
    (given.attachments ?? []).map(async ({ content, filename, contentType, contentId, disposition }) => ({
      filename,
      contentType,
      contentId: contentId ?? null,
      disposition: disposition ?? ('attachment' as const),
      sizeBytes: content.length,
      ref: (await store(content)) ?? 0,
    })),
  )
  const [rawRef = 1] = given.raw === undefined ? [] : await app.rawMail.put([Buffer.from(given.raw)], app.clock.now())
  return {
    envelope: {
      mailFrom: given.mailFrom ?? fromAddress,
      sourceIp: '192.0.2.7',
      helo: 'mx.example.com',
      tls: given.tls ?? null,
      receivedAt: app.clock.now(),
      rawRef,
      sizeBytes: 1234,
    },
    problem: undefined,
    authentication: AUTHENTICATION,
    report: undefined,
    message: {
      headers: given.headers ?? [],
      from: given.from ?? `Ada Lovelace <${fromAddress}>`,
      to: given.to ?? 'support@sender.test',
      cc: given.cc ?? null,
      replyTo: given.replyTo ?? null,
      fromAddresses: [fromAddress],
      toAddresses: [given.to ?? 'support@sender.test'],
      subject: given.subject ?? 'Hello',
      messageId: given.messageId === undefined ? `<${++made}@example.com>` : given.messageId,
      inReplyTo: given.inReplyTo ?? null,
      references: given.references ?? [],
      dateMs: app.clock.now(),
      text,
      html: given.html ?? null,
      isAutomatic: given.isAutomatic ?? false,
      headersRef: null,
      textRef: await store(text),
      htmlRef: await store(given.html),
      strippedText: given.strippedText ?? null,
      strippedRef: await store(given.strippedText),
      attachments,
    },
  }
}

/** Stores a message in a mailbox; returns its public id. */
export async function deliverMessage(app: App, mailbox: Mailbox, given: TestMessage = {}): Promise<string> {
  const received = await createReceivedMessage(app, given)
  const { uuid } = await app.commit.write((tx) =>
    deliverToMailbox(app, tx, mailbox, received, { classification: given.classification }),
  )
  return formatUuid(uuid)
}

/** An account's mailbox with a public id. */
export const getTestMailbox = (app: App, accountId: number, id: unknown): Mailbox =>
  getMailbox(app.db, accountId, String(id))

/** A clock that counts its running timers, so that a test knows when a caller waits. */
export class CountingClock extends ManualClock {
  #running = 0

  get running(): number {
    return this.#running
  }

  override after(delayMs: number, run: () => void): Timer {
    this.#running++
    let isOver = false
    const finish = () => {
      if (!isOver) this.#running--
      isOver = true
    }
    const timer = super.after(delayMs, () => {
      finish()
      run()
    })
    return {
      cancel() {
        finish()
        timer.cancel()
      },
    }
  }
}

export interface MailboxApi extends EmailApi {
  readonly clock: CountingClock
  /** Creates a mailbox of the first account. */
  newMailbox(input?: Readonly<Record<string, unknown>>): Promise<Mailbox>
  /** Stores a message in a mailbox; returns its public id. */
  deliver(mailbox: Mailbox, given?: TestMessage): Promise<string>
  /** Path of a mailbox, with a suffix. */
  path(mailbox: Mailbox, rest?: string): string
}

/** The emails API, whose verified domain also receives. */
export async function createMailboxApi(options: TestAppOptions = {}): Promise<MailboxApi> {
  const clock = new CountingClock(NOW)
  const service = await createEmailApi({ clock, ...options })
  const { app, api, actor } = service
  app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE verified_at IS NOT NULL')
  return {
    ...service,
    clock,
    async newMailbox(input = {}) {
      const answer = await api('POST', '/v1/agent-mailboxes', input)
      if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
      return getTestMailbox(app, actor.accountId, at(answer.body, 'data', 'id'))
    },
    deliver: (mailbox, given) => deliverMessage(app, mailbox, given),
    path: (mailbox, rest = '') => `/v1/agent-mailboxes/${formatUuid(mailbox.uuid)}${rest}`,
  }
}
