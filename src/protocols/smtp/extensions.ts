/** @module Parses the reply to EHLO (RFC 5321 §4.1.1.1) into the extensions that the client can use. */
import { makeReply, type SmtpReply } from './replies.ts'

export interface SmtpExtensions {
  /** The size of the largest message that the server accepts (RFC 1870); absent when the server states no limit. */
  readonly sizeBytes?: number
  /** Whether the server offers SIZE, with or without a limit. Only then may MAIL have this parameter. */
  readonly size: boolean
  /** RFC 2920. */
  readonly pipelining: boolean
  /** RFC 6152. */
  readonly eightBitMime: boolean
  /** RFC 6531. */
  readonly smtpUtf8: boolean
  /** RFC 3207. */
  readonly startTls: boolean
  /** SASL mechanisms in upper case (RFC 4954), in the server's order. */
  readonly auth: readonly string[]
}

/**
 * Parses the extensions in a 250 reply to EHLO. Ignores the case of keywords and mechanisms; accepts the old form
 * `AUTH=LOGIN`.
 */
export function parseExtensions(ehlo: SmtpReply): SmtpExtensions {
  const offered = new Map<string, string[]>()
  for (const line of ehlo.lines.slice(1)) {
    const [keyword = '', ...parameters] = line
      .trim()
      .toUpperCase()
      .replace(/^AUTH=/, 'AUTH ')
      .split(/\s+/)
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...parameters])
  }
  const limit = offered.get('SIZE')?.[0] ?? ''
  const sizeBytes = /^\d{1,15}$/.test(limit) ? Number(limit) : 0
  return {
    // RFC 1870 §4: zero means no fixed limit.
    ...(sizeBytes > 0 && { sizeBytes }),
    size: offered.has('SIZE'),
    pipelining: offered.has('PIPELINING'),
    eightBitMime: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    auth: [...new Set(offered.get('AUTH') ?? [])],
  }
}

/** The extensions of a server that knows only HELO: none. */
export const NO_EXTENSIONS: SmtpExtensions = parseExtensions(makeReply(250, []))
