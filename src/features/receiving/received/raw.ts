/**
 * @module A received message in its raw form, as its account gets it: the octets that came in, below the trace fields of this host. Fields that claim
 * to be results of ours and came in with the message are taken out (RFC 8601 §5). It leaves in slices, whatever its size.
 */

import type { App } from '#features/core/app/app.ts'
import { contentMissing } from '#features/core/app/stored-content.ts'
import type { Millis } from '#platform/clock.ts'
import { DamagedPart, MissingPart } from '#platform/content/missing.ts'
import { notFound } from '#platform/errors.ts'
import { streamedDownload } from '#platform/http/download.ts'
import { days } from '#platform/units.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { withoutForgedResults } from '#protocols/authentication/results-filter.ts'
import { authenticationResultsHeader } from '#protocols/authentication/results-header.ts'

/** A message and the session that brought it. */
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

/** The message as a file; 404 when it is older than raw messages are kept, 410 when it is damaged. @param name of the file, without its ending */
export function rawDownload(
  app: Pick<App, 'rawMail' | 'config' | 'clock' | 'memory' | 'log'>,
  request: Request,
  message: RawMessage,
  name: string,
): Response {
  const { hostname, inboundRawDays } = app.config
  if (app.clock.now() - message.receivedAt > days(inboundRawDays)) throw rawIsGone(inboundRawDays)
  const open = (): Iterable<Uint8Array> => {
    try {
      return rawSlices(message, app.rawMail.slices(message.rawRef), hostname)
    } catch (error) {
      if (error instanceof DamagedPart) throw contentMissing(error)
      throw error instanceof MissingPart ? rawIsGone(inboundRawDays) : error
    }
  }
  return streamedDownload(app, request, open, { contentType: 'message/rfc822', filename: `${name}.eml` })
}

const rawIsGone = (keptDays: number) =>
  notFound(
    'raw_message_gone',
    `The raw form of a message is kept for ${keptDays} days; its bodies and attachments are still here.`,
  )

function* rawSlices(
  message: RawMessage,
  slices: Iterable<Uint8Array>,
  hostname: string,
): Generator<Uint8Array, void, void> {
  yield Buffer.from(traceFields(message, hostname))
  yield* withoutForgedResults(slices, hostname)
}

/** RFC 5321 §4.4, RFC 8601 §4: newest first. */
function traceFields(message: RawMessage, hostname: string): string {
  const { mailFrom, authentication } = message
  return [
    `Return-Path: <${oneLine(mailFrom)}>`,
    ...(authentication === null
      ? []
      : [`Authentication-Results: ${authenticationResultsHeader(authentication, hostname)}`]),
    `Received: ${receivedField(message, hostname)}`,
    '',
  ].join('\r\n')
}

/** As long as a name can be; a client may call itself what fills a line. */
const MOST_HELO_CHARACTERS = 255

function receivedField({ helo, sourceIp, tls, authentication, receivedAt }: RawMessage, hostname: string): string {
  const iprev = authentication?.details.iprev.name ?? 'unknown'
  const address = sourceIp.includes(':') ? `IPv6:${sourceIp}` : sourceIp
  return [
    `from ${oneLine(helo.slice(0, MOST_HELO_CHARACTERS))}`,
    `(${oneLine(iprev)} [${address}])`,
    `by ${hostname} with ${tls === null ? 'ESMTP' : `ESMTPS (${oneLine(tls)})`};`,
    rfc5322Date(receivedAt),
  ].join('\r\n\t')
}

/** What a client said of itself, in a header field. */
const oneLine = (text: string): string => text.replace(/[\x00-\x1f\x7f]/g, '?').toWellFormed()

const rfc5322Date = (at: Millis): string => new Date(at).toUTCString().replace('GMT', '+0000')
