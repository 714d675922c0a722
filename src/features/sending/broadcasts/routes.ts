/** @module Routes of POST /v1/emails/broadcast, and of /v1/operations to pause, resume and cancel. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { OperationRecord, toOperationWire } from '#features/core/operations/model.ts'
import { takesIdempotencyKey } from '#features/sending/accept/model.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/sendable.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { errorResponses, responseHeaders } from '#platform/http/route-errors.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { type ControlVerb, controlBroadcast } from './control.ts'
import { BroadcastStarted, NewBroadcast } from './model.ts'
import { sendBroadcast } from './send.ts'
import type { OnTransition } from './states.ts'

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
  describeRoute(summary, requires('emails:send'), description, {
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
        detail: describeRoute(
          'Send to all active contacts of a list',
          requires('emails:send', 'contacts:read'),
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
