/**
 * @module /v1/logs: the request log of an account, newest first. Filters scan its rows in batches that yield to other
 * requests; a log has so few rows that they need no index.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { belowId, prepareStatements } from '#platform/db/open.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { errorResponses } from '#platform/http/access.ts'
import { dateFields, parseDateRange } from '#platform/http/date-filter.ts'
import { dataBody, isoTime, pageById, toWire } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import * as S from '#platform/http/schemas.ts'
import {
  countLogRows,
  findLogEntry,
  getRequestLog,
  kinds,
  REQUEST_KINDS,
  type StoredLogEntry,
  toLogId,
  toLogTime,
} from './request-log.ts'

const RequestLogRecord = Type.Object({
  id: S.Text('Id of the entry.'),
  kind: S.StringEnum(REQUEST_KINDS, {
    description: 'The interface: `api` is /v1, `smtp` submission, `mcp` what a tool requested, others are drop-ins.',
  }),
  method: S.Text('HTTP method; for SMTP the command: AUTH for a failed login, DATA for a message.'),
  path: S.TextOrNull('Path without the query; null for SMTP.'),
  status: S.Count('HTTP status, or code of the SMTP reply.'),
  error_code: S.TextOrNull('Code of the error; null if there was none.'),
  error_message: S.TextOrNull('Sentence of the error; with problems in several fields, each of them.'),
  duration_ms: S.Count('Time until the response, in milliseconds.'),
  actor_type: S.StringEnum(['api_key', 'user'], { description: 'api_key or user.' }),
  actor_id: S.Text('Id of the API key or user.'),
  actor_name: S.TextOrNull('Name of the API key or user; null if it exists no more.'),
  ip_address: S.TextOrNull('Address of the client.'),
  user_agent: S.TextOrNull('User-Agent of the client; for SMTP the name in EHLO.'),
  request_id: S.TextOrNull('The X-Request-Id of the response; null for SMTP.'),
  email_id: S.UuidOrNull('Id of the email that the request created or changed; of several, the first.'),
  body: S.Nullable(Type.Unknown(), {
    description:
      'Of a refused request: the shape of its body with short values of fields such as to, from and template_id; never contents, data of templates or secrets.',
  }),
  created_at: S.Timestamp({ description: 'When the request ended.' }),
})

const toRequestLogWire = (entry: StoredLogEntry) =>
  toWire(RequestLogRecord, entry, {
    id: String(entry.id),
    kind: kinds.nameOf(entry.kind),
    actor_type: entry.isKey === 1 ? 'api_key' : 'user',
    body: entry.body === null ? null : JSON.parse(entry.body),
    created_at: isoTime(toLogTime(entry.id)),
  })

const RequestLogQuery = Type.Object({
  ...S.PAGE_FIELDS,
  kind: Type.Optional(S.StringEnum(REQUEST_KINDS, { description: 'Only requests by this interface.' })),
  status: S.Filter('Only this status, such as 422, or class: 2xx, 3xx, 4xx or 5xx.'),
  method: S.Filter('Only this method, such as POST.'),
  path: S.Filter('Only paths that begin so, such as /v1/emails.'),
  actor_id: S.Filter('Only requests by this API key or user.'),
  request_id: S.Filter('Only the request with this X-Request-Id, which error responses have as request_id.'),
  q: S.Filter('Only requests with this text in path, error code or error message.'),
  ...dateFields('requests that ended'),
})

const STATUS = /^[1-5](?:xx|\d\d)$/i

function parseStatus(text: string | undefined) {
  if (text === undefined) return {}
  if (!STATUS.test(text)) throw invalid('status', 'status must be a number such as 422, or a class such as 4xx.')
  return { minStatus: Number(text.replaceAll(/x/gi, '0')), maxStatus: Number(text.replaceAll(/x/gi, '9')) }
}

const toLogFilter = (query: Static<typeof RequestLogQuery>) => ({
  kind: query.kind && kinds.codeOf(query.kind),
  ...parseStatus(query.status),
  method: query.method?.toUpperCase(),
  path: query.path,
  actorId: query.actor_id,
  requestId: query.request_id,
  text: query.q,
  ...parseDateRange(query),
})

const describe = describeWith('account:read')

export const requestLogRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/logs', tags: ['Logs'] })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query, request }) => {
        const page = S.parsePage(query)
        const filter = toLogFilter(query)
        // So that who has just got an error finds it.
        await getRequestLog(app).flush()
        const found = await listLogEntries(app.db, actor.accountId, filter, page, () => yieldFairly(request))
        return pageById(found.entries, { ...page, total: found.total, hasMore: found.hasMore }, toRequestLogWire)
      },
      {
        query: RequestLogQuery,
        response: S.PageBody(RequestLogRecord),
        detail: describe(
          'List requests',
          'Requests to the API, by SMTP, MCP and the drop-in interfaces, newest first: writes, refusals, and reads by API key; not what people read in the dashboard. With filters, `total` counts the rows up to this page and one more if there is one.',
        ),
      },
    )
    .get(
      '/:id',
      async ({ actor, params }) => {
        await getRequestLog(app).flush()
        const entry = findLogEntry(app.db, actor.accountId, params.id)
        if (!entry) throw notFound('request_log_not_found', 'Entry of the log not found; it may be too old.')
        return dataBody(toRequestLogWire(entry))
      },
      {
        params: Type.Object({ id: S.Text('Id of the entry.') }),
        response: S.DataBody(RequestLogRecord),
        detail: describe(
          'Get a request',
          undefined,
          errorResponses({ 404: ['request_log_not_found', 'The log has no such entry, or not any more.'] }),
        ),
      },
    )

/** Rows that one query scans, in some milliseconds. */
const BATCH_SIZE = 5000

