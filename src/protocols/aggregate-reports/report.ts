/**
 * @module The metadata of a report about a domain's mail, DMARC aggregate (RFC 9990) or TLS-RPT (RFC 8460), which
 * `parse.ts` creates, and how the values that a remote client wrote are made fit to be stored.
 */
import { isIP } from 'node:net'
import { parseDomain } from '#protocols/address/domain.ts'

/** Messages that a receiver handled in the same way. */
export interface DmarcRow {
  readonly sourceIp: string
  readonly count: number
  /** From domain, at or below that of the report. */
  readonly from: string
  readonly disposition: 'none' | 'quarantine' | 'reject'
  /** Whether DKIM and SPF pass with alignment. */
  readonly isDkimAligned: boolean
  readonly isSpfAligned: boolean
  /** Types of the reasons for an override, such as `forwarded` and `mailing_list`. */
  readonly reasons: readonly string[]
  readonly envelopeFrom: string
  readonly dkim: readonly { domain: string; selector: string; result: string; isKeyMissing: boolean }[]
  readonly spf: readonly { domain: string; result: string }[]
}

/** TLS sessions with the same outcome. */
export interface TlsRow {
  readonly count: number
  /** A result type of RFC 8460 §4.3; `''`: the session succeeded; `unspecified`: the report does not say. */
  readonly failure: string
  /** The MX host or the address that received; `''`: not stated. */
  readonly receiver: string
}

export interface ReportRecords {
  readonly rows: readonly DmarcRow[]
  readonly sessions: readonly TlsRow[]
  /** Why nothing of the report can be counted, a sentence. */
  readonly problem?: string
}

/** An unpacked and recognised report. */
export interface AggregateReport {
  readonly kind: 'dmarc' | 'tls'
  /** The domain that the report is about, in A-labels. */
  readonly domain: string
  readonly organisation: string
  readonly reportId: string
  /** The period that the report covers, in milliseconds since the epoch. */
  readonly beginMs: number | null
  readonly endMs: number | null
  /** The XML or JSON, unpacked but otherwise unchanged. */
  readonly content: Uint8Array
  /** What it counts; left out where only the metadata matter. */
  readonly records?: ReportRecords
}

/** Thrown for a report that cannot be read; `message` is one sentence that says why. */
export class UnreadableReportError extends Error {}

const MAX_TEXT_LENGTH = 255
// C0 and C1 controls, and characters that change the writing direction.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

/** Returns a text on one line, at most 255 characters; `''` for anything but a string or a number. */
export function cleanText(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') return ''
  return String(value)
    .slice(0, 4 * MAX_TEXT_LENGTH)
    .replace(UNPRINTABLE, ' ')
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

/** Returns the members of an object or an array; none for anything else. */
export const toRecord = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {}

/** Returns the domain in A-labels; undefined when it is not a domain name. */
export function sanitiseDomain(value: unknown): string | undefined {
  const parsed = parseDomain(cleanText(value).replace(/\.$/, ''))
  return parsed.kind === 'ok' ? parsed.domain : undefined
}

/** An address in the one form by which rows are compared; undefined: it is none. */
export function normaliseIp(text: string): string | undefined {
  const ip = text.trim().replace(/^::ffff:(?=[\d.]+$)/i, '')
  if (isIP(ip) !== 6) return isIP(ip) === 4 ? ip : undefined
  return URL.parse(`http://[${ip.replace(/%.*/, '')}]`)?.hostname.slice(1, -1)
}

/** The period of a report must lie between 2000 and 2100; any other time is an error. */
const MIN_TIME_MS = Date.UTC(2000)
const MAX_TIME_MS = Date.UTC(2100)

/** Returns a time in milliseconds that can be stored; null when it is implausible. */
export const sanitiseTime = (timeMs: number): number | null =>
  timeMs >= MIN_TIME_MS && timeMs < MAX_TIME_MS ? timeMs : null
