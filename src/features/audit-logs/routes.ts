/** @module /v1/audit-logs: path, shape and one call. */
import { Elysia } from 'elysia'
import type { App } from '#features/app.ts'
import { authenticated, requires } from '#features/http.ts'
import { list } from '#platform/http/envelope.ts'
import { ListOf, PageQuery, pageOf } from '#platform/http/schemas.ts'
import { AuditLogRecord, auditLogWire } from './model.ts'
import { listAuditEntries } from './read.ts'

export const auditLogRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/audit-logs' }).use(authenticated).get(
    '/',
    ({ actor, query }) => {
      const page = pageOf(query)
      const { entries, total } = listAuditEntries(app.db, actor.accountId, {
        limit: page.perPage,
        offset: page.offset,
      })
      return list(
        entries.map((entry) => auditLogWire(entry, actor.accountUuid)),
        { ...page, total },
      )
    },
    {
      query: PageQuery,
      response: ListOf(AuditLogRecord),
      detail: {
        summary: 'List the audit log',
        description: 'Every change by anyone, newest first.',
        tags: ['Audit log'],
        ...requires('account:read'),
      },
    },
  )
