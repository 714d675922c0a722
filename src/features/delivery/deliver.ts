/**
 * @module One attempt at one recipient, top to bottom: compose with tracking, sign, then a transaction at the first host that lets us in. Runs in a Worker.
 * Never judges a reply and never touches the main database.
 */
import type { KeyObject } from 'node:crypto'
import type { ContentReader } from '#platform/content/read.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { composeMessage } from '#protocols/mime/compose.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import type { TransactionResult } from '#protocols/smtp/client.ts'
import { addTracking } from '../tracking/rewrite.ts'
import { dayOf } from '../tracking/tokens.ts'
import { type Connection, type Connections, TOOK_TOO_LONG, targetsOf } from './connections.ts'
import type { AttemptResult, AttemptSession, DeliverJob, TrackingSettings } from './protocol.ts'

export interface TransmitOptions {
  /** Resolves when the start of DATA is durable; rejects when nothing may leave. */
  readonly beforeBody: () => Promise<void>
  /** Aborted when the attempt takes too long: its session is closed, and no other is opened. */
  readonly signal: AbortSignal
}

export interface Attempt {
  readonly result: AttemptResult
  readonly session: AttemptSession | undefined
}

/** The signed message of a job: the same job gives the same bytes. */
export async function prepareMessage(
  job: DeliverJob,
  content: ContentReader,
  privateKey: KeyObject,
  tracking: TrackingSettings,
): Promise<Uint8Array> {
  const { compose, dkim } = job
  const body = (ref: number | null) => (ref === null ? undefined : Buffer.from(content.get(ref)).toString('utf8'))
  const { rendered } = compose
  const html = rendered ? rendered.html : body(compose.htmlRef)
  // Of the HTML as it was given: a text shows its links, and people read them.
  const given = rendered ? rendered.text : body(compose.textRef)
  const text = given ?? (html === undefined ? undefined : htmlToText(html))
  const message = await composeMessage({
    from: compose.from,
    to: compose.to,
    cc: compose.cc,
    subject: compose.subject,
    date: new Date(compose.dateMs),
    messageId: compose.messageId,
    headers: compose.headers,
    attachments: compose.attachments.map((a) => ({
      filename: a.filename,
      contentType: a.contentType,
      content: content.get(a.ref),
    })),
    boundarySeed: compose.boundarySeed,
    ...(compose.replyTo !== undefined && { replyTo: compose.replyTo }),
    ...(html !== undefined && { html: trackedHtml(html, job, tracking) }),
    ...(text !== undefined && { text }),
  })
  return signMessage(message, { domain: dkim.domain, selector: dkim.selector, privateKey })
}

/** The HTML with tracking, for an email that is tracked. */
function trackedHtml(html: string, { recipientId, compose }: DeliverJob, { keyHex, ownUrl }: TrackingSettings): string {
  if (!compose.tracking) return html
  const { baseUrl, account } = compose.tracking
  return addTracking(html, {
    recipient: { account, recipientId, day: dayOf(compose.dateMs) },
    key: Uint8Array.fromHex(keyHex),
    baseUrl,
    ownUrls: [ownUrl, baseUrl],
  })
}

/**
 * Sends a prepared message: over an idle session of the site, else over a new one at the first address of the route that opens one. When a
 * session ends before any octet of the message has left, the next address is tried; a session used before that ended uses none up.
 */
export async function transmit(
  job: DeliverJob,
  message: Uint8Array,
  connections: Connections,
  { beforeBody, signal }: TransmitOptions,
): Promise<Attempt> {
  const { route } = job
  const targets = targetsOf(route).length
  let next = 0
  let connection = connections.reuse(route.site)
  for (;;) {
    if (!connection) {
      const opened = await connections.open(route, next, signal)
      next = opened.next
      if (opened.kind !== 'open') return { result: opened, session: undefined }
      connection = opened.connection
    }
    let result: TransactionResult
    const { client } = connection
    const close = () => client.destroy(TOOK_TOO_LONG)
    signal.addEventListener('abort', close)
    try {
      result = await sendOver(connection, job, message, beforeBody)
    } finally {
      signal.removeEventListener('abort', close)
      connections.release(route.site, connection)
    }
    const mayTryNext = endedBeforeBody(result) && !signal.aborted && (connection.reused || next < targets)
    if (!mayTryNext) return { result, session: connection.session }
    connection = connections.reuse(route.site)
  }
}

/** The session is over and no octet of the message has left. A 421 says so in words, for example to a session that was idle too long. */
const endedBeforeBody = (result: TransactionResult): boolean =>
  result.kind === 'lost' || (result.kind === 'refused' && result.phase !== 'body' && result.reply.code === 421)

const sendOver = ({ client }: Connection, job: DeliverJob, message: Uint8Array, beforeBody: () => Promise<void>) =>
  client.send({
    mailFrom: job.mailFrom,
    rcptTo: job.rcptTo,
    message,
    smtpUtf8: job.smtpUtf8,
    eightBit: false,
    beforeBody,
  })
