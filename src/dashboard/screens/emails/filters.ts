/** @module The filters of the list of emails: in the URL, as the reader sees them, and as `/v1` takes them. */
import type { Api } from '#client/api.ts'
import { readTexts, type Search } from '../../parts/search.ts'

export const EMAIL_TABS = ['html', 'text', 'headers', 'source', 'links'] as const
export type EmailTab = (typeof EMAIL_TABS)[number]

/** All optional. Dates are days in the reader's zone, such as 2026-11-21. */
export interface EmailFilters {
  readonly to?: string
  readonly from?: string
  readonly subject?: string
  readonly tag?: string
  readonly stream?: string
  readonly domain?: string
  readonly status?: (typeof STATUS_FILTERS)[number]
  readonly from_date?: string
  readonly to_date?: string
  /** Id of a broadcast or another operation; it comes from links only. */
  readonly operation_id?: string
}

export type FilterName = keyof EmailFilters

/** The words of the filters, in the order of the form. */
export const FILTER_LABELS: Readonly<Record<FilterName, string>> = {
  to: 'Recipient',
  status: 'Status',
  from: 'Sender',
  subject: 'Subject',
  tag: 'Tag',
  stream: 'Stream',
  domain: 'Domain',
  from_date: 'From day',
  to_date: 'Until day',
  operation_id: 'Broadcast',
}

export const FILTER_NAMES = Object.keys(FILTER_LABELS) as readonly FilterName[]

export const STATUS_FILTERS = [
  'queued',
  'scheduled',
  'processing',
  'sent',
  'bounced',
  'failed',
  'rejected',
  'cancelled',
  'uncertain',
] as const

export const parseFilters = (search: Search) =>
  readTexts(search, FILTER_NAMES, (name, text) =>
    name === 'status' ? STATUS_FILTERS.some((status) => status === text) : true,
  ) as EmailFilters

/** The parameters of `GET /v1/emails`; a day covers its first to its last instant in the reader's zone. */
export function toEmailQuery({
  from_date: first,
  to_date: last,
  ...filters
}: EmailFilters): NonNullable<Parameters<Api['emails']['list']>[0]> {
  return { ...filters, from_date: toInstant(first, 'T00:00:00.000'), to_date: toInstant(last, 'T23:59:59.999') }
}

/** The instant of a time of day in the reader's zone. */
export function toInstant(day: string | undefined, time: string): string | undefined {
  if (day === undefined) return undefined
  const at = new Date(day + time)
  // Such as 31 February: the server names the problem.
  return Number.isNaN(at.getTime()) ? day : at.toISOString()
}
