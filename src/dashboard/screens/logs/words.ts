/** @module Requests of the log in words. Pure. */
import type { Log } from '#client/api.ts'
import type { Tone } from '../../parts/tone.ts'

export const INTERFACES = {
  api: 'API',
  smtp: 'SMTP',
  mcp: 'MCP',
  resend: 'Resend',
  postmark: 'Postmark',
  supabase: 'Supabase',
  mailgun: 'Mailgun',
} as const satisfies Readonly<Record<Log['kind'], string>>

export const toRequestTitle = ({ kind, method, path }: Pick<Log, 'kind' | 'method' | 'path'>): string =>
  path === null ? `${INTERFACES[kind]} ${method}` : `${method} ${path}`

/** A reply of SMTP has the same classes: 4xx means "later". */
export const toStatusTone = (status: number): Tone => (status < 400 ? 'good' : status < 500 ? 'warning' : 'bad')

/** As errors have it, such as `01a2276c-d2ab-76c9-8be2-cb88cbaecda3`. */
const REQUEST_ID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i

/** An id of a request that is typed into the search finds that request. */
export const toLogQuery = (query: { readonly q?: string | undefined }): object =>
  query.q !== undefined && REQUEST_ID.test(query.q.trim())
    ? { ...query, q: undefined, request_id: query.q.trim() }
    : query
