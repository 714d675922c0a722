/**
 * @module The parts of received messages, for mailboxes and inbound mail: bodies, attachments, headers, and the raw
 * form as a download. Remote clients control all of it, so everything is truncated. The raw form is streamed: the
 * received octets below the trace fields of this host, without fields that arrived with the message and claim to be our
 * authentication results (RFC 8601 §5). Links to files need no key: a client gets one from an API response and fetches
 * it as it is. A link is sealed, names one file of one message, and expires.
 */
import type { App } from '#features/core/app/app.ts'
import { contentMissing, requireIntact, toContentState } from '#features/core/app/stored-content.ts'
import { CorruptBlobError, MissingBlobError } from '#platform/content/frames.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import { encodeVarint, MAX_VARINT_BYTES } from '#platform/crypto/token-bytes.ts'
import { notFound } from '#platform/errors.ts'
import { streamDownload } from '#platform/http/download.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { days, hours, KiB, type Millis } from '#platform/units.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { formatAuthenticationResults, removeForgedResults } from '#protocols/authentication/results-header.ts'
import type { Envelope, StoredAttachment } from './message.ts'
import type { SpamVerdict } from './spam.ts'

/** Limit for one header field: a list of 1,000 addresses is truncated. The raw message has the complete field. */
const MAX_HEADER_LENGTH = 10_000

/** Truncates a header, never within a character. */
export const truncateHeader = (text: string): string =>
  (text.length <= MAX_HEADER_LENGTH ? text : text.slice(0, MAX_HEADER_LENGTH)).toWellFormed()

export const truncateOptionalHeader = (text: string | null | undefined): string | null =>
  text == null ? null : truncateHeader(text)

/**
 * Reads the first `maxBytes` of a body as text, never ending within a character; the rest is not read. Text is null
 * when the blob is missing: a list must not fail because of one blob.
 */
function readTruncatedText(app: Pick<App, 'content'>, ref: number | null, maxBytes: number) {
  if (ref === null) return { text: null, isTruncated: false, isMissing: false }
  try {
    return decodeTruncated(app.content.chunks(ref), maxBytes)
  } catch (error) {
    if (error instanceof MissingBlobError) return { text: null, isTruncated: false, isMissing: true }
    throw error
  }
}

/** The bodies of a message, each truncated after `maxBytes`, and whether any was or is missing. */
export function readTruncatedBodies(
  app: Pick<App, 'content'>,
  refs: { readonly textRef: number | null; readonly strippedRef: number | null; readonly htmlRef: number | null },
  maxBytes: number,
) {
  const text = readTruncatedText(app, refs.textRef, maxBytes)
  const stripped = readTruncatedText(app, refs.strippedRef, maxBytes)
  const html = readTruncatedText(app, refs.htmlRef, maxBytes)
  const all = [text, stripped, html]
  return {
    text_body: text.text,
    ...(stripped.text !== null && { text_body_stripped: stripped.text }),
    html_body: html.text,
    ...toContentState(all.some(({ isMissing }) => isMissing)),
    ...(all.some(({ isTruncated }) => isTruncated) && { truncated: true as const }),
  }
}

function decodeTruncated(chunks: Iterable<Uint8Array>, maxBytes: number) {
  const decoder = new TextDecoder()
  let text = ''
  let remainingBytes = maxBytes
  for (const chunk of chunks) {
    // In stream mode the decoder holds back an incomplete character.
    text += decoder.decode(chunk.subarray(0, remainingBytes), { stream: true })
    if (chunk.length > remainingBytes) return { text, isTruncated: true, isMissing: false }
    remainingBytes -= chunk.length
  }
  return { text: text + decoder.decode(), isTruncated: false, isMissing: false }
}

/** An attachment in the JSON of a message's row, with these names. */
export interface AttachmentJson {
  readonly filename: string | null
  readonly content_type: string
  readonly size: number
  readonly content_id?: string | null
  readonly disposition?: 'attachment' | 'inline'
  readonly ref: number
}

