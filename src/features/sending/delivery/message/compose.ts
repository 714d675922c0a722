/**
 * @module Composes the message of one recipient from a job and the stored content. Used by the delivery Workers, and on
 * the main thread to show the source of an email. Never signs, never sends.
 */
import { addTracking } from '#features/sending/tracking/rewrite.ts'
import type { ContentReader } from '#platform/content/read.ts'
import { KiB } from '#platform/units.ts'
import { CanonicalBody } from '#protocols/dkim/body-hash.ts'
import { type Attachment, findContentIds, isUnencoded } from '#protocols/mime/attachment.ts'
import { composeMessage } from '#protocols/mime/compose.ts'
import { type EncodedPart, encodeBase64, encodeLines, encodeText } from '#protocols/mime/encode.ts'
import { convertHtml } from '#protocols/mime/html-text.ts'
import { asBuffer } from '#protocols/mime/source.ts'
import type { DeliverJob, TrackingSettings } from '../protocol.ts'

/** The parts of a job from which its message is composed. */
export type ComposableJob = Pick<DeliverJob, 'recipientId' | 'compose'>

type Reader = Pick<ContentReader, 'get' | 'chunks'>

/** Parts that the recipients of one email share; the first attempt fills them. */
export interface SharedBody {
  text?: EncodedPart | undefined
  html?: EncodedPart
  attachments?: readonly Attachment[]
  /** A message that is not composed. */
  whole?: UnsignedMessage
  /** Set when no part of the body is specific to a recipient. */
  bodyHash?: string
}

export interface UnsignedMessage {
  readonly header: Buffer
  readonly body: readonly Buffer[]
  /** Whether no part of the body is specific to the recipient. */
  readonly isAllShared: boolean
}

/** Composes the message of a job; the same job always produces the same bytes. Yields regularly. */
export function* composeUnsigned(
  job: ComposableJob,
  shared: SharedBody,
  content: Reader,
  tracking: TrackingSettings,
): Generator<void, UnsignedMessage> {
  const { compose } = job
  if (compose.isWhole) shared.whole ??= yield* splitWhole(content.chunks(compose.attachments[0]?.ref ?? 0))
  if (shared.whole) return shared.whole
  shared.text ??= yield* encodeTextPart(job, content)
  shared.attachments ??= yield* encodeAttachments(job, content)
  const { text } = shared
  const attachments = keepReferencedIds(job, shared.attachments, content)
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
    ...(compose.reportType !== undefined && { reportType: compose.reportType }),
    ...(html && { html }),
    ...(text && { text }),
  })
  return { header, body, isAllShared: html === shared.html }
}

/** Pieces of a stored message that hold its header, of 1 MiB at most and of ours. */
const HEADER_PIECES = 16

/** The header and body of a stored message; most of the body is in memory once, as it was read. */
function* splitWhole(chunks: Iterable<Uint8Array>): Generator<void, UnsignedMessage> {
  const pieces: Buffer[] = []
  for (const chunk of chunks) {
    pieces.push(asBuffer(chunk))
    yield
  }
  const start = Buffer.concat(pieces.splice(0, HEADER_PIECES))
  const end = (start.indexOf('\r\n\r\n') + 1 || start.length - 3) + 3
  return { header: start.subarray(0, end), body: [start.subarray(end), ...pieces], isAllShared: true }
}

/** The provided text, or one converted from the HTML. Readers see its URLs, so they are not tracked. */
function* encodeTextPart(job: ComposableJob, content: Reader): Generator<void, EncodedPart | undefined> {
  const text = readSource(job, content, 'text')
  if (text !== undefined) return yield* encodeText(text)
  const html = readSource(job, content, 'html')
  if (html === undefined) return undefined
  const converted = yield* convertHtml(html.toString())
  yield
  return yield* encodeText(Buffer.from(converted))
}

/** The HTML; with tracking, it is specific to the recipient. */
function* encodeHtmlPart(
  job: ComposableJob,
  shared: SharedBody,
  content: Reader,
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
function readSource({ compose }: ComposableJob, content: Reader, part: 'html' | 'text'): Buffer | undefined {
  const rendered = compose.rendered?.[part]
  if (compose.rendered) return rendered === undefined ? undefined : Buffer.from(rendered)
  const ref = part === 'html' ? compose.htmlRef : compose.textRef
  return ref === null ? undefined : Buffer.from(content.get(ref))
}

function* encodeAttachments({ compose }: ComposableJob, content: Reader): Generator<void, Attachment[]> {
  const attachments: Attachment[] = []
  for (const { ref, ...attachment } of compose.attachments) {
    const lines = isUnencoded(attachment) ? yield* encodeLines(content.get(ref)) : undefined
    attachments.push({ ...attachment, content: lines ?? (yield* encodeBase64(content.chunks(ref))) })
    yield
  }
  return attachments
}

/** Removes the ids to which the HTML does not refer, because a file in the text that nothing shows would be hidden. */
function keepReferencedIds(
  job: ComposableJob,
  attachments: readonly Attachment[],
  content: Reader,
): readonly Attachment[] {
  if (!attachments.some(({ contentId }) => contentId !== undefined)) return attachments
  const ids = findContentIds(readSource(job, content, 'html')?.toString() ?? '')
  return attachments.map(({ contentId, ...attachment }) =>
    contentId !== undefined && ids.has(contentId) ? { ...attachment, contentId } : attachment,
  )
}

export function applyTracking(
  html: string,
  { recipientId, compose }: ComposableJob,
  { ownUrl }: TrackingSettings,
): string {
  if (!compose.tracking) return html
  const { baseUrl, account, day, keyHex, parts } = compose.tracking
  return addTracking(html, {
    recipient: { account, recipientId, day },
    key: Uint8Array.fromHex(keyHex),
    baseUrl,
    ownUrls: [ownUrl, baseUrl],
    parts,
  })
}

/** Octets hashed between two yields. */
const HASH_CHUNK_BYTES = 128 * KiB

/** The hash of a body for its signatures, in base64. */
export function* hashBody(body: readonly Buffer[]): Generator<void, string> {
  const canonical = new CanonicalBody('relaxed')
  const hash = canonical.addHash('sha256')
  let hashedBytes = 0
  for (const piece of body) {
    for (let from = 0; from < piece.length; from += HASH_CHUNK_BYTES) {
      const chunk = piece.subarray(from, from + HASH_CHUNK_BYTES)
      canonical.update(chunk)
      hashedBytes += chunk.length
      if (hashedBytes < HASH_CHUNK_BYTES) continue
      hashedBytes = 0
      yield
    }
  }
  return hash.digest('base64')
}
