/**
 * @module One delivery attempt to one recipient: composes with tracking, signs, and runs a transaction at the first
 * host that accepts the connection. Runs in a Worker. Never classifies a reply and never touches the main database.
 */
import type { KeyObject } from 'node:crypto'
import { addTracking } from '#features/sending/tracking/rewrite.ts'
import type { ContentReader } from '#platform/content/read.ts'
import { KiB } from '#platform/units.ts'
import { RelaxedBodyHash } from '#protocols/dkim/body-hash.ts'
import { createSignatureField } from '#protocols/dkim/sign.ts'
import { type Attachment, composeMessage } from '#protocols/mime/compose.ts'
import { type EncodedPart, encodeBase64, encodeText } from '#protocols/mime/encode.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import type { TransactionResult } from '#protocols/smtp/client.ts'
import { ATTEMPT_TIMEOUT, type Connection, type Connections, listTargets } from './connections.ts'
import type { AttemptResult, AttemptSession, DeliverJob, TrackingSettings } from './protocol.ts'

export interface TransmitOptions {
  /** Resolves when the start of DATA is durable; rejects when nothing may be sent. */
  readonly beforeBody: () => Promise<void>
  /** Aborted when the attempt takes too long: the session of the attempt is closed, and no other is opened. */
  readonly signal: AbortSignal
}

export interface Attempt {
  readonly result: AttemptResult
  readonly session: AttemptSession | undefined
}

/** Parts that the recipients of one email share; the first attempt fills them. */
export interface SharedBody {
  text?: EncodedPart | undefined
  html?: EncodedPart
  attachments?: readonly Attachment[]
  /** Hash of the body; set when no part of the body is specific to a recipient. */
  bodyHash?: string
}

/**
 * Composes and signs the message of a job; the same job always produces the same bytes. Yields regularly, so that a
 * large message does not block the SMTP sessions of other accounts in this Worker.
 * @param shared the parts that recipients of this email share
 */
export function* prepareMessage(
  job: DeliverJob,
  shared: SharedBody,
  content: ContentReader,
  privateKey: KeyObject,
  tracking: TrackingSettings,
): Generator<void, readonly Buffer[]> {
  const { compose, dkim } = job
  shared.text ??= yield* encodeTextPart(job, content)
  shared.attachments ??= yield* encodeAttachments(job, content)
  const { text, attachments } = shared
  const html = yield* encodeHtmlPart(job, shared, content, tracking)
  const { header, body } = composeMessage({
    from: compose.from,
    to: compose.to,
    cc: compose.cc,
    subject: compose.subject,
    date: new Date(compose.dateMs),
    messageId: compose.messageId,
    headers: compose.headers,
    attachments,
    boundarySeed: compose.boundarySeed,
    ...(compose.replyTo !== undefined && { replyTo: compose.replyTo }),
    ...(html && { html }),
    ...(text && { text }),
  })
  const isAllShared = html === shared.html
  const bodyHash = (isAllShared ? shared.bodyHash : undefined) ?? (yield* hashBody(body))
  if (isAllShared) shared.bodyHash = bodyHash
  return [
    createSignatureField(header, bodyHash, { domain: dkim.domain, selector: dkim.selector, privateKey }),
    header,
    ...body,
  ]
}

/**
 * The provided text, or one converted from the HTML. Links in a text are not tracked, because readers would see the
 * tracking URLs.
 */
function* encodeTextPart(job: DeliverJob, content: ContentReader): Generator<void, EncodedPart | undefined> {
  const text = readSource(job, content, 'text')
  if (text !== undefined) return yield* encodeText(text)
  const html = readSource(job, content, 'html')
  if (html === undefined) return undefined
  const converted = htmlToText(html.toString())
  yield
  return yield* encodeText(Buffer.from(converted))
}

/** The HTML; with tracking, it is specific to the recipient. */
function* encodeHtmlPart(
  job: DeliverJob,
  shared: SharedBody,
  content: ContentReader,
  tracking: TrackingSettings,
): Generator<void, EncodedPart | undefined> {
  if (shared.html) return shared.html
  const source = readSource(job, content, 'html')
  if (source === undefined) return undefined
  const html = source.toString()
  const tracked = applyTracking(html, job, tracking)
  yield
  if (tracked !== html) return yield* encodeText(Buffer.from(tracked))
  shared.html = yield* encodeText(source)
  return shared.html
}

/** A body as rendered for the recipient, or as stored. */
function readSource({ compose }: DeliverJob, content: ContentReader, part: 'html' | 'text'): Buffer | undefined {
  const rendered = compose.rendered?.[part]
  if (compose.rendered) return rendered === undefined ? undefined : Buffer.from(rendered)
  const ref = part === 'html' ? compose.htmlRef : compose.textRef
  return ref === null ? undefined : Buffer.from(content.get(ref))
}

