/**
 * @module Streams a received message in its raw form: the received octets below the trace fields of this host. Removes
 * fields that arrived with the message and claim to be our authentication results (RFC 8601 §5). Memory use does not
 * depend on its size.
 */

import type { App } from '#features/core/app/app.ts'
import { contentMissing, requireIntact } from '#features/core/app/stored-content.ts'
import { CorruptBlobError, MissingBlobError } from '#platform/content/blob-errors.ts'
import { notFound } from '#platform/errors.ts'
import { streamDownload } from '#platform/http/download.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { removeForgedResults } from '#protocols/authentication/results-filter.ts'
import { formatAuthenticationResults } from '#protocols/authentication/results-header.ts'

/** A message and facts from its session. */
export interface RawMessage {
  /** In the store of raw messages. */
  readonly rawRef: number
  /** `''`: the null reverse-path. */
  readonly mailFrom: string
  readonly helo: string
  readonly sourceIp: string
  readonly tls: string | null
  readonly authentication: AuthenticationResult | null
  readonly receivedAt: Millis
}

/**
 * Resolves with the message as a file; 404 when it is past the retention of raw messages, 410 when it is corrupt.
 * @param name file name without extension
 */
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
  yield Buffer.from(formatTraceFields(message, hostname))
  yield* removeForgedResults(chunks, hostname)
}

/** RFC 5321 §4.4, RFC 8601 §4: newest first. */
function formatTraceFields(message: RawMessage, hostname: string): string {
  const { mailFrom, authentication } = message
  return [
    `Return-Path: <${toSingleLine(mailFrom)}>`,
    ...(authentication === null
      ? []
      : [`Authentication-Results: ${formatAuthenticationResults(authentication, hostname)}`]),
    `Received: ${formatReceivedField(message, hostname)}`,
    '',
  ].join('\r\n')
}

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