type Param = string | number | null

const sql = prepareStatements((db) => ({
  ids: db.prepare<{ id: number }, [number, number, number, ...Param[]]>(
    `SELECT id FROM request_logs WHERE account_id = ?1 AND id < ?2 AND id >= ?3 AND (?4 IS NULL OR kind = ?4)
     AND (?5 IS NULL OR status >= ?5) AND (?6 IS NULL OR status <= ?6) AND (?7 IS NULL OR method = ?7)
     AND (?8 IS NULL OR substr(path, 1, length(?8)) = ?8) AND (?9 IS NULL OR actor_id = ?9)
     AND (?10 IS NULL OR request_id = ?10)
     AND (?11 IS NULL OR instr(lower(concat_ws(' ', path, error_code, error_message)), lower(?11)) > 0)
     ORDER BY id DESC LIMIT ?12`,
  ),
  batchEnd: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM request_logs WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  ),
}))

/** A page of the log; `total` is exact without filters, else the rows up to the end of the page. */
async function listLogEntries(
  db: Database,
  accountId: number,
  filter: ReturnType<typeof toLogFilter>,
  page: S.Page,
  takeTurn: () => Promise<void>,
): Promise<{ entries: StoredLogEntry[]; total: number; hasMore: boolean }> {
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  const { kind, minStatus, maxStatus, method, path, actorId, requestId, text, from = 0, to } = filter
  const values = [kind, minStatus, maxStatus, method, path, actorId, requestId, text].map((value) => value ?? null)
  const wanted = page.offset + page.limit + 1
  const found: number[] = []
  let below = Math.min(belowId(page), to === undefined ? Number.MAX_SAFE_INTEGER : toLogId(to + 1))
  while (found.length < wanted) {
    const end = sql(db).batchEnd.get(accountId, below, BATCH_SIZE)?.id ?? 0
    const rows = sql(db).ids.all(accountId, below, Math.max(end, toLogId(from)), ...values, wanted - found.length)
    found.push(...rows.map(({ id }) => id))
    if (end <= toLogId(from)) break
    below = end
    await takeTurn()
  }
  const hasMore = found.length === wanted
  const entries = found.slice(page.offset, wanted - 1).flatMap((id) => findLogEntry(db, accountId, id) ?? [])
  const seen = (page.after ? page.rowsBefore : 0) + found.length
  return { entries, hasMore, total: isFiltered ? seen : countLogRows(db, accountId) }
}