export const toAttachmentJson = (attachment: StoredAttachment): AttachmentJson => ({
  filename: attachment.filename,
  content_type: attachment.contentType,
  size: attachment.sizeBytes,
  content_id: attachment.contentId,
  disposition: attachment.disposition,
  ref: attachment.ref,
})

export const toAttachmentWire = (attachment: AttachmentJson) => ({
  filename: attachment.filename,
  content_type: attachment.content_type,
  size: attachment.size,
  content_id: attachment.content_id ?? null,
  disposition: attachment.disposition ?? ('attachment' as const),
})

/** Of a listed message: messages can have 1,000 attachments, and a list has 100 messages. */
const MAX_LISTED_BYTES = 32 * KiB
/** Number of attachments listed for a message above that limit. */
export const MAX_LISTED_ATTACHMENTS = 20

/** SQL for the attachments of a listed message: SQLite truncates long arrays before it returns them. */
export const selectListedAttachments = (column: string): string =>
  `CASE WHEN octet_length(${column}) <= ${MAX_LISTED_BYTES} THEN ${column}
   ELSE (SELECT json_group_array(json(value)) FROM (SELECT value FROM json_each(${column}) LIMIT ${MAX_LISTED_ATTACHMENTS})) END`

const POSITION = /^(?:0|[1-9]\d{0,5})$/

/** The attachment at `position`, counted from 0, as in the path. Throws 404. */
export function getAttachment(attachments: readonly AttachmentJson[], position: string): AttachmentJson {
  const attachment = POSITION.test(position) ? attachments[Number(position)] : undefined
  if (!attachment) throw notFound('attachment_not_found', 'Attachment not found; numbers start at 0.')
  return attachment
}

/** A message and facts from its session. */
export interface RawMessage extends Omit<Envelope, 'sizeBytes'> {
  readonly authentication: AuthenticationResult | null
  readonly spam: SpamVerdict | null
}

/** The message as a file; 404 when it is past the retention of raw messages, 410 when it is corrupt. */
export async function createRawDownload(
  app: Pick<App, 'rawMail' | 'config' | 'clock' | 'memory' | 'log'>,
  request: Request,
  message: RawMessage,
  name: string,
): Promise<Response> {
  const { hostname, inboundRawDays } = app.config
  if (app.clock.now() - message.receivedAt > days(inboundRawDays)) throw createRawDeletedError(inboundRawDays)
  const open = (): Iterable<Uint8Array> => app.rawMail.chunks(message.rawRef)
  try {
    await requireIntact(request, open())
    return streamDownload(app, request, () => generateRaw(message, open(), hostname), {
      contentType: 'message/rfc822',
      filename: `${name}.eml`,
    })
  } catch (error) {
    if (error instanceof CorruptBlobError) throw contentMissing(error)
    throw error instanceof MissingBlobError ? createRawDeletedError(inboundRawDays) : error
  }
}

const createRawDeletedError = (retentionDays: number) =>
  notFound(
    'raw_message_gone',
    `Raw messages are kept for ${retentionDays} days; the bodies and attachments are still available.`,
  )

function* generateRaw(
  message: RawMessage,
  chunks: Iterable<Uint8Array>,
  hostname: string,
): Generator<Uint8Array, void, void> {
  yield Buffer.from(`Return-Path: <${toSingleLine(message.mailFrom)}>\r\n${formatTraceFields(message, hostname)}`)
  yield* removeForgedResults(chunks, hostname, message.spam !== null)
}

/** RFC 5321 §4.4, RFC 8601 §4: newest first. */
export function formatTraceFields(message: RawMessage, hostname: string): string {
  const { authentication, spam } = message
  return [
    ...(authentication === null
      ? []
      : [`Authentication-Results: ${formatAuthenticationResults(authentication, hostname)}`]),
    ...(spam ? [`X-Spam-Status: ${formatSpamStatus(spam)}`] : []),
    `Received: ${formatReceivedField(message, hostname)}`,
    '',
  ].join('\r\n')
}

