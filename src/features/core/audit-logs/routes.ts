/** @module Routes of /v1/audit-logs. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dateFields, parseDateRange } from '#platform/http/date-filter.ts'
import { pageById } from '#platform/http/envelope.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { PAGE_FIELDS, PageBody, parsePage, StringEnum } from '#platform/http/schemas.ts'
import {
  type AuditFilter,
  AuditLogRecord,
  type AuditNames,
  listAuditEntries,
  type StoredAuditEntry,
  toAuditLogWire,
} from './read.ts'

const ACTOR_TYPES = ['user', 'api_key', 'system', 'operator'] as const

const MAX_FILTER_LENGTH = 512

const filterField = (description: string) => Type.Optional(Type.String({ maxLength: MAX_FILTER_LENGTH, description }))

const AuditLogQuery = Type.Object({
  ...PAGE_FIELDS,
  action: filterField('Only this action, such as domain.created.'),
  actor_type: Type.Optional(StringEnum(ACTOR_TYPES, { description: 'Only changes by this type of actor.' })),
  actor_id: filterField('Only changes by this key or user.'),
  resource_type: filterField('Only changes of this type of resource, such as domain.'),
  resource_id: filterField('Only changes of the resource with this id.'),
  ...dateFields('entries made'),
})

const toAuditFilter = (query: Static<typeof AuditLogQuery>): AuditFilter => ({
  action: query.action,
  actorType: query.actor_type,
  actorId: query.actor_id,
  resourceType: query.resource_type,
  resourceId: query.resource_id,
  ...parseDateRange(query),
})

/** Finds the names of what the entries of an account refer to, as far as the actor may read them. */
export type FindAuditNames = (actor: Actor) => (entry: StoredAuditEntry) => AuditNames

export const auditLogRoutes = (app: App, { findNames }: { readonly findNames: FindAuditNames }) =>
  new Elysia({ prefix: '/v1/audit-logs', tags: ['Audit log'] }).use(authenticated).get(
    '/',
    async ({ actor, query, request }) => {
      const page = parsePage(query)
      const { entries, total } = await listAuditEntries(app.db, actor.accountId, toAuditFilter(query), page, () =>
        yieldFairly(request),
      )
      const namesOf = findNames(actor)
      return pageById(entries, { ...page, total }, (entry) => toAuditLogWire(entry, actor.accountUuid, namesOf(entry)))
    },
    {
      query: AuditLogQuery,
      response: PageBody(AuditLogRecord),
      detail: describeRoute(
        'List the audit log',
        requires('account:read'),
        'All changes, newest first, with the names of who made them and of what was changed, and the difference. With filters, at most the newest 200,000 entries are searched; a time range reaches older ones.',
      ),
    },
  )
