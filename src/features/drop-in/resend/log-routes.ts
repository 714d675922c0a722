/** @module The requests of the account, as `/v1/logs` has them. Contents of requests and responses are not stored. */
import * as log from '#features/reporting/logs/request-log.ts'
import { notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { readPage, sourceByRowId } from './list.ts'
import { on } from './route.ts'

export const logRoutes = [
  on('GET /logs', 'account:read', async ({ app, app: { db }, accountId, query }) => {
    await log.getRequestLog(app).flush()
    const getRow = (id: string) => log.findLogEntry(db, accountId, id)
    const source = sourceByRowId(db, ['request_logs', accountId], getRow, (window) =>
      log.listNewestEntries(db, accountId, window),
    )
    return readPage(query, source, toListedLog)
  }),
  on('GET /logs/:id', 'account:read', async ({ app, accountId, id }) => {
    await log.getRequestLog(app).flush()
    const entry = log.findLogEntry(app.db, accountId, id)
    if (!entry) throw notFound('request_log_not_found', 'Log not found; it may be too old.')
    return toLog(entry)
  }),
]

export const toListedLog = (entry: log.StoredLogEntry) => ({
  id: String(entry.id),
  created_at: isoTime(log.toLogTime(entry.id)),
  // SMTP has no path.
  endpoint: entry.path ?? entry.method,
  method: entry.method,
  response_status: entry.status,
  user_agent: entry.userAgent,
})

/** Of a refused request: the shape of its body, and the error. */
export const toLog = (entry: log.StoredLogEntry) => ({
  ...{ object: 'log' as const, ...toListedLog(entry) },
  request_body: entry.body === null ? null : (JSON.parse(entry.body) as unknown),
  response_body: entry.errorCode === null ? null : { name: entry.errorCode, message: entry.errorMessage },
})