/** In the form of SpamAssassin, which mail filters read. */
const formatSpamStatus = ({ verdict, score, required, symbols }: SpamVerdict): string =>
  [
    `${verdict === 'ham' ? 'No' : 'Yes'}, score=${score.toFixed(1)} required=${required.toFixed(1)}`,
    ...(symbols.length > 0 ? [`tests=${symbols.map(({ name }) => name.replace(/\W/g, '')).join(',\r\n\t')}`] : []),
  ].join('\r\n\t')

/** Maximum length of a domain name; a client may send a whole line in HELO. */
const MAX_HELO_LENGTH = 255

function formatReceivedField(
  { helo, sourceIp, tls, authentication, receivedAt }: RawMessage,
  hostname: string,
): string {
  const iprev = authentication?.details.iprev.name ?? 'unknown'
  const address = sourceIp.includes(':') ? `IPv6:${sourceIp}` : sourceIp
  return [
    `from ${toSingleLine(helo.slice(0, MAX_HELO_LENGTH))}`,
    `(${toSingleLine(iprev)} [${address}])`,
    `by ${hostname} with ${tls === null ? 'ESMTP' : `ESMTPS (${toSingleLine(tls)})`};`,
    formatRfc5322Date(receivedAt),
  ].join('\r\n\t')
}

/** Client input for use in a header field. */
const toSingleLine = (text: string): string => text.replace(/[\x00-\x1f\x7f]/g, '?').toWellFormed()

const formatRfc5322Date = (at: Millis): string => new Date(at).toUTCString().replace('GMT', '+0000')

/** Of an inbound email the raw message or an attachment; an attachment of a sent or a mailbox message. */
const FILE_KINDS = ['raw', 'received', 'sent', 'mailbox'] as const

export interface LinkedFile {
  readonly kind: (typeof FILE_KINDS)[number]
  readonly accountId: number
  /** Of the email, or of the message in a mailbox. */
  readonly uuid: UuidBytes
  /** Position of the attachment, from 0; 0 for `raw`. */
  readonly index: number
}

const CONTEXT = 'file link'
const TTL_MS = hours(1)
const UUID_BYTES = 16
const MAX_TOKEN_LENGTH = sealedTokenLength(1 + UUID_BYTES + 3 * MAX_VARINT_BYTES)

/** A link to a file, opened by a route at `path`. Those of one hour are the same, so that they can be cached. */
export function createFileLink({ keys, config, clock }: App, path: string, file: LinkedFile) {
  const expiresAt = Math.ceil(clock.now() / TTL_MS) * TTL_MS + TTL_MS
  const token = sealToken(keys, CONTEXT, [
    Buffer.of(FILE_KINDS.indexOf(file.kind)),
    file.uuid,
    encodeVarint(file.accountId),
    encodeVarint(file.index),
    encodeVarint(expiresAt),
  ])
  return { url: `${config.publicUrl}${path}?token=${token}`, expiresAt }
}

/** The file of a link. Throws a 404 for a link that we did not create, or that has expired. */
export function openFileLink({ keys, clock }: Pick<App, 'keys' | 'clock'>, token: string): LinkedFile {
  const facts = openSealedToken(keys, CONTEXT, token, MAX_TOKEN_LENGTH)
  const kind = facts && FILE_KINDS[facts.take(1)[0] ?? -1]
  if (!facts || !kind) throw createExpiredError()
  const uuid = new Uint8Array(facts.take(UUID_BYTES))
  const [accountId, index, expiresAt] = [facts.takeInteger(), facts.takeInteger(), facts.takeInteger()]
  if (clock.now() > expiresAt) throw createExpiredError()
  return { kind, accountId, uuid, index }
}

/** The 404 for a link of which there is no file. */
export const createExpiredError = () =>
  notFound(
    'file_not_found',
    'This link is not valid or has expired; ask the API for the attachments again to get a new one.',
  )
