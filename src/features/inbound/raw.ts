/**
 * @module A received message in its raw form, as its account gets it: the octets that came in, below the trace fields of this host. Fields that claim
 * to be results of ours and came in with the message are taken out (RFC 8601 §5).
 */
import type { App } from '#features/app.ts'
import type { Millis } from '#platform/clock.ts'
import { notFound } from '#platform/errors.ts'
import { days } from '#platform/units.ts'
import { authenticationResultsHeader, isForgedResult } from '#protocols/authentication/results-header.ts'
import type { InboundEmail } from './inbound-emails.ts'

/** Octets of the header that are looked through for forged results. */
const MOST_HEADER_BYTES = 1024 * 1024

/** The message; 404 when it is older than raw messages are kept. */
export function rawMessage(app: Pick<App, 'rawMail' | 'config' | 'clock'>, email: InboundEmail): Uint8Array {
  const { hostname, inboundRawDays } = app.config
  if (app.clock.now() - email.createdAt > days(inboundRawDays)) throw rawIsGone(inboundRawDays)
  let raw: Uint8Array
  try {
    raw = app.rawMail.get(email.rawRef)
  } catch {
    throw rawIsGone(inboundRawDays)
  }
  return Buffer.concat([Buffer.from(traceFields(email, hostname)), ...withoutForgedResults(Buffer.from(raw), hostname)])
}

const rawIsGone = (keptDays: number) =>
  notFound(
    'raw_message_gone',
    `The raw form of a message is kept for ${keptDays} days; its bodies and attachments are still here.`,
  )

/** RFC 5321 §4.4, RFC 8601 §4: newest first. */
function traceFields(
  { mailFrom, helo, sourceIp, tls, authentication, createdAt }: InboundEmail,
  hostname: string,
): string {
  const iprev = authentication?.details.iprev.name ?? 'unknown'
  const protocol = tls === null ? 'ESMTP' : 'ESMTPS'
  return [
    `Return-Path: <${oneLine(mailFrom)}>`,
    ...(authentication === null
      ? []
      : [`Authentication-Results: ${authenticationResultsHeader(authentication, hostname)}`]),
    `Received: from ${oneLine(helo)} (${oneLine(iprev)} [${sourceIp}])\r\n\tby ${hostname} with ${protocol}${tls === null ? '' : ` (${tls})`};\r\n\t${rfc5322Date(createdAt)}`,
    '',
  ].join('\r\n')
}

/** What a client said of itself, in a header field. */
const oneLine = (text: string): string => text.replace(/[\x00-\x1f\x7f]/g, '?')

const rfc5322Date = (at: Millis): string => new Date(at).toUTCString().replace('GMT', '+0000')

/** The message in pieces, without the fields of its header that bear our own name. */
function withoutForgedResults(raw: Buffer, hostname: string): Buffer[] {
  const pieces: Buffer[] = []
  let keptFrom = 0
  let position = 0
  while (position < raw.length && position < MOST_HEADER_BYTES) {
    const end = fieldEnd(raw, position)
    if (end - position <= 2 && raw.subarray(position, end).toString('latin1').trim() === '') break
    if (isResults(raw, position)) {
      const field = raw.toString('utf8', position, end)
      const colon = field.indexOf(':')
      if (isForgedResult(field.slice(0, colon).trim(), field.slice(colon + 1), hostname)) {
        pieces.push(raw.subarray(keptFrom, position))
        keptFrom = end
      }
    }
    position = end
  }
  pieces.push(raw.subarray(keptFrom))
  return pieces
}

const RESULTS = 'authentication-results'

const isResults = (raw: Buffer, position: number): boolean =>
  raw.toString('latin1', position, position + RESULTS.length).toLowerCase() === RESULTS

/** Where the field that begins at `position` ends: behind the line break that no white space follows. */
function fieldEnd(raw: Buffer, position: number): number {
  let end = position
  do {
    const newline = raw.indexOf(10, end)
    if (newline < 0) return raw.length
    end = newline + 1
  } while (raw[end] === 32 || raw[end] === 9)
  return end
}
