/** @module What the readers of both kinds of report share: how a fact that a stranger wrote becomes one that can be stored. */
import { parseDomain } from '#protocols/address/domain.ts'
import type { AggregateReport } from './report.ts'

export type ReportResult =
  | { readonly kind: 'ok'; readonly report: AggregateReport }
  /** One sentence that says why. */
  | { readonly kind: 'refused'; readonly reason: string }

const MAX_TEXT_LENGTH = 255
// C0 and C1 controls, and what turns the direction of writing.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

/** A text on one line, at most 255 characters; `''` for whatever is no text or number. */
export function cleanText(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') return ''
  return String(value)
    .slice(0, 4 * MAX_TEXT_LENGTH)
    .replace(UNPRINTABLE, ' ')
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

/** What is in an object or an array; nothing for whatever is neither. */
export const toRecord = (value: unknown): Readonly<Record<string, unknown>> => (isObject(value) ? value : {})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** In A-labels; undefined when it is no domain name. */
export function sanitiseDomain(value: unknown): string | undefined {
  const parsed = parseDomain(cleanText(value).replace(/\.$/, ''))
  return parsed.kind === 'ok' ? parsed.domain : undefined
}

/** Reports of other times are wrong about them: 2000 to 2100. */
const MIN_TIME_MS = Date.UTC(2000)
const MAX_TIME_MS = Date.UTC(2100)

/** A time in milliseconds as it may be stored; null for whatever is none. */
export const sanitiseTime = (timeMs: number): number | null =>
  timeMs >= MIN_TIME_MS && timeMs < MAX_TIME_MS ? timeMs : null

export const refuse = (reason: string): ReportResult => ({ kind: 'refused', reason })
