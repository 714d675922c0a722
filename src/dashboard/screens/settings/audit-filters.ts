/** @module The filters of the audit log: in the URL, and as `/v1` takes them. */
import { readTexts, type Search } from '../../parts/search.ts'
import { toInstant } from '../emails/filters.ts'

const FILTER_NAMES = [
  'action',
  'actor_type',
  'actor_id',
  'resource_type',
  'resource_id',
  'from_date',
  'to_date',
] as const

type FilterName = (typeof FILTER_NAMES)[number]

/** Dates are days in the reader's zone, such as 2026-11-21. */
export type AuditFilters = { readonly [Name in Exclude<FilterName, 'actor_type'>]?: string } & {
  readonly actor_type?: keyof typeof ACTOR_TYPES
}

export interface AuditSearch extends AuditFilters {
  readonly cursor?: string
}

export const ACTOR_TYPES = {
  user: 'Any user',
  api_key: 'Any API key',
  operator: 'The operator of this server',
  system: 'The service itself',
} as const

const MAX_LENGTH = 512

export const parseAuditSearch = (search: Search) =>
  readTexts(
    search,
    [...FILTER_NAMES, 'cursor'],
    (name, text) => (name === 'actor_type' ? Object.hasOwn(ACTOR_TYPES, text) : true),
    MAX_LENGTH,
  ) as AuditSearch

/** The parameters of `GET /v1/audit-logs`; a day covers its first to its last instant in the reader's zone. */
export const toAuditQuery = ({ from_date: first, to_date: last, ...filters }: AuditSearch) => ({
  ...filters,
  from_date: toInstant(first, 'T00:00:00.000'),
  to_date: toInstant(last, 'T23:59:59.999'),
})

export const hasFilters = (search: AuditSearch): boolean => FILTER_NAMES.some((name) => search[name] !== undefined)
