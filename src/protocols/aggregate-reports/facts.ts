/** @module What the readers of both kinds of report share: how a fact that a stranger wrote becomes one that can be stored. */
import { parseDomain } from '#protocols/address/domain.ts'
import type { AggregateReport } from './report.ts'

export type ReadReport =
  | { readonly kind: 'ok'; readonly report: AggregateReport }
  /** One sentence that says why. */
  | { readonly kind: 'refused'; readonly reason: string }

const MAX_TEXT_LENGTH = 255
// C0 and C1 controls, and what turns the direction of writing.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

/** A text on one line, at most 255 characters; `''` for whatever is no text or number. */
export function textOf(value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') return ''
  return String(value)
    .slice(0, 4 * MAX_TEXT_LENGTH)
    .replace(UNPRINTABLE, ' ')
    .trim()
    .slice(0, MAX_TEXT_LENGTH)
    .toWellFormed()
}

/** What is in an object or an array; nothing for whatever is neither. */
export const membersOf = (value: unknown): Readonly<Record<string, unknown>> => (isObject(value) ? value : {})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** In A-labels; undefined when it is no domain name. */
export function domainOf(value: unknown): string | undefined {
  const parsed = parseDomain(textOf(value).replace(/\.$/, ''))
  return parsed.kind === 'ok' ? parsed.domain : undefined
}

/** Reports of other times are wrong about them: 2000 to 2100. */
const EARLIEST_MS = Date.UTC(2000)
const LATEST_MS = Date.UTC(2100)

/** A time in milliseconds as it may be stored; null for whatever is none. */
export const timeOf = (timeMs: number): number | null => (timeMs >= EARLIEST_MS && timeMs < LATEST_MS ? timeMs : null)

export const refused = (reason: string): ReadReport => ({ kind: 'refused', reason })
