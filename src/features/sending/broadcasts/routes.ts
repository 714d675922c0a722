/**
 * @module Routes of POST /v1/emails/broadcast, of /v1/operations to pause, resume and cancel, and of
 * /v1/operator/operations: batches, imports and broadcasts of all accounts.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findFilteredAccountId, getAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery } from '#features/core/accounts/model.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { getOperation, OperationRecord, toOperationWire } from '#features/core/operations/operations.ts'
import { takesIdempotencyKey } from '#features/sending/accept/model.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/sendable.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { newestFirst, prepareStatements } from '#platform/db/open.ts'
import { errorResponses, responseHeaders } from '#platform/http/access.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { Count, DataBody, PageBody, parsePage, StringEnum, TextOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { BroadcastStarted, NewBroadcast } from './model.ts'
import { sendBroadcast } from './send.ts'
import { type ControlVerb, controlBroadcast, type OnTransition } from './states.ts'

export interface BroadcastRouteOptions {
  readonly takeRate: TakeRate
  /** Called at each transition of a broadcast, in its transaction, to update the newsletter. */
  readonly onTransition: OnTransition
}

const operationRoute = {
  params: Type.Object({ id: Type.String({ description: 'Id of the operation.' }) }),
  response: DataBody(OperationRecord),
}

const describeControl = (summary: string, description: string) =>
  describeWith('emails:send')(summary, description, {
    tags: ['Operations'],
    ...errorResponses({ 409: ['broadcast_over', 'It is not a broadcast, or its state does not allow this.'] }),
  })

export const broadcastRoutes = (app: App, { takeRate, onTransition }: BroadcastRouteOptions) => {
  const control = async (actor: Actor, id: string, verb: ControlVerb) =>
    dataBody(toOperationWire(await controlBroadcast(app, actor, id, verb, onTransition), actor.accountUuid))

  return new Elysia({ tags: ['Emails'] })
    .use(authenticated)
    .post(
      '/v1/emails/broadcast',
      ({ actor, body, headers, request, set, status }) =>
        withoutTimeLimit(request, async () => {
          const admit = () => void Object.assign(set.headers, takeRate(actor))
          return status(202, dataBody(await sendBroadcast(app, actor, body, headers['idempotency-key'], admit)))
        }),
      {
        body: NewBroadcast,
        response: { 202: DataBody(BroadcastStarted) },
        detail: describeWith('emails:send', 'contacts:read')(
          'Send to all active contacts of a list',
          'Responds once a snapshot of the recipients and their data is on disk, which takes some seconds for a million. Subject and bodies are templates: `contact`, `list`, `unsubscribe_url` and template_data are their variables. Every email has one-click unsubscribe. Contacts who unsubscribe or are suppressed before their turn are skipped. A repeated Idempotency-Key returns the first response again; with another body it is a 409.',
          {
            ...takesIdempotencyKey(),
            ...responseHeaders(...RATE_HEADERS),
            ...errorResponses({
              404: ['contact_list_not_found', 'Contact list not found.'],
              409: ['idempotency_conflict', 'The Idempotency-Key was used for another body.'],
              429: ['quota_exceeded', 'The list exceeds the remaining quota, or requests come too fast.'],
            }),
          },
        ),
      },
    )
    .post('/v1/operations/:id/pause', ({ actor, params }) => control(actor, params.id, 'pause'), {
      ...operationRoute,
      detail: describeControl(
        'Pause a broadcast',
        'Emails not attempted before wait until it is resumed. Attempts in progress continue.',
      ),
    })
    .post('/v1/operations/:id/resume', ({ actor, params }) => control(actor, params.id, 'resume'), {
      ...operationRoute,
      detail: describeControl(
        'Resume a paused broadcast',
        'Continues where it stopped, or at its scheduled time if that is still ahead.',
      ),
    })
    .post('/v1/operations/:id/cancel', ({ actor, params }) => control(actor, params.id, 'cancel'), {
      ...operationRoute,
      detail: describeControl(
        'Cancel a broadcast',
        'Emails not attempted before are not sent and do not count in the quota. Its operation ends as `failed` once all of them are withdrawn.',
      ),
    })
}

interface Row {
  readonly id: number
  readonly uuid: Uint8Array
  readonly accountId: number
  readonly listName: string | null
  readonly failedEmails: number
}

const sql = prepareStatements((db) => ({
  // ?1: an account, or null for all; ?2: whether only those in progress.
  list: newestFirst<Row, [number | null, number]>(
    db,
    `SELECT id, uuid, account_id AS accountId,
     (SELECT name FROM contact_lists WHERE uuid = unhex(coalesce(metadata ->> '$.contact_list_id', metadata ->> '$.list_id'), '-')) AS listName,
     (SELECT COUNT(*) FROM emails INDEXED BY emails_of_operation WHERE operation_id = operations.id AND status = ${statusCode('failed')}) AS failedEmails
     FROM operations`,
    `operations WHERE account_id = coalesce(?1, account_id) AND (?2 = 0 OR status IN ('pending', 'processing'))`,
  ),
}))

const OperatorOperation = Type.Object({
  ...OperationRecord.properties,
  account: Type.String({ description: 'Name of its account.' }),
  list_name: TextOrNull('Name of its contact list, also after the list was deleted; null: it has none.'),
  failed_emails: Count('Its emails that failed in this service.'),
})

const OperatorOperationQuery = Type.Object({
  ...OfAccountQuery.properties,
  open: Type.Optional(StringEnum(['true', 'false'], { description: 'true: only operations in progress.' })),
})

export const operatorOperationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/operations' }).use(authenticated).get(
    '/',
    async ({ actor, query }) => {
      await recordView(app, actor, { name: 'operations' })
      const page = parsePage(query)
      const selection = [findFilteredAccountId(app, query.account_id) ?? null, query.open === 'true' ? 1 : 0] as const
      const { rows, total } = sql(app.db).list(page, ...selection)
      return pageById(rows, { ...page, total }, (row) => toWire(app, row))
    },
    {
      query: OperatorOperationQuery,
      response: PageBody(OperatorOperation),
      detail: operatorRoute('List the operations of all accounts', 'Newest first.'),
    },
  )

function toWire({ config, db }: App, { uuid, accountId, listName, failedEmails }: Row) {
  const owner = getAccount(config, db, accountId)
  const operation = getOperation(db, accountId, formatUuid(uuid))
  return {
    ...toOperationWire(operation, formatUuid(owner.uuid)),
    account: owner.name,
    list_name: listName,
    failed_emails: failedEmails,
  }
}
