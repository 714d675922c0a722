/** @module Routes of /v1/logs. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { dateFields, parseDateRange } from '#platform/http/date-filter.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, Filter, PAGE_FIELDS, PageBody, parsePage, StringEnum, Text } from '#platform/http/schemas.ts'
import { RequestLogRecord, toRequestLogWire } from './model.ts'
import { findLogEntry, type LogFilter, listLogEntries } from './read.ts'
import { getRequestLog, kinds, REQUEST_KINDS } from './request-log.ts'

const RequestLogQuery = Type.Object({
  ...PAGE_FIELDS,
  kind: Type.Optional(StringEnum(REQUEST_KINDS, { description: 'Only requests by this interface.' })),
  status: Filter('Only this status, such as 422, or class: 2xx, 3xx, 4xx or 5xx.'),
  method: Filter('Only this method, such as POST.'),
  path: Filter('Only paths that begin so, such as /v1/emails.'),
  actor_id: Filter('Only requests by this API key or user.'),
  request_id: Filter('Only the request with this X-Request-Id, which error responses have as request_id.'),
  q: Filter('Only requests with this text in path, error code or error message.'),
  ...dateFields('requests that ended'),
})

const STATUS = /^[1-5](?:xx|\d\d)$/i

function parseStatus(text: string | undefined): Pick<LogFilter, 'minStatus' | 'maxStatus'> {
  if (text === undefined) return {}
  if (!STATUS.test(text)) throw invalid('status', 'status must be a number such as 422, or a class such as 4xx.')
  return { minStatus: Number(text.replaceAll(/x/gi, '0')), maxStatus: Number(text.replaceAll(/x/gi, '9')) }
}

const toLogFilter = (query: Static<typeof RequestLogQuery>): LogFilter => ({
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
        const page = parsePage(query)
        const filter = toLogFilter(query)
        // So that who has just got an error finds it.
        await getRequestLog(app).flush()
        const found = await listLogEntries(app.db, actor.accountId, filter, page, () => yieldFairly(request))
        return pageById(found.entries, { ...page, total: found.total, hasMore: found.hasMore }, toRequestLogWire)
      },
      {
        query: RequestLogQuery,
        response: PageBody(RequestLogRecord),
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
        const entry = /^\d{1,16}$/.test(params.id)
          ? findLogEntry(app.db, actor.accountId, Number(params.id))
          : undefined
        if (!entry) throw notFound('request_log_not_found', 'Entry of the log not found; it may be too old.')
        return dataBody(toRequestLogWire(entry))
      },
      {
        params: Type.Object({ id: Text('Id of the entry.') }),
        response: DataBody(RequestLogRecord),
        detail: describe(
          'Get a request',
          undefined,
          errorResponses({ 404: ['request_log_not_found', 'The log has no such entry, or not any more.'] }),
        ),
      },
    )
