/** @module Routes of /v1/operations. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { getOperation, listOperations, OperationRecord, toOperationWire } from './operations.ts'

const tags = ['Operations']

const reads = describeWith('emails:read')

export interface OperationRouteOptions {
  /** The number of a broadcast's emails per status, by the row id of its operation; undefined for other operations. */
  readonly countEmails: (accountId: number, operationId: number) => Readonly<Record<string, number>> | undefined
}

export const operationRoutes = (app: App, { countEmails: emailsOf }: OperationRouteOptions) =>
  new Elysia({ prefix: '/v1/operations', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { operations, total } = listOperations(app.db, actor.accountId, page)
        return pageById(operations, { ...page, total }, (operation) => toOperationWire(operation, actor.accountUuid))
      },
      {
        query: PageQuery,
        response: PageBody(OperationRecord),
        detail: reads('List operations', 'Batches, broadcasts and other bulk work, newest first.'),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => {
        const operation = getOperation(app.db, actor.accountId, params.id)
        return dataBody(toOperationWire(operation, actor.accountUuid, emailsOf(actor.accountId, operation.id)))
      },
      {
        params: Type.Object({ id: Type.String({ description: 'Id of the operation.' }) }),
        response: DataBody(OperationRecord),
        detail: reads('Get an operation', 'For a broadcast, `metadata.emails` is the number of its emails per status.'),
      },
    )
