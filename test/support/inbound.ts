/** @module Inbound mail for tests that are not about receiving: stored as the processing would store it. */
import type { App } from '#features/core/app/app.ts'
import { receiveMessage } from '#features/receiving/inbound/process/queue.ts'
import { type NewInbound, storeInbound } from '#features/receiving/inbound/process/store.ts'
import type { CompleteMessage, Destination, ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'

export interface TestInbound {
  readonly rcptTo?: readonly string[]
  readonly routeId?: number
  readonly message?: Partial<StoredMessage>
  readonly text?: string
  readonly html?: string
  readonly headers?: readonly (readonly [string, string])[]
  readonly raw?: string
  readonly attachments?: readonly {
    readonly filename: string | null
    readonly contentType: string
    readonly contentId?: string
    readonly content: Uint8Array
  }[]
  readonly authentication?: ReceivedMail['authentication']
  readonly spam?: ReceivedMail['spam']
  readonly helo?: string
  readonly sourceIp?: string
  readonly receivedAt?: number
  /** Why it could not be parsed. */
  readonly problem?: string
}

export const RAW = 'From: Ada <ada@customer.test>\r\nSubject: Hello\r\n\r\nHello.\r\n'

/** A received message, with its blobs stored. */
export async function createTestReceived(
  app: App,
  given: TestInbound = {},
): Promise<ReceivedMail & { message: StoredMessage }> {
  const now = app.clock.now()
  const raw = Buffer.from(given.raw ?? RAW)
  const put = async (text: string | undefined) =>
    text === undefined ? null : ((await app.content.put([Buffer.from(text)], now))[0] ?? null)
  const [rawRef = 0] = await app.rawMail.put([raw], now)
  const headers = given.headers ?? [['Subject', 'Hello']]
  const attachments = given.attachments ?? []
  const refs = await app.content.put(
    attachments.map(({ content }) => content),
    now,
  )
  return {
    envelope: {
      mailFrom: 'ada@customer.test',
      sourceIp: given.sourceIp ?? '192.0.2.7',
      helo: given.helo ?? 'mx.customer.test',
      tls: null,
      receivedAt: given.receivedAt ?? now,
      rawRef,
      sizeBytes: raw.length,
    },
    message: {
      headers,
      from: 'Ada <ada@customer.test>',
      to: 'Support <support@inbound.test>',
      cc: null,
      replyTo: null,
      fromAddresses: ['ada@customer.test'],
      toAddresses: ['support@inbound.test'],
      subject: 'Hello',
      messageId: '<1@customer.test>',
      inReplyTo: null,
      references: [],
      dateMs: null,
      text: given.text ?? null,
      html: given.html ?? null,
      isAutomatic: false,
      headersRef: await put(JSON.stringify(headers)),
      textRef: await put(given.text),
      htmlRef: await put(given.html),
      strippedText: null,
      strippedRef: null,
      attachments: attachments.map(({ content, ...rest }, index) => ({
        contentId: null,
        ...rest,
        disposition: 'attachment' as const,
        sizeBytes: content.length,
        ref: refs[index] ?? 0,
      })),
      ...given.message,
    },
    problem: undefined,
    authentication: given.authentication ?? UNKNOWN_AUTHENTICATION,
    report: undefined,
    spam: given.spam ?? null,
  }
}

/** Stores it for an account's domain; returns its public id. */
export async function storeTestInbound(
  app: App,
  to: Pick<NewInbound, 'accountId' | 'domainId'>,
  given: TestInbound = {},
): Promise<string> {
  const { message, ...rest } = await createTestReceived(app, given)
  const received: ReceivedMail = { ...rest, message, problem: given.problem }
  return app.commit.write((tx) => {
    storeInbound(app, tx, { ...to, routeId: given.routeId, rcptTo: given.rcptTo ?? ['support@inbound.test'] }, received)
    const row = tx.db
      .query<{ id: string }, []>('SELECT lower(hex(uuid)) AS id FROM inbound_emails ORDER BY id DESC LIMIT 1')
      .get()
    return (row?.id ?? '').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  })
}

/** Receives a message as the listener does after its final dot. */
export const receiveTestMail = (
  app: App,
  destinations: readonly Destination[],
  content: string | Uint8Array = RAW,
  facts: Partial<Pick<CompleteMessage, 'mailFrom' | 'sourceIp' | 'helo'>> = {},
): Promise<void> =>
  receiveMessage(app, {
    mailFrom: 'ada@sender.test',
    destinations,
    sourceIp: '192.0.2.1',
    helo: 'mx.sender.test',
    tls: null,
    sizeBytes: content.length,
    content: { kind: 'bytes', bytes: Buffer.from(content) },
    ...facts,
  })