function* encodeAttachments({ compose }: DeliverJob, content: ContentReader): Generator<void, Attachment[]> {
  const attachments: Attachment[] = []
  for (const { filename, contentType, ref } of compose.attachments) {
    attachments.push({ filename, contentType, content: yield* encodeBase64(content.chunks(ref)) })
    yield
  }
  return attachments
}

/** Octets hashed between two yields. */
const HASH_CHUNK_BYTES = 128 * KiB

function* hashBody(body: readonly Buffer[]): Generator<void, string> {
  const hash = new RelaxedBodyHash()
  let hashedBytes = 0
  for (const piece of body) {
    for (let from = 0; from < piece.length; from += HASH_CHUNK_BYTES) {
      const chunk = piece.subarray(from, from + HASH_CHUNK_BYTES)
      hash.update(chunk)
      hashedBytes += chunk.length
      if (hashedBytes < HASH_CHUNK_BYTES) continue
      hashedBytes = 0
      yield
    }
  }
  return hash.digest()
}

/** Adds tracking to the HTML of a tracked email. */
function applyTracking(
  html: string,
  { recipientId, compose }: DeliverJob,
  { keyHex, ownUrl }: TrackingSettings,
): string {
  if (!compose.tracking) return html
  const { baseUrl, account, day } = compose.tracking
  return addTracking(html, {
    recipient: { account, recipientId, day },
    key: Uint8Array.fromHex(keyHex),
    baseUrl,
    ownUrls: [ownUrl, baseUrl],
  })
}

/**
 * How many hosts may reject an attempt with a 4xx before the attempt ends. RFC 5321 §5.1 asks to try each host, but
 * greylisting, full mailboxes and throttling are the same at all hosts of a site, so trying more hosts would cost
 * sessions without effect.
 */
const MAX_REJECTING_HOSTS = 3

/**
 * Sends a prepared message over an idle session of the site, or else over a new session to the first address of the
 * route that accepts one. As long as no octet of the message was sent, a lost session is followed by the next address,
 * and a 4xx rejection by the next host. A reused session that the server ended is simply replaced. A 5xx is final for
 * the domain, whichever host returns it.
 */
export async function transmit(
  job: DeliverJob,
  message: readonly Uint8Array[],
  connections: Connections,
  { beforeBody, signal }: TransmitOptions,
): Promise<Attempt> {
  const { route } = job
  const targets = listTargets(route)
  const rejectingHosts = new Set<string>()
  let rejection: Attempt | undefined
  let next = 0
  let connection = connections.reuse(route.site)
  for (;;) {
    if (!connection) {
      const opened = await connections.open(route, next, rejectingHosts, signal)
      next = opened.next
      if (opened.kind !== 'open') {
        if (rejection) return rejection
        // We ended the attempt because the site was slow. The site is not reported as unreachable, because that would
        // cause a backoff for other mail.
        const ended = signal.aborted ? ({ kind: 'lost', phase: 'mail', failure: ATTEMPT_TIMEOUT } as const) : opened
        return { result: ended, session: undefined }
      }
      connection = opened.connection
    }
    let result: TransactionResult
    const { client, session, isReused } = connection
    const close = () => client.destroy(ATTEMPT_TIMEOUT)
    signal.addEventListener('abort', close)
    try {
      result = await sendOverConnection(connection, job, message, beforeBody)
    } finally {
      signal.removeEventListener('abort', close)
      // This host was tried only after another one had rejected the message. The session ends, because the messages
      // that follow must go to the hosts in order of preference (RFC 5321 §5.1).
      if (rejection) void client.quit()
      else connections.release(route.site, connection)
    }
    const attempt = { result, session }
    // Servers end sessions that were idle or carried many messages; that is not a failure of the host.
    const isStaleSession = isReused && hasEndedSession(result)
    const isRejected = isTemporaryRejection(result) && !isStaleSession
    if (isRejected) {
      rejectingHosts.add(session.host)
      rejection = attempt
    }
    if (signal.aborted || !(result.kind === 'lost' || isTemporaryRejection(result))) return attempt
    const hasNext = targets.slice(next).some(({ host }) => !rejectingHosts.has(host))
    if (!(isStaleSession || hasNext) || rejectingHosts.size >= MAX_REJECTING_HOSTS) return rejection ?? attempt
    connection = rejection ? undefined : connections.reuse(route.site)
  }
}

const hasEndedSession = (result: TransactionResult): boolean =>
  result.kind === 'lost' || (result.kind === 'refused' && result.reply.code === 421)

/** Whether a 4xx came before any octet of the message was sent: then the next host may accept the message. */
const isTemporaryRejection = (result: TransactionResult): boolean =>
  result.kind === 'refused' && result.phase !== 'body' && result.reply.code < 500

const sendOverConnection = (
  { client }: Connection,
  job: DeliverJob,
  message: readonly Uint8Array[],
  beforeBody: () => Promise<void>,
) =>
  client.send({
    mailFrom: job.mailFrom,
    rcptTo: job.rcptTo,
    message,
    smtpUtf8: job.smtpUtf8,
    eightBit: false,
    beforeBody,
  })
