/** @module /v1/audit-logs: path, shape and one call. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { dateFields, datesOf } from '#platform/http/date-filter.ts'
import { idKey, list } from '#platform/http/envelope.ts'
import { takeTurn } from '#platform/http/request-context.ts'
import { ListOf, OneOf, PAGE_FIELDS, pageOf } from '#platform/http/schemas.ts'
import { AuditLogRecord, auditLogWire } from './model.ts'
import { type AuditFilter, listAuditEntries } from './read.ts'

const ACTOR_TYPES = ['user', 'api_key', 'system', 'operator'] as const

const LONGEST_FILTER = 512

const filterText = (description: string) => Type.Optional(Type.String({ maxLength: LONGEST_FILTER, description }))

const AuditLogQuery = Type.Object({
  ...PAGE_FIELDS,
  action: filterText('Only this action, such as domain.created.'),
  actor_type: Type.Optional(OneOf(ACTOR_TYPES, { description: 'Only what this kind of actor did.' })),
  actor_id: filterText('Only what this key or user did.'),
  resource_type: filterText('Only changes of this kind of thing, such as domain.'),
  resource_id: filterText('Only changes of the thing with this id.'),
  ...dateFields('entries made'),
})

const filterOf = (query: Static<typeof AuditLogQuery>): AuditFilter => ({
  action: query.action,
  actorType: query.actor_type,
  actorId: query.actor_id,
  resourceType: query.resource_type,
  resourceId: query.resource_id,
  ...datesOf(query),
})

export const auditLogRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/audit-logs' }).use(authenticated).get(
    '/',
    async ({ actor, query, request }) => {
      const page = pageOf(query)
      const { entries, total } = await listAuditEntries(app.db, actor.accountId, filterOf(query), page, () =>
        takeTurn(request),
      )
      return list(
        entries.map((entry) => auditLogWire(entry, actor.accountUuid)),
        { ...page, total },
        idKey(entries),
      )
    },
    {
      query: AuditLogQuery,
      response: ListOf(AuditLogRecord),
      detail: {
        summary: 'List the audit log',
        description:
          'Every change by anyone, newest first. With filters at most the newest 200,000 entries are looked at; a range of time reaches older ones.',
        tags: ['Audit log'],
        ...requires('account:read'),
      },
    },
  )
